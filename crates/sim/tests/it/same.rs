//! The same seed gives the same world, byte for byte.

use std::process::Command;

use lingua_sim::{Options, run};

/// What another process of this test is asked for.
const ASKED: &str = "LINGUA_SIM_TRACE_OF";

/// Seeds that are compared.
const SEEDS: std::ops::Range<u64> = 0..6;

fn trace(seed: u64) -> String {
    let verdict = run(seed, &Options { keep_trace: true });
    format!("{}\n{:016x}\n", verdict.trace.join("\n"), verdict.digest)
}

#[test]
fn the_same_seed_twice_is_the_same_world_in_one_process() {
    for seed in SEEDS {
        compare(seed, &trace(seed), &trace(seed));
    }
}

#[test]
fn the_same_seed_is_the_same_world_in_another_process() {
    if let Ok(seed) = std::env::var(ASKED) {
        let file = std::env::var("LINGUA_SIM_TRACE_FILE").unwrap();
        return std::fs::write(file, trace(seed.parse().unwrap())).unwrap();
    }
    for seed in SEEDS {
        let file = std::env::temp_dir().join(format!("lingua-sim-{}-{seed}", std::process::id()));
        let test = "same::the_same_seed_is_the_same_world_in_another_process";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(ASKED, seed.to_string())
            .env("LINGUA_SIM_TRACE_FILE", &file)
            .status()
            .unwrap();
        assert!(status.success());
        let other = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        compare(seed, &trace(seed), &other);
    }
}

fn compare(seed: u64, one: &str, other: &str) {
    assert!(one.lines().count() > 1_000, "seed {seed}: something happens");
    let first = one.lines().zip(other.lines()).position(|(one, other)| one != other);
    if let Some(at) = first {
        let [one, other] =
            [one, other].map(|text| text.lines().nth(at).unwrap_or_default().to_owned());
        panic!("seed {seed}, line {at}:\n{one}\n{other}");
    }
    assert_eq!(one.len(), other.len(), "seed {seed}");
}
