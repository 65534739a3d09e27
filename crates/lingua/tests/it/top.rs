//! `lingua top` in a real terminal, over a real scheduler.

use crate::process;
use crate::terminal;

use std::process::{Command, Stdio};

use lingua_lab::{FakeNode, NodeOptions};
use process::{Lingua, get, lingua};
use terminal::Terminal;

const LINGUA: &str = env!("CARGO_BIN_EXE_lingua");

fn serve(listen: &str) -> Lingua {
    Lingua::start(&["serve", "--listen", listen, "--instance-id", "one"])
}

/// Two nodes, for as long as this is kept.
struct Nodes {
    _nodes: Vec<FakeNode>,
    _runtime: tokio::runtime::Runtime,
}

impl Nodes {
    fn connect(scheduler: &Lingua) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let url = format!("ws://{}/ws/node", scheduler.address());
        let nodes = runtime.block_on(async {
            let mut nodes = Vec::new();
            for id in ["gpu-1", "gpu-2"] {
                let options = NodeOptions::new(url.clone()).node_id(id);
                let options = options.languages(&["en", "zh"]).max_jobs(1);
                nodes.push(FakeNode::connect(options).await.unwrap());
            }
            nodes
        });
        Nodes { _nodes: nodes, _runtime: runtime }
    }
}

/// A shell in which it runs, and which tells afterwards how it ended and how the terminal is.
fn watching(scheduler: &Lingua, width: u16, height: u16) -> Terminal {
    let terminal = Terminal::open(width, height);
    let url = format!("http://{}", scheduler.address());
    terminal.line(&format!("a=$(stty -g); {LINGUA} top --url {url}; b=\"ended $?\""));
    terminal.until("it has the screen", |seen| seen.contains("Lingua Scheduler"));
    assert!(terminal.is_taken_over());
    terminal
}

/// Fails unless the terminal is as it was before.
fn is_as_before(terminal: &Terminal) {
    terminal.until_given_back();
    terminal.line("test \"$a\" = \"$(stty -g)\" && echo \"$b, as before\"");
    terminal.until("the terminal is as it was", |seen| seen.contains("ended 0, as before"));
    assert!(terminal.has_a_cursor());
}

#[test]
fn it_shows_the_numbers_of_the_api_and_leaves_the_terminal_as_it_was() {
    let scheduler = serve("127.0.0.1:0");
    let _nodes = Nodes::connect(&scheduler);
    let terminal = watching(&scheduler, 100, 30);
    terminal.until("nodes are counted", |seen| seen.contains("1 instance · 2 nodes ready"));
    let nodes = &get(scheduler.address(), "/api/v1/stats").1["snapshot"]["nodes"];
    let slots = format!("Slots in use  {:>8} of {}", nodes["used"].to_string(), nodes["slots"]);
    let overview = terminal.until("the slots of the API", |seen| seen.contains(&slots));
    for wanted in ["✓ All well.", "● Live", "Jobs a second", "Latency", "Endings by reason"] {
        assert!(overview.contains(wanted), "no {wanted:?} in\n{overview}");
    }

    terminal.keys(&["2"]);
    terminal.until("the matrix", |seen| seen.contains("en   ·      ● 2/2"));
    terminal.keys(&["Tab"]);
    let listed = terminal.until("the nodes", |seen| seen.contains("2 of 2 shown"));
    assert!(listed.contains("gpu-1  ● ready   0/1  closed"), "{listed}");
    terminal.keys(&["s"]);
    terminal.until("another order", |seen| seen.contains("s sort: state"));
    terminal.keys(&["Right"]);
    terminal.until("the sessions", |seen| seen.contains("No session is open."));
    terminal.keys(&["5"]);
    terminal.until("the instance", |seen| {
        seen.contains("one (this one)  ● running") && seen.contains("leader of: deadlines")
    });
    terminal.keys(&["?"]);
    terminal.until("the keys", |seen| seen.contains("q, Ctrl-C   end"));

    // Narrow all of a sudden.
    terminal.keys(&["3"]);
    terminal.resize(40, 14);
    let narrow = terminal.until("it is drawn anew", |seen| seen.contains(" 1  2  3 Nodes  4  5"));
    assert!(narrow.contains("gpu-2  ● ready   0/1  closed"), "{narrow}");
    terminal.keys(&["q"]);
    is_as_before(&terminal);
}

#[test]
fn it_says_that_the_scheduler_is_away_and_comes_back_by_itself() {
    let first = serve("127.0.0.1:0");
    let address = first.address().to_string();
    let terminal = watching(&first, 120, 24);
    terminal.until("figures", |seen| seen.contains("Jobs a second"));
    drop(first);
    let lost = terminal.until("that it is away", |seen| {
        seen.contains("The connection to the scheduler is lost. What you see is from")
            && seen.contains("○ Not connected")
    });
    assert!(lost.contains("Jobs a second"), "the last figures stay\n{lost}");
    let _second = serve(&address);
    terminal.until("that it restarted", |seen| {
        seen.contains("Connected again: the scheduler has restarted.") && seen.contains("● Live")
    });
    terminal.keys(&["C-c"]);
    is_as_before(&terminal);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was_too() {
    let scheduler = serve("127.0.0.1:0");
    for name in ["TERM", "INT"] {
        let terminal = watching(&scheduler, 80, 24);
        let pid = terminal.child().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        is_as_before(&terminal);
    }
}

#[test]
fn one_that_was_never_there_is_said_to_be_away() {
    let gone = serve("127.0.0.1:0");
    let url = format!("http://{}", gone.address());
    drop(gone);
    let terminal = Terminal::open(110, 20);
    terminal.line(&format!("{LINGUA} top --url {url}"));
    let away = format!("The scheduler at {url} does not answer. Trying again");
    terminal.until("that it is away", |seen| seen.contains(&away));
    terminal.keys(&["q"]);
    terminal.until_given_back();
}

/// Into a pipe, with these arguments: the exit code and what came out.
fn piped(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(LINGUA).arg("top").args(args).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn into_a_pipe_it_is_plain_text_once() {
    let scheduler = serve("127.0.0.1:0");
    let _nodes = Nodes::connect(&scheduler);
    let url = format!("http://{}", scheduler.address());
    process::wait_for("both nodes are counted", || {
        get(scheduler.address(), "/api/v1/stats").1["snapshot"]["nodes"]["ready"] == 2
    });
    for args in [&["--url", &url][..], &["--url", &url, "--once"]] {
        let (code, text) = piped(args);
        assert_eq!(code, Some(0));
        for wanted in ["✓ All well.\n", "1 instance · 2 nodes ready", "en → zh  ● free slots"]
        {
            assert!(text.contains(wanted), "no {wanted:?} in\n{text}");
        }
        assert!(text.contains("gpu-2  ● ready   0/1  closed"), "{text}");
        assert!(!text.contains('\u{1b}'), "plain is plain");
    }
    let (code, json) = piped(&["--url", &url, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["instance"]), (Some(0), &serde_json::json!("one")));
    assert_eq!(json["snapshot"]["nodes"]["ready"], 2);

    drop(scheduler);
    for args in [&["--once"][..], &["--json"]] {
        let (code, said) = lingua(&[&["top", "--url", &url], args].concat());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("the scheduler at {url} does not answer")), "{said}");
    }
    let (code, said) = lingua(&["top", "--url", "https://h", "--ca", "/there/is/none", "--once"]);
    assert_eq!(code, Some(2), "{said}");
}
