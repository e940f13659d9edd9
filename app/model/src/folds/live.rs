//! The live blocks of one lane by address: a sorted list in leaves of at most [`LEAF`] entries.
//!
//! One structure finds a block by its address, tells whether a new one lies over others, and lists all in address order.
//! Two short binary searches in dense arrays beat a hash map beside a search tree here.

use crate::BlockId;

/// The most entries of a leaf; a fuller one is split in half.
const LEAF: usize = 128;

/// Entries with neighbouring addresses, in order.
#[derive(Clone, Debug, Default)]
struct Leaf {
    starts: Vec<u64>,
    ends: Vec<u64>,
    ids: Vec<BlockId>,
}

/// Live blocks by address. No two overlap, and no two start at one address.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveMap {
    /// A lower bound of each leaf's addresses, above all of the leaf before.
    firsts: Vec<u64>,
    leaves: Vec<Leaf>,
    len: usize,
    /// Where the last search ended: the two events of a free follow each other.
    last: (usize, usize),
}

impl LiveMap {
    /// How many blocks are live.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All live blocks by address.
    pub(crate) fn ids(&self) -> impl Iterator<Item = BlockId> {
        self.leaves.iter().flat_map(|leaf| leaf.ids.iter().copied())
    }

    /// The leaf an address belongs to, and the number of its entries that start before the address.
    #[inline]
    fn search(&self, address: u64) -> Option<(usize, usize)> {
        let leaf = self.firsts.partition_point(|first| *first <= address).saturating_sub(1);
        Some((leaf, self.leaves.get(leaf)?.starts.partition_point(|start| *start < address)))
    }

    /// The block that starts at an address.
    #[inline]
    pub(crate) fn find(&mut self, address: u64) -> Option<BlockId> {
        let starts_here = |&(leaf, slot): &(usize, usize)| {
            self.leaves.get(leaf).is_some_and(|leaf| leaf.starts.get(slot) == Some(&address))
        };
        let found = if starts_here(&self.last) { Some(self.last) } else { self.search(address).filter(starts_here) };
        let (leaf, slot) = found?;
        self.last = (leaf, slot);
        Some(self.leaves[leaf].ids[slot])
    }

    /// Whether any live block has a byte in `start..end`, by its first one: its start and id.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<(u64, BlockId)> {
        let (leaf, slot) = self.search(start)?;
        self.conflict(leaf, slot, start, end)
    }

    /// The first entry that overlaps `start..end`, or starts at `start`; (`leaf`, `slot`) is where `start` belongs.
    #[inline]
    fn conflict(&self, leaf: usize, slot: usize, start: u64, end: u64) -> Option<(u64, BlockId)> {
        let here = &self.leaves[leaf];
        let before = match slot.checked_sub(1) {
            Some(slot) => Some((here, slot)),
            None => leaf.checked_sub(1).map(|leaf| &self.leaves[leaf]).map(|leaf| (leaf, leaf.ids.len() - 1)),
        };
        if let Some((leaf, slot)) = before
            && leaf.ends[slot] > start
        {
            return Some((leaf.starts[slot], leaf.ids[slot]));
        }
        let (leaf, slot) = if slot < here.ids.len() { (here, slot) } else { (self.leaves.get(leaf + 1)?, 0) };
        let next = leaf.starts[slot];
        (next < end || next == start).then(|| (next, leaf.ids[slot]))
    }

    /// Adds a block at `start..end`, or gives the start and id of the first one that is in the way.
    #[inline]
    pub(crate) fn insert(&mut self, start: u64, end: u64, id: BlockId) -> Result<(), (u64, BlockId)> {
        let Some((leaf, slot)) = self.search(start) else {
            self.firsts.push(start);
            self.leaves.push(Leaf { starts: vec![start], ends: vec![end], ids: vec![id] });
            self.len = 1;
            return Ok(());
        };
        if let Some(conflict) = self.conflict(leaf, slot, start, end) {
            return Err(conflict);
        }
        let here = &mut self.leaves[leaf];
        here.starts.insert(slot, start);
        here.ends.insert(slot, end);
        here.ids.insert(slot, id);
        self.firsts[leaf] = self.firsts[leaf].min(start);
        self.last = (leaf, slot);
        self.len += 1;
        if here.ids.len() > LEAF {
            let upper = Leaf {
                starts: here.starts.split_off(LEAF / 2),
                ends: here.ends.split_off(LEAF / 2),
                ids: here.ids.split_off(LEAF / 2),
            };
            self.firsts.insert(leaf + 1, upper.starts[0]);
            self.leaves.insert(leaf + 1, upper);
        }
        Ok(())
    }

    /// Takes out the block that starts at an address.
    #[inline]
    pub(crate) fn remove(&mut self, address: u64) -> Option<BlockId> {
        let id = self.find(address)?;
        let (leaf, slot) = self.last;
        let here = &mut self.leaves[leaf];
        here.starts.remove(slot);
        here.ends.remove(slot);
        here.ids.remove(slot);
        self.len -= 1;
        if here.ids.is_empty() {
            self.leaves.remove(leaf);
            self.firsts.remove(leaf);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn behaves_as_an_ordered_map_of_ranges(steps in prop::collection::vec((0_u64..900, 0_u64..4, any::<bool>()), 0..1500)) {
            let mut live = LiveMap::default();
            let mut plain = BTreeMap::<u64, (u64, BlockId)>::new();
            for (n, (start, bytes, add)) in steps.into_iter().enumerate() {
                let id = BlockId(n as u32);
                if add {
                    let end = start + bytes;
                    let conflict = plain
                        .iter()
                        .find(|(from, (to, _))| (**from < end && *to > start) || **from == start || (**from < start && start < *to))
                        .map(|(from, (_, id))| (*from, *id));
                    prop_assert_eq!(live.first_in(start, end), conflict);
                    prop_assert_eq!(live.insert(start, end, id), conflict.map_or(Ok(()), Err));
                    if conflict.is_none() {
                        plain.insert(start, (end, id));
                    }
                } else {
                    prop_assert_eq!(live.find(start), plain.get(&start).map(|(_, id)| *id));
                    prop_assert_eq!(live.remove(start), plain.remove(&start).map(|(_, id)| id));
                }
                prop_assert_eq!(live.len(), plain.len());
            }
            prop_assert_eq!(live.ids().collect::<Vec<_>>(), plain.values().map(|(_, id)| *id).collect::<Vec<_>>());
        }
    }

    #[test]
    fn thousands_of_blocks_keep_their_order() {
        let mut live = LiveMap::default();
        for n in 0..20_000_u64 {
            let at = n * 7919 % 20_000;
            assert_eq!(live.insert(at * 10, at * 10 + 10, BlockId(at as u32)), Ok(()));
        }
        assert!(live.ids().eq((0..20_000).map(BlockId)));
        assert!(live.leaves.iter().all(|leaf| (LEAF / 2..=LEAF).contains(&leaf.ids.len())));
    }
}
