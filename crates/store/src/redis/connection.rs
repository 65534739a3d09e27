//! One multiplexed link to the store, watched: a dead store is noticed at once, refused at once and
//! reached again as soon as it is back.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{
    Arg, AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind,
    ToRedisArgs, Value,
};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::Options;
use super::checks::{self, OpenError};
use super::reply::{Reply, text};
use super::scripts::Script;
use super::url::{Target, Topology};
use crate::backend::Status;
use crate::error::{Error, Result};

/// Re-sends of the Cluster client: enough for a moved slot or a promoted replica. Every script may
/// be repeated, so they do no harm.
const CLUSTER_RETRIES: u32 = 4;

/// Between two questions to the Sentinels who the primary is.
const SENTINEL_INTERVAL: Duration = Duration::from_secs(1);

/// Unanswered pings after which the connection itself is given up.
const PINGS_BEFORE_RECONNECT: u32 = 3;

const MAX_BACKOFF: Duration = Duration::from_millis(400);

/// A connection to one server or to a Cluster.
#[derive(Clone)]
pub(crate) struct Wire {
    kind: Kind,
    /// The replication id of the server at the other end, as it writes it; every ping compares it.
    /// A Cluster has many servers and so none.
    reign: Arc<str>,
}

#[derive(Clone)]
enum Kind {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Wire {
    pub(crate) async fn query(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match &mut self.kind {
            Kind::Single(connection) => connection.req_packed_command(cmd).await,
            Kind::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        answer?.extract_error()
    }

    /// Asks every primary, one answer each.
    pub(crate) async fn query_primaries(&mut self, cmd: Cmd) -> RedisResult<Vec<Value>> {
        let Kind::Cluster(cluster) = &mut self.kind else {
            return Ok(vec![self.query(&cmd).await?]);
        };
        let everywhere = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        Ok(match cluster.route_command(cmd, everywhere).await?.extract_error()? {
            Value::Map(answers) => answers.into_iter().map(|(_, answer)| answer).collect(),
            answer => vec![answer],
        })
    }
}

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
    status: watch::Sender<Status>,
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
            status,
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

    /// Begins a call of a script on these keys; refused at once while the store is down.
    pub(crate) fn call<const N: usize>(
        &self,
        script: &'static Script,
        keys: [String; N],
    ) -> Result<Call<'_>> {
        let wire = self.0.wire()?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.sha()).arg(N);
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
    pub(crate) async fn own_wire(&self, wait: Duration) -> Result<Wire> {
        self.0.wire()?;
        let patience = wait + self.0.options.response_timeout;
        let connected = connect(&self.0.target, &self.0.options, patience).await;
        connected.map(|c| c.wire).map_err(|e| Error::Down(e.to_string()))
    }

    /// Turns a client error into ours and has the watcher look if it is a sign of trouble.
    pub(crate) fn trouble(&self, error: &RedisError) -> Error {
        self.0.trouble(error)
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
        self.cmd.arg(arg.to_string());
        self
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.arg(if flag { "1" } else { "0" })
    }

    /// The reign of the very connection that the call goes out on: a grant by the word of a server
    /// that is gone must not be carried out by its successor.
    pub(crate) fn reign(self) -> Self {
        let reign = Arc::clone(&self.wire.reign);
        self.arg(&*reign)
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
        if !self.up.load(Ordering::Relaxed) {
            return Err(Error::Down(self.reason()));
        }
        self.wire.read().clone().ok_or_else(|| Error::Down(self.reason()))
    }

    fn reason(&self) -> String {
        match &*self.status.borrow() {
            Status::Down { reason } => reason.clone(),
            Status::Up { .. } => "it was lost just now".to_owned(),
        }
    }

