//! The wrong calls, and what each must be answered.

use super::*;

fn long(n: usize) -> Value {
    json!("x".repeat(n))
}

/// Three-letter tags, each another language.
fn tags(n: u8) -> Value {
    (0..n).map(|i| format!("q{}{}", char::from(b'a' + i / 26), char::from(b'a' + i % 26))).collect()
}

fn wrong_ids() -> Vec<Value> {
    vec![
        json!(""),
        json!("a b"),
        json!("a/b"),
        json!("é"),
        json!("a:b"),
        long(65),
        json!(5),
        json!({}),
    ]
}

pub(super) fn dispatch(table: &mut Table) {
    let path = "/v1/dispatch/f2f";
    let good = job("bad-input");
    table.not_an_object(path, 4 << 20);
    for name in ["session_id", "src_lang", "tgt_lang"] {
        table.needed(path, &good, name);
    }
    table.field(path, &good, "session_id", &wrong_ids(), BAD);
    let no_text = [json!(5), json!(true), json!(["en"])];
    let no_language =
        [json!(""), json!("e"), json!("english"), json!("en--US"), json!("x-private"), long(40)];
    for name in ["src_lang", "tgt_lang", "lang_a", "lang_b"] {
        table.field(path, &good, name, &no_text, BAD);
        table.field(path, &good, name, &no_language, LANGUAGE);
    }
    table.field(path, &good, "src_lang", &[json!("auto"), json!("AUTO")], LANGUAGE);
    table.field(path, &good, "tgt_lang", &[json!("auto"), json!("zh CN"), json!("{zh}")], LANGUAGE);
    let one = json!({"src_lang": "auto", "lang_a": "en"});
    table.add(path, Sent::Json(with(&good, one)), LANGUAGE, "lang_b");
    table.field(path, &good, "mode", &[json!("three_way"), json!(""), json!(5)], BAD);
    let auto = json!({"src_lang": "auto", "lang_a": "en", "lang_b": "zh", "mode": "one_way"});
    table.add(path, Sent::Json(with(&good, auto)), BAD, "mode");
    dispatch_audio(table, path, &good);
    table.field(path, &good, "request_id", &wrong_ids(), BAD);
    table.field(path, &good, "trace_id", &[json!(5), long(129), json!("a\u{0}b")], BAD);
    table.field(path, &good, "dialect", &[json!(5), long(129), json!("a\u{7}")], BAD);
    table.field(path, &good, "context_text", &[json!(5), long(4_097), json!(["x"])], BAD);
    let large = json!({ "x": "y".repeat(70_000) });
    table.field(path, &good, "pipeline", &[json!([]), json!("x"), json!(5), large.clone()], BAD);
    let sixty_five: Value = (0..65).map(|i| format!("f{i}")).collect();
    let no_features = [json!("x"), json!(5), large, json!([5]), json!(["a b"]), sixty_five];
    table.field(path, &good, "features", &no_features, BAD);
    dispatch_options(table, path, &good);

    let strict = json!({"options": {"preferred_node_id": "nobody", "strict": true}});
    let not_capable = (422, "PREFERRED_NODE_NOT_CAPABLE");
    table.add(path, Sent::Json(with(&good, strict)), not_capable, "asked for");
    let nobody = (422, "NO_CAPABLE_NODE");
    table.add(path, Sent::Json(with(&good, json!({"src_lang": "de"}))), nobody, "semantic(de)");
    let service = json!({"options": {"services": ["tone"]}});
    table.add(path, Sent::Json(with(&good, service)), nobody, "service(tone)");
    let twice =
        br#"{"session_id":"a","session_id":"b","src_lang":"en","tgt_lang":"zh","audio":"AAEC"}"#;
    table.add(path, Sent::Raw(twice.to_vec()), BAD, "session_id");
    let other = json!({"request_id": "used-before", "tgt_lang": "en"});
    table.add(path, Sent::Json(with(&good, other)), (409, "CONFLICT"), "request_id");
}

