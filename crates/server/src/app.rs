//! The life of `lingua serve`: open the store, listen, serve until told to stop.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use lingua_core::InstanceId;
use lingua_engine::Engine;
use lingua_engine::chance::Chance;
use lingua_engine::cluster::{JoinError, understands_all};
use lingua_engine::engine::Surroundings;
use lingua_engine::secret::Secret;
use lingua_store::open::MEMORY;
use lingua_store::{Backend, Clock, Instance, Location, Options};
use rustix::process::{Resource, Rlimit, setrlimit};
use tokio::net::TcpListener;

use crate::audit::Audit;
use crate::catalogue::{CatalogueCache, Source};
use crate::cli::{Failure, Serve};
use crate::cluster_key;
use crate::config::{Config, Loaded, Profile};
use crate::http::Door;
use crate::identity::{Authenticator, DismissalLog, Rules, follow_revocations};
use crate::otlp::{Exporter, Pace};
use crate::peers::Peers;
use crate::reload::Reload;
use crate::runtime::runtime;
use crate::serving::{Sockets, serve_on};
use crate::shutdown::Signals;
use crate::telemetry::LogFormat;
use crate::tls::{Tls, Trust};
use crate::workers::Workers;

/// Runs the scheduler until a signal ends it.
pub(crate) fn serve(options: &Serve, loaded: &Loaded) -> Result<(), Failure> {
    for stranger in &loaded.strangers {
        tracing::warn!("{stranger}");
    }
    protect_secrets(&loaded.config, options);
    let runtime = runtime()?;
    runtime.block_on(async {
        run(open(options, &loaded.config).await?, options, &loaded.config).await
    })
}

/// What is there before the first connection is taken.
struct Opened {
    engine: Engine,
    authenticator: Arc<Authenticator>,
    audit: Arc<Audit>,
    tls: Option<Arc<Tls>>,
    trust: Trust,
    public: TcpListener,
    admin: Option<TcpListener>,
    address: SocketAddr,
}

impl Opened {
    fn scheme(&self) -> &'static str {
        scheme(self.tls.is_some())
    }
}

fn scheme(tls: bool) -> &'static str {
    if tls { "https" } else { "http" }
}

/// Opens the store and the sockets, and joins the other instances.
async fn open(options: &Serve, config: &Config) -> Result<Opened, Failure> {
    let (store, secret) = open_configured_store(config).await?;
    let authenticator = Authenticator::new(Rules::read(config).map_err(Failure::refused)?);
    may_listen(config, &authenticator)?;
    let tls = Tls::read(config).map_err(Failure::refused)?;
    let public = bind(config.main.listen).await?;
    let address = public.local_addr().context("the listener has no address")?;
    let url = format!("{}://{address}", scheme(tls.is_some()));
    log_start(config.log.format, &url, &store);
    understands_all(&store, &secret).await.map_err(not_joined)?;
    let engine = start_engine(store, config, secret);
    let audit = match &config.audit.file {
        Some(file) => Arc::new(Audit::start(file, &engine).map_err(Failure::refused)?),
        None => Arc::default(),
    };
    authenticator.log_dismissals(Arc::clone(&audit) as Arc<dyn DismissalLog>);
    audit.process("process.start", env!("CARGO_PKG_VERSION"), "ok");
    let advertise = config.main.advertise.as_ref();
    let advertised = advertise.cloned().unwrap_or(url);
    let trust = tls.clone().map_or(Trust::Nobody, Trust::Peers);
    let peers = Arc::new(Peers::new(trust.clone(), engine.asker()));
    engine.join(&advertised, peers).await.map_err(not_joined)?;
    if address.ip().is_unspecified() && advertise.is_none() && config.main.is_shared() {
        tracing::warn!(
            advertised,
            "other instances cannot reach this address; set --advertise to a host and port that they can reach"
        );
    }
    if options.with_parent {
        end_with_stdin();
    }
    if let Ok(marks) = engine.store().revocations.list().await {
        authenticator.revoke(&marks, engine.now_ms() / 1_000);
    }
    let every = std::time::Duration::from_millis(config.identity.recheck_ms);
    let following = follow_revocations(Arc::clone(&authenticator), engine.clone(), every);
    lingua_engine::tasks::spawn("revoked tokens", following);
    let admin = match config.main.admin_listen {
        Some(listen) => Some(bind(listen).await?),
        None => None,
    };
    Ok(Opened { engine, authenticator, audit, tls, trust, public, admin, address })
}

