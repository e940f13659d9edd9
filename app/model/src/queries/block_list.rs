//! The blocks of one segment, as a part of one list that all segments of a snapshot share.
//!
//! A snapshot may hold thousands of segments with a few blocks each. One list costs one allocation instead of thousands.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::snapshot::BlockState;

/// Blocks by address. Reads like a slice.
#[derive(Clone, Debug, Default)]
pub struct BlockList {
    /// `None` while empty: nothing is allocated for it.
    all: Option<Arc<Vec<BlockState>>>,
    span: Range<u32>,
}

impl BlockList {
    /// Adds a part of a shared list behind what is here: by widening the span where both are neighbours in the same list, by
    /// copying where they are not (an expandable segment with another one in its hole).
    pub(crate) fn extend_within(&mut self, all: &Arc<Vec<BlockState>>, span: Range<u32>) {
        if self.is_empty() {
            *self = Self { all: Some(Arc::clone(all)), span };
        } else if self.shares(all) && self.span.end == span.start {
            self.span.end = span.end;
        } else {
            let more = all.get(span.start as usize..span.end as usize).unwrap_or_default();
            *self = self.iter().chain(more).copied().collect();
        }
    }
}

impl BlockList {
    fn shares(&self, all: &Arc<Vec<BlockState>>) -> bool {
        self.all.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, all))
    }
}

impl Deref for BlockList {
    type Target = [BlockState];

    fn deref(&self) -> &[BlockState] {
        let range = self.span.start as usize..self.span.end as usize;
        self.all.as_ref().and_then(|all| all.get(range)).unwrap_or_default()
    }
}

impl FromIterator<BlockState> for BlockList {
    fn from_iter<I: IntoIterator<Item = BlockState>>(blocks: I) -> Self {
        let all: Vec<BlockState> = blocks.into_iter().collect();
        let span = 0..all.len() as u32;
        Self { all: Some(Arc::new(all)), span }
    }
}

impl From<Vec<BlockState>> for BlockList {
    fn from(blocks: Vec<BlockState>) -> Self {
        blocks.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a BlockList {
    type Item = &'a BlockState;
    type IntoIter = std::slice::Iter<'a, BlockState>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for BlockList {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for BlockList {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockId;

    #[test]
    fn parts_of_a_list_join_and_foreign_ones_are_copied() {
        let block =
            |id| BlockState { id: BlockId(id), address: u64::from(id), bytes: 1, requested: None, pending: false };
        let all = Arc::new((0..10).map(block).collect::<Vec<_>>());
        let mut list = BlockList::default();
        assert!(list.is_empty());
        list.extend_within(&all, 2..4);
        list.extend_within(&all, 4..5);
        assert!(list.shares(&all), "neighbours need no copy");
        list.extend_within(&all, 7..9);
        assert_eq!(list, [2, 3, 4, 7, 8].map(block).into_iter().collect());
    }
}
