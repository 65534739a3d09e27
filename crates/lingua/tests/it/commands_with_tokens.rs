//! Our own commands at a scheduler that asks for tokens.

use crate::tokens;

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use tokens::{Guarded, Shows, command};

/// Nodes that end with their test.
struct Nodes(Child);

impl Nodes {
    /// Returns when they are registered.
    fn start(args: &[&str], shows: &Shows<'_>) -> Self {
        let mut nodes = command(args, shows).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(nodes.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("registered"), "{first}");
        std::thread::spawn(move || lines.for_each(drop));
        Nodes(nodes)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(args: &[&str], shows: &Shows<'_>) -> Output {
    command(args, shows).output().unwrap()
}

/// It ends with 1 and a sentence that says this and what to do, and shows no token.
fn fails(args: &[&str], shows: &Shows<'_>, why: &str) {
    let output = run(args, shows);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.contains(why), "{args:?}: {said}");
    assert!(said.contains("LINGUA_TOKEN"), "{args:?}: {said}");
    assert!(!said.contains("eyJ"), "{args:?}: a token is told");
}

fn works(args: &[&str], shows: &Shows<'_>) -> String {
    let output = run(args, shows);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let cried = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {said} {cried}");
    said
}

#[test]
fn nodes_speakers_and_jobs_show_the_token_of_the_environment() {
    let guarded = Guarded::start("");
    let url = guarded.url();
    let node = ["node", "--url", &url, "--name", "sim", "--count", "3", "--p50-ms", "10"];
    let one = ["node", "--url", &url, "--name", "sim-0"];
    let dispatch = ["dispatch", "--url", &url];
    let speak = ["speak", "--url", &url, "--signal", "1", "--sentences", "1"];
    let top = ["top", "--url", &url, "--once"];
    let load = ["load", "--url", &url, "--sessions", "2", "--nodes", "2", "--duration-s", "2"];

    for args in [&one[..], &node, &dispatch, &speak] {
        fails(args, &Shows::Nothing, "UNAUTHORIZED");
    }
    let tokens: Vec<String> =
        (0..3).map(|n| guarded.mint("node", &format!("sim-{n}"), &[])).collect();
    let session = guarded.mint("session", "app", &["--tenant", "acme"]);
    let admin = guarded.mint("admin", "ops", &[]);
    // Others' tokens do not do.
    fails(&one, &Shows::Token(&tokens[1]), "FORBIDDEN");
    fails(&one, &Shows::Token(&session), "FORBIDDEN");
    fails(&dispatch, &Shows::Token(&tokens[0]), "FORBIDDEN");
    fails(&speak, &Shows::Token(&tokens[0]), "FORBIDDEN");
    let few = guarded.file("few", &tokens[..2]);
    fails(&node, &Shows::File(&few), "1 of 3 nodes have no token, sim-2 first");
    let nowhere = guarded.directory.path().join("nowhere");
    fails(&dispatch, &Shows::File(&nowhere), "No such file");

    let all = guarded.file("all", &tokens);
    let _nodes = Nodes::start(&node, &Shows::File(&all));
    let app = guarded.file("app", std::slice::from_ref(&session));
    let told = works(&dispatch, &Shows::File(&app));
    assert!(told.contains("DONE") && told.contains("sim-"), "{told}");
    let told = works(&speak, &Shows::Token(&session));
    assert!(told.contains("=>"), "{told}");
    let told = works(&top, &Shows::Token(&admin));
    assert!(told.contains("3"), "{told}");

    fails(&load, &Shows::Token(&session), "load-0 first");
    let mut of_load = vec![session];
    of_load.extend([1, 0].map(|n| guarded.mint("node", &format!("load-{n}"), &[])));
    let of_load = guarded.file("load", &of_load);
    works(&load, &Shows::File(&of_load));
}
