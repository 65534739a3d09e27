//! What a run costs: processor time and memory, as the system counts them.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use crate::bench::process::cpu_time;

/// What was used up to a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub at: Instant,
    /// The scheduler's; `None` if it was not started here.
    pub scheduler: Option<Process>,
    pub redis_cpu: Option<Duration>,
    /// This process: speakers and nodes.
    pub own_cpu: Duration,
    /// All processors of the machine together: the time they worked and the time there was.
    machine: (Duration, Duration),
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub cpu: Duration,
    pub rss_bytes: u64,
    pub peak_rss_bytes: u64,
}

impl Usage {
    pub fn now(scheduler: Option<u32>, redis: Option<u32>) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            scheduler: scheduler.map(Process::now).transpose()?,
            redis_cpu: redis.map(cpu_time).transpose()?,
            own_cpu: cpu_time(std::process::id())?,
            machine: machine_time()?,
        })
    }

    /// The share of the machine's processor time that was used since then, from 0 to 1.
    pub fn machine_load_since(&self, then: &Usage) -> f64 {
        let worked = self.machine.0.saturating_sub(then.machine.0);
        let there_was = self.machine.1.saturating_sub(then.machine.1);
        worked.as_secs_f64() / there_was.as_secs_f64().max(f64::EPSILON)
    }
}

impl Process {
    fn now(pid: u32) -> anyhow::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("the scheduler (process {pid}) is gone"))?;
        Ok(Self {
            cpu: cpu_time(pid)?,
            rss_bytes: kilobytes(&status, "VmRSS:") * 1024,
            peak_rss_bytes: kilobytes(&status, "VmHWM:") * 1024,
        })
    }
}

fn kilobytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn machine_time() -> anyhow::Result<(Duration, Duration)> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    Ok(worked(stat.lines().next().unwrap_or_default()))
}

/// Of the line `cpu user nice system idle iowait irq softirq steal …`: the time worked, for anybody,
/// and the time there was.
fn worked(line: &str) -> (Duration, Duration) {
    let ticks: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).take(8).collect();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let all: u64 = ticks.iter().sum();
    // A tick is a hundredth of a second on every Linux that is met.
    let time = |ticks: u64| Duration::from_millis(ticks * 10);
    (time(all - idle), time(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_figures_are_read() {
        let status = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!((kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:")), (1024, 2048));
        let line = "cpu  100 0 50 800 50 0 0 0 0 0";
        assert_eq!(worked(line), (Duration::from_millis(1_500), Duration::from_secs(10)));
        let usage = Usage::now(Some(std::process::id()), None).unwrap();
        assert!(usage.scheduler.unwrap().rss_bytes > 100_000);
        assert!((0.0..=1.0).contains(&usage.machine_load_since(&usage)));
    }
}
