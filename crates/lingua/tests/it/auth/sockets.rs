//! Both sockets, with every kind of token.

use super::*;

/// The end of a socket.
pub(super) struct Line(WebSocketStream<Socket>);

impl Line {
    pub(super) async fn open(to: SocketAddr, path: &str, token: Option<&str>) -> Self {
        let mut request = format!("ws://{to}{path}").into_client_request().unwrap();
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let stream = Socket::connect(to).await.unwrap();
        Line(client_async(request, stream).await.unwrap().0)
    }

    pub(super) async fn say(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// The next message; a close as `{"close": code, "reason": text}`.
    pub(super) async fn hear(&mut self) -> Value {
        loop {
            let heard = tokio::time::timeout(Duration::from_secs(20), self.0.next()).await.unwrap();
            match heard {
                Some(Ok(Message::Text(text))) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    if message["type"] != "heartbeat_ack" {
                        return message;
                    }
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    return json!({"close": u16::from(frame.code), "reason": frame.reason.as_str()});
                }
                Some(Ok(_)) => {}
                other => return json!({"close": null, "reason": format!("{other:?}")}),
            }
        }
    }
}

pub(super) fn register(node: &str, token: Option<&str>) -> Value {
    json!({"type": "node_register", "running": [], "node_id": node, "token": token, "max_concurrent_jobs": 8,
        "supports": ["ack"], "language_capabilities": {"semantic_languages": ["en", "zh"], "tts_languages": ["zh", "en"]}})
}

fn session_init(token: Option<&str>, tenant: Option<&str>) -> Value {
    json!({"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "en",
        "tgt_lang": "zh", "token": token, "tenant_id": tenant})
}

