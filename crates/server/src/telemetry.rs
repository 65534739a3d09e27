//! Logs: to standard error, `LINGUA_LOG` says how much.
//!
//! `repeats`: a line that comes too often is held back, and how often is told.

mod repeats;

use std::io::IsTerminal;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lingua_store::Clock;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::{Filter, Layered, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use repeats::{HELD_TARGET, Repeats};

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

/// How often it is looked whether something that was held back is to be told.
const LOOK: Duration = Duration::from_secs(1);

/// In the environment, it says how much is logged whatever else does.
const OVER_ALL: &str = "LINGUA_LOG";

/// How much is logged, while the process runs.
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// From now on so much is logged, unless the environment says otherwise.
pub(crate) fn set_level(level: &str) -> Result<(), String> {
    let filter = read_level(level).map_err(|error| format!("log.level: {error}"))?;
    if std::env::var_os(OVER_ALL).is_none()
        && let Some(handle) = LEVEL.get()
    {
        handle.reload(with_held_back(filter)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Whether a level can be read.
pub(crate) fn check_level(level: &str) -> Result<(), String> {
    read_level(level).map(|_| ())
}

/// Reads a level, or levels by target: `info`, `warn,lingua_engine=debug`.
fn read_level(level: &str) -> Result<Targets, String> {
    level.parse::<Targets>().map_err(|error| error.to_string())
}

/// The logs of this process.
pub(crate) struct Logs(Arc<Repeats>);

/// Starts logging, as much as this unless `LINGUA_LOG` says otherwise. Results of commands go to
/// standard output, logs never do.
pub(crate) fn start(unless_said: &str, format: LogFormat) -> Logs {
    let from_environment = std::env::var(OVER_ALL).ok().and_then(|level| read_level(&level).ok());
    let filter = from_environment.or_else(|| read_level(unless_said).ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let (filter, level) = reload::Layer::new(with_held_back(filter));
    // It is started once.
    let _ = LEVEL.set(level);
    let repeats = Arc::new(Repeats::new(Clock::system()));
    let limit: Arc<dyn Filter<Chosen> + Send + Sync> = Arc::clone(&repeats) as _;
    let limit = filter_fn(is_fit as fn(&Metadata<'_>) -> bool).and(limit);
    let lines = match format {
        LogFormat::Human => human().with_filter(limit).boxed(),
        LogFormat::Json => json().with_filter(limit).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    if format == LogFormat::Json {
        // A panic is a line like any other.
        std::panic::set_hook(Box::new(|panic| {
            let at = panic.location().map(ToString::to_string).unwrap_or_default();
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            tracing::error!(at, reason = text.unwrap_or_default(), "a panic");
        }));
    }
    let told = Arc::clone(&repeats);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK);
            told.tell_due();
        }
    });
    Logs(repeats)
}

impl Logs {
    /// Tells what is held back, before the process ends.
    pub(crate) fn end(self) {
        self.0.tell_all();
    }
}

/// Whatever else is filtered: what was held back passed the filter before.
fn with_held_back(filter: Targets) -> Targets {
    filter.with_target(HELD_TARGET, LevelFilter::TRACE)
}

/// Libraries print whole messages at their lowest levels, and with them what people say and the tokens
/// that they show. So of theirs nothing below `info` is written, whatever is asked for.
fn is_fit(about: &Metadata<'_>) -> bool {
    about.target().starts_with("lingua") || *about.level() <= Level::INFO
}

/// What `LINGUA_LOG` asks for.
type Chosen = Layered<reload::Layer<Targets, Registry>, Registry>;

fn human() -> impl Layer<Chosen> {
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr)
}

/// Fields stand beside `timestamp`, `level`, `target` and `message`: they are dotted or plain words
/// of our own, and none has one of these names. `span` is the request that a line is about.
fn json() -> impl Layer<Chosen> {
    tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_writer(std::io::stderr)
}
