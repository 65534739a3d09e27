//! Our own commands at a scheduler that asks for tokens.

use crate::tokens;

use std::io::{BufRead, BufReader, Write};
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

/// What `lingua token inspect` says of a token: its exit code, and everything it said.
fn inspected(token: &str, more: &[&str]) -> (Option<i32>, String) {
    let args = [&["token", "inspect"], more].concat();
    let mut inspect = command(&args, &Shows::Nothing);
    let mut inspect = inspect
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    inspect.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
    let output = inspect.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let signature = token.rsplit('.').next().unwrap();
    assert!(!said.contains(signature), "a token is told: {said}");
    (output.status.code(), said)
}

#[test]
fn inspect_says_why_a_token_is_not_good_and_asks_a_scheduler_if_it_is_told_to() {
    let guarded = Guarded::start("");
    let url = guarded.url();
    let config = guarded.directory.path().join("lingua.toml");
    let local = ["--config", config.to_str().unwrap()];
    let asked = ["--url", url.as_str()];
    let admin = guarded.mint("admin", "ops", &[]);
    let viewer = guarded.mint("viewer", "eve", &[]);
    for (role, more) in [
        ("admin", &[][..]),
        ("viewer", &[]),
        ("metrics", &[]),
        ("node", &[]),
        ("session", &["--tenant", "acme"]),
    ] {
        let token = guarded.mint(role, "one", more);
        let (code, said) = inspected(&token, &local);
        assert!(
            code == Some(0) && said.contains("it is good, unless it was revoked"),
            "{role}: {said}"
        );
        let (code, said) = inspected(&token, &asked);
        assert!(code == Some(0) && said.contains("takes it"), "{role}: {said}");
    }
    let other = |more: &[&str]| guarded.mint("viewer", "eve", more);
    let key = "it is signed with a key that identity.key_files does not have";
    for (token, here, there) in [
        (
            guarded.mint_with("wrong", "viewer", "eve", &[]),
            "the token names \"wrong\", there are right",
            key,
        ),
        (
            other(&["--audience", "elsewhere"]),
            "the token says \"elsewhere\", the configuration \"lingua\"",
            "audience (aud)",
        ),
        (
            other(&["--issuer", "mallory"]),
            "the token says \"mallory\", the configuration \"lingua\"",
            "issuer (iss)",
        ),
        (other(&["--life", "48h"]), "the token lives 172800 s", "identity.viewer_life_s"),
        (format!("{viewer}A"), "its signature is not by the key that it names", "its signature"),
    ] {
        let (code, said) = inspected(&token, &local);
        assert!(code == Some(1) && said.contains(here), "{said}");
        let (code, said) = inspected(&token, &asked);
        assert!(
            code == Some(1) && said.contains("the scheduler refuses it") && said.contains(there),
            "{said}"
        );
    }
    let short = guarded.mint("viewer", "eve", &["--life", "1s"]);
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let (code, said) = inspected(&short, &local);
    assert!(
        code == Some(1) && said.contains("the token has expired") && said.contains(" s ago"),
        "{said}"
    );

    let revoke = ["token", "revoke", "--url", &url, "--role", "viewer", "--subject", "eve"];
    // A viewer changes nothing.
    let refused = run(&revoke, &Shows::Token(&viewer));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("tokens of the role admin; the role of this one is viewer"), "{said}");
    works(&revoke, &Shows::Token(&admin));
    let (code, said) = inspected(&viewer, &asked);
    assert!(code == Some(1) && said.contains("the token is revoked"), "{said}");
}

#[test]
fn mint_warns_of_long_lives_and_of_what_a_token_can_change() {
    let guarded = Guarded::start("");
    let key = guarded.directory.path().join("right.key.pem");
    let minted = |role: &str, more: &[&str]| {
        let args =
            ["token", "mint", "--subject", "s", "--key", key.to_str().unwrap(), "--role", role];
        let output = run(&[&args[..], more].concat(), &Shows::Nothing);
        let (token, said) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && token.trim().split('.').count() == 3, "{said}");
        said
    };
    assert_eq!(minted("viewer", &[]), "");
    assert_eq!(minted("metrics", &[]), "");
    assert!(minted("admin", &[]).contains("drain and block nodes"));
    let long = minted("metrics", &["--life", "8760h"]);
    assert!(
        long.contains("identity.metrics_life_s is at least 31536000") && long.contains("365 days"),
        "{long}"
    );
}
