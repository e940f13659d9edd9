//! Reads recordings.
//!
//! **Promise on untrusted input.** No input makes the reader panic or hang. It takes at most [`MEMORY_FACTOR`] bytes of memory
//! for each byte of what it unpacks, beyond [`MEMORY_FLOOR`], and unpacks at most [`UNPACK_FACTOR`] times what it has read,
//! beyond the same floor. Lengths in a file are checked against what is there before memory is asked for.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use arrow_ipc::root_as_message;
use vramscope_trace::{Batch, Frame, FrameId, Interner, NameId, Problem, ProblemKind, RunInfo, SourceMessage, StackId};

use crate::columns::{Budget, Columns, words};
use crate::facts;
use crate::layout::{self, Layout};
use crate::message::{Source, Stop};
use crate::row::{Ids, Row};
use crate::schema::Kind;
use crate::words::{Words, row_at};

/// The most memory the reader takes for each unpacked byte: names are kept, in two tables.
pub const MEMORY_FACTOR: u64 = 32;

/// Memory the reader may take for any input, and bytes that any input may unpack to.
pub const MEMORY_FLOOR: u64 = 64 << 20;

/// How many times its own size a recording may unpack to. A batch has a few kilobytes however little it says, so what
/// [`crate::Writer`] writes stays below half of that.
pub const UNPACK_FACTOR: u64 = 4096;

/// Events of a batch that is handed on.
const PIECE: usize = 4096;

/// Reads one recording, piece by piece.
pub struct Reader<R> {
    source: Source<R>,
    layout: Option<Layout>,
    words: Words,
    budget: Budget,
    columns: Option<(Columns, usize)>,
    known: Known,
    info: Option<RunInfo>,
    info_told: bool,
    row: u64,
    waiting: VecDeque<SourceMessage>,
    ended: bool,
}

/// What the file's numbers of names, frames and stacks mean here.
#[derive(Default)]
struct Known {
    interner: Interner,
    names: Vec<NameId>,
    frames: Vec<FrameId>,
    stacks: Vec<StackId>,
    /// Whether the file told any.
    told: bool,
    /// Problems of the rows read since the last piece.
    problems: Vec<Problem>,
}

impl Ids for Known {
    #[inline]
    fn name(&mut self, id: u32) -> NameId {
        self.names.get(id as usize).copied().unwrap_or_else(|| self.untold("name", id, NameId(0)))
    }

    #[inline]
    fn stack(&mut self, id: u32) -> StackId {
        self.stacks.get(id as usize).copied().unwrap_or_else(|| self.untold("stack", id, StackId::NONE))
    }
}

impl Known {
    /// What stands for an id that was not told. The first is always the empty one, told or not.
    #[cold]
    fn untold<T>(&mut self, what: &str, id: u32, instead: T) -> T {
        if id == 0 {
            return instead;
        }
        let example = || format!("{what} {id} is mentioned but was not told");
        Problem::note(&mut self.problems, ProblemKind::UnknownKey, 1, example);
        instead
    }

    /// Takes a name, frame or stack. False if it is not the next one.
    fn define(&mut self, row: &Row<'_>) -> bool {
        let next = match row.kind {
            Kind::Name => self.names.len(),
            Kind::Frame => self.frames.len(),
            _ => self.stacks.len(),
        };
        if row.id.is_none_or(|id| id as usize != next) {
            return false;
        }
        self.told = true;
        match (row.kind, row.text, row.frames, row.file.zip(row.function)) {
            (Kind::Name, Some(text), _, _) => self.names.push(self.interner.name(text)),
            (Kind::Frame, _, _, Some((file, function))) => {
                let frame = Frame { file: self.name(file), function: self.name(function), line: row.line.unwrap_or(0) };
                self.frames.push(self.interner.frame(frame));
            }
            (Kind::Stack, _, Some(frames), _) => {
                let known: Option<Vec<FrameId>> =
                    frames.iter().map(|frame| self.frames.get(*frame as usize).copied()).collect();
                let frames = known.unwrap_or_else(|| self.untold("a frame of stack", (next as u32).max(1), Vec::new()));
                self.stacks.push(self.interner.stack(&frames));
            }
            _ => return false,
        }
        true
    }
}

/// The longest sentence a problem has, in bytes.
const MOST_EXAMPLE: usize = 4095;

/// A text of the file as a sentence may quote it.
fn quoted(text: &str) -> String {
    let mut sentence = String::new();
    for c in text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }) {
        if sentence.len() + c.len_utf8() > MOST_EXAMPLE {
            break;
        }
        sentence.push(c);
    }
    sentence
}

