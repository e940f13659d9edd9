//! Running jobs: the rings that preloaded shims write, followed live or read after the job's end.
//!
//! A folder of ring files is a job: one file a process, found as they appear. Events are put in order of time over all threads and
//! processes: what one look at the rings brings is held back until the next look, by when anything earlier has surely been seen.

mod dump;
mod ring_file;
mod translate;
#[cfg(test)]
mod translate_tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use rustc_hash::FxHashSet;
use vramscope_trace::{Batch, Event, Interner, Problem, ProblemKind, ProcessId, Progress, SourceMessage};

pub use dump::dump;
pub use ring_file::{RingFile, Said, Spoken};
use translate::Translator;

/// How long to wait between two looks while there is something to see, and the longest wait when there is not.
const WAIT: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(32));
/// How often to look for rings of new processes.
const RESCAN: Duration = Duration::from_millis(20);

/// A process that has a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimProcess {
    /// Its number; what its events carry.
    pub process: ProcessId,
    /// Its rank in a distributed job; `None` = unknown.
    pub rank: Option<u32>,
    /// Its parent's number.
    pub parent: ProcessId,
    /// Its name as the kernel keeps it.
    pub name: String,
    /// Whether it still runs, in the PID namespace of this program.
    pub alive: bool,
    /// Events it had to drop or that were overwritten before they were read.
    pub lost: u64,
    /// UUIDs of the devices it uses, by its own ordinals.
    pub devices: Vec<(u16, String)>,
}

struct Process {
    ring: RingFile,
    translator: Translator,
    info: ShimProcess,
    /// Start time of the process, which tells it from a later one of the same number.
    started: Option<u64>,
}

/// The rings of one folder.
pub struct ShimSource {
    folder: PathBuf,
    known: FxHashSet<PathBuf>,
    processes: Vec<Process>,
    pending: Vec<(usize, Spoken)>,
    /// Everything up to this time has been seen.
    seen_ns: i64,
    released_ns: i64,
    problems: Vec<Problem>,
    scanned: Option<Instant>,
}

