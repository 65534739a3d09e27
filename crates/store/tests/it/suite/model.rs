//! Random histories against a model that is too simple to be wrong.
//!
//! A history runs through two instances by turns, with time jumps, and with earlier calls that come
//! again late or twice. After every call the whole visible state is looked at. The store's time is
//! read before and after each call through [`lingua_store::nodes::NodeRecord::read_at`]; where a
//! lease ended in between, every moment in between is tried, and the worlds in which the store's
//! answer is right go on side by side.

mod cast;
mod moves;
mod step;
mod world;

use std::fmt;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lingua_core::Moment;
use lingua_store::Backend;
use lingua_store::slots::Reserve;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use self::cast::Cast;
use self::moves::{Known, Move, What};
use self::step::{Answer, Step};
use self::world::World;
use super::StoreUnderTest;
use super::samples::{LONG, TestNode};

/// Calls in one history.
const STEPS: usize = 60;

/// Histories that run side by side: on a real server most of their time is waiting.
const THREADS: u32 = 8;

/// A history in which a call took longer is begun anew: too much may have ended by itself meanwhile.
const LONGEST_CALL: Duration = Duration::from_millis(60);

/// More than ends of leases make in calls that are not longer.
const MAX_WORLDS: usize = 2_000;

/// The machine stood still, and the model cannot tell what a store must say.
#[derive(Debug)]
struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a call took too long to be sure of anything")
    }
}

impl std::error::Error for Stalled {}

