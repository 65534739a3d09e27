//! What stands around a scheduler, for tests, benches and demonstrations: real Redis processes on
//! free loopback ports, a wire that can be broken on purpose, simulated nodes and speakers.
//!
//! Whoever starts something here owns it: every process and task ends when its value is dropped,
//! also when the test that holds it panics. Nothing listens on anything but 127.0.0.1. Real
//! processes and sockets live in real time, so none of this works under a paused tokio clock. Needs
//! Redis 7 or later. Shares no code with the scheduler. In reading order:
//!
//! - [`ports`]: loopback ports nobody listens on.
//! - `clock`: the date, for messages that carry one.
//! - [`resp`]: the few lines of Redis protocol that setting up a test takes.
//! - `wait`: asking again until it is so, with a limit and the last answer in the error.
//! - [`redis_config`]: how a private server is told to be.
//! - [`redis_server`]: one server process: started, killed, restarted, paused.
//! - [`sentinel`]: one primary, its replicas and the sentinels that watch them.
//! - [`cluster`]: a Redis Cluster, with failover and slots in the middle of a move.
//! - [`proxy`]: a TCP proxy that delays, holds back, cuts and refuses.
//! - `stream`: a connection, with TLS or without.
//! - `link`: one WebSocket to the scheduler, `closed` how it ended, `persistence` what to do when it is
//!   lost.
//! - [`overheard`]: what goes over all of them, for who holds it against a description.
//! - `journal`: what nodes and speakers did, in files.
//! - [`speech`]: test signals and recordings, marked so that they are recognised again.
//! - [`fake_node`]: simulated nodes over the real socket.
//! - [`speaker`]: simulated speakers over the real socket, and the check of what they were told.
//! - [`apart`]: work on a thread of its own.
//! - [`process`]: processes that are started, told and hurt, schedulers among them.
//! - [`balancer`]: a load balancer before several schedulers.
//! - [`fleet`], [`crowd`], [`meter`]: many nodes, many speakers, and what is measured of them.
//! - [`chaos`]: all of it at once, broken at random, and the check of what was written down.
//! - [`hostile`]: clients that mean no good.
//! - [`mutation`]: kept inputs of decoders, and changed ones.

pub mod apart;
pub mod balancer;
pub mod chaos;
mod clock;
pub mod cluster;
pub mod crowd;
pub mod fake_node;
pub mod fleet;
pub mod hostile;
mod journal;
mod closed;
mod link;
pub mod meter;
pub mod mutation;
pub mod overheard;
mod persistence;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod redis_config;
pub mod redis_server;
pub mod resp;
pub mod sentinel;
pub mod speaker;
pub mod speech;
mod stream;
mod wait;

pub use apart::Apart;
pub use balancer::{Balancer, Health};
pub use clock::monotonic_us;
pub use closed::Closed;
pub use cluster::RedisCluster;
pub use crowd::{Conversation, Crowd, CrowdReport};
pub use fake_node::{Behaviour, FakeNode, NodeOptions, ScriptedNode};
pub use fleet::{Fleet, FleetStats};
pub use hostile::{Hostile, Malice};
pub use journal::Journal;
pub use lingua_http_client::HttpClient;
pub use link::ConnectError;
pub use meter::Meter;
pub use persistence::Persistence;
pub use process::{Launch, SchedulerProcess};
pub use proxy::FaultProxy;
pub use redis_config::{RedisConfig, TlsFiles};
pub use redis_server::RedisServer;
pub use resp::Reply;
pub use sentinel::SentinelGroup;
pub use speaker::{AutoSpeaker, Speaker, SpeakerOptions};
