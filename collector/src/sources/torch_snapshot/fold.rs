//! Folds dictionaries into rows: what each key of a trace entry, segment, block, frame or annotation means.

use vramscope_trace::{Frame, FrameId, NameId, PoolOwner, ProblemKind, SizeClass, StackId};

use super::error::quoted;
use super::keys;
use super::machine::Machine;
use super::rows::{Action, AnnotationRow, BlockRow, BlockState, EntryRow, SegmentRow, odd};
use super::value::{DictSlot, ListSlot, RowKind, Value, Word};

/// What a dictionary turns out to be.
#[derive(Clone, Copy)]
enum Shape {
    Row(RowKind),
    Frame,
}

/// The shape that `key` gives away, if any.
#[inline]
fn shape_of(key: Word) -> Option<Shape> {
    match key.as_name()? {
        keys::ACTION => Some(Shape::Row(RowKind::Entry)),
        keys::FILENAME => Some(Shape::Frame),
        keys::STATE => Some(Shape::Row(RowKind::Block)),
        keys::TOTAL_SIZE | keys::SEGMENT_TYPE | keys::BLOCKS => Some(Shape::Row(RowKind::Segment)),
        keys::STAGE => Some(Shape::Row(RowKind::Annotation)),
        _ => None,
    }
}

impl Machine {
    /// Sets everything above `from` on the stack, as key, value, key, value, in `dict` and removes it from the stack.
    #[inline]
    pub(super) fn set_from(&mut self, dict: Word, from: usize) {
        let Some(id) = dict.as_dict() else {
            self.stack.truncate(from);
            self.note(ProblemKind::UnknownKey, || "a key was set in something that is no dictionary".into());
            return;
        };
        let mut slot = self.dicts[id as usize];
        if let DictSlot::Frame(known) = slot {
            let frame = self.interner.frame_by_id(known).unwrap_or(Frame::EMPTY);
            return self.set_frame(id, frame, &[], from);
        }
        if matches!(slot, DictSlot::Empty | DictSlot::Pairs(_)) {
            let shape = self.stack[from..].iter().step_by(2).find_map(|&key| shape_of(key));
            let Some(shape) = shape else {
                let vector = self.pairs_of(id) as usize;
                let mut pairs = std::mem::take(&mut self.pair_vectors[vector]);
                pairs.extend(self.stack[from..].as_chunks::<2>().0.iter().map(|&[key, value]| (key, value)));
                self.pair_vectors[vector] = pairs;
                self.stack.truncate(from);
                return;
            };
            let early = match slot {
                DictSlot::Pairs(vector) => self.take_pairs(vector),
                _ => Vec::new(),
            };
            let kind = match shape {
                Shape::Frame => return self.set_frame(id, Frame::EMPTY, &early, from),
                Shape::Row(kind) => kind,
            };
            slot = self.new_row(kind);
            self.dicts[id as usize] = slot;
            for (key, value) in early {
                self.set(slot, key, value);
            }
        }
        let mut at = from;
        while at + 1 < self.stack.len() {
            self.set(slot, self.stack[at], self.stack[at + 1]);
            at += 2;
        }
        self.stack.truncate(from);
    }

    fn new_row(&mut self, kind: RowKind) -> DictSlot {
        let row = match kind {
            RowKind::Entry => self.new_entry(),
            RowKind::Segment => {
                self.segments.push(SegmentRow::default());
                self.segments.len() as u32 - 1
            }
            RowKind::Block => {
                self.blocks.push(BlockRow::default());
                self.blocks.len() as u32 - 1
            }
            RowKind::Annotation => {
                self.annotations.push(AnnotationRow::default());
                self.annotations.len() as u32 - 1
            }
        };
        DictSlot::Row { kind, row }
    }

    /// Sets one key of a row.
    #[inline]
    fn set(&mut self, slot: DictSlot, key: Word, value: Word) {
        let Some(key) = key.as_name() else {
            self.note(ProblemKind::UnknownKey, || "a key that is no text".into());
            return;
        };
        match slot {
            DictSlot::Row { kind: RowKind::Entry, row } => self.set_entry(row, key, value),
            DictSlot::Row { kind: RowKind::Segment, row } => self.set_segment(row as usize, key, value),
            DictSlot::Row { kind: RowKind::Block, row } => self.set_block(row as usize, key, value),
            DictSlot::Row { kind: RowKind::Annotation, row } => self.set_annotation(row as usize, key, value),
            DictSlot::Frame(_) | DictSlot::Empty | DictSlot::Pairs(_) => {}
        }
    }

