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
        "redis-server ends and is back in {STORE_AWAY:?}; look for sentences that end as \
         dependency_down meanwhile, and for nodes that say what they run before they get \
         more."
    ));
    let gone = redis.shutdown().await;
    sleep(STORE_AWAY).await;
    if let Err(error) = gone.and(redis.restart().await) {
        say(format!("The store is not back: {error:#}"));
    }
}

async fn happen(fault: Fault, stage: &mut Stage, fleet: &Fleet, crowd: &Crowd, screen: &Screen) {
    let say = |sentence: String| screen.say(&format!("FAULT  {sentence}"));
    let one = fleet.one();
    let node = one.node.node_id();
    match (fault, stage) {
        (Fault::NodeHangs, _) => {
            say(format!(
                "Node {node} takes jobs and never answers for {NODE_TROUBLE:?}; look for second \
                 copies of its jobs on other nodes, and for its breaker."
            ));
            one.behaves(|behaviour| behaviour.never_answer = 1.0).await;
            sleep(NODE_TROUBLE).await;
            one.behaves(|_| {}).await;
        }
        (Fault::NodeRefuses, _) => {
            say(format!(
                "Node {node} refuses everything as busy for {NODE_TROUBLE:?}; look for its jobs on \
                 other nodes, and that its breaker stays closed: busy is no failure."
            ));
            one.behaves(|behaviour| behaviour.reject = 1.0).await;
            sleep(NODE_TROUBLE).await;
            one.behaves(|_| {}).await;
        }
        (Fault::SpeakersCut, _) => {
            let part = rand::random_range(0..PARTS);
            let count = crowd.cut(part);
            say(format!(
                "The connections of {count} speakers are cut; look for them to come back within a \
                 second, with their sessions and without a sentence missing."
            ));
        }
        (Fault::SchedulerKilled, Stage::Many(many)) => {
            let n = rand::random_range(0..many.instances.len());
            say(format!(
                "Scheduler {} is killed with SIGKILL; look for its nodes and speakers on the others, \
                 with their sessions, and for it to be back in some seconds.",
                n + 1
            ));
            many.instances[n].kill().await;
        }
        (Fault::SchedulerFrozen, Stage::Many(many)) => {
            let n = rand::random_range(0..many.instances.len());
            say(format!(
                "Scheduler {} is stopped for {FROZEN:?} (SIGSTOP); look for the load balancer to \
                 give it up after two seconds, and for it to find its sessions taken afterwards.",
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
                "Node {node} vanishes for {VANISHED:?}; look for its jobs to be done elsewhere, and \
                 for it to be back with slots of its own."
            ));
            // It may be away already.
            let _ = one.node.crash().await;
        }
    }
}