fn dispatch_audio(table: &mut Table, path: &str, good: &Value) {
    table.add(path, Sent::Json(with(good, json!({"audio": null}))), BAD, "audio");
    let both = json!({"audio_ref": "blob://x"});
    table.add(path, Sent::Json(with(good, both)), BAD, "audio_ref");
    table.add(path, Sent::Json(with(good, json!({"text": "and a text"}))), BAD, "text");
    let typed = with(good, json!({"audio": null}));
    let no_text = [json!(""), json!(" "), json!(5), json!(["x"]), long(4_097), json!("a\u{0}b")];
    table.field(path, &typed, "text", &no_text, BAD);
    let no_base64 = ["", "AAE", "AA-_", "A A=", "====", "AAEC\n", "AAEC=", "é"];
    table.field(path, good, "audio", &no_base64.map(|text| json!(text)), BAD);
    table.field(path, good, "audio", &[json!(5), json!([1, 2]), json!({})], BAD);
    let long_audio = json!("A".repeat((2 << 20) / 3 * 4 + 8));
    table.field(path, good, "audio", &[long_audio], LARGE);
    let by_reference = with(good, json!({"audio": null}));
    let marked = format!("blob://{:032x}.99999999999999.{}", 7, "0".repeat(32));
    let foreign = [
        json!(""),
        json!("x"),
        json!("blob://"),
        json!("blob://x"),
        json!("http://127.0.0.1/"),
        json!("file:///etc/passwd"),
        json!("../../x"),
        json!(marked),
        long(10_000),
        json!(5),
        json!([]),
    ];
    table.field(path, &by_reference, "audio_ref", &foreign, BAD);
    table.field(path, good, "audio_format", &[json!("mp3"), json!(""), json!(1)], BAD);
    let no_rate = [0i64, 7_999, 192_001, -1, i64::MAX].map(|n| json!(n));
    table.field(path, good, "sample_rate", &no_rate, BAD);
    table.field(path, good, "sample_rate", &[json!("16000"), json!(16_000.5)], BAD);
    let huge =
        br#"{"session_id":"s","src_lang":"en","tgt_lang":"zh","audio":"AAEC","sample_rate":1e999}"#;
    table.add(path, Sent::Raw(huge.to_vec()), BAD, "");
}

fn dispatch_options(table: &mut Table, path: &str, good: &Value) {
    table.field(path, good, "options", &[json!([true]), json!("x"), json!(5)], BAD);
    let mut option = |name: &str, wrong: &[Value]| {
        for value in wrong {
            let sent = Sent::Json(with(good, json!({"options": { name: value }})));
            table.add(path, sent, BAD, &format!("options.{name}"));
        }
    };
    option("require_tts", &[json!("yes"), json!(1)]);
    option(
        "accept",
        &[json!("speech"), json!([]), json!(["smell"]), json!(["original"]), json!([5])],
    );
    option("profile", &[json!("quick"), json!(""), json!(5)]);
    option("preferred_node_id", &wrong_ids());
    option("strict", &[json!("true"), json!(1), json!(true)]);
    let no_deadline = [99i64, 600_001, 0, -1, i64::MAX].map(|n| json!(n));
    option("deadline_ms", &no_deadline);
    option("deadline_ms", &[json!("1000"), json!(1.5), json!(u64::MAX), json!([])]);
    option("wait_ms", &[json!(-1), json!(60_001), json!("1"), json!(0.5), json!(u64::MAX)]);
    option("turn_id", &wrong_ids());
    option("utterance_index", &[json!(-1), json!("0"), json!(1u64 << 53), json!(1.5)]);
    let sixty_five: Value = (0..65).map(|i| format!("s{i}")).collect();
    option(
        "services",
        &[json!("x"), json!([""]), json!(["a b"]), json!([5]), json!({}), sixty_five],
    );
    let nine: Value = (0..9).map(|i| format!("m{i}")).collect();
    let seventeen: Value = (0..17).map(|i| format!("r{i}")).collect();
    option("residency", &[json!("eu"), json!([""]), json!(["e u"]), json!([5]), seventeen]);
    option("region", &[json!("e u"), json!(5), json!(["eu"])]);
    let sixty_five: Value = (0..65).map(|i| format!("f{i}")).collect();
    option("features", &[json!("x"), json!([""]), json!(["a@1 2"]), json!([5]), sixty_five]);
    option("models", &[json!("m"), json!([""]), json!(["a b"]), json!([5]), json!({}), nine]);
}