    fn trouble(&self, error: &RedisError) -> Error {
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
        match ping(wire, link.options.response_timeout).await {
            Ok(()) => {
                unanswered = 0;
                link.mark_up(connection);
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
        }
    }
}

async fn connect_checked(
    target: &Target,
    options: &Options,
) -> std::result::Result<Connected, OpenError> {
    let mut connected = connect(target, options, options.response_timeout).await?;
    let reign = checks::check(connected.wire.clone(), target).await?;
    connected.wire.reign = reign.into();
    Ok(connected)
}

enum Silence {
    Late,
    Broken(String),
}

/// Asks for a write's worth of health: a replica answers too, but is no store, and a server that
/// began a new reign is another one to us although the connection stood.
async fn ping(mut wire: Wire, patience: Duration) -> std::result::Result<(), Silence> {
    let probes = async {
        match &mut wire.kind {
            // By itself the client asks all primaries and wants all to answer, but one shard that
            // hangs is not the store.
            Kind::Cluster(cluster) => {
                let any = (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::OneSucceeded));
                cluster.route_command(redis::cmd("PING"), RoutingInfo::MultiNode(any)).await
            }
            Kind::Single(_) => wire.query(redis::cmd("INFO").arg("replication")).await,
        }
    };
    match timeout(patience, probes).await {
        Err(_) => Err(Silence::Late),
        Ok(Err(e)) if e.is_timeout() => Err(Silence::Late),
        Ok(Err(e)) => Err(Silence::Broken(e.to_string())),
        Ok(Ok(_)) if matches!(wire.kind, Kind::Cluster(_)) => Ok(()),
        Ok(Ok(info)) => match text("INFO", info).unwrap_or_default() {
            info if !info.contains("role:master") => {
                Err(Silence::Broken("the server is a replica now".to_owned()))
            }
            info if !info.contains(&*wire.reign) => {
                Err(Silence::Broken("the server began a new reign".to_owned()))
            }
            _ => Ok(()),
        },
    }
}

/// Whether the Sentinels still name the server that the link goes to. If none answers, it is left
/// as it is: losing them all is no reason to lose the store too.
async fn still_primary(link: &Inner) -> bool {
    let Topology::Sentinel { name } = &link.target.topology else { return true };
    let Some(named) = ask_sentinels(&link.target, name, &link.options).await else { return true };
    link.primary.read().as_ref().is_none_or(|primary| *primary == named)
}

/// What a connection goes to.
pub(crate) struct Connected {
    pub(crate) wire: Wire,
    /// The server that the Sentinels named.
    primary: Option<String>,
}

pub(crate) async fn connect(
    target: &Target,
    options: &Options,
    response_timeout: Duration,
) -> std::result::Result<Connected, OpenError> {
    let unreachable = |why: String| OpenError::Unreachable { store: target.to_string(), why };
    let broken = |e: RedisError| OpenError::from_connecting(target, &e);
    match &target.topology {
        Topology::Cluster => {
            let client = ClusterClientBuilder::new(target.data_urls())
                .retries(CLUSTER_RETRIES)
                .min_retry_wait(20)
                .max_retry_wait(160)
                .connection_timeout(options.connect_timeout)
                .response_timeout(response_timeout)
                .overall_response_timeout(Some(response_timeout + options.response_timeout / 2))
                .connection_concurrency_limit(options.max_in_flight)
                .build()
                .map_err(broken)?;
            let connecting = timeout(options.connect_timeout * 2, client.get_async_connection());
            let wire =
                connecting.await.map_err(|_| unreachable("it does not answer".to_owned()))?;
            let wire = Wire { kind: Kind::Cluster(wire.map_err(broken)?), reign: "".into() };
            Ok(Connected { wire, primary: None })
        }
        Topology::Standalone => {
            let url = target.data_urls().swap_remove(0);
            let wire = connect_single(&url, options, response_timeout).await.map_err(broken)?;
            Ok(Connected { wire, primary: None })
        }
        Topology::Sentinel { name } => {
            let primary = ask_sentinels(target, name, options).await.ok_or_else(|| {
                unreachable(format!("no Sentinel answers with the address of \"{name}\""))
            })?;
            let url = target.data_url(&primary);
            let wire = connect_single(&url, options, response_timeout).await.map_err(broken)?;
            Ok(Connected { wire, primary: Some(primary) })
        }
    }
}

async fn connect_single(
    url: &str,
    options: &Options,
    response_timeout: Duration,
) -> RedisResult<Wire> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        .set_response_timeout(Some(response_timeout))
        .set_pipeline_buffer_size(options.max_in_flight)
        .set_concurrency_limit(options.max_in_flight);
    let client = Client::open(url)?;
    let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    Ok(Wire { kind: Kind::Single(connection), reign: "".into() })
}

/// The address of the primary by the first Sentinel that knows it.
async fn ask_sentinels(target: &Target, name: &str, options: &Options) -> Option<String> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    for url in target.sentinel_urls() {
        let asking = async {
            let mut wire = connect_single(&url, options, options.response_timeout).await.ok()?;
            let answer = wire.query(&question).await.ok()?;
            let (host, port): (String, u16) = redis::from_redis_value(answer).ok()?;
            Some(format!("{host}:{port}"))
        };
        if let Ok(Some(address)) = timeout(options.connect_timeout, asking).await {
            return Some(address);
        }
    }
    None
}
