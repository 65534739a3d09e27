//! `lingua demo` as a person meets it: one command, the whole system, and nothing left afterwards.

use crate::process;

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use process::{get, lingua, run, wait_for};

/// For everything to be up, on a machine full of compilers.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running demo, its lines read as they come.
struct Demo {
    child: Child,
    lines: Receiver<String>,
    greeting: Vec<String>,
    /// For its own files; one that is killed leaves them.
    temp: tempfile::TempDir,
}

impl Demo {
    /// Starts it on a free port and waits until it says where the dashboard is.
    fn start(args: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lingua"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(args)
            .env("TMPDIR", temp.path())
            .env_remove("LINGUA_STORE")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = sync_channel(1_000);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = tell.try_send(line);
            }
        });
        let mut demo = Demo { child, lines, greeting: Vec::new(), temp };
        while !demo.greeting.last().is_some_and(|line| line.starts_with("Dashboard: ")) {
            let line = demo.lines.recv_timeout(START_LIMIT);
            demo.greeting.push(line.unwrap_or_else(|_| panic!("only {:?}", demo.greeting)));
        }
        demo
    }

    /// Where the dashboard is.
    fn address(&self) -> SocketAddr {
        address(self.greeting.last().unwrap())
    }

    /// Where each scheduler listens, and its process.
    fn schedulers(&self) -> Vec<(SocketAddr, u32)> {
        let lines = self.greeting.iter().filter(|line| line.starts_with("Scheduler "));
        lines.map(|line| (address(line), number_behind(line, "pid "))).collect()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Whether it left no file behind.
    fn is_tidy(&self) -> bool {
        std::fs::read_dir(self.temp.path()).unwrap().next().is_none()
    }

    /// Waits for its end: the exit code and what it said since the greeting.
    fn end(&mut self, limit: Duration) -> (Option<i32>, String) {
        let mut said = String::new();
        // The reader ends with the stream, and that with the process.
        while let Ok(line) = self.lines.recv_timeout(limit) {
            said.push_str(&line);
            said.push('\n');
        }
        let ended = self.child.try_wait().unwrap();
        let ended = ended.unwrap_or_else(|| {
            std::thread::sleep(Duration::from_millis(200));
            self.child.try_wait().unwrap().unwrap_or_else(|| panic!("still there: {said}"))
        });
        (ended.code(), said)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(line: &str) -> SocketAddr {
    let rest = line.split("http://").nth(1).unwrap();
    rest.split(['/', ' ']).next().unwrap().parse().unwrap()
}

fn number_behind(line: &str, word: &str) -> u32 {
    let rest = line.split(word).nth(1).unwrap();
    rest.trim_end_matches(|letter: char| !letter.is_ascii_digit())
        .split(|letter: char| !letter.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn nobody_listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err()
}

/// One page as text.
fn page(address: SocketAddr, path: &str) -> String {
    use std::io::Write;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The sum of all lines of a metric.
fn metric(address: SocketAddr, name: &str) -> f64 {
    let text = page(address, "/metrics");
    let lines = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn one_command_shows_it_all_and_an_interrupt_ends_it_with_zero() {
    let mut demo = Demo::start(&[]);
    let address = demo.address();
    assert_eq!(get(address, "/health").0, 200);
    wait_for("jobs done", || metric(address, "lingua_jobs_ended_total") >= 20.0);
    let (status, pools) = get(address, "/api/v1/pools");
    let pairs = pools["pairs"].as_array().unwrap();
    assert!(status == 200 && pairs.len() > 20, "{pools}");
    let (_, nodes) = get(address, "/api/v1/nodes");
    assert_eq!(nodes["total"], 12, "{nodes}");
    let talk = demo.greeting.iter().find(|line| line.contains("/talk")).unwrap();
    assert!(page(self::address(talk), "/talk").starts_with("HTTP/1.1 200"), "{talk}");
    let url = format!("http://{address}");
    let said = run(&["speak", "--url", &url, "--signal", "2s", "--json"]);
    assert!(said.contains("[zh] sentence 1, 2.0 s"), "{said}");
    // The first seconds are over, and with them what a start looks like.
    wait_for("a plain demo is well", || get(address, "/api/v1/stats").1["health"] == "ok");
    demo.signal("INT");
    let (code, said) = demo.end(Duration::from_secs(40));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Everything has stopped") && said.contains("nothing lost"), "{said}");
    assert!(nobody_listens(address));
}

#[test]
fn its_time_can_be_given() {
    let mut demo = Demo::start(&["--duration", "2s", "--nodes", "2", "--speakers", "1"]);
    assert!(!demo.greeting.iter().any(|line| line.contains("on purpose")), "{:?}", demo.greeting);
    let (code, said) = demo.end(Duration::from_secs(40));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Everything has stopped"), "{said}");
}

#[test]
fn what_a_scarce_demo_lacks_is_said_and_seen() {
    let mut demo = Demo::start(&["--scarce"]);
    let said = demo.greeting.join("\n");
    assert!(said.contains("Scarce on purpose") && said.contains("Swahili"), "{said}");
    let address = demo.address();
    wait_for("somebody asks for what is scarce", || {
        let (_, sessions) = get(address, "/api/v1/sessions?limit=1000");
        let sessions = sessions["sessions"].as_array().cloned().unwrap_or_default();
        sessions.iter().any(|one| {
            let direction = one["direction"].as_str().unwrap_or_default();
            direction.contains("ko") || direction.contains("sw")
        })
    });
    demo.signal("INT");
    assert_eq!(demo.end(Duration::from_secs(60)).0, Some(0));
}

#[test]
fn several_schedulers_share_the_work_survive_a_kill_and_end_together() {
    let mut demo = Demo::start(&["--instances", "3", "--redis", "--speakers", "24"]);
    let address = demo.address();
    assert_eq!(get(address, "/ready").0, 200);
    let schedulers = demo.schedulers();
    assert_eq!(schedulers.len(), 3, "{:?}", demo.greeting);
    let redis = demo.greeting.iter().find(|line| line.contains("redis://")).unwrap();
    let redis_pid = number_behind(redis, "pid ");
    assert!(is_there(redis_pid));
    for (one, _) in &schedulers {
        wait_for("each of them works", || metric(*one, "lingua_jobs_ended_total") >= 3.0);
    }
    let (killed, pid) = schedulers[1];
    signal(pid, "KILL");
    let before: f64 = metric(schedulers[0].0, "lingua_endings_total");
    wait_for("it goes on", || metric(schedulers[0].0, "lingua_endings_total") >= before + 10.0);
    assert_eq!(get(address, "/health").0, 200);
    wait_for("the killed one is back", || {
        !nobody_listens(killed) && metric(killed, "lingua_jobs_ended_total") >= 1.0
    });
    demo.signal("INT");
    let (code, said) = demo.end(Duration::from_secs(60));
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("Scheduler 2 ended") && said.contains("Scheduler 2 is running again"),
        "{said}"
    );
    assert!(said.contains("each with exit code 0"), "{said}");
    assert!(said.contains("nothing lost, duplicated or out of order"), "{said}");
    for address in schedulers.iter().map(|(address, _)| *address).chain([address]) {
        assert!(nobody_listens(address), "{address}");
    }
    assert!(!is_there(redis_pid), "the redis-server is still there");
    assert!(demo.is_tidy(), "files are left");
}

#[test]
fn schedulers_do_not_outlive_a_demo_that_is_killed() {
    let demo = Demo::start(&["--instances", "2", "--redis", "--speakers", "2", "--nodes", "2"]);
    let pids: Vec<u32> = demo.schedulers().iter().map(|(_, pid)| *pid).collect();
    let redis = demo.greeting.iter().find(|line| line.contains("redis://")).unwrap();
    let redis_pid = number_behind(redis, "pid ");
    demo.signal("KILL");
    for pid in &pids {
        wait_for("the scheduler is gone", || !is_there(*pid));
    }
    // Nobody is left to end this one.
    signal(redis_pid, "KILL");
}

#[test]
fn a_second_interrupt_kills_all_at_once() {
    let mut demo = Demo::start(&["--instances", "2", "--redis"]);
    let schedulers = demo.schedulers();
    let redis = demo.greeting.iter().find(|line| line.contains("redis://")).unwrap();
    let redis_pid = number_behind(redis, "pid ");
    wait_for("work", || metric(schedulers[0].0, "lingua_open_jobs") >= 1.0);
    // One that is stopped would keep an orderly end waiting.
    signal(schedulers[0].1, "STOP");
    demo.signal("INT");
    while !demo.lines.recv_timeout(START_LIMIT).unwrap().starts_with("Stopping") {}
    demo.signal("INT");
    let (code, said) = demo.end(Duration::from_secs(5));
    assert_eq!(code, Some(1), "{said}");
    for pid in schedulers.iter().map(|(_, pid)| *pid).chain([redis_pid]) {
        wait_for("it is gone", || !is_there(pid));
    }
    assert!(demo.is_tidy(), "files are left");
}

#[test]
fn what_cannot_be_is_said_in_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, code, says) in [
        (&["demo", "--listen", &taken][..], 1, "cannot listen on"),
        (&["demo", "--listen", &taken, "--redis"], 1, "cannot listen on"),
        (&["demo", "--listen", "0.0.0.0:0"], 78, "loopback only"),
        (&["demo", "--listen", "127.0.0.1:0", "--instances", "2"], 2, "--redis"),
        (&["demo", "--redis", "--store", "redis://127.0.0.1:1"], 2, "--store"),
    ] {
        let (found, error) = lingua(args);
        assert_eq!(found, Some(code), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[test]
fn a_missing_redis_server_is_named_with_its_package() {
    let output = Command::new(env!("CARGO_BIN_EXE_lingua"))
        .args(["demo", "--redis", "--listen", "127.0.0.1:0"])
        .env("PATH", "")
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("redis-server") && error.contains("apt-get install"), "{error}");
}