/// The fields that registering and heartbeats share.
fn about_itself(table: &mut Table, path: &str, good: &Value) {
    table.not_an_object(path, 16 << 20);
    table.needed(path, good, "node_id");
    table.field(path, good, "node_id", &wrong_ids(), BAD);
    table.field(path, good, "health", &[json!("fine"), json!(""), json!(5), json!([])], BAD);
    let (no_list, no_language) = (
        [json!("en"), json!([5]), json!({}), json!([null]), json!([["en"]])],
        [json!([""]), json!(["english!"]), json!(["auto"]), json!(["en", "e"]), tags(65)],
    );
    for (name, says) in [("semantic_langs", "semantic"), ("asr_langs", "asr"), ("tts_langs", "tts")]
    {
        table.field(path, good, name, &no_list, BAD);
        for wrong in &no_language {
            table.add(path, Sent::Json(with(good, json!({ name: wrong }))), UNABLE, says);
        }
    }
    let no_pairs = [json!(5), json!({}), json!([[1, 2]]), json!(["en", "zh"]), json!(true)];
    table.field(path, good, "nmt_pairs", &no_pairs, BAD);
    let no_pair = [
        json!("all"),
        json!([["en"]]),
        json!([["en", "zh", "de"]]),
        json!([["en", "!"]]),
        json!([[]]),
    ];
    table.field(path, good, "nmt_pairs", &no_pair, UNABLE);
    let no_slots = [0i64, -1, 257, 1 << 40].map(|n| json!(n));
    table.field(path, good, "max_concurrent_jobs", &no_slots, UNABLE);
    table.field(path, good, "max_concurrent_jobs", &[json!("2"), json!(1.5), json!(u64::MAX)], BAD);
    table.field(path, good, "accept_public_jobs", &[json!("no"), json!(0)], BAD);
    abilities_and_load(table, path, good);
}

/// What it has installed.
fn installed(table: &mut Table, path: &str, good: &Value) {
    for (name, id, most) in [("services", "service_id", 128), ("models", "model_id", 256)] {
        let no_id = [json!([{}]), json!([{ id: "" }]), json!([{ id: "a@1" }]), json!([{ id: 5 }])];
        table.field(path, good, name, &no_id, BAD);
        table.field(path, good, name, &[json!("x"), json!([5]), json!({}), json!([["a"]])], BAD);
        let too_many: Value = (0..=most).map(|i| json!({ id: format!("x{i}") })).collect();
        table.add(path, Sent::Json(with(good, json!({ name: too_many }))), UNABLE, "at most");
    }
    let no_features =
        [json!("x"), json!(5), json!({"a": []}), json!(["a b"]), json!(["a@"]), json!([5])];
    table.field(path, good, "features", &no_features, BAD);
    let too_many: Value = (0..65).map(|i| format!("f{i}")).collect();
    table.add(
        path,
        Sent::Json(with(good, json!({ "features": too_many }))),
        UNABLE,
        "at most 64 features",
    );
}