/// Runs `cases` histories, or `LINGUA_MODEL_CASES` if that is more.
pub fn check<S: StoreUnderTest, F: Future<Output = anyhow::Result<S>>>(
    cases: u32,
    fixture: impl Fn() -> F + Copy + Send,
) {
    let asked = std::env::var("LINGUA_MODEL_CASES").ok().and_then(|text| text.parse().ok());
    let cases = asked.unwrap_or(0).max(cases).div_ceil(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(move || check_some(cases, fixture))).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn check_some<S: StoreUnderTest, F: Future<Output = anyhow::Result<S>>>(
    cases: u32,
    fixture: impl Fn() -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = runtime.block_on(fixture()).expect("a store to test");
    let config = Config {
        cases,
        max_global_rejects: 20 * cases,
        failure_persistence: None,
        max_shrink_iters: 4_000,
        max_shrink_time: 30_000,
        ..Config::default()
    };
    let history = proptest::collection::vec(moves::any_move(), STEPS);
    let outcome = TestRunner::new(config).run(&history, |history| {
        let ran = runtime.block_on(run(&store, &history));
        ran.map_err(|error| match error.is::<Stalled>() {
            true => TestCaseError::reject(Stalled.to_string()),
            false => TestCaseError::fail(format!("{error:#}")),
        })
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => {
            let moves = history.iter().filter(|next| !matches!(next.what, What::Nothing));
            let told: Vec<String> = moves.map(|next| format!("  {next:?}")).collect();
            panic!("{why}\nin the shortest such history:\n{}", told.join("\n"));
        }
        Err(error) => panic!("{error}"),
    }
}

async fn run(store: &impl StoreUnderTest, history: &[Move]) -> anyhow::Result<()> {
    let stores = [store.backend(), store.second()];
    let mut play = Play::new(&stores[0]).await?;
    for (number, next) in history.iter().enumerate() {
        let on = &stores[usize::from(next.on_second)];
        let step = match &next.what {
            What::Nothing => continue,
            What::Pass(time) => {
                store.pass(*time).await;
                play.time = play.clock.now(on).await?;
                play.look(on).await?;
                continue;
            }
            What::Draft(draft) => play.known.resolve(draft),
            What::Replay(earlier) => match play.past.get(earlier % play.past.len().max(1)) {
                Some(step) => step.clone(),
                None => continue,
            },
        };
        let told = || format!("call {number}, {step:?}");
        let began = play.time;
        let still = play.call(on, &step).await.with_context(told)?;
        if next.twice && step.may_be_repeated() {
            let once = play.seen.clone();
            let again = play.call(&stores[usize::from(!next.on_second)], &step);
            let still = still & again.await.with_context(|| format!("{} again", told()))?;
            // What a report spares because it was renewed just now, a later one drops.
            let still = still && (!matches!(step, Step::Confirm { .. }) || play.time == began);
            ensure!(
                !still || timeless(&once) == timeless(&play.seen),
                "{} again changed the state (I7)\nonce:  {once:?}\ntwice: {:?}",
                told(),
                play.seen
            );
        }
    }
    play.rest(store, &stores[0]).await
}

/// A history under way.
struct Play {
    cast: Cast,
    /// Tells the store's time.
    clock: TestNode,
    time: Moment,
    /// The worlds that explain all answers so far.
    worlds: Vec<World>,
    /// What was seen after the last call, and since when it was looked at.
    seen: Vec<Answer>,
    seen_since: Moment,
    known: Known,
    past: Vec<Step>,
}

impl Play {
    async fn new(store: &Backend) -> anyhow::Result<Self> {
        let clock = TestNode::ready(store, 1).await?;
        let mut play = Play {
            cast: Cast::new(),
            time: clock.now(store).await?,
            clock,
            worlds: vec![World::new()],
            seen: Vec::new(),
            seen_since: Moment::ZERO,
            known: Known::default(),
            past: Vec::new(),
        };
        play.look(store).await?;
        Ok(play)
    }

    /// Makes one call, checks it and what can be seen after it. Says whether nothing ended by
    /// itself meanwhile.
    async fn call(&mut self, store: &Backend, step: &Step) -> anyhow::Result<bool> {
        let from = self.seen_since;
        let before = self.seen.clone();
        let worlds = self.worlds.clone();
        let answer = step.ask(store, &self.cast).await?;
        let since = self.read_clock(store).await?;
        self.explain(step, &answer, since)?;
        self.known.learn(step, &answer);
        self.past.push(step.clone());
        self.look(store).await?;
        self.check_capacity(step, &answer)?;
        let ended = |world: &World| world.ends_within(from, self.time);
        let still = !worlds.iter().chain(&self.worlds).any(ended);
        ensure!(
            !still || !answer.is_refusal() || timeless(&before) == timeless(&self.seen),
            "{answer:?} and yet something changed (I6)\nbefore: {before:?}\nafter:  {:?}",
            self.seen
        );
        Ok(still)
    }

    /// Reads the store's time and says when it was read before.
    async fn read_clock(&mut self, store: &Backend) -> anyhow::Result<Moment> {
        let before = std::mem::replace(&mut self.time, self.clock.now(store).await?);
        ensure!(self.time.since(before) <= LONGEST_CALL, Stalled);
        Ok(before)
    }

    /// Every moment from `since` to the last reading of time.
    fn moments(&self, since: Moment) -> impl Iterator<Item = Moment> + use<> {
        (since.as_millis()..=self.time.as_millis()).map(Moment::from_millis)
    }

    /// Goes on with the worlds in which `answer` was right at some moment.
    fn explain(&mut self, step: &Step, answer: &Answer, since: Moment) -> anyhow::Result<()> {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for now in self.moments(since) {
            for mut world in self.worlds.iter().flat_map(|world| world.forgetting(now)) {
                let expected = world.apply(now, &self.cast, step);
                world.settle(now);
                if expected != *answer {
                    wrong.push((now, expected));
                } else if !right.contains(&world) {
                    right.push(world);
                    ensure!(right.len() <= MAX_WORLDS, Stalled);
                }
            }
        }
        ensure!(!right.is_empty(), disagree(step, answer, &wrong));
        self.worlds = right;
        Ok(())
    }

    /// Looks at everything that can be seen, all at once.
    async fn look(&mut self, store: &Backend) -> anyhow::Result<()> {
        let looks: Vec<Step> = Step::looks().collect();
        let seen = looks.iter().map(|look| look.ask(store, &self.cast));
        let seen = futures_util::future::try_join_all(seen).await?;
        let since = self.read_clock(store).await?;
        for (look, seen) in looks.iter().zip(&seen) {
            let (mut right, mut wrong) = (Vec::new(), Vec::new());
            for world in &self.worlds {
                let mut told = Vec::new();
                for now in self.moments(since) {
                    for mut world in world.forgetting(now) {
                        told.push((now, world.apply(now, &self.cast, look)));
                    }
                }
                match told.iter().any(|(_, told)| told == seen) {
                    true => right.push(world.clone()),
                    false => wrong.extend(told),
                }
            }
            ensure!(!right.is_empty(), disagree(look, seen, &wrong));
            self.worlds = right;
        }
        (self.seen, self.seen_since) = (seen, since);
        Ok(())
    }

    /// I1, without asking the model.
    fn check_capacity(&self, step: &Step, answer: &Answer) -> anyhow::Result<()> {
        let (Step::Reserve { node, .. }, Answer::Reserve(Reserve::Granted { used, .. })) =
            (step, answer)
        else {
            return Ok(());
        };
        let (Answer::Usage(usage), Answer::Node(Some(record))) =
            (&self.seen[2 * node], &self.seen[2 * node + 1])
        else {
            bail!("a grant on a node without a record");
        };
        let max = record.max;
        ensure!(*used <= max && usage.used() <= max, "{used} and {usage:?} of {max} slots (I1)");
        Ok(())
    }

    /// I2: when nobody acts any more, everything that was taken is free one lease later.
    async fn rest(&mut self, store: &impl StoreUnderTest, backend: &Backend) -> anyhow::Result<()> {
        store.pass(moves::LONGEST_LEASE).await;
        self.time = self.clock.now(backend).await?;
        self.look(backend).await?;
        for seen in &self.seen {
            if let Answer::Usage(usage) = seen {
                ensure!(usage.used() == 0, "{usage:?} one lease after the last call (I2)");
            }
        }
        Ok(())
    }
}

fn disagree(step: &Step, answer: &Answer, expected: &[(Moment, Answer)]) -> String {
    let expected = &expected[..expected.len().min(3)];
    format!("the store said {answer:?}\nto {step:?} and not, as the model does, {expected:?}")
}

/// What was seen, without the ends that every repeated call moves on.
fn timeless(seen: &[Answer]) -> Vec<Answer> {
    let mut seen = seen.to_vec();
    for answer in &mut seen {
        match answer {
            Answer::Node(Some(record)) => {
                record.fresh_until = Moment::ZERO;
                record.gaps.iter_mut().for_each(|(_, until)| *until = Moment::ZERO);
            }
            Answer::Owner(Some(owner)) => owner.until = Moment::ZERO,
            _ => {}
        }
    }
    seen
}
