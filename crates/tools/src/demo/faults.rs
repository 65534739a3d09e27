//! Something breaks every few seconds, and a sentence says what to look for.

use std::time::Duration;

use tokio::time::sleep;

use super::crowd::{Crowd, PARTS};
use super::fleet::{Fleet, VANISHED};
use super::screen::Screen;
use super::stage::{Many, Stage};

/// Before the first fault, and between two.
const BETWEEN_MS: std::ops::Range<u64> = 10_000..15_000;

/// How long a node hangs or refuses.
const NODE_TROUBLE: Duration = Duration::from_secs(12);

/// How long a scheduler is frozen: longer than the others wait for it.
const FROZEN: Duration = Duration::from_secs(8);

/// How long the store is away.
const STORE_AWAY: Duration = Duration::from_secs(3);

/// What can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NodeVanishes,
    NodeHangs,
    NodeRefuses,
    SpeakersCut,
    SchedulerKilled,
    SchedulerFrozen,
    StoreRestarted,
}

impl Fault {
    /// What there is to break.
    fn of(stage: &Stage) -> Vec<Fault> {
        let mut faults =
            vec![Fault::NodeVanishes, Fault::NodeHangs, Fault::NodeRefuses, Fault::SpeakersCut];
        if let Stage::Many(many) = stage {
            faults.extend([Fault::SchedulerKilled, Fault::SchedulerFrozen]);
            faults.extend(many.redis.as_ref().map(|_| Fault::StoreRestarted));
        }
        faults
    }
}

/// Breaks one thing after the other, never the same twice in a row.
pub(super) async fn go_on(stage: &mut Stage, fleet: &Fleet, crowd: &Crowd, screen: &Screen) {
    let mut last = None;
    loop {
        sleep(Duration::from_millis(rand::random_range(BETWEEN_MS))).await;
        let mut faults = Fault::of(stage);
        faults.retain(|fault| Some(*fault) != last);
        let fault = faults[rand::random_range(0..faults.len())];
        last = Some(fault);
        happen(fault, stage, fleet, crowd, screen).await;
    }
}

async fn restart_store(many: &mut Many, say: impl Fn(String)) {
    let Some(redis) = &mut many.redis else { return };
    say(format!(
        "redis-server is stopped for {STORE_AWAY:?}. Expect sentences that end as dependency_down \
         meanwhile; afterwards nodes report their running jobs before they get new ones."
    ));
    let gone = redis.shutdown().await;
    sleep(STORE_AWAY).await;
    if let Err(error) = gone.and(redis.restart().await) {
        say(format!("redis-server did not restart: {error:#}"));
    }
}

async fn happen(fault: Fault, stage: &mut Stage, fleet: &Fleet, crowd: &Crowd, screen: &Screen) {
    let say = |sentence: String| screen.say(&format!("FAULT  {sentence}"));
    let one = fleet.one();
    let node = one.node.node_id();
    match (fault, stage) {
        (Fault::NodeHangs, _) => {
            say(format!(
                "Node {node} takes jobs and does not answer for {NODE_TROUBLE:?}. Expect its jobs to be \
                 hedged on other nodes, and its circuit breaker to open."
            ));
            one.behaves(|behaviour| behaviour.never_answer = 1.0).await;
            sleep(NODE_TROUBLE).await;
            one.behaves(|_| {}).await;
        }
        (Fault::NodeRefuses, _) => {
            say(format!(
                "Node {node} rejects every job as busy for {NODE_TROUBLE:?}. Expect its jobs on other \
                 nodes. Its circuit breaker stays closed: busy is not a failure."
            ));
            one.behaves(|behaviour| behaviour.reject = 1.0).await;
            sleep(NODE_TROUBLE).await;
            one.behaves(|_| {}).await;
        }
        (Fault::SpeakersCut, _) => {
            let part = rand::random_range(0..PARTS);
            let count = crowd.cut(part);
            say(format!(
                "The connections of {count} speakers are cut. Expect them to resume their sessions \
                 within a second, without a missing sentence."
            ));
        }
        (Fault::SchedulerKilled, Stage::Many(many)) => {
            let n = rand::random_range(0..many.instances.len());
            say(format!(
                "Scheduler {} is killed (SIGKILL). Expect its nodes and its speakers, with their \
                 sessions, on the others. It restarts after some seconds.",
                n + 1
            ));
            many.instances[n].kill().await;
        }
        (Fault::SchedulerFrozen, Stage::Many(many)) => {
            let n = rand::random_range(0..many.instances.len());
            say(format!(
                "Scheduler {} is frozen for {FROZEN:?} (SIGSTOP). Expect the load balancer to stop \
                 using it after two seconds. When it continues, others own its sessions.",
                n + 1
            ));
            many.instances[n].freeze(FROZEN).await;
        }
        (Fault::StoreRestarted, Stage::Many(many)) => {
            restart_store(many, say).await;
        }
        // Also what this stage does not have.
        (Fault::NodeVanishes, _) | (_, _) => {
            say(format!(
                "Node {node} disconnects for {VANISHED:?}. Expect its jobs on other nodes, and all its \
                 slots free when it returns."
            ));
            // It may be away already.
            let _ = one.node.crash().await;
        }
    }
}
