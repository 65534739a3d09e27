//! One multiplexed link to the store, watched: a dead store is noticed at once, refused at once and
//! reached again as soon as it is back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use redis::{
    Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisWrite, ServerErrorKind, ToRedisArgs, Value,
};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::keys;
use super::reply::Reply;
use super::scripts::Script;
use super::url::{Target, Topology};
use super::wire::{Connected, Silence, Wire, ask_sentinels, connect, connect_checked, ping};
use crate::backend::{Options, Pulse, Status};
use crate::error::{Error, OpenError, Result};

/// Between two questions to the Sentinels who the primary is.
const SENTINEL_INTERVAL: Duration = Duration::from_secs(1);

/// Unanswered pings after which the connection itself is given up.
const PINGS_BEFORE_RECONNECT: u32 = 3;

const MAX_BACKOFF: Duration = Duration::from_millis(400);

/// Room for the calls that a job needs; a longer one grows.
const USUAL_ARGS: usize = 8;
const USUAL_BYTES: usize = 384;

/// The link, shared by all traits of one backend. The last clone ends its watcher.
#[derive(Clone)]
pub(crate) struct Link(Arc<Inner>);

struct Inner {
    target: Target,
    options: Options,
    wire: RwLock<Option<Wire>>,
    /// The server that the Sentinels named when the link was made.
    primary: RwLock<Option<String>>,
    up: AtomicBool,
    /// It answers and writes nothing down, being full or without its disk or its replicas.
    full: AtomicBool,
    status: watch::Sender<Status>,
    pulse: Arc<Pulse>,
    /// How often the connection was given up; whoever reads over one of its own makes another then.
    given_up: watch::Sender<u64>,
    /// Somebody saw a sign of trouble: look now, not at the next ping.
    doubt: Notify,
    watcher: RwLock<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get_mut().take() {
            watcher.abort();
        }
    }
}

impl Link {
    /// Connects, checks the server, and starts to watch it.
    pub(crate) async fn open(
        target: Target,
        options: Options,
    ) -> std::result::Result<Self, OpenError> {
        let Connected { wire, primary } = connect_checked(&target, &options).await?;
        let (status, _) = watch::channel(Status::Up { connection: 1 });
        let inner = Arc::new(Inner {
            target,
            options,
            wire: RwLock::new(Some(wire)),
            primary: RwLock::new(primary),
            up: AtomicBool::new(true),
            full: AtomicBool::new(false),
            status,
            pulse: Arc::default(),
            given_up: watch::channel(0).0,
            doubt: Notify::new(),
            watcher: RwLock::new(None),
        });
        let watcher = tokio::spawn(watch_over(Arc::downgrade(&inner)));
        *inner.watcher.write() = Some(watcher.abort_handle());
        Ok(Link(inner))
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.0.status.subscribe()
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.0.pulse)
    }

    /// Whether all keys are at one place, so that any two commands can be sent together.
    pub(crate) fn is_one_server(&self) -> bool {
        self.0.target.topology != Topology::Cluster
    }

    /// Begins a call of a script on these keys; refused at once while the store is down.
    pub(crate) fn call<const N: usize>(
        &self,
        script: &'static Script,
        keys: [String; N],
    ) -> Result<Call<'_>> {
        let wire = self.0.wire()?;
        let mut cmd = Cmd::with_capacity(USUAL_ARGS, USUAL_BYTES);
        cmd.arg("EVALSHA").arg(script.sha()).arg(N);
        for key in keys {
            cmd.arg(key);
        }
        Ok(Call { link: self, wire, script, cmd })
    }

    /// Runs one plain command.
    pub(crate) async fn command(&self, cmd: &Cmd) -> Result<Value> {
        self.0.wire()?.query(cmd).await.map_err(|e| self.0.trouble(&e))
    }

    /// A connection of its own, for commands that block up to `wait` and would stall all others.
    pub(crate) async fn own_wire(&self, wait: Duration) -> Result<OwnWire> {
        self.0.wire()?;
        // Before it is made: what is given up meanwhile is not what it goes to.
        let given_up = self.0.given_up.subscribe();
        let patience = wait + self.0.options.response_timeout;
        let connected = connect(&self.0.target, &self.0.options, patience).await;
        let lost = |e: OpenError| self.0.pulse.failed(Error::Down(e.to_string()));
        let wire = connected.map(|c| c.wire).map_err(lost)?;
        Ok(OwnWire { link: self.clone(), wire, given_up })
    }

    /// Turns a client error into ours and has the watcher look if it is a sign of trouble.
    pub(crate) fn trouble(&self, error: &RedisError) -> Error {
        self.0.trouble(error)
    }
}

/// A connection beside the link's own. It goes to where the link goes, or nowhere.
pub(crate) struct OwnWire {
    link: Link,
    wire: Wire,
    given_up: watch::Receiver<u64>,
}

