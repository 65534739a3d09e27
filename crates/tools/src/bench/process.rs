//! Processes that a bench starts and measures: how much processor time they used.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use lingua_lab::{Launch, SchedulerProcess};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;

/// Starts this very program as `lingua serve` on a free port. It is a process of its own, so that its processor
/// time is its own too.
pub(crate) async fn start_scheduler(store: &str) -> anyhow::Result<SchedulerProcess> {
    Ok(Launch::serve(program()?, "127.0.0.1:0", store)
        // One tenant asks for all that there is: that is what is measured.
        .with_env("LINGUA_LIMITS_JOBS_PER_TENANT_PER_S", "0")
        .start_scheduler()
        .await?)
}

/// This very program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("this program has no path")
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
