//! The metrics, their manual, the alert rules and the board agree, and every rule does what it says.

mod board;

use crate::app;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use app::jobs::{done, job};
use app::{On, TestApp, quick, wait_until};
use lingua_core::node::Health;
use lingua_core::outcome::{Code, MissingReason};
use lingua_engine::metrics::Metrics;
use lingua_lab::{Behaviour, FakeNode, HttpClient, NodeOptions};
use lingua_store::leaders::Task;
use serde_json::{Value, json};

/// Labels that Prometheus itself gives to what it reads.
const TARGET: [&str; 2] = ["instance", "job"];
/// What the names of our metrics begin with.
const PREFIXES: [&str; 2] = ["lingua_", "process_"];
/// Metrics that Prometheus itself makes.
const OWN: &str = "up";
/// The page with what to do about each alert.
const RUNBOOK: &str = "docs/operations/troubleshooting.md";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// A row of the manual.
#[derive(Debug)]
struct Row {
    kind: String,
    unit: String,
    /// Each with its values, as far as they are listed.
    labels: BTreeMap<String, BTreeSet<String>>,
    meaning: String,
}

/// The manual by the names of its metrics.
fn manual() -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in read("docs/METRICS.md")
        .lines()
        .filter(|line| PREFIXES.iter().any(|own| line.starts_with(&format!("| `{own}"))))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, unit, labels, meaning] = cells[..] else { panic!("five cells: {line}") };
        let labels = labels.split('·').filter_map(|label| {
            let mut words = label.split('`').skip(1).step_by(2).map(str::to_owned);
            let label = words.next()?;
            let mut values: BTreeSet<String> = words.collect();
            if label == "code" {
                values.extend(Code::ALL.iter().map(|code| code.as_str().to_owned()));
            }
            Some((label, values))
        });
        let labels = labels.collect();
        let [kind, unit, meaning] = [kind, unit, meaning].map(str::to_owned);
        let row = Row { kind, unit, labels, meaning };
        assert!(rows.insert(name.trim_matches('`').to_owned(), row).is_none(), "twice: {name}");
    }
    rows
}

impl Row {
    /// The listed values of its only label.
    fn values(&self) -> &BTreeSet<String> {
        self.labels.first_key_value().expect("it has a label").1
    }
}

/// The name as it is in queries.
fn in_queries(name: &str, kind: &str) -> String {
    if kind == "counter" { format!("{name}_total") } else { name.to_owned() }
}

#[test]
fn the_manual_has_every_metric_and_no_other() {
    let manual = manual();
    let metrics = Metrics::default();
    let listed: BTreeMap<String, &str> =
        metrics.list().iter().map(|one| (in_queries(one.name, one.kind), one.kind)).collect();
    let said: BTreeMap<String, &str> =
        manual.iter().map(|(name, row)| (name.clone(), row.kind.as_str())).collect();
    assert_eq!(said, listed);
    for (name, row) in &manual {
        assert!(!row.unit.is_empty() && !row.meaning.is_empty(), "{name}");
        assert_eq!(name.contains("_seconds"), row.unit == "seconds", "{name}");
        assert!(row.kind != "histogram" || row.unit == "seconds", "{name}");
        assert_eq!(name.contains("_bytes"), row.unit == "bytes", "{name}");
    }
}

#[test]
fn the_manual_has_the_values_of_labels_that_the_code_lists() {
    let manual = manual();
    let values = |name: &str| manual[name].values().iter().map(String::as_str).collect::<Vec<_>>();
    let sorted = |mut words: Vec<&'static str>| {
        words.sort_unstable();
        words
    };
    let reasons = MissingReason::ALL.map(MissingReason::as_str);
    let endings = sorted(reasons.into_iter().chain(["result"]).collect());
    assert_eq!(values("lingua_endings_total"), endings);
    assert_eq!(values("lingua_nodes"), sorted(Health::ALL.map(Health::as_str).to_vec()));
    assert_eq!(values("lingua_leader"), sorted(Task::ALL.map(Task::as_str).to_vec()));
}

fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Values that a table of the code makes are not seen here, only those that stand where they are counted.
#[test]
fn the_manual_has_the_values_of_labels_that_are_counted() {
    let (manual, mut code) = (manual(), String::new());
    sources(&path("crates/engine/src"), &mut code);
    for (counted, name) in [
        ("reserve", "lingua_reserve_total"),
        ("ended", "lingua_jobs_ended_total"),
        ("stale", "lingua_stale_fence_total"),
        ("gap", "lingua_model_gaps_total"),
        ("ending", "lingua_endings_total"),
        ("audio_dropped", "lingua_audio_dropped_bytes_total"),
        ("session_ignored", "lingua_session_ignored_total"),
        ("resumed", "lingua_resumed_total"),
        ("opened", "lingua_sessions_opened_total"),
    ] {
        let call = format!(".{counted}(\"");
        let mut values = code.split(&call).skip(1).filter_map(|rest| rest.split('"').next());
        assert!(code.contains(&call), "nobody counts {name} so any more");
        let unknown = values.find(|value| !manual[name].values().contains(*value));
        assert_eq!(unknown, None, "{name}");
    }
}

