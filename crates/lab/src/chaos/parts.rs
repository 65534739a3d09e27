//! The processes of nodes and of speakers. Each ends when its standard input does, so that none is
//! left when the run is gone.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tokio::time::{interval, sleep};

use super::world::{node_file, speaker_file};
use crate::fake_node::{Heartbeats, Latency};
use crate::speaker::{Pace, Report, Script, Sentences};
use crate::{AutoSpeaker, Behaviour, FakeNode, Journal, NodeOptions, Persistence, SpeakerOptions};

/// Silence that clients take for the end of a connection. They ask for a sign of life three times as
/// often.
const SILENCE: Duration = Duration::from_secs(6);

const HANDSHAKE: Duration = Duration::from_secs(3);

/// The first connection is tried again after that long.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// One speaker of so many has several targets.
const SEVERAL_TARGETS: usize = 8;

/// A little more than the scheduler lets a job live.
const PATIENCE: Duration = Duration::from_secs(90);

/// Some nodes of a run, in a process of their own.
#[derive(Debug, Clone)]
pub struct Nodes {
    /// Where they write.
    pub dir: PathBuf,
    /// The number of the first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Jobs at once, each.
    pub slots: u32,
    /// What they take long for is drawn from this.
    pub seed: u64,
    /// The schedulers.
    pub urls: Vec<String>,
}

/// Some speakers of a run, in a process of their own.
#[derive(Debug, Clone)]
pub struct Speakers {
    /// Where they write.
    pub dir: PathBuf,
    /// The number of the first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// What they say is drawn from this.
    pub seed: u64,
    /// The schedulers.
    pub urls: Vec<String>,
}

/// Runs nodes until the standard input ends.
pub async fn nodes(options: Nodes) -> anyhow::Result<()> {
    let mut starting = tokio::task::JoinSet::new();
    for number in options.first..options.first + options.count {
        let journal = Journal::append(&node_file(&options.dir, number))?;
        journal.write("begun", json!({ "node": number, "slots": options.slots }));
        let (url, persistence) = reaching(&options.urls, number);
        let node = NodeOptions {
            url,
            node_id: Some(format!("chaos-node-{number:02}")),
            max_concurrent_jobs: Some(options.slots),
            heartbeats: Heartbeats::Every(SILENCE / 3),
            reconnect: true,
            behaviour: Behaviour {
                latency: Latency::Spread { p50_ms: 350, p99_ms: 1_500 },
                partials: true,
                tts_audio_bytes: 2_000,
                seed: options.seed,
                ..Behaviour::default()
            },
            persistence,
            journal: Some(journal),
            ..NodeOptions::default()
        };
        starting.spawn(first_connection(node));
    }
    let mut told = lines();
    let mut running = Vec::new();
    loop {
        tokio::select! {
            Some(node) = starting.join_next() => running.extend(node),
            line = told.recv() => if line.is_none() {
                return Ok(());
            },
        }
    }
}

async fn first_connection(mut options: NodeOptions) -> FakeNode {
    loop {
        match FakeNode::connect(options.clone()).await {
            Ok(node) => return node,
            Err(_) => options.persistence.go_elsewhere(&mut options.url),
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Runs speakers until they are told to `stop`, waits for what is open, and ends; at once if the
/// standard input ends. Says every second what became of what they said.
#[allow(clippy::print_stdout, reason = "read by the process of the run")]
pub async fn speakers(options: Speakers) -> anyhow::Result<()> {
    let mut starting = tokio::task::JoinSet::new();
    for number in options.first..options.first + options.count {
        let journal = Journal::append(&speaker_file(&options.dir, number))?;
        let (url, persistence) = reaching(&options.urls, number);
        let speaker = SpeakerOptions {
            persistence,
            journal: Some(journal),
            // A sentence that is held up is no pause.
            pause_ms: Some(30_000),
            ..SpeakerOptions::new(url)
        };
        // Some have two targets, whose jobs fare differently.
        let speaker = match number % SEVERAL_TARGETS {
            0 => speaker.targets("en", &["zh", "de"]),
            _ => speaker,
        };
        let script = Script {
            sentences: Sentences::Random {
                count: None,
                speech_ms: 500..=2_000,
                pause_ms: 800..=3_500,
                speaker: u32::try_from(number)?,
                seed: options.seed,
            },
            pace: Pace::Times(1.0),
            piece_ms: 200,
            begin_after: Duration::from_millis(number as u64 * 10),
            patience: PATIENCE,
            give_up_after: Duration::from_secs(600),
            ..Script::default()
        };
        starting.spawn(first_session(speaker, script));
    }
    let mut told = lines();
    let mut speaking: Vec<AutoSpeaker> = Vec::new();
    let mut seconds = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            Some(speaker) = starting.join_next() => speaking.extend(speaker),
            line = told.recv() => match line.as_deref() {
                None => return Ok(()),
                Some("stop") => break,
                Some(_) => {}
            },
            _ = seconds.tick() => tell(&figures(&speaking)),
        }
    }
    speaking.iter().for_each(AutoSpeaker::stop_after_sentence);
    let all = async {
        for speaker in &speaking {
            speaker.ended().await;
        }
    };
    tokio::pin!(all);
    loop {
        tokio::select! {
            () = &mut all => break,
            line = told.recv() => if line.is_none() {
                return Ok(());
            },
            _ = seconds.tick() => tell(&figures(&speaking)),
        }
    }
    tell(&figures(&speaking));
    Ok(())
}

/// A line to whoever runs the chaos; if nobody does any more, its input ends and this process too.
fn tell(figures: &serde_json::Value) {
    let _ = writeln!(std::io::stdout().lock(), "{figures}");
}

async fn first_session(mut options: SpeakerOptions, script: Script) -> AutoSpeaker {
    loop {
        match AutoSpeaker::start(options.clone(), script.clone()).await {
            Ok(speaker) => return speaker,
            Err(_) => options.persistence.go_elsewhere(&mut options.url),
        }
        sleep(AGAIN_AFTER).await;
    }
}

fn figures(speaking: &[AutoSpeaker]) -> serde_json::Value {
    let mut all = Report::default();
    let mut open = 0;
    for speaker in speaking {
        let report = speaker.report();
        open += speaker.open_sentences();
        all.said += report.said;
        all.results += report.results;
        for (reason, count) in report.missing {
            *all.missing.entry(reason).or_default() += count;
        }
    }
    let missing = all.missing();
    json!({ "speaking": speaking.len(), "said": all.said, "results": all.results,
            "missing": missing, "open": open })
}

/// Begins at one of the schedulers and knows the others.
fn reaching(urls: &[String], number: usize) -> (String, Persistence) {
    let mut others = urls.to_vec();
    let url = others.remove(number % urls.len().max(1));
    let persistence = Persistence {
        others,
        silence_limit: Some(SILENCE),
        handshake_limit: HANDSHAKE,
        after_superseded: true,
    };
    (url, persistence)
}

/// What is told on the standard input.
fn lines() -> tokio::sync::mpsc::Receiver<String> {
    let (tell, told) = tokio::sync::mpsc::channel(8);
    // A thread, since a read of the standard input cannot be given up; it ends with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    told
}