impl OwnWire {
    /// Whether the link has not been given up since: what is at the other end may be the store no more.
    pub(crate) fn is_current(&self) -> bool {
        self.given_up.has_changed().is_ok_and(|changed| !changed)
    }

    /// Runs a command that blocks up to `wait`, until the link goes elsewhere.
    pub(crate) async fn query(&mut self, cmd: &Cmd, wait: Duration) -> Result<Value> {
        let inner = &self.link.0;
        let patience = wait + inner.options.response_timeout;
        let answer = tokio::select! {
            biased;
            _ = self.given_up.changed() => {
                return Err(Error::Down("the connection was given up".to_owned()));
            }
            answer = timeout(patience, self.wire.query(cmd)) => answer,
        };
        match answer {
            Ok(answer) => answer.map_err(|e| inner.trouble(&e)),
            Err(_) => {
                // Perhaps this connection alone hangs.
                inner.doubt.notify_one();
                Err(inner.pulse.failed(Error::Unknown("no answer in time".to_owned())))
            }
        }
    }
}

/// A script with its keys and arguments, bound to the connection it goes out on.
pub(crate) struct Call<'a> {
    link: &'a Link,
    wire: Wire,
    script: &'static Script,
    cmd: Cmd,
}

impl Call<'_> {
    pub(crate) fn arg(mut self, arg: impl ToRedisArgs) -> Self {
        self.cmd.arg(arg);
        self
    }

    pub(crate) fn show(mut self, arg: impl fmt::Display) -> Self {
        self.cmd.write_arg_fmt(arg);
        self
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }

    /// The generation of the very connection that the call goes out on, with `word`: a grant by the word
    /// of a server that is gone must not be carried out by its successor.
    pub(crate) fn reign_and(self, word: impl fmt::Display) -> Self {
        let generation = Arc::clone(&self.wire.generation);
        self.show(format_args!("{generation} {word} "))
    }

    pub(crate) async fn run(mut self) -> Result<Reply> {
        let answer = match self.wire.query(&self.cmd).await {
            // A restarted, promoted or flushed server does not know the script yet.
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                let by_text = self.by_text();
                self.wire.query(&by_text).await
            }
            answer => answer,
        };
        Reply::new(self.script.name, answer.map_err(|e| self.link.trouble(&e))?)
    }

    /// Runs the script and a plain command, in one message to one server. Each has its own answer, and
    /// only a message that was lost has none.
    pub(crate) async fn run_beside(mut self, other: Cmd) -> Result<(Result<Reply>, Result<Value>)> {
        let mut both = Pipeline::with_capacity(2);
        both.add_command(std::mem::take(&mut self.cmd)).add_command(other);
        let answers = self.wire.query_all(&both).await.map_err(|e| self.link.trouble(&e))?;
        let Ok([script, other]) = <[Value; 2]>::try_from(answers) else {
            return Err(Error::corrupt(self.script.name, "not two answers to two commands"));
        };
        let other = other.extract_error().map_err(|e| self.link.trouble(&e));
        let script = match script.extract_error() {
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.cmd = both.cmd_iter().next().expect("there are two").clone();
                let by_text = self.by_text();
                self.wire.query(&by_text).await
            }
            answer => answer,
        };
        let script = script.map_err(|e| self.link.trouble(&e));
        Ok((script.and_then(|answer| Reply::new(self.script.name, answer)), other))
    }

    fn by_text(&self) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(self.script.text);
        for arg in self.cmd.args_iter().skip(2) {
            if let Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        cmd
    }
}

impl Inner {
    fn wire(&self) -> Result<Wire> {
        let down = || self.pulse.failed(Error::Down(self.reason()));
        if !self.up.load(Ordering::Relaxed) {
            return Err(down());
        }
        self.wire.read().clone().ok_or_else(down)
    }

    fn reason(&self) -> String {
        match &*self.status.borrow() {
            Status::Down { reason } => reason.clone(),
            Status::Up { .. } => "it was lost just now".to_owned(),
        }
    }

    fn trouble(&self, error: &RedisError) -> Error {
        self.pulse.failed(self.read_trouble(error))
    }

