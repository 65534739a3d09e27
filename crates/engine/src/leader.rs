//! Leader election: one instance does a background task for all.
//!
//! Every instance is a candidate for every task. The store grants one of them a lease and a fencing
//! number, which grows with every change of the leader. The leader renews its lease well before it
//! expires. A dead leader is replaced when its lease expires, a draining one within a second.
//!
//! A leader measures its lease on its own clock, from before it asked the store, so that its own view
//! of the lease ends before the store's. The work is a future that is polled only during the lease:
//! if the store, the network or the whole process hangs, it does nothing afterwards.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lingua_store::leaders::{Lead, Task};
use lingua_store::{Backend, Instance};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::chance::Chance;
use crate::metrics::Metrics;

/// A leader that has not renewed for so long is followed by another.
const LEAD_FOR: Duration = Duration::from_secs(3);

/// How often it renews: two renewals may fail.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How often the others ask, at least and at most; the place in between is chance, so that they do
/// not ask at once.
const ASK_EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(900));

/// How long the store may take for the word of one that leaves.
const FAREWELL: Duration = Duration::from_millis(500);

/// How an instance stands for the tasks that one does for all.
pub(crate) struct Leader {
    store: Backend,
    instance: Instance,
    chance: Chance,
    metrics: Arc<Metrics>,
    will: watch::Sender<Will>,
    terms: [Mutex<Option<Mandate>>; Task::ALL.len()],
}

/// How much an instance wants to lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Will {
    /// As all do.
    Eager,
    /// It is on its way out: only what nobody else has taken for a while.
    Reluctant,
    /// It is gone.
    Never,
}

/// The right to act for all. Cheap to clone; what is done with it carries the fence.
#[derive(Clone, Debug)]
pub(crate) struct Mandate {
    /// Grows with every change of leader.
    pub fence: u64,
    until: watch::Receiver<Instant>,
}

impl Mandate {
    /// Whether the time is not over.
    pub fn holds(&self) -> bool {
        Instant::now() < *self.until.borrow()
    }
}

impl Leader {
    pub fn new(
        store: Backend,
        instance: Instance,
        chance: Chance,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        for task in Task::ALL {
            metrics.leads(task.as_str(), false);
        }
        let will = watch::Sender::new(Will::Eager);
        Arc::new(Leader { store, instance, chance, metrics, will, terms: Default::default() })
    }

    /// Runs until the engine ends: stands for the task, and does `work` whenever and for as long as
    /// this instance leads. Work that ends by itself is begun anew with the next renewal.
    pub async fn run<W, F>(self: Arc<Self>, task: Task, work: W)
    where
        W: Fn(Mandate) -> F,
        F: Future<Output = ()>,
    {
        let mut will = self.will.subscribe();
        loop {
            let asked = Instant::now();
            let wanted = *will.borrow_and_update();
            if wanted == Will::Never {
                return;
            }
            if let Some(Lead::Leading { fence }) = self.ask(task, LEAD_FOR).await {
                let (until, mandate) = watch::channel(asked + LEAD_FOR);
                let mandate = Mandate { fence, until: mandate };
                self.set(task, Some(mandate.clone()));
                let mut doing = pin!(work(mandate.clone()));
                let doing = poll_fn(|context| match mandate.holds() {
                    true => doing.as_mut().poll(context),
                    false => Poll::Ready(()),
                });
                let resigned = tokio::select! {
                    biased;
                    lost = self.keep(task, fence, &until) => lost,
                    _ = will.wait_for(|now| *now > wanted) => Some(fence),
                    () = doing => None,
                };
                until.send_replace(Instant::now());
                self.set(task, None);
                // Last, for from this word on another may lead.
                if let Some(fence) = resigned {
                    let saying = self.store.leaders.resign(task, &self.instance, fence);
                    let _ = tokio::time::timeout(FAREWELL, saying).await;
                }
            }
            let pause = match *will.borrow() {
                Will::Eager => self.pause(),
                Will::Reluctant => LEAD_FOR,
                Will::Never => return,
            };
            // Who is gone need not wait, and a lead that is only reluctantly wanted must.
            let gone = will.wait_for(|now| *now == Will::Never);
            let _ = tokio::time::timeout(pause, gone).await;
        }
    }

    /// Renews until the lead is lost, or until it may be. If it was lost and won again under another
    /// fence, that is another term: it is given back, to be begun properly.
    async fn keep(&self, task: Task, fence: u64, until: &watch::Sender<Instant>) -> Option<u64> {
        let mut status = self.store.status.clone();
        loop {
            let end = *until.borrow();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(end) => return None,
                // A store that is dropped answers nobody any more either.
                _ = status.wait_for(|status| !status.is_up()) => return None,
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
            let asked = Instant::now();
            match self.ask(task, end.saturating_duration_since(asked)).await {
                Some(Lead::Leading { fence: again }) if again == fence => {
                    until.send_replace(asked + LEAD_FOR);
                }
                Some(Lead::Leading { fence: again }) => return Some(again),
                Some(Lead::Held { .. }) => return None,
                None => {}
            }
        }
    }

    /// What the store says, if it does within the time.
    async fn ask(&self, task: Task, within: Duration) -> Option<Lead> {
        let asking = self.store.leaders.lead(task, &self.instance, LEAD_FOR);
        match tokio::time::timeout(within, asking).await {
            Ok(Ok(lead)) => Some(lead),
            Ok(Err(error)) => {
                tracing::debug!(task = task.as_str(), %error, "nobody knows who leads");
                None
            }
            Err(_) => None,
        }
    }

    fn set(&self, task: Task, mandate: Option<Mandate>) {
        let leads = mandate.as_ref().map(|mandate| mandate.fence);
        let before = std::mem::replace(&mut *self.terms[place(task)].lock(), mandate);
        if before.map(|mandate| mandate.fence) == leads {
            return;
        }
        self.metrics.leads(task.as_str(), leads.is_some());
        match leads {
            Some(fence) => tracing::info!(task = task.as_str(), fence, "leads"),
            None => tracing::info!(task = task.as_str(), "leads no more"),
        }
    }

    fn pause(&self) -> Duration {
        let (least, most) = ASK_EVERY;
        let range = (most - least).as_millis() as u64 + 1;
        least + Duration::from_millis(self.chance.bits() % range)
    }

    /// The fence of the task's lead, if this instance has it.
    pub fn fence(&self, task: Task) -> Option<u64> {
        let term = self.terms[place(task)].lock();
        term.as_ref().filter(|mandate| mandate.holds()).map(|mandate| mandate.fence)
    }

    /// Leaves the lead to others, and takes only what nobody else wants.
    pub fn drain(&self) {
        self.will.send_if_modified(|will| {
            let eager = *will == Will::Eager;
            if eager {
                *will = Will::Reluctant;
            }
            eager
        });
    }

    /// Leaves for good.
    pub async fn end(&self) {
        self.will.send_replace(Will::Never);
        // The tasks themselves give up what they lead.
        let _ = tokio::time::timeout(2 * FAREWELL, self.will.closed()).await;
    }
}

fn place(task: Task) -> usize {
    Task::ALL.iter().position(|one| *one == task).expect("all tasks are listed")
}

#[cfg(test)]
mod tests;
