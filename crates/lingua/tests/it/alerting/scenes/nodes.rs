//! Faults of nodes.

use lingua_lab::{Behaviour, FakeNode};

use crate::alerting::stage::{Act, Stage, lenient, node, one_in, options, plain, settings};
use crate::app::jobs::job;
use crate::app::{On, TestApp};

pub async fn all_leave(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let leaving = node(app.address, "n", 5).await;
    stage.is_healthy(&[app.address]).await;
    leaving.abort();
    stage.until(Act::Healed).await;
    let _back = node(app.address, "n", 5).await;
    stage.until(Act::Over).await;
    app.finish().await;
}

pub async fn one_of_two_fails(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let failing = Behaviour { fail: 1.0, ..Behaviour::taking_ms(5) };
    let nodes = [node(app.address, "good", 5).await, node(app.address, "bad", 5).await];
    stage.is_healthy(&[app.address]).await;
    nodes[1].set_behaviour(failing).await.unwrap();
    stage.work(Act::Ill, &app, 5, plain).await;
    nodes[1].set_behaviour(Behaviour::taking_ms(5)).await.unwrap();
    stage.work(Act::Healed, &app, 20, plain).await;
    app.finish().await;
}

pub async fn nobody_speaks_french(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let _node = node(app.address, "n", 5).await;
    stage.is_healthy(&[app.address]).await;
    let french = one_in(40, |job| job.pair("en", "fr"));
    stage.work(Act::Ill, &app, 20, french).await;
    stage.work(Act::Healed, &app, 20, plain).await;
    app.finish().await;
}

pub async fn far_too_much_work(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let _node = FakeNode::connect(options(app.address, "n", 3_000).max_jobs(1)).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    stage.work(Act::Ill, &app, 10, plain).await;
    stage.until(Act::Over).await;
    app.finish().await;
}

/// Two jobs for one slot: the second is in line for as long as the first takes.
pub async fn somebody_waits_all_the_time(mut stage: Stage) {
    let mut settings = settings();
    settings.timing.queue_max_ms = 60_000;
    settings.timing.exec_max_ms = 60_000;
    settings.timing.deadline_ms = 140_000;
    settings.timing.check().unwrap();
    let app = TestApp::start(On::Memory, settings).await;
    let _node = FakeNode::connect(options(app.address, "n", 55_000).max_jobs(1)).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let jobs = [job().submit(&app), job().submit(&app)];
    stage.until(Act::Healed).await;
    jobs.iter().for_each(|job| job.cancel("cancelled"));
    stage.until(Act::Over).await;
    app.finish().await;
}

pub async fn all_slots_are_taken(mut stage: Stage) {
    let mut settings = settings();
    settings.timing.exec_max_ms = 60_000;
    settings.timing.deadline_ms = 75_000;
    settings.timing.check().unwrap();
    let app = TestApp::start(On::Memory, settings).await;
    let _node = FakeNode::connect(options(app.address, "n", 55_000).max_jobs(2)).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let jobs = [job().submit(&app), job().submit(&app)];
    stage.until(Act::Healed).await;
    jobs.iter().for_each(|job| job.cancel("cancelled"));
    stage.until(Act::Over).await;
    app.finish().await;
}

/// With every result come those of the job before, twice.
pub async fn one_repeats_itself(mut stage: Stage) {
    let app = TestApp::start(On::Memory, settings()).await;
    let options = options(app.address, "n", 0).without("result_ack");
    let options = options.heartbeat_every(std::time::Duration::from_secs(1));
    let mut node = FakeNode::scripted(options).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let answers = async {
        let mut before = None;
        while let Ok(assign) = node.next_of("job_assign").await {
            node.ack(&assign.message).await.unwrap();
            node.result(&assign.message, "said").await.unwrap();
            let again = before.replace(assign.message).filter(|_| *stage.act.borrow() == Act::Ill);
            for before in again.iter().flat_map(|before| [before, before]) {
                node.result(before, "said").await.unwrap();
            }
        }
    };
    let work = stage.work(Act::Healed, &app, 5, plain);
    // It waits for a moment in vain when there is nothing more to do.
    tokio::join!(work, answers);
    app.finish().await;
}

/// It takes the jobs that are meant for it, says nothing and cannot be told to stop.
pub async fn one_hangs(mut stage: Stage) {
    let app = TestApp::start(On::Memory, lenient()).await;
    let _good = node(app.address, "good", 5).await;
    let mut options = options(app.address, "hangs", 5).without("cancel").max_jobs(64);
    options.accept_public_jobs = false;
    options.behaviour = Behaviour { never_answer: 1.0, drop_ack: 1.0, ..Behaviour::default() };
    let hanging = FakeNode::connect(options).await.unwrap();
    stage.is_healthy(&[app.address]).await;
    let some_to_it = one_in(8, |job| job.prefer("hangs"));
    stage.work(Act::Ill, &app, 5, some_to_it).await;
    hanging.abort();
    stage.work(Act::Healed, &app, 5, plain).await;
    app.abandon();
}
