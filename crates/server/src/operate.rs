//! The commands of an operator: `nodes`, `drain`, `resume`, `block`, `sessions`, `job`, `explain`, `cancel`.
//!
//! In reading order: `show` what an answer looks like, `table` how; here the calls.

use std::time::Duration;

use anyhow::Context;
use lingua_http_client::{HttpClient, HttpReply};
use serde_json::{Value, json};

use crate::cli::{Call, Explain, Failure, JobOf, NodeOrder, Nodes, Sessions};
use crate::out::say;
use crate::tls::Connector;
use crate::token::{advice, token_of_environment};

mod show;
mod table;

/// For a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// For an answer.
const LIMIT: Duration = Duration::from_secs(20);

/// Rows of one answer, and answers to one command: a list is never without an end.
const PAGE: usize = 1_000;
const PAGES: usize = 100;

pub(crate) fn nodes(options: &Nodes) -> Result<(), Failure> {
    let call = &options.call;
    match &options.id {
        Some(id) => {
            let path = format!("/api/v1/nodes/{}", segment(id));
            run(call, async |client| show(call, &ask(&client.get(&path).await)?, show::node))
        }
        None => run(call, async |client| {
            let all = pages(client, "/api/v1/nodes?", "nodes").await?;
            show(call, &all, |all| show::nodes(rows(all, "nodes"), &all["total"]))
        }),
    }
}

/// Drains, resumes or blocks a node.
pub(crate) fn order(options: &NodeOrder, order: &str) -> Result<(), Failure> {
    let path = format!("/api/v1/nodes/{}/{order}", segment(&options.id));
    run(&options.call, async |client| {
        let told = ask(&client.post(&path, &json!({})).await)?;
        let done = match order {
            "drain" => "finishes what it has and gets nothing new",
            "block" => "is shut out until it is resumed",
            _ => "serves again",
        };
        show(&options.call, &told, |_| format!("{} {done}", options.id))
    })
}

pub(crate) fn sessions(options: &Sessions) -> Result<(), Failure> {
    let only = options.instance.as_ref().map(|id| format!("instance={}&", segment(id)));
    let path = format!("/api/v1/sessions?{}", only.unwrap_or_default());
    run(&options.call, async |client| {
        let all = pages(client, &path, "sessions").await?;
        show(&options.call, &all, |all| {
            show::sessions(rows(all, "sessions"), &all["total"], &all["silent"])
        })
    })
}

pub(crate) fn job(options: &JobOf) -> Result<(), Failure> {
    let path = format!("/v1/job/{}", segment(&options.id));
    run(&options.call, async |client| {
        show(&options.call, &ask(&client.get(&path).await)?, show::job)
    })
}

pub(crate) fn cancel(options: &JobOf) -> Result<(), Failure> {
    let path = format!("/v1/job/{}", segment(&options.id));
    run(&options.call, async |client| {
        let told = ask(&client.delete(&path).await)?;
        let state = told["state"].as_str().unwrap_or("over").to_owned();
        show(&options.call, &told, |_| format!("job {} is {state}", options.id))
    })
}

pub(crate) fn explain(options: &Explain) -> Result<(), Failure> {
    let mut path = format!(
        "/api/v1/explain?src={}&tgt={}&tts={}",
        segment(&options.src),
        segment(&options.tgt),
        !options.text
    );
    for (name, value) in [("tenant", &options.tenant), ("node", &options.node)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", segment(value)));
        }
    }
    run(&options.call, async |client| {
        show(&options.call, &ask(&client.get(&path).await)?, show::explain)
    })
}

/// Calls the scheduler.
fn run(
    call: &Call,
    work: impl AsyncFnOnce(&HttpClient<Connector>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime does not start")?;
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

/// All pages of a list as one answer.
async fn pages(client: &HttpClient<Connector>, path: &str, list: &str) -> Result<Value, Failure> {
    let mut all = Value::Null;
    let mut after = String::new();
    for _ in 0..PAGES {
        let page = ask(&client.get(&format!("{path}limit={PAGE}{after}")).await)?;
        let next = page["next"].as_str().map(|next| format!("&after={}", segment(next)));
        append(&mut all, page, list);
        match next {
            Some(next) => after = next,
            None => break,
        }
    }
    Ok(all)
}

/// Puts the rows of a later page behind those of the earlier ones.
fn append(all: &mut Value, mut page: Value, list: &str) {
    if all.is_null() {
        *all = page;
    } else if let (Some(rows), Some(more)) = (all[list].as_array_mut(), page[list].as_array_mut()) {
        rows.append(more);
    }
    if let Some(fields) = all.as_object_mut() {
        fields.remove("next");
    }
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
    fn pages_become_one_list() {
        let mut all = Value::Null;
        append(&mut all, json!({"nodes": [1, 2], "total": 3, "next": "2"}), "nodes");
        append(&mut all, json!({"nodes": [3], "total": 3}), "nodes");
        assert_eq!(all, json!({"nodes": [1, 2, 3], "total": 3}));
    }
}
