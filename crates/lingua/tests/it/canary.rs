//! A run with everything on, in which every secret is recognisable: what is said, heard and shown
//! must be found in no log, trace, metric, audit line, administrator's view or error.

use crate::collector;
use crate::gated;
use crate::process;

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use collector::{Collector, Mood};
use gated::{Keys, Line, call, raw};
use lingua_lab::RedisConfig;
use process::{Lingua, wait_for};
use serde_json::{Value, json};

pub const HEARD: &str = "canaryheard7q";
pub const MEANT: &str = "canarymeant8w";
const PARTLY: &str = "canarypartly1z";
pub const FAULT: &str = "canaryfault9e";
/// Of itself, for its administrators: shown to them, and found nowhere else.
const NEWS: &str = "canarynews0p";
const SPEECH: &str = "canaryspeech2rcanaryspeech2r";
const VOICE: &str = "canaryvoice3tcanaryvoice3t";
const PASSWORD: &str = "canarypassword4y";
const BAD: &str = "canarybad5u";
const TOKEN: &str = "eyJcanarytoken6i";

/// What may not be found, by name: each in every form in which it could appear.
pub struct Secrets(Vec<(String, Vec<String>)>);

impl Secrets {
    pub fn new() -> Self {
        let mut secrets = Secrets(Vec::new());
        for plain in [HEARD, MEANT, PARTLY, FAULT, NEWS, SPEECH, VOICE, PASSWORD, BAD, TOKEN] {
            secrets.add(plain, plain);
        }
        secrets
    }

    pub fn add(&mut self, name: &str, plain: &str) {
        let hex: String = plain.bytes().map(|byte| format!("{byte:02x}")).collect();
        let list = plain.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        let mut forms = vec![plain.to_owned(), hex.to_uppercase(), hex, list];
        // Base64 looks different at each of three places; its ends depend on the neighbours.
        for before in 0..3 {
            let padded = [&vec![b'x'; before][..], plain.as_bytes()].concat();
            let text = STANDARD.encode(padded);
            forms.push(text[4..text.len() - 4].to_owned());
        }
        self.0.push((name.to_owned(), forms));
    }

    /// Where something of it is found, with what stands around it.
    pub fn found_in(&self, place: &str, text: &str) -> Vec<String> {
        let forms =
            self.0.iter().flat_map(|(name, forms)| forms.iter().map(move |form| (name, form)));
        let found = forms.filter_map(|(name, form)| {
            let at = text.find(form.as_str())?;
            let from = text.floor_char_boundary(at.saturating_sub(300));
            let to = text.ceil_char_boundary((at + form.len() + 80).min(text.len()));
            Some(format!("{place} has {name}: …{}…", &text[from..to]))
        });
        found.collect()
    }
}

#[test]
fn a_secret_is_found_in_every_form() {
    let secrets = Secrets::new();
    for before in 0..3 {
        let said = format!("{}{SPEECH} and more", "y".repeat(before));
        assert!(!secrets.found_in("x", &STANDARD.encode(&said)).is_empty());
        assert!(!secrets.found_in("x", &said).is_empty());
    }
    assert!(!secrets.found_in("x", &format!("{:?}", HEARD.as_bytes())).is_empty());
    assert!(secrets.found_in("x", "nothing of it").is_empty());
}

pub fn speech() -> String {
    // An even number of bytes, as samples have.
    STANDARD.encode(SPEECH.repeat(40))
}

/// Everything that an error says.
#[derive(Default)]
struct Errors(String);

impl Errors {
    fn ask(&mut self, to: SocketAddr, path: &str, token: Option<&str>, body: &[u8]) {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let answer = raw(to, method, path, token, body);
        assert!(answer.status >= 400, "{path}: {answer:?}");
        self.0.push_str(&answer.text);
    }

    /// Says something that cannot be, and hears that it cannot.
    async fn say(&mut self, line: &mut Line, text: String) {
        line.say_text(text).await;
        loop {
            let answer = line.hear().await;
            let is_error = answer["type"] == "error";
            if is_error || answer.get("close").is_some() {
                self.0.push_str(&format!("{answer}\n"));
                return;
            }
        }
    }
}

