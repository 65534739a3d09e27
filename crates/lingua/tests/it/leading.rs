//! Of several schedulers on one store, one does what is done for all.

use crate::app;

use std::time::Duration;

use app::{On, TestApp, open, quick, wait_until};
use lingua_store::leaders::Task;

const LED: [Task; 3] = Task::ALL;

/// The fence of whoever leads the task; fails if two do.
fn fence(apps: &[&TestApp], task: Task) -> Option<u64> {
    let leads: Vec<u64> = apps.iter().filter_map(|app| app.engine.leads(task)).collect();
    assert!(leads.len() <= 1, "two lead {task:?}");
    leads.first().copied()
}

/// What the scheduler's metrics say.
fn metric(app: &TestApp, task: Task) -> bool {
    let line = format!("lingua_leader{{task=\"{}\"}} 1", task.as_str());
    app.engine.metrics().render().lines().any(|found| found == line)
}

async fn until(within: Duration, ready: impl Fn() -> bool) -> Duration {
    let begin = tokio::time::Instant::now();
    assert!(wait_until(within + Duration::from_secs(5), ready).await, "it never happens");
    let took = begin.elapsed();
    assert!(took <= within, "{took:?} instead of {within:?}");
    took
}

async fn one_leads_and_the_other_follows(on: On) {
    let (store, _server) = open(on).await;
    let first = TestApp::over(store.clone(), "one", quick()).await;
    until(Duration::from_secs(2), || LED.iter().all(|t| first.engine.leads(*t).is_some())).await;
    let second = TestApp::over(store.clone(), "two", quick()).await;
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for task in LED {
            assert!(fence(&[&first, &second], task).is_some());
            assert!(metric(&first, task) && !metric(&second, task));
        }
    }
    let before = fence(&[&first, &second], Task::Deadlines);

    // It is told to stop: the other takes over at once.
    first.engine.drain();
    let leads = || LED.iter().all(|task| second.engine.leads(*task).is_some());
    until(Duration::from_millis(1_500), leads).await;
    let after = fence(&[&first, &second], Task::Deadlines);
    assert!(after > before, "{after:?} after {before:?}");
    assert!(metric(&second, Task::Deadlines) && !metric(&first, Task::Deadlines));
    first.stop().await;

    // It dies without a word: the next one leads when its time is over.
    let third = TestApp::over(store.clone(), "three", quick()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(third.engine.leads(Task::Deadlines).is_none());
    second.abandon();
    let leads = || LED.iter().all(|task| third.engine.leads(*task).is_some());
    until(Duration::from_secs(4), leads).await;
    assert!(third.engine.leads(Task::Deadlines) > after);
    third.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store() {
    one_leads_and_the_other_follows(On::Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    one_leads_and_the_other_follows(On::Redis).await;
}