impl ShimSource {
    /// Follows the rings in `folder`, those that are there and those that will be.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            known: FxHashSet::default(),
            processes: Vec::new(),
            pending: Vec::new(),
            seen_ns: i64::MIN,
            released_ns: i64::MIN,
            problems: Vec::new(),
            scanned: None,
        }
    }

    /// The processes seen so far.
    pub fn processes(&self) -> impl Iterator<Item = &ShimProcess> {
        self.processes.iter().map(|process| &process.info)
    }

    /// Asks every living process for a snapshot.
    ///
    /// # Errors
    /// The first that could not be asked; the others were.
    pub fn ask_for_snapshots(&self) -> io::Result<()> {
        let living = self.processes.iter().filter(|process| process.info.alive);
        living.map(|process| process.ring.ask_for_snapshot()).fold(Ok(()), io::Result::and)
    }

    /// Looks at every ring and appends to `out` what is in order by now, names by `names`. Looks should be at least 2 ms apart.
    pub fn poll(&mut self, names: &mut Interner, out: &mut Vec<Event>) {
        if self.scanned.is_none_or(|last| last.elapsed() >= RESCAN) {
            self.scan();
        }
        let seen_before = self.seen_ns;
        self.look();
        self.release(seen_before, names, out);
    }

    /// Says everything that is left, after the job has ended.
    pub fn finish(&mut self, names: &mut Interner, out: &mut Vec<Event>) {
        self.scan();
        self.look();
        self.release(i64::MAX, names, out);
        for process in &mut self.processes {
            process.translator.finish(names, out);
        }
    }

    /// What was odd since the last call.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        let mut problems = std::mem::take(&mut self.problems);
        for process in &mut self.processes {
            for found in process.translator.take_problems() {
                Problem::note(&mut problems, found.kind, found.count, || found.example);
            }
        }
        problems
    }

    fn scan(&mut self) {
        self.scanned = Some(Instant::now());
        let Ok(listing) = fs::read_dir(&self.folder) else { return };
        let mut paths: Vec<PathBuf> = listing
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "ring") && !self.known.contains(path))
            .collect();
        paths.sort();
        for path in paths {
            match RingFile::open(&path) {
                Ok(None) => continue,
                Ok(Some(ring)) => self.processes.push(Process::new(ring)),
                Err(error) => Problem::note(&mut self.problems, ProblemKind::TornFile, 1, || {
                    format!("{} cannot be read as a ring: {error}", path.display())
                }),
            }
            self.known.insert(path);
        }
        for process in &mut self.processes {
            process.info.rank = process.ring.rank();
            process.info.alive = process.started.is_some() && process.started == started(process.info.process);
        }
    }

    fn look(&mut self) {
        let mut spoken = Vec::new();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if !process.ring.drain(&mut spoken) {
                Problem::note(&mut self.problems, ProblemKind::TornFile, 1, || {
                    format!("{} is shorter than it says", process.ring.path().display())
                });
            }
            let dropped = process.ring.take_dropped();
            if dropped > 0 {
                spoken.push(Spoken { unix_ns: self.seen_ns, lane: 0, said: Said::Lost(dropped) });
            }
            for item in spoken.drain(..) {
                if let Said::Lost(count) = item.said {
                    process.info.lost += count;
                }
                self.seen_ns = self.seen_ns.max(item.unix_ns);
                self.pending.push((index, item));
            }
        }
    }

    fn release(&mut self, until_ns: i64, names: &mut Interner, out: &mut Vec<Event>) {
        self.pending.sort_by_key(|(_, item)| item.unix_ns);
        let ready = self.pending.partition_point(|(_, item)| item.unix_ns <= until_ns);
        for (index, mut item) in self.pending.drain(..ready) {
            if item.unix_ns < self.released_ns {
                if !matches!(item.said, Said::Lost(_) | Said::Damaged) {
                    let late = self.released_ns - item.unix_ns;
                    Problem::note(&mut self.problems, ProblemKind::LateEvent, 1, || {
                        format!("an event came {late} ns after later ones; it stands at the time of those")
                    });
                }
                item.unix_ns = self.released_ns;
            }
            self.released_ns = item.unix_ns;
            let process = &mut self.processes[index];
            process.translator.push(&item, names, out);
        }
        for process in &mut self.processes {
            let devices = process.translator.devices();
            if devices.len() > process.info.devices.len() {
                devices.clone_into(&mut process.info.devices);
            }
        }
    }
}

impl Process {
    fn new(ring: RingFile) -> Self {
        let header = ring.header();
        let process = ProcessId(header.pid);
        let length = header.name.iter().position(|&byte| byte == 0).unwrap_or(header.name.len());
        let started = started(process);
        let info = ShimProcess {
            process,
            rank: header.rank,
            parent: ProcessId(header.parent),
            name: String::from_utf8_lossy(&header.name[..length]).into_owned(),
            alive: started.is_some(),
            lost: 0,
            devices: Vec::new(),
        };
        Self { ring, translator: Translator::new(process), info, started }
    }
}

/// When a process started, in the kernel's ticks; `None` if it has ended.
fn started(process: ProcessId) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.0)).ok()?;
    // The name may hold anything, so count from its closing parenthesis: state first, start time twentieth.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Follows the rings in `folder` until `progress` is cancelled, then says what is left. A live source does not wait: rings go on
/// being written, and what is overwritten before it could be read is counted.
pub fn follow(folder: &Path, progress: &Progress, out: &Sender<SourceMessage>) {
    let mut source = ShimSource::new(folder);
    let mut names = Interner::new();
    let mut wait = WAIT.0;
    loop {
        let last = progress.is_cancelled();
        let mut events = Vec::new();
        if last {
            source.finish(&mut names, &mut events);
        } else {
            source.poll(&mut names, &mut events);
        }
        wait = if events.is_empty() { (wait * 2).min(WAIT.1) } else { WAIT.0 };
        let problems = source.take_problems();
        if !events.is_empty() || !problems.is_empty() {
            let batch = Batch { dictionary: names.take_chunks(), events, problems };
            if out.send(SourceMessage::Batch(batch)).is_err() {
                return;
            }
        }
        if last {
            drop(out.send(SourceMessage::Done));
            return;
        }
        std::thread::sleep(wait);
    }
}