/// Takes connections until a signal ends it.
async fn run(opened: Opened, options: &Serve, config: &Config) -> Result<(), Failure> {
    // Before the greeting: whoever has read it may already send a signal.
    let signals = Signals::listen();
    let reload = Reload {
        asked: options.settings.asked(),
        config: config.clone(),
        authenticator: Arc::clone(&opened.authenticator),
        audit: Arc::clone(&opened.audit),
        tls: opened.tls.clone(),
        engine: opened.engine.clone(),
    };
    reload.listen();
    if let Some(tls) = &opened.tls {
        lingua_engine::tasks::spawn("the certificate's end", Arc::clone(tls).watch());
    }
    greet(&opened);
    let Opened { engine, authenticator, audit, tls, trust, public, admin, .. } = opened;
    let catalogue = match catalogue_source(config) {
        Some(source) => CatalogueCache::start(source, &engine).map_err(Failure::refused)?,
        None => CatalogueCache::default(),
    };
    let exporter = config.main.otlp.clone().and_then(|to| {
        let share = config.main.trace_share;
        tracing::info!(collector = %to, share, "conversations are traced");
        Exporter::start(&engine, to, share, Pace::default())
    });
    let workers = Workers::start(threads(config))?;
    let stop = signals.stop(engine.clone());
    let store = engine.store().clone();
    let door = Door::new(engine.clone(), authenticator, Arc::clone(&audit), trust);
    let door = door.with_catalogue(catalogue).behind(&public, &admin, tls.is_some());
    let limits = Arc::new(config.limits.clone());
    let sockets = Sockets { public, admin, tls, limits };
    serve_on(sockets, door, engine, &workers.places(), stop).await;
    workers.end();
    if let Some(exporter) = exporter {
        exporter.end().await;
    }
    audit.process("process.stop", env!("CARGO_PKG_VERSION"), "ok");
    audit.end();
    store.close().await;
    Ok(())
}

/// Where the catalogue of services is.
fn catalogue_source(config: &Config) -> Option<Source> {
    let url = config.catalogue.url.clone().map(Source::Url);
    url.or_else(|| config.catalogue.file.clone().map(Source::File))
}

/// A dump of the memory would have tokens and speech in it, and others may read the files. A file of the
/// older scheduler may have a password in it that is meant.
fn protect_secrets(config: &Config, options: &Serve) {
    if options.settings.asked().file.is_none() {
        crate::config::warn_of_older_file(std::path::Path::new("."));
    }
    crate::permissions::warn_of_open_files(config);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "core dumps could not be disabled: a crash may write tokens and audio to disk");
    }
}

async fn bind(listen: std::net::SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(listen).await.map_err(|error| {
        Failure::failed(format!(
            "cannot listen on {listen}: {error}; choose another address with --listen"
        ))
    })
}

/// Refuses to be reached from outside by people whom nobody asks who they are, or whom anybody can
/// overhear.
fn may_listen(config: &Config, authenticator: &Authenticator) -> Result<(), Failure> {
    let listens = [Some(config.main.listen), config.main.admin_listen];
    let beyond = listens.into_iter().flatten().find(|address| !address.ip().is_loopback());
    let Some(beyond) = beyond.filter(|_| !config.main.insecure) else { return Ok(()) };
    let lacks = match (authenticator.is_open(), config.tls.cert_file.is_none()) {
        (true, true) => {
            "there is neither authentication nor TLS: set identity.key_files, tls.cert_file and tls.key_file"
        }
        (true, false) => "there is no authentication: set identity.key_files",
        (false, true) => "there is no TLS: set tls.cert_file and tls.key_file",
        (false, false) => return Ok(()),
    };
    Err(Failure::refused(format!(
        "{beyond} is not a loopback address, and {lacks}; or listen on 127.0.0.1, or use --insecure \
         on a private network"
    )))
}

/// Threads for connections.
fn threads(config: &Config) -> usize {
    const MOST: usize = 8;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match config.main.threads {
        0 => (processors / 2).clamp(1, MOST),
        threads => usize::from(threads),
    }
}