    #[inline]
    fn set_entry(&mut self, row: u32, key: NameId, value: Word) {
        // What needs the machine's other tables comes first.
        let number = self.unsigned(value);
        let time = if key == keys::TIME_US { self.signed(value) } else { None };
        let stack = if key == keys::FRAMES { self.stack_of(value) } else { StackId::NONE };
        let pool = if key == keys::POOL_ID { self.pool_number(self.decode(value)) } else { 0 };
        let Some(entry) = self.entry_mut(row) else {
            self.note(ProblemKind::UnknownKey, || format!("trace entry {row} was changed after it was complete"));
            return;
        };
        let known = match key {
            keys::ACTION => value.as_name().map(|name| set_action(entry, name)),
            keys::ADDR | keys::DEVICE_FREE => set_number(&mut entry.address, &mut entry.odd, odd::ADDRESS, number)
                .inspect(|()| entry.has_address = true),
            keys::SIZE => set_number(&mut entry.size, &mut entry.odd, odd::SIZE, number),
            keys::STREAM => {
                set_number(&mut entry.stream, &mut entry.odd, odd::STREAM, number).inspect(|()| entry.has_stream = true)
            }
            keys::TIME_US => time.map(|time| entry.time = time),
            keys::FRAMES => {
                entry.stack = stack;
                Some(())
            }
            keys::POOL_ID => {
                entry.pool = pool;
                (pool > 0).then_some(())
            }
            keys::USER_METADATA
            | keys::COMPILE_CONTEXT
            | keys::INTERNAL_METADATA
            | keys::FORWARD_FRAMES
            | keys::CPP_FRAMES
            | keys::CATEGORY => Some(()),
            _ => None,
        };
        if known.is_none() {
            self.note_key("trace entry", row as usize, key, value);
        }
    }

    fn set_segment(&mut self, row: usize, key: NameId, word: Word) {
        let stack = if key == keys::FRAMES { self.stack_of(word) } else { StackId::NONE };
        let value = self.decode(word);
        let blocks = if key == keys::BLOCKS { self.block_range(value) } else { None };
        let segment = &mut self.segments[row];
        let known = match key {
            keys::DEVICE => value.unsigned().and_then(|device| u16::try_from(device).ok()).map(|d| segment.device = d),
            keys::ADDRESS => value.unsigned().map(|address| segment.address = address),
            keys::TOTAL_SIZE => value.unsigned().map(|bytes| segment.total = bytes),
            keys::ALLOCATED_SIZE => value.unsigned().map(|bytes| segment.allocated = Some(bytes)),
            keys::ACTIVE_SIZE | keys::REQUESTED_SIZE => Some(()),
            keys::STREAM => value.unsigned().map(|stream| segment.stream = Some(stream)),
            keys::SEGMENT_TYPE => {
                segment.class = match value {
                    Value::Name(keys::SMALL) => Some(SizeClass::Small),
                    Value::Name(keys::LARGE) => Some(SizeClass::Large),
                    _ => None,
                };
                segment.class.map(|_| ())
            }
            keys::SEGMENT_POOL_ID => None,
            keys::IS_EXPANDABLE => match value {
                Value::Bool(yes) => {
                    segment.expandable = yes;
                    Some(())
                }
                _ => None,
            },
            keys::FRAMES => {
                segment.stack = stack;
                Some(())
            }
            keys::BLOCKS => blocks.map(|(first, count)| {
                segment.first_block = first;
                segment.blocks = count;
            }),
            _ => None,
        };
        if key == keys::SEGMENT_POOL_ID
            && let Some(owner) = self.pool_owner(value)
        {
            self.segments[row].owner = owner;
        } else if known.is_none() {
            self.note_key("segment", row, key, word);
        }
    }

