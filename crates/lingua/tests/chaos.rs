//! Everything fails at random, and every promise is kept: `lingua chaos` on one server and on a
//! Cluster.
//!
//! A minute each by default, with faults close to each other that are always the same; `LINGUA_CHAOS_SECONDS=1800`
//! for the long form, with faults that never are, on Sentinel too. `LINGUA_CHAOS_SEED` draws the
//! faults of an earlier run again. The seed and the directory with all
//! that was written down are printed, and the directory is kept if a promise was broken.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic, and tell why")]

use std::process::Command;
use std::sync::Mutex;

/// One run at a time: each takes the whole machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn chaos(store: &str, seconds: u64, faults: u64, seed: u64) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let long = variable("LINGUA_CHAOS_SECONDS");
    let drawn = if long.is_some() { rand::random() } else { seed };
    let (seconds, seed) = (long.unwrap_or(seconds), variable("LINGUA_CHAOS_SEED").unwrap_or(drawn));
    println!("LINGUA_CHAOS_SEED={seed} draws the same faults");
    let ended = Command::new(env!("CARGO_BIN_EXE_lingua"))
        .args(["chaos", "--store", store])
        .args(["--seconds", &seconds.to_string(), "--seed", &seed.to_string()])
        .args(long.is_none().then(|| format!("--faults={faults}")))
        .output()
        .unwrap();
    let said = [ended.stderr, ended.stdout].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(ended.status.success(), "seed {seed} on {store}: {}", ended.status);
}

#[test]
fn every_promise_is_kept_on_one_server_whatever_fails() {
    chaos("standalone", 50, 18, 201);
}

#[test]
fn every_promise_is_kept_on_a_cluster_whatever_fails() {
    chaos("cluster", 40, 14, 103);
}

#[test]
fn every_promise_is_kept_with_sentinels_whatever_fails() {
    // Short runs leave it out: what is particular to it is tested in the store.
    if variable("LINGUA_CHAOS_SECONDS").is_some() {
        chaos("sentinel", 40, 14, 102);
    }
}
