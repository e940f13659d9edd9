//! Saves what is open as a recording (`.vmt`).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use vramscope_model::{EventSeq, History};
use vramscope_recording::{Anonymizer, Writer};
use vramscope_trace::Problem;

/// Writes a history so that reading it back gives the same one.
///
/// # Errors
/// When the writer's output does not take it.
pub fn write<W: Write>(history: &History, mut writer: Writer<W>) -> io::Result<W> {
    if let Some(info) = history.info() {
        writer.info(info)?;
    }
    writer.dictionary(history.dictionary())?;
    // Of each kind the first problem told is the example. What the source told first must stand before the events, which may
    // bring problems of the same kind; what it told later, behind them.
    let all = history.problems();
    let is_first = |told: &&Problem| all.iter().any(|known| known.kind == told.kind && known.example == told.example);
    let (before, behind): (Vec<&Problem>, Vec<&Problem>) = history.told_problems().iter().partition(is_first);
    before.into_iter().try_for_each(|problem| writer.problem(problem))?;
    for seq in 0..history.end().0 {
        if let Some(view) = history.event(EventSeq(seq)) {
            writer.event(&view.event)?;
        }
    }
    behind.into_iter().try_for_each(|problem| writer.problem(problem))?;
    writer.finish()
}

/// Writes a history into a file, which appears only when it is complete.
///
/// # Errors
/// A sentence with the file's name.
pub fn save(history: &History, path: &Path, anonymizer: Option<&Anonymizer>) -> Result<(), String> {
    into_file(path, |out| {
        let writer = match anonymizer {
            Some(anonymizer) => Writer::anonymous(out, anonymizer.clone())?,
            None => Writer::new(out)?,
        };
        write(history, writer).map(drop)
    })
}

/// Lets `fill` write a file under a name of its own, and gives it the right name at the end.
///
/// # Errors
/// A sentence with the file's name.
pub fn into_file(path: &Path, fill: impl FnOnce(BufWriter<File>) -> io::Result<()>) -> Result<(), String> {
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let done =
        File::create(&part).and_then(|file| fill(BufWriter::new(file))).and_then(|()| std::fs::rename(&part, path));
    done.map_err(|error| {
        // What there is of it is of no use; if it cannot be removed, the sentence says enough.
        let _ = std::fs::remove_file(&part);
        format!("{} cannot be written: {error}", path.display())
    })
}
