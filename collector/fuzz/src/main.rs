//! A fuzzing driver for stable compilers: `vramscope-fuzz TARGET SECONDS SEED [CORPUS]`, or `vramscope-fuzz measure FILE…`.
//!
//! Inputs are changed, tried, and kept in the corpus folder (`corpus/TARGET` if none is named) when the reader did something new. An input that breaks a promise
//! ends the run; it is left in `findings/`. So does one that takes longer or more memory than promised.
#![expect(clippy::print_stdout, reason = "a command line tool")]

mod measure;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use measure::Watch;
use vramscope_fuzz::{Mutator, Random, TARGETS, Target};

/// Inputs grow to this many bytes at most; one in a thousand grows further, to show what memory and time a byte costs.
const MOST_BYTES: usize = 16 << 10;
const MOST_BYTES_SELDOM: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["measure", files @ ..] => {
            let mut kept = true;
            for file in files {
                let (words, within) = measure::file(Path::new(file));
                println!("{file}: {words}");
                kept &= within;
            }
            if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        [target, seconds, seed, rest @ ..] if rest.len() < 2 => {
            let corpus = rest.first().map_or_else(|| home().join("corpus").join(target), PathBuf::from);
            let known = TARGETS.iter().find(|(name, _)| name == target);
            match (known, seconds.parse(), seed.parse()) {
                (Some(&(name, target)), Ok(seconds), Ok(seed)) => {
                    Run::new(name, target, seed, corpus).go(Duration::from_secs(seconds));
                    ExitCode::SUCCESS
                }
                _ => usage(),
            }
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    println!(
        "usage: vramscope-fuzz pickle|json|wrapped|recording SECONDS SEED [CORPUS], or vramscope-fuzz measure FILE…"
    );
    ExitCode::FAILURE
}

/// The crate's folder.
fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

struct Run {
    name: &'static str,
    target: Target,
    random: Random,
    folder: PathBuf,
    corpus: Vec<Vec<u8>>,
    seen: BTreeSet<String>,
    watch: Watch,
    kept: usize,
}

impl Run {
    fn new(name: &'static str, target: Target, seed: u64, folder: PathBuf) -> Self {
        let mut run = Self {
            name,
            target,
            random: Random::new(seed),
            folder,
            corpus: Vec::new(),
            seen: BTreeSet::new(),
            watch: Watch::new(&home().join("findings")),
            kept: 0,
        };
        let mut files: Vec<PathBuf> = std::fs::read_dir(&run.folder)
            .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.sort();
        for file in files {
            let bytes = std::fs::read(file).unwrap_or_default();
            let signature = run.watch.run(target, &bytes);
            run.seen.insert(signature);
            run.corpus.push(bytes);
        }
        run
    }

    fn go(mut self, time: Duration) {
        let begin = Instant::now();
        let mut executions = 0u64;
        let mut said = Instant::now();
        println!("{}: {} inputs, {} signatures", self.name, self.corpus.len(), self.seen.len());
        while begin.elapsed() < time {
            let mut input =
                Mutator::new(self.name, MOST_BYTES).mutate(&self.any_input(), &self.any_input(), &mut self.random);
            if self.random.one_in(1000) {
                let most = MOST_BYTES_SELDOM >> self.random.below(4);
                input = Mutator::new(self.name, most).swell(&input, &mut self.random);
            }
            let signature = self.watch.run(self.target, &input);
            executions += 1;
            if self.seen.insert(signature) && input.len() <= MOST_BYTES {
                self.keep(input);
            }
            if said.elapsed() > Duration::from_secs(60) {
                said = Instant::now();
                println!(
                    "{} s: {executions} executions, {} kept, slowest {:.3} s, most memory {} MiB",
                    begin.elapsed().as_secs(),
                    self.kept,
                    self.watch.slowest().as_secs_f64(),
                    self.watch.most_memory() >> 20
                );
            }
        }
        println!(
            "{}: {executions} executions in {} s, {} signatures, {} new inputs kept, no finding",
            self.name,
            begin.elapsed().as_secs(),
            self.seen.len(),
            self.kept
        );
    }

    /// One of the inputs, small ones rather than large ones.
    fn any_input(&mut self) -> Vec<u8> {
        let (one, other) = (self.random.below(self.corpus.len()), self.random.below(self.corpus.len()));
        let empty: &[u8] = &[];
        let bytes = |index: usize| self.corpus.get(index).map_or(empty, Vec::as_slice);
        (if bytes(one).len() < bytes(other).len() { bytes(one) } else { bytes(other) }).to_vec()
    }

    fn keep(&mut self, input: Vec<u8>) {
        let name = format!("{:016x}", measure::hash(&input));
        // Without the file the input still serves this run.
        let _ = std::fs::write(self.folder.join(name), &input);
        self.corpus.push(input);
        self.kept += 1;
    }
}
