//! What a collector that fails costs.

use super::*;

/// Ten jobs, none of which may notice the collector.
async fn ten_jobs(app: &TestApp) {
    let node = FakeNode::connect(NodeOptions::new(app.ws("/ws/node")).node_id("worker")).await;
    let node = node.unwrap();
    for _ in 0..10 {
        let job = jobs::job().submit(app);
        assert!(!done(&job).await.is_empty());
    }
    drop(node);
}

#[tokio::test]
async fn a_collector_that_is_down_costs_spans_and_no_job() {
    let app = TestApp::start(On::Memory, calm()).await;
    // Nobody is there any more.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let exporter = export(&app, &format!("http://{gone}"), 1.0);
    ten_jobs(&app).await;
    counted(&app, "dropped", 10).await;
    assert_eq!(count(&app, "exported"), 0);
    finish(app, exporter).await;
}

#[tokio::test]
async fn a_collector_that_does_not_answer_costs_spans_and_no_job() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Silent).await;
    ten_jobs(&app).await;
    counted(&app, "dropped", 10).await;
    assert_eq!((count(&app, "exported"), count(&app, "refused")), (0, 0));
    // It is well again, and so is everything that comes from now on.
    collector.set(Mood::Well);
    ten_jobs(&app).await;
    counted(&app, "exported", 10).await;
    finish(app, exporter).await;
}

#[tokio::test]
async fn an_overloaded_collector_is_asked_again_and_then_given_up() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Answers(503, None)).await;
    ten_jobs(&app).await;
    counted(&app, "dropped", 1).await;
    assert!(collector.requests() > 1, "it is asked again");
    assert_eq!(count(&app, "exported"), 0);
    finish(app, exporter).await;
}

#[tokio::test]
async fn a_collector_is_asked_again_when_it_wants_to_be() {
    let app = TestApp::start(On::Memory, calm()).await;
    let collector = Collector::start(Mood::Answers(429, Some(1))).await;
    let pace = Pace { give_up: Duration::from_secs(20), ..pace() };
    let to = collector.url().parse().unwrap();
    let exporter = Exporter::start(&app.engine, to, 1.0, pace).unwrap();
    let job = jobs::job().submit(&app);
    jobs::code(&job).await;
    let asked = || collector.requests() == 1;
    assert!(app::wait_until(Duration::from_secs(15), asked).await);
    let began = tokio::time::Instant::now();
    collector.set(Mood::Well);
    collector.has("job", 1).await;
    // Its own pauses are of milliseconds.
    assert!(began.elapsed() > Duration::from_millis(700), "{:?}", began.elapsed());
    assert_eq!(count(&app, "dropped"), 0);
    finish(app, exporter).await;
}

#[tokio::test]
async fn a_collector_that_wants_to_be_left_alone_is() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Answers(503, Some(30))).await;
    ten_jobs(&app).await;
    // Later than anything is kept: what comes meanwhile is dropped without asking.
    counted(&app, "dropped", 10).await;
    assert_eq!(collector.requests(), 1);
    finish(app, exporter).await;
    assert_eq!(collector.requests(), 1, "not even at the end");
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted_and_not_sent_again() {
    let (app, collector, exporter) = traced(On::Memory, 1.0, Mood::Answers(400, None)).await;
    let job = jobs::job().submit(&app);
    jobs::code(&job).await;
    counted(&app, "refused", 3).await;
    assert_eq!((count(&app, "refused"), collector.requests()), (3, 1));
    collector.set(Mood::TakesAllBut(2));
    let job = jobs::job().submit(&app);
    jobs::code(&job).await;
    counted(&app, "exported", 1).await;
    assert_eq!((count(&app, "refused"), count(&app, "exported")), (5, 1));
    finish(app, exporter).await;
}

#[tokio::test]
async fn what_is_left_is_brought_before_the_end() {
    let app = TestApp::start(On::Memory, calm()).await;
    let collector = Collector::start(Mood::Well).await;
    // Left alone it would wait for more.
    let pace = Pace { gather: Duration::from_secs(3_600), ..pace() };
    let to = collector.url().parse().unwrap();
    let exporter = Exporter::start(&app.engine, to, 1.0, pace).unwrap();
    let job = jobs::job().submit(&app);
    jobs::code(&job).await;
    assert_eq!(collector.requests(), 0);
    finish(app, exporter).await;
    assert_eq!(named(&collector.spans(), "job").len(), 1);
}
