use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lingua_core::Moment;
use lingua_core::outcome::Code;
use lingua_protocol::node::message::read_message;

use super::*;
use crate::job::{JobReport, NodeResult, Refusal};
use crate::jobs::Job;
use crate::testing::{Faults, Store, TestNode, World, submit, within};
use crate::{Engine, Settings};

const PATIENCE: Duration = Duration::from_secs(300);

fn route(n: u64) -> Route {
    let pairs = ["en->zh", "zh->en", "de<->en"];
    pairs[n as usize % pairs.len()].parse().unwrap()
}

fn tenant(n: u64) -> TenantId {
    TenantId::new(format!("t{}", n % 7)).unwrap()
}

fn ending(n: u64) -> Ended {
    match n % 10 {
        0 => Ended::Failed(Refusal::new(Code::JobTimeout, "late")),
        1 => Ended::Empty { body: None, reason: "NO_SPEECH".into() },
        2 => Ended::Cancelled("caller".into()),
        _ => Ended::Done(read_message(Bytes::new())),
    }
}

/// Counts what has to come out, beside the book.
fn note(truth: &mut DayUsage, n: u64) {
    let mut count = Spoken { sentences: 1, speech_ms: n % 5_000, ..Spoken::default() };
    match ending(n) {
        Ended::Done(_) => count.results = 1,
        Ended::Empty { .. } => count.empty = 1,
        Ended::Failed(_) => count.failed = 1,
        Ended::Cancelled(_) => count.cancelled = 1,
    }
    truth.say((route(n).to_string(), tenant(n).to_string()), &count);
}

/// A process that counts, and what it has counted since its last posting that was kept.
struct Process {
    me: Instance,
    book: UsageBook,
    unposted: BTreeMap<Day, DayUsage>,
}

impl Process {
    fn new(name: u64, boot: u64) -> Self {
        let me = Instance { id: format!("i{name}").parse().unwrap(), boot };
        Process { me, book: UsageBook::default(), unposted: BTreeMap::new() }
    }

    fn ends(&mut self, day: Day, n: u64) {
        self.book.ended(day, (route(n), &tenant(n)), n % 5_000, &ending(n));
        note(self.unposted.entry(day).or_default(), n);
    }

    /// Posts; `lost` loses the answer, after which the process posts again.
    async fn posts(&mut self, store: &lingua_store::Backend, truth: &mut Truth, lost: bool) {
        for (day, serial, usage) in self.book.due() {
            let counts = serde_json::to_vec(&usage).unwrap();
            let posted = store.usage.post(day, &self.me, serial, &counts).await.unwrap();
            assert_eq!(posted, Posted::Kept);
            if lost {
                // Sent again by the link below: it changes nothing.
                let again = store.usage.post(day, &self.me, serial, &counts).await.unwrap();
                assert_eq!(again, Posted::Older);
            }
            self.book.over(day, (!lost).then_some(posted));
        }
        for (day, counts) in std::mem::take(&mut self.unposted) {
            truth.entry(day).or_default().add(&counts);
        }
    }
}

type Truth = BTreeMap<Day, DayUsage>;

/// Of 100,000 jobs on three instances, with lost answers, midnights, drains and kills, the sum is what was counted, but for
/// what a killed process had not posted.
#[tokio::test]
async fn a_sum_over_100_000_jobs_with_kills_is_what_was_counted_and_posted() {
    let clock = lingua_store::Clock::manual();
    let store = lingua_store::memory::MemoryStore::open(clock);
    let (mut truth, mut lost) = (Truth::new(), 0);
    let mut processes: Vec<Process> = (0..3).map(|name| Process::new(name, 1)).collect();
    for n in 0..100_000 {
        let day = Day(n as u32 / 40_000);
        let who = (n % 3) as usize;
        processes[who].ends(day, n);
        if n.is_multiple_of(97) {
            processes[who].posts(&store, &mut truth, n.is_multiple_of(5)).await;
        }
        if n % 9_001 == 9_000 {
            let boot = processes[who].me.boot + 1;
            let mut dead = std::mem::replace(&mut processes[who], Process::new(who as u64, boot));
            if n.is_multiple_of(2) {
                dead.posts(&store, &mut truth, false).await;
            }
            let unposted = dead.unposted.values().flat_map(|day| day.spoken.values());
            lost += unposted.map(|count| count.sentences).sum::<u64>();
        }
    }
    for process in &mut processes {
        process.posts(&store, &mut truth, false).await;
    }
    let mut sentences = 0;
    for (day, counted) in &truth {
        let mut sum = DayUsage::default();
        for posted in store.usage.posted(*day).await.unwrap() {
            sum.add(&serde_json::from_slice(&posted).unwrap());
        }
        assert_eq!(sum, *counted, "{day}");
        sentences += sum.spoken.values().map(|count| count.sentences).sum::<u64>();
    }
    assert_eq!(sentences + lost, 100_000);
    assert!(0 < lost && lost < 11 * 97, "of every kill what was not posted: {lost}");
}

#[test]
fn a_clock_that_is_put_back_over_midnight_counts_for_the_day_that_has_begun() {
    let book = UsageBook::default();
    book.people(Day(8), 3);
    book.people(Day(7), 5);
    let due = book.due();
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].0, due[0].2.people), (Day(8), 5));
}

