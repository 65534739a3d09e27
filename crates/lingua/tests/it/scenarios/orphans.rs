//! Jobs whose instance died.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::job::JobState;
use lingua_engine::jobs::Job;
use lingua_lab::FakeNode;
use lingua_store::{Backend, redis};
use serde_json::json;

use super::{calm, eventually, metric, options, take, until_used};
use crate::app::jobs::{done, is, job};
use crate::app::{On, TestApp, open};

/// A scheduler with a runtime of its own, so that all of it can end at once.
struct Doomed {
    runtime: tokio::runtime::Runtime,
    app: TestApp,
}

impl Doomed {
    async fn start(store: &Backend, url: Option<String>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let store = store.clone();
        let app = runtime
            .spawn(async move {
                let store = match url {
                    // A connection of its own, which dies with it.
                    Some(url) => redis::open(&url, redis::Options::default()).await.unwrap(),
                    None => store,
                };
                TestApp::over(store, "doomed", calm()).await
            })
            .await
            .unwrap();
        Doomed { runtime, app }
    }

    /// Hands a job in from within.
    fn submit(&self, deadline_ms: u64) -> Arc<Job> {
        let _inside = self.runtime.enter();
        job().deadline_ms(deadline_ms).submit(&self.app)
    }

    fn kill(self) {
        self.runtime.shutdown_background();
        self.app.abandon();
    }
}

pub async fn a_job_whose_instance_died_is_ended_by_another_at_its_deadline(on: On) {
    let (store, servers) = open(on).await;
    let doomed = Doomed::start(&store, servers.url()).await;
    let mut node = FakeNode::scripted(options(&doomed.app, "a")).await.unwrap();
    let orphan = doomed.submit(3_000);
    take(&mut node).await;
    is(&orphan, JobState::Acked).await;
    let orphan = orphan.id;
    until_used(&doomed.app, "a", 1).await;
    // Jobs that end at once are not worth the trouble of being watched.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let survivors = [
        TestApp::over(store.clone(), "one", calm()).await,
        TestApp::over(store.clone(), "two", calm()).await,
    ];
    doomed.kill();
    node.closed().await.unwrap();
    assert_eq!(survivors[0].used("a").await, 1, "its slot is taken as long as its job is open");
    let record = survivors[0].engine.jobs.record(&orphan).await.unwrap().unwrap();
    assert!(!record.state.is_terminal());
    let swept = || survivors.iter().map(|app| metric(app, "lingua_jobs_swept_total")).sum::<u64>();
    eventually("somebody ends it", || swept() > 0).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(swept(), 1, "exactly one of them does");
    let record = survivors[1].engine.jobs.record(&orphan).await.unwrap().unwrap();
    assert_eq!((record.state, record.code.as_str()), (JobState::Failed, "JOB_TIMEOUT"));
    let left = survivors[1].used("a").await;
    assert_eq!(left, 1, "nobody could tell the node to stop, so its slot is left to lapse");
    for app in survivors {
        app.stop().await;
    }
}

/// D3: also of a job that nobody is left to look after, only the word of who has it counts.
pub async fn a_result_that_outlived_its_instance_needs_its_lease_token(on: On) {
    let (store, servers) = open(on).await;
    let doomed = Doomed::start(&store, servers.url()).await;
    let mut node = FakeNode::scripted(options(&doomed.app, "a")).await.unwrap();
    let orphan = doomed.submit(20_000);
    let assign = take(&mut node).await;
    is(&orphan, JobState::Acked).await;
    let orphan = orphan.id;
    until_used(&doomed.app, "a", 1).await;
    doomed.kill();
    node.closed().await.unwrap();
    let survivor = TestApp::over(store, "one", calm()).await;
    let mut back = FakeNode::scripted(options(&survivor, "a")).await.unwrap();
    let state = async || survivor.engine.jobs.record(&orphan).await.unwrap().unwrap().state;
    let wrong = json!({ "lease_token": "0".repeat(32), "success": true });
    back.about(&assign, "job_result", wrong).await.unwrap();
    // When it is clear that its instance is gone, it need not be said again; but nothing comes of it.
    back.next_of("result_ack").await.unwrap();
    assert!(!state().await.is_terminal());
    back.result(&assign, "right").await.unwrap();
    back.next_of("result_ack").await.unwrap();
    assert_eq!(state().await, JobState::Done);
    survivor.finish().await;
}

pub async fn a_job_of_another_instance_is_not_begun_a_second_time(on: On) {
    let (store, _server) = open(on).await;
    let one = TestApp::over(store.clone(), "one", calm()).await;
    let two = TestApp::over(store, "two", calm()).await;
    let mut node = FakeNode::scripted(options(&one, "a")).await.unwrap();
    let spec = job().spec(&one);
    let twin = lingua_engine::job::JobSpec { id: spec.id, ..job().spec(&two) };
    let first = one.engine.jobs.submit(spec).unwrap();
    let assign = take(&mut node).await;
    let mut other = FakeNode::scripted(options(&two, "b")).await.unwrap();
    let second = two.engine.jobs.submit(twin).unwrap();
    second.until(|_| false).await;
    let remote = second.view().remote.unwrap();
    assert_eq!(remote.assignment.unwrap().node.as_str(), "a");
    other.hears_nothing_for(Duration::from_millis(100)).await.unwrap();
    node.result(&assign, "one").await.unwrap();
    assert_eq!(done(&first).await, "one");
    one.finish().await;
    two.finish().await;
}
