//! `lingua load restarts`: what restarts and broken connections cost.
//!
//! In reading order: `world` what is started and broken, `tally` what is counted, `table` what is told.

use std::time::Duration;

use anyhow::Context;
use lingua_lab::crowd::Judgement;
use lingua_lab::speaker::{Kind, Pace, Script, Sentences, sockets};
use lingua_lab::{Conversation, Crowd, CrowdReport, Meter, SpeakerOptions, monotonic_us};
use serde::Serialize;
use tokio::time::sleep;

use crate::bench::progress::Progress;
use crate::bench::write_json;
use crate::cli::{Agents, Case, Failure, Restarts};

mod table;
mod tally;
mod world;

use tally::Tally;
use world::World;

/// Endings that are remembered of one case: hours of it.
const MAX_ENDINGS: usize = 200_000;

/// How long the last endings are awaited: a little more than the scheduler lets a job live.
const PATIENCE: Duration = Duration::from_secs(80);

/// What each sentence has, and what it is not cut by.
const SPEECH_MS: u64 = 1_000;

/// What became of one case.
#[derive(Debug, Serialize)]
struct Outcome {
    case: Case,
    agents: Agents,
    #[serde(flatten)]
    tally: Tally,
    /// Sentences that ended otherwise than they may, by kind; and speakers that gave up.
    violations: Vec<String>,
    aim_met: bool,
}

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    nodes: u32,
    slots: u32,
    job_ms: u64,
    at_once: u32,
    after_ms: u64,
    cases: Vec<Outcome>,
}

/// Runs all cases, prints and writes.
pub(super) fn run(options: &Restarts) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    let report = runtime.block_on(async {
        tokio::select! {
            report = all(options) => report,
            _ = tokio::signal::ctrl_c() => Err(Failure::failed("interrupted")),
        }
    })?;
    table::print(&report);
    write_json(options.json.as_deref(), &report)?;
    match report.failure(options.strict) {
        Some(why) => Err(Failure::failed(why)),
        None => Ok(()),
    }
}

async fn all(options: &Restarts) -> Result<Report, Failure> {
    sockets::make_room_for(4 * u64::from(options.at_once + options.nodes))?;
    let progress = Progress::new((options.cases.len() * options.agents.len()) as u64);
    let mut cases = Vec::new();
    for case in &options.cases {
        for agents in &options.agents {
            let outcome = one(options, *case, *agents, &progress).await;
            let name = format!("{}, {} agents", case.name(), agents.name());
            let outcome = outcome.with_context(|| name.clone())?;
            progress.note(&format!("{name}: {}", outcome.tally));
            cases.push(outcome);
            progress.step();
        }
    }
    Ok(Report {
        nodes: options.nodes,
        slots: options.slots,
        job_ms: options.job.as_millis() as u64,
        at_once: options.at_once,
        after_ms: options.after.as_millis() as u64,
        cases,
    })
}

async fn one(
    options: &Restarts,
    case: Case,
    agents: Agents,
    progress: &Progress,
) -> anyhow::Result<Outcome> {
    let now = |what: &str| progress.now(&format!("{}, {}: {what}", case.name(), agents.name()));
    now("starting");
    let mut world = World::start(options, case, agents).await?;
    let meter = Meter::default().keeping_endings(MAX_ENDINGS);
    let seats = (0..options.at_once).map(|n| seat(options, &world, n).alone());
    let crowd = Crowd::start(seats, &meter, Judgement::Strict);
    now(&format!("{} speakers for {:?}", options.at_once, options.before));
    sleep(options.before).await;
    now("the fault, and the way back");
    let fault_us = monotonic_us();
    let back = world.hurt(case).await;
    let back_us = monotonic_us();
    if back.is_ok() {
        now(&format!("all nodes are back; {:?} more", options.after));
        sleep(options.after).await;
    }
    now("the last endings");
    let told = crowd.finish(PATIENCE).await;
    let tally = Tally::of(&meter.endings(), told.report.count(Kind::Abandoned), fault_us, back_us);
    let mut violations = violations(&told);
    violations.extend(back.err().map(|error| format!("{error:#}")));
    world.end().await;
    Ok(Outcome { case, agents, aim_met: tally.meets_aim(agents), tally, violations })
}

/// What may happen in no case. A session that the embedded store forgot is counted apart.
fn violations(told: &CrowdReport) -> Vec<String> {
    let counts = told.report.counts.iter().filter(|(kind, _)| **kind != Kind::Abandoned);
    let counts = counts.map(|(kind, count)| format!("{count} {}", kind.word()));
    let failed = told.failed.iter().map(|(why, count)| format!("{count} speakers: {why}"));
    counts.chain(failed).collect()
}

fn seat(options: &Restarts, world: &World, n: u32) -> Conversation {
    let script = Script {
        sentences: Sentences::Random {
            count: None,
            speech_ms: SPEECH_MS..=SPEECH_MS,
            pause_ms: 0..=0,
            speaker: n,
            seed: 1,
        },
        pace: Pace::ClosedLoop,
        at_least_every: options.every,
        patience: PATIENCE,
        ..Script::default()
    };
    // Spread over the time of a job, so that endings do not all come at once.
    let begin_after = options.job.mul_f64(f64::from(n) / f64::from(options.at_once));
    Conversation { begin_after, speaker: SpeakerOptions::new(world.session_url()), script }
}

impl Report {
    fn failure(&self, strict: bool) -> Option<String> {
        let named = |one: &Outcome| format!("{}, {} agents", one.case.name(), one.agents.name());
        if let Some(wrong) = self.cases.iter().find(|one| !one.violations.is_empty()) {
            return Some(format!("{}: {}", named(wrong), wrong.violations.join("; ")));
        }
        if let Some(silent) = self.cases.iter().find(|one| one.tally.results == 0) {
            return Some(format!("{}: not one sentence came back", named(silent)));
        }
        let missed = self.cases.iter().find(|one| strict && !one.aim_met)?;
        Some(format!("{}: the aim is missed: {}", named(missed), missed.tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tally: Tally, violations: &[&str]) -> Report {
        let violations = violations.iter().map(|&one| one.to_owned()).collect();
        let (case, agents) = (Case::Kill, Agents::Current);
        let aim_met = tally.meets_aim(agents);
        let cases = vec![Outcome { case, agents, tally, violations, aim_met }];
        Report { nodes: 1, slots: 1, job_ms: 1, at_once: 1, after_ms: 1, cases }
    }

    #[test]
    fn a_missed_aim_fails_only_if_asked_and_a_violation_always() {
        let good = Tally { results: 5, ..Tally::default() };
        let missed = Tally { refused: [("all_nodes_busy".to_owned(), 3)].into(), ..good.clone() };
        assert_eq!(report(good.clone(), &[]).failure(true), None);
        assert_eq!(report(missed.clone(), &[]).failure(false), None);
        assert!(report(missed, &[]).failure(true).unwrap().contains("aim"));
        assert!(report(good, &["1 doubled"]).failure(false).unwrap().contains("1 doubled"));
        assert!(report(Tally::default(), &[]).failure(false).unwrap().contains("not one"));
    }
}
