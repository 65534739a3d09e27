//! One suite for every backend, and what each backend owes beyond it.
//!
//! In reading order: `suite` the contracts and the model, then the backends; `faults` what tests of broken links
//! share; `planted_flaws` which scenario finds which flaw.
#![cfg(feature = "redis")]
#![allow(clippy::print_stdout, reason = "figures for who runs it with --nocapture")]

#[macro_use]
mod suite;
mod acl;
mod faults;

mod file;
mod memory;
mod planted_flaws;
mod redis;
mod redis_acl;
mod redis_cluster;
mod redis_failover;
mod redis_faults;
mod redis_open;
mod redis_scripts;
mod redis_sentinel;
mod redis_tls;
