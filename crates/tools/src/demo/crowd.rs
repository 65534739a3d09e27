//! The speakers: conversations that come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use lingua_lab::speaker::{Ended, Kind, Script, Sentences};
use lingua_lab::{AutoSpeaker, FaultProxy, SpeakerOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::meter::Meter;

/// Between two pairs of seats that begin.
const BEGIN_AFTER: Duration = Duration::from_millis(150);

/// How long the last endings are awaited: a little more than the scheduler lets a job live.
const PATIENCE: Duration = Duration::from_secs(30);

/// For what is open when all is to end.
const END_LIMIT: Duration = Duration::from_secs(18);

/// Speakers are in so many parts, each behind a wire of its own that can be cut.
pub(super) const PARTS: usize = 3;

/// Pairs that people talk in.
const PAIRS: [(&str, &str); 9] = [
    ("en", "zh"),
    ("en", "ja"),
    ("es", "en"),
    ("de", "fr"),
    ("fr", "en"),
    ("zh", "ja"),
    ("de", "en"),
    ("zh", "en"),
    ("ja", "en"),
];

/// A pair with a single slot for all who want it, and one that nobody serves.
const SCARCE: (&str, &str) = ("ko", "en");
const UNSERVED: (&str, &str) = ("en", "sw");

/// All speakers.
pub(super) struct Crowd {
    seats: JoinSet<()>,
    wires: Vec<FaultProxy>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

struct Shared {
    meter: Meter,
    present: AtomicUsize,
    /// The name of the next speaker in the marks of its speech.
    next: AtomicU32,
}

impl Crowd {
    /// Has them come one after the other.
    pub async fn start(count: u32, front: SocketAddr, meter: &Meter) -> anyhow::Result<Self> {
        let mut wires = Vec::new();
        for _ in 0..PARTS {
            wires.push(FaultProxy::start(front).await?);
        }
        let shared = Arc::new(Shared {
            meter: meter.clone(),
            present: AtomicUsize::new(0),
            next: AtomicU32::new(1),
        });
        let (stop, stopped) = watch::channel(false);
        let mut seats = JoinSet::new();
        for n in 0..count {
            let url = format!("ws://{}/ws/session", wires[n as usize % PARTS].addr());
            let seat = Seat { n, url, shared: Arc::clone(&shared), stop: stopped.clone() };
            seats.spawn(seat.keep());
        }
        Ok(Crowd { seats, wires, shared, stop })
    }

    pub fn meter(&self) -> &Meter {
        &self.shared.meter
    }

    /// How many are in a conversation.
    pub fn present(&self) -> usize {
        self.shared.present.load(Ordering::Relaxed)
    }

    /// Cuts all connections of one part; how many those were.
    pub fn cut(&self, part: usize) -> usize {
        let wire = &self.wires[part];
        let connections = wire.connections();
        wire.cut();
        connections
    }

    /// Has all break off, hear what is open and leave; tells what became of it.
    pub async fn end(mut self) -> String {
        self.stop.send_replace(true);
        let all = async { while self.seats.join_next().await.is_some() {} };
        match timeout(END_LIMIT, all).await {
            Ok(()) => "all heard how their sentences ended".to_owned(),
            Err(_) => format!("{} were still waiting for an answer", self.present()),
        }
    }
}

/// A chair that somebody sits on most of the time.
struct Seat {
    n: u32,
    url: String,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
}

impl Seat {
    async fn keep(mut self) {
        let mut pause = BEGIN_AFTER * (self.n / 2);
        while !self.rest(pause).await {
            self.converse().await;
            pause = Duration::from_millis(rand::random_range(500..6_000));
        }
    }

    /// Waits so long; `true` if it is all over.
    async fn rest(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = sleep(pause) => false,
            () = told_to_stop(&mut self.stop) => true,
        }
    }

    /// One conversation from its beginning to its end.
    async fn converse(&mut self) {
        let speaker = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (one, other) = self.pair();
        let (options, script) = (self.options(one, other), script(speaker, (one, other)));
        let meter = self.shared.meter.clone();
        let watcher = move |at_us, happening: lingua_lab::speaker::Happening<'_>| {
            meter.note(at_us, &happening);
        };
        // Refused or unreachable, as during a fault: somebody else will try.
        let Ok(speaker) = AutoSpeaker::watched(options, script, watcher).await else { return };
        self.shared.present.fetch_add(1, Ordering::Relaxed);
        let ended = tokio::select! {
            ended = speaker.ended() => ended,
            () = told_to_stop(&mut self.stop) => {
                speaker.stop();
                speaker.ended().await
            }
        };
        let mut report = speaker.report();
        let abandoned = report.counts.remove(&Kind::Abandoned).unwrap_or(0);
        let lost = match ended {
            Ended::Finished if self.can_come_back() => {
                // Nothing may go down with the session of one that comes back.
                report.counts.extend((abandoned > 0).then_some((Kind::Abandoned, abandoned)));
                0
            }
            Ended::Finished => {
                // A drain cuts what such a client is saying, and it says it again elsewhere.
                report.counts.remove(&Kind::Split);
                abandoned
            }
            // It was sent away or tried for a minute in vain: what was open it knows.
            Ended::GivenUp(_) => {
                report.counts.clear();
                abandoned + speaker.open_sentences() as u64
            }
        };
        self.shared.meter.left(&report, lost);
        self.shared.present.fetch_sub(1, Ordering::Relaxed);
    }

    /// The languages of the next conversation.
    fn pair(&self) -> (&'static str, &'static str) {
        match self.n % 10 {
            3 => SCARCE,
            9 if rand::random_bool(0.3) => UNSERVED,
            _ => PAIRS[rand::random_range(0..PAIRS.len())],
        }
    }

    fn options(&self, one: &str, other: &str) -> SpeakerOptions {
        let options = SpeakerOptions::new(&self.url);
        match self.n % 5 {
            0 | 2 => options.two_way(one, other),
            _ if !self.can_come_back() => options.languages(one, other).existing_client(),
            _ => options.languages(one, other),
        }
    }

    /// Existing apps cannot: a lost connection is a lost session.
    fn can_come_back(&self) -> bool {
        self.n % 5 != 4
    }
}

fn script(speaker: u32, pair: (&str, &str)) -> Script {
    // Whoever is told that nobody can do it gives up soon.
    let most = if pair == UNSERVED { 3 } else { 10 };
    Script {
        sentences: Sentences::Random {
            count: Some(rand::random_range(2..=most)),
            speech_ms: 800..=3_500,
            pause_ms: 300..=1_800,
            speaker,
            seed: rand::random(),
        },
        patience: PATIENCE,
        ..Script::default()
    }
}

/// Waits until it is time; also when nobody is left to say so.
async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
