//! A machine of a simulation: all tasks of one instance, to be stopped, continued and killed together.
//!
//! Tasks belong to the host of whoever starts them. A thread that entered none, as in every real
//! process, starts tasks that belong to nobody; that costs one look at a value of the thread.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use super::turns::Turns;

thread_local! {
    static CURRENT: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// The tasks of one simulated process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Host {
    state: Arc<Mutex<State>>,
    /// Its tasks run one at a time with those of other hosts.
    turns: Option<Turns>,
}

#[derive(Default)]
struct State {
    condition: Condition,
    /// Tasks that wait for the host to go on.
    parked: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// How many tasks there were after the last look for those that ended.
    kept: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Running,
    Stopped,
    Dead,
}

impl Host {
    /// A host whose tasks take turns with those of all hosts that do.
    pub fn taking_turns(turns: &Turns) -> Self {
        Host { turns: Some(turns.clone()), ..Host::default() }
    }

    /// Whose task runs now.
    fn current() -> Option<Host> {
        // A thread that ends has none.
        CURRENT.try_with(|host| host.borrow().clone()).ok().flatten()
    }

    /// Does something as this host: what it starts belongs to the host.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let _entered = Entered(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// No task of the host runs until it is continued; time goes on.
    pub fn stop(&self) {
        self.go(Condition::Running, Condition::Stopped);
    }

    /// Lets a stopped host go on.
    pub fn go_on(&self) {
        self.go(Condition::Stopped, Condition::Running);
        let parked = std::mem::take(&mut self.state.lock().parked);
        parked.into_iter().for_each(Waker::wake);
    }

    /// Ends all tasks of the host where they stand. None starts any more.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        state.condition = Condition::Dead;
        let tasks = std::mem::take(&mut state.tasks);
        state.parked.clear();
        drop(state);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Whether its tasks run.
    pub fn is_running(&self) -> bool {
        self.state.lock().condition == Condition::Running
    }

    fn go(&self, from: Condition, to: Condition) {
        let mut state = self.state.lock();
        if state.condition == from {
            state.condition = to;
        }
    }

    /// Whether a task may run now. Of a host that is stopped it is woken later, of a dead one never.
    fn may_run(&self, context: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        if state.condition == Condition::Stopped {
            state.parked.push(context.waker().clone());
        }
        state.condition == Condition::Running
    }

    fn note(&self, task: AbortHandle) {
        let mut state = self.state.lock();
        if state.condition == Condition::Dead {
            return task.abort();
        }
        state.tasks.push(task);
        if state.tasks.len() > 2 * state.kept.max(64) {
            state.tasks.retain(|task| !task.is_finished());
            state.kept = state.tasks.len();
        }
    }
}

/// Puts back whose task ran before.
struct Entered(Option<Host>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// The work of a task of a host. It ends within the host, too.
struct Hosted<F> {
    host: Host,
    /// Its number among those that take turns.
    number: u64,
    work: Option<Pin<Box<F>>>,
}

impl<F> Drop for Hosted<F> {
    fn drop(&mut self) {
        let work = self.work.take();
        self.host.enter(|| drop(work));
        if let Some(turns) = &self.host.turns {
            turns.leave(self.number);
        }
    }
}

impl<F: Future> Hosted<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(work) = self.work.as_mut() else { return Poll::Pending };
        let (host, number) = (&self.host, self.number);
        if host.turns.as_ref().is_some_and(|turns| !turns.is_turn_of(number, context)) {
            return Poll::Pending;
        }
        let polled = match host.may_run(context) {
            true => host.enter(|| work.as_mut().poll(context)),
            false => Poll::Pending,
        };
        if let Some(turns) = &host.turns {
            turns.end_turn(number);
        }
        polled
    }
}

pub(super) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(host) = Host::current() else { return tokio::spawn(work) };
    let number = host.turns.as_ref().map_or(0, Turns::enrol);
    let mut hosted = Hosted { host: host.clone(), number, work: Some(Box::pin(work)) };
    let task = tokio::spawn(async move { poll_fn(|context| hosted.poll(context)).await });
    host.note(task.abort_handle());
    task
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::tasks;

    async fn second() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_a_host_stop_go_on_and_die_together() {
        let (host, ticks) = (Host::default(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&ticks);
        host.enter(|| {
            tasks::start(async move {
                // A task of a task is the host's too.
                tasks::start(async move {
                    loop {
                        second().await;
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        });
        let count = || ticks.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(count(), 3);
        host.stop();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((count(), host.is_running()), (3, false));
        host.go_on();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(count(), 5, "the timer that was due, and one more");
        host.kill();
        second().await;
        assert_eq!((count(), Arc::strong_count(&ticks)), (5, 1), "the work is dropped");
        let late = host.enter(|| tasks::spawn("late", async {}));
        assert!(late.await.is_err(), "a dead host starts nothing");
    }
}