/// Messages that cannot be, with something in them that must not come back.
fn nonsense(kind: &str, session: &str) -> Vec<String> {
    let mut all = vec![
        format!("{{\"type\": \"{kind}\", \"text\": \"{BAD}\""),
        BAD.to_owned(),
        format!("[\"{BAD}\"]"),
        json!({"type": kind, "session_id": [BAD], "seq": BAD, "utterance_index": BAD, "job_id": BAD,
            "attempt_id": BAD, "success": BAD, "is_final": BAD})
        .to_string(),
        json!({"type": kind, "job_id": BAD, "attempt_id": 1, "success": true}).to_string(),
    ];
    if !session.is_empty() {
        all.extend([
            json!({"type": "utterance", "utterance_index": 50, "src_lang": "en", "tgt_lang": "zh", "audio": format!("{BAD}!{BAD}")}).to_string(),
            json!({"type": "utterance", "utterance_index": 51, "src_lang": "en", "tgt_lang": "zh", "audio": speech(), "audio_format": BAD}).to_string(),
            json!({"type": "auth", "token": TOKEN}).to_string(),
        ]);
    }
    all
}

/// A node takes the next job and does it well or badly.
pub async fn work(node: &mut Line, secrets: &mut Secrets, success: bool) {
    let assign = node.hear_a("job_assign").await;
    secrets.add("lease token", assign["lease_token"].as_str().unwrap());
    let about = |kind: &str, more: Value| {
        let mut said = json!({"type": kind, "job_id": assign["job_id"], "attempt_id": assign["attempt_id"],
            "lease_token": assign["lease_token"]});
        said.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said
    };
    let result = if success {
        json!({"success": true, "text_asr": HEARD, "text_translated": MEANT, "tts_audio": STANDARD.encode(VOICE),
            "tts_format": "pcm16"})
    } else {
        json!({"success": false, "error": {"code": "NMT_BROKEN", "message": FAULT, "details": {"said": HEARD}}})
    };
    for said in [
        about("job_ack", json!({})),
        about("job_started", json!({})),
        about("asr_partial", json!({"text": PARTLY, "is_final": false})),
        about("job_progress", json!({"stage": "nmt", "text": PARTLY})),
        json!({"type": "node_error", "code": "GPU_LOST", "message": NEWS}),
        about("job_result", result),
    ] {
        node.say(&said).await;
    }
}

/// The path of a call with what is there to look at.
fn filled_in(path: &str, session: &str, job: &str) -> String {
    let path = path.replace("sessions/{id}", &format!("sessions/{session}"));
    let path = path.replace("{id}", "node-1").replace("{job_id}", job);
    path.replace("explain", "explain?src=en&tgt=zh")
}

/// A token of each role.
struct Tokens {
    admin: String,
    node: String,
    session: String,
}

/// One that goes well, and one that does not.
async fn conversations(
    to: SocketAddr,
    tokens: &Tokens,
    secrets: &mut Secrets,
    errors: &mut Errors,
) -> (Line, Line, String) {
    let mut node = Line::open(to, "/ws/node", None).await;
    node.say(&json!({"type": "node_register", "running": [], "node_id": "node-1", "token": tokens.node, "max_concurrent_jobs": 8,
        "supports": ["ack", "tokens", "result_ack"],
        "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh", "en"]}})).await;
    node.hear_a("node_register_ack").await;
    let mut session = Line::open(to, "/ws/session", None).await;
    session.say(&json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
        "tgt_lang": "zh", "token": tokens.session, "codec": "pcm16", "enable_streaming_asr": true,
        "supports": ["resume", "events"]})).await;
    let ack = session.hear_a("session_init_ack").await;
    let session_id = ack["session_id"].as_str().unwrap().to_owned();
    secrets.add("resume token", ack["resume_token"].as_str().unwrap());
    for (index, success) in [(0, true), (1, false)] {
        session.say(&json!({"type": "utterance", "utterance_index": index, "src_lang": "en", "tgt_lang": "zh",
            "audio": speech(), "audio_format": "pcm16"})).await;
        // A job that failed is tried again here, since there is no other node, or ends.
        for _ in 0..if success { 1 } else { 2 } {
            let work = work(&mut node, secrets, success);
            if tokio::time::timeout(Duration::from_secs(3), work).await.is_err() {
                break;
            }
        }
        let ending =
            session.hear_a(if success { "translation_result" } else { "missing_result" }).await;
        if success {
            assert_eq!(ending["text_translated"], MEANT, "what is said does reach who it is for");
        } else {
            errors.0.push_str(&ending.to_string());
        }
    }
    (node, session, session_id)
}

