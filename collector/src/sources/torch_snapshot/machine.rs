//! The reader's stack machine: what both syntaxes (pickle and JSON) drive, and the tables a snapshot is folded into.
//!
//! No tree of values is built. A dictionary becomes a row of a table as soon as its keys tell what it is, a list of such rows a
//! range, a list of frames a stack id; only what fits no table (settings, odd files) is kept as lists and pairs.

use crossbeam_channel::Sender;
use rustc_hash::FxHashMap;
use vramscope_trace::{FrameId, Interner, NameId, PoolOwner, Problem, ProblemKind, StackId};

use super::keys;
use super::rows::{AnnotationRow, BlockRow, CHUNK_ROWS, EntryChunk, EntryRow, SegmentRow};
use super::value::{DictSlot, ListSlot, Memo, RowKind, Value, Word};

/// What the machine hands to the placer while it still reads.
pub(super) enum Streamed {
    /// The segments known so far; sent once, before the first entries.
    Segments(Vec<SegmentRow>),
    /// The next entries.
    Entries(EntryChunk),
}

/// Stack, marks, memo and tables.
pub(super) struct Machine {
    pub interner: Interner,
    pub stack: Vec<Word>,
    /// Numbers that do not fit into a word.
    wide: Vec<Value>,
    pub marks: Vec<usize>,
    pub memo: Memo,
    pub problems: Vec<Problem>,
    pub(super) lists: Vec<ListSlot>,
    pub(super) items: Vec<Vec<Word>>,
    spare_items: Vec<u32>,
    pub(super) dicts: Vec<DictSlot>,
    pub(super) pair_vectors: Vec<Vec<(Word, Word)>>,
    spare_pairs: Vec<u32>,
    /// Complete chunks of entries; each holds [`CHUNK_ROWS`], the last may hold fewer.
    pub entry_chunks: Vec<EntryChunk>,
    pub(super) open_entries: Vec<EntryRow>,
    pub segments: Vec<SegmentRow>,
    pub blocks: Vec<BlockRow>,
    pub annotations: Vec<AnnotationRow>,
    pub pools: Vec<PoolOwner>,
    pub(super) pool_numbers: FxHashMap<PoolOwner, u16>,
    /// Where entries go while they are read; `None` once that has no use.
    stream: Option<Sender<Streamed>>,
    segments_sent: bool,
    frames_scratch: Vec<FrameId>,
}

impl Machine {
    /// An empty machine that sends complete entries along `stream`.
    pub(super) fn new(stream: Option<Sender<Streamed>>) -> Self {
        Self {
            interner: keys::interner(),
            stack: Vec::new(),
            wide: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            problems: Vec::new(),
            lists: Vec::new(),
            items: Vec::new(),
            spare_items: Vec::new(),
            dicts: Vec::new(),
            pair_vectors: Vec::new(),
            spare_pairs: Vec::new(),
            entry_chunks: Vec::new(),
            open_entries: Vec::with_capacity(CHUNK_ROWS),
            segments: Vec::new(),
            blocks: Vec::new(),
            annotations: Vec::new(),
            pools: Vec::new(),
            pool_numbers: FxHashMap::default(),
            stream,
            segments_sent: false,
            frames_scratch: Vec::new(),
        }
    }

    /// Notes a problem about the file's content.
    pub(super) fn note(&mut self, kind: ProblemKind, example: impl FnOnce() -> String) {
        Problem::note(&mut self.problems, kind, 1, example);
    }

    /// Pushes a new empty list.
    pub(super) fn push_list(&mut self) {
        let id = self.lists.len() as u32;
        self.lists.push(ListSlot::Empty);
        self.stack.push(Word::list(id));
    }

    /// Pushes a new empty dictionary.
    #[inline]
    pub(super) fn push_dict(&mut self) {
        let id = self.dicts.len() as u32;
        self.dicts.push(DictSlot::Empty);
        self.stack.push(Word::dict(id));
    }

    /// Whether more containers were made than the tables can number; the reader then stops.
    pub(super) fn is_full(&self) -> bool {
        self.lists.len().max(self.dicts.len()) >= u32::MAX as usize - 1 || self.interner.overflowed()
    }

    /// Makes a list of everything above `from` on the stack and leaves it there instead.
    pub(super) fn collect_list(&mut self, from: usize) {
        self.push_list();
        if let Some(list) = self.stack.pop() {
            self.append_from(list, from);
            self.stack.push(list);
        }
    }