#[test]
fn a_day_that_is_over_is_forgotten_once_it_is_posted() {
    let book = UsageBook::default();
    book.people(Day(8), 3);
    book.people(Day(9), 1);
    for (day, _, _) in book.due() {
        book.over(day, None);
    }
    assert_eq!(book.due().len(), 2, "what was not kept is due again");
    book.over(Day(8), Some(Posted::Kept));
    book.over(Day(9), Some(Posted::Kept));
    assert!(book.due().is_empty());
    assert_eq!(book.0.lock().days.keys().collect::<Vec<_>>(), [&Day(9)]);
}

#[test]
fn steps_follow_from_what_a_job_needs() {
    let names = |route: &str, speech, typed| {
        let tenant = TenantId::new("t").unwrap();
        let need = Need { typed, ..Need::of(route.parse().unwrap(), speech, tenant) };
        let steps = steps(&need);
        let needed = (0..).zip(STEPS).filter(|(bit, _)| steps & (1 << bit) != 0);
        needed.map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("en->zh", true, false), ["asr", "semantic", "nmt", "tts"]);
    assert_eq!(names("en->en", false, false), ["asr", "semantic"]);
    assert_eq!(names("en->zh", false, true), ["nmt"]);
}

/// What the nodes of a test did.
#[derive(Default)]
struct Done {
    answered: AtomicU64,
    failed: AtomicU64,
}

/// A node that answers every job at once, and fails every tenth.
fn at_work(mut node: TestNode, done: Arc<Done>) {
    tokio::spawn(async move {
        loop {
            let job = node.assigned().await;
            node.accepts(job);
            let number =
                done.answered.load(Ordering::Relaxed) + done.failed.load(Ordering::Relaxed);
            if (number + 1).is_multiple_of(10) {
                let (code, message) = ("NODE_BROKE".to_owned(), String::new());
                let failure = NodeResult::Failure { code, message, missing_model: None };
                done.failed.fetch_add(1, Ordering::Relaxed);
                node.says(job, JobReport::Result(failure));
            } else {
                done.answered.fetch_add(1, Ordering::Relaxed);
                node.answers(job);
            }
            if number.is_multiple_of(50) {
                node.beats();
            }
        }
    });
}

struct Place {
    engine: Engine,
    faults: Faults,
    done: Arc<Done>,
}

async fn place(world: &World, id: &str) -> Place {
    let mut settings = Settings::stable();
    // Every node is as good as any, however it fails.
    settings.breaker.failures = u32::MAX;
    settings.slow_start = lingua_core::link::SlowStart::Off;
    let store = Store::over(&world.store);
    let engine = world.engine(id, &store, settings);
    let done = Arc::<Done>::default();
    for n in 0..2 {
        let node = TestNode::register(&engine, &format!("{id}-{n}"), 32).await;
        at_work(node, Arc::clone(&done));
    }
    Place { engine, faults: store.faults, done }
}

async fn works(place: &Place, from: u128, jobs: u128) -> u64 {
    let handed: Vec<Arc<Job>> = (from..from + jobs).map(|n| submit(&place.engine, n)).collect();
    let ended = || handed.iter().all(|job| job.view().state.is_terminal());
    within(PATIENCE, "the jobs", ended).await;
    jobs as u64
}

async fn told(engine: &Engine) -> DayUsage {
    let today = Day::of(Moment::from_millis(engine.now_ms()));
    engine.usage([today].into_iter()).await.unwrap().remove(0).1
}

#[tokio::test(start_paused = true)]
async fn what_is_told_is_what_nodes_and_callers_counted_with_lost_answers_a_drain_and_a_kill() {
    let world = World::new();
    let [a, b, c] = [place(&world, "a").await, place(&world, "b").await, place(&world, "c").await];
    let mut sentences = 0;
    a.faults.unknown(&["post"]);
    sentences += works(&a, 0, 400).await;
    tokio::time::sleep(2 * POST_EVERY).await;
    a.faults.heal();
    sentences += works(&b, 1_000, 300).await;
    b.engine.drain();
    b.engine.end().await;
    sentences += works(&c, 2_000, 300).await;
    tokio::time::sleep(2 * POST_EVERY).await;
    // From here on nothing that it counts reaches the store.
    c.faults.hang(&["post"]);
    let (answered, failed) = (&c.done.answered, &c.done.failed);
    let before = (answered.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
    works(&c, 3_000, 50).await;
    let usage = told(&a.engine).await;
    let said = usage.spoken_by(|(pair, _)| pair)["en->zh"];
    assert_eq!(said.sentences, sentences, "{usage:?}");
    assert_eq!(said.results + said.failed, sentences);
    let of = |done: &AtomicU64| done.load(Ordering::Relaxed);
    let worked = usage.worked_by(|(service, ..)| service)["asr"];
    let done = of(&a.done.answered) + of(&b.done.answered) + before.0;
    let broken = of(&a.done.failed) + of(&b.done.failed) + before.1;
    assert_eq!((worked.jobs, worked.failed), (done, broken));
    assert_eq!(worked.jobs, said.results, "every result is the answer of one node");
    let nodes = usage.worked_by(|(.., node)| node);
    assert_eq!(nodes.len(), 6, "{nodes:?}");
}