#[tokio::test]
async fn what_an_instance_renders_is_in_the_manual_with_its_labels() {
    let app = TestApp::start(On::Memory, quick()).await;
    let text = app.engine.scrape();
    let types: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert!(types.len() > 20, "{text}");
    let listed = app.engine.metrics().list();
    for &(name, kind) in &types {
        assert!(listed.iter().any(|one| (one.name, one.kind) == (name, kind)), "{name} {kind}");
    }
    assert_eq!(types.len(), listed.len(), "what is listed is there from the start");
    let manual = manual();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, _) = line.rsplit_once(' ').unwrap();
        assert_eq!(faults(sample, &manual), Vec::<String>::new());
    }
    for (name, row) in &manual {
        for (label, value) in
            row.labels.iter().flat_map(|(label, values)| values.iter().map(move |v| (label, v)))
        {
            let pair = format!("{label}=\"{value}\"");
            let here = |line: &str| {
                line.split_once('{').is_some_and(|(of, rest)| {
                    of.strip_suffix("_count").unwrap_or(of) == name && rest.contains(&pair)
                })
            };
            assert!(text.lines().any(here), "not there from the start: {name}{{{pair}}}");
        }
    }
    app.finish().await;
}

#[tokio::test]
async fn gauges_say_how_the_instance_stands() {
    let app = TestApp::start(On::Memory, quick()).await;
    let options = NodeOptions::new(app.ws("/ws/node")).node_id("n").max_jobs(3);
    let _node = FakeNode::connect(options.behaviour(Behaviour::taking_ms(2_500))).await.unwrap();
    let running = job().submit(&app);
    let reader = HttpClient::new(app.http(""));
    let reader = tokio::spawn(async move { reader.get("/api/v1/events").await });
    let version = env!("CARGO_PKG_VERSION");
    let said = |sample: &str| app.engine.scrape().contains(&format!("\n{sample}\n"));
    for sample in [
        "lingua_slots{use=\"used\"} 1",
        "lingua_slots{use=\"free\"} 2",
        "lingua_breakers_open 0",
        "lingua_inbox_envelopes 0",
        "lingua_store_up 1",
        "lingua_draining 0",
        "lingua_connections 2",
        "lingua_dashboard_readers 1",
        &format!("lingua_build_info{{version=\"{version}\"}} 1"),
    ] {
        let seen = wait_until(Duration::from_secs(5), || said(sample)).await;
        assert!(seen, "no {sample} in {}", app.engine.scrape());
    }
    done(&running).await;
    reader.abort();
    let gone = wait_until(Duration::from_secs(5), || said("lingua_connections 1")).await;
    assert!(gone && said("lingua_dashboard_readers 0"), "{}", app.engine.scrape());
    app.engine.drain();
    assert!(said("lingua_draining 1"));
    app.finish().await;
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$')
}

/// A query as words, texts in quotes, and single signs.
fn tokens(query: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => rest[1..].find('"').expect("a closing quote") + 2,
            _ if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

/// The row that a name in a query belongs to.
fn row<'a>(name: &str, manual: &'a BTreeMap<String, Row>) -> Option<&'a Row> {
    let of = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| name.strip_suffix(end));
    let of = of.and_then(|base| manual.get(base)).filter(|row| row.kind == "histogram");
    of.or_else(|| manual.get(name).filter(|row| row.kind != "histogram"))
}

/// What a query asks for that is not there: metrics, labels, and values of labels.
fn faults(query: &str, manual: &BTreeMap<String, Row>) -> Vec<String> {
    let tokens = tokens(query);
    let mut wrong = Vec::new();
    let mut labels: BTreeSet<&str> = TARGET.into();
    let mut grouped: BTreeSet<&str> = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        if ["by", "without", "on", "ignoring", "group_left", "group_right"].contains(token) {
            let inside = tokens[at + 1..].iter().take_while(|token| **token != ")");
            grouped.extend(inside.filter(|token| token.starts_with(is_word)));
        }
        let found = row(token, manual);
        if found.is_none() && *token != OWN {
            if PREFIXES.iter().any(|own| token.starts_with(own)) {
                wrong.push(format!("no metric {token}: {query}"));
            }
            continue;
        }
        let mut own: BTreeSet<&str> = TARGET.into();
        own.extend(found.into_iter().flat_map(|row| row.labels.keys()).map(String::as_str));
        own.extend(token.ends_with("_bucket").then_some("le"));
        labels.extend(&own);
        if tokens.get(at + 1) != Some(&"{") {
            continue;
        }
        let inside: Vec<&str> =
            tokens[at + 2..].iter().take_while(|token| **token != "}").copied().collect();
        for matcher in inside.split(|token| *token == ",") {
            let (label, value) = (matcher[0], matcher.last().unwrap().trim_matches('"'));
            if !own.contains(label) {
                wrong.push(format!("{token} has no label {label}: {query}"));
            } else if let Some(values) = found.and_then(|row| row.labels.get(label))
                // Without values in the manual there are others with every version.
                && !values.is_empty()
            {
                let unknown = value.split('|').filter(|value| !values.contains(*value));
                wrong.extend(unknown.map(|value| format!("{token} has no {label} {value}")));
            }
        }
    }
    let unknown = grouped.into_iter().filter(|label| !labels.contains(label));
    wrong.extend(unknown.map(|label| format!("nothing has the label {label}: {query}")));
    wrong
}

