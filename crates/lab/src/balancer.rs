//! A small TCP load balancer in front of several schedulers.
//!
//! Connections go in turn to those that answer `/ready`. Each is asked every second. One that drains
//! or has no store gets no new connections and keeps those it has; one that does not answer is dead,
//! and its connections are cut, so that clients go on elsewhere at once instead of waiting for a
//! process that may never speak again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::HttpClient;

/// Between two questions to one scheduler.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// For its answer: longer, and it is as good as dead.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// Questions in a row without an answer until it is dead. One may be lost on a busy machine.
const UNANSWERED: u32 = 2;

/// For a connection to a scheduler on the same machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Connections at the same time, more than a demonstration has; the next ones wait.
const MAX_CONNECTIONS: usize = 8_192;

/// After a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is known of one scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It takes work.
    Ready,
    /// It answers, and wants no new work.
    Closed,
    /// It does not answer.
    Dead,
}

/// A load balancer that runs until it is dropped; dropping it cuts all connections.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    targets: Arc<[Target]>,
    _tasks: JoinSet<()>,
}

/// One scheduler.
#[derive(Debug)]
struct Target {
    address: SocketAddr,
    health: watch::Sender<Health>,
    open: AtomicUsize,
}

impl Balancer {
    /// Takes connections from this socket for these schedulers. Each was asked once when it returns.
    pub async fn start(socket: TcpListener, targets: &[SocketAddr]) -> std::io::Result<Self> {
        let address = socket.local_addr()?;
        let targets: Arc<[Target]> = targets.iter().copied().map(Target::new).collect();
        let mut tasks = JoinSet::new();
        for n in 0..targets.len() {
            let look = HttpClient::new(format!("http://{}", targets[n].address));
            let look = look.limit(ANSWER_LIMIT);
            let first = ask(&look).await.unwrap_or(Health::Dead);
            targets[n].health.send_replace(first);
            tasks.spawn(watch_over(Arc::clone(&targets), n, look));
        }
        tasks.spawn(accept(socket, Arc::clone(&targets)));
        Ok(Balancer { address, targets, _tasks: tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is known of each scheduler, in the order they were given.
    pub fn health(&self) -> Vec<Health> {
        self.targets.iter().map(|target| *target.health.borrow()).collect()
    }

    /// How many connections each of them has.
    pub fn connections(&self) -> Vec<usize> {
        self.targets.iter().map(|target| target.open.load(Ordering::Relaxed)).collect()
    }
}

impl Target {
    fn new(address: SocketAddr) -> Self {
        Target { address, health: watch::Sender::new(Health::Dead), open: AtomicUsize::new(0) }
    }

    fn is(&self, wanted: Health) -> bool {
        *self.health.borrow() == wanted
    }
}

/// Whether it takes work; `None` if it does not answer.
async fn ask(look: &HttpClient) -> Option<Health> {
    let reply = look.get("/ready").await.ok()?;
    Some(if reply.is_success() { Health::Ready } else { Health::Closed })
}

/// Asks one scheduler for ever.
async fn watch_over(targets: Arc<[Target]>, n: usize, look: HttpClient) {
    let mut ticks = interval(ASK_EVERY);
    let mut unanswered = 0;
    loop {
        ticks.tick().await;
        let answer = ask(&look).await;
        unanswered = if answer.is_some() { 0 } else { unanswered + 1 };
        let health = match answer {
            Some(health) => health,
            None if unanswered < UNANSWERED => continue,
            None => Health::Dead,
        };
        targets[n].health.send_if_modified(|known| std::mem::replace(known, health) != health);
    }
}

async fn accept(socket: TcpListener, targets: Arc<[Target]>) {
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let turn = Arc::new(AtomicUsize::new(0));
    // Ends with the loop, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        let seat = Arc::clone(&seats).acquire_owned().await.expect("never closed");
        let client = tokio::select! {
            accepted = socket.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((client, _)) = client else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (targets, turn) = (Arc::clone(&targets), Arc::clone(&turn));
        connections.spawn(async move {
            let _seat = seat;
            let first = turn.fetch_add(1, Ordering::Relaxed);
            if let Some((target, server)) = connect(&targets, first).await {
                target.open.fetch_add(1, Ordering::Relaxed);
                forward(client, server, target.health.subscribe()).await;
                target.open.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }
}

/// Connects to the next that is ready; if none is, to one that answers and can say why not.
async fn connect(targets: &[Target], first: usize) -> Option<(&Target, TcpStream)> {
    for wanted in [Health::Ready, Health::Closed] {
        for n in 0..targets.len() {
            let target = &targets[(first + n) % targets.len()];
            if !target.is(wanted) {
                continue;
            }
            match timeout(CONNECT_LIMIT, TcpStream::connect(target.address)).await {
                Ok(Ok(server)) => return Some((target, server)),
                // Nobody listens there any more; it need not be asked to know.
                _ => drop(target.health.send_replace(Health::Dead)),
            }
        }
    }
    None
}

/// Passes bytes both ways until the scheduler's side ends or the scheduler is dead. A client that
/// has said its last word still hears the answer.
async fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    mut health: watch::Receiver<Health>,
) {
    // What is passed on is complete: holding it back would only delay it.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let copied = copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
        // An error means that the client is gone.
        if copied.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = copy(&mut from_server, &mut to_client) => {}
        () = up => {}
        _ = health.wait_for(|health| *health == Health::Dead) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU16;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    use super::*;

    /// Answers `/ready` with a status that can be changed, 0 for no answer, and echoes everything
    /// else with its own letter in front.
    struct Desk {
        address: SocketAddr,
        status: Arc<AtomicU16>,
        task: JoinHandle<()>,
    }

    impl Desk {
        async fn start(letter: u8) -> Self {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let status = Arc::new(AtomicU16::new(200));
            let told = Arc::clone(&status);
            let task = tokio::spawn(async move {
                let mut open = JoinSet::new();
                while let Ok((stream, _)) = socket.accept().await {
                    open.spawn(answer(stream, letter, Arc::clone(&told)));
                }
            });
            Desk { address, status, task }
        }
    }

    async fn answer(mut stream: TcpStream, letter: u8, status: Arc<AtomicU16>) {
        let mut text = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut text).await {
            let status = status.load(Ordering::Relaxed);
            if status == 0 {
                std::future::pending::<()>().await;
            }
            let answer = if text.starts_with(b"GET /ready") {
                format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes()
            } else {
                [&[letter], &text[..count]].concat()
            };
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }

    impl Drop for Desk {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    async fn balancer(desks: &[&Desk]) -> Balancer {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses: Vec<_> = desks.iter().map(|desk| desk.address).collect();
        Balancer::start(socket, &addresses).await.unwrap()
    }

    /// Says a word on a new connection: who answered, and the connection.
    async fn hello(balancer: &Balancer) -> Option<(char, TcpStream)> {
        let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
        let letter = say(&mut stream).await?;
        Some((letter, stream))
    }

    async fn say(stream: &mut TcpStream) -> Option<char> {
        stream.write_all(b"hello").await.ok()?;
        let mut heard = [0; 6];
        stream.read_exact(&mut heard).await.ok()?;
        assert_eq!(&heard[1..], b"hello");
        Some(heard[0] as char)
    }

    async fn until(what: &str, done: impl Fn() -> bool) {
        let soon = async {
            while !done() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), soon).await.unwrap_or_else(|_| panic!("never {what}"));
    }

    #[tokio::test]
    async fn connections_go_in_turn_to_all_that_are_ready() {
        let (a, b) = (Desk::start(b'a').await, Desk::start(b'b').await);
        let balancer = balancer(&[&a, &b]).await;
        let mut heard = String::new();
        for _ in 0..4 {
            heard.push(hello(&balancer).await.unwrap().0);
        }
        assert!(heard == "abab" || heard == "baba", "{heard}");
    }

    #[tokio::test]
    async fn one_that_drains_keeps_what_it_has_and_gets_nothing_new() {
        let (a, b) = (Desk::start(b'a').await, Desk::start(b'b').await);
        let balancer = balancer(&[&a, &b]).await;
        let mut open = [hello(&balancer).await.unwrap(), hello(&balancer).await.unwrap()];
        a.status.store(503, Ordering::Relaxed);
        until("closed", || balancer.health()[0] == Health::Closed).await;
        for _ in 0..4 {
            assert_eq!(hello(&balancer).await.unwrap().0, 'b');
        }
        for (letter, stream) in &mut open {
            assert_eq!(say(stream).await, Some(*letter));
        }
        // With nobody ready, one that answers can say why.
        b.status.store(503, Ordering::Relaxed);
        until("closed", || balancer.health()[1] == Health::Closed).await;
        assert!(hello(&balancer).await.is_some());
        a.status.store(200, Ordering::Relaxed);
        until("ready", || balancer.health()[0] == Health::Ready).await;
        assert_eq!(hello(&balancer).await.unwrap().0, 'a');
    }

    #[tokio::test]
    async fn connections_to_one_that_no_longer_answers_are_cut() {
        let (a, b) = (Desk::start(b'a').await, Desk::start(b'b').await);
        let balancer = balancer(&[&a, &b]).await;
        let mut open = [hello(&balancer).await.unwrap(), hello(&balancer).await.unwrap()];
        a.status.store(0, Ordering::Relaxed);
        for (letter, stream) in &mut open {
            let mut byte = [0];
            let read = timeout(Duration::from_secs(5), stream.read(&mut byte));
            match letter {
                'a' => assert!(matches!(read.await, Ok(Ok(0) | Err(_))), "still open"),
                _ => assert_eq!(say(stream).await, Some('b')),
            }
        }
        assert_eq!(balancer.health(), [Health::Dead, Health::Ready]);
        assert_eq!(hello(&balancer).await.unwrap().0, 'b');
    }

    #[tokio::test]
    async fn one_that_is_gone_is_skipped_at_once() {
        let (a, b) = (Desk::start(b'a').await, Desk::start(b'b').await);
        let balancer = balancer(&[&a, &b]).await;
        drop(a);
        tokio::task::yield_now().await;
        for _ in 0..4 {
            assert_eq!(hello(&balancer).await.unwrap().0, 'b');
        }
        drop(b);
        tokio::task::yield_now().await;
        assert!(hello(&balancer).await.is_none());
    }

    #[tokio::test]
    async fn a_client_that_said_its_last_word_hears_the_answer() {
        let desk = Desk::start(b'a').await;
        let balancer = balancer(&[&desk]).await;
        let mut stream = TcpStream::connect(balancer.address()).await.unwrap();
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "abye");
        until("given back", || balancer.connections() == [0]).await;
    }
}
