//! Instances that know each other by their certificates.

use crate::gated::Line;
use crate::process;
use crate::tls_lab;

use std::time::Duration;

use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions, RedisServer};
use process::{Lingua, lingua, wait_for};
use serde_json::{Value, json};
use tls_lab::{Authority, Client, House, Tunnel};

const PEER_CA: &str = "peer_ca_file = \"DIR/instances.pem\"\nnode_ca_file = \"DIR/nodes.pem\"";

/// Hands in a job that only a node of another instance can do, until one is known; what became of it.
async fn hand_in(client: &HttpClient) -> Value {
    let job = json!({
        "session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAECAwQF",
        "options": {"wait_ms": 20_000},
    });
    let mut last = Value::Null;
    for _ in 0..400 {
        let reply = client.post("/v1/dispatch/f2f", &job).await.unwrap();
        last = reply.json().unwrap();
        if reply.status == 200 {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no node was found in time: {last}");
}

/// Two instances over one Redis, and a node at the second.
struct Pair {
    house: House,
    first: Lingua,
    second: Lingua,
    near: Tunnel,
    far: Tunnel,
    _node: FakeNode,
    _redis: RedisServer,
}

impl Pair {
    async fn start(house: House) -> Self {
        let redis = RedisServer::start().await.unwrap();
        house.configure(&format!("store = {:?}", redis.url()), PEER_CA);
        let first = house.start_as("log-1", &["--instance-id", "one"]);
        let second = house.start_as("log-2", &["--instance-id", "two"]);
        let client = house.client();
        let near = Tunnel::open(&client, first.address()).await;
        let far = Tunnel::open(&client, second.address()).await;
        let options = NodeOptions::new(far.ws("/ws/node")).behaviour(Behaviour::taking_ms(1));
        let node = FakeNode::connect(options).await.unwrap();
        Pair { house, first, second, near, far, _node: node, _redis: redis }
    }

    fn client(&self) -> HttpClient {
        HttpClient::new(self.near.http()).limit(Duration::from_secs(40))
    }
}

#[tokio::test]
async fn a_job_goes_to_the_node_of_another_instance_over_tls() {
    let pair = Pair::start(House::new()).await;
    let done = hand_in(&pair.client()).await;
    assert_eq!(done["job"]["state"], "DONE", "{done}");

    // Instances go on when both have other certificates.
    pair.house.show(&pair.house.instances.instance());
    for server in [&pair.first, &pair.second] {
        server.signal("HUP");
    }
    for log in ["log-1", "log-2"] {
        wait_for(log, || pair.house.read(log).contains("another certificate"));
    }
    let done = hand_in(&pair.client()).await;
    assert_eq!(done["job"]["state"], "DONE", "{done}");
}

#[tokio::test]
async fn sessions_of_another_instance_are_found_over_tls() {
    let pair = Pair::start(House::new()).await;
    let mut line = Line::open(pair.far.address(), "/ws/session", None).await;
    line.say(
        &json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
        "tgt_lang": "zh"}),
    )
    .await;
    let opened = line.hear_a("session_init_ack").await;
    let mut last = Value::Null;
    for _ in 0..200 {
        last = pair.client().get("/api/v1/sessions").await.unwrap().json().unwrap();
        let found = &last["sessions"][0];
        if found["instance"] == "two" && found["session_id"] == opened["session_id"] {
            assert_eq!(last["silent"], json!([]), "{last}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the other instance's session is not found: {last}");
}

#[tokio::test]
async fn bodies_are_told_to_instances_alone() {
    let pair = Pair::start(House::new()).await;
    let house = &pair.house;
    let path = "/internal/v1/bodies/x";
    let node_of_theirs = Client::with(&house.instances, &house.instances.node(&["n"]));
    for (who, client, refusal) in [
        ("nobody", house.client(), Some("certificates")),
        ("a node", Client::with(&house.instances, &house.nodes.node(&["n"])), Some("certificates")),
        ("a node of the same authority", node_of_theirs, Some("certificates")),
        ("a stranger", Client::with(&house.instances, &Authority::new("x").instance()), None),
        // Its certificate is not enough: a stolen one has no key of the instances beside it.
        ("an instance", Client::with(&house.instances, &house.instances.instance()), Some("sign")),
        (
            "one that was an instance",
            Client::with(&house.instances, &house.instances.instance_for(-60)),
            None,
        ),
    ] {
        let found = client.get(pair.first.address(), path).await.ok();
        let is_expected = match (&found, refusal) {
            (Some((403, body)), Some(word)) => body["detail"].as_str().unwrap().contains(word),
            (found, refusal) => found.is_none() && refusal.is_none(),
        };
        assert!(is_expected, "{who}: {found:?}");
    }
}

#[tokio::test]
async fn an_instance_is_met_only_if_its_authority_is_known() {
    let house = House::new();
    let redis = RedisServer::start().await.unwrap();
    house.configure(&format!("store = {:?}", redis.url()), PEER_CA);
    let _second = house.start_as("log-2", &["--instance-id", "two"]);
    // One whose certificate is another's: it neither believes nor is believed.
    let other = House::new();
    other.configure(&format!("store = {:?}", redis.url()), PEER_CA);
    let first = other.start_as("log", &["--instance-id", "one"]);
    let far = Tunnel::open(&house.client(), _second.address()).await;
    let options = NodeOptions::new(far.ws("/ws/node")).behaviour(Behaviour::taking_ms(1));
    let _node = FakeNode::connect(options).await.unwrap();
    let near = Tunnel::open(&other.client(), first.address()).await;
    let done = hand_in(&HttpClient::new(near.http()).limit(Duration::from_secs(60))).await;
    assert_ne!(done["job"]["state"], "DONE", "{done}");
    wait_for("it is told", || house.read("log-2").contains("certificate"));
}

#[test]
fn instances_that_share_a_store_need_to_know_each_other() {
    let house = House::new();
    house.configure("store = \"redis://127.0.0.1:1\"", "");
    let config = house.path("lingua.toml");
    let (code, error) = lingua(&["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(78), "{error}");
    assert!(error.contains("tls.peer_ca_file"), "{error}");
    house.configure("advertise = \"http://127.0.0.1:1\"", "");
    let (code, error) = lingua(&["config", "check", "--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(78), "{error}");
    assert!(error.contains("https://"), "{error}");
}
