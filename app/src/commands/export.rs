//! `vramscope export`: what a recording says as a table for other programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vramscope_recording::Format;

use super::save;
use crate::saving;
use crate::session::RunState;
use crate::tables::{self, Contents};

/// What to write and where.
#[derive(Args)]
#[command(after_help = "Examples:\n  vramscope export snapshot.pickle --table blocks -o blocks.csv\n  \
                        vramscope export run.vmt --table events --format arrow -o events.arrow")]
pub(super) struct ExportArguments {
    /// A recording
    file: PathBuf,
    /// Which table
    #[arg(long, value_enum)]
    table: TableName,
    /// How to write it
    #[arg(long, value_enum, default_value_t = FormatName::Csv)]
    format: FormatName,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TableName {
    /// Every event, in order
    Events,
    /// Every block and its life
    Blocks,
    /// Every segment and its life
    Segments,
    /// Every call stack that allocated, with what it held at the peak and at the end
    Stacks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Comma-separated text
    Csv,
    /// An Arrow IPC file (Feather)
    Arrow,
}

/// Reads the recording and writes the table.
pub(super) fn run(arguments: &ExportArguments) -> Result<(), String> {
    let session = save::read(std::slice::from_ref(&arguments.file))?;
    let [run] = session.runs() else {
        let many = session.runs().len();
        return Err(format!("{} holds {many} recordings; name one of them", arguments.file.display()));
    };
    let failure = match &run.state {
        RunState::Failed(sentence) => Some(format!("{} {sentence}", run.origin)),
        _ => None,
    };
    if let Some(sentence) = &failure
        && run.history.end().0 == 0
    {
        return Err(sentence.clone());
    }
    let contents = match arguments.table {
        TableName::Events => Contents::Events,
        TableName::Blocks => Contents::Blocks,
        TableName::Segments => Contents::Segments,
        TableName::Stacks => Contents::Stacks,
    };
    let format = match arguments.format {
        FormatName::Csv => Format::Csv,
        FormatName::Arrow => Format::Arrow,
    };
    saving::into_file(&arguments.output, |out| tables::write(&run.history, contents, format, out).map(drop))?;
    failure.map_or(Ok(()), Err)
}
