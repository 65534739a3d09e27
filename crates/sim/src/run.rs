//! From a plan to its verdict.

use lingua_core::hash::fix_order;

use crate::panics;
use crate::plan::Plan;
use crate::verdict::Verdict;
use crate::world;

/// How a world is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Keep the lines of the trace, for people; they cost time.
    pub keep_trace: bool,
}

/// Lives through the world of a seed, and judges it. Must not be called from within a runtime.
pub fn run(seed: u64, options: &Options) -> Verdict {
    run_plan(&Plan::of(seed), options)
}

/// Lives through a plan, and judges it. Must not be called from within a runtime.
pub fn run_plan(plan: &Plan, options: &Options) -> Verdict {
    fix_order(Some(plan.seed));
    let panics = panics::watch();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets needs nothing of the system");
    let ended = runtime.block_on(world::live(plan, options.keep_trace));
    drop(runtime);
    fix_order(None);
    Verdict::of(plan, ended, panics.end())
}
