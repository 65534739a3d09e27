//! What an answer of the scheduler looks like in a terminal: pure, from its JSON.

use serde_json::Value;

use super::table::table;

/// All nodes.
pub(super) fn nodes(nodes: &[Value], total: &Value) -> String {
    let row = |node: &Value| {
        vec![
            text(&node["node_id"]),
            text(&node["state"]),
            text(&node["instance"]),
            format!("{}/{}", text(&node["slots"]["used"]), text(&node["slots"]["open"])),
            text(&node["breaker"]),
            text(&node["order"]),
            text(&node["done"]),
            text(&node["failed"]),
            languages(&node["abilities"]),
            first(&node["why_idle"]),
        ]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    let head = [
        "NODE",
        "STATE",
        "INSTANCE",
        "SLOTS",
        "BREAKER",
        "ORDER",
        "DONE",
        "FAILED",
        "LANGUAGES",
        "WHY IDLE",
    ];
    format!("{}\n{} nodes", table(&head, &rows), text(total))
}

/// One node, a fact in a line.
pub(super) fn node(node: &Value) -> String {
    let slots = &node["slots"];
    let detail = &node["detail"];
    let mut rows = vec![
        fact("state", text(&node["state"])),
        fact("instance", text(&node["instance"])),
        fact("order", text(&node["order"])),
        fact("breaker", text(&node["breaker"])),
        fact(
            "slots",
            format!(
                "{} used, {} open, {} declared",
                text(&slots["used"]),
                text(&slots["open"]),
                text(&slots["declared"])
            ),
        ),
        fact("jobs", format!("{} done, {} failed", text(&node["done"]), text(&node["failed"]))),
        fact("latency", with_unit(&node["latency_ms"], " ms")),
        fact("languages", languages(&node["abilities"])),
        fact("directions", list(&node["abilities"]["nmt"])),
        fact("supports", list(&node["supports"])),
        fact("version", text(&detail["version"])),
        fact("hardware", text(&detail["hardware"])),
        fact("last error", text(&detail["last_error"])),
    ];
    rows.extend(each(&node["why_idle"]).map(|why| fact("why idle", text(why))));
    rows.extend(each(&node["useful_if"]).map(|wanted| {
        fact("useful if", format!("{} for {}", list(&wanted["lacks"]), text(&wanted["direction"])))
    }));
    rows.retain(|row| row[1] != NOTHING);
    table(&["NODE", &text(&node["node_id"])], &rows)
}

/// All sessions.
pub(super) fn sessions(sessions: &[Value], total: &Value, silent: &Value) -> String {
    let row = |one: &Value| {
        vec![
            text(&one["session_id"]),
            text(&one["instance"]),
            text(&one["tenant"]),
            text(&one["direction"]),
            if one["connected"] == true { "yes" } else { "no" }.to_owned(),
            text(&one["utterances"]),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let head = ["SESSION", "INSTANCE", "TENANT", "DIRECTION", "CONNECTED", "UTTERANCES"];
    let mut told = format!("{}\n{} sessions", table(&head, &rows), text(total));
    if each(silent).next().is_some() {
        told.push_str(&format!("; no answer from {}", list(silent)));
    }
    told
}

/// One job: how it stands, and each attempt.
pub(super) fn job(job: &Value) -> String {
    let mut rows = vec![
        fact("state", text(&job["state"])),
        fact("session", text(&job["session_id"])),
        fact("node", text(&job["node_id"])),
        fact("heard", text(&job["result"]["text_asr"])),
        fact("translated", text(&job["result"]["text_translated"])),
    ];
    if job["error"].is_object() {
        let error = format!("{}: {}", text(&job["error"]["code"]), text(&job["error"]["detail"]));
        rows.push(fact("error", error));
    }
    for attempt in each(&job["attempts"]) {
        let of = format!("attempt {}", text(&attempt["attempt_id"]));
        rows.push(vec![
            of,
            format!("{} on {}", text(&attempt["state"]), text(&attempt["node_id"])),
        ]);
    }
    rows.retain(|row| row[1] != NOTHING);
    table(&["JOB", &text(&job["job_id"])], &rows)
}

/// Where a job would go.
pub(super) fn explain(told: &Value) -> String {
    let direction = format!("{} -> {}", text(&told["src"]), text(&told["tgt"]));
    let speech = if told["tts"] == true { "spoken" } else { "as text" };
    let mut lines = vec![format!(
        "{direction}, {speech}: {} of {} nodes can do it, {} jobs wait",
        text(&told["eligible"]),
        text(&told["nodes"]),
        text(&told["waiting"])
    )];
    if told["missing"].is_string() {
        lines.push(text(&told["missing"]));
    }
    let reasons = each(&told["reasons"]);
    let reasons: Vec<_> =
        reasons.map(|one| vec![text(&one["reason"]), text(&one["nodes"])]).collect();
    if !reasons.is_empty() {
        lines.push(table(&["WHY NOT", "NODES"], &reasons));
    }
    let node = &told["node"];
    if node.is_object() {
        let able = if node["eligible"] == true { "can do it" } else { "cannot do it" };
        lines.push(format!("{} {able} {}", text(&node["node_id"]), list(&node["why_not"])));
        lines.extend(each(&node["why_idle"]).map(text));
    }
    lines.join("\n")
}

/// What stands for a field that is not there.
const NOTHING: &str = "-";

fn fact(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// Text as it is, numbers as numbers. Names come from nodes and clients: what would move the cursor is left out.
fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => return NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let shown: String = text.chars().filter(|letter| !letter.is_control()).collect();
    if shown.is_empty() { NOTHING.to_owned() } else { shown }
}

fn with_unit(value: &Value, unit: &str) -> String {
    if value.is_null() { NOTHING.to_owned() } else { format!("{}{unit}", text(value)) }
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn list(list: &Value) -> String {
    let all: Vec<_> = each(list).map(text).collect();
    if all.is_empty() { NOTHING.to_owned() } else { all.join(", ") }
}

fn first(list: &Value) -> String {
    each(list).next().map_or_else(|| NOTHING.to_owned(), text)
}

/// Languages that it hears.
fn languages(abilities: &Value) -> String {
    list(&abilities["asr_langs"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_have_a_row_each_and_say_why_they_are_idle() {
        let one = json!({"node_id": "gpu-1", "state": "ready", "slots": {"used": 1, "open": 4, "declared": 4},
            "breaker": "closed", "order": "drain", "done": 7, "failed": 0,
            "abilities": {"asr_langs": ["en", "zh"]}, "why_idle": ["an administrator drained it"]});
        let shown = nodes(&[one], &json!(1));
        let row = shown.lines().nth(1).unwrap();
        for part in ["gpu-1", "1/4", "drain", "en, zh", "an administrator drained it"] {
            assert!(row.contains(part), "{shown}");
        }
        assert!(shown.ends_with("1 nodes"), "{shown}");
    }

    #[test]
    fn of_one_node_only_what_is_known_is_told() {
        let shown = node(&json!({"node_id": "n", "state": "ready", "why_idle": ["a", "b"],
            "useful_if": [{"direction": "en->sw", "lacks": ["tts", "nmt"]}]}));
        assert!(shown.contains("useful if  tts, nmt for en->sw"), "{shown}");
        assert!(!shown.contains("hardware"), "{shown}");
        assert_eq!(shown.matches("why idle").count(), 2, "{shown}");
    }

    #[test]
    fn a_job_tells_its_error_and_attempts() {
        let shown = job(&json!({"job_id": "j", "state": "FAILED",
            "error": {"code": "JOB_TIMEOUT", "detail": "late"},
            "attempts": [{"attempt_id": 1, "state": "lost", "node_id": "n"}]}));
        assert!(shown.contains("JOB_TIMEOUT: late") && shown.contains("lost on n"), "{shown}");
    }

    #[test]
    fn an_explanation_has_its_reasons() {
        let shown =
            explain(&json!({"src": "en", "tgt": "sw", "tts": true, "nodes": 3, "eligible": 0,
            "waiting": 0, "missing": "No node supports tts(sw).",
            "reasons": [{"reason": "tts", "nodes": 3}],
            "node": {"node_id": "n", "eligible": false, "why_not": ["tts"], "why_idle": []}}));
        assert!(shown.starts_with("en -> sw, spoken: 0 of 3 nodes can do it"), "{shown}");
        assert!(
            shown.contains("No node supports tts(sw).") && shown.contains("n cannot do it tts"),
            "{shown}"
        );
    }

    #[test]
    fn names_do_not_move_the_cursor() {
        assert_eq!(text(&json!("a\u{1b}[2Jb\n")), "a[2Jb");
    }
}
