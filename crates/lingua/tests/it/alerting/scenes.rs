//! The faults, each on schedulers of its own.

mod instances;
mod nodes;
mod people;

use std::future::Future;
use std::pin::Pin;

use super::stage::Stage;

/// One fault.
pub struct Scene {
    /// The scrape job of its schedulers, without what all begin with.
    pub name: &'static str,
    /// What fires, all of it and nothing else.
    pub fires: &'static [&'static str],
    /// Whether there is a moment before the fault.
    pub begins_well: bool,
    /// Whether what fires stops within the test once the fault is over.
    pub heals: bool,
    pub play: fn(Stage) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

macro_rules! scene {
    ($module:ident::$play:ident fires $fires:expr) => {
        Scene {
            name: stringify!($play),
            fires: &$fires,
            begins_well: true,
            heals: true,
            play: |stage| Box::pin($module::$play(stage)),
        }
    };
}

/// All of them.
pub fn all() -> Vec<Scene> {
    vec![
        scene!(people::all_is_well fires []),
        scene!(instances::one_of_two_is_killed fires ["LinguaInstanceDown"]),
        scene!(instances::the_only_one_is_killed fires ["LinguaInstanceDown", "LinguaAllInstancesDown"]),
        scene!(instances::one_of_two_loses_the_store fires ["LinguaPeersMissing", "LinguaStoreDown"]),
        Scene {
            begins_well: false,
            heals: false,
            ..scene!(instances::two_use_two_stores fires ["LinguaPeersMissing", "LinguaNotOneLeader"])
        },
        scene!(instances::the_store_hangs_at_rest fires ["LinguaStoreDown", "LinguaNotOneLeader"]),
        scene!(instances::the_store_dies_while_people_speak fires [
            "LinguaStoreDown", "LinguaStoreFails", "LinguaNotOneLeader", "LinguaLevelMissedFast",
            "LinguaLevelMissedSlowly"
        ]),
        scene!(instances::a_far_version_joins fires ["LinguaVersionsApart"]),
        scene!(instances::an_inbox_is_full fires ["LinguaBusBounced"]),
        scene!(instances::files_run_out fires ["LinguaFilesShort"]),
        // It is remembered for longer than the test takes.
        Scene {
            heals: false,
            ..scene!(people::a_session_falls_over fires ["LinguaSessionPanicked"])
        },
        scene!(nodes::all_leave fires ["LinguaNoReadyNode"]),
        scene!(nodes::one_of_two_fails fires ["LinguaNodesDegraded"]),
        scene!(nodes::nobody_speaks_french fires ["LinguaNoCapableNode"]),
        scene!(nodes::far_too_much_work fires [
            "LinguaNodesBusy", "LinguaJobsWaiting", "LinguaSlotsShort", "LinguaJobsFail", "LinguaMostJobsFail"
        ]),
        scene!(nodes::somebody_waits_all_the_time fires ["LinguaJobsWaiting", "LinguaSlotsShort"]),
        scene!(nodes::all_slots_are_taken fires ["LinguaSlotsShort"]),
        scene!(nodes::one_repeats_itself fires ["LinguaStaleWords"]),
        scene!(nodes::one_hangs fires ["LinguaSlotsLeft"]),
        scene!(people::one_job_in_ten_fails fires ["LinguaJobsFail"]),
        scene!(people::every_job_fails fires ["LinguaJobsFail", "LinguaMostJobsFail"]),
        scene!(people::sentences_take_long fires [
            "LinguaEndingsSlow", "LinguaLevelMissedFast", "LinguaLevelMissedSlowly"
        ]),
        scene!(people::there_is_no_room fires ["LinguaSessionsRefused"]),
    ]
}
