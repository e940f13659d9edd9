//! Pairs the beginnings and ends of annotations: by name, innermost first, for each process and device.

use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashMap;
use vramscope_trace::NameId;

use crate::store::Store;

/// The spans that are open.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Rows of the span table by place and name, outermost first.
    open: FxHashMap<(u16, NameId), Vec<u32>>,
    /// How many are open in each place.
    depths: FxHashMap<u16, u32>,
    /// How many are open at all, and the event that began the first of them.
    pub(crate) open_count: u64,
}

impl Spans {
    /// A span begins with event `seq`.
    pub(crate) fn begin(&mut self, store: &mut Store, place: u16, name: NameId, seq: u32) {
        let depth = self.depths.entry(place).or_default();
        let index = store.spans.len();
        let row = store.spans.push();
        row.begin.store(seq, Relaxed);
        row.depth.store(*depth, Relaxed);
        *depth += 1;
        self.open.entry((place, name)).or_default().push(index);
        self.open_count += 1;
    }

    /// A span ends with event `seq`; false if none of that name is open.
    pub(crate) fn end(&mut self, store: &mut Store, place: u16, name: NameId, seq: u32) -> bool {
        let depth = self.depths.entry(place).or_default();
        let begun = self.open.get_mut(&(place, name)).and_then(Vec::pop);
        if let Some(row) = begun.and_then(|index| store.spans.get(index)) {
            row.end.store(seq, Relaxed);
            *depth -= 1;
            self.open_count -= 1;
            return true;
        }
        let row = store.spans.push();
        row.end.store(seq, Relaxed);
        row.depth.store(*depth, Relaxed);
        false
    }
}
