//! The speakers of a load run, on a thread of their own.

use std::net::IpAddr;
use std::time::Duration;

use lingua_lab::crowd::Judgement;
use lingua_lab::speaker::{Pace, Script, Sentences, sockets};
use lingua_lab::{Apart, Conversation, CrowdReport, Meter, SpeakerOptions};
use tokio::sync::oneshot;

use super::Way;
use crate::cli::Load;

/// How long the last endings are awaited: a little more than the scheduler lets a job live.
const PATIENCE: Duration = Duration::from_secs(80);

/// And how long a speaker may take to leave after them.
const LEAVE_LIMIT: Duration = Duration::from_secs(110);

pub(super) struct Crowd {
    stop: oneshot::Sender<()>,
    speakers: Apart<CrowdReport>,
}

impl Crowd {
    pub fn start(
        options: &Load,
        way: &Way,
        token: Option<&str>,
        ramp: Duration,
        meter: &Meter,
    ) -> anyhow::Result<Self> {
        let one_after = ramp.div_f64(f64::from(options.sessions));
        let seat = |number: u32| {
            let (speaker, script) = speaker(options, way, number, token);
            let begin_after = one_after.mul_f64(f64::from(number));
            Conversation { begin_after, speaker, script }.alone()
        };
        let seats: Vec<_> = (0..options.sessions).map(seat).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let meter = meter.clone();
        let speakers = Apart::start("speakers", async move {
            let crowd = lingua_lab::Crowd::start(seats, &meter, Judgement::Strict);
            // Also when the command has ended already.
            let _ = stopped.await;
            crowd.finish(LEAVE_LIMIT).await
        })?;
        Ok(Self { stop, speakers })
    }

    /// Has all say their sentences to the end and waits for what is open.
    pub async fn finish(self) -> anyhow::Result<CrowdReport> {
        // Fails if they are gone already, and then there is nothing to stop.
        let _ = self.stop.send(());
        self.speakers.finish().await
    }
}

fn speaker(
    options: &Load,
    way: &Way,
    number: u32,
    token: Option<&str>,
) -> (SpeakerOptions, Script) {
    /// Longer sentences than this would be cut by a session that does not ask for more.
    const SURELY_WHOLE_MS: u64 = 9_500;
    let longest = *options.utterance_ms.end();
    let speaker = SpeakerOptions {
        codec: options.codec,
        from: Some(IpAddr::V4(sockets::address_of(number, options.per_address))),
        max_utterance_ms: (longest > SURELY_WHOLE_MS).then_some(longest + 1_000),
        tls: way.tls.clone(),
        ..SpeakerOptions::new(format!("{}/ws/session", way.base))
    };
    // An IPv6 scheduler is not reached from 127.0.0.2.
    let speaker =
        SpeakerOptions { from: speaker.from.filter(|_| !way.base.contains('[')), ..speaker };
    let speaker = match token {
        Some(token) => speaker.bearer(token),
        None => speaker,
    };
    let pause = options.pause_ms.clone();
    let script = Script {
        sentences: Sentences::Random {
            count: None,
            speech_ms: options.utterance_ms.clone(),
            pause_ms: pause,
            speaker: number,
            seed: options.seed,
        },
        pace: if options.closed_loop { Pace::ClosedLoop } else { Pace::Times(1.0) },
        patience: PATIENCE,
        ..Script::default()
    };
    (speaker, script)
}
