//! What is kept of many tenants: nobody loses what is theirs to another.

use std::time::Duration;

use bytes::Bytes;
use lingua_core::TenantId;
use lingua_engine::job::Ended;
use serde_json::json;

use crate::app::jobs::{done, job};
use crate::app::{On, TestApp, calm};
use crate::scenarios::{scripted, take};
use crate::talking;

const MIB: usize = 1 << 20;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_results_of_one_tenant_do_not_evict_those_of_another() {
    let mut settings = calm();
    settings.results.max_bytes = 8 * MIB;
    let app = TestApp::start(On::Memory, settings).await;
    let mut node = scripted(&app, "a").await;
    let small = job().tenant("small").submit(&app);
    let assign = take(&mut node).await;
    node.result(&assign, "kept").await.unwrap();
    assert_eq!(done(&small).await, "kept");
    let mut large = Vec::new();
    for _ in 0..10 {
        let job = job().tenant("large").submit(&app);
        let assign = take(&mut node).await;
        // Twice in the message, as what was heard and what it means.
        node.result(&assign, &"x".repeat(MIB)).await.unwrap();
        done(&job).await;
        large.push(job.id);
    }
    assert!(app.engine.jobs.job(&small.id).is_some(), "the result of another tenant is gone");
    let kept = large.iter().filter(|id| app.engine.jobs.job(id).is_some()).count();
    assert!((2..=4).contains(&kept), "{kept} of 10 are kept of the one who fills it");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audio_is_kept_for_the_time_that_was_promised_or_refused() {
    let mut settings = calm();
    settings.audio.max_bytes = 16 * MIB;
    settings.audio.keep_ms = 1_000;
    let app = TestApp::start(On::Memory, settings).await;
    let audio = &app.engine.audio;
    let upload = |who: &str| audio.keep(&tenant(who), Bytes::from(vec![0; 2 * MIB]));
    let (promised, _) = upload("small").unwrap();
    let mut taken = Vec::new();
    let refusal = loop {
        match upload("large") {
            Ok((reference, _)) => taken.push(reference),
            Err(refusal) => break refusal,
        }
        assert!(taken.len() < 8, "one tenant takes all");
    };
    assert_eq!(refusal.code_text(), "QUOTA_EXCEEDED");
    let wait = refusal.retry_after_ms.unwrap();
    assert!((1..=1_000).contains(&wait), "{wait}");
    assert!(!taken.is_empty());
    for reference in &taken {
        assert_eq!(audio.fetch(&tenant("large"), reference).unwrap().len(), 2 * MIB);
    }
    assert!(audio.fetch(&tenant("small"), &promised).is_ok(), "promised and gone");
    assert!(upload("third").is_ok(), "there is room for the next");
    assert!(app.counter("lingua_limited_total{limit=\"audio_keep_bytes\"}") >= 1);
    tokio::time::sleep(Duration::from_millis(wait + 50)).await;
    upload("large").unwrap();
    app.finish().await;
}

/// What one may send is less than what waits for one client at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_result_costs_its_speaker_the_session() {
    let app = TestApp::start(On::Memory, calm()).await;
    let mut node = talking::node(&app, "a").await;
    let mut client = talking::speaker(&app).await;
    let speech = |mib: usize| {
        json!({ "success": true, "text_asr": "a", "text_translated": "b",
        "tts_audio": "A".repeat(mib * MIB), "tts_format": "pcm16" })
    };
    let mut assigns = Vec::new();
    for n in 0..4 {
        client.marked_sentence(talking::mark(n), 200).await.unwrap();
        assigns.push(talking::take(&mut node).await);
    }
    // The first comes last, so that all the others are told at once.
    for assign in assigns.iter().skip(1) {
        node.about(assign, "job_result", speech(3)).await.unwrap();
    }
    node.about(&assigns[0], "job_result", speech(9)).await.unwrap();
    // Nobody else can do it better, and the node itself is left out.
    talking::is_missing(&client.ending().await.unwrap(), 0, "job_failed");
    for n in 1..4 {
        talking::is_result(&client.ending().await.unwrap(), n);
    }
    assert_eq!(app.counter("lingua_limited_total{limit=\"result_bytes\"}"), 1);
    talking::finish(app, client).await;
}

/// A caller over HTTP sees why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_too_large_fails_its_attempt() {
    let mut settings = calm();
    settings.max_result_bytes = 100_000;
    let app = TestApp::start(On::Memory, settings).await;
    let (mut a, mut b) = (scripted(&app, "a").await, scripted(&app, "b").await);
    let job = job().prefer("a").submit(&app);
    let assign = take(&mut a).await;
    a.partial(&assign, &"x".repeat(100_000)).await.unwrap();
    a.result(&assign, &"x".repeat(100_000)).await.unwrap();
    let again = take(&mut b).await;
    b.result(&again, &"x".repeat(100_000)).await.unwrap();
    let view = job.ended_within(Duration::from_secs(10)).await;
    assert!(view.partial.is_none(), "what is too large on the way is left out");
    let Some(Ended::Failed(refusal)) = view.ended else { panic!("it ended otherwise") };
    assert_eq!(refusal.code_text(), "MESSAGE_TOO_LARGE");
    assert!(refusal.detail.contains("more than 100000"), "{}", refusal.detail);
    assert_eq!(app.counter("lingua_limited_total{limit=\"result_bytes\"}"), 3);
    app.finish().await;
}
