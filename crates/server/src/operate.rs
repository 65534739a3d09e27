//! The commands of an operator: `nodes`, `drain`, `resume`, `block`, `sessions`, `disconnect`, `jobs`, `job`, `cancel`,
//! `explain`.
//!
//! In reading order: `show` what an answer looks like, `table` how, `words` for its reasons; here the calls.

use std::time::Duration;

use lingua_http_client::{HttpClient, HttpReply};
use serde_json::{Value, json};

use crate::cli::{Call, Explain, Failure, JobOf, Jobs, NodeOrder, Nodes, SessionOrder, Sessions};
use crate::out::say;
use crate::runtime::runtime;
use crate::tls::Connector;
use crate::token::{advice, token_of_environment};

mod show;
mod table;
mod words;

/// For a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// For an answer.
const LIMIT: Duration = Duration::from_secs(20);

/// Rows of one answer, and rows of one command: every list has an end.
const PAGE: usize = 1_000;
const MOST: usize = 100_000;

pub(crate) fn nodes(options: &Nodes) -> Result<(), Failure> {
    let Nodes { id, state, src, tgt, instance, call } = options;
    if let Some(id) = id {
        let path = format!("/api/v1/nodes/{}", segment(id));
        return run(call, async |client| show(call, &ask(&client.get(&path).await)?, show::node));
    }
    let wanted = [("state", state), ("src", src), ("tgt", tgt), ("instance", instance)];
    let path = format!("/api/v1/nodes?{}", query(&wanted));
    run(call, async |client| {
        let all = pages(client, &path, "nodes", MOST).await?;
        show(call, &all, |all| show::nodes(rows(all, "nodes"), &all["total"]))
    })
}

/// Drains, resumes or blocks a node.
pub(crate) fn order(options: &NodeOrder, order: &str) -> Result<(), Failure> {
    let path = format!("/api/v1/nodes/{}/{order}", segment(&options.id));
    run(&options.call, async |client| {
        let told = ask(&client.post(&path, &json!({})).await)?;
        let done = match order {
            "drain" => "finishes its jobs and gets no new ones",
            "block" => "is blocked until it is resumed",
            _ => "serves again",
        };
        show(&options.call, &told, |_| format!("{} {done}", options.id))
    })
}

pub(crate) fn sessions(options: &Sessions) -> Result<(), Failure> {
    let Sessions { id, tenant, connected, src, tgt, instance, call } = options;
    if let Some(id) = id {
        let path = format!("/api/v1/sessions/{}?{}", segment(id), query(&[("tenant", tenant)]));
        return run(call, async |client| {
            show(call, &ask(&client.get(&path).await)?, |told| show::session(told, now_ms()))
        });
    }
    let connected = connected.map(|connected| connected.to_string());
    let wanted = [
        ("tenant", tenant),
        ("connected", &connected),
        ("src", src),
        ("tgt", tgt),
        ("instance", instance),
    ];
    let path = format!("/api/v1/sessions?{}", query(&wanted));
    run(call, async |client| {
        let all = pages(client, &path, "sessions", MOST).await?;
        show(call, &all, |all| show::sessions(all, rows(all, "sessions")))
    })
}

pub(crate) fn disconnect(options: &SessionOrder) -> Result<(), Failure> {
    let SessionOrder { id, tenant, call } = options;
    let wanted = query(&[("tenant", tenant)]);
    let path = format!("/api/v1/sessions/{}/disconnect?{wanted}", segment(id));
    run(call, async |client| {
        let told = ask(&client.post(&path, &json!({})).await)?;
        show(call, &told, |_| format!("session {id} is disconnected"))
    })
}

pub(crate) fn jobs(options: &Jobs) -> Result<(), Failure> {
    let Jobs { state, src, tgt, tenant, session, node, code, instance, limit, call } = options;
    let wanted = [
        ("state", state),
        ("src", src),
        ("tgt", tgt),
        ("tenant", tenant),
        ("session", session),
        ("node", node),
        ("code", code),
        ("instance", instance),
    ];
    let path = format!("/api/v1/jobs?{}", query(&wanted));
    run(call, async |client| {
        let all = pages(client, &path, "jobs", *limit as usize).await?;
        show(call, &all, |all| show::jobs(all, rows(all, "jobs"), now_ms()))
    })
}

pub(crate) fn job(options: &JobOf) -> Result<(), Failure> {
    let path = format!("/api/v1/jobs/{}", segment(&options.id));
    run(&options.call, async |client| {
        let told = ask(&client.get(&path).await)?;
        show(&options.call, &told, |told| show::job(told, now_ms()))
    })
}