    fn set_block(&mut self, row: usize, key: NameId, word: Word) {
        let stack = if key == keys::FRAMES { self.stack_of(word) } else { StackId::NONE };
        let value = self.decode(word);
        // Before torch 2.1 a block told its past, newest first: the request and the stack are the first item's.
        let newest = match (key, value) {
            (keys::HISTORY, Value::List(list)) => self.item(list, 0),
            _ => None,
        };
        let newest_stack = match newest.and_then(|item| self.lookup(item, keys::FRAMES)) {
            Some(Value::List(frames)) => Some(self.stack_of(Word::list(frames))),
            _ => None,
        };
        let newest_size = newest.and_then(|item| self.lookup(item, keys::REAL_SIZE)).and_then(Value::unsigned);
        let block = &mut self.blocks[row];
        let known = match key {
            keys::ADDRESS => value.unsigned().map(|address| block.address = Some(address)),
            keys::SIZE => value.unsigned().map(|bytes| block.size = bytes),
            keys::REQUESTED_SIZE => value.unsigned().map(|bytes| block.requested = block.requested.or(Some(bytes))),
            keys::STATE => {
                let state = match value {
                    Value::Name(keys::ACTIVE_ALLOCATED) => Some(BlockState::Active),
                    Value::Name(keys::ACTIVE_PENDING_FREE | keys::ACTIVE_AWAITING_FREE) => Some(BlockState::Pending),
                    Value::Name(keys::INACTIVE) => Some(BlockState::Inactive),
                    _ => None,
                };
                block.state = state.unwrap_or_default();
                state.map(|_| ())
            }
            keys::FRAMES => {
                block.stack = stack;
                Some(())
            }
            keys::HISTORY => {
                block.requested = newest_size.or(block.requested);
                block.stack = newest_stack.unwrap_or(block.stack);
                Some(())
            }
            keys::FORWARD_FRAMES | keys::CPP_FRAMES | keys::VERSION | keys::ADDR | keys::CATEGORY => Some(()),
            _ => None,
        };
        if known.is_none() {
            self.note_key("block", row, key, word);
        }
    }

    fn set_annotation(&mut self, row: usize, key: NameId, word: Word) {
        let value = self.decode(word);
        let annotation = &mut self.annotations[row];
        let known = match (key, value) {
            (keys::NAME, Value::Name(name)) => {
                annotation.name = name;
                Some(())
            }
            (keys::STAGE, Value::Name(keys::START)) => {
                annotation.begins = true;
                Some(())
            }
            (keys::STAGE, Value::Name(keys::END)) => {
                annotation.begins = false;
                Some(())
            }
            (keys::DEVICE, _) => {
                value.unsigned().and_then(|device| u16::try_from(device).ok()).map(|device| annotation.device = device)
            }
            (keys::TIME_US, _) => value.signed().map(|time| annotation.time = time),
            _ => None,
        };
        if known.is_none() {
            self.note_key("annotation", row, key, word);
        }
    }

    /// Sets `early` pairs and those above `from` on the stack in `frame`, which dictionary `dict` stands for. A frame is named by
    /// its content, so it is looked up once, when it is complete.
    fn set_frame(&mut self, dict: u32, mut frame: Frame, early: &[(Word, Word)], from: usize) {
        let late = self.stack[from..].as_chunks::<2>().0.iter().map(|&[key, value]| (key, value));
        for (key, value) in early.iter().copied().chain(late) {
            let value = self.decode(value);
            match (key.as_name(), value) {
                (Some(keys::FILENAME), Value::Name(file)) => frame.file = file,
                (Some(keys::NAME), Value::Name(function)) => frame.function = function,
                (Some(keys::LINE), _) => {
                    frame.line = value.unsigned().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
                }
                // Frames of compiled graphs carry further keys; they change nothing that is shown.
                _ => {}
            }
        }
        self.dicts[dict as usize] = DictSlot::Frame(self.interner.frame(frame));
        self.stack.truncate(from);
    }

    /// The frame an item of a `frames` list stands for: a dictionary, or in old files a text.
    pub(super) fn frame_of(&mut self, item: Word) -> Option<FrameId> {
        let item = self.decode(item);
        match item {
            Value::Dict(id) => match self.dicts[id as usize] {
                DictSlot::Frame(frame) => Some(frame),
                DictSlot::Pairs(_) => match self.lookup(item, keys::NAME) {
                    Some(Value::Name(function)) => Some(self.interner.frame(Frame { function, ..Frame::EMPTY })),
                    _ => None,
                },
                _ => None,
            },
            Value::Name(function) => Some(self.interner.frame(Frame { function, ..Frame::EMPTY })),
            _ => None,
        }
    }

