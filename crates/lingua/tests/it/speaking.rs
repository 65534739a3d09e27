//! `lingua speak` and `lingua load` as their users meet them.

use crate::process;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lingua_lab::{Behaviour, FakeNode, FaultProxy, NodeOptions};
use process::{Lingua, lingua};
use serde_json::Value;

async fn scheduler_with_a_node(ms: u64) -> (Lingua, FakeNode) {
    let scheduler = Lingua::start(&["serve", "--listen", "127.0.0.1:0"]);
    let options = NodeOptions::new(format!("ws://{}/ws/node", scheduler.address()))
        .behaviour(Behaviour { partials: true, ..Behaviour::taking_ms(ms) });
    let node = FakeNode::connect(options).await.unwrap();
    (scheduler, node)
}

fn speak(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(["speak", "--url", url]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_comes_back_in_words_or_as_json() {
    let (scheduler, _node) = scheduler_with_a_node(50).await;
    let url = format!("http://{}", scheduler.address());
    let args = ["--signal", "1", "--sentences", "2", "--speed", "10", "--pause-ms", "100"];
    let said = output(speak(&url, &args)).await;
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert_eq!(said.status.code(), Some(0), "{out}{error}");
    assert!(out.contains("is open: en -> zh, opus"), "{out}");
    assert!(out.contains("0  … utterance 0") && out.contains("1  utterance 1"), "{out}");
    assert!(out.contains("ms after its last word") && out.contains("2 said, 2 results"), "{out}");

    let said = output(speak(&url, &[&args[..], &["--json", "--codec", "pcm16"]].concat())).await;
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let lines: Vec<Value> =
        text(&said.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((count("opened"), count("said"), count("answered"), count("report")), (1, 2, 2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_spoken_and_a_wrong_one_is_a_sentence() {
    let (scheduler, _node) = scheduler_with_a_node(10).await;
    let url = format!("ws://{}", scheduler.address());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.wav");
    let samples = 8_000_u32;
    let mut wav =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data"
            .to_vec();
    wav.extend((samples * 2).to_le_bytes());
    wav.resize(wav.len() + samples as usize * 2, 1);
    std::fs::write(&file, wav).unwrap();
    let file = file.to_str().unwrap();
    let said = output(speak(&url, &["--file", file, "--speed", "10"])).await;
    assert_eq!(said.status.code(), Some(0), "{}{}", text(&said.stdout), text(&said.stderr));
    assert!(text(&said.stdout).contains("pcm16"), "{}", text(&said.stdout));

    for (args, code, says) in [
        (&["--file", file, "--codec", "opus"][..], 2, "opus is for --signal only"),
        (&["--file", "/nowhere.wav"], 1, "/nowhere.wav"),
        (&["--file", "/etc/hostname"], 1, "not a WAV file"),
        (&["--speed", "0"], 2, "--speed"),
        (&["--two-way", "en"], 2, "--two-way"),
    ] {
        let said = output(speak(&url, args)).await;
        assert_eq!(said.status.code(), Some(code), "{args:?}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains(says), "{args:?}: {}", text(&said.stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_serves_and_nobody_there_are_said_clearly() {
    let (scheduler, _node) = scheduler_with_a_node(10).await;
    let url = format!("http://{}", scheduler.address());
    let said = output(speak(&url, &["--src", "xx", "--signal", "0.2"])).await;
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stdout).contains("no node serves xx -> zh"), "{}", text(&said.stdout));

    let (code, error) = lingua(&["speak", "--url", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("http://127.0.0.1:1 does not answer"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speaker_that_is_cut_off_comes_back_and_loses_nothing() {
    let (scheduler, _node) = scheduler_with_a_node(100).await;
    let proxy = FaultProxy::start(scheduler.address()).await.unwrap();
    let url = format!("http://{}", proxy.addr());
    let args = ["--signal", "0.5", "--sentences", "12", "--pause-ms", "100", "--speed", "2"];
    let speaking = tokio::spawn(output(speak(&url, &args)));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        proxy.cut();
    }
    let said = speaking.await.unwrap();
    let (out, error) = (text(&said.stdout), text(&said.stderr));
    assert!(out.contains("reconnected: the session is resumed"), "{out}{error}");
    assert!(out.contains("12 said, 12 results, 0 missing"), "{out}{error}");
    assert_eq!(said.status.code(), Some(0), "{out}{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_it_ends_its_sentence_and_closes_its_session() {
    let (scheduler, _node) = scheduler_with_a_node(50).await;
    let url = format!("http://{}", scheduler.address());
    let child = speak(&url, &["--signal", "30"]).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let said = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let said = said.await.unwrap();
    let out = text(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{out}{}", text(&said.stderr));
    assert!(out.contains("1 said, 1 results, 0 missing"), "{out}");
}

#[test]
fn a_small_load_loses_nothing_and_leaves_its_report_and_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (json, svg) = (folder.path().join("r.json"), folder.path().join("l.svg"));
    for pace in [&["--closed-loop"][..], &["--utterance-ms", "500..1500", "--pause-ms", "100..300"]]
    {
        let sizes =
            ["load", "--sessions", "20", "--nodes", "3", "--duration-s", "3", "--ramp-s", "1"];
        let files = ["--json", json.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
        let (code, error) = lingua(&[&sizes[..], &files, pace].concat());
        assert_eq!(code, Some(0), "{error}");
        let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(report["sessions_opened"], 20, "{report}");
        assert_eq!(report["sentences_said"], report["results"], "{report}");
        assert!(report["results"].as_u64().unwrap() > 20, "{report}");
        assert!(report["steady"]["to_node_ms"]["p50"].as_f64().unwrap() > 0.0, "{report}");
        let svg = std::fs::read_to_string(&svg).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
    let (code, error) = lingua(&["load", "--url", "http://192.0.2.1:5010"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("not this machine"), "{error}");
}
