//! `lingua serve`: the common options; every other stands in the file or in the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use lingua_core::InstanceId;

use super::{address, share};
use crate::config::{Asked, Profile};
use crate::otlp::Endpoint;
use crate::telemetry::LogFormat;

/// `lingua serve`.
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub(crate) settings: SettingFlags,

    /// End at once when standard input does: for one that must not outlive who started it
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// What the scheduler goes by. Without an option, see `lingua config default` for what it is.
#[derive(Debug, Default, Args)]
pub struct SettingFlags {
    /// A file with options; `lingua config default` prints one
    #[arg(long, env = "LINGUA_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen [default: 127.0.0.1:5010]; beyond loopback with tokens and TLS, or --insecure
    #[arg(long, env = "LINGUA_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Where administrators and Prometheus are heard, if not on the same address as everybody
    #[arg(long, env = "LINGUA_ADMIN_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin_listen: Option<SocketAddr>,

    /// Where state is kept [default: memory]: memory, redis://host:port/db, rediss://…,
    /// redis+sentinel://h1:p1,h2:p2/primary-name or redis+cluster://h1:p1,h2:p2
    #[arg(long, env = "LINGUA_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// The name of this instance, unlike that of every other on the same store; made up if left out
    #[arg(long, env = "LINGUA_INSTANCE_ID", value_name = "ID")]
    pub(crate) instance_id: Option<InstanceId>,

    /// Where other instances reach this one, as http://host:port. Without it: where it listens
    #[arg(long, env = "LINGUA_ADVERTISE", value_name = "URL")]
    pub(crate) advertise: Option<String>,

    /// Timeouts, attempts, waiting and hedging: stable (the default) gives nothing up early, fast is
    /// for fleets of quick nodes
    #[arg(long, env = "LINGUA_PROFILE", value_enum)]
    pub(crate) profile: Option<Profile>,

    /// Threads for connections; without it, one for every two processors and at most eight: the
    /// store wants processors too
    #[arg(long, env = "LINGUA_THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,

    /// Send traces to this OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318.
    /// Without it nothing is traced
    #[arg(long, env = "LINGUA_OTLP", value_name = "URL")]
    pub(crate) otlp: Option<Endpoint>,

    /// The share of conversations that is traced, from 0 to 1 [default: 0.01]; clients that trace
    /// themselves decide for their own
    #[arg(long, env = "LINGUA_TRACE_SHARE", value_parser = share)]
    pub(crate) trace_share: Option<f64>,

    /// How logs are written: for people (the default), or one JSON object per line
    #[arg(long, env = "LINGUA_LOG_FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// Listen beyond loopback although nobody is asked who they are, or nothing is encrypted
    #[arg(long)]
    pub(crate) insecure: bool,
}

impl SettingFlags {
    /// What the command line asks for.
    pub(crate) fn asked(&self) -> Asked {
        fn said<T: ToString>(
            path: &'static str,
            value: Option<T>,
        ) -> Option<(&'static str, String)> {
            value.map(|value| (path, value.to_string()))
        }
        let profile = self.profile.map(|profile| match profile {
            Profile::Stable => "stable",
            Profile::Fast => "fast",
        });
        let format = self.log_format.map(|format| match format {
            LogFormat::Human => "human",
            LogFormat::Json => "json",
        });
        let flags = [
            said("listen", self.listen),
            said("admin_listen", self.admin_listen),
            said("store", self.store.as_ref()),
            said("instance_id", self.instance_id.as_ref()),
            said("advertise", self.advertise.as_ref()),
            said("profile", profile),
            said("threads", self.threads),
            said("otlp", self.otlp.as_ref()),
            said("trace_share", self.trace_share),
            said("log.format", format),
            said("insecure", self.insecure.then_some(true)),
        ];
        Asked { file: self.config.clone(), flags: flags.into_iter().flatten().collect() }
    }
}

/// `lingua config`
#[derive(Debug, Subcommand)]
pub enum ConfigPart {
    /// Read the configuration as `lingua serve` would, and say what is wrong with it
    Check(SettingFlags),
    /// Print what is in force and where each value comes from; secrets are not shown
    Show(SettingFlags),
    /// Print a file with every option, its default and its reason
    Default,
}
