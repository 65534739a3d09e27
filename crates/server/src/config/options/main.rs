//! The options ahead of all sections.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lingua_core::InstanceId;
use lingua_store::Location;
use lingua_store::open::MEMORY;

use super::{Profile, section};
use crate::config::setting::Concealed;
use crate::otlp::Endpoint;

section! {
    /// Options that most deployments set.
    profile; "": Main in main {
        /// The set of defaults for all other options. "stable" uses long timeouts and does not hedge. "fast" uses
        /// short timeouts and hedging, for fleets of fast nodes where a late result is as bad as none.
        profile: Profile = profile;
        /// The address to listen on. An address other than loopback requires [identity] and [tls], or insecure.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 5010));
        /// A separate address for administrators and Prometheus. If set, /api, /metrics and the dashboard are served
        /// there and nowhere else.
        admin_listen: Option<SocketAddr> = None;
        /// The store: memory, file:DIR (memory that is kept in a directory), redis://host:port/db, rediss://…, redis+sentinel://h1:p1,h2:p2/primary-name or
        /// redis+cluster://h1:p1,h2:p2. Use store_file for a URL with a password.
        store: Concealed = Concealed::new(MEMORY);
        /// A file whose first line is the URL of the store, for URLs with a password.
        store_file: Option<PathBuf> = None;
        /// Allow a Redis on another machine without TLS. Audio and text never go to Redis; everything else does.
        store_plaintext: bool = false;
        /// The name of this instance, unique among the instances of one store. Generated if empty.
        instance_id: Option<InstanceId> = None;
        /// The URL at which other instances reach this one, as https://host:port. The listen address if empty.
        advertise: Option<String> = None;
        /// Threads for connections. 0 means one thread per two processors, at most eight; the rest is left to the
        /// store.
        threads: u16 = 0, 0..=256;
        /// Allow listening on non-loopback addresses without authentication or TLS.
        insecure: bool = false;
        /// Send traces to this OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318. Empty
        /// disables tracing.
        otlp: Option<Endpoint> = None;
        /// The fraction of conversations to trace, from 0 to 1. Clients that send a traceparent decide with its
        /// sampled flag.
        trace_share: f64 = 0.01, 0..=1;
        /// How long open jobs may run after SIGTERM before they are cancelled. Longer than jobs.exec_max_ms, so
        /// that a running job can end and its result be delivered.
        @ drain_ms in drain_ms, 0..=600_000;
    }
}

impl Main {
    /// Whether other instances may share the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.store_file.is_some() || Location::of(self.store.reveal()).is_shared()
    }
}
