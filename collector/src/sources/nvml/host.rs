//! What this machine's own files tell: its memory, and whether a process number that NVML gives means anything here.

use std::fs;
use std::path::{Path, PathBuf};

/// Whose process a number is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// One of this machine, of this name.
    Named(String),
    /// There is no such process here: the driver counts in another PID namespace.
    OtherNamespace,
    /// There is one of this number here, but this is not the namespace the driver counts in, so it may be another.
    Unsure,
}

/// The machine's process files.
#[derive(Clone, Debug)]
pub(super) struct Host {
    proc: PathBuf,
    counts_as_driver: bool,
}

impl Host {
    pub(super) fn new(proc: &Path) -> Self {
        /// The kernel's fixed number of the first PID namespace, the one that the driver counts in.
        const FIRST: &str = "pid:[4026531836]";
        let mine = fs::read_link(proc.join("self/ns/pid"));
        let counts_as_driver = mine.is_ok_and(|link| link == Path::new(FIRST));
        Self { proc: proc.to_owned(), counts_as_driver }
    }

    pub(super) fn whose(&self, pid: u32) -> Whose {
        match fs::read_to_string(self.proc.join(pid.to_string()).join("comm")) {
            Ok(name) if self.counts_as_driver => Whose::Named(name.trim_end().to_owned()),
            Ok(_) => Whose::Unsure,
            Err(_) => Whose::OtherNamespace,
        }
    }

    /// Total and available bytes of the system's memory.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let kib = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Some((kib("MemTotal")?, kib("MemAvailable")?))
    }
}
