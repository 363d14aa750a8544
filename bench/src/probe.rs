//! The machine, and the speed of its disk now: the time of one fdatasync after a small append, which every durable
//! figure depends on.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// If the disk's speed changed by more than this, the figures of a run are not comparable.
pub const STEADY_RATIO_MAX: f64 = 1.5;
const SYNCS: usize = 300;
const SYNC_BYTES: usize = 4096;

/// The disk's speed at one moment.
#[derive(Clone, Copy)]
pub struct Probe {
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// The load average then: a busy machine looks like a slow disk.
    pub load: f64,
}

/// Probes the disk under `dir`.
pub fn fdatasync(dir: &Path) -> Result<Probe> {
    let path = dir.join("probe");
    let mut file = File::create(&path)?;
    let block = [0x5a_u8; SYNC_BYTES];
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&block)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    drop(file);
    fs::remove_file(&path)?;
    times.sort_by(f64::total_cmp);
    Ok(Probe { p50_ms: times[SYNCS / 2], p99_ms: times[SYNCS * 99 / 100], load: load() })
}

/// Whether the disk's speed was stable over these probes.
pub fn steady(probes: &[Probe]) -> bool {
    let least = probes.iter().map(|probe| probe.p50_ms).fold(f64::INFINITY, f64::min);
    let most = probes.iter().map(|probe| probe.p50_ms).fold(0.0, f64::max);
    most <= least * STEADY_RATIO_MAX
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// The machine in one line.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?.to_owned();
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        })
        .map_or_else(|| "?".into(), |kib| format!("{:.0} GB", kib / 1024.0 / 1024.0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?.to_owned();
            Some(line.split(':').nth(1)?.trim().to_owned())
        })
        .unwrap_or_default();
    format!("{cores} cores ({model}), {memory}, Linux {}", kernel.trim())
}

/// The first line that a program says about its version.
pub fn version_of(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().context("did not start");
    said.ok()
        .and_then(|said| Some(String::from_utf8_lossy(&said.stdout).lines().next()?.trim().to_owned()))
        .unwrap_or_else(|| "not found".into())
}

/// Memory and processor time of a process, from the kernel.
#[derive(Clone, Copy)]
pub struct Usage {
    pub resident_kb: f64,
    pub cpu_s: f64,
}

pub fn usage(pid: u32) -> Result<Usage> {
    /// USER_HZ, which is 100 on every Linux that Rust builds for.
    const TICKS_PER_S: f64 = 100.0;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the process is gone")?;
    let resident_kb = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
        .context("no VmRSS")?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |nth: usize| after_name.split_whitespace().nth(nth).and_then(|text| text.parse::<f64>().ok());
    let cpu_s = (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS_PER_S;
    Ok(Usage { resident_kb, cpu_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_changed_its_mood_is_not_steady() {
        let probe = |p50_ms| Probe { p50_ms, p99_ms: 1.0, load: 0.0 };
        assert!(steady(&[probe(0.10), probe(0.15), probe(0.12)]));
        assert!(!steady(&[probe(0.10), probe(0.151)]));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(usage(std::process::id()).unwrap().resident_kb > 100.0);
    }
}