    /// The range of block rows a `blocks` value stands for; other than a plain list of blocks is copied into one.
    fn block_range(&mut self, value: Value) -> Option<(u32, u32)> {
        let Value::List(list) = value else { return None };
        let count = self.list_len(list);
        if count == 0 {
            return Some((0, 0));
        }
        if let ListSlot::Rows { kind: RowKind::Block, first, count } = self.lists[list as usize] {
            return Some((first, count));
        }
        let ListSlot::Items(vector) = self.lists[list as usize] else { return None };
        let rows: Option<Vec<u32>> = (0..count).map(|index| self.row_at(list, RowKind::Block, index)).collect();
        // From here on the list is the range, or nothing: a list that is used over and over must not be gone through each time.
        let items = std::mem::take(&mut self.items[vector as usize]);
        self.recycle_items(vector, items);
        self.lists[list as usize] = ListSlot::Empty;
        let first = self.blocks.len() as u32;
        for row in rows? {
            self.blocks.push(self.blocks[row as usize]);
        }
        let count = count as u32;
        self.lists[list as usize] = ListSlot::Rows { kind: RowKind::Block, first, count };
        Some((first, count))
    }

    /// The pool a `(n, m)` value names. Numbers beyond 32 bits share the last pool.
    fn pool_owner(&self, value: Value) -> Option<PoolOwner> {
        let narrow = |value: Value| Some(u32::try_from(value.unsigned()?).unwrap_or(u32::MAX));
        match value {
            Value::Pair(first, second) => Some(PoolOwner(first, second)),
            Value::List(list) if self.list_len(list) == 2 => {
                Some(PoolOwner(narrow(self.item(list, 0)?)?, narrow(self.item(list, 1)?)?))
            }
            _ => None,
        }
    }

    fn pool_number(&mut self, value: Value) -> u16 {
        let Some(owner) = self.pool_owner(value) else { return 0 };
        if let Some(&number) = self.pool_numbers.get(&owner) {
            return number;
        }
        if self.pools.len() >= usize::from(u16::MAX) - 1 {
            return 0;
        }
        self.pools.push(owner);
        let number = self.pools.len() as u16;
        self.pool_numbers.insert(owner, number);
        number
    }

    #[cold]
    fn note_key(&mut self, what: &str, row: usize, key: NameId, value: Word) {
        if let Some(known) = self.problems.iter_mut().find(|problem| problem.kind == ProblemKind::UnknownKey) {
            known.count += 1;
            return;
        }
        let text = quoted(self.interner.text(key), 80);
        let shown = match self.decode(value) {
            Value::Name(name) => format!("\u{201c}{}\u{201d}", quoted(self.interner.text(name), 80)),
            Value::Int(number) => number.to_string(),
            Value::Big(number) => number.to_string(),
            Value::OddInt => "an integer of more than 64 bits".into(),
            Value::Float(number) => number.to_string(),
            Value::Bool(yes) => yes.to_string(),
            _ => "a value of another kind".into(),
        };
        self.note(ProblemKind::UnknownKey, || format!("{what} {row}: key \u{201c}{text}\u{201d} with {shown}"));
    }
}

#[inline]
fn set_number(field: &mut u64, marks: &mut u8, bit: u8, number: Option<u64>) -> Option<()> {
    match number {
        Some(number) => {
            *field = number;
            *marks &= !bit;
            Some(())
        }
        None => {
            *marks |= bit;
            None
        }
    }
}

#[inline]
fn set_action(entry: &mut EntryRow, name: NameId) {
    entry.action_name = name;
    entry.action = match name {
        keys::ALLOC => Action::Alloc,
        keys::FREE => Action::Free,
        keys::FREE_REQUESTED => Action::FreeRequested,
        keys::FREE_COMPLETED => Action::FreeCompleted,
        keys::SEGMENT_ALLOC => Action::SegmentAlloc,
        keys::SEGMENT_FREE => Action::SegmentFree,
        keys::SEGMENT_MAP => Action::SegmentMap,
        keys::SEGMENT_UNMAP => Action::SegmentUnmap,
        keys::OOM => Action::Oom,
        keys::USER_DEFINED => Action::UserDefined,
        keys::SNAPSHOT | keys::ANNOTATE | keys::WORKSPACE_SNAPSHOT => Action::Note,
        _ => Action::Unknown,
    };
}
