//! `lingua demo --speech`: a scheduler and the real speech node; sentences are spoken through them,
//! and what came of each is told.
//!
//! In reading order: [`place`] where the node's program is, [`part`] a process that ends with the
//! demonstration, [`setup`] its environment, [`node`] the node itself, [`talk`] what is said.

mod node;
mod part;
mod place;
mod setup;
mod talk;

use anyhow::Context;
use lingua_lab::SpeakerOptions;

use super::Ending;
use super::screen::Screen;
use super::stage::Stage;
use crate::cli::{Demo, Failure};
use node::SpeechNode;
use place::Place;
use talk::Talk;

/// Runs until it is interrupted or its time is over, and ends everything that it started.
pub(super) async fn run(options: &Demo) -> Result<(), Failure> {
    let mut ending = Ending::listen(options.seconds);
    let screen = Screen::new();
    let Begun { mut node, stage, talk, files } = tokio::select! {
        begun = begin(options, &screen) => begun?,
        () = ending.first() => return Err(Failure::failed("interrupted during the start")),
    };
    let shown = tokio::select! {
        shown = show(&stage, &talk, &screen) => shown,
        died = node.ended() => {
            // The sentence names a file in it.
            let _ = files.keep();
            return Err(died);
        }
        () = ending.first() => Ok(()),
    };
    screen.hide();
    let end = async {
        screen.say("Stopping. Press Ctrl-C again to stop at once.");
        let how = node.end().await;
        screen.say(&format!("The speech node has ended {how}."));
        stage.end(&screen).await?;
        drop(files);
        screen.say("Everything has stopped.");
        Ok(())
    };
    let ended = tokio::select! {
        ended = end => ended,
        () = ending.again() => Err(Failure::failed("stopped at once; connections were not closed in order")),
    };
    shown.and(ended)
}

/// Everything that was started. Dropped in this order.
struct Begun {
    node: SpeechNode,
    stage: Stage,
    talk: Talk,
    /// Logs and recordings; kept if something goes wrong.
    files: tempfile::TempDir,
}

async fn begin(options: &Demo, screen: &Screen) -> Result<Begun, Failure> {
    let place = Place::find(options.speech_node.as_deref())?;
    let stage = Stage::start(options, screen).await?;
    let address = stage.address();
    screen.say(&format!("A scheduler with the embedded store at http://{address}"));
    let files = tempfile::Builder::new().prefix("lingua-demo-").tempdir();
    let files = files.context("cannot create a directory for the files of the demo")?;
    let began = setup::run(&place, files.path(), screen).await;
    let began = match began {
        Ok(()) => {
            let sentences = talk::recorded(files.path()).await?;
            let node = SpeechNode::start(&place, address, files.path(), screen).await;
            node.map(|node| (node, sentences))
        }
        Err(failure) => Err(failure),
    };
    let (node, sentences) = match began {
        Ok(began) => began,
        Err(failure) => {
            // The sentence names a file in it.
            let _ = files.keep();
            return Err(failure);
        }
    };
    let speaker = SpeakerOptions::new(format!("ws://{address}/ws/session"));
    let talk = Talk::new(speaker, sentences, talk::recordings());
    Ok(Begun { node, stage, talk, files })
}

/// Has the sentences spoken, and goes on until somebody has seen enough.
async fn show(stage: &Stage, talk: &Talk, screen: &Screen) -> Result<(), Failure> {
    let recordings = talk.hold(screen).await?;
    let address = stage.address();
    screen.say("");
    if let Some(recordings) = recordings {
        screen.say(&format!("The translations as WAV files: {}", recordings.display()));
    }
    screen.say(&format!("Talk: http://{address}/talk (English to Spanish)"));
    screen.say(&format!("Dashboard: http://{address}/dashboard"));
    screen.say("It runs until Ctrl-C.");
    std::future::pending().await
}
