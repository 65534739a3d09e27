//! Figures by pair and by stage.
//!
//! The pairs with the most jobs have series of their own, all others share one: what callers ask for must not fill
//! anybody's memory.

use std::sync::Arc;
use std::time::Duration;

use lingua_core::busiest::Busiest;
use lingua_core::eligibility::Route;
use lingua_core::hash::HashMap;
use lingua_protocol::node::timings::Step;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::registrar::metric;
use super::{Metrics, Registrar, spans};

/// Pairs with series of their own.
pub(super) const PAIRS: usize = 64;

/// The label of all others.
const OTHER: &str = "other";

/// What takes time on the way of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// From its submission to its first dispatch.
    Queue,
    /// From a dispatch to the node's ack.
    Send,
    /// On the node.
    Node(Step),
}

/// In the order of their indices.
pub(super) const STAGES: [&str; 6] = ["queue", "send", "asr", "repair", "nmt", "tts"];

impl Stage {
    fn index(self) -> usize {
        match self {
            Stage::Queue => 0,
            Stage::Send => 1,
            Stage::Node(step) => 2 + step as usize,
        }
    }
}

/// How a sentence ended for who spoke it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// With a result, in time.
    Met,
    /// With a result, too late.
    Late,
    /// Without a result.
    Missing,
}

/// In the order of their indices.
pub(super) const LEVELS: [&str; 3] = ["met", "late", "missing"];

