//! The talk page in a real Chromium with a microphone: people speak, see and hear the translation.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod app;
mod booth;
mod browser;
mod process;

use std::time::Duration;

use app::{On, TestApp, quick};
use booth::{Booth, microphone};
use browser::Browser;
use lingua_lab::NodeOptions;
use process::Lingua;
use serde_json::json;

const READY: &str = "return document.querySelector('#state').dataset.state === 'open' \
                     && document.querySelector('#lang-a').value !== ''";

/// A window with a microphone into which somebody speaks all the time.
async fn open(width: u32, height: u32) -> (Browser, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("speech.wav");
    microphone(&file);
    let switches = [
        "--use-fake-device-for-media-stream".to_owned(),
        "--use-fake-ui-for-media-stream".to_owned(),
        format!("--use-file-for-fake-audio-capture={}", file.display()),
    ];
    (Browser::open_with(width, height, &switches).await, folder)
}

fn node(url: String) -> NodeOptions {
    NodeOptions::new(url).node_id("booth").languages(&["en", "zh"]).max_jobs(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_people_talk_and_see_and_hear_each_other() {
    let app = TestApp::start(On::Memory, quick()).await;
    let booth = Booth::open(node(app.ws("/ws/node"))).await;
    app.meets("booth").await;
    let (browser, _speech) = open(1280, 900).await;
    browser.go(&app.http("/talk")).await;
    browser.until("it is ready", READY).await;
    browser.picture("talk-empty").await;

    browser.hold("#side-a .talk", 2_500).await;
    browser.picture("talk-working").await;
    browser.until("translated", "return document.querySelector('#side-b .translation').innerText.includes('中文译文')").await;
    browser.until("played", "return parseFloat(document.querySelector('#past li')?.dataset.playedS) > 0.5").await;
    println!("{:?}", booth.jobs());
    println!("{}", browser.run("return document.querySelector('#past').outerHTML").await);
    browser.picture("talk-said").await;
    browser.is_calm().await;
    drop((browser, booth));
    app.finish().await;
}
