//! The command line: one file a command. Data goes to stdout, messages to stderr.
//!
//! Exit codes: 0 = done, 1 = the input's fault, in one sentence, 2 = wrong usage.

mod open;
mod picture;
mod report;
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
}

/// Reads the arguments and runs the one command they name; the start page if they name none.
pub fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        None => window::start_page(),
        Some(Command::Open(arguments)) => open::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments),
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
