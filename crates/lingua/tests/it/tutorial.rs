//! The tutorial runs as it is written.
//!
//! Its blocks go to one shell, in their order: `sh` must end well, `sh fails` must not, `sh once` is
//! for a reader's machine only. A `text` block is what the block before it prints: its lines, in
//! their order, anywhere in the output; `…` stands for anything within a line.
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// For one block, on a machine full of compilers.
const LIMIT: Duration = Duration::from_secs(60);

/// The port of the page.
const PORT: &str = "5010";

/// What a reader does once and this test has done otherwise.
const ONCE: &str = "cargo build --release\nexport PATH=\"$PWD/target/release:$PATH\"\n";

struct Block {
    kind: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(kind), None) => open = Some(Block { kind: kind.to_owned(), text: String::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// A shell that everything is typed into, and all that it and what it starts prints.
struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    blocks: u32,
}

impl Shell {
    fn start(bin: &Path, port: u16) -> Self {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", "exec bash --noprofile --norc -s 2>&1"])
            .env("PATH", path)
            .env("LINGUA_LISTEN", format!("127.0.0.1:{port}"))
            .env("LINGUA_URL", format!("http://127.0.0.1:{port}"))
            .env("TMPDIR", bin)
            .env_remove("LINGUA_STORE")
            .current_dir(bin)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = sync_channel(10_000);
        std::thread::spawn(move || {
            for line in stdout.split(b'\n').map_while(Result::ok) {
                let _ = tell.try_send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let input = child.stdin.take().unwrap();
        Shell { child, input, lines, blocks: 0 }
    }

    /// Runs a block until it has ended and printed all of `wanted`; its exit code.
    fn run(&mut self, commands: &str, wanted: &str) -> i32 {
        self.blocks += 1;
        let end = format!("== block {} ended with ", self.blocks);
        // What is started must not read what is typed. The empty line ends one without an end.
        write!(self.input, "{{\n{commands}}} </dev/null\ncode=$?; echo; echo \"{end}$code\"\n")
            .unwrap();
        let shown = metrics(wanted);
        let mut wanted: Vec<&str> = wanted.lines().rev().collect();
        let (mut printed, mut code) = (String::new(), None);
        let until = Instant::now() + LIMIT;
        while code.is_none() || !wanted.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(error) => {
                    let why = match error {
                        RecvTimeoutError::Timeout => "not within its time",
                        RecvTimeoutError::Disconnected => "the shell is gone",
                    };
                    panic!("{why}:\n{commands}missing: {wanted:#?}\nprinted:\n{printed}");
                }
            };
            let mut rest = match line.find(&end) {
                Some(at) => {
                    code = line[at + end.len()..].parse().ok();
                    ""
                }
                None => line.as_str(),
            };
            // Answers without an end of line share one with the next.
            while let Some(behind) = wanted.last().and_then(|next| behind(rest, next)) {
                rest = behind;
                wanted.pop();
            }
            printed.push_str(&line);
            printed.push('\n');
        }
        assert_eq!(
            metrics(&printed),
            shown,
            "the page shows all metrics that are printed:\n{printed}"
        );
        code.unwrap()
    }
}

/// How many samples of metrics a text has.
fn metrics(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("lingua_")).count()
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It and all that it started are one group.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

/// What stands behind `wanted` in `line`; `None` if it is not in there.
fn behind<'a>(line: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = line;
    for part in wanted.split('…') {
        let at = rest.find(part)?;
        rest = &rest[at + part.len()..];
    }
    Some(rest)
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TUTORIAL.md")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_tutorial_runs_as_it_is_written() {
    let port = free_port();
    let page = fs::read_to_string(page()).unwrap().replace(PORT, &port.to_string());
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lingua"), bin.path().join("lingua")).unwrap();
    let mut shell = Shell::start(bin.path(), port);
    let blocks = blocks(&page);
    let mut all = blocks.iter().peekable();
    let mut ran = 0;
    while let Some(block) = all.next() {
        let wanted = all.next_if(|next| next.kind == "text").map_or("", |next| next.text.as_str());
        match block.kind.as_str() {
            "sh once" => assert_eq!(block.text, ONCE),
            "sh" => assert_eq!(shell.run(&block.text, wanted), 0, "{}", block.text),
            "sh fails" => assert_ne!(shell.run(&block.text, wanted), 0, "{}", block.text),
            kind => panic!("a block of the kind {kind:?}"),
        }
        ran += 1;
    }
    assert!(ran > 10, "only {ran} blocks");
    assert_eq!(shell.run("test -z \"$(jobs -r)\"\n", ""), 0, "something still runs");
    let left: Vec<_> = fs::read_dir(bin.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["lingua"], "something was left behind");
}

#[test]
fn a_wanted_line_is_found_with_gaps_and_only_in_order() {
    assert_eq!(
        behind("job 7 went to gpu-1 (attempt 1)", "job … went to gpu-…"),
        Some("1 (attempt 1)")
    );
    assert_eq!(behind("a b", "b…a"), None);
    assert_eq!(behind("{\"ok\":true}{\"id\":1}", "{\"ok\":true}"), Some("{\"id\":1}"));
}
