//! A job for which all is full waits for a slot.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::NodeId;
use lingua_core::job::JobStep;
use lingua_core::outcome::Code;
use lingua_core::time::millis;
use tokio::time::Instant;

use super::JobEvent;
use super::asking::Written;
use super::registry::Job;
use super::run::Run;
use super::waiting::Call;
use crate::job::{Ended, Refusal};

impl Run {
    /// Waits for a slot. `Some` is a node whose slot is this job's to ask for, `None` a hint to look
    /// again.
    pub(super) async fn wait_in_line(
        &mut self,
        strict: bool,
    ) -> Result<Option<NodeId>, Option<Ended>> {
        match self.write_down(None).await {
            Written::Yes => self.created = true,
            Written::Over(ended) => return Err(ended),
            Written::Elsewhere(record) => {
                self.elsewhere(*record);
                return Err(None);
            }
        }
        let began = Instant::now();
        let queue_max = Duration::from_millis(self.d.shared.settings.timing.queue_max_ms);
        // However often it gets in line, it waits no longer than that in all.
        let until = (began + queue_max.saturating_sub(self.waited)).min(self.deadline);
        let d = Arc::clone(&self.d);
        let only = self.spec.preferred.clone().filter(|_| strict);
        let excluded = self.excluded.clone();
        let Some(mut line) = d.waiting.join(&self.spec.need, only, excluded, self.deadline) else {
            return Err(Some(self.busy("the line for this direction is full")));
        };
        self.job.change(|view| Job::step(view, JobStep::Wait));
        self.traced.waits();
        let call = loop {
            tokio::select! {
                biased;
                call = &mut line.call => break call.ok(),
                event = self.events.recv() => {
                    if let Some(JobEvent::Cancel { reason }) = event {
                        self.pass_on(line.leave());
                        return Err(Some(Ended::Cancelled(reason.into())));
                    }
                }
                () = tokio::time::sleep_until(until) => {
                    self.pass_on(line.leave());
                    return Err(Some(self.busy(&self.all_full())));
                }
            }
        };
        self.traced.waited();
        let waited = began.elapsed();
        self.waited += waited;
        d.shared.metrics.wait_seconds.observe(waited.as_secs_f64());
        self.job.change(|view| {
            view.waited_ms += millis(waited);
            Job::step(view, JobStep::Select);
        });
        match call {
            Some(Call::Slot(node)) => Ok(Some(node)),
            Some(Call::Leave) => Err(Some(
                self.busy("the line for this direction is full, and others have less in it"),
            )),
            Some(Call::Look) | None if Instant::now() >= until => {
                Err(Some(self.busy(&self.all_full())))
            }
            Some(Call::Look) | None => Ok(None),
        }
    }

    pub(super) fn pass_on(&self, node: Option<NodeId>) {
        if let Some(node) = node {
            pass_to_next(&self.d, node);
        }
    }

    fn busy(&self, why: &str) -> Ended {
        self.d.demand.note(self.spec.need.route, self.spec.need.speech);
        let (code, detail) = if self.spec.strict && self.spec.preferred.is_some() {
            (Code::PreferredNodeBusy, "the node asked for is full, and no other is wanted")
        } else {
            (Code::AllNodesBusy, why)
        };
        Ended::Failed(Refusal::new(code, detail).retry_after(self.retry_after_ms()))
    }

    /// That every slot is taken, and how many there are if some are not open.
    fn all_full(&self) -> String {
        let need = &self.spec.need;
        let mut fleet = self.d.shared.fleet.lock();
        let slots =
            fleet.members(need.route, need.speech).filter(|node| node.why_not(need).is_empty());
        let slots = slots.map(|node| (u64::from(node.max()), u64::from(node.profile().max_slots)));
        let (open, declared) = slots.fold((0, 0), |sum, (open, all)| (sum.0 + open, sum.1 + all));
        match open < declared {
            true => format!("every able node is full: {open} of {declared} slots open"),
            false => "every able node is full".to_owned(),
        }
    }

    /// When a slot is likely to be free: the line's length times what a job takes, over the slots.
    fn retry_after_ms(&self) -> u64 {
        let need = &self.spec.need;
        let ahead = self.d.waiting.length(need.route, need.speech) as u64 + 1;
        let mut fleet = self.d.shared.fleet.lock();
        let (mut slots, mut latency, mut nodes) = (0u64, 0u64, 0u64);
        for node in fleet.members(need.route, need.speech).take(64) {
            slots += u64::from(node.max());
            latency += u64::from(node.latency_ms().unwrap_or(1_000));
            nodes += 1;
        }
        let each = latency / nodes.max(1);
        (ahead * each / slots.max(1)).clamp(100, 30_000)
    }
}

/// A slot that nobody took goes to the next in line.
fn pass_to_next(d: &super::Dispatcher, node: NodeId) {
    match d.nodes.get(&node) {
        Some(state) => d.nodes.slot_came_back(&state),
        None => d.shared.fleet.ended(&node),
    }
}