type One = [(&'static str, String); 1];
type Two = [(&'static str, String); 2];
type Histograms<S> = Family<S, Histogram, fn() -> Histogram>;

/// Figures by pair and by stage.
pub(crate) struct PairMetrics {
    by_stage: [Histogram; STAGES.len()],
    by_pair: Histograms<Two>,
    sentences: Family<Two, Counter>,
    wanted: Family<One, Gauge>,
    other: Arc<Series>,
    state: Arc<Mutex<State>>,
}

/// The series of one pair.
struct Series {
    stages: [Histogram; STAGES.len()],
    levels: [Counter; LEVELS.len()],
}

struct State {
    busiest: Busiest<Route>,
    named: HashMap<Route, Arc<Series>>,
    /// Jobs that hold a slot or want one.
    wanted: HashMap<Route, i64>,
}

/// Counts as a wanted slot until it is dropped.
#[must_use = "it counts until it is dropped"]
pub(crate) struct WantedSlot {
    route: Route,
    state: Arc<Mutex<State>>,
}

impl Drop for WantedSlot {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(count) = state.wanted.get_mut(&self.route) {
            *count -= 1;
            if *count == 0 {
                state.wanted.remove(&self.route);
            }
        }
    }
}

/// Coarser than those of all jobs: there are many series.
fn coarse() -> Histogram {
    Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0])
}

impl PairMetrics {
    pub(super) fn register(to: &mut Registrar<'_>) -> Self {
        let by_stage: Histograms<One> = metric!(
            to,
            "stage",
            "Time that a stage of a job took, by stage",
            Family::new_with_constructor(spans as fn() -> Histogram),
            Seconds
        );
        let by_pair: Histograms<Two> = metric!(
            to,
            "pair_stage",
            "Time that a stage of a job took, by pair and stage; the 64 busiest pairs",
            Family::new_with_constructor(coarse as fn() -> Histogram),
            Seconds
        );
        let sentences: Family<Two, Counter> = metric!(
            to,
            "sentences",
            "Sentences by pair, and whether their result came within jobs.slo_ms",
            Family::default()
        );
        let wanted: Family<One, Gauge> = metric!(
            to,
            "slots_wanted",
            "Open jobs that hold a slot or want one, by pair",
            Family::default()
        );
        let by_stage =
            STAGES.map(|stage| by_stage.get_or_create_owned(&[("stage", stage.to_owned())]));
        let other = Arc::new(Series::of(OTHER, &by_pair, &sentences));
        drop(wanted.get_or_create(&pair(OTHER)));
        let state = State {
            busiest: Busiest::new(PAIRS),
            named: HashMap::default(),
            wanted: HashMap::default(),
        };
        let state = Arc::new(Mutex::new(state));
        PairMetrics { by_stage, by_pair, sentences, wanted, other, state }
    }

    /// A job of this pair is taken on.
    pub fn wants(&self, route: Route) -> WantedSlot {
        let mut state = self.state.lock();
        *state.wanted.entry(route).or_default() += 1;
        if state.busiest.note(route) && !state.named.contains_key(&route) {
            let series = Series::of(&route.to_string(), &self.by_pair, &self.sentences);
            state.named.insert(route, Arc::new(series));
        }
        WantedSlot { route, state: Arc::clone(&self.state) }
    }

    /// A stage of a job of this pair took so long.
    pub fn took(&self, route: Route, stage: Stage, time: Duration) {
        let (at, seconds) = (stage.index(), time.as_secs_f64());
        self.by_stage[at].observe(seconds);
        self.series(route).stages[at].observe(seconds);
    }

    /// A sentence of this pair ended; nothing is known of the pair of one that an older version took in.
    pub fn sentence(&self, route: Option<Route>, level: Level) {
        let series = route.map_or_else(|| Arc::clone(&self.other), |route| self.series(route));
        series.levels[level as usize].inc();
    }

    fn series(&self, route: Route) -> Arc<Series> {
        let state = self.state.lock();
        Arc::clone(state.named.get(&route).unwrap_or(&self.other))
    }

    /// Gives series to pairs that have become busier than others.
    pub fn review(&self) {
        let mut state = self.state.lock();
        for quiet in state.busiest.review() {
            state.named.remove(&quiet);
            let quiet = quiet.to_string();
            for stage in STAGES {
                self.by_pair.remove(&both(&quiet, "stage", stage));
            }
            for level in LEVELS {
                self.sentences.remove(&both(&quiet, "level", level));
            }
            self.wanted.remove(&pair(&quiet));
        }
        let State { busiest, named, wanted } = &mut *state;
        for route in wanted.keys().filter(|route| busiest.is_named(route)) {
            named.entry(*route).or_insert_with(|| {
                Arc::new(Series::of(&route.to_string(), &self.by_pair, &self.sentences))
            });
        }
    }

    /// Brings the gauges up to date.
    pub(super) fn look(&self) {
        let state = self.state.lock();
        for route in state.named.keys() {
            let count = state.wanted.get(route).copied().unwrap_or(0);
            self.wanted.get_or_create(&pair(&route.to_string())).set(count);
        }
        let others = state.wanted.iter().filter(|(route, _)| !state.named.contains_key(*route));
        self.wanted.get_or_create(&pair(OTHER)).set(others.map(|(_, count)| count).sum());
    }
}

impl Series {
    fn of(name: &str, by_pair: &Histograms<Two>, sentences: &Family<Two, Counter>) -> Self {
        Series {
            stages: STAGES.map(|stage| by_pair.get_or_create_owned(&both(name, "stage", stage))),
            levels: LEVELS.map(|level| sentences.get_or_create_owned(&both(name, "level", level))),
        }
    }
}

fn pair(name: &str) -> One {
    [("pair", name.to_owned())]
}

fn both(name: &str, label: &'static str, value: &str) -> Two {
    [("pair", name.to_owned()), (label, value.to_owned())]
}

impl Metrics {
    /// The steps of a node's work took so long, by its own word.
    pub(crate) fn steps_took(&self, route: Route, steps: [Option<Duration>; Step::ALL.len()]) {
        for (step, took) in Step::ALL.into_iter().zip(steps) {
            if let Some(took) = took {
                self.pairs.took(route, Stage::Node(step), took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(n: u32) -> Route {
        let tag = |n: u32| {
            let letter = |n: u32| char::from(b'a' + (n % 26) as u8);
            format!("{}{}{}", letter(n), letter(n / 26), letter(n / 676)).parse().unwrap()
        };
        Route::Directed(tag(n), "zz".parse().unwrap())
    }

    fn lines<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with(begins)).collect()
    }

    #[test]
    fn a_thousand_pairs_have_sixty_five_series_and_nothing_is_lost() {
        let metrics = Metrics::default();
        let held: Vec<WantedSlot> = (0..1_000).map(|n| metrics.pairs.wants(route(n))).collect();
        for n in 0..1_000 {
            metrics.pairs.sentence(Some(route(n)), Level::Met);
            metrics.pairs.took(route(n), Stage::Queue, Duration::from_millis(3));
        }
        metrics.pairs.look();
        let text = metrics.render();
        let sum = |begins: &str, part: &str| -> f64 {
            let found = lines(&text, begins).into_iter().filter(|line| line.contains(part));
            found.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
        };
        assert_eq!(lines(&text, "lingua_slots_wanted{").len(), PAIRS + 1);
        assert_eq!(sum("lingua_slots_wanted{", ""), 1_000.0);
        assert_eq!(sum("lingua_sentences_total{", "met"), 1_000.0);
        assert_eq!(sum("lingua_pair_stage_seconds_count{", "queue"), 1_000.0);
        assert_eq!(sum("lingua_stage_seconds_count{", "queue"), 1_000.0);
        drop(held);
        metrics.pairs.look();
        assert!(metrics.pairs.state.lock().wanted.is_empty());
    }

    #[test]
    fn a_pair_that_becomes_busy_gets_series_and_the_quiet_one_loses_them() {
        let metrics = Metrics::default();
        for n in 0..PAIRS as u32 + 1 {
            drop(metrics.pairs.wants(route(n)));
        }
        let late = PAIRS as u32;
        let held: Vec<WantedSlot> = (0..10).map(|_| metrics.pairs.wants(route(late))).collect();
        let named = |text: &str| text.contains(&format!("pair=\"{}\"", route(late)));
        metrics.pairs.look();
        assert!(!named(&metrics.render()));
        metrics.pairs.review();
        metrics.pairs.look();
        let text = metrics.render();
        assert!(named(&text), "{text}");
        assert!(text.contains(&format!("lingua_slots_wanted{{pair=\"{}\"}} 10", route(late))));
        assert_eq!(lines(&text, "lingua_slots_wanted{").len(), PAIRS + 1);
        assert_eq!(lines(&text, "lingua_sentences_total{").len(), (PAIRS + 1) * LEVELS.len());
        drop(held);
    }
}
