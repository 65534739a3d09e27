//! A running `lingua`, and the least of an HTTP client.
#![allow(dead_code, reason = "shared by several test binaries")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A scheduler process that ends with its test.
pub struct Lingua {
    child: Child,
    greeting: Vec<String>,
    address: SocketAddr,
}

impl Lingua {
    /// Starts it and waits for its three lines.
    pub fn start(args: &[&str]) -> Self {
        Self::launch(command(args))
    }

    /// The same with these settings, and all that it logs until it ends.
    pub fn logged(args: &[&str], settings: &[(&str, &str)]) -> (Self, Log) {
        let mut command = command(args);
        command.envs(settings.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        (Lingua::of(child), log)
    }

    /// The same, with what it logs in this file.
    pub fn start_logging(args: &[&str], log: &Path) -> Self {
        let log = File::create(log).unwrap();
        Self::of(command(args).stdout(Stdio::piped()).stderr(log).spawn().unwrap())
    }

    /// The same, with no more files and sockets than this.
    pub fn start_with_files(files: u32, args: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_lingua")]).args(args);
        shell.env_remove("LINGUA_STORE").env_remove("LINGUA_LISTEN");
        Self::launch(shell)
    }

    /// The same, with no room for what makes a file larger than a few KiB, until that limit is lifted.
    pub fn start_with_little_room(args: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let script = "trap '' XFSZ; ulimit -S -f 16 && exec \"$0\" \"$@\"";
        shell.args(["-c", script, env!("CARGO_BIN_EXE_lingua")]).args(args);
        shell.env_remove("LINGUA_STORE").env_remove("LINGUA_LISTEN");
        Self::launch(shell)
    }

    fn launch(mut command: Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn of(mut child: Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let greeting: Vec<String> = stdout.lines().take(3).map(Result::unwrap).collect();
        let address = address_in(greeting.first().map_or("", String::as_str));
        let address = address.unwrap_or_else(|| panic!("no address in {greeting:?}"));
        Lingua { child, greeting, address }
    }

    pub fn greeting(&self) -> &[String] {
        &self.greeting
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where administrators are heard.
    pub fn admin(&self) -> SocketAddr {
        address_in(&self.greeting[2]).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Lingua {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process logs.
pub struct Log {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Log {
    fn of(stderr: ChildStderr) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let written = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let mut text = written.lock().unwrap();
                text.push_str(&line.unwrap());
                text.push('\n');
            }
        });
        Log { text, reader }
    }

    pub fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// All of it, once the process has ended.
    pub fn all(self) -> String {
        self.reader.join().unwrap();
        self.text.lock().unwrap().clone()
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.split("://").nth(1)?.split([' ', '/']).next()?.parse().ok()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lingua"));
    command.args(args).env_remove("LINGUA_STORE").env_remove("LINGUA_LISTEN");
    // A key that is made for a Redis of this machine is not the user's own.
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs a command to its end: its exit code and what it said on standard error.
pub fn lingua(args: &[&str]) -> (Option<i32>, String) {
    let output = command(args).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Runs a command that has to succeed: what it printed.
pub fn run(args: &[&str]) -> String {
    let output = command(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn get(address: SocketAddr, path: &str) -> (u16, serde_json::Value) {
    request(address, "GET", path)
}

/// One request: the status and the JSON body.
pub fn request(address: SocketAddr, method: &str, path: &str) -> (u16, serde_json::Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(serde_json::Value::Null))
}

/// Waits until `done`, looking often.
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    for _ in 0..400 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within {PATIENCE:?}: {what}");
}
