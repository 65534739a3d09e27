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

    /// Exit when standard input is closed, so that the process does not outlive its parent
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// The common settings as flags. `lingua config default` lists all options and their defaults.
#[derive(Debug, Default, Args)]
pub struct SettingFlags {
    /// Configuration file; `lingua config default` prints one with every option
    #[arg(long, env = "LINGUA_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Address to listen on [default: 127.0.0.1:5010]. Other than loopback requires tokens and TLS, or
    /// --insecure
    #[arg(long, env = "LINGUA_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Separate address for administrators and Prometheus: /api, /metrics and the dashboard
    #[arg(long, env = "LINGUA_ADMIN_LISTEN", value_name = "ADDRESS", value_parser = address)]
    pub(crate) admin_listen: Option<SocketAddr>,

    /// URL of the store [default: memory]: memory, redis://host:port/db, rediss://…,
    /// redis+sentinel://h1:p1,h2:p2/primary-name or redis+cluster://h1:p1,h2:p2
    #[arg(long, env = "LINGUA_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,

    /// Name of this instance, unique among the instances of one store [default: generated]
    #[arg(long, env = "LINGUA_INSTANCE_ID", value_name = "ID")]
    pub(crate) instance_id: Option<InstanceId>,

    /// URL at which other instances reach this one, as https://host:port [default: the listen address]
    #[arg(long, env = "LINGUA_ADVERTISE", value_name = "URL")]
    pub(crate) advertise: Option<String>,

    /// Defaults for timeouts, queueing and hedging [default: stable]: stable uses long timeouts and does
    /// not hedge, fast is for fleets of fast nodes
    #[arg(long, env = "LINGUA_PROFILE", value_enum)]
    pub(crate) profile: Option<Profile>,

    /// Threads for connections [default: one per two processors, at most eight]
    #[arg(long, env = "LINGUA_THREADS", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,

    /// Send traces to this OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318
    /// [default: no tracing]
    #[arg(long, env = "LINGUA_OTLP", value_name = "URL")]
    pub(crate) otlp: Option<Endpoint>,

    /// Fraction of conversations to trace, from 0 to 1 [default: 0.01]. Clients that send a traceparent
    /// decide for themselves
    #[arg(long, env = "LINGUA_TRACE_SHARE", value_parser = share)]
    pub(crate) trace_share: Option<f64>,

    /// Log format [default: human]: human, or json for one object per line
    #[arg(long, env = "LINGUA_LOG_FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// Allow listening on non-loopback addresses without authentication or TLS
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
    /// Validate the configuration as `lingua serve` would read it, and print every error
    Check(SettingFlags),
    /// Print the effective configuration and the source of each value, without secrets
    Show(SettingFlags),
    /// Print a configuration file with every option, its default and its description
    Default,
}
