//! The command line: one file a command. Data goes to stdout, messages to stderr.
//!
//! Exit codes: 0 = done, 1 = the input's fault, in one sentence, 2 = wrong usage.

mod explain;
mod export;
mod forecast;
mod open;
mod picture;
mod report;
mod save;
mod whatif;
mod why;
mod window;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows where a training job's GPU memory goes.
#[derive(Parser)]
#[command(name = "vramscope", version, about, subcommand_required = false)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Open recordings in a window, or paint one into a picture.
    Open(open::OpenArguments),
    /// Say what is in recordings, as text or JSON.
    Report(report::ReportArguments),
    /// Save recordings in the program's own format, which other programs read too.
    Save(save::SaveArguments),
    /// Write events, blocks, segments or call stacks of a recording as a table.
    Export(export::ExportArguments),
    /// Say after each step of recorded runs how likely they are to run out of memory soon.
    Forecast(forecast::ForecastArguments),
    /// Say what an out-of-memory message means: which limit was hit, where the memory went, what can help.
    Explain(explain::ExplainArguments),
    /// Predict the recorded run under other allocator settings.
    Whatif(whatif::WhatifArguments),
}

/// Reads the arguments and runs the one command they name; the start page if they name none.
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        None => window::start_page(),
        Some(Command::Open(arguments)) => open::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
        Some(Command::Save(arguments)) => save::run(&arguments),
        Some(Command::Export(arguments)) => export::run(&arguments),
        Some(Command::Forecast(arguments)) => forecast::run(&arguments),
        Some(Command::Explain(arguments)) => explain::run(&arguments),
        Some(Command::Whatif(arguments)) => whatif::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            complain(&sentence);
            ExitCode::FAILURE
        }
    }
}

/// Writes a sentence for the user to stderr.
#[expect(clippy::print_stderr, reason = "this is where messages to the terminal go")]
fn complain(sentence: &str) {
    eprintln!("vramscope: {sentence}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
