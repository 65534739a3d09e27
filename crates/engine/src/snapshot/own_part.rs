//! What one instance counts and says of itself.

use std::sync::atomic::Ordering;

use lingua_core::node::Health as NodeHealth;
use lingua_store::leaders::Task;
use tokio::time::Instant;

use super::board::Board;
use super::findings;
use super::node_history::Sample;
use super::part::{MAX_LINES, MAX_VAIN, Part, Troubled, note, since};
use super::view::{Failure, InstanceView, NodeCounts, Vain};
use crate::nodes::{BreakerView, Order};

impl Board {
    /// What this instance counted since the last time, and how it stands.
    pub(super) async fn part(&self) -> Part {
        let shared = &self.shared;
        let inbox = shared.store.bus.depth(&shared.instance).await;
        if let Ok(envelopes) = inbox {
            shared.metrics.set_inbox(envelopes);
        }
        shared.metrics.pairs.review();
        let counters = shared.metrics.counters();
        let (began, before) = {
            let mut counted = self.counted.lock();
            std::mem::replace(&mut *counted, (Instant::now(), counters.clone()))
        };
        let (nodes, troubled) = self.count_nodes();
        shared.metrics.set_slots(nodes.slots, nodes.used);
        shared.metrics.set_open_breakers(nodes.breaker_open);
        let mut lines = self.jobs.queue_lengths();
        lines.truncate(MAX_LINES);
        let unmet = self.jobs.unmet().into_iter().take(MAX_VAIN);
        let vain = |(route, tts): (lingua_core::eligibility::Route, bool)| Vain {
            direction: route.to_string(),
            tts,
            served: false,
        };
        let (sessions, connected) = self.sessions.counts();
        let leads = Task::ALL.into_iter().filter(|task| self.leader.fence(*task).is_some());
        Part {
            instance: InstanceView {
                id: shared.instance.id.to_string(),
                boot: InstanceView::boot_of(&shared.instance),
                address: self.address.get().cloned().unwrap_or_default(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_ms: self.started_ms,
                last_seen_ms: shared.clock.now().as_millis(),
                draining: self.draining.load(Ordering::Relaxed),
                missing: false,
                nodes: nodes.total,
                sessions,
                open_jobs: shared.metrics.jobs.open_jobs.get().max(0) as u64,
                waiting: shared.metrics.jobs.waiting.get().max(0) as u64,
                inbox: inbox.unwrap_or(0) as u64,
                leads: leads.map(|task| task.as_str().to_owned()).collect(),
            },
            interval_ms: (began.elapsed().as_millis() as u64).max(1),
            ended: since(&counters.ended, &before.ended),
            endings: since(&counters.endings, &before.endings),
            retries: counters.retries.saturating_sub(before.retries),
            dispatch: counters.dispatch.since(&before.dispatch),
            job: counters.job.since(&before.job),
            sentence: counters.sentence.since(&before.sentence),
            ended_total: counters.ended,
            connected,
            nodes,
            lines,
            unmet: unmet.map(vain).collect(),
            failures: self.failures(),
            troubled,
        }
    }

    fn failures(&self) -> Vec<Failure> {
        let instance = self.shared.instance.id.to_string();
        let failed = self.shared.job_log.latest_failed().into_iter();
        failed.map(|job| Failure::of(&job, instance.clone())).collect()
    }

    /// The nodes whose connection this instance has.
    fn count_nodes(&self) -> (NodeCounts, Troubled) {
        let (mut counts, mut samples) = (NodeCounts::default(), Vec::new());
        let mut troubled = Troubled::new();
        for node in self.nodes.all() {
            let status = node.status();
            let slots = (status.open_slots, self.shared.fleet.used(&node.id));
            let (id, (done, failed)) = (node.id.clone(), status.here);
            samples.push(Sample { id, slots, done, failed });
            counts.total += 1;
            let mut count = |count: &mut u64, code: &str, applies: bool| {
                if applies {
                    *count += 1;
                    note(&mut troubled, code, node.id.as_str());
                }
            };
            let here = status.connected;
            let broken = here && status.breaker != BreakerView::Closed;
            count(&mut counts.breaker_open, findings::BREAKER_OPEN, broken);
            count(&mut counts.overdue, findings::OVERDUE, here && !status.fresh);
            count(&mut counts.overloaded, findings::OVERLOADED, here && status.overloaded);
            count(&mut counts.ordered, findings::ORDERED, status.order != Order::Serve);
            let (health, open) = (status.health, status.open_slots);
            match health {
                NodeHealth::Ready => {
                    counts.ready += 1;
                    counts.slots += u64::from(open);
                    counts.used += u64::from(self.shared.fleet.used(&node.id));
                }
                NodeHealth::Registering => counts.registering += 1,
                NodeHealth::Degraded => counts.degraded += 1,
                NodeHealth::Draining => counts.draining += 1,
                NodeHealth::Offline => counts.offline += 1,
            }
        }
        self.node_history.sample(self.shared.clock.now().as_millis(), samples);
        (counts, troubled)
    }
}
