//! Every option: its kind, its default, its bounds, its reason.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lingua_core::budget::Timing;
use lingua_core::link::SlowStart;
use lingua_core::select::SelectPolicy;
use lingua_core::{InstanceId, TenantId};
use lingua_engine::Settings;
use lingua_engine::settings::{
    Admission, BreakerPolicy, GapPolicy, NodeLimits, Retention, SessionAlias, SessionBounds,
    WaitingBounds, WatchBounds,
};

use super::setting::{Bounded, Concealed, Raw, Setting};
use crate::otlp::Endpoint;
use crate::telemetry::LogFormat;

/// A set of defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum Profile {
    #[default]
    Stable,
    Fast,
}

impl Profile {
    /// What is meant, if it can be read.
    pub(super) fn of(raw: &Raw) -> Option<Self> {
        Setting::read(raw).ok()
    }

    fn settings(self) -> Settings {
        match self {
            Profile::Stable => Settings::stable(),
            Profile::Fast => Settings::fast(),
        }
    }
}

/// The option that says which defaults the others have.
pub(super) const PROFILE: &str = "profile";

/// An option, as the sample file has it.
pub(super) struct About {
    /// Empty for those ahead of all sections.
    pub(super) section: &'static str,
    pub(super) section_says: &'static str,
    pub(super) path: &'static str,
    pub(super) says: &'static str,
    /// It may change while the scheduler runs.
    pub(super) reloads: bool,
}

