//! The Grafana board asks for what is there.

use super::*;

/// All objects within that have a field of this name.
fn having<'a>(value: &'a Value, field: &str, found: &mut Vec<&'a Value>) {
    if value.get(field).is_some() {
        found.push(value);
    }
    match value {
        Value::Object(fields) => fields.values().for_each(|value| having(value, field, found)),
        Value::Array(values) => values.iter().for_each(|value| having(value, field, found)),
        _ => {}
    }
}

fn board() -> Value {
    serde_json::from_str(&read("deploy/grafana/lingua.json")).unwrap()
}

#[test]
fn every_query_of_the_board_asks_for_what_is_there() {
    let (board, manual) = (board(), manual());
    let mut targets = Vec::new();
    having(&board, "expr", &mut targets);
    assert!(targets.len() > 30);
    let mut asked = BTreeSet::new();
    let mut as_rules = Vec::new();
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        assert_eq!(faults(query, &manual), Vec::<String>::new());
        // What the legend names must be among what the query keeps.
        for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
            let label = label.split("}}").next().unwrap();
            let bare = label == "instance" && !query.contains("sum");
            assert!(bare || tokens(query).contains(&label), "no {label} in {query}");
        }
        asked.extend(
            tokens(query).into_iter().map(|name| name.trim_end_matches("_bucket").to_owned()),
        );
        let query = query.replace("$__rate_interval", "1m");
        as_rules.push(json!({ "record": format!("query:{}", as_rules.len()), "expr": query }));
    }
    for variable in board["templating"]["list"].as_array().unwrap() {
        let query = variable["definition"].as_str().unwrap_or_default();
        assert_eq!(faults(query, &manual), Vec::<String>::new());
    }
    let unseen: Vec<&String> = manual.keys().filter(|name| !asked.contains(*name)).collect();
    assert!(unseen.is_empty(), "metrics that no panel shows: {unseen:?}");
    // JSON is YAML too: Prometheus itself reads the queries.
    let file = tempfile::NamedTempFile::new().unwrap();
    let rules = json!({ "groups": [{ "name": "board", "rules": as_rules }] });
    fs::write(file.path(), rules.to_string()).unwrap();
    promtool(&["check", "rules"], file.path());
}

#[test]
fn the_board_can_be_imported_anywhere() {
    let board = board();
    let variables: Vec<&str> = board["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "instance"]);
    let mut sources = Vec::new();
    having(&board, "datasource", &mut sources);
    for source in sources {
        assert_eq!(source["datasource"]["uid"], "${datasource}", "{source}");
    }
    assert!(board.get("id").is_none() && board.get("uid").is_none(), "Grafana gives its own");
    let panels = board["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row");
    let rows: Vec<&str> = rows.map(|row| row["title"].as_str().unwrap()).collect();
    let wanted =
        ["Health", "Sessions and endings", "Latency", "Jobs and nodes", "Instances and store"];
    assert_eq!(rows, wanted);
    // No two panels at one place.
    let places = panels.iter().map(|panel| {
        let place = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        let [x, y, w, h] = ["x", "y", "w", "h"].map(place);
        assert!(x + w <= 24, "{panel}");
        (x..x + w).flat_map(move |x| (y..y + h).map(move |y| (x, y))).collect::<Vec<_>>()
    });
    let places: Vec<(u64, u64)> = places.flatten().collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len());
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
}
