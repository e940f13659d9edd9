//! Finds the values of one row in the columns of its batch, and what the words in them mean.

use vramscope_trace::{Counter, Origin, SizeClass};

use crate::columns::{Columns, Values};
use crate::layout::Layout;
use crate::row::Row;
use crate::schema::{COLUMNS, COUNTERS, KINDS, Kind, Name, ORIGINS, POOLS};

/// The words of each dictionary of a file, and what the keys of its columns mean.
#[derive(Debug, Default)]
pub(crate) struct Words {
    told: Vec<(i64, Vec<String>)>,
    kinds: Vec<Option<Kind>>,
    origins: Vec<Option<Origin>>,
    pools: Vec<Option<SizeClass>>,
    counters: Vec<Option<Counter>>,
}

/// The most dictionaries and words that are kept: keys have 7 bits.
const MOST: usize = 1 << 7;

impl Words {
    /// Takes the words of a dictionary: more of them, or others from now on.
    pub(crate) fn set(&mut self, id: i64, mut words: Vec<String>, more: bool) {
        let room = self.told.len() < MOST;
        match self.told.iter_mut().find(|(known, _)| *known == id) {
            Some((_, list)) if more && list.len() < MOST => list.append(&mut words),
            Some((_, list)) if !more => *list = words,
            None if room => self.told.push((id, words)),
            _ => {}
        }
    }

    /// Looks up what keys mean, before a batch is read.
    pub(crate) fn prepare(&mut self, layout: &Layout) {
        self.kinds = self.meanings(layout, Name::Kind, &KINDS);
        self.origins = self.meanings(layout, Name::Origin, &ORIGINS);
        self.pools = self.meanings(layout, Name::Pool, &POOLS);
        self.counters = self.meanings(layout, Name::Counter, &COUNTERS);
    }

    fn meanings<T: Copy>(&self, layout: &Layout, name: Name, list: &[(T, &str)]) -> Vec<Option<T>> {
        let place = COLUMNS.iter().position(|(known, _, _)| *known == name).and_then(|index| layout[index]);
        let words = self.told.iter().find(|(id, _)| place.is_some_and(|place| place.dictionary == *id));
        let meaning = |word: &String| list.iter().find(|(_, known)| known == word).map(|(value, _)| *value);
        words.map(|(_, words)| words.iter().map(meaning).collect()).unwrap_or_default()
    }
}

/// Where a column stands in [`COLUMNS`].
const fn place(name: Name) -> usize {
    let mut index = 0;
    while index < COLUMNS.len() {
        if COLUMNS[index].0 as u8 == name as u8 {
            return index;
        }
        index += 1;
    }
    0
}

/// The values of one row.
struct At<'a> {
    columns: &'a Columns,
    row: usize,
}

impl<'a> At<'a> {
    fn word<T: Copy>(&self, index: usize, meanings: &[Option<T>]) -> Option<T> {
        let Values::Word(valid, keys) = self.columns.values.get(index)? else { return None };
        let key = usize::try_from(*keys.get(self.row)?).ok()?;
        meanings.get(key).copied().flatten().filter(|_| valid.has(self.row))
    }

    fn u32(&self, index: usize) -> Option<u32> {
        let Values::U32(valid, numbers) = self.columns.values.get(index)? else { return None };
        numbers.get(self.row).copied().filter(|_| valid.has(self.row))
    }

    fn u64(&self, index: usize) -> Option<u64> {
        let Values::U64(valid, numbers) = self.columns.values.get(index)? else { return None };
        numbers.get(self.row).copied().filter(|_| valid.has(self.row))
    }

    fn u16(&self, index: usize) -> Option<u16> {
        let Values::U16(valid, numbers) = self.columns.values.get(index)? else { return None };
        numbers.get(self.row).copied().filter(|_| valid.has(self.row))
    }

    fn time(&self, index: usize) -> Option<i64> {
        let Values::Time(valid, numbers) = self.columns.values.get(index)? else { return None };
        numbers.get(self.row).copied().filter(|_| valid.has(self.row))
    }

    fn bool(&self, index: usize) -> Option<bool> {
        let Values::Bool(valid, bits) = self.columns.values.get(index)? else { return None };
        let byte = bits.get(self.row / 8)?;
        valid.has(self.row).then_some(byte >> (self.row % 8) & 1 == 1)
    }

    fn range(&self, ends: &[u32]) -> Option<std::ops::Range<usize>> {
        Some(*ends.get(self.row)? as usize..*ends.get(self.row + 1)? as usize)
    }

    fn text(&self, index: usize) -> Option<&'a str> {
        let Values::Text(valid, ends, text) = self.columns.values.get(index)? else { return None };
        text.get(self.range(ends)?).filter(|_| valid.has(self.row))
    }

    fn ids(&self, index: usize) -> Option<&'a [u32]> {
        let Values::Ids(valid, ends, ids) = self.columns.values.get(index)? else { return None };
        ids.get(self.range(ends)?).filter(|_| valid.has(self.row))
    }
}

/// One row.
///
/// # Errors
/// What is unknown, if its kind is.
#[inline]
pub(crate) fn row_at<'a>(columns: &'a Columns, row: usize, words: &Words) -> Result<Row<'a>, &'static str> {
    let at = At { columns, row };
    Ok(Row {
        kind: at.word(const { place(Name::Kind) }, &words.kinds).ok_or("a kind")?,
        time: at.time(const { place(Name::Time) }),
        process: at.u32(const { place(Name::Process) }),
        device: at.u16(const { place(Name::Device) }),
        stream: at.u64(const { place(Name::Stream) }),
        origin: at.word(const { place(Name::Origin) }, &words.origins),
        address: at.u64(const { place(Name::Address) }),
        bytes: at.u64(const { place(Name::Bytes) }),
        requested: at.u64(const { place(Name::Requested) }),
        stack: at.u32(const { place(Name::Stack) }),
        at_start: at.bool(const { place(Name::AtStart) }),
        pool: at.word(const { place(Name::Pool) }, &words.pools),
        pool_graph: at.u32(const { place(Name::PoolGraph) }),
        pool_user: at.u32(const { place(Name::PoolUser) }),
        device_free: at.u64(const { place(Name::DeviceFree) }),
        name: at.u32(const { place(Name::Label) }),
        counter: at.word(const { place(Name::Counter) }, &words.counters),
        value: at.u64(const { place(Name::Value) }),
        id: at.u32(const { place(Name::Id) }),
        text: at.text(const { place(Name::Text) }),
        key: at.text(const { place(Name::Key) }),
        file: at.u32(const { place(Name::File) }),
        function: at.u32(const { place(Name::Function) }),
        line: at.u32(const { place(Name::Line) }),
        frames: at.ids(const { place(Name::Frames) }),
    })
}
