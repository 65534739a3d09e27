//! One task at a time, in an order that follows from a seed: for simulations.
//!
//! The runtime polls tasks in the order in which they were woken, and that is not the same in two runs: a
//! `watch` channel of tokio wakes its waiters in an order of chance. Tasks that take turns are polled by the runtime as
//! before, but each then waits until it is its turn. All that one task wakes wait before the next turn is given, so whose
//! turn it can be does not depend on the order in which they were woken, and whose it is depends on the seed alone.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::chance::Chance;

/// The order of the tasks of one simulation. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    state: Arc<Mutex<State>>,
    chance: Chance,
}

#[derive(Default)]
struct State {
    /// The number of the task that was started last.
    last: u64,
    /// Tasks that could go on.
    ready: BTreeMap<u64, Waker>,
    /// Whose turn it is.
    turn: Option<u64>,
    giver: Option<Waker>,
}

impl State {
    fn wake_giver(&mut self) {
        if let Some(giver) = self.giver.take() {
            giver.wake();
        }
    }
}

impl Turns {
    /// Turns in the order that follows from this chance.
    pub fn new(chance: Chance) -> Self {
        Turns { state: Arc::default(), chance }
    }

    /// Gives one turn after the other, for ever. Somebody must wait for it, or no task goes on.
    pub fn give(&self) -> impl Future<Output = ()> + Send + 'static {
        let turns = self.clone();
        poll_fn(move |context| turns.poll_give(context))
    }

    fn poll_give(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.turn.is_none() && !state.ready.is_empty() {
            let place = self.chance.bits() % state.ready.len() as u64;
            let next = state.ready.keys().nth(place as usize).copied();
            state.turn = next;
            if let Some(waker) = next.and_then(|number| state.ready.remove(&number)) {
                waker.wake();
            }
        }
        state.giver = Some(context.waker().clone());
        Poll::Pending
    }

    /// A number for a task that starts.
    pub(super) fn enrol(&self) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        state.last
    }

    /// Whether it is this task's turn. If not, it is woken when it is.
    pub(super) fn is_turn_of(&self, number: u64, context: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        let its_turn = state.turn == Some(number);
        if !its_turn {
            state.ready.insert(number, context.waker().clone());
            if state.turn.is_none() {
                state.wake_giver();
            }
        }
        its_turn
    }

    /// The turn of this task is over, if it was its turn.
    pub(super) fn end_turn(&self, number: u64) {
        let mut state = self.state.lock();
        if state.turn == Some(number) {
            state.turn = None;
            state.wake_giver();
        }
    }

    /// The task is over.
    pub(super) fn leave(&self, number: u64) {
        self.state.lock().ready.remove(&number);
        self.end_turn(number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::super::Host;
    use super::*;
    use crate::tasks;

    /// The order in which tasks that one word woke went on.
    fn order(seed: u64) -> Vec<u32> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let turns = Turns::new(Chance::seeded(seed));
            let (word, heard) = (watch::Sender::new(0), Arc::new(Mutex::new(Vec::new())));
            let host = Host::taking_turns(&turns);
            tokio::spawn(turns.give());
            let all = (0..30).map(|number| {
                let (mut word, heard) = (word.subscribe(), Arc::clone(&heard));
                host.enter(|| {
                    tasks::spawn("waits", async move {
                        while word.changed().await.is_ok() {
                            heard.lock().push(number);
                        }
                    })
                })
            });
            let all: Vec<_> = all.collect();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            word.send_replace(1);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            drop(word);
            for task in all {
                assert!(task.await.is_ok());
            }
            std::mem::take(&mut *heard.lock())
        })
    }

    #[test]
    fn what_a_watch_wakes_goes_on_in_the_order_of_the_seed() {
        let one = order(1);
        assert_eq!(one.len(), 30);
        assert_eq!(order(1), one);
        assert_ne!(order(2), one);
    }
}