/// An administrator sees how a job went, and not what was said in it.
async fn a_job_of_the_tenant(
    to: SocketAddr,
    tokens: &Tokens,
    node: &mut Line,
    secrets: &mut Secrets,
    errors: &mut Errors,
) -> String {
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": speech(), "audio_format": "pcm16"});
    let handed_in = call(to, "POST", "/v1/dispatch/f2f", Some(&tokens.session), &job);
    assert_eq!(handed_in.status, 200, "{handed_in:?}");
    work(node, secrets, true).await;
    let job_id = handed_in.body["job_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/job/{job_id}?attempts=true");
    wait_for("the owner can read it", || {
        call(to, "GET", &path, Some(&tokens.session), &Value::Null).text.contains(MEANT)
    });
    let seen = call(to, "GET", &path, Some(&tokens.admin), &Value::Null);
    assert_eq!(seen.status, 200, "{seen:?}");
    errors.0.push_str(&seen.text);
    job_id
}

async fn nonsense_on_sockets(
    to: SocketAddr,
    tokens: &Tokens,
    node: &mut Line,
    session_id: &str,
    errors: &mut Errors,
) {
    for kind in ["audio_chunk", "utterance", "cancel"] {
        for text in nonsense(kind, session_id) {
            let mut line = Line::open(to, "/ws/session", Some(&tokens.session)).await;
            line.say(&json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en", "tgt_lang": "zh"})).await;
            line.hear_a("session_init_ack").await;
            errors.say(&mut line, text).await;
        }
    }
    for text in nonsense("job_result", "") {
        errors.say(node, text).await;
    }
    for first in [
        json!({"type": "session_init", "token": TOKEN, "client_version": "1", "platform": "t", "src_lang": "en", "tgt_lang": "zh"}),
        json!({"type": "session_init", "token": [TOKEN], "client_version": "1", "platform": "t", "src_lang": "en", "tgt_lang": "zh"}),
        json!({"type": "session_init", "resume_token": {"a": TOKEN}, "client_version": "1", "platform": "t", "src_lang": "en", "tgt_lang": "zh", "token": tokens.session}),
    ] {
        let mut line = Line::open(to, "/ws/session", None).await;
        errors.say(&mut line, first.to_string()).await;
    }
}

fn nonsense_over_http(to: SocketAddr, tokens: &Tokens, errors: &mut Errors) {
    let job = |audio: &str, format: &str| {
        json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": audio, "audio_format": format}).to_string()
    };
    for (path, body) in [
        ("/v1/dispatch/f2f", format!("{{\"audio\": \"{BAD}\"")),
        ("/v1/dispatch/f2f", job(&format!("{BAD}!"), "pcm16")),
        ("/v1/dispatch/f2f", job(&speech(), BAD)),
        ("/v1/dispatch/f2f", json!({"session_id": [BAD], "audio": {"a": BAD}}).to_string()),
        ("/v1/dispatch/f2f", json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio_ref": format!("http://{BAD}/")}).to_string()),
    ] {
        errors.ask(to, path, Some(&tokens.session), body.as_bytes());
    }
    for (path, body) in [
        (
            "/v1/job/done",
            json!({"job_id": BAD, "attempt_id": BAD, "node_id": "node-1", "text_asr": [HEARD]}),
        ),
        (
            "/v1/job/fail",
            json!({"job_id": "0000000000000000000000000a", "attempt_id": 1, "node_id": "node-1", "code": [BAD], "message": FAULT}),
        ),
        ("/v1/node/heartbeat", json!({"node_id": "node-1", "resource_usage": BAD})),
    ] {
        errors.ask(to, path, Some(&tokens.node), body.to_string().as_bytes());
    }
    for token in
        [TOKEN, &format!("{TOKEN}.{TOKEN}.{TOKEN}"), &tokens.session, &format!("{}x", tokens.admin)]
    {
        errors.ask(to, "/api/v1/stats", Some(token), b"");
        errors.ask(
            to,
            "/api/v1/revocations",
            Some(token),
            format!("{{\"jti\": \"{BAD}\"}}").as_bytes(),
        );
    }
    errors.ask(
        to,
        "/api/v1/revocations",
        Some(&tokens.admin),
        json!({"jti": [TOKEN]}).to_string().as_bytes(),
    );
    errors.ask(to, "/api/v1/nodes?limit=canarybad5u", Some(&tokens.admin), b"");
}

/// What administrators and machines read.
fn views(to: SocketAddr, admin: &str, session_id: &str, job_id: &str) -> String {
    let drained = call(to, "POST", "/api/v1/nodes/node-1/drain", Some(admin), &json!({}));
    assert_eq!(drained.status, 200);
    let mut views = String::new();
    for (method, path, _) in lingua_server::calls() {
        let read = path.starts_with("/api/v1/")
            || ["/metrics", "/health", "/ready", "/openapi.json", "/asyncapi.json"].contains(&path);
        if method == "GET" && read && path != "/api/v1/events" {
            let path = filled_in(path, session_id, job_id);
            let view = call(to, "GET", &path, Some(admin), &Value::Null);
            assert_eq!(view.status, 200, "{path}: {view:?}");
            views.push_str(&view.text);
        }
    }
    views
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_said_or_shown_is_found_where_it_does_not_belong() {
    let redis = RedisConfig::new().password(PASSWORD).start().await.unwrap();
    let collector = Collector::start(Mood::Well).await;
    let keys = Keys::make();
    let audit = keys.directory.path().join("audit.log");
    let top = format!(
        "store = \"redis://:{PASSWORD}@127.0.0.1:{}/0\"\notlp = \"{}\"\ntrace_share = 1.0\ninstance_id = \"i-1\"",
        redis.port(),
        collector.url()
    );
    let config = keys.config(&top, &format!("[audit]\nfile = {:?}", audit.to_str().unwrap()));
    let args = ["serve", "--config", config.to_str().unwrap(), "--log-format", "json"];
    let (mut lingua, log) = Lingua::logged(&args, &[("LINGUA_LOG", "trace")]);
    let (to, greeting) = (lingua.address(), lingua.greeting().join("\n"));
    let (admin, node_token, session_token) =
        (keys.admin("ops", "a-1"), keys.node("node-1", "n-1"), keys.session("acme", "s-1"));
    let mut secrets = Secrets::new();
    for (name, token) in [
        ("admin's token", &admin),
        ("node's token", &node_token),
        ("session's token", &session_token),
    ] {
        secrets.add(name, token.rsplit('.').next().unwrap());
    }
    let mut errors = Errors::default();

    let tokens = Tokens { admin, node: node_token, session: session_token };
    let (mut node, session, session_id) =
        conversations(to, &tokens, &mut secrets, &mut errors).await;
    let job_id = a_job_of_the_tenant(to, &tokens, &mut node, &mut secrets, &mut errors).await;
    nonsense_on_sockets(to, &tokens, &mut node, &session_id, &mut errors).await;
    nonsense_over_http(to, &tokens, &mut errors);
    let views = views(to, &tokens.admin, &session_id, &job_id);
    drop((node, session));
    lingua.signal("TERM");
    let code = tokio::task::spawn_blocking(move || (lingua.exit_code(), log.all())).await.unwrap();
    let (Some(0), log) = code else { panic!("{code:?}") };
    assert!(log.contains("\"TRACE\"") || log.contains("\"DEBUG\""), "it tells little");
    assert!(!log.contains("panicked"), "{log}");
    let traces = String::from_utf8(collector.raw()).unwrap();
    assert!(traces.contains("node-1") || traces.contains("attempt"), "{traces}");
    let audit = std::fs::read_to_string(audit).unwrap();
    assert!(audit.contains("node.drain") && audit.contains("refused.unreadable"), "{audit}");

    assert!(views.contains(NEWS), "an administrator does see what a node says of itself");
    let views = views.replace(NEWS, "");
    let mut found = Vec::new();
    for (place, text) in [
        ("the log", &log),
        ("a trace", &traces),
        ("the audit log", &audit),
        ("an error", &errors.0),
        ("a view", &views),
        ("the greeting", &greeting),
    ] {
        found.extend(secrets.found_in(place, text));
    }
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n\n"));
}
