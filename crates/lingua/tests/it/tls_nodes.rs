//! Nodes that are known by their certificates: who is let in as whom, and who is not.

use crate::tls_lab;

use std::net::SocketAddr;
use std::time::Duration;

use lingua_lab::{FakeNode, NodeOptions};
use serde_json::{Value, json};
use tls_lab::talk::ask;
use tls_lab::{Authority, Client, House, Paper, Tunnel};
use tokio::time::{Instant, sleep, timeout};

/// Who comes, under which name, and with which token.
struct Visit<'a> {
    paper: Option<&'a Paper>,
    node: &'a str,
    token: Option<&'a str>,
}

fn visit<'a>(paper: Option<&'a Paper>, node: &'a str, token: Option<&'a str>) -> Visit<'a> {
    Visit { paper, node, token }
}

impl Visit<'_> {
    fn client(&self, house: &House) -> Client {
        match self.paper {
            Some(paper) => Client::with(&house.instances, paper),
            None => house.client(),
        }
    }

    /// Registers over HTTP: the status, or nothing if not even TLS was agreed on.
    async fn http(&self, house: &House, address: SocketAddr) -> Option<u16> {
        let path = "/v1/node/register";
        let call =
            self.client(house).call(address, "POST", path, self.token, &report(self.node)).await;
        call.ok().map(|(status, _)| status)
    }

    /// Registers over the socket: 0 if it is let in, the code of the close if not, nothing if not even
    /// TLS was agreed on.
    async fn socket(&self, house: &House, address: SocketAddr) -> Option<u16> {
        let tunnel = Tunnel::open(&self.client(house), address).await;
        let mut options = NodeOptions::new(tunnel.ws("/ws/node")).node_id(self.node);
        options.token = self.token.map(str::to_owned);
        let mut node = FakeNode::unregistered(options).await.ok()?;
        match node.register().await {
            Ok(_) => Some(0),
            Err(_) => node.closed().await.unwrap().code,
        }
    }
}

fn report(node: &str) -> Value {
    json!({
        "node_id": node, "health": "ready", "semantic_langs": ["en", "zh"],
        "tts_langs": ["en", "zh"], "max_concurrent_jobs": 2,
    })
}

