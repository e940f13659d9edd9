//! `vramscope save`: recordings in the program's own format, as they are or without names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use vramscope_recording::{Anonymizer, ENDING};

use crate::jobs::Wake;
use crate::saving;
use crate::session::{Run, RunState, Session};

/// What to save and where.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  vramscope save snapshot.pickle -o run.vmt\n  vramscope save snapshot.pickle -o shareable.vmt --anonymous\n  \
                        vramscope save ranks/ -o saved/"
)]
pub(super) struct SaveArguments {
    /// Recordings, or folders with one for each rank
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The file to write; for several recordings, a folder
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace file, function and annotation names by codes; sizes, addresses, times and the shape of stacks stay
    #[arg(long)]
    anonymous: bool,
}

/// Reads everything and writes a recording for each.
pub(super) fn run(arguments: &SaveArguments) -> Result<(), String> {
    let session = read(&arguments.files)?;
    // One secret for all, so that ranks of a job can still be compared.
    let anonymizer = arguments.anonymous.then(Anonymizer::new);
    let several = session.runs().len() > 1;
    if several {
        std::fs::create_dir_all(&arguments.output)
            .map_err(|error| format!("{} cannot be made a folder: {error}", arguments.output.display()))?;
    }
    let into_folder = several || arguments.output.is_dir();
    let mut written: Vec<PathBuf> = Vec::new();
    let mut failure = None;
    for run in session.runs() {
        if let RunState::Failed(sentence) = &run.state {
            failure = Some(format!("{} {sentence}", run.origin));
            if run.history.end().0 == 0 {
                continue;
            }
        }
        let path = if into_folder { free_name(&arguments.output, run, &written) } else { arguments.output.clone() };
        saving::save(&run.history, &path, anonymizer.as_ref())?;
        written.push(path);
    }
    failure.map_or(Ok(()), Err)
}

/// Reads recordings to the end.
pub(super) fn read(files: &[PathBuf]) -> Result<Session, String> {
    let wake: Wake = Arc::new(|| ());
    let mut session = Session::open(files, &wake)?;
    session.wait();
    Ok(session)
}

/// A file in `folder` named after a run's own file; a number tells files of the same name apart.
fn free_name(folder: &Path, run: &Run, taken: &[PathBuf]) -> PathBuf {
    let label = run.label.trim_end_matches(".gz");
    let stem = label.rsplit_once('.').map_or(label, |(stem, _)| stem);
    let numbered = (2..).map(|number| format!("{stem}-{number}{ENDING}"));
    let mut names = std::iter::once(format!("{stem}{ENDING}")).chain(numbered).map(|name| folder.join(name));
    names.find(|path| !taken.contains(path)).unwrap_or_else(|| folder.join(ENDING))
}
