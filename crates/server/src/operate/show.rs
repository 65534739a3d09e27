//! What an answer of the scheduler looks like in a terminal: pure, from its JSON.

use serde_json::Value;

use super::table::table;
use super::words::why_not;
use crate::human::{ago, arrow, plural, span};

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
        "WHY IT GETS NO JOBS",
    ];
    format!("{}\n{}", table(&head, &rows), shown(&rows, total, ("{n} node", "{n} nodes")))
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
    rows.extend(each(&node["why_idle"]).map(|why| fact("no jobs because", text(why))));
    rows.extend(each(&node["useful_if"]).map(|wanted| {
        let direction = arrow(&text(&wanted["direction"]));
        fact("wanted", format!("{direction}: this node {}", reasons(&wanted["lacks"])))
    }));
    rows.retain(|row| row[1] != NOTHING);
    table(&["NODE", &text(&node["node_id"])], &rows)
}

/// All sessions.
pub(super) fn sessions(all: &Value, sessions: &[Value]) -> String {
    let row = |one: &Value| {
        vec![
            text(&one["session_id"]),
            text(&one["instance"]),
            text(&one["tenant"]),
            arrow(&text(&one["direction"])),
            yes_or_no(&one["connected"]).to_owned(),
            text(&one["utterances"]),
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let head = ["SESSION", "INSTANCE", "TENANT", "DIRECTION", "CONNECTED", "UTTERANCES"];
    let shown = shown(&rows, &all["total"], ("{n} session", "{n} sessions"));
    format!("{}\n{shown}{}", table(&head, &rows), silent(all))
}

/// One session, a fact in a line.
pub(super) fn session(one: &Value, now_ms: u64) -> String {
    let rows = vec![
        fact("instance", text(&one["instance"])),
        fact("tenant", text(&one["tenant"])),
        fact("direction", arrow(&text(&one["direction"]))),
        fact("connected", yes_or_no(&one["connected"]).to_owned()),
        fact("utterances", text(&one["utterances"])),
        fact("opened", when(&one["since_ms"], now_ms)),
    ];
    table(&["SESSION", &text(&one["session_id"])], &rows)
}

/// Jobs, the newest first.
pub(super) fn jobs(all: &Value, jobs: &[Value], now_ms: u64) -> String {
    let row = |job: &Value| {
        let (created, ended) = (job["created_ms"].as_u64(), job["ended_ms"].as_u64());
        let took = created.zip(ended).map(|(created, ended)| ended.saturating_sub(created) as f64);
        vec![
            text(&job["job_id"]),
            when(&job["created_ms"], now_ms),
            text(&job["state"]),
            text(&job["code"]),
            arrow(&text(&job["direction"])),
            text(&job["node_id"]),
            text(&job["attempts"]),
            took.map_or_else(|| NOTHING.to_owned(), span),
            text(&job["tenant"]),
            text(&job["session_id"]),
        ]
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    let head = [
        "JOB",
        "SUBMITTED",
        "STATE",
        "CODE",
        "DIRECTION",
        "LAST NODE",
        "ATTEMPTS",
        "TOOK",
        "TENANT",
        "SESSION",
    ];
    let shown = shown(&rows, &all["total"], ("{n} job", "{n} jobs"));
    format!("{}\n{shown}{}", table(&head, &rows), silent(all))
}

/// One job: how it stands, and each attempt.
pub(super) fn job(job: &Value, now_ms: u64) -> String {
    let times = &job["timings"];
    let mut rows = vec![
        fact("state", text(&job["state"])),
        fact("code", text(&job["code"])),
        fact("detail", text(&job["detail"])),
        fact("direction", arrow(&text(&job["direction"]))),
        fact("tenant", text(&job["tenant"])),
        fact("session", text(&job["session_id"])),
        fact("instance", text(&job["instance"])),
        fact("submitted", when(&times["created_ms"], now_ms)),
        fact("took", since(times, &times["ended_ms"])),
        fact("queued for", times["waited_ms"].as_f64().map_or_else(|| NOTHING.to_owned(), span)),
        fact("trace id", text(&job["trace_id"])),
        fact("id at the node", text(&job["node_job_id"])),
    ];
    for attempt in each(&job["attempts"]) {
        rows.push(fact(
            &format!("attempt {}", text(&attempt["number"])),
            attempted(times, attempt),
        ));
    }
    rows.extend(each(&job["notes"]).map(|note| fact("note", text(note))));
    rows.retain(|row| row[1] != NOTHING);
    table(&["JOB", &text(&job["job_id"])], &rows)
}

/// The node of an attempt, its outcome, and when what happened.
fn attempted(times: &Value, attempt: &Value) -> String {
    let steps = [("sent", "sent_ms"), ("accepted", "acked_ms"), ("ended", "ended_ms")];
    let steps = steps.map(|(name, at)| (name, since(times, &attempt[at])));
    let steps = steps.iter().filter(|(_, after)| *after != NOTHING);
    let steps: String = steps.map(|(name, after)| format!(", {name} after {after}")).collect();
    let outcome = match attempt["outcome"].is_null() {
        true => String::new(),
        false => format!(": {}", text(&attempt["outcome"])),
    };
    format!("on {}{steps}{outcome}", text(&attempt["node_id"]))
}

/// How long after the job was submitted something happened.
fn since(times: &Value, at_ms: &Value) -> String {
    let both = times["created_ms"].as_u64().zip(at_ms.as_u64());
    both.map_or_else(|| NOTHING.to_owned(), |(created, at)| span(at.saturating_sub(created) as f64))
}

fn when(at_ms: &Value, now_ms: u64) -> String {
    at_ms.as_u64().map_or_else(|| NOTHING.to_owned(), |at| ago(now_ms, at))
}

fn yes_or_no(value: &Value) -> &'static str {
    if value == true { "yes" } else { "no" }
}

/// How many rows there are, and of how many.
fn shown(rows: &[Vec<String>], total: &Value, (one, more): (&str, &str)) -> String {
    let count = rows.len() as u64;
    match total.as_u64() {
        Some(total) if total > count => {
            format!("{} of {}", crate::human::count(count), plural(total, one, more))
        }
        _ => plural(count, one, more),
    }
}

/// The instances whose rows are missing.
fn silent(all: &Value) -> String {
    match each(&all["silent"]).next() {
        Some(_) => format!("; no answer from {}", list(&all["silent"])),
        None => String::new(),
    }
}

/// Which nodes could take a job.
pub(super) fn explain(told: &Value) -> String {
    let direction = format!("{} → {}", text(&told["src"]), text(&told["tgt"]));
    let output = if told["tts"] == true { "speech" } else { "text only" };
    let count = |name: &str| told[name].as_u64().unwrap_or(0);
    let waiting = match count("waiting") {
        0 => String::new(),
        waiting => format!(", {}", plural(waiting, "{n} job is queued", "{n} jobs are queued")),
    };
    let nodes = plural(count("nodes"), "{n} node", "{n} nodes");
    let mut lines = vec![format!(
        "{direction}, {output}: {} of {nodes} can take it{waiting}",
        count("eligible")
    )];
    if told["missing"].is_string() {
        lines.push(text(&told["missing"]));
    }
    let row = |one: &Value| vec![text(&one["nodes"]), why_not(&text(&one["reason"])).to_owned()];
    let rows: Vec<_> = each(&told["reasons"]).map(row).collect();
    if !rows.is_empty() {
        lines.push(table(&["NODES", "WHY NOT"], &rows));
    }
    let node = &told["node"];
    if node.is_object() {
        let id = text(&node["node_id"]);
        lines.push(match node["eligible"] == true {
            true => format!("{id} can take it"),
            false => format!("{id} cannot take it: it {}", reasons(&node["why_not"])),
        });
        lines.extend(each(&node["why_idle"]).map(text));
    }
    lines.join("\n")
}

fn reasons(words: &Value) -> String {
    let all: Vec<String> = each(words).map(|word| why_not(&text(word)).to_owned()).collect();
    all.join(", ")
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
            "abilities": {"asr_langs": ["en", "zh"]}, "why_idle": ["an administrator drains it"]});
        let shown = nodes(&[one], &json!(1));
        let row = shown.lines().nth(1).unwrap();
        for part in ["gpu-1", "1/4", "drain", "en, zh", "an administrator drains it"] {
            assert!(row.contains(part), "{shown}");
        }
        assert!(shown.ends_with("\n1 node"), "{shown}");
    }

    #[test]
    fn of_one_node_only_what_is_known_is_told() {
        let shown = node(&json!({"node_id": "n", "state": "ready", "why_idle": ["a", "b"],
            "useful_if": [{"direction": "en->sw", "lacks": ["tts", "nmt"]}]}));
        let wanted = "en → sw: this node does not speak the target language, does not translate this direction";
        assert!(shown.contains(wanted), "{shown}");
        assert!(!shown.contains("hardware"), "{shown}");
        assert_eq!(shown.matches("no jobs because").count(), 2, "{shown}");
    }

    #[test]
    fn jobs_have_a_row_each_and_say_how_many_more_there_are() {
        let one = json!({"job_id": "j1", "instance": "a", "session_id": "s-1", "tenant": "acme",
            "direction": "en->zh", "state": "FAILED", "code": "JOB_TIMEOUT", "node_id": "gpu-7", "attempts": 2,
            "created_ms": 1_000, "ended_ms": 2_500, "waited_ms": 0});
        let open = json!({"job_id": "j2", "session_id": "s-1", "tenant": "acme", "direction": "de<->en",
            "state": "WAITING", "attempts": 0, "created_ms": 4_000, "waited_ms": 0});
        let all = json!({"total": 1_200, "silent": ["b"]});
        let shown = jobs(&all, &[one, open], 31_000);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[1].split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<_>>(),
            [
                "j1",
                "30 s ago",
                "FAILED",
                "JOB_TIMEOUT",
                "en → zh",
                "gpu-7",
                "2",
                "1.5 s",
                "acme",
                "s-1"
            ]
        );
        assert!(lines[2].contains("de ↔ en"), "{shown}");
        assert_eq!(lines[3], "2 of 1,200 jobs; no answer from b");
    }

    #[test]
    fn a_job_tells_its_ending_and_attempts() {
        let shown = job(
            &json!({"job_id": "j", "state": "FAILED", "code": "JOB_TIMEOUT", "detail": "late",
                "node_job_id": "m", "trace_id": "t1", "tenant": "acme", "direction": "en->zh",
                "timings": {"created_ms": 1_000, "ended_ms": 4_000, "waited_ms": 250},
                "attempts": [{"number": 1, "node_id": "n", "sent_ms": 1_002, "ended_ms": 3_500, "outcome": "NODE_LOST"}]}),
            61_000,
        );
        for part in [
            "submitted       60 s ago",
            "took            3 s",
            "queued for      250 ms",
            "trace id        t1",
            "id at the node  m",
            "attempt 1       on n, sent after 2 ms, ended after 2.5 s: NODE_LOST",
        ] {
            assert!(shown.contains(part), "no {part:?} in\n{shown}");
        }
        assert!(!shown.contains("instance"), "{shown}");
    }

    #[test]
    fn an_explanation_has_its_reasons() {
        let shown =
            explain(&json!({"src": "en", "tgt": "sw", "tts": true, "nodes": 3, "eligible": 0,
            "waiting": 2, "missing": "No node supports tts(sw).",
            "reasons": [{"reason": "tts", "nodes": 3}],
            "node": {"node_id": "n", "eligible": false, "why_not": ["tts"], "why_idle": []}}));
        assert_eq!(
            shown,
            "en → sw, speech: 0 of 3 nodes can take it, 2 jobs are queued\nNo node supports tts(sw).\n\
             NODES  WHY NOT\n3      does not speak the target language\n\
             n cannot take it: it does not speak the target language"
        );
    }

    #[test]
    fn names_do_not_move_the_cursor() {
        assert_eq!(text(&json!("a\u{1b}[2Jb\n")), "a[2Jb");
    }
}