/// What becomes of each on both ways.
async fn check(
    house: &House,
    address: SocketAddr,
    visits: &[(Visit<'_>, Option<u16>, Option<u16>)],
) {
    for (n, (visit, http, socket)) in visits.iter().enumerate() {
        let who = format!("visit {n} as {}", visit.node);
        assert_eq!(visit.http(house, address).await, *http, "{who}");
        assert_eq!(visit.socket(house, address).await, *socket, "{who}");
    }
}

const NODE_CA: &str = "node_ca_file = \"DIR/nodes.pem\"";

#[tokio::test]
async fn a_certificate_is_one_node_and_opens_nothing_else() {
    let house = House::new().asking_for_tokens();
    house.configure("", NODE_CA);
    let server = house.start();
    let address = server.address();
    let (a, b) = (house.nodes.node(&["a"]), house.nodes.node(&["b"]));
    let nobody = house.nodes.node(&[]);
    let two = house.nodes.node(&["a", "b"]);
    let odd = house.nodes.node(&["a%2fb"]);
    let late = house.nodes.node_for(&["a"], -60);
    let foreign = Authority::new("nodes").node(&["a"]);
    let of_an_instance = house.instances.node(&["a"]);
    let (token_a, token_b) = (house.token("node", "a", &[]), house.token("node", "b", &[]));
    let session = house.token("session", "s", &["--tenant", "default"]);
    let (token_a, token_b) = (Some(token_a.as_str()), Some(token_b.as_str()));
    let (session, bad) = (Some(session.as_str()), Some("no-token"));
    let (none, refused, forbidden) = (Some(401), Some(1008), Some(403));
    check(
        &house,
        address,
        &[
            (visit(Some(&a), "a", None), Some(200), Some(0)),
            (visit(Some(&a), "b", None), forbidden, refused),
            (visit(Some(&b), "b", None), Some(200), Some(0)),
            (visit(None, "a", None), none, refused),
            (visit(None, "a", token_a), Some(200), Some(0)),
            (visit(None, "a", token_b), forbidden, refused),
            // Both have to be the same node's.
            (visit(Some(&a), "a", token_a), Some(200), Some(0)),
            (visit(Some(&a), "a", token_b), forbidden, refused),
            (visit(Some(&a), "b", token_b), forbidden, refused),
            (visit(Some(&a), "a", session), forbidden, refused),
            (visit(Some(&a), "a", bad), none, refused),
            // A certificate that names no node, or several, is as none.
            (visit(Some(&nobody), "a", None), none, refused),
            (visit(Some(&nobody), "a", token_a), Some(200), Some(0)),
            (visit(Some(&two), "a", None), none, refused),
            (visit(Some(&odd), "a", None), none, refused),
            // One that is not believed ends the connection.
            (visit(Some(&late), "a", None), None, None),
            (visit(Some(&foreign), "a", None), None, None),
            (visit(Some(&of_an_instance), "a", None), None, None),
        ],
    )
    .await;

    let client = Client::with(&house.instances, &a);
    for (method, path, status) in [
        ("GET", "/health", 200),
        ("GET", "/api/v1/nodes", 401),
        ("GET", "/metrics", 401),
        ("POST", "/v1/dispatch/f2f", 401),
        ("GET", "/v1/job/x", 401),
        ("POST", "/v1/audio", 401),
        ("GET", "/v1/node/b/jobs", 403),
    ] {
        let (found, _) = client.call(address, method, path, None, &Value::Null).await.unwrap();
        assert_eq!(found, status, "{method} {path}");
    }
}

#[tokio::test]
async fn a_node_may_leave_its_name_to_its_certificate_and_its_bounds_to_its_token() {
    let house = House::new().asking_for_tokens();
    house.configure("", NODE_CA);
    let server = house.start();
    let a = Client::with(&house.instances, &house.nodes.node(&["a"]));
    let admin = house.token("admin", "me", &[]);
    let slots = async || {
        let path = "/api/v1/nodes/a";
        let client = house.client();
        let call = client.call(server.address(), "GET", path, Some(&admin), &Value::Null);
        call.await.unwrap().1["slots"]["declared"].as_u64()
    };
    let tunnel = Tunnel::open(&a, server.address()).await;
    let options = NodeOptions::new(tunnel.ws("/ws/node")).max_jobs(9);
    let node = FakeNode::scripted(options.clone()).await.unwrap();
    assert_eq!(node.node_id(), "a");
    assert_eq!(slots().await, Some(9), "a certificate bounds nothing");
    let token = house.token("node", "a", &["--max-slots", "2"]);
    let node = FakeNode::scripted(options.token(token)).await.unwrap();
    assert_eq!(node.node_id(), "a");
    assert_eq!(slots().await, Some(2));
}

#[tokio::test]
async fn where_certificates_are_required_a_token_is_not_enough() {
    let house = House::new().asking_for_tokens();
    house.configure("", &format!("{NODE_CA}\nrequire_node_cert = true"));
    let server = house.start();
    let a = house.nodes.node(&["a"]);
    let token = house.token("node", "a", &[]);
    let token = Some(token.as_str());
    let nobody = house.nodes.node(&[]);
    check(
        &house,
        server.address(),
        &[
            (visit(None, "a", None), Some(403), Some(1008)),
            (visit(None, "a", token), Some(403), Some(1008)),
            (visit(Some(&nobody), "a", token), Some(403), Some(1008)),
            (visit(Some(&a), "a", None), Some(200), Some(0)),
            (visit(Some(&a), "a", token), Some(200), Some(0)),
        ],
    )
    .await;
    let session = house.token("session", "s", &["--tenant", "default"]);
    let job = json!({
        "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
    });
    let path = "/v1/dispatch/f2f";
    let client = house.client();
    let call = client.call(server.address(), "POST", path, Some(&session), &job);
    assert_ne!(call.await.unwrap().0, 403, "clients need none");
}

#[tokio::test]
async fn where_nobody_is_asked_for_tokens_a_certificate_is_still_one_node() {
    let house = House::new();
    house.configure("", &format!("{NODE_CA}\nrequire_node_cert = true"));
    let server = house.start();
    let a = house.nodes.node(&["a"]);
    check(
        &house,
        server.address(),
        &[
            (visit(None, "a", None), Some(403), Some(1008)),
            (visit(Some(&a), "b", None), Some(403), Some(1008)),
            (visit(Some(&a), "a", None), Some(200), Some(0)),
            (visit(Some(&a), "a", Some("x")), Some(200), Some(0)),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_certificate_that_is_taken_back_is_no_longer_good_for_anything() {
    let house = House::new().asking_for_tokens();
    let (a, b) = (house.nodes.node(&["a"]), house.nodes.node(&["b"]));
    house.write("crl.pem", &house.nodes.taken_back(&[]));
    house.configure("", &format!("{NODE_CA}\nnode_crl_file = \"DIR/crl.pem\""));
    let server = house.start();
    let address = server.address();
    let mut open = Vec::new();
    let mut tunnels = Vec::new();
    for (paper, name) in [(&a, "a"), (&b, "b")] {
        let client = Client::with(&house.instances, paper);
        let tunnel = Tunnel::open(&client, address).await;
        let options = NodeOptions::new(tunnel.ws("/ws/node")).node_id(name);
        open.push(FakeNode::scripted(options).await.unwrap());
        tunnels.push(tunnel);
    }
    let mut kept = Client::with(&house.instances, &a).connect(address).await.unwrap();
    let mut asked = async || {
        let path = "/v1/node/heartbeat";
        ask(&mut kept, "POST", path, None, &report("a")).await.unwrap().0
    };
    assert_eq!(asked().await, 404, "it is known, and has not registered here");

    house.write("crl.pem", &house.nodes.taken_back(&[&a]));
    server.signal("HUP");
    let closed = timeout(Duration::from_secs(20), open[0].closed()).await.unwrap().unwrap();
    assert_eq!(closed.code, Some(1008), "{closed:?}");
    assert_eq!(asked().await, 401, "on a connection from before");
    let again = visit(Some(&a), "a", None);
    assert_eq!(again.http(&house, address).await, None);
    assert_eq!(again.socket(&house, address).await, None);

    open[1].register().await.unwrap();
    let other = visit(Some(&b), "b", None);
    assert_eq!(other.http(&house, address).await, Some(200));
}

#[tokio::test]
async fn a_socket_ends_with_the_certificate_that_opened_it() {
    let house = House::new();
    house.configure("", &format!("{NODE_CA}\n[identity]\nleeway_s = 0\nrecheck_ms = 100"));
    let server = house.start();
    let brief = house.nodes.node_for(&["a"], 4);
    let tunnel = Tunnel::open(&Client::with(&house.instances, &brief), server.address()).await;
    let options = NodeOptions::new(tunnel.ws("/ws/node")).node_id("a");
    let node = FakeNode::scripted(options).await.unwrap();
    let closed = timeout(Duration::from_secs(20), node.closed()).await.unwrap().unwrap();
    assert_eq!(closed.code, Some(1008), "{closed:?}");
    let again = visit(Some(&brief), "a", None);
    let began = Instant::now();
    // It is good until the end of its last second.
    while again.http(&house, server.address()).await.is_some() {
        assert!(began.elapsed() < Duration::from_secs(20));
        sleep(Duration::from_millis(50)).await;
    }
}
