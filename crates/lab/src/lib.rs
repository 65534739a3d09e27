//! Real Redis processes on free loopback ports, and a wire that can be broken on purpose.
//!
//! Tests, benches and demonstrations start what they need here and own it: every process and task
//! ends when its value is dropped, also when the test that holds it panics. Nothing listens on
//! anything but 127.0.0.1. Real processes live in real time, so none of this works under a paused
//! tokio clock. Needs Redis 7 or later. In reading order:
//!
//! - [`ports`]: loopback ports nobody listens on.
//! - [`resp`]: the few lines of Redis protocol that setting up a test takes.
//! - `wait`: asking again until it is so, with a limit and the last answer in the error.
//! - [`redis_config`]: how a private server is told to be.
//! - [`redis_server`]: one server process: started, killed, restarted, paused.
//! - [`sentinel`]: one primary, its replicas and the sentinels that watch them.
//! - [`cluster`]: a Redis Cluster, with failover and slots in the middle of a move.
//! - [`proxy`]: a TCP proxy that delays, holds back, cuts and refuses.

pub mod cluster;
pub mod ports;
pub mod proxy;
pub mod redis_config;
pub mod redis_server;
pub mod resp;
pub mod sentinel;
mod wait;

pub use cluster::RedisCluster;
pub use proxy::FaultProxy;
pub use redis_config::{RedisConfig, TlsFiles};
pub use redis_server::RedisServer;
pub use resp::Reply;
pub use sentinel::SentinelGroup;