pub(crate) fn cancel(options: &JobOf) -> Result<(), Failure> {
    let path = format!("/api/v1/jobs/{}/cancel", segment(&options.id));
    run(&options.call, async |client| {
        let told = ask(&client.post(&path, &json!({})).await)?;
        let state = told["state"].as_str().unwrap_or("over").to_owned();
        show(&options.call, &told, |_| format!("job {} is {state}", options.id))
    })
}

pub(crate) fn explain(options: &Explain) -> Result<(), Failure> {
    let Explain { src, tgt, text, tenant, node, call } = options;
    let (src, tgt) = (segment(src), segment(tgt));
    let wanted = query(&[("tenant", tenant), ("node", node)]);
    let path = format!("/api/v1/explain?{wanted}src={src}&tgt={tgt}&tts={}", !text);
    run(call, async |client| show(call, &ask(&client.get(&path).await)?, show::explain))
}

/// Calls the scheduler.
fn run(
    call: &Call,
    work: impl AsyncFnOnce(&HttpClient<Connector>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let connector = Connector::new(call.authority.trust(&call.url)?, CONNECT);
        let client = HttpClient::with(connector, &call.url).limit(LIMIT);
        let client = match token_of_environment()? {
            Some(token) => client.bearer(&token)?,
            None => client,
        };
        work(&client).await
    })
}

/// The pages of a list as one answer, `most` rows of it. `next` is left if there are more.
async fn pages(
    client: &HttpClient<Connector>,
    path: &str,
    list: &str,
    most: usize,
) -> Result<Value, Failure> {
    let mut all = Value::Null;
    let mut after = String::new();
    loop {
        let limit = (most - rows(&all, list).len()).min(PAGE);
        let page = ask(&client.get(&format!("{path}limit={limit}{after}")).await)?;
        append(&mut all, page, list);
        match all["next"].as_str() {
            Some(next) if rows(&all, list).len() < most => {
                after = format!("&after={}", segment(next));
            }
            _ => return Ok(all),
        }
    }
}

/// Puts the rows of a later page behind those of the earlier ones.
fn append(all: &mut Value, mut page: Value, list: &str) {
    let mut rows = all[list].take();
    if let (Some(rows), Some(more)) = (rows.as_array_mut(), page[list].as_array_mut()) {
        rows.append(more);
        page[list] = rows.drain(..).collect();
    }
    *all = page;
}

fn rows<'a>(all: &'a Value, list: &str) -> &'a [Value] {
    all[list].as_array().map_or(&[], Vec::as_slice)
}

/// The answer's JSON; a refusal is a failure with the scheduler's own words.
fn ask(reply: &anyhow::Result<HttpReply>) -> Result<Value, Failure> {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return Err(Failure::failed(format!("no answer: {error:#}"))),
    };
    let body = reply.json().unwrap_or(Value::Null);
    if reply.is_success() {
        return Ok(body);
    }
    Err(Failure::failed(match (body["error"].as_str(), body["detail"].as_str()) {
        (Some(code), Some(detail)) => format!("{code}: {detail}{}", advice(code)),
        _ => format!("the scheduler answered {}", reply.status),
    }))
}

fn show(call: &Call, told: &Value, shown: impl Fn(&Value) -> String) -> Result<(), Failure> {
    match call.json {
        true => say!("{told:#}"),
        false => say!("{}", shown(told)),
    }
    Ok(())
}

/// The values that are given as the beginning of a query; what follows is one more value.
fn query(wanted: &[(&str, &Option<String>)]) -> String {
    let given = wanted.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    given.map(|(name, value)| format!("{name}={}&", segment(value))).collect()
}

/// Epoch milliseconds by this machine's clock.
fn now_ms() -> u64 {
    lingua_store::Clock::system().now().as_millis()
}

/// Text as one segment of a path or a value of a query.
fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match plain(byte) {
            true => segment.push(char::from(byte)),
            false => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_types_is_one_segment() {
        assert_eq!(segment("gpu-1_a.b~"), "gpu-1_a.b~");
        assert_eq!(segment("a/../b?c=é"), "a%2F..%2Fb%3Fc%3D%C3%A9");
    }

    #[test]
    fn pages_become_one_list_that_says_whether_more_follow() {
        let mut all = Value::Null;
        append(&mut all, json!({"nodes": [1, 2], "total": 3, "next": "2"}), "nodes");
        assert_eq!(all, json!({"nodes": [1, 2], "total": 3, "next": "2"}));
        append(&mut all, json!({"nodes": [3], "total": 4, "next": "3"}), "nodes");
        append(&mut all, json!({"nodes": [4], "total": 4}), "nodes");
        assert_eq!(all, json!({"nodes": [1, 2, 3, 4], "total": 4}));
    }

    #[test]
    fn a_query_has_what_is_given() {
        let given = Some("a b&c".to_owned());
        assert_eq!(query(&[("src", &None), ("tenant", &given)]), "tenant=a%20b%26c&");
        assert_eq!(query(&[("src", &None)]), "");
    }
}
