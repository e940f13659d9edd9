//! Writes recordings.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::ArrowError;
use vramscope_trace::{Batch, Dictionary, Event, FrameId, NameId, Problem, ProblemKind, RunInfo, StackId};

use crate::anonymous::Anonymizer;
use crate::facts;
use crate::row::Row;
use crate::rows::Rows;
use crate::schema::Kind;

/// Rows of a full record batch: enough that the batch's own few kilobytes do not count.
const BATCH_ROWS: usize = 1 << 16;

/// Bytes of texts and lists that make a record batch full.
const BATCH_HEAVY: usize = 16 << 20;

/// Writes one recording. What is told waits until a record batch is full or [`Writer::flush`] is called; what was flushed
/// stays readable whatever happens to the writer.
pub struct Writer<W: Write> {
    stream: StreamWriter<W>,
    rows: Rows,
    told: Dictionary,
    anonymizer: Option<Anonymizer>,
}

pub(crate) fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl<W: Write> Writer<W> {
    /// Begins a recording: writes its schema.
    ///
    /// # Errors
    /// When `out` does not take it. So with everything below.
    pub fn new(out: W) -> io::Result<Self> {
        Self::begin(out, None)
    }

    /// Begins a recording that tells no names: every text goes through `anonymizer`.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn anonymous(out: W, anonymizer: Anonymizer) -> io::Result<Self> {
        Self::begin(out, Some(anonymizer))
    }

    fn begin(out: W, anonymizer: Option<Anonymizer>) -> io::Result<Self> {
        let rows = Rows::new();
        // Level 3, the default: 9 takes three times as long and saves a twelfth.
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).map_err(io_error)?;
        let stream = StreamWriter::try_new_with_options(out, rows.schema(), options).map_err(io_error)?;
        Ok(Self { stream, rows, told: Dictionary::default(), anonymizer })
    }

    /// Tells facts about the run; those told last count.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn info(&mut self, info: &RunInfo) -> io::Result<()> {
        let hidden = self.anonymizer.as_ref().map(|anonymizer| anonymizer.info(info));
        let rows = &mut self.rows;
        facts::rows(hidden.as_ref().unwrap_or(info), &mut |row| rows.push(row));
        self.flush_if_full()
    }

    /// Tells what a source said.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        let mut dictionary = self.told.clone();
        for chunk in &batch.dictionary {
            if !dictionary.push(Arc::clone(chunk)) {
                let example = "names that do not follow those told before".to_owned();
                self.problem(&Problem { kind: ProblemKind::UnknownKey, count: 1, example })?;
            }
        }
        self.dictionary(&dictionary)?;
        for problem in &batch.problems {
            self.problem(problem)?;
        }
        batch.events.iter().try_for_each(|event| self.event(event))
    }

    /// Tells what a dictionary knows beyond the one told before, which it must continue.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn dictionary(&mut self, dictionary: &Dictionary) -> io::Result<()> {
        let told = std::mem::replace(&mut self.told, dictionary.clone()).counts();
        let now = dictionary.counts();
        for id in told.0..now.0 {
            let text = dictionary.name(NameId(id));
            let hidden = self.anonymizer.as_ref().map(|anonymizer| anonymizer.text(text));
            let text = hidden.as_deref().unwrap_or(text);
            self.push(&Row { kind: Kind::Name, id: Some(id), text: Some(text), ..Row::default() })?;
        }
        for id in told.1..now.1 {
            let Some(frame) = dictionary.frame(FrameId(id)) else { continue };
            let (file, function) = (Some(frame.file.0), Some(frame.function.0));
            let line = Some(frame.line).filter(|line| *line != 0);
            self.push(&Row { kind: Kind::Frame, id: Some(id), file, function, line, ..Row::default() })?;
        }
        let mut frames = Vec::new();
        for id in told.2..now.2 {
            frames.clear();
            frames.extend(dictionary.stack(StackId(id)).iter().map(|frame| frame.0));
            self.push(&Row { kind: Kind::Stack, id: Some(id), frames: Some(&frames), ..Row::default() })?;
        }
        Ok(())
    }

    /// Tells an event; names and stacks it mentions must have been told.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.push(&Row::of(event))
    }

    /// Tells that something is odd.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn problem(&mut self, problem: &Problem) -> io::Result<()> {
        let example = if self.anonymizer.is_some() { "not told in an anonymous copy" } else { &problem.example };
        let (key, value, text) = (Some(problem.kind.name()), Some(problem.count), Some(example));
        self.push(&Row { kind: Kind::Problem, key, value, text, ..Row::default() })
    }

    /// Writes what waits as a record batch of its own, and hands it to the system. For running jobs: after it, nothing told so
    /// far can be lost. Costs some kilobytes, so a few times a second is often enough.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.write_batch()?;
        self.stream.flush().map_err(io_error)
    }

    /// Writes what waits and the end mark.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.write_batch()?;
        self.stream.finish().map_err(io_error)?;
        let mut out = self.stream.into_inner().map_err(io_error)?;
        out.flush()?;
        Ok(out)
    }

    fn push(&mut self, row: &Row<'_>) -> io::Result<()> {
        self.rows.push(row);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.rows.count() >= BATCH_ROWS || self.rows.heavy() >= BATCH_HEAVY { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        if self.rows.count() == 0 {
            return Ok(());
        }
        let batch = self.rows.take().map_err(io_error)?;
        self.stream.write(&batch).map_err(io_error)
    }
}
