//! `lingua demo`: the whole system on one machine in one command.
//!
//! Without more, a scheduler with the embedded store, simulated nodes and speakers live in this
//! process. With `--redis` the schedulers are processes of their own over a private redis-server, and
//! a load balancer in this process stands in front of them. With `--faults` something breaks now and
//! then. With `--speech` there is one real speech node instead, and real speech.
//!
//! In reading order: `stage` the schedulers and what they stand on, with `instance`;
//! `fleet` the nodes, `crowd` the speakers, `telling` what is seen of them, `faults`, `screen`; [`speech`] the other demonstration.

use std::time::Duration;

use anyhow::Context;
use lingua_lab::Meter;
use lingua_lab::crowd::GIVEN_UP;
use lingua_lab::speaker::sockets;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{interval, sleep};

use crate::cli::{Demo, Failure};

mod catalogue;
mod crowd;
mod faults;
mod fleet;
mod instance;
mod screen;
mod speech;
mod stage;
mod telling;

use crowd::Crowd;
use fleet::Fleet;
use screen::Screen;
use stage::Stage;

/// How often the status line is new.
const STATUS_EVERY: Duration = Duration::from_millis(500);

/// Runs until it is interrupted or its time is over, and ends everything that it started.
pub(crate) fn run(options: &Demo) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime does not start")?;
    runtime.block_on(async {
        if options.speech {
            return Box::pin(speech::run(options)).await;
        }
        let mut ending = Ending::listen(options.seconds);
        let screen = Screen::new();
        let (stage, fleet, crowd) = tokio::select! {
            shown = raise(options, &screen) => shown?,
            () = ending.first() => return Err(Failure::failed("interrupted during the start")),
        };
        let mut play = Play { stage, fleet, crowd };
        tokio::select! {
            never = play.go_on(options.faults, &screen) => match never {},
            () = ending.first() => {}
        }
        // Whatever is not ended in order is killed as it is dropped.
        tokio::select! {
            ended = play.end(&screen) => ended,
            () = ending.again() => Err(Failure::failed("stopped at once; connections were not closed in order")),
        }
    })
}

/// Everything that was started.
struct Play {
    stage: Stage,
    fleet: Fleet,
    crowd: Crowd,
}

/// Starts everything, in the order in which it depends on each other.
async fn raise(options: &Demo, screen: &Screen) -> Result<(Stage, Fleet, Crowd), Failure> {
    // Each speaker and node has a socket, twice as many through a balancer, and a proxy before it.
    sockets::make_room_for(6 * u64::from(options.speakers) + 4 * u64::from(options.nodes))?;
    let stage = Stage::start(options, screen).await?;
    let meter = Meter::default();
    let fleet = Fleet::start(options.nodes, options.scarce, &stage, &meter).await?;
    let crowd = Crowd::start(options.speakers, options.scarce, stage.address(), &meter).await?;
    for line in stage.greeting(options) {
        screen.say(&line);
    }
    Ok((stage, fleet, crowd))
}

impl Play {
    /// Shows how it goes and breaks what is to be broken.
    async fn go_on(&mut self, faults: bool, screen: &Screen) -> std::convert::Infallible {
        let Play { stage, fleet, crowd } = self;
        let news = stage.take_news();
        let (fleet, crowd): (&Fleet, &Crowd) = (fleet, crowd);
        let status = async {
            let mut ticks = interval(STATUS_EVERY);
            loop {
                ticks.tick().await;
                let line = telling::line(crowd.meter(), crowd.present(), fleet.connected());
                screen.show(&line);
            }
        };
        let telling = async {
            if let Some(mut news) = news {
                while let Some(line) = news.recv().await {
                    screen.say(&line);
                }
            }
            std::future::pending().await
        };
        let breaking = async {
            if faults {
                faults::go_on(stage, fleet, crowd, screen).await
            }
            std::future::pending().await
        };
        tokio::select! {
            never = status => never,
            never = fleet.live() => never,
            never = telling => never,
            never = breaking => never,
        }
    }

    /// Ends everything, in the order in which it depends on each other.
    async fn end(self, screen: &Screen) -> Result<(), Failure> {
        let Play { mut stage, fleet, crowd } = self;
        screen.hide();
        screen.say("Stopping. Press Ctrl-C again to stop at once.");
        stage.mend().await?;
        let meter = crowd.meter().clone();
        let waiting = crowd.present();
        let told = crowd.end().await;
        let speakers = match told.failed.get(GIVEN_UP) {
            Some(count) => format!("{count} of {waiting} were still waiting for results"),
            None => "every sentence had its ending".to_owned(),
        };
        screen.say(&format!("Speakers disconnected: {speakers}."));
        let nodes = fleet.end().await;
        screen.say(&format!("Nodes disconnected: {nodes}."));
        let ended = stage.end(screen).await;
        screen
            .say(&format!("Everything has stopped. {}", telling::summary(&told, &meter.counts())));
        ended
    }
}

/// When to end: a signal, or the time is over.
struct Ending {
    signals: [Signal; 3],
    seconds: u64,
}

impl Ending {
    fn listen(seconds: u64) -> Self {
        let listen = |kind| signal(kind).expect("the runtime was built with its signal driver");
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Ending { signals: kinds.map(listen), seconds }
    }

    /// The first signal, or the time is over.
    async fn first(&mut self) {
        let seconds = self.seconds;
        let over = async {
            match seconds {
                0 => std::future::pending().await,
                seconds => sleep(Duration::from_secs(seconds)).await,
            }
        };
        tokio::select! {
            () = over => {}
            () = self.again() => {}
        }
    }

    /// The next signal.
    async fn again(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
