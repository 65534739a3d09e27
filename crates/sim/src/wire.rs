//! A connection between two processes of a world: both directions keep their order, take their time, and
//! can be held up or cut.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

/// Messages on their way in one direction; whoever sends more finds the connection broken.
const MAX_ON_THE_WAY: usize = 4_096;

struct Lane<T> {
    queue: VecDeque<(Instant, T)>,
    /// The sender is gone: what is on its way still arrives.
    closed: bool,
    /// Nothing arrives for the time being.
    held: bool,
    delay: Duration,
    reader: Option<Waker>,
}

impl<T> Lane<T> {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

type Shared<T> = Arc<Mutex<Lane<T>>>;

/// The end of a direction that messages are put into.
pub(crate) struct Sender<T>(Shared<T>);

/// The end at which they arrive.
pub(crate) struct Receiver<T> {
    lane: Shared<T>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// What can be done to a connection from outside.
pub(crate) trait Control: Send + Sync {
    /// Both ends find it broken at once; what is on its way is lost.
    fn cut(&self);
    /// Nothing arrives until it is let go.
    fn hold(&self, held: bool);
    /// Everything takes so long from now on.
    fn delay(&self, by: Duration);
}

struct Both<A, B>(Shared<A>, Shared<B>);

/// One end of a connection.
pub(crate) struct End<Out, In> {
    pub out: Sender<Out>,
    pub inn: Receiver<In>,
}

/// A new connection, and what can be done to it.
pub(crate) fn connect<A: Send + 'static, B: Send + 'static>(
    delay: Duration,
) -> (End<A, B>, End<B, A>, Arc<dyn Control>) {
    let (there, back) = (lane::<A>(delay), lane::<B>(delay));
    let control = Arc::new(Both(Arc::clone(&there), Arc::clone(&back)));
    let near = End { out: Sender(Arc::clone(&there)), inn: Receiver::new(Arc::clone(&back)) };
    let far = End { out: Sender(back), inn: Receiver::new(there) };
    (near, far, control)
}

fn lane<T>(delay: Duration) -> Shared<T> {
    let (queue, reader) = (VecDeque::new(), None);
    Arc::new(Mutex::new(Lane { queue, closed: false, held: false, delay, reader }))
}

impl<T> Sender<T> {
    /// Puts a message on its way. Of a connection that is broken nobody hears it.
    pub fn send(&self, message: T) {
        let mut lane = self.0.lock();
        if lane.closed {
            return;
        }
        if lane.queue.len() >= MAX_ON_THE_WAY {
            lane.closed = true;
            lane.queue.clear();
            return lane.wake();
        }
        let due = Instant::now() + lane.delay;
        let due = lane.queue.back().map_or(due, |(last, _)| due.max(*last));
        lane.queue.push_back((due, message));
        lane.wake();
    }

    /// Messages that have not been taken yet, and since when the oldest waits.
    pub fn unread(&self) -> (usize, Option<Instant>) {
        let lane = self.0.lock();
        (lane.queue.len(), lane.queue.front().map(|(due, _)| *due))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut lane = self.0.lock();
        lane.closed = true;
        lane.wake();
    }
}

impl<T> Receiver<T> {
    fn new(lane: Shared<T>) -> Self {
        Receiver { lane, timer: None }
    }

    /// The next message that has arrived; `None` once the connection is over.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            let due = {
                let mut lane = self.lane.lock();
                let due = lane.queue.front().map(|(due, _)| *due);
                match due {
                    Some(due) if !lane.held && due <= Instant::now() => {
                        return Poll::Ready(lane.queue.pop_front().map(|(_, message)| message));
                    }
                    None if lane.closed => return Poll::Ready(None),
                    _ => {}
                }
                lane.reader = Some(cx.waker().clone());
                due.filter(|_| !lane.held)
            };
            let Some(due) = due else { return Poll::Pending };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() != due || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut lane = self.lane.lock();
        lane.closed = true;
        lane.queue.clear();
    }
}

impl<A: Send, B: Send> Control for Both<A, B> {
    fn cut(&self) {
        fn end<T>(lane: &Shared<T>) {
            let mut lane = lane.lock();
            (lane.closed, lane.held) = (true, false);
            lane.queue.clear();
            lane.wake();
        }
        end(&self.0);
        end(&self.1);
    }

    fn hold(&self, held: bool) {
        fn hold<T>(lane: &Shared<T>, held: bool) {
            let mut lane = lane.lock();
            lane.held = held;
            lane.wake();
        }
        hold(&self.0, held);
        hold(&self.1, held);
    }

    fn delay(&self, by: Duration) {
        self.0.lock().delay = by;
        self.1.lock().delay = by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn messages_take_their_time_keep_their_order_and_are_lost_with_the_connection() {
        let (mut near, mut far, control) = connect::<u32, u32>(5 * MS);
        let began = Instant::now();
        near.out.send(1);
        near.out.send(2);
        assert_eq!((far.inn.recv().await, far.inn.recv().await), (Some(1), Some(2)));
        assert_eq!(began.elapsed(), 5 * MS);
        control.delay(MS);
        control.hold(true);
        far.out.send(3);
        assert!(tokio::time::timeout(50 * MS, near.inn.recv()).await.is_err());
        control.hold(false);
        assert_eq!(near.inn.recv().await, Some(3));
        far.out.send(4);
        control.cut();
        assert_eq!((near.inn.recv().await, far.inn.recv().await), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_arrives_when_its_sender_goes() {
        let (near, mut far, _) = connect::<u32, u32>(5 * MS);
        near.out.send(1);
        drop(near);
        assert_eq!((far.inn.recv().await, far.inn.recv().await), (Some(1), None));
    }
}
