//! The speakers: conversations that come and go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lingua_lab::crowd::{Conversations, Judgement};
use lingua_lab::speaker::{Script, Sentences};
use lingua_lab::{Conversation, CrowdReport, FaultProxy, Meter, SpeakerOptions};

/// Between two pairs of voices that begin.
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

/// With `--scarce`: a pair with a single slot for all who want it, and one that nobody serves.
const SCARCE: (&str, &str) = ("ko", "en");
const UNSERVED: (&str, &str) = ("en", "sw");

/// All speakers.
pub(super) struct Crowd {
    speakers: lingua_lab::Crowd,
    wires: Vec<FaultProxy>,
}

impl Crowd {
    /// Has them come one after the other.
    pub async fn start(
        count: u32,
        scarce: bool,
        front: SocketAddr,
        meter: &Meter,
    ) -> anyhow::Result<Self> {
        let mut wires = Vec::new();
        for _ in 0..PARTS {
            wires.push(FaultProxy::start(front).await?);
        }
        // The name of the next speaker in the marks of its speech.
        let next = Arc::new(AtomicU32::new(1));
        let voices = (0..count).map(|n| {
            let url = format!("ws://{}/ws/session", wires[n as usize % PARTS].addr());
            conversations(Voice { n, url, scarce }, Arc::clone(&next))
        });
        let speakers = lingua_lab::Crowd::start(voices, meter, Judgement::FaultsExpected);
        Ok(Crowd { speakers, wires })
    }

    pub fn meter(&self) -> &Meter {
        self.speakers.meter()
    }

    /// How many are in a conversation.
    pub fn present(&self) -> usize {
        self.speakers.present()
    }

    /// Cuts all connections of one part; how many those were.
    pub fn cut(&self, part: usize) -> usize {
        let wire = &self.wires[part];
        let connections = wire.connections();
        wire.cut();
        connections
    }

    /// Has all break off, hear what is open and leave.
    pub async fn end(self) -> CrowdReport {
        self.speakers.leave(END_LIMIT).await
    }
}

/// A chair that somebody sits on most of the time.
struct Voice {
    n: u32,
    url: String,
    scarce: bool,
}

/// One conversation after the other, each with pauses of its own.
fn conversations(voice: Voice, next: Arc<AtomicU32>) -> Conversations {
    let mut begin_after = BEGIN_AFTER * (voice.n / 2);
    Box::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let pair = voice.pair();
        let pause = Duration::from_millis(rand::random_range(500..6_000));
        Some(Conversation {
            begin_after: std::mem::replace(&mut begin_after, pause),
            speaker: voice.options(pair),
            script: script(number, pair),
        })
    })
}

impl Voice {
    /// The languages of the next conversation.
    fn pair(&self) -> (&'static str, &'static str) {
        match self.n % 10 {
            3 if self.scarce => SCARCE,
            9 if self.scarce && rand::random_bool(0.3) => UNSERVED,
            _ => PAIRS[rand::random_range(0..PAIRS.len())],
        }
    }

    fn options(&self, (one, other): (&str, &str)) -> SpeakerOptions {
        let options = SpeakerOptions::new(&self.url);
        match self.n % 5 {
            0 | 2 => options.two_way(one, other),
            // Existing apps cannot come back: a lost connection is a lost session.
            4 => options.languages(one, other).existing_client(),
            _ => options.languages(one, other),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scarce_demo_asks_for_what_is_scarce() {
        let pairs = |scarce| {
            let voices = (0..10).map(move |n| Voice { n, url: String::new(), scarce });
            voices.flat_map(|voice| (0..50).map(move |_| voice.pair()).collect::<Vec<_>>())
        };
        assert!(pairs(false).all(|pair| PAIRS.contains(&pair)));
        assert!(pairs(true).any(|pair| pair == SCARCE));
        assert!(pairs(true).any(|pair| pair == UNSERVED));
    }
}
