//! What a node learns about who speaks.

use lingua_engine::Settings;
use lingua_engine::settings::SessionAlias;
use serde_json::Value;

use super::{calm, scripted, take};
use crate::app::jobs::{done, job};
use crate::app::{On, TestApp};

pub async fn a_node_cannot_tell_that_two_jobs_are_of_one_session(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let mut seen: Vec<Value> = Vec::new();
    for index in 0..2 {
        let job = job().session("who-speaks").index(index).submit(&app);
        let assign = take(&mut node).await;
        node.result(&assign, "x").await.unwrap();
        done(&job).await;
        let text = assign.to_string();
        assert!(!text.contains("who-speaks"), "{text}");
        assert!(!text.contains(job.id.as_str()), "{text}");
        assert!(!text.contains(job.session.tag().as_str()), "{text}");
        seen.push(assign);
    }
    for field in ["job_id", "session_id", "turn_id", "lease_token"] {
        let (one, two) = (seen[0][field].as_str().unwrap(), seen[1][field].as_str().unwrap());
        assert_ne!(one, two, "{field}");
        let shared = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
        assert!(shared <= 4, "{field}: {one} and {two} begin alike");
    }
    app.finish().await;
}

pub async fn the_parts_of_one_turn_share_a_name_and_nothing_else_does(on: On) {
    let app = TestApp::start(on, calm()).await;
    let mut node = scripted(&app, "a").await;
    let mut seen: Vec<Value> = Vec::new();
    for (index, turn) in [(0, "t1"), (1, "t1"), (2, "t2")] {
        let job = job().session("who-speaks").turn(turn).index(index).submit(&app);
        let assign = take(&mut node).await;
        node.result(&assign, "x").await.unwrap();
        done(&job).await;
        seen.push(assign);
    }
    for field in ["session_id", "turn_id"] {
        assert_eq!(seen[0][field], seen[1][field], "{field}");
        assert_ne!(seen[1][field], seen[2][field], "{field}");
        assert!(!seen[0][field].as_str().unwrap().contains("t1"), "{field}");
    }
    app.finish().await;
}

pub async fn agents_that_need_it_are_told_the_session(on: On) {
    let settings = Settings { node_session_alias: SessionAlias::Session, ..calm() };
    let app = TestApp::start(on, settings).await;
    let mut node = scripted(&app, "a").await;
    let job = job().session("who-speaks").submit(&app);
    let assign = take(&mut node).await;
    assert_eq!(assign["session_id"], "who-speaks");
    node.result(&assign, "x").await.unwrap();
    done(&job).await;
    app.finish().await;
}
