//! Many worlds, none of which breaks a promise.

use lingua_sim::{Options, Plan, regressions, run, run_plan, shrink, story};

/// Worlds in every run of the tests.
const SEEDS: u64 = 200;

/// How many, and from which on: `LINGUA_SIM_SEEDS=A..B` or a number of them.
fn seeds() -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("LINGUA_SIM_SEEDS") else { return 0..SEEDS };
    let (from, to) = asked.split_once("..").unwrap_or(("0", &asked));
    let number = |text: &str| text.parse().expect("LINGUA_SIM_SEEDS is a number or A..B");
    number(from)..number(to)
}

#[test]
fn no_world_breaks_a_promise() {
    let mut broken = Vec::new();
    for seed in seeds() {
        let verdict = run(seed, &Options::default());
        if !verdict.is_clean() {
            let plan = Plan::of(seed);
            let shrunk = shrink::shrink(&plan, verdict);
            let page = story::page(&plan.with_faults(&shrunk.kept), &shrunk.verdict);
            let faults = shrunk.kept;
            let line = regressions::Regression { seed, faults }.line();
            broken.push(format!("{page}\nregressions.txt: {line}\n"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_world_that_broke_a_promise_once_keeps_it_now() {
    for regression in regressions::all() {
        let plan = regression.plan();
        let verdict = run_plan(&plan, &Options::default());
        assert!(verdict.is_clean(), "{}", story::page(&plan, &verdict));
    }
}
