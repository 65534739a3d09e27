//! `lingua dispatch`: one job from the shell, watched to its end.

use lingua_server::say;
use std::time::Duration;

use anyhow::Context;
use lingua_http_client::{HttpClient, HttpReply};
use serde_json::{Map, Value, json};

use crate::cli::{Dispatch, Failure, runtime};
use lingua_server::client::Connector;
use lingua_server::client::{advice, token_of_environment};

/// One look at a job whose state is being watched.
const LOOK_MS: u64 = 250;

/// For a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// A second of silence, 16 kHz, 16 bits, mono.
const SILENCE_BYTES: usize = 32_000;

/// Hands the job in and prints what becomes of it.
pub(crate) fn run(options: &Dispatch) -> Result<(), Failure> {
    let runtime = runtime()?;
    runtime.block_on(hand_in(options))
}

async fn hand_in(options: &Dispatch) -> Result<(), Failure> {
    let connector = Connector::new(options.authority.trust(&options.url)?, CONNECT);
    let client = HttpClient::with(connector, &options.url).limit(Duration::from_secs(90));
    let client = match token_of_environment()? {
        Some(token) => client.bearer(&token)?,
        None => client,
    };
    let audio = match &options.audio {
        Some(file) => {
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        None => vec![0; SILENCE_BYTES],
    };
    let kept = client.post_bytes("/v1/audio", "application/octet-stream", audio).await;
    let kept = kept.with_context(|| format!("the scheduler at {} does not answer", options.url))?;
    let kept = answer(&kept)?;
    let reply = client.post("/v1/dispatch/f2f", &request(options, &kept["audio_ref"])).await?;
    let job = answer(&reply)?;
    let id = job["job_id"].as_str().context("the answer has no job_id")?.to_owned();
    say(&format!("job {id} went to {} (attempt {})", text(&job["node_id"]), job["attempt_id"]));
    for note in job["notes"].as_array().into_iter().flatten() {
        say(&format!("note: {}", text(note)));
    }
    watch(&client, &id, options.json).await
}

fn request(options: &Dispatch, audio_ref: &Value) -> Value {
    let mut wishes = Map::new();
    wishes.insert("require_tts".into(), json!(!options.text));
    if let Some(node) = &options.prefer {
        wishes.insert("preferred_node_id".into(), json!(node));
        wishes.insert("strict".into(), json!(options.strict));
    }
    if let Some(ms) = options.deadline_ms {
        wishes.insert("deadline_ms".into(), json!(ms));
    }
    json!({
        "session_id": options.session,
        "src_lang": options.src,
        "tgt_lang": options.tgt,
        "audio_ref": audio_ref,
        "audio_format": options.format,
        "request_id": options.request_id,
        "options": wishes,
    })
}

/// Prints every change until the job is over. An end without a result is a failure.
async fn watch(client: &HttpClient<Connector>, id: &str, whole: bool) -> Result<(), Failure> {
    let mut state = String::new();
    loop {
        let reply = client.get(&format!("/v1/job/{id}?wait_ms={LOOK_MS}")).await?;
        let view = answer(&reply)?;
        let now = text(&view["state"]).to_owned();
        if now != state {
            say(&now);
            state = now;
        }
        if !matches!(state.as_str(), "DONE" | "FAILED" | "CANCELLED") {
            continue;
        }
        if whole {
            say(&serde_json::to_string_pretty(&view).context("the view is not JSON")?);
        } else if let Some(result) = view["result"].as_object() {
            let field = |name: &str| result.get(name).map_or("", text);
            say(&format!("recognised: {}", field("text_asr")));
            say(&format!("translated: {}", field("text_translated")));
        }
        return match view["error"].as_object() {
            Some(error) => {
                let part = |name: &str| error.get(name).map_or("", text);
                Err(Failure::failed(format!("{}: {}", part("code"), part("detail"))))
            }
            None if state == "DONE" => Ok(()),
            None => Err(Failure::failed(format!("the job ended {state}"))),
        };
    }
}

/// The answer's JSON; a refusal is a failure with the scheduler's own words.
fn answer(reply: &HttpReply) -> Result<Value, Failure> {
    let body = reply.json().unwrap_or(Value::Null);
    if reply.is_success() {
        return Ok(body);
    }
    let refused = match (body["error"].as_str(), body["detail"].as_str()) {
        (Some(code), Some(detail)) => format!("{code}: {detail}{}", advice(code)),
        _ => format!("the scheduler answered {}", reply.status),
    };
    Err(Failure::failed(refused))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn say(line: &str) {
    say!("{line}");
}
