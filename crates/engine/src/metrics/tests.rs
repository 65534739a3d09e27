use std::time::Duration;

use bytes::Bytes;
use lingua_protocol::node::message::read_message;
use lingua_store::nodes::Order;

use crate::job::{JobReport, NodeResult};
use crate::testing::{TestNode, World, is_done, node_id, submit, within};
use crate::{Engine, Settings};

const PATIENCE: Duration = Duration::from_secs(60);

fn says(engine: &Engine, sample: &str) -> bool {
    engine.scrape().contains(&format!("\n{sample}\n"))
}

#[tokio::test(start_paused = true)]
async fn a_job_tells_its_stages_by_pair() {
    let (engine, _) = World::new().instance("a", Settings::stable()).await;
    let mut node = TestNode::register(&engine, "n", 1).await;
    let (first, second) = (submit(&engine, 1), submit(&engine, 2));
    let assigned = node.assigned().await;
    assert!(says(&engine, "lingua_slots_wanted{pair=\"en->zh\"} 2"), "one runs and one waits");
    tokio::time::sleep(Duration::from_millis(300)).await;
    node.accepts(assigned);
    let body = "{\"text_asr\":\"a\",\"service_timings\":{\"asr_ms\":400,\"tts_ms\":-1}}";
    let body = read_message(Bytes::from_static(body.as_bytes()));
    node.says(assigned, JobReport::Result(NodeResult::Success(body)));
    within(PATIENCE, "the first job", || is_done(&first)).await;
    let assigned = node.assigned().await;
    node.accepts(assigned);
    node.answers(assigned);
    within(PATIENCE, "the second job", || is_done(&second)).await;
    for (stage, count) in [("queue", 2), ("send", 2), ("asr", 1), ("nmt", 0), ("tts", 0)] {
        let of_all = format!("lingua_stage_seconds_count{{stage=\"{stage}\"}} {count}");
        let label = format!("{{pair=\"en->zh\",stage=\"{stage}\"}}");
        let of_pair = format!("lingua_pair_stage_seconds_count{label} {count}");
        assert!(says(&engine, &of_all) && says(&engine, &of_pair), "{stage}: {}", engine.scrape());
    }
    assert!(says(&engine, "lingua_stage_seconds_sum{stage=\"asr\"} 0.4"));
    assert!(says(&engine, "lingua_slots_wanted{pair=\"en->zh\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn registrations_are_counted_by_what_became_of_them() {
    let world = World::new();
    let (engine, faults) = world.instance("a", Settings::stable()).await;
    let count = |status: &str, count: u32| {
        let sample = format!("lingua_node_registrations_total{{status=\"{status}\"}} {count}");
        assert!(says(&engine, &sample), "{sample}");
    };
    let node = TestNode::register(&engine, "n", 1).await;
    count("new", 1);
    let again = TestNode::register(&engine, "n", 1).await;
    count("back", 1);
    faults.down(&["put"]);
    assert!(TestNode::try_register(&engine, "m", 1).await.is_err());
    count("store_down", 1);
    faults.heal();
    world.store.orders.set(&node_id("n"), Order::Block).await.unwrap();
    assert!(TestNode::try_register(&engine, "n", 1).await.is_err());
    count("blocked", 1);
    drop((node, again));
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_timed_until_the_store_has_it() {
    let (engine, faults) = World::new().instance("a", Settings::stable()).await;
    let node = TestNode::register(&engine, "n", 1).await;
    faults.delay("beat", Duration::from_millis(700));
    node.beats();
    let timed = || says(&engine, "lingua_heartbeat_seconds_sum 0.7");
    within(PATIENCE, "the heartbeat", timed).await;
}