    /// Appends everything above `from` on the stack to `list` and removes it from the stack.
    pub(super) fn append_from(&mut self, list: Word, from: usize) {
        let Some(id) = list.as_list() else {
            self.stack.truncate(from);
            self.note(ProblemKind::UnknownKey, || "a value was appended to something that is no list".into());
            return;
        };
        if from >= self.stack.len() {
            return;
        }
        if let Some((kind, first)) = self.row_run(from) {
            let count = (self.stack.len() - from) as u32;
            match &mut self.lists[id as usize] {
                slot @ ListSlot::Empty => {
                    *slot = ListSlot::Rows { kind, first, count };
                    self.stack.truncate(from);
                    return;
                }
                ListSlot::Rows { kind: known, first: start, count: length }
                    if *known == kind && *start + *length == first =>
                {
                    *length += count;
                    self.stack.truncate(from);
                    return;
                }
                _ => {}
            }
        }
        let Some(vector) = self.items_of(id) else {
            self.stack.truncate(from);
            self.note(ProblemKind::UnknownKey, || "a call stack was changed after it was used".into());
            return;
        };
        let mut items = std::mem::take(&mut self.items[vector as usize]);
        items.extend(self.stack.drain(from..));
        self.items[vector as usize] = items;
    }

    /// The kind and first row if everything above `from` are rows of one kind that follow one another.
    fn row_run(&self, from: usize) -> Option<(RowKind, u32)> {
        let row_of = |word: Word| match self.dicts[word.as_dict()? as usize] {
            DictSlot::Row { kind, row } => Some((kind, row)),
            _ => None,
        };
        let (kind, first) = row_of(*self.stack.get(from)?)?;
        let follows = (first..).zip(&self.stack[from..]).all(|(row, &word)| row_of(word) == Some((kind, row)));
        follows.then_some((kind, first))
    }

    /// The item vector of a list, made from its compact form if it had one. `None` for a list that became a stack.
    fn items_of(&mut self, list: u32) -> Option<u32> {
        match self.lists[list as usize] {
            ListSlot::Items(vector) => return Some(vector),
            ListSlot::Stack(_) => return None,
            ListSlot::Empty | ListSlot::Rows { .. } => {}
        }
        let vector = self.spare_items.pop().unwrap_or_else(|| {
            self.items.push(Vec::new());
            self.items.len() as u32 - 1
        });
        if let ListSlot::Rows { kind, first, count } = self.lists[list as usize] {
            // Dictionaries of these rows exist, but not under known numbers: each row gets one of its own.
            for row in first..first + count {
                let id = self.dicts.len() as u32;
                self.dicts.push(DictSlot::Row { kind, row });
                self.items[vector as usize].push(Word::dict(id));
            }
        }
        self.lists[list as usize] = ListSlot::Items(vector);
        Some(vector)
    }

    /// How many items a list has, and each of them by index. Rows are given as dictionaries only by [`Machine::row_at`].
    pub(super) fn list_len(&self, list: u32) -> usize {
        match self.lists[list as usize] {
            ListSlot::Empty | ListSlot::Stack(_) => 0,
            ListSlot::Rows { count, .. } => count as usize,
            ListSlot::Items(vector) => self.items[vector as usize].len(),
        }
    }

    /// The item at `index` of a list that is not folded into rows.
    pub(super) fn item(&self, list: u32, index: usize) -> Option<Value> {
        match self.lists[list as usize] {
            ListSlot::Items(vector) => self.items[vector as usize].get(index).map(|&word| self.decode(word)),
            _ => None,
        }
    }

    /// The row of `kind` that stands at `index` of a list.
    pub(super) fn row_at(&self, list: u32, kind: RowKind, index: usize) -> Option<u32> {
        match self.lists[list as usize] {
            ListSlot::Rows { kind: known, first, count } if known == kind && index < count as usize => {
                Some(first + index as u32)
            }
            ListSlot::Items(vector) => self.row_of(*self.items[vector as usize].get(index)?, kind),
            _ => None,
        }
    }

    /// The row of `kind` that a dictionary stands for.
    pub(super) fn row_of(&self, word: Word, kind: RowKind) -> Option<u32> {
        match self.dicts[word.as_dict()? as usize] {
            DictSlot::Row { kind: known, row } if known == kind => Some(row),
            _ => None,
        }
    }

    /// The stack a `frames` value stands for. A list is folded into one on first use and is not kept.
    pub(super) fn stack_of(&mut self, frames: Word) -> StackId {
        let Some(id) = frames.as_list() else { return StackId::NONE };
        match self.lists[id as usize] {
            ListSlot::Empty | ListSlot::Rows { .. } => StackId::NONE,
            ListSlot::Stack(stack) => stack,
            ListSlot::Items(vector) => {
                let mut frames = std::mem::take(&mut self.frames_scratch);
                frames.clear();
                let items = std::mem::take(&mut self.items[vector as usize]);
                frames.extend(items.iter().filter_map(|&item| self.frame_of(item)));
                let stack = self.interner.stack(&frames);
                self.frames_scratch = frames;
                self.recycle_items(vector, items);
                self.lists[id as usize] = ListSlot::Stack(stack);
                stack
            }
        }
    }

