//! Processes that a bench starts and measures: how much processor time they used.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;

/// A scheduler as a process of its own, so that its processor time is its own too.
pub(crate) struct Scheduler {
    child: Child,
    address: String,
}

impl Scheduler {
    /// Starts this very program as `lingua serve` on a free port.
    pub(crate) fn start(store: &str) -> anyhow::Result<Self> {
        Self::start_as(&["serve", "--listen", "127.0.0.1:0", "--store", store], &[])
    }

    /// Starts this very program with these arguments, which must greet as `lingua serve` does.
    pub(crate) fn start_as(
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("LINGUA_LOG", "error")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("the scheduler does not start")?;
        let stdout = child.stdout.take().context("the scheduler has no output")?;
        let lines: Result<Vec<String>, _> = BufReader::new(stdout).lines().take(3).collect();
        let lines = lines.context("the scheduler's greeting")?;
        let greeting = lines.first().context("the scheduler said nothing")?;
        let Some((_, rest)) = greeting.split_once("http://") else {
            bail!("the scheduler said {greeting:?}");
        };
        let address = rest.split_whitespace().next().unwrap_or_default().to_owned();
        Ok(Scheduler { child, address })
    }

    /// `host:port`
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three lines as `lingua serve` says them.
pub(crate) fn greet(address: std::net::SocketAddr) {
    use std::io::Write;
    // Nobody need be there to read it.
    let _ = writeln!(std::io::stdout(), "listens on http://{address}\n-\n-");
}

/// Keeps all threads that a process has now, and those that they start, to one processor.
pub(crate) fn keep_to(pid: u32, processor: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        let thread: i32 = task?.file_name().to_string_lossy().parse()?;
        // One that ended meanwhile needs no place.
        match rustix::thread::sched_setaffinity(Pid::from_raw(thread), &set) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error).context("a process cannot be kept to a processor"),
        }
    }
    Ok(())
}

/// From now on this thread runs only while nobody else wants its processor.
pub(crate) fn only_when_idle() -> anyhow::Result<()> {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    // The call itself is only to be had with unsafe code.
    let done = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
    if !done.context("chrt, of util-linux, is not to be had")?.success() {
        bail!("a thread cannot be put behind all others");
    }
    Ok(())
}

/// Memory of a process that is in use, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("the kernel does not say how much memory it has")? * 1024)
}

/// Processor time that the threads of a process have used so far.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} is gone"))?;
    let mut nanos = 0u64;
    for task in tasks {
        let path = task?.path().join("schedstat");
        // A thread may end while we look.
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        let first = text.split_whitespace().next().unwrap_or_default();
        nanos += first.parse::<u64>().unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