/// What it has ready, what it runs and how loaded it is.
fn abilities_and_load(table: &mut Table, path: &str, good: &Value) {
    let no_types = [
        json!({}),
        json!([5]),
        json!([{}]),
        json!([["nmt", true]]),
        json!([{"type": "x", "ready": "yes"}]),
        json!([{"type": 5}]),
    ];
    table.field(path, good, "capability_by_type", &no_types, BAD);
    let sixty_five: Value = (0..65).map(|i| json!({"type": format!("t{i}")})).collect();
    for wrong in [json!([{"type": ""}]), json!([{"type": "a b"}]), sixty_five] {
        table.add(
            path,
            Sent::Json(with(good, json!({"capability_by_type": wrong}))),
            UNABLE,
            "service type",
        );
    }
    installed(table, path, good);
    let no_jobs = [
        json!({}),
        json!([5]),
        json!([[NO_JOB, 1]]),
        json!([{"job_id": "x", "attempt_id": 1}]),
        json!([{"job_id": NO_JOB}]),
        json!([{"job_id": NO_JOB, "attempt_id": 0}]),
        json!([{"job_id": NO_JOB, "attempt_id": -1}]),
        json!([{"job_id": NO_JOB, "attempt_id": "1"}]),
        (0..1_025).map(|_| json!({"job_id": NO_JOB, "attempt_id": 1})).collect(),
    ];
    table.field(path, good, "running", &no_jobs, BAD);
    let no_load = [
        json!(5),
        json!([0.5]),
        json!({"gpu": "x"}),
        json!({"gpu_mem": 1.5}),
        json!({"gpu": 52}),
        json!({"cpu": -0.1}),
        json!({"mem": 1.01}),
    ];
    table.field(path, good, "current_load", &no_load, BAD);
    let infinite = format!(r#"{{"node_id":{},"current_load":{{"mem":1e999}}}}"#, good["node_id"]);
    table.add(path, Sent::Raw(infinite.into_bytes()), BAD, "");
}

pub(super) fn register(table: &mut Table) {
    let (path, good) = ("/v1/node/register", node("bad-node"));
    about_itself(table, path, &good);
    let without = Sent::Json(with(&good, json!({"semantic_langs": null})));
    table.add(path, without, UNABLE, "semantic");
    table.add(path, Sent::Json(with(&good, json!({"semantic_langs": []}))), UNABLE, "semantic");
    table.field(path, &good, "endpoint", &[json!(5), json!([]), json!({})], BAD);
    let no_endpoint = [
        "",
        "x",
        "/jobs",
        "https://127.0.0.1/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://example.com/",
        "http://127.0.0.1.example.com/",
        "http://127.0.0.1@10.0.0.1/",
        "http://0.0.0.0:80/",
        "http://[::]/",
        "http://127.0.0.1:99999/",
    ];
    table.field(path, &good, "endpoint", &no_endpoint.map(|url| json!(url)), UNABLE);
    table.field(path, &good, "version", &[json!(5), long(129)], BAD);
    table.field(path, &good, "platform", &[json!([]), json!("a\u{1b}[0m")], BAD);
    let large = json!({ "gpus": "y".repeat(20_000) });
    table.field(path, &good, "hardware", &[json!([]), json!("x"), json!(5), large], BAD);
}

pub(super) fn heartbeat(table: &mut Table) {
    let path = "/v1/node/heartbeat";
    about_itself(table, path, &json!({"node_id": "asks"}));
    table.add(path, Sent::Json(json!({"node_id": "nobody"})), UNKNOWN, "register again");
}

pub(super) fn words(table: &mut Table) {
    for path in ["/v1/job/ack", "/v1/job/done", "/v1/job/fail"] {
        let mut good = json!({"node_id": "asks", "job_id": NO_JOB, "attempt_id": 1});
        if path.ends_with("fail") {
            good["reason"] = json!("NMT_TIMEOUT");
        }
        table.not_an_object(path, 16 << 20);
        for name in ["node_id", "job_id", "attempt_id"] {
            table.needed(path, &good, name);
        }
        table.field(path, &good, "node_id", &wrong_ids(), BAD);
        let no_job =
            [json!("x"), json!(""), json!(NO_JOB.to_uppercase()), long(27), json!(5), json!([])];
        table.field(path, &good, "job_id", &no_job, BAD);
        let no_attempt =
            [json!(0), json!(-1), json!("1"), json!(1.5), json!(1u64 << 32), json!([])];
        table.field(path, &good, "attempt_id", &no_attempt, BAD);
        table.field(path, &good, "lease_token", &[json!(5)], BAD);
        table.add(path, Sent::Json(good.clone()), UNKNOWN, "no such job");
        let nobody = with(&good, json!({"node_id": "nobody"}));
        table.add(path, Sent::Json(nobody), UNKNOWN, "register again");
        if path.ends_with("done") {
            table.field(path, &good, "status", &[json!("error"), json!(""), json!(5)], BAD);
            let no_result =
                [json!([]), json!("x"), json!(5), json!({"success": "yes"}), json!({"success": 1})];
            table.field(path, &good, "result", &no_result, BAD);
        }
        if path.ends_with("fail") {
            table.needed(path, &good, "reason");
            table.field(
                path,
                &good,
                "reason",
                &[json!(""), json!(5), long(513), json!("\u{0}")],
                BAD,
            );
            table.field(path, &good, "status", &[json!("ok"), json!(5)], BAD);
            table.field(path, &good, "model", &[json!(5), long(129)], BAD);
        }
    }
}

pub(super) fn looks(table: &mut Table) {
    let mut get = |path: &str, want: Want, says: &str| table.add(path, Sent::Get, want, says);
    for wait in ["-1", "x", "60001", "1.5", "1&wait_ms=2", "99999999999999999999", "%00", "NaN"] {
        get(&format!("/v1/node/asks/jobs?wait_ms={wait}"), BAD, "wait_ms");
        get(&format!("/v1/job/{NO_JOB}?wait_ms={wait}"), BAD, "wait_ms");
    }
    get("/v1/node/nobody/jobs", UNKNOWN, "register again");
    get("/v1/node/a%20b/jobs", BAD, "id");
    get("/v1/node/%ff/jobs", BAD, "id");
    get(&format!("/v1/node/{}/jobs", "x".repeat(65)), BAD, "id");
    for path in ["x", "%ff", "0123456789ABCDEFGHJKMNPQRS", "a%2Fb", "0123456789abcdefghijklmnop"] {
        get(&format!("/v1/job/{path}"), BAD, "job_id");
    }
    get(&format!("/v1/job/{NO_JOB}"), UNKNOWN, "no such job");
    for path in ["x", "blob%3A%2F%2Fx", "%ff", "a.b.c", "..%2F..%2Fetc"] {
        get(&format!("/v1/audio/{path}"), BAD, "ref");
    }
    for limit in ["0", "1001", "-1", "x"] {
        get(&format!("/api/v1/nodes?limit={limit}"), BAD, "limit");
    }
    get("/api/v1/nodes?after=a%20b", BAD, "after");
    get("/api/v1/nodes/nobody", UNKNOWN, "node");
    get("/api/v1/nodes/a%20b", BAD, "id");
    for (query, want, says) in [
        ("", BAD, "src"),
        ("?src=en", BAD, "tgt"),
        ("?src=&tgt=zh", BAD, "src"),
        ("?src=e&tgt=zh", LANGUAGE, "src"),
        ("?src=en&tgt=auto", LANGUAGE, "tgt"),
        ("?src=en&src=de&tgt=zh", BAD, "src"),
        ("?src=en&tgt=zh&tts=maybe", BAD, "tts"),
        ("?src=en&tgt=zh&node=a%20b", BAD, "node"),
    ] {
        get(&format!("/api/v1/explain{query}"), want, says);
    }
    get("/nowhere", UNKNOWN, "/nowhere");
    get("/v1/job", UNKNOWN, "nothing");
    get("/v1/dispatch/f2f", (405, "METHOD_NOT_ALLOWED"), "GET");
    for order in ["drain", "resume", "block"] {
        table.add(&format!("/api/v1/nodes/nobody/{order}"), Sent::Json(json!({})), UNKNOWN, "node");
        table.add(&format!("/api/v1/nodes/a%20b/{order}"), Sent::Json(json!({})), BAD, "id");
    }
    table.add(&format!("/v1/job/{NO_JOB}"), Sent::Delete, UNKNOWN, "no such job");
    table.add("/v1/job/x", Sent::Delete, BAD, "job_id");
    table.add("/health", Sent::Delete, (405, "METHOD_NOT_ALLOWED"), "DELETE");
    table.add("/v1/audio", Sent::Raw(Vec::new()), BAD, "audio");
    table.add("/v1/audio", Sent::Raw(vec![0; (2 << 20) + 1]), LARGE, "bytes");
    table.add("/v1/job/ack/more", Sent::Json(json!({})), UNKNOWN, "nothing");
}
