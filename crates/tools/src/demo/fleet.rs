//! The nodes: of several owners and languages, quick and slow, steady and not.

use std::net::SocketAddr;
use std::time::Duration;

use lingua_lab::fake_node::Latency;
use lingua_lab::{Behaviour, FakeNode, FleetStats, HttpClient, Meter, NodeOptions};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::Stage;

/// A node that vanished is back after so long.
pub(super) const VANISHED: Duration = Duration::from_secs(6);

/// With `--scarce`: how long the node that is drained now and then serves, and how long it does not.
const SERVES: Duration = Duration::from_secs(25);
const DRAINS: Duration = Duration::from_secs(10);

/// How long the unreliable node works well, and how long it fails.
const WORKS: Duration = Duration::from_secs(20);
const FAILS: Duration = Duration::from_secs(12);

/// Between two jobs of those who want text only, which come over HTTP.
const TEXT_EVERY: Duration = Duration::from_millis(1_300);

/// One kind of node.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    region: &'static str,
    languages: &'static [&'static str],
    slots: u32,
    /// Median and 99th percentile of the time for a job.
    takes_ms: (u64, u64),
    trait_: Trait,
}

/// What is special about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trait {
    Plain,
    TextOnly,
    /// Fails now and then in a scarce demo, so that its breaker opens.
    Unreliable,
    /// Taken out of service now and then in a scarce demo.
    Drained,
    /// An agent from before acks.
    Old,
}

const fn kind(
    name: &'static str,
    region: &'static str,
    languages: &'static [&'static str],
    slots: u32,
    takes_ms: (u64, u64),
    trait_: Trait,
) -> Kind {
    Kind { name, region, languages, slots, takes_ms, trait_ }
}

/// Twelve; a larger fleet has several of each. Korean has a single slow slot, which only a scarce demo asks for.
const KINDS: [Kind; 12] = [
    kind("hamburg-a100", "eu", &["en", "zh", "de", "fr"], 6, (350, 900), Trait::Plain),
    kind("seoul-laptop", "asia", &["en", "ko"], 1, (1_200, 3_000), Trait::Plain),
    kind("tokyo-4090", "asia", &["en", "zh", "ja"], 4, (300, 800), Trait::Plain),
    kind("madrid-3090", "eu", &["en", "es", "fr"], 4, (400, 1_100), Trait::Plain),
    kind("berlin-3090", "eu", &["en", "de", "es", "fr"], 4, (450, 1_200), Trait::Plain),
    kind("shanghai-l4", "asia", &["en", "zh", "ja"], 3, (500, 1_400), Trait::Plain),
    kind("lyon-attic", "eu", &["en", "fr", "de", "zh"], 2, (1_800, 4_500), Trait::Plain),
    kind("library", "us", &["en", "zh", "ja", "es", "de", "fr"], 4, (250, 700), Trait::TextOnly),
    kind("oslo-flaky", "eu", &["en", "zh", "es", "ja"], 3, (350, 1_000), Trait::Unreliable),
    kind("lisbon-night", "eu", &["en", "es", "ja"], 3, (400, 1_000), Trait::Drained),
    kind("vienna-veteran", "eu", &["en", "de", "zh"], 2, (600, 1_500), Trait::Old),
    kind("osaka-4080", "asia", &["en", "ja", "zh"], 4, (350, 900), Trait::Plain),
];

/// Directions that are wanted as text.
const TEXT: [(&str, &str); 4] = [("en", "de"), ("ja", "en"), ("zh", "fr"), ("es", "zh")];

/// All nodes, each with a connection of its own.
pub(super) struct Fleet {
    nodes: lingua_lab::Fleet,
    scarce: bool,
    doors: Vec<SocketAddr>,
    front: SocketAddr,
    meter: Meter,
}

impl Fleet {
    /// Returns when all are registered.
    pub async fn start(
        count: u32,
        scarce: bool,
        stage: &Stage,
        meter: &Meter,
    ) -> anyhow::Result<Self> {
        let front = stage.address();
        let node = |n: usize| {
            let kind = kind_of(n);
            let name = match n / KINDS.len() {
                0 => kind.name.to_owned(),
                more => format!("{}-{}", kind.name, more + 1),
            };
            kind.options(front, name, n as u64)
        };
        let nodes = lingua_lab::Fleet::start((0..count as usize).map(node)).await?;
        Ok(Fleet { nodes, scarce, doors: stage.doors(), front, meter: meter.clone() })
    }

    /// How many are there, of how many.
    pub fn connected(&self) -> (usize, usize) {
        (self.nodes.connected(), self.nodes.nodes().len())
    }