impl<R: Read> Reader<R> {
    /// A reader at the start of a recording.
    pub fn new(source: R) -> Self {
        Self {
            source: Source::new(source),
            layout: None,
            words: Words::default(),
            budget: Budget::default(),
            columns: None,
            known: Known::default(),
            info: None,
            info_told: true,
            row: 0,
            waiting: VecDeque::new(),
            ended: false,
        }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// What the file says next. The last is [`SourceMessage::Done`] or [`SourceMessage::Failed`]; after it comes nothing.
    pub fn next_message(&mut self) -> Option<SourceMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            if self.ended {
                return None;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => self.end(None),
                Err(stop) => self.stop(stop),
            }
        }
    }

    /// Hands on a piece of the open batch, or opens the next. False at the end mark.
    fn step(&mut self) -> Result<bool, Stop> {
        if let Some((columns, next)) = self.columns.take() {
            let next = self.piece(&columns, next);
            if next < columns.rows {
                self.columns = Some((columns, next));
            } else {
                self.tell_info();
            }
            return Ok(true);
        }
        if !self.source.header()? {
            // A stream that ends before it has said what its columns are is none of ours.
            let told = self.layout.is_some();
            return if told { Ok(false) } else { Err(Stop::Failed(NO_RECORDING.to_owned())) };
        }
        let (header, _) = self.source.message();
        let message = root_as_message(header).map_err(|_| Stop::torn("a header is damaged"))?;
        let length = message.bodyLength();
        self.source.body(length)?;
        let so_far = self.source.offset();
        let (header, body) = self.source.message();
        let message = root_as_message(header).map_err(|_| Stop::torn("a header is damaged"))?;
        let Some(layout) = &self.layout else {
            let schema = message.header_as_schema().ok_or_else(|| Stop::Failed(NO_RECORDING.to_owned()))?;
            self.layout = Some(layout::of(schema).map_err(Stop::Failed)?);
            return Ok(true);
        };
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            let batch = dictionary.data().ok_or_else(|| Stop::torn("a dictionary is empty"))?;
            let list = words(batch, body, &mut self.budget, so_far)?;
            self.words.set(dictionary.id(), list, dictionary.isDelta());
        } else if let Some(batch) = message.header_as_record_batch() {
            let columns = Columns::of(batch, body, layout, &mut self.budget, so_far)?;
            self.words.prepare(layout);
            self.columns = Some((columns, 0));
        } else {
            return Err(Stop::torn("there is a message of unknown kind"));
        }
        Ok(true)
    }

    /// Reads rows until a piece is full, or something comes that has to stand behind what was read. The next row.
    fn piece(&mut self, columns: &Columns, first: usize) -> usize {
        let mut batch = Batch::default();
        let mut next = first;
        let most = columns.rows.min(first + PIECE);
        while next < most {
            let row = row_at(columns, next, &self.words);
            match row {
                Ok(row) if row.kind == Kind::Problem && !batch.events.is_empty() => break,
                Ok(row) => self.take(&row, &mut batch),
                Err(word) => self.unknown(word),
            }
            next += 1;
            self.row += 1;
        }
        if self.known.told {
            batch.dictionary = self.known.interner.take_chunks();
        }
        batch.problems.append(&mut self.known.problems);
        if !(batch.events.is_empty() && batch.dictionary.is_empty() && batch.problems.is_empty()) {
            self.waiting.push_back(SourceMessage::Batch(batch));
        }
        next
    }

    #[inline]
    fn take(&mut self, row: &Row<'_>, batch: &mut Batch) {
        let good = match row.kind {
            Kind::Name | Kind::Frame | Kind::Stack => self.known.define(row),
            Kind::Run => {
                self.info_told = false;
                facts::take(row, self.info.get_or_insert_default())
            }
            Kind::Problem => self.problem(row, batch),
            _ => match row.event(&mut self.known) {
                Ok(event) => {
                    batch.events.push(event);
                    true
                }
                Err(_) => false,
            },
        };
        if !good {
            self.unknown("a row");
        }
    }

    fn problem(&mut self, row: &Row<'_>, batch: &mut Batch) -> bool {
        let kind = ProblemKind::ALL.into_iter().find(|kind| row.key == Some(kind.name()));
        let Some((kind, count)) = kind.zip(row.value) else { return false };
        let example = quoted(row.text.unwrap_or_default());
        batch.problems.push(Problem { kind, count, example });
        true
    }

    #[cold]
    fn unknown(&mut self, what: &str) {
        let row = self.row;
        Problem::note(&mut self.known.problems, ProblemKind::UnknownKey, 1, || {
            format!("row {row} of the recording: {what} that this version cannot read; it was left out")
        });
    }

    fn tell_info(&mut self) {
        if !std::mem::replace(&mut self.info_told, true)
            && let Some(info) = &self.info
        {
            self.waiting.push_back(SourceMessage::Info(Arc::new(info.clone())));
        }
    }

    fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::Torn(_) if self.layout.is_none() => self.fail(NO_RECORDING.to_owned()),
            Stop::Torn(why) => {
                let example = format!("after byte {}: {why}", self.source.offset());
                self.end(Some(Problem { kind: ProblemKind::TornFile, count: 1, example }));
            }
            Stop::Failed(sentence) => self.fail(sentence),
        }
    }

    fn fail(&mut self, sentence: String) {
        self.ended = true;
        self.waiting.push_back(SourceMessage::Failed(sentence));
    }

    fn end(&mut self, problem: Option<Problem>) {
        self.ended = true;
        if let Some(problem) = problem {
            self.waiting.push_back(SourceMessage::Batch(Batch { problems: vec![problem], ..Batch::default() }));
        }
        if self.info.is_none() {
            let info = RunInfo { format: "vramscope recording".to_owned(), ..RunInfo::default() };
            self.waiting.push_back(SourceMessage::Info(Arc::new(info)));
        }
        self.waiting.push_back(SourceMessage::Done);
    }
}

/// What a stream without a schema is.
const NO_RECORDING: &str = "begins like a vramscope recording but is none: its first message is no schema";