    pub(super) fn recycle_items(&mut self, vector: u32, mut items: Vec<Word>) {
        items.clear();
        // A long vector would keep its memory for short stacks to come.
        if items.capacity() <= 256 {
            self.items[vector as usize] = items;
        }
        self.spare_items.push(vector);
    }

    /// The pair vector of a dictionary that fits no table yet.
    pub(super) fn pairs_of(&mut self, dict: u32) -> u32 {
        if let DictSlot::Pairs(vector) = self.dicts[dict as usize] {
            return vector;
        }
        let vector = self.spare_pairs.pop().unwrap_or_else(|| {
            self.pair_vectors.push(Vec::new());
            self.pair_vectors.len() as u32 - 1
        });
        self.dicts[dict as usize] = DictSlot::Pairs(vector);
        vector
    }

    /// Takes the pairs of a dictionary that has just found its table.
    pub(super) fn take_pairs(&mut self, vector: u32) -> Vec<(Word, Word)> {
        self.spare_pairs.push(vector);
        std::mem::take(&mut self.pair_vectors[vector as usize])
    }

    /// What a word means.
    pub(super) fn decode(&self, word: Word) -> Value {
        word.decode(&self.wide)
    }

    /// Pushes a number that may not fit into a word.
    #[inline]
    pub(super) fn push_number(&mut self, value: Value) {
        let word = match value {
            Value::Int(number) => Word::int(number),
            _ => None,
        };
        let word = word.unwrap_or_else(|| {
            self.wide.push(value);
            Word::wide(self.wide.len() - 1)
        });
        self.stack.push(word);
    }

    /// As an unsigned 64-bit number: an address, a size, a stream handle. `None` for everything else.
    #[inline]
    pub(super) fn unsigned(&self, word: Word) -> Option<u64> {
        match word.as_int() {
            Some(number) => u64::try_from(number).ok(),
            None => self.decode(word).unsigned(),
        }
    }

    /// As a signed 64-bit number: a time.
    #[inline]
    pub(super) fn signed(&self, word: Word) -> Option<i64> {
        word.as_int().or_else(|| self.decode(word).signed())
    }

    /// The pairs of a dictionary that fits no table, decoded; none for any other value.
    pub(super) fn pairs(&self, dict: Value) -> impl DoubleEndedIterator<Item = (Value, Value)> {
        let pairs: &[(Word, Word)] = match dict {
            Value::Dict(id) => match self.dicts[id as usize] {
                DictSlot::Pairs(vector) => &self.pair_vectors[vector as usize],
                _ => &[],
            },
            _ => &[],
        };
        pairs.iter().map(|&(key, value)| (self.decode(key), self.decode(value)))
    }

    /// The value under `key` in a small dictionary that fits no table; the last one counts. Only the last 64 pairs are looked
    /// at: a large dictionary that is asked again and again would cost the square of its size.
    pub(super) fn lookup(&self, dict: Value, key: NameId) -> Option<Value> {
        self.pairs(dict).rev().take(64).find(|(name, _)| *name == Value::Name(key)).map(|(_, value)| value)
    }

    /// The number of a new entry row, which is the last of the open chunk.
    #[inline]
    pub(super) fn new_entry(&mut self) -> u32 {
        if self.open_entries.len() == CHUNK_ROWS {
            self.close_entries();
        }
        self.open_entries.push(EntryRow::default());
        (self.entry_chunks.len() * CHUNK_ROWS + self.open_entries.len() - 1) as u32
    }

    /// An entry that can still be changed; `None` once its chunk is complete.
    #[inline]
    pub(super) fn entry_mut(&mut self, row: u32) -> Option<&mut EntryRow> {
        let index = (row as usize).checked_sub(self.entry_chunks.len() * CHUNK_ROWS)?;
        self.open_entries.get_mut(index)
    }

    /// How many entries were read.
    pub(super) fn entries(&self) -> usize {
        let complete = match self.entry_chunks.split_last() {
            Some((last, before)) => before.len() * CHUNK_ROWS + last.rows.len(),
            None => 0,
        };
        complete + self.open_entries.len()
    }

    /// Completes the open chunk and sends it on. A chunk that is not full must be the last.
    pub(super) fn close_entries(&mut self) {
        if self.open_entries.is_empty() {
            return;
        }
        let rows = std::mem::replace(&mut self.open_entries, Vec::with_capacity(CHUNK_ROWS));
        let chunk = EntryChunk { rows: rows.into(), dictionary: self.interner.take_chunks() };
        if let Some(stream) = &self.stream {
            let first = (!self.segments_sent).then(|| Streamed::Segments(self.segments.clone()));
            self.segments_sent = true;
            let gone = first.is_some_and(|first| stream.send(first).is_err())
                || stream.send(Streamed::Entries(chunk.clone())).is_err();
            if gone {
                self.stream = None;
            }
        }
        self.entry_chunks.push(chunk);
    }

    /// Nothing more is worth sending while the file is read.
    pub(super) fn stop_streaming(&mut self) {
        self.stream = None;
    }
}
