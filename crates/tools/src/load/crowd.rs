//! The speakers of a load run, on a thread of their own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use lingua_lab::speaker::{Ended, Pace, Report, Script, Sentences, sockets};
use lingua_lab::{AutoSpeaker, ConnectError, SpeakerOptions, monotonic_us};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::meter::Meter;
use super::{Way, on_its_own};
use crate::cli::Load;

/// How long the last endings are awaited: a little more than the scheduler lets a job live.
const PATIENCE: Duration = Duration::from_secs(80);

/// How long a session is tried to be opened.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// What the speakers met.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// All their reports as one.
    pub report: Report,
    /// Sessions that were opened.
    pub opened: u32,
    /// Speakers that could not speak to their end, by reason.
    pub failed: BTreeMap<String, u64>,
}

pub(super) struct Crowd {
    stop: watch::Sender<bool>,
    thread: std::thread::JoinHandle<anyhow::Result<Told>>,
}

impl Crowd {
    pub fn start(
        options: &Load,
        way: &Way,
        token: Option<&str>,
        ramp: Duration,
        meter: &Meter,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let one_after = ramp.div_f64(f64::from(options.sessions));
        let wanted: Vec<_> =
            (0..options.sessions).map(|number| speaker(options, way, number, token)).collect();
        let meter = meter.clone();
        let thread = on_its_own("speakers", async move {
            let began = Instant::now();
            let mut speakers = JoinSet::new();
            for (number, (options, script)) in wanted.into_iter().enumerate() {
                let begin_at = began + one_after.mul_f64(number as f64);
                speakers.spawn(one(options, script, begin_at, meter.clone(), stopped.clone()));
            }
            let mut told = Told::default();
            while let Some(one) = speakers.join_next().await {
                match one {
                    Ok(one) => told.add(one),
                    Err(panicked) => *told.failed.entry(panicked.to_string()).or_default() += 1,
                }
            }
            told
        });
        Self { stop, thread }
    }

    /// Has all say their sentences to the end and waits for what is open.
    pub async fn finish(self) -> anyhow::Result<Told> {
        self.stop.send_replace(true);
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("the speakers' thread panicked"))?
    }
}

/// What became of one speaker; `None` if it was stopped before it began.
type One = Option<(Option<Report>, Option<String>)>;

async fn one(
    options: SpeakerOptions,
    script: Script,
    begin_at: Instant,
    meter: Meter,
    mut stop: watch::Receiver<bool>,
) -> One {
    tokio::select! {
        () = sleep_until(begin_at) => {}
        () = told_to_stop(&mut stop) => return None,
    }
    let asked_us = monotonic_us();
    let watcher = {
        let meter = meter.clone();
        move |at_us, happening: lingua_lab::speaker::Happening<'_>| meter.note(at_us, &happening)
    };
    let opened = timeout(OPEN_LIMIT, AutoSpeaker::watched(options, script, watcher)).await;
    let speaker = match opened {
        Ok(Ok(speaker)) => speaker,
        Ok(Err(error)) => return Some((None, Some(reason(&error)))),
        Err(_) => return Some((None, Some(format!("no session within {OPEN_LIMIT:?}")))),
    };
    meter.opened(monotonic_us() - asked_us);
    let ended = tokio::select! {
        ended = speaker.ended() => ended,
        () = told_to_stop(&mut stop) => {
            speaker.stop_after_sentence();
            let ended = timeout(PATIENCE + OPEN_LIMIT, speaker.ended()).await;
            ended.unwrap_or_else(|_| Ended::GivenUp("its endings did not come".to_owned()))
        }
    };
    let failed = match ended {
        Ended::Finished => None,
        Ended::GivenUp(why) => Some(why),
    };
    Some((Some(speaker.report()), failed))
}

/// Waits until it is time; also when nobody is left to say so.
async fn told_to_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Without what differs from speaker to speaker.
fn reason(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ConnectError>() {
        Some(refused) => refused.to_string(),
        None => error.root_cause().to_string(),
    }
}

impl Told {
    fn add(&mut self, one: One) {
        let Some((report, failed)) = one else { return };
        if let Some(report) = report {
            self.opened += 1;
            self.report.add(&report);
        }
        if let Some(why) = failed {
            *self.failed.entry(why).or_default() += 1;
        }
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
