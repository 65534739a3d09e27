use serde_json::{Value, json};

use super::*;
use crate::speech::{Digest, Echo};

/// Said at that time of the run; came back 305 ms later, 300 of which the node took.
fn sentence(began: u64, said_ms: u64) -> Answered {
    let at = |ms: u64| began + (said_ms + ms) * 1_000;
    let digest = Digest::default();
    let echo = Echo { mark: None, digest, assigned_us: Some(at(2)), answered_us: Some(at(302)) };
    Answered { mark: None, said_us: at(0), answered_us: at(305), echo: Some(echo) }
}

fn tell(meter: &Meter, answered: Answered, message: &Value) {
    let mut watcher = meter.watcher();
    watcher(answered.answered_us, Happening::Answered(answered));
    watcher(answered.answered_us, Happening::Message(message));
}

fn result() -> Value {
    json!({ "type": "translation_result" })
}

#[test]
fn each_way_is_measured_apart_and_only_the_steady_time_counts() {
    let meter = Meter::start(Duration::from_secs(1));
    let began = meter.state().began_us;
    for said_ms in [100, 1_200, 2_900] {
        tell(&meter, sentence(began, said_ms), &result());
    }
    let missing = Answered { echo: None, ..sentence(began, 2_950) };
    tell(&meter, missing, &json!({ "type": "missing_result", "reason": "all_nodes_busy" }));
    meter.opened(7_000);
    meter.state().steady_us.1 = began + 5_000_000;
    tell(&meter, sentence(began, 5_000), &result());
    let measured = meter.measured();
    assert_eq!(measured.steady_utterances, 2);
    assert!((measured.to_node.p50 - 2.0).abs() < 0.01, "{:?}", measured.to_node);
    assert!((measured.to_speaker.max - 3.0).abs() < 0.01, "{:?}", measured.to_speaker);
    assert!((measured.whole.p99 - 305.0).abs() < 0.5, "{:?}", measured.whole);
    let seconds: Vec<_> = measured.seconds.iter().map(|p| (p.second, p.utterances)).collect();
    assert_eq!(seconds, [(0, 1), (1, 1), (3, 1), (5, 1)]);
    assert_eq!((measured.counts.answered, measured.counts.missing), (4, 1));
    assert_eq!(meter.take().count, 5, "a missing one is an ending too");
    assert_eq!(meter.take().count, 0);
}

#[test]
fn endings_are_counted_by_kind_and_only_the_last_seconds_make_the_rate() {
    let meter = Meter::default();
    let now = monotonic_us();
    let mut watcher = meter.watcher();
    for message in [
        result(),
        result(),
        json!({ "type": "missing_result", "reason": "all_nodes_busy" }),
        json!({ "type": "asr_partial" }),
    ] {
        watcher(now, Happening::Message(&message));
    }
    meter.state().came_back(1, Some(9_000_000));
    meter.state().came_back(now, Some(400_000));
    meter.other_job();
    let counts = meter.counts();
    assert_eq!((counts.endings["result"], counts.endings["all_nodes_busy"]), (2, 1));
    let took = Some(Duration::from_millis(400));
    assert_eq!(meter.recent(), Recent { per_second: 0.2, p50: took, p99: took });
}

#[test]
fn the_last_endings_are_kept_with_their_reasons_and_no_more() {
    let meter = Meter::default().keeping_endings(2);
    let began = meter.state().began_us;
    tell(&meter, sentence(began, 1), &result());
    tell(&meter, sentence(began, 2), &result());
    let missing = Answered { echo: None, ..sentence(began, 3) };
    tell(&meter, missing, &json!({ "type": "missing_result", "reason": "draining" }));
    // One that explains no sentence is none of ours.
    meter.watcher()(began, Happening::Message(&json!({ "type": "missing_result" })));
    let endings = meter.endings();
    let kept: Vec<_> = endings.iter().map(|one| one.missing.as_deref()).collect();
    assert_eq!(kept, [None, Some("draining")]);
    assert_eq!(endings[1].said_us, began + 3_000);
    assert!(Meter::default().endings().is_empty());
}
