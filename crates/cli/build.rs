//! Link arguments that make an optimised binary smaller, where the linker and the system take them.
//!
//! `--icf=all` keeps one copy of functions with the same code: generic code is compiled in several crates. Rust does not
//! promise that functions have different addresses, and data is never folded. `pack-relative-relocs` stores the
//! relocations of a position-independent binary in a twentieth of the space; glibc reads that from 2.36 on.
//!
//! Only lld knows the first and only newer systems the second, so each is tried on a small program that is linked and
//! run here. Where that fails, or cannot be seen because another machine is built for, nothing is passed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

const ARGUMENTS: [&str; 2] = ["-Wl,--icf=all", "-Wl,-z,pack-relative-relocs"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let runs_here = env::var("TARGET").is_ok() && env::var("TARGET") == env::var("HOST");
    if !runs_here
        || !is("PROFILE", "release")
        || !is("CARGO_CFG_TARGET_OS", "linux")
        || !is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        return;
    }
    let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    for argument in ARGUMENTS {
        if links_and_runs(&directory, argument).unwrap_or(false) {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}

/// Whether a program that is linked with this argument ends well. A linker's complaint is no warning to the user.
fn links_and_runs(directory: &Path, argument: &str) -> std::io::Result<bool> {
    let (source, program) = (directory.join("probe.rs"), directory.join("probe"));
    fs::write(&source, "fn main() { println!(\"{:?}\", std::env::args().next()); }")?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", PathBuf::from(linker).display()));
    }
    if let Ok(flags) = env::var("CARGO_ENCODED_RUSTFLAGS") {
        rustc.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    }
    rustc.args(["--edition", "2024", "-C"]).arg(format!("link-arg={argument}"));
    rustc.arg("-o").arg(&program).arg(&source);
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    Ok(quiet(&mut rustc)?.success() && quiet(&mut Command::new(&program))?.success())
}