#[tokio::test(flavor = "multi_thread")]
async fn every_opening_of_a_socket_with_every_kind_of_token() {
    let place = Place::start("");
    for (path, opening, good) in [
        ("/ws/session", session_init(None, None), &["session", "other tenant"][..]),
        ("/ws/node", register("node-1", None), &["node"]),
    ] {
        for kind in KINDS {
            for in_header in [true, false] {
                let token = place.token(kind);
                let header = token.as_deref().filter(|_| in_header);
                let mut line = Line::open(place.address(), path, header).await;
                let mut first = opening.clone();
                first["token"] = json!(token.filter(|_| !in_header));
                line.say(first).await;
                let answer = line.hear().await;
                let about = format!("{path} with {kind}, header {in_header}: {answer}");
                if good.contains(&kind) {
                    let ack = answer["type"].as_str().unwrap_or_default();
                    assert!(ack.ends_with("_ack"), "{about}");
                    continue;
                }
                let code = if BAD.contains(&kind) { "UNAUTHORIZED" } else { "FORBIDDEN" };
                assert_eq!(
                    (&answer["type"], &answer["code"]),
                    (&json!("error"), &json!(code)),
                    "{about}"
                );
                let end = line.hear().await;
                assert_eq!(end["close"], 1008, "{about}: {end}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_heard_before_the_opening() {
    let place = Place::start("");
    let (session, node) = (place.token("session"), place.token("node"));
    for (path, token, words) in [
        (
            "/ws/session",
            session,
            &[
                "audio_chunk",
                "utterance",
                "finalize",
                "set_languages",
                "cancel",
                "client_heartbeat",
                "tts_started",
                "tts_play_ended",
                "session_close",
                "auth",
            ][..],
        ),
        (
            "/ws/node",
            node,
            &[
                "node_heartbeat",
                "job_ack",
                "job_reject",
                "job_started",
                "asr_partial",
                "job_progress",
                "job_result",
                "node_error",
                "auth",
            ],
        ),
    ] {
        for word in words {
            let mut line = Line::open(place.address(), path, token.as_deref()).await;
            let all = json!({"type": word, "session_id": "s", "seq": 1, "is_final": true, "token": token,
                "utterance_index": 0, "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA", "node_id": "node-1",
                "job_id": "0000000000000000000000000a", "attempt_id": 1, "success": true, "code": "x", "message": "x",
                "text": "x", "stage": "asr"});
            line.say(all).await;
            let answer = line.hear().await;
            assert_eq!(answer["type"], "error", "{path} {word}: {answer}");
            let code = answer["code"].as_str().unwrap();
            assert!(["INVALID_MESSAGE", "NOT_FOUND"].contains(&code), "{path} {word}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_speaks_for_its_own_tenant_only() {
    let place = Place::start("");
    let token = place.token("session");
    for (tenant, code) in [(Some("acme"), None), (Some("other"), Some("FORBIDDEN"))] {
        let mut line = Line::open(place.address(), "/ws/session", None).await;
        line.say(session_init(token.as_deref(), tenant)).await;
        let answer = line.hear().await;
        assert_eq!(answer["code"].as_str(), code, "{answer}");
    }
    let mut line = Line::open(place.address(), "/ws/session", token.as_deref()).await;
    line.say(session_init(None, None)).await;
    assert_eq!(line.hear().await["type"], "session_init_ack");
    let sessions = call(
        place.address(),
        "GET",
        "/api/v1/sessions",
        place.token("admin").as_deref(),
        &Value::Null,
    );
    let tenants: Vec<_> =
        sessions.body["sessions"].as_array().unwrap().iter().map(|s| &s["tenant"]).collect();
    assert!(!tenants.is_empty() && tenants.iter().all(|tenant| *tenant == "acme"), "{sessions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nodes_token_bounds_its_slots_and_its_tenants() {
    let place = Place::start("[nodes]\nslow_start = \"off\"");
    let now = now_s();
    let claims = json!({"iss": "lingua", "aud": "lingua", "sub": "node-1", "jti": "j", "nbf": now, "exp": now + 60,
        "role": "node", "tenants": ["acme"], "max_slots": 3});
    let token = sign(&place.key("right"), &claims);
    let mut node = Line::open(place.address(), "/ws/node", Some(&token)).await;
    // Its id is the token's, whether or not it says so.
    let mut nameless = register("node-1", None);
    nameless["node_id"] = Value::Null;
    nameless["max_concurrent_jobs"] = json!(256);
    node.say(nameless).await;
    assert_eq!(node.hear().await["node_id"], "node-1");
    let admin = place.token("admin");
    let seen = call(place.address(), "GET", "/api/v1/nodes/node-1", admin.as_deref(), &Value::Null);
    assert_eq!(seen.body["slots"]["open"].as_u64(), Some(3), "{seen:?}");
    let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA"});
    let own =
        call(place.address(), "POST", "/v1/dispatch/f2f", place.token("session").as_deref(), &job);
    assert_eq!(own.status, 200, "{own:?}");
    let others = call(
        place.address(),
        "POST",
        "/v1/dispatch/f2f",
        place.token("other tenant").as_deref(),
        &job,
    );
    assert_eq!(
        (others.status, &others.body["error"]),
        (422, &json!("NO_CAPABLE_NODE")),
        "{others:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_ends_with_its_token_unless_a_newer_one_is_shown() {
    let place = Place::start("");
    let now = now_s;
    let token = |jti: &str, life: u64| {
        let claims = json!({"iss": "lingua", "aud": "lingua", "sub": "app", "jti": jti, "nbf": now(),
            "exp": now() + life, "role": "session", "tenant": "acme"});
        sign(&place.key("right"), &claims)
    };
    let open = async |token: &str| {
        let mut line = Line::open(place.address(), "/ws/session", Some(token)).await;
        line.say(session_init(None, None)).await;
        assert_eq!(line.hear().await["type"], "session_init_ack");
        line
    };
    let (mut short, mut renewed, mut revoked) =
        (open(&token("a", 3)).await, open(&token("b", 3)).await, open(&token("c", 600)).await);
    for (other, code) in
        [("node", "UNAUTHORIZED"), ("other tenant", "UNAUTHORIZED"), ("expired", "UNAUTHORIZED")]
    {
        renewed.say(json!({"type": "auth", "token": place.token(other)})).await;
        assert_eq!(renewed.hear().await["code"], code, "{other}");
    }
    renewed.say(json!({"type": "auth", "token": token("d", 600)})).await;
    let ack = renewed.hear().await;
    assert_eq!(ack["type"], "auth_ack");
    assert!(ack["expires_ms"].as_u64().unwrap() > (now() + 500) * 1_000, "{ack}");
    let admin = place.token("admin");
    call(place.address(), "POST", "/api/v1/revocations", admin.as_deref(), &json!({"jti": "c"}));
    for (line, why) in
        [(&mut revoked, "the token is revoked"), (&mut short, "the token has expired")]
    {
        let error = line.hear().await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!("UNAUTHORIZED"), &json!(why)),
            "{error}"
        );
        assert_eq!(line.hear().await["close"], 1008);
    }
    renewed.say(json!({"type": "client_heartbeat", "timestamp": 1})).await;
    assert_eq!(renewed.hear().await["type"], "server_heartbeat", "it may stay");
}