/// From one list: a struct for each section, and how to list, read and print its options by name.
macro_rules! options {
    (
        with $base:ident;
        $(
            $(#[doc = $section_says:literal])+
            $section:ident $kind:ident [$prefix:literal] {
                $(
                    $(#[doc = $says:literal])+
                    $name:ident: $type:ty = $default:expr $(, $least:literal..=$most:literal)?
                        $(=> $reloads:ident)?;
                )+
            }
        )+
    ) => {
        /// The whole configuration.
        #[derive(Clone, PartialEq, Debug)]
        pub(crate) struct Config {
            $($(#[doc = $section_says])+ pub(crate) $section: $kind,)+
        }

        $(
            $(#[doc = $section_says])+
            #[derive(Clone, PartialEq, Debug)]
            pub(crate) struct $kind {
                $($(#[doc = $says])+ pub(crate) $name: $type,)+
            }
        )+

        impl Config {
            /// The defaults of this profile.
            pub(crate) fn preset(profile: Profile) -> Self {
                let $base = &(profile, profile.settings());
                Config { $($section: $kind { $($name: $default,)+ },)+ }
            }

            /// Puts a value in its place; what is wrong goes behind the option's name.
            pub(super) fn set(&mut self, path: &str, raw: &Raw) -> Result<(), String> {
                match path {
                    $($(
                        concat!($prefix, stringify!($name)) => {
                            let value: $type = Setting::read(raw)?;
                            $(Bounded::within(&value, &($least..=$most))?;)?
                            self.$section.$name = value;
                        }
                    )+)+
                    _ => return Err("is no option".to_owned()),
                }
                Ok(())
            }

            /// A value as it stands in a file; secrets are not shown.
            pub(super) fn print(&self, path: &str) -> String {
                match path {
                    $($(
                        concat!($prefix, stringify!($name)) => self.$section.$name.print(),
                    )+)+
                    _ => String::new(),
                }
            }
        }

        /// What is said of each section.
        struct Says {
            $($section: &'static str,)+
        }

        const SAYS: Says = Says { $($section: concat!($($section_says, "\n"),+),)+ };

        /// All of them in the order of the file.
        pub(super) const ALL: &[About] = &[
            $($(About {
                section: section_of($prefix),
                section_says: SAYS.$section,
                path: concat!($prefix, stringify!($name)),
                says: concat!($($says, "\n"),+),
                reloads: false $(|| reloads!($reloads))?,
            },)+)+
        ];
    };
}

macro_rules! reloads {
    (reloads) => {
        true
    };
}

const fn section_of(prefix: &'static str) -> &'static str {
    match prefix.as_bytes() {
        [section @ .., b'.'] => match std::str::from_utf8(section) {
            Ok(section) => section,
            Err(_) => "",
        },
        _ => "",
    }
}

/// The names of all options.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|option| option.path)
}

/// The names of all sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    ALL.iter().map(|option| option.section).filter(move |section| {
        let new = *section != last;
        last = section;
        new
    })
}

options! {
    with base;

    /// What most people set.
    main Main [""] {
        /// The defaults of all that follows: "stable" gives nothing up early, "fast" is for fleets of
        /// quick nodes, where late is as bad as never.
        profile: Profile = base.0;
        /// Where to listen. Beyond loopback it asks for [identity] and [tls], or for insecure.
        listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 5010));
        /// Where administrators and Prometheus are heard, if not on the same address as everybody:
        /// then /api, /metrics and the dashboard are there and nowhere else.
        admin_listen: Option<SocketAddr> = None;
        /// Where state is kept: memory, redis://host:port/db, rediss://…,
        /// redis+sentinel://h1:p1,h2:p2/primary-name or redis+cluster://h1:p1,h2:p2. It may hold a
        /// password: rather give store_file.
        store: Concealed = Concealed::new("memory");
        /// A file whose first line is the store's URL, for URLs with a password.
        store_file: Option<PathBuf> = None;
        /// Speak to a Redis beyond loopback without TLS. Everything but speech goes over it.
        store_plaintext: bool = false;
        /// The name of this instance, unlike that of every other on the same store; made up if empty.
        instance_id: Option<InstanceId> = None;
        /// Where other instances reach this one, as https://host:port; where it listens if empty.
        advertise: Option<String> = None;
        /// Threads for connections; 0 is one for every two processors and at most eight: the store
        /// wants processors too.
        threads: u16 = 0, 0..=256;
        /// Listen beyond loopback although nobody is asked who they are, or nothing is encrypted.
        insecure: bool = false;
        /// Send traces to this OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318; empty for
        /// none.
        otlp: Option<Endpoint> = None;
        /// The share of conversations that is traced, from 0 to 1: enough to see where time goes, little
        /// enough for any collector. Clients that trace themselves decide for their own.
        trace_share: f64 = 0.01, 0..=1;
        /// How long open jobs may take to end once the process is to stop: a job on a node may take
        /// jobs.exec_max_ms, and a little more to be delivered.
        drain_ms: u64 = base.1.drain_ms, 0..=600_000;
    }

    /// Encryption, by TLS 1.3. The files are read again on SIGHUP.
    tls Tls ["tls."] {
        /// The certificate of this instance and those above it, as PEM. With it all listeners speak
        /// TLS and nothing else. That it is set at all is decided at the start.
        cert_file: Option<PathBuf> = None => reloads;
        /// Its private key, as PEM.
        key_file: Option<PathBuf> = None => reloads;
        /// Who signs the certificates of nodes, as PEM. A node that shows one is the node that the
        /// certificate names, and needs no token.
        node_ca_file: Option<PathBuf> = None => reloads;
        /// Which of those were taken back, as PEM: a list of every authority in node_ca_file.
        node_crl_file: Option<PathBuf> = None => reloads;
        /// Nodes without such a certificate are turned away.
        require_node_cert: bool = false => reloads;
        /// Who signs the certificates of instances, as PEM. With it instances show each other their
        /// certificates, and hear nobody who has none. Needed where instances share a store.
        peer_ca_file: Option<PathBuf> = None => reloads;
    }

    /// Who may do what. Without keys nobody is asked who they are.
    identity Identity ["identity."] {
        /// Public keys that tokens are signed with, as PEM (Ed25519); `lingua token key` makes a pair. A
        /// token names its key by the file's name without its ending. Several: the old ones stay
        /// until the last token that they signed has expired.
        key_files: Vec<PathBuf> = Vec::new() => reloads;
        /// What tokens must say in `iss`.
        issuer: String = "lingua".to_owned() => reloads;
        /// What tokens must say in `aud`; unlike for each platform that shares an issuer.
        audience: String = "lingua".to_owned() => reloads;
        /// From `nbf` to `exp` of a session's token at most: one that is stolen is soon worthless.
        session_life_s: u64 = 900, 10..=86_400 => reloads;
        /// The same for nodes. They cannot be asked for new ones all the time: revoke a stolen one.
        node_life_s: u64 = 2_592_000, 10..=31_536_000 => reloads;
        /// The same for administrators.
        admin_life_s: u64 = 3_600, 10..=86_400 => reloads;
        /// How far the clocks of those who sign tokens may be off.
        leeway_s: u64 = 5, 0..=60 => reloads;
        /// How often the list of revoked tokens is read, and so how long one is good after that.
        recheck_ms: u64 = 2_000, 100..=60_000;
        /// From which web pages browsers may connect, such as https://talk.example.org; exactly these, and
        /// this scheduler's own pages. Without key_files also pages on localhost, on any port.
        origins: Vec<String> = Vec::new() => reloads;
        /// By which names it may be called, such as lingua.example.org, beside localhost and, where it
        /// listens beyond loopback, any address: a page can make its own name point here. Without key_files
        /// calls by other names are always refused (421), with them only if names are given here.
        hosts: Vec<String> = Vec::new() => reloads;
    }

    /// How much anybody may ask of it.
    limits Limits ["limits."] {
        /// Connections at the same time; more wait in the kernel's queue.
        connections: usize = 65_536, 16..=1_000_000;
        /// Of one address. Behind a load balancer all clients have the same.
        connections_per_address: usize = 4_096, 1..=1_000_000;
        /// For the headers of a connection's first request to arrive, and for TLS to be agreed on.
        header_timeout_ms: u64 = 5_000, 100..=60_000;
        /// For those of the next one: a connection that asks for nothing for so long is closed.
        idle_timeout_ms: u64 = 15_000, 100..=3_600_000;
        /// For a node to register or a client to open a session, from when its socket is open. Who has not is
        /// closed, whatever else they say.
        handshake_timeout_ms: u64 = 10_000, 100..=60_000;
        /// For a message on a socket or the body of a request to be whole, from its first byte: long enough for
        /// the largest on a slow line.
        message_timeout_ms: u64 = 30_000, 100..=3_600_000;
        /// Sockets that give no sign of life for so long are closed.
        silence_ms: u64 = 90_000, 1_000..=3_600_000;
        /// Bytes of one message of a client: a whole utterance fits, in base64 too.
        session_message_bytes: usize = (2 << 20) / 3 * 4 + (64 << 10), 1_024..=67_108_864;
        /// Bytes of one message of a node: a result with its speech fits many times.
        node_message_bytes: usize = 16 << 20, 65_536..=67_108_864;
        /// Bytes of one result of a node, as it comes; an attempt with a larger one has failed. Below what
        /// waits for one client at most, 8 MiB, so that no result costs its speaker the session.
        result_bytes: usize = base.1.max_result_bytes, 65_536..=7_340_032;
        /// Messages a second from one client, and twice as many at once; more are read later. A frame of less than
        /// 1 KiB that continues a message counts as one too.
        session_messages_per_s: u32 = 200, 1..=100_000;
        /// Messages a second from one node beyond those about its jobs, such frames counted too; who sends more is
        /// let go.
        node_messages_per_s: u32 = 2_000, 1..=100_000;
        /// Registrations of one node in a minute, and as many at once; more are refused. A node registers
        /// when it connects, and one whose network fails every other second still comes back.
        node_registrations_per_min: u32 = base.1.node_limits.registrations_per_min, 1..=6_000;
        /// Updates of one node's record in the store a second, and as many at once. More are written
        /// later and together: heartbeats come every few seconds, and abilities change with them.
        node_updates_per_s: u32 = base.1.node_limits.updates_per_s, 1..=1_000;
        /// Jobs a second that one node names and that this instance has to look up in the store, 512 or
        /// more at once; more are refused. Enough for 256 slots in every heartbeat after a node moved.
        node_lookups_per_s: u32 = base.1.node_limits.lookups_per_s, 1..=10_000;
        /// Memory for messages and bodies that are not whole yet, on all connections. A message for which there is no
        /// room is read later, a body is refused.
        unfinished_bytes: usize = 256 << 20, 1_048_576..=1_099_511_627_776;
        /// From one address. Behind a load balancer all clients have the same.
        unfinished_bytes_per_address: usize = 64 << 20, 1_048_576..=1_099_511_627_776;
        /// Of one tenant.
        unfinished_bytes_per_tenant: usize = 64 << 20, 1_048_576..=1_099_511_627_776;
        /// Sessions of this instance, those whose client is away for a moment counted.
        sessions: usize = base.1.sessions.total, 1..=1_000_000;
        /// Of one tenant.
        sessions_per_tenant: usize = base.1.sessions.per_tenant, 1..=1_000_000;
        /// Of one subject of a tenant: a user, or a program that speaks for many.
        sessions_per_subject: usize = 1_000, 1..=1_000_000;
        /// Calls a second of one subject, and as many at once; 0 for no limit. Nodes have limits of their own.
        calls_per_subject_per_s: u32 = 1_000, 0..=1_000_000;
        /// Jobs of this instance that are open; new ones are refused beyond it, before it collapses.
        jobs: usize = base.1.admission.jobs, 1..=1_000_000;
        /// Of one tenant.
        jobs_per_tenant: usize = base.1.admission.jobs_per_tenant, 1..=1_000_000;
        /// New jobs a second of one tenant, and as many at once; 0 for no limit. Half of what an instance can do, so
        /// that none of them has it alone.
        jobs_per_tenant_per_s: u32 = 8_000, 0..=1_000_000;
        /// Jobs of other instances that callers wait for here (wait_ms), each once however many wait for it;
        /// more are refused. Each costs one word to every instance, and one back.
        job_watches: usize = base.1.watches.total, 1..=1_000_000;
        /// Of one tenant.
        job_watches_per_tenant: usize = base.1.watches.per_tenant, 1..=1_000_000;
        /// Tenants that get more than one share when all nodes are busy, as "tenant=share"; the others
        /// have one.
        tenant_shares: Vec<String> = Vec::new();
    }

    /// The way of a job. deadline_ms has to be at least queue_max_ms + max_attempts * (send_ms + ack_ms) +
    /// exec_max_ms + margin_ms.
    jobs Jobs ["jobs."] {
        /// From the end of an utterance to its ending, one way or the other.
        deadline_ms: u64 = base.1.timing.deadline_ms, 1..=3_600_000;
        /// How long a job may wait in line when every able node is full.
        queue_max_ms: u64 = base.1.timing.queue_max_ms, 0..=600_000;
        /// Dispatches of one job, the first one counted: 2 is one retry.
        max_attempts: u32 = base.1.timing.max_attempts, 1..=10;
        /// Getting a job onto the node's socket, also by way of another instance.
        send_ms: u64 = base.1.timing.send_ms, 1..=60_000;
        /// Waiting for the node's ack after that.
        ack_ms: u64 = base.1.timing.ack_ms, 1..=60_000;
        /// The same for nodes that ack by an HTTP call, if it is longer: they ask for jobs now and then, and
        /// connect anew for every call. Their slots are held as much longer.
        http_ack_ms: u64 = base.1.timing.http_ack_ms, 1..=60_000;
        /// How long a node may work on one job.
        exec_max_ms: u64 = base.1.timing.exec_max_ms, 1..=3_600_000;
        /// What the scheduler itself needs on the way: store, bus, delivery.
        margin_ms: u64 = base.1.timing.margin_ms, 0..=60_000;
        /// How long a slot is held for a job on its way; longer than send_ms + ack_ms.
        reserve_lease_ms: u64 = base.1.timing.reserve_lease_ms, 1..=600_000;
        /// How long a slot is held for a running job without a word from the node.
        running_lease_ms: u64 = base.1.timing.running_lease_ms, 1..=3_600_000;
        /// Begin a second copy of a job that has no answer after so long; 0 never does.
        hedge_after_ms: u64 = base.1.hedge_after_ms.unwrap_or(0), 0..=600_000;
        /// Nodes drawn at random and compared. Least of 20 refuses one job in ten thousand at 80 % load
        /// where a single random choice refuses one in three.
        sample_k: usize = base.1.select.sample_k, 1..=256;
        /// Candidates after the sample, each a question to the store, before a job is told to wait.
        scan_bound: usize = base.1.select.scan_bound, 1..=10_000;
        /// The share of one conversation that a node may hear before others go first; 100 for no cap.
        exposure_cap_percent: u8 = base.1.select.exposure_cap_percent, 1..=100;
        /// Spare the node of a session's last utterance while others are free.
        avoid_last: bool = base.1.avoid_last;
        /// What nodes are told as the session: "turn" is another name for every turn, so that a node
        /// cannot follow a speaker; "session" is the session's own, for agents that need it.
        node_session_alias: SessionAlias = base.1.node_session_alias;
        /// Jobs in line for one pair: more could not be served in time by any fleet of that size.
        waiting_per_pair: usize = base.1.waiting.per_pair, 1..=1_000_000;
        /// Jobs in all lines together.
        waiting: usize = base.1.waiting.total, 1..=1_000_000;
        /// How long ended jobs are remembered, for callers who ask for their results.
        keep_ms: u64 = base.1.results.keep_ms, 1..=86_400_000;
        /// How many of them; beyond it the tenant that has most for its share (limits.tenant_shares) loses
        /// its oldest, so that no tenant loses what is within its share to another.
        keep_entries: usize = base.1.results.max_entries, 1..=10_000_000;
        /// How many bytes of them; the same holds.
        keep_bytes: usize = base.1.results.max_bytes, 1..=68_719_476_736;
    }

    /// Nodes.
    nodes Nodes ["nodes."] {
        /// How often a node says that it lives; three that do not come are too many.
        heartbeat_ms: u64 = base.1.timing.heartbeat_ms, 1..=600_000;
        /// How often agents that list nothing in `supports` do, whatever they are told.
        compat_heartbeat_ms: u64 = base.1.timing.compat_heartbeat_ms, 1..=600_000;
        /// Slots of a node that does not say how many it has.
        default_max_concurrent_jobs: u32 = base.1.default_max_slots, 1..=256;
        /// Whose slots are filled slowly, twice as many with each success: "strangers" are nodes without a
        /// credential that come from another machine; "all" and "off". More is opened only for a job that
        /// finds no other free slot, and with "all" not at all for nodes with a credential.
        slow_start: SlowStart = base.1.slow_start;
        /// A node that reports more of its processor, GPU or memory in use is asked only when no other is free.
        resource_threshold_percent: f64 = base.1.resource_threshold_percent, 1..=100;
        /// Failures in a row after which a node is left alone for a while.
        breaker_failures: u32 = base.1.breaker.failures, 1..=1_000;
        /// The first pause; each is twice the one before.
        breaker_first_pause_ms: u64 = base.1.breaker.first_pause_ms, 1..=3_600_000;
        /// The longest one.
        breaker_longest_pause_ms: u64 = base.1.breaker.longest_pause_ms, 1..=86_400_000;
        /// How long a node that lost its connection may take to come back to the jobs it accepted.
        reconnect_grace_ms: u64 = base.1.reconnect_grace_ms, 0..=600_000;
        /// How long a node that cannot say what it runs gets nothing after the store lost data; at least
        /// the longest lease.
        quarantine_ms: u64 = base.1.timing.quarantine_ms, 0..=3_600_000;
        /// How long a node is not asked for a model again that it missed.
        gap_remember_ms: u64 = base.1.gaps.remember_ms, 1..=86_400_000;
        /// Nodes are asked to fetch a missing model once in so long.
        gap_reaction_ms: u64 = base.1.gaps.reaction_window_ms, 1..=86_400_000;
        /// Reports of missing models from one node: one in so long on average.
        gap_report_ms: u64 = base.1.gaps.report_interval_ms, 1..=3_600_000;
        /// Reports at once.
        gap_report_burst: u32 = base.1.gaps.report_burst, 1..=10_000;
    }

    /// Sessions.
    sessions Sessions ["sessions."] {
        /// Time without a piece of speech after which an utterance ends, unless the client asks for
        /// another. Audio is not listened to: silence that is sent counts as speech.
        pause_ms: u64 = base.1.timing.pause_ms, 1..=60_000;
        /// Speech after which an utterance is cut and its turn goes on; longer than pause_ms.
        max_utterance_ms: u64 = base.1.timing.max_utterance_ms, 1..=30_000;
        /// How long a session waits for its client to come back; longer than cluster.owner_ttl_ms.
        resume_window_ms: u64 = base.1.timing.resume_window_ms, 1..=3_600_000;
        /// Bytes of one piece of speech.
        max_audio_bytes: usize = base.1.max_audio_bytes, 1_024..=33_554_432;
        /// Bytes of speech of one session, not yet cut or with open jobs.
        held_bytes: usize = base.1.sessions.held_bytes, 1_024..=1_073_741_824;
        /// Utterances of one session whose endings are not told.
        open_utterances: usize = base.1.sessions.open_utterances, 1..=1_000;
        /// Endings of one session that are kept in case its client did not see them.
        kept_endings: usize = base.1.sessions.kept_endings, 0..=1_000;
        /// Bytes of those.
        kept_bytes: usize = base.1.sessions.kept_bytes, 0..=67_108_864;
        /// Sentences said before that go along with a job, so that any node keeps the meaning.
        context_sentences: usize = base.1.sessions.context_sentences, 0..=20;
        /// Characters of those.
        context_chars: usize = base.1.sessions.context_chars, 0..=10_000;
    }

    /// Speech that is handed in ahead of its job.
    audio Audio ["audio."] {
        /// How long it is kept; what is taken is kept for so long.
        keep_ms: u64 = base.1.audio.keep_ms, 1..=86_400_000;
        /// How many pieces. A tenant may keep as many as are still free, times its share
        /// (limits.tenant_shares): one alone half of them, two a third each. More are refused.
        keep_entries: usize = base.1.audio.max_entries, 1..=10_000_000;
        /// How many bytes; the same holds.
        keep_bytes: usize = base.1.audio.max_bytes, 1..=68_719_476_736;
    }

    /// Several instances.
    cluster Cluster ["cluster."] {
        /// A file with the key that the instances of one store share: 64 hexadecimal digits, as of `openssl
        /// rand -hex 32`. It signs what they say to each other and the tokens by which clients come back, and
        /// is never in the store. Empty: with memory a key of the process alone, with a Redis on this machine
        /// one that is made in the user's state directory; with any other Redis it has to be set.
        key_file: Option<PathBuf> = None;
        /// How long an instance owns a session or a node without renewing.
        owner_ttl_ms: u64 = base.1.timing.owner_ttl_ms, 300..=600_000;
        /// How often how everything stands is put together for those who look.
        snapshot_ms: u64 = base.1.snapshot_ms, 100..=60_000;
    }

    /// Logs, on standard error.
    log Log ["log."] {
        /// How much, such as "info" or "warn,lingua_engine=debug".
        level: String = "info".to_owned() => reloads;
        /// "human", or "json" for one object on each line.
        format: LogFormat = LogFormat::Human;
    }

    /// Who did what, for those who have to know later.
    audit Audit ["audit."] {
        /// A file of this instance alone, to which it is appended; empty for none. SIGHUP opens it anew.
        file: Option<PathBuf> = None;
    }
}

/// A tenant and how many shares it has.
pub(super) fn share(text: &str) -> Option<(TenantId, u32)> {
    let (tenant, share) = text.split_once('=')?;
    let share: u32 = share.trim().parse().ok().filter(|share| (1..=1_000).contains(share))?;
    Some((TenantId::new(tenant.trim()).ok()?, share))
}

impl Main {
    /// Whether other instances may share the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.store_file.is_some() || self.store.reveal() != "memory"
    }
}

impl Config {
    /// What of it is the engine's.
    pub(crate) fn settings(&self) -> Settings {
        let Config { main, limits, jobs, nodes, sessions, audio, cluster, .. } = self;
        Settings {
            timing: self.timing(),
            select: SelectPolicy {
                sample_k: jobs.sample_k,
                scan_bound: jobs.scan_bound,
                exposure_cap_percent: jobs.exposure_cap_percent,
            },
            avoid_last: jobs.avoid_last,
            hedge_after_ms: (jobs.hedge_after_ms > 0).then_some(jobs.hedge_after_ms),
            default_max_slots: nodes.default_max_concurrent_jobs,
            slow_start: nodes.slow_start,
            resource_threshold_percent: nodes.resource_threshold_percent,
            breaker: BreakerPolicy {
                failures: nodes.breaker_failures,
                first_pause_ms: nodes.breaker_first_pause_ms,
                longest_pause_ms: nodes.breaker_longest_pause_ms,
            },
            reconnect_grace_ms: nodes.reconnect_grace_ms,
            drain_ms: main.drain_ms,
            waiting: WaitingBounds { per_pair: jobs.waiting_per_pair, total: jobs.waiting },
            gaps: GapPolicy {
                remember_ms: nodes.gap_remember_ms,
                reaction_window_ms: nodes.gap_reaction_ms,
                report_interval_ms: nodes.gap_report_ms,
                report_burst: nodes.gap_report_burst,
            },
            results: Retention {
                keep_ms: jobs.keep_ms,
                max_entries: jobs.keep_entries,
                max_bytes: jobs.keep_bytes,
            },
            audio: Retention {
                keep_ms: audio.keep_ms,
                max_entries: audio.keep_entries,
                max_bytes: audio.keep_bytes,
            },
            max_audio_bytes: sessions.max_audio_bytes,
            max_result_bytes: limits.result_bytes,
            node_session_alias: jobs.node_session_alias,
            sessions: SessionBounds {
                total: limits.sessions,
                per_tenant: limits.sessions_per_tenant,
                held_bytes: sessions.held_bytes,
                open_utterances: sessions.open_utterances,
                kept_endings: sessions.kept_endings,
                kept_bytes: sessions.kept_bytes,
                context_sentences: sessions.context_sentences,
                context_chars: sessions.context_chars,
            },
            snapshot_ms: cluster.snapshot_ms,
            admission: Admission {
                jobs: limits.jobs,
                jobs_per_tenant: limits.jobs_per_tenant,
                jobs_per_tenant_per_s: limits.jobs_per_tenant_per_s,
                shares: limits.tenant_shares.iter().filter_map(|one| share(one)).collect(),
            },
            node_limits: NodeLimits {
                registrations_per_min: limits.node_registrations_per_min,
                updates_per_s: limits.node_updates_per_s,
                lookups_per_s: limits.node_lookups_per_s,
            },
            watches: WatchBounds {
                total: limits.job_watches,
                per_tenant: limits.job_watches_per_tenant,
            },
        }
    }

    /// The spans that have relations to each other.
    pub(super) fn timing(&self) -> Timing {
        let Config { jobs, nodes, sessions, cluster, .. } = self;
        Timing {
            heartbeat_ms: nodes.heartbeat_ms,
            compat_heartbeat_ms: nodes.compat_heartbeat_ms,
            send_ms: jobs.send_ms,
            ack_ms: jobs.ack_ms,
            http_ack_ms: jobs.http_ack_ms,
            reserve_lease_ms: jobs.reserve_lease_ms,
            running_lease_ms: jobs.running_lease_ms,
            exec_max_ms: jobs.exec_max_ms,
            max_attempts: jobs.max_attempts,
            queue_max_ms: jobs.queue_max_ms,
            margin_ms: jobs.margin_ms,
            deadline_ms: jobs.deadline_ms,
            owner_ttl_ms: cluster.owner_ttl_ms,
            quarantine_ms: nodes.quarantine_ms,
            resume_window_ms: sessions.resume_window_ms,
            pause_ms: sessions.pause_ms,
            max_utterance_ms: sessions.max_utterance_ms,
        }
    }
}
