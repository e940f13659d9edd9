//! Append-only tables that one thread writes while others read what was published before.
//!
//! A table is a row of chunks. Chunks never move and never shrink, so a clone of a table (its *view*) shares them: cloning
//! bumps one reference count, however long the table is. The writer fills rows past the end of every view; a view never
//! looks there. Rows are made of relaxed atomics and once-cells: whoever hands a view to another thread synchronises, and
//! cells that are written after publication hold a position, which readers compare with their own end.

use std::sync::Arc;

/// Rows of the first chunk. Each of the next chunks is twice as long, until they are `LARGEST`.
const FIRST: u32 = 64;
/// Rows of every chunk from the `GROWING`th on.
const LARGEST: u32 = FIRST << GROWING;
/// How many chunks are shorter than `LARGEST`.
const GROWING: u32 = 8;
/// Rows in all chunks shorter than `LARGEST` together.
const GROWING_ROWS: u32 = FIRST * ((1 << GROWING) - 1);

/// An append-only table of rows.
#[derive(Debug)]
pub(crate) struct Table<R> {
    chunks: Arc<Vec<Arc<[R]>>>,
    len: u32,
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        Self { chunks: Arc::clone(&self.chunks), len: self.len }
    }
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { chunks: Arc::default(), len: 0 }
    }
}

/// Rows of a chunk.
#[inline]
fn chunk_len(chunk: u32) -> u32 {
    FIRST << chunk.min(GROWING)
}

/// Rows of all chunks before one.
#[inline]
fn rows_before(chunk: u32) -> u32 {
    FIRST * ((1 << chunk.min(GROWING)) - 1) + LARGEST * chunk.saturating_sub(GROWING)
}

/// Chunk and offset of a row.
#[inline]
fn locate(index: u32) -> (usize, usize) {
    if index < GROWING_ROWS {
        let shifted = index + FIRST;
        let chunk = shifted.ilog2() - FIRST.ilog2();
        (chunk as usize, (shifted - (FIRST << chunk)) as usize)
    } else {
        let rest = index - GROWING_ROWS;
        ((GROWING + rest / LARGEST) as usize, (rest % LARGEST) as usize)
    }
}

impl<R> Table<R> {
    /// Rows written before this view was taken.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// A row; `None` at or beyond the end of this view.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&R> {
        if index >= self.len {
            return None;
        }
        let (chunk, offset) = locate(index);
        self.chunks.get(chunk)?.get(offset)
    }

    /// Rows from `start` on, in order.
    pub(crate) fn iter_from(&self, start: u32) -> impl Iterator<Item = &R> {
        let (chunk, offset) = locate(start);
        let rest = self.chunks.get(chunk..).unwrap_or_default().iter();
        rest.flat_map(|chunk| chunk.iter()).skip(offset).take(self.len.saturating_sub(start) as usize)
    }

    /// How many leading rows satisfy `holds`, which must hold for a prefix and for nothing after it.
    #[inline]
    pub(crate) fn partition_point(&self, mut holds: impl FnMut(&R) -> bool) -> u32 {
        let Some(last) = self.len.checked_sub(1) else { return 0 };
        // The last row decides about the last chunk; of the others, which all are full, their own last rows.
        let chunks = &self.chunks[..locate(last).0];
        let chunk = chunks.partition_point(|chunk| chunk.last().is_some_and(&mut holds));
        let before = rows_before(chunk as u32);
        let rows = &self.chunks[chunk][..(self.len - before).min(chunk_len(chunk as u32)) as usize];
        before + rows.partition_point(holds) as u32
    }

    /// Bytes of the chunks this view shares.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| size_of_val::<[R]>(chunk) as u64).sum()
    }
}

impl<R: Default> Table<R> {
    /// Appends a fresh row and gives it to be filled in.
    #[inline]
    pub(crate) fn push(&mut self) -> &R {
        let (chunk, offset) = locate(self.len);
        if chunk == self.chunks.len() {
            Arc::make_mut(&mut self.chunks).push((0..chunk_len(chunk as u32)).map(|_| R::default()).collect());
        }
        self.len += 1;
        &self.chunks[chunk][offset]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn rows_keep_their_place_and_views_their_end() {
        let mut table = Table::<AtomicU32>::default();
        let mut views = Vec::new();
        for n in 0..100_000 {
            if n % 9973 == 0 {
                views.push((n, table.clone()));
            }
            table.push().store(n * 7, Ordering::Relaxed);
        }
        for n in 0..100_000 {
            assert_eq!(table.get(n).unwrap().load(Ordering::Relaxed), n * 7);
        }
        assert!(table.get(100_000).is_none());
        for (end, view) in views {
            assert_eq!(view.len(), end);
            assert!(view.get(end).is_none());
            assert_eq!(view.partition_point(|row| row.load(Ordering::Relaxed) < 700), end.min(100));
            assert_eq!(view.iter_from(end / 2).count() as u32, end - end / 2);
        }
    }

    #[test]
    fn neighbouring_rows_are_neighbours_across_chunks() {
        let mut expected = (0, 0);
        for index in 0..200_000 {
            let (chunk, offset) = locate(index);
            let len = chunk_len(chunk as u32) as usize;
            assert_eq!((chunk, offset), expected);
            assert_eq!(rows_before(chunk as u32) as usize + offset, index as usize);
            expected = if offset + 1 == len { (chunk + 1, 0) } else { (chunk, offset + 1) };
        }
    }
}
