//! `vramscope report`: the facts of recordings as JSON for programs or as a short text for people.

mod facts;
mod text;
mod training;
mod verdict;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::jobs::Wake;
use crate::session::{Run, RunState, Session};
use crate::widgets::bytes;

use self::facts::Report;

/// What to report on.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  vramscope report snapshot.pickle\n  vramscope report snapshot.pickle --json | jq '.devices[0].peak_allocated_bytes'\n  vramscope report ranks/"
)]
pub(super) struct ReportArguments {
    /// Recordings, or folders with one for each rank
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write JSON: an object, or with several recordings a list of objects
    #[arg(long)]
    json: bool,
    /// The card's size, as in 24GiB, where it is not the one that failures show
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse)]
    capacity: Option<u64>,
}

/// Reads everything and writes the report to stdout.
pub(super) fn run(arguments: &ReportArguments) -> Result<(), String> {
    let wake: Wake = Arc::new(|| ());
    let mut session = Session::open(&arguments.files, &wake)?;
    session.wait();
    let reports = reports(session.runs(), arguments.capacity);
    if arguments.json { print_json(&reports, session.runs().len()) } else { print_texts(&reports) }
}

/// Writes the text report of what has been read to stdout.
///
/// # Errors
/// A sentence, if a recording could not be read; the others are reported all the same.
pub(super) fn print_text(runs: &[Run]) -> Result<(), String> {
    print_texts(&reports(runs, None))
}

/// Reports, and a sentence about what could not be read.
type Reports = (Vec<Report>, Option<String>);

fn print_texts((reports, failure): &Reports) -> Result<(), String> {
    let texts: Vec<String> = reports.iter().map(text::of).collect();
    let mut all = texts.join("\n");
    if let Some(comparison) = text::comparison(reports) {
        all.push('\n');
        all.push_str(&comparison);
    }
    print(&all)?;
    failure.clone().map_or(Ok(()), Err)
}

fn print_json((reports, failure): &Reports, runs: usize) -> Result<(), String> {
    let encoded = match &reports[..] {
        [] => Ok(String::new()),
        [report] if runs == 1 => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    let mut encoded = encoded.map_err(|error| format!("the report cannot be written as JSON: {error}"))?;
    if !encoded.is_empty() {
        encoded.push('\n');
    }
    print(&encoded)?;
    failure.clone().map_or(Ok(()), Err)
}

/// A report of every run that has something in it, and a sentence about those that could not be read.
fn reports(runs: &[Run], card: Option<u64>) -> Reports {
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    for run in runs {
        match &run.state {
            RunState::Failed(sentence) => failures.push(format!("{} {sentence}", run.origin)),
            RunState::Ready | RunState::Loading => reports.push(Report::of(run, card)),
        }
    }
    (reports, (!failures.is_empty()).then(|| failures.join("; ")))
}

fn print(text: &str) -> Result<(), String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Someone who pipes into `head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the report cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
