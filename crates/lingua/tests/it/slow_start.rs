//! Nodes with a credential under `nodes.slow_start = "all"`: slots that are not earned are held back,
//! and refusals say so.

use serde_json::{Value, json};

use crate::gated::{Keys, Line, call};
use crate::process::Lingua;

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_how_many_slots_of_a_slowly_started_node_are_open() {
    let keys = Keys::make();
    let config = keys.config("", "[nodes]\nslow_start = \"all\"\n[jobs]\nqueue_max_ms = 200");
    let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
    let mut node = Line::open(lingua.address(), "/ws/node", Some(&keys.node("n", "n"))).await;
    node.say(
        &json!({"type": "node_register", "running": [], "node_id": "n", "max_concurrent_jobs": 2,
        "language_capabilities": {"semantic_languages": ["en", "zh"]}}),
    )
    .await;
    node.hear_a("node_register_ack").await;
    let session = keys.session("t", "t");
    let dispatch = || {
        let job = json!({"session_id": "s", "src_lang": "en", "tgt_lang": "zh", "audio": "AAAA",
            "options": {"require_tts": false}});
        call(lingua.address(), "POST", "/v1/dispatch/f2f", Some(&session), &job)
    };
    let slots = || {
        let admin = keys.admin("a", "a");
        call(lingua.address(), "GET", "/api/v1/nodes/n", Some(&admin), &Value::Null).body
    };
    assert_eq!(dispatch().status, 200);
    let assign = node.hear_a("job_assign").await;
    let refused = dispatch();
    assert_eq!((refused.status, &refused.body["error"]), (503, &json!("ALL_NODES_BUSY")));
    let detail = refused.body["detail"].as_str().unwrap();
    assert_eq!(detail, "every open slot of the able nodes is taken: 1 of 2 slots open");
    let seen = slots();
    assert_eq!(
        (&seen["slots"]["open"], &seen["slots"]["declared"]),
        (&json!(1), &json!(2)),
        "{seen}"
    );
    assert!(seen["why_idle"].to_string().contains("1 of 2 slots open"), "{seen}");
    // A success opens the next one.
    node.say(
        &json!({"type": "job_result", "job_id": assign["job_id"], "attempt_id": 1, "success": true,
        "text_asr": "a", "text_translated": "b"}),
    )
    .await;
    while slots()["slots"]["open"] != 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!((dispatch().status, dispatch().status), (200, 200));
}