/// Where state is kept, from the file that has it if there is one.
fn store_url(config: &Config) -> Result<String, Failure> {
    let Some(file) = &config.main.store_file else {
        return Ok(config.main.store.reveal().to_owned());
    };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::refused(format!("store_file: {}: {error}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(url) if !url.is_empty() => Ok(url.to_owned()),
        _ => Err(Failure::refused(format!("store_file: {} is empty", file.display()))),
    }
}

/// The store, and the key of its instances.
async fn open_configured_store(config: &Config) -> Result<(Backend, Secret), Failure> {
    let url = store_url(config)?;
    may_reach(&url, config)?;
    let key = |place| cluster_key::read(config, &place, Chance::system()).map_err(Failure::refused);
    let place = match Location::of(&url) {
        Location::Process => cluster_key::Store::Embedded,
        Location::Directory(directory) => {
            // First the store: a directory that is somebody else's gets no key.
            let store = open_store(&url, Options::default()).await?;
            return Ok((store, key(cluster_key::Store::Kept(directory))?));
        }
        Location::Machine => cluster_key::Store::Here,
        Location::Network { store, .. } => cluster_key::Store::Beyond(store),
    };
    let secret = key(place)?;
    Ok((open_store(&url, Options::default()).await?, secret))
}

/// Refuses a Redis beyond this machine to which everything would go in the clear.
fn may_reach(url: &str, config: &Config) -> Result<(), Failure> {
    match Location::of(url) {
        Location::Network { store, encrypted: false } if !config.main.store_plaintext => {
            Err(Failure::refused(format!(
                "the store at {store} is on another machine and has no TLS: use rediss in its URL, or \
                 set store_plaintext = true on a private network"
            )))
        }
        _ => Ok(()),
    }
}

fn not_joined(error: JoinError) -> Failure {
    match error {
        JoinError::Store(_) => Failure::failed(error.to_string()),
        JoinError::Taken { .. }
        | JoinError::Apart { .. }
        | JoinError::OtherKey { .. }
        | JoinError::Unsigned { .. }
        | JoinError::Forged { .. } => Failure::refused(error.to_string()),
    }
}

/// Whoever started this process is gone when its end of the pipe is: nobody is left to drain for.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // What is written there means nothing, and a failure means the end as well.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// An engine with its clockwork running.
fn start_engine(store: Backend, config: &Config, secret: Secret) -> Engine {
    let chance = Chance::system();
    let id = match &config.main.instance_id {
        Some(id) => id.clone(),
        None => InstanceId::new(format!("lingua-{:08x}", chance.bits() as u32))
            .expect("hexadecimal is within an id's letters"),
    };
    let instance = Instance { id, boot: chance.bits() };
    // Expiries and deadlines are compared with those of other machines.
    let surroundings = Surroundings { clock: Clock::date(), chance };
    Engine::start_in(surroundings, store, instance, config.engine.clone(), secret)
}

/// An engine on the embedded store, for a scheduler inside another program: quick rather than stable.
pub async fn start_embedded() -> Result<Engine, Failure> {
    let store = open_store(MEMORY, Options::default()).await?;
    Ok(start_engine(store, &Config::preset(Profile::Fast), Secret::random(Chance::system())))
}

/// Opens a store by its URL.
pub async fn open_store(url: &str, options: Options) -> Result<Backend, Failure> {
    Ok(lingua_store::open(url, options).await?)
}

/// The first line of a log that programs read; people have the greeting.
fn log_start(format: LogFormat, address: &str, store: &Backend) {
    if format == LogFormat::Json {
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(version, address, store = &*store.description, "lingua starts");
    }
}

/// Three lines: what it listens on, which store it uses, where to look next. A service manager is told that
/// work is taken.
fn greet(opened: &Opened) {
    let Opened { authenticator, address, admin, engine, .. } = opened;
    let (scheme, store) = (opened.scheme(), engine.store());
    let who = match (authenticator.is_open(), address.ip().is_loopback()) {
        (false, _) => "tokens required",
        (true, true) => "this machine only, no authentication",
        (true, false) => "INSECURE: no authentication",
    };
    let version = env!("CARGO_PKG_VERSION");
    let admin = admin.as_ref().and_then(|socket| socket.local_addr().ok()).unwrap_or(*address);
    // Nobody need be there to read it.
    let _ = writeln!(
        std::io::stdout(),
        "lingua {version} listens on {scheme}://{address} ({who})\nstore: {}\n\
         next: open {scheme}://{admin}/dashboard to look, {scheme}://{address}/talk to speak, or \
         lingua --help",
        store.description
    );
    crate::systemd::ready();
}