    fn read_trouble(&self, error: &RedisError) -> Error {
        let what = error.to_string();
        match error.kind() {
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::TryAgain,
            )
            | ErrorKind::ClusterConnectionNotFound => {
                self.look_now(&what);
                // The client of a Cluster asks several servers in turn and gives the last one's word: an
                // earlier one may have done it.
                match self.target.topology {
                    Topology::Cluster => Error::Unknown(what),
                    _ => Error::Down(what),
                }
            }
            ErrorKind::Server(_) | ErrorKind::Extension if writes_nothing(&what) => {
                if self.target.topology != Topology::Cluster {
                    self.full.store(true, Ordering::SeqCst);
                }
                self.look_now(&what);
                Error::Down(what)
            }
            ErrorKind::Server(_) | ErrorKind::Extension => Error::Refused(what),
            ErrorKind::UnexpectedReturnType => Error::corrupt("a reply", what),
            // Also a reply that was cut off in the middle, which the client calls unparsable.
            _ => {
                self.look_now(&what);
                if error.is_connection_refusal() { Error::Down(what) } else { Error::Unknown(what) }
            }
        }
    }

    /// One server that does not answer is the whole store: refuse until it does. Of a Cluster it is
    /// one shard, and the others go on.
    fn look_now(&self, reason: &str) {
        if self.target.topology != Topology::Cluster {
            self.mark_down(reason);
        }
        self.doubt.notify_one();
    }

    /// Whether the store writes things down. It is tried only if it did not a moment ago.
    async fn writes(&self) -> bool {
        if !self.full.load(Ordering::SeqCst) {
            return true;
        }
        let Some(mut wire) = self.wire.read().clone() else { return false };
        let mut write = redis::cmd("SET");
        write.arg(keys::probe()).arg(1).arg("PX").arg(1_000);
        match timeout(self.options.response_timeout, wire.query(&write)).await {
            Ok(Ok(_)) => {
                self.full.store(false, Ordering::SeqCst);
                true
            }
            Ok(Err(error)) => {
                self.mark_down(&error.to_string());
                false
            }
            Err(_) => false,
        }
    }

    fn mark_down(&self, reason: &str) {
        self.up.store(false, Ordering::SeqCst);
        // A later reason may say what to do, as that of a server that came back as a replica does.
        self.status.send_if_modified(|status| {
            let down = Status::Down { reason: reason.to_owned() };
            let changed = *status != down;
            if changed {
                tracing::warn!(reason, store = %self.target, "the store does not answer");
                *status = down;
            }
            changed
        });
    }

    fn mark_up(&self, connection: u64) {
        if !self.up.swap(true, Ordering::SeqCst) {
            tracing::info!(connection, store = %self.target, "the store answers again");
        }
        self.status.send_if_modified(|status| {
            let up = Status::Up { connection };
            let changed = *status != up;
            *status = up;
            changed
        });
    }
}

/// Whether this is the word of a server that answers and writes nothing down: it has no memory left,
/// cannot save, or misses its replicas. A script passes it on in words of its own.
fn writes_nothing(what: &str) -> bool {
    ["OOM", "MISCONF", "NOREPLICAS"].iter().any(|word| what.contains(word))
}

/// Pings the store, gives a dead connection up and makes a new one, for as long as the link lives.
async fn watch_over(inner: Weak<Inner>) {
    let mut connection = 1;
    let mut unanswered = 0;
    let mut asked_sentinels = Instant::now();
    let mut backoff = Duration::from_millis(25);
    loop {
        let Some(link) = inner.upgrade() else { return };
        let wire = link.wire.read().clone();
        let Some(wire) = wire else {
            match connect_checked(&link.target, &link.options).await {
                Ok(Connected { wire, primary }) => {
                    connection += 1;
                    *link.primary.write() = primary;
                    *link.wire.write() = Some(wire);
                    link.mark_up(connection);
                    backoff = Duration::from_millis(25);
                }
                Err(error) => {
                    link.mark_down(&error.to_string());
                    drop(link);
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
            }
            continue;
        };
        let interval = link.options.ping_interval;
        if link.up.load(Ordering::SeqCst) {
            let doubt = timeout(interval, link.doubt.notified());
            let _ = doubt.await;
        }
        let mut lost = None;
        let asked = Instant::now();
        let answer = ping(wire, link.options.response_timeout).await;
        // A line that broke says nothing of how fast the store is.
        if !matches!(answer, Err(Silence::Broken(_))) {
            link.pulse.looked(asked.elapsed());
        }
        match answer {
            Ok(()) => {
                unanswered = 0;
                if link.writes().await {
                    link.mark_up(connection);
                } else {
                    sleep(interval).await;
                }
            }
            Err(Silence::Late) => {
                unanswered += 1;
                link.mark_down("no answer in time");
                lost =
                    (unanswered >= PINGS_BEFORE_RECONNECT).then_some("no answer to several pings");
            }
            Err(Silence::Broken(reason)) => {
                link.mark_down(&reason);
                lost = Some("the connection broke");
            }
        }
        if lost.is_none() && asked_sentinels.elapsed() >= SENTINEL_INTERVAL {
            asked_sentinels = Instant::now();
            lost = (!still_primary(&link).await).then_some("another server is the primary now");
        }
        if let Some(reason) = lost {
            unanswered = 0;
            *link.wire.write() = None;
            link.mark_down(reason);
            link.given_up.send_modify(|times| *times += 1);
        }
    }
}

/// Whether the Sentinels still name the server that the link goes to. If none answers, it is left
/// as it is: losing them all is no reason to lose the store too.
async fn still_primary(link: &Inner) -> bool {
    let Topology::Sentinel { name } = &link.target.topology else { return true };
    let Some(named) = ask_sentinels(&link.target, name, &link.options).await else { return true };
    link.primary.read().as_ref().is_none_or(|primary| *primary == named)
}
