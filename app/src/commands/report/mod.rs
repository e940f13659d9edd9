//! `vramscope report`: the facts of recordings as JSON for programs or as a short text for people.

mod facts;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::jobs::Wake;
use crate::session::{Run, RunState, Session};

use self::facts::Report;

/// What to report on.
#[derive(Args)]
#[command(after_help = "Examples:\n  vramscope report snapshot.pickle\n  vramscope report snapshot.pickle --json | jq '.devices[0].peak_allocated_bytes'\n  vramscope report ranks/")]
pub(super) struct ReportArguments {
    /// Recordings, or folders with one for each rank
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write JSON: an object, or with several recordings a list of objects
    #[arg(long)]
    json: bool,
}

/// Reads everything and writes the report to stdout.
pub(super) fn run(arguments: &ReportArguments) -> Result<(), String> {
    let wake: Wake = Arc::new(|| ());
    let mut session = Session::open(&arguments.files, &wake)?;
    session.wait();
    if arguments.json { print_json(session.runs()) } else { print_text(session.runs()) }
}

/// Writes the text report of what has been read to stdout.
///
/// # Errors
/// A sentence, if a recording could not be read; the others are reported all the same.
pub(super) fn print_text(runs: &[Run]) -> Result<(), String> {
    let (reports, failure) = reports(runs);
    let texts: Vec<String> = reports.iter().map(text::of).collect();
    let mut all = texts.join("\n");
    if let Some(comparison) = text::comparison(&reports) {
        all.push('\n');
        all.push_str(&comparison);
    }
    print(&all)?;
    failure.map_or(Ok(()), Err)
}

fn print_json(runs: &[Run]) -> Result<(), String> {
    let (reports, failure) = reports(runs);
    let encoded = match &reports[..] {
        [] => Ok(String::new()),
        [report] if runs.len() == 1 => serde_json::to_string_pretty(report),
        reports => serde_json::to_string_pretty(reports),
    };
    let mut encoded = encoded.map_err(|error| format!("the report cannot be written as JSON: {error}"))?;
    if !encoded.is_empty() {
        encoded.push('\n');
    }
    print(&encoded)?;
    failure.map_or(Ok(()), Err)
}

/// A report of every run that has something in it, and a sentence about those that could not be read.
fn reports(runs: &[Run]) -> (Vec<Report>, Option<String>) {
    let mut failures = Vec::new();
    let mut reports = Vec::new();
    for run in runs {
        match &run.state {
            RunState::Failed(sentence) => failures.push(format!("{} {sentence}", run.origin)),
            RunState::Ready | RunState::Loading => reports.push(Report::of(run)),
        }
    }
    (reports, (!failures.is_empty()).then(|| failures.join("; ")))
}

fn print(text: &str) -> Result<(), String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Someone who pipes into `head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("the report cannot be written: {error}")),
        _ => Ok(()),
    }
}
