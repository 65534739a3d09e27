//! What the operating system says of this process, under the names that all programs use for it.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Listed, kind};

/// In what the kernel tells of processor time, on every Linux that Rust has a standard library for.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Default)]
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    started: Gauge<f64, AtomicU64>,
}

impl Process {
    pub fn register(registry: &mut Registry, list: &mut Vec<Listed>) -> Self {
        let process = Process::default();
        macro_rules! metric {
            ($name:literal, $help:literal, $metric:expr) => {
                registry.register($name, $help, $metric.clone());
                list.push(Listed { name: $name, kind: kind(&$metric) });
            };
        }
        metric!("process_cpu_seconds", "Processor time that the process has used", process.cpu);
        metric!(
            "process_resident_memory_bytes",
            "Memory that the process has in use",
            process.resident
        );
        metric!("process_open_fds", "Files and sockets that are open", process.open_files);
        metric!("process_max_fds", "Files and sockets that may be open", process.max_files);
        metric!(
            "process_start_time_seconds",
            "When it started, in seconds since 1970",
            process.started
        );
        process
    }

    pub fn started_ms(&self, ms: u64) {
        self.started.set(ms as f64 / 1_000.0);
    }

    /// Asks the kernel. What it does not tell stays as it was.
    pub fn look(&self) {
        if let Some(seconds) = read("stat").as_deref().and_then(cpu_seconds) {
            self.cpu.inner().store(seconds.to_bits(), Ordering::Relaxed);
        }
        if let Some(bytes) = read("status").as_deref().and_then(resident_bytes) {
            self.resident.set(bytes);
        }
        if let Some(files) = open_files() {
            self.open_files.set(files);
        }
        if let Some(files) = read("limits").as_deref().and_then(max_files) {
            self.max_files.set(files);
        }
    }
}

fn read(file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/self/{file}")).ok()
}

/// User and system time, the 14th and 15th field. The 2nd is a name that may have blanks in it.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<i64>().ok()? * 1_024)
}

/// Newer kernels say how many there are as the size of the folder; in others they are counted.
fn open_files() -> Option<i64> {
    let folder = "/proc/self/fd";
    let files = match fs::metadata(folder).ok()?.len() {
        0 => fs::read_dir(folder).ok()?.count() as u64,
        files => files,
    };
    i64::try_from(files).ok()
}

fn max_files(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(i64::MAX),
        files => files.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let stat = "7 (a) b) S 1 1 1 0 -1 0 9 0 0 0 250 50 0 0 20 0 3 0 77 1 2 3";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        let limits = "Limit  Soft  Hard  Units\nMax open files            64      4096    files\n";
        assert_eq!(max_files(limits), Some(64));
        assert_eq!(
            max_files("Max open files            unlimited   unlimited  files"),
            Some(i64::MAX)
        );
        for (read, nonsense) in [(cpu_seconds("7 (a"), None), (cpu_seconds("1 (a) S 1"), None)] {
            assert_eq!(read, nonsense);
        }
    }

    #[test]
    fn this_process_is_seen() {
        let process = Process::default();
        process.look();
        assert!(process.resident.get() > 1 << 20);
        let (open, most) = (process.open_files.get(), process.max_files.get());
        assert!(3 <= open && open <= most, "{open} of {most}");
        let files: Vec<_> = (0..64).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        process.look();
        assert!(process.open_files.get() >= 64 + 3, "{} files", files.len());
    }
}