#[test]
fn queries_that_ask_for_what_is_not_there_are_found() {
    let manual = manual();
    let count = |query: &str| faults(query, &manual).len();
    assert_eq!(
        count("sum by (job, ending) (rate(lingua_endings_total{ending!=\"result\"}[5m]))"),
        0
    );
    assert_eq!(count("sum by (le) (rate(lingua_job_seconds_bucket{le=\"0.1\"}[5m])) > 1e3"), 0);
    assert_eq!(count("lingua_endings"), 1, "a counter without _total");
    assert_eq!(count("lingua_job_seconds"), 1, "a histogram as such has no samples");
    assert_eq!(count("lingua_sessions_count"), 1, "a gauge is no histogram");
    assert_eq!(count("lingua_nodes{status=\"ready\"}"), 1, "another label");
    assert_eq!(count("lingua_nodes{state=~\"ready|tired\"}"), 1, "another value");
    assert_eq!(count("sum by (state) (lingua_sessions)"), 1, "a label of another metric");
    assert_eq!(count("lingua_sessions{le=\"1\"}"), 1, "no bucket");
}

/// One rule: name, query, and the rest of its lines.
struct Rule {
    name: String,
    query: String,
    text: String,
}

/// The rules. The file keeps each value on its line, so that no reader of YAML is needed.
fn rules() -> Vec<Rule> {
    let text = read("deploy/prometheus/alerts.yml");
    let rules = text.split("- alert: ").skip(1).map(|rule| {
        let (name, text) = rule.split_once('\n').unwrap();
        let query = value(text, "expr").unwrap_or_else(|| panic!("{name} has no query"));
        Rule { name: name.to_owned(), query, text: text.to_owned() }
    });
    rules.collect()
}

/// The value of a line `key: value`.
fn value(text: &str, key: &str) -> Option<String> {
    let found = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "))?;
    let bare = found.strip_prefix('\'').and_then(|found| found.strip_suffix('\''));
    Some(bare.map_or_else(|| found.to_owned(), |bare| bare.replace("''", "'")))
}

#[test]
fn every_alert_asks_for_what_is_there_and_says_what_to_do() {
    let (manual, operations) = (manual(), read(RUNBOOK));
    let rules = rules();
    assert!(rules.len() >= 12);
    let headings: BTreeSet<String> = operations
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| format!("{RUNBOOK}#{}", heading.to_lowercase().replace(' ', "-")))
        .collect();
    for Rule { name, query, text } in &rules {
        assert_eq!(faults(query, &manual), Vec::<String>::new(), "{name}");
        let severity = value(text, "severity").unwrap();
        assert!(["warning", "critical"].contains(&severity.as_str()), "{name}: {severity}");
        assert!(value(text, "summary").is_some() && value(text, "description").is_some(), "{name}");
        let runbook = value(text, "runbook").unwrap();
        assert!(headings.contains(&runbook), "{name}: {runbook}");
        assert!(operations.contains(&format!("\n| `{name}` | {severity} | ")), "no row for {name}");
    }
    let told = operations.lines().filter_map(|line| line.strip_prefix("| `Lingua"));
    assert_eq!(told.count(), rules.len(), "a row for a rule that is gone");
}

/// Runs promtool. That it is missing is a failure: `scripts/test` installs it.
fn promtool(arguments: &[&str], file: &Path) {
    let ran = Command::new("promtool").args(arguments).arg(file).output();
    let ran = ran.expect("promtool runs (Debian package prometheus)");
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ran.status.success(), "promtool {arguments:?} {}: {said:?}", file.display());
}

#[test]
fn every_alert_fires_in_a_test_and_is_quiet_in_another() {
    promtool(&["check", "rules"], &path("deploy/prometheus/alerts.yml"));
    promtool(&["check", "config"], &path("deploy/prometheus/prometheus.yml"));
    promtool(&["test", "rules"], &path("deploy/prometheus/alerts.test.yml"));
    let tests = read("deploy/prometheus/alerts.test.yml");
    let (mut firing, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for test in tests.split("alertname: ").skip(1) {
        let (name, test) = test.split_once('\n').unwrap();
        let expected = test.lines().next().unwrap().trim();
        match expected.strip_prefix("exp_alerts:").unwrap().trim() {
            "[]" => quiet.insert(name),
            _ => firing.insert(name),
        };
    }
    let rules = rules();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(firing, names, "fires in a test");
    assert_eq!(quiet, names, "is quiet in a test");
}
