//! The open files that thousands of streams need, on both sides of them.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Raises this process's limit, which the processes that it starts inherit.
pub fn raise_open_files(wanted: u64) -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files")).context("no such limit")?;
    let mut numbers = line.split_whitespace().skip(3).map(|text| text.parse().unwrap_or(u64::MAX));
    let (soft, hard) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if soft >= wanted {
        return Ok(());
    }
    ensure!(hard >= wanted, "{wanted} open files are needed and {hard} are allowed: raise `ulimit -n`");
    let pid = std::process::id().to_string();
    let done =
        Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={wanted}:{hard}")]).status()?;
    ensure!(done.success(), "prlimit failed");
    Ok(())
}