    /// Any of them.
    pub fn one(&self) -> Chosen<'_> {
        let nodes = self.nodes.nodes();
        let n = rand::random_range(0..nodes.len());
        Chosen { node: &nodes[n], kind: kind_of(n) }
    }

    /// What goes on besides speech: some nodes have their moods, and some people want text only.
    pub async fn live(&self) -> std::convert::Infallible {
        let scarcity = async {
            if !self.scarce {
                std::future::pending::<()>().await;
            }
            tokio::select! {
                never = self.moods() => never,
                never = self.drains() => never,
            }
        };
        tokio::select! {
            never = scarcity => never,
            never = self.texts() => never,
        }
    }

    /// Has all finish what they have to say and leave; tells what they did.
    pub async fn end(self) -> String {
        let FleetStats { done, failed, rejected, breaches, .. } = self.nodes.close().await;
        format!(
            "{done} jobs done, {failed} failed, {rejected} refused as busy, {breaches} given to a node that was \
             full"
        )
    }

    fn with(&self, wanted: Trait) -> impl Iterator<Item = Chosen<'_>> {
        let all = self.nodes.nodes().iter().zip(0..);
        let all = all.map(|(node, n)| Chosen { node, kind: kind_of(n) });
        all.filter(move |one| one.kind.trait_ == wanted)
    }

    async fn moods(&self) -> std::convert::Infallible {
        loop {
            sleep(WORKS).await;
            for one in self.with(Trait::Unreliable) {
                one.behaves(|behaviour| behaviour.fail = 0.9).await;
            }
            sleep(FAILS).await;
            for one in self.with(Trait::Unreliable) {
                one.behaves(|_| {}).await;
            }
        }
    }

    async fn drains(&self) -> std::convert::Infallible {
        loop {
            sleep(SERVES).await;
            self.order("drain").await;
            sleep(DRAINS).await;
            self.order("resume").await;
        }
    }

    /// As an administrator does, at whichever scheduler has the node.
    async fn order(&self, order: &str) {
        for one in self.with(Trait::Drained) {
            for door in &self.doors {
                let client = HttpClient::new(format!("http://{door}"));
                let path = format!("/api/v1/nodes/{}/{order}", one.node.node_id());
                // The scheduler may be dead just now, or not have it.
                let _ = client.limit(Duration::from_secs(2)).post(&path, &Value::Null).await;
            }
        }
    }

    async fn texts(&self) -> std::convert::Infallible {
        let client = HttpClient::new(format!("http://{}", self.front));
        let client = client.limit(Duration::from_secs(30));
        for n in 0u64.. {
            sleep(TEXT_EVERY).await;
            let (src, tgt) = TEXT[n as usize % TEXT.len()];
            let job = json!({
                "session_id": "captions", "src_lang": src, "tgt_lang": tgt, "audio": "AAAA",
                "options": { "require_tts": false, "wait_ms": 10_000 },
            });
            let reply = client.post("/v1/dispatch/f2f", &job).await;
            let done = |view: &Value| view["job"]["state"] == "DONE";
            if reply.is_ok_and(|reply| reply.json().is_ok_and(|view| done(&view))) {
                self.meter.other_job();
            }
        }
        std::future::pending().await
    }
}

/// What the node with this number is.
fn kind_of(n: usize) -> &'static Kind {
    &KINDS[n % KINDS.len()]
}

impl Kind {
    fn options(&self, front: SocketAddr, name: String, seed: u64) -> NodeOptions {
        let mut options = NodeOptions {
            tts_languages: Vec::new(),
            reconnect: true,
            old_agent: self.trait_ == Trait::Old,
            behaviour: Behaviour { seed, ..self.behaviour() },
            ..NodeOptions::new(format!("ws://{front}/ws/node")).node_id(name).max_jobs(self.slots)
        };
        let languages: Vec<_> = self.languages.iter().map(|&one| one.to_owned()).collect();
        self.install(&mut options);
        options.asr_languages.clone_from(&languages);
        options.semantic_languages.clone_from(&languages);
        if self.trait_ != Trait::TextOnly {
            options.tts_languages = languages;
        }
        options
    }

    /// Where it is and what it has. An agent from before says it too, in its own words.
    fn install(&self, options: &mut NodeOptions) {
        if self.trait_ == Trait::Old {
            return;
        }
        let (large, speaks) = (self.slots >= 4, self.trait_ != Trait::TextOnly);
        let whisper = if large { "3" } else { "2" };
        let mut models = vec![
            json!({ "model_id": "whisper", "version": whisper, "kind": "asr", "languages": self.languages }),
            json!({ "model_id": "nllb", "version": "1.3", "kind": "nmt", "languages": self.languages }),
        ];
        let service = |id: &str, kind: &str, version: &str| json!({ "service_id": id, "type": kind, "version": version, "status": "running" });
        let mut services = vec![
            service("faster-whisper", "asr", "1.4.0"),
            service("semantic-repair", "semantic", "2.1"),
            service("nllb-serve", "nmt", "1.3.1"),
        ];
        if speaks {
            models.push(
                json!({ "model_id": "xtts", "version": "2", "kind": "tts", "loaded": large }),
            );
            services.push(service("xtts-serve", "tts", "2.0.3"));
        }
        if large {
            services.push(service("your-tts", "tone", "2"));
        }
        let gpu = if large { ("NVIDIA RTX 4090", 24) } else { ("NVIDIA RTX 3060", 12) };
        options.installed_models = Some(Value::Array(models));
        options.installed_services = Some(Value::Array(services));
        options.register_overrides = json!({
            "region": self.region,
            "features_supported": { "emotion_detection": large, "diarization": "2.1" },
            "hardware": { "cpu_cores": 4 * self.slots, "memory_gb": 32, "gpus": [{ "name": gpu.0, "memory_gb": gpu.1 }] },
        });
    }

    fn behaviour(&self) -> Behaviour {
        let (p50_ms, p99_ms) = self.takes_ms;
        Behaviour {
            latency: Latency::Spread { p50_ms, p99_ms },
            crash_pause: VANISHED,
            partials: true,
            readable: true,
            tts_audio_bytes: if self.trait_ == Trait::TextOnly { 0 } else { 3_000 },
            ..Behaviour::default()
        }
    }
}

/// One of the nodes.
#[derive(Clone, Copy)]
pub(super) struct Chosen<'a> {
    pub node: &'a FakeNode,
    kind: &'static Kind,
}

impl Chosen<'_> {
    /// From now on it does as it usually does, but for this.
    pub async fn behaves(&self, but: impl FnOnce(&mut Behaviour)) {
        let mut behaviour = Behaviour { seed: rand::random(), ..self.kind.behaviour() };
        but(&mut behaviour);
        // A node that was sent away for good does nothing any more.
        let _ = self.node.set_behaviour(behaviour).await;
    }
}
