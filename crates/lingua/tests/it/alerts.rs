//! Every alert rule fires under a real Prometheus when its fault is there, and no other does.
//!
//! Each fault has schedulers of its own, which are one scrape job: real processes where they are
//! killed or run out of files, otherwise in this process and on real sockets. One Prometheus server
//! reads all of them and has the rules that are shipped, with their spans shortened. Nothing fires
//! while all are well; then every fault is made at once; each job has exactly its alerts; the faults
//! end, and so do the alerts.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and say what it saw"
)]

use crate::alerting;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use alerting::prometheus::{Alerts, Prometheus};
use alerting::rules;
use alerting::scenes::{self, Scene};
use alerting::stage::{Act, Stage};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// For everything to be up and seen.
const START_LIMIT: Duration = Duration::from_secs(40);

/// How often each scheduler is read before anything is wrong.
const READINGS: u32 = 10;

/// For everything to fire: the slowest takes eleven seconds for a sentence, a third of a minute for its
/// rule, and a machine full of compilers for all of it.
const FIRE_LIMIT: Duration = Duration::from_secs(120);

/// For everything to be quiet again.
const HEAL_LIMIT: Duration = Duration::from_secs(90);

fn job(scene: &str) -> String {
    format!("lingua-{}", scene.replace('_', "-"))
}

fn expected(scenes: &[Scene]) -> Alerts {
    let fires = |scene: &Scene| scene.fires.iter().map(|name| (*name).to_owned()).collect();
    let ill = scenes.iter().filter(|scene| !scene.fires.is_empty());
    ill.map(|scene| (job(scene.name), fires(scene))).collect()
}

#[test]
fn every_rule_has_a_fault_that_sets_it_off() {
    let names = rules::names(&fs::read_to_string(rules::path()).unwrap());
    assert!(names.len() >= 20);
    let fire: BTreeSet<String> = expected(&scenes::all()).into_values().flatten().collect();
    assert_eq!(fire, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_alert_fires_for_its_fault_and_for_no_other() {
    let _turn = crate::app::heavy_turn().await;
    let mut play = Play::begin(scenes::all()).await;
    play.nothing_is_wrong_yet().await;
    play.act.send_replace(Act::Ill);
    play.all_fire().await;
    play.act.send_replace(Act::Healed);
    play.all_are_quiet_again().await;
    play.act.send_replace(Act::Over);
    while let Some(over) = play.playing.join_next().await {
        over.unwrap();
    }
}

/// All faults at once, and who watches them.
struct Play {
    scenes: Vec<Scene>,
    playing: JoinSet<()>,
    act: watch::Sender<Act>,
    targets: usize,
    prometheus: Prometheus,
}

impl Play {
    /// Starts everything, and Prometheus once all is well.
    async fn begin(scenes: Vec<Scene>) -> Self {
        let (mut playing, act) = (JoinSet::new(), watch::Sender::new(Act::Healthy));
        let (healthy, mut ready) = mpsc::channel(scenes.len());
        for scene in &scenes {
            let (act, healthy) = (act.subscribe(), healthy.clone());
            playing.spawn((scene.play)(Stage { name: scene.name, act, healthy }));
        }
        let mut jobs = BTreeMap::new();
        while jobs.len() < scenes.len() {
            let (name, targets) = tokio::select! {
                next = timeout(START_LIMIT, ready.recv()) => next.expect("all start").unwrap(),
                Some(over) = playing.join_next() => panic!("one ended early: {over:?}"),
            };
            jobs.insert(job(name), targets);
        }
        let targets = jobs.values().map(Vec::len).sum();
        let rules = fs::read_to_string(rules::path()).unwrap();
        let prometheus = Prometheus::start(&rules::quicker(&rules), &jobs).await;
        Play { scenes, playing, act, targets, prometheus }
    }

    /// Nobody ends before all do.
    fn goes_on(&mut self) {
        if let Some(over) = self.playing.try_join_next() {
            panic!("one ended early: {over:?}");
        }
    }

    /// The alerts of scenes that are so.
    fn only(&self, mut alerts: Alerts, so: impl Fn(&Scene) -> bool) -> Alerts {
        alerts.retain(|name, _| self.scenes.iter().any(|one| job(one.name) == *name && so(one)));
        alerts
    }

    async fn nothing_is_wrong_yet(&mut self) {
        let began = Instant::now();
        // By then the shortest rules would have fired.
        while self.prometheus.seen_well(READINGS).await < self.targets {
            self.goes_on();
            assert!(began.elapsed() < START_LIMIT, "not all are seen");
            sleep(Duration::from_millis(100)).await;
        }
        println!("{} targets are well after {:?}", self.targets, began.elapsed());
        let early = self.only(self.prometheus.fired().await, |scene| scene.begins_well);
        assert_eq!(early, Alerts::new(), "nothing is wrong yet");
    }

    async fn all_fire(&mut self) {
        let (began, expected) = (Instant::now(), expected(&self.scenes));
        let mut known = Alerts::new();
        while known != expected {
            let fired = self.prometheus.fired().await;
            let news = missing(&fired, &known);
            if !news.is_empty() {
                println!("{:>5.1} s  {news:?}", began.elapsed().as_secs_f64());
            }
            known = fired;
            assert_eq!(missing(&known, &expected), Alerts::new(), "nobody expected that");
            self.goes_on();
            let late = began.elapsed() > FIRE_LIMIT;
            assert!(!late, "these do not fire: {:?}", missing(&expected, &known));
            sleep(Duration::from_millis(250)).await;
        }
    }

    async fn all_are_quiet_again(&mut self) {
        let began = Instant::now();
        loop {
            let firing = self.only(self.prometheus.firing().await, |scene| scene.heals);
            if firing.is_empty() {
                break;
            }
            self.goes_on();
            assert!(began.elapsed() < HEAL_LIMIT, "still firing: {firing:?}");
            sleep(Duration::from_millis(250)).await;
        }
        println!("all is quiet after {:?}", began.elapsed());
        let more = missing(&self.prometheus.fired().await, &expected(&self.scenes));
        assert_eq!(more, Alerts::new(), "fired while healing");
    }
}

/// What is in the one and not in the other.
fn missing(all: &Alerts, some: &Alerts) -> Alerts {
    let none = BTreeSet::new();
    let left = all.iter().map(|(job, names)| {
        let others = some.get(job).unwrap_or(&none);
        (job.clone(), names.difference(others).cloned().collect::<BTreeSet<_>>())
    });
    left.filter(|(_, names)| !names.is_empty()).collect()
}
