//! The speech node as a process.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use lingua_lab::HttpClient;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use super::part::Part;
use super::place::Place;
use super::setup::Step;
use super::talk::{FROM, TO};
use crate::cli::Failure;
use crate::demo::screen::Screen;

/// For its engines to be loaded and tried, on a machine that has much else to do.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// For what it said before it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often the scheduler is asked whether it is there.
const ASK: Duration = Duration::from_millis(200);

pub(super) struct SpeechNode {
    part: Part,
    /// Takes down what it says.
    writing: JoinHandle<()>,
}

impl SpeechNode {
    /// Starts it and waits until the scheduler would give it jobs.
    pub async fn start(
        place: &Place,
        address: SocketAddr,
        files: &Path,
        screen: &Screen,
    ) -> Result<Self, Failure> {
        let url = format!("ws://{address}");
        let arguments = ["--url", &url, "--node-id", "speech-1"];
        let (part, mut words) =
            Part::start(&place.script("run.sh"), &arguments, files.join("node.log"))?;
        let writing = tokio::spawn(async move { while words.next().await.is_some() {} });
        let mut node = SpeechNode { part, writing };
        let step = Step::begin("the speech node loads its engines and tries them", screen);
        let scheduler = HttpClient::new(format!("http://{address}"));
        let ready = async {
            let mut ticks = interval(ASK);
            loop {
                ticks.tick().await;
                step.show(screen);
                if serves(&scheduler).await {
                    return;
                }
            }
        };
        tokio::select! {
            ready = timeout(READY_LIMIT, ready) => match ready {
                Ok(()) => {}
                Err(_) => return Err(Failure::failed(format!(
                    "the speech node does not serve {FROM} -> {TO} after {READY_LIMIT:?}:{}",
                    node.part.last_words()
                ))),
            },
            failure = node.ended() => return Err(failure),
        }
        step.end(screen);
        Ok(node)
    }

    /// Waits until it ends by itself, which it should not.
    pub async fn ended(&mut self) -> Failure {
        let how = match self.part.ended().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        // Its last words may still be on their way; a process that it left may hold the line.
        let _ = timeout(LAST_WORDS, &mut self.writing).await;
        Failure::failed(format!("the speech node ended ({how}):{}", self.part.last_words()))
    }

    /// Has it end in order; says how it ended.
    pub async fn end(self) -> String {
        let ended = self.part.end().await;
        self.writing.abort();
        ended
    }
}

/// Whether somebody takes speech in these languages now.
async fn serves(scheduler: &HttpClient) -> bool {
    let path = format!("/api/v1/explain?src={FROM}&tgt={TO}&tts=true");
    let answer = scheduler.get(&path).await.and_then(|reply| reply.json());
    answer.is_ok_and(|body| body["eligible"].as_u64().is_some_and(|nodes| nodes > 0))
}
