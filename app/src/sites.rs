//! Allocation sites: blocks are grouped by the one frame of their stack that tells most, and the sites that hold most at the
//! lane's peak get a colour of their own, the same one wherever the cursor stands.

use rustc_hash::FxHashMap;
use vramscope_model::{History, LaneId, Metric, holders};
use vramscope_trace::{Frame, StackId};

use crate::ctx::Revision;
use crate::stacks;
use crate::widgets::fill::Fill;

/// Sites with a colour of their own.
const RANKED: usize = 8;

/// A site's number: an index of [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

impl SiteId {
    /// As a plain number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A line of the program that allocated something.
#[derive(Clone, Debug)]
struct Site {
    name: String,
    fill: Fill,
}

/// The sites of one lane, found as they are met.
#[derive(Default)]
pub struct Sites {
    known: Option<(Revision, LaneId)>,
    of_stack: FxHashMap<StackId, SiteId>,
    of_frame: FxHashMap<Option<Frame>, SiteId>,
    sites: Vec<Site>,
}

impl Sites {
    /// Makes ready for a lane of a history: ranks its sites by what they hold at the peak. Costs what is live there, once.
    pub fn prepare(&mut self, history: &History, revision: Revision, lane: LaneId) {
        if self.known == Some((revision, lane)) {
            return;
        }
        *self = Self { known: Some((revision, lane)), ..Self::default() };
        let Some(peak) = history.peak(lane, Metric::Allocated) else { return };
        let snapshot = history.snapshot_at(peak.at);
        let Some(state) = snapshot.lanes.iter().find(|state| state.lane == lane) else { return };
        let mut ranked: Vec<(SiteId, u64)> = self
            .holders(
                history,
                holders(history, state, usize::MAX).largest.iter().map(|held| (held.stack, held.bytes, 1)),
            )
            .into_iter()
            .map(|held| (held.site, held.bytes))
            .collect();
        ranked.retain(|(site, _)| self.fill(*site) != Fill::Plain);
        for (rank, (site, _)) in ranked.into_iter().take(RANKED).enumerate() {
            self.sites[site.0 as usize].fill = Fill::Category(rank as u8);
        }
    }

    /// The site of a stack.
    pub fn of(&mut self, history: &History, stack: StackId) -> SiteId {
        if let Some(site) = self.of_stack.get(&stack) {
            return *site;
        }
        let dictionary = history.dictionary();
        let frame = stacks::telling_frame(dictionary, stack);
        let sites = &mut self.sites;
        let site = *self.of_frame.entry(frame).or_insert_with(|| {
            let name = frame.map_or_else(|| stacks::NO_STACK.to_owned(), |frame| stacks::describe(dictionary, frame));
            let fill = if frame.is_some() { Fill::Weak(shade(&name)) } else { Fill::Plain };
            sites.push(Site { name, fill });
            SiteId(sites.len() as u32 - 1)
        });
        self.of_stack.insert(stack, site);
        site
    }

    /// A site in words: `train.py:68 train`.
    pub fn name(&self, site: SiteId) -> &str {
        &self.sites[site.0 as usize].name
    }

    /// The site of a number that [`SiteId::number`] gave.
    pub fn name_of_number(&self, number: u32) -> &str {
        self.sites.get(number as usize).map_or("", |site| &site.name)
    }

    /// Its colour.
    pub fn fill(&self, site: SiteId) -> Fill {
        self.sites[site.0 as usize].fill
    }

    /// Adds up bytes and blocks by site, largest first, equal ones in the order of their names.
    pub fn holders(&mut self, history: &History, held: impl Iterator<Item = (StackId, u64, u64)>) -> Vec<SiteHolder> {
        let mut sums: FxHashMap<SiteId, (u64, u64)> = FxHashMap::default();
        for (stack, bytes, count) in held {
            let sum = sums.entry(self.of(history, stack)).or_default();
            *sum = (sum.0 + bytes, sum.1 + count);
        }
        let mut holders: Vec<SiteHolder> =
            sums.into_iter().map(|(site, (bytes, count))| SiteHolder { site, bytes, count }).collect();
        holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| self.name(a.site).cmp(self.name(b.site))));
        holders
    }
}

/// What a site holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteHolder {
    /// The site.
    pub site: SiteId,
    /// Bytes of its blocks.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// A category for a site without one of its own, the same in every run of the program.
fn shade(name: &str) -> u8 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash >> 32) as u8 % 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demos::find;
    use crate::session::Session;
    use std::sync::Arc;

    #[test]
    fn the_largest_sites_at_the_peak_have_colours_of_their_own() {
        let wake: crate::jobs::Wake = Arc::new(|| ());
        let mut session = Session::open_demo(find("grow_oom").unwrap(), &wake);
        session.wait();
        let run = &session.runs()[0];
        let (history, lane) = (&run.history, run.history.lanes()[0].id);
        let mut sites = Sites::default();
        sites.prepare(history, run.revision, lane);
        let peak = history.peak(lane, Metric::Allocated).unwrap();
        let state = history.snapshot_at(peak.at).lanes.remove(0);
        let all = holders(history, &state, usize::MAX).largest;
        let held = sites.holders(history, all.iter().map(|held| (held.stack, held.bytes, held.count)));
        assert!(held.len() > 3, "{}", held.len());
        assert_eq!(held.iter().map(|held| held.bytes).sum::<u64>(), state.allocated);
        let told = held.iter().filter(|held| sites.name(held.site) != stacks::NO_STACK);
        for (rank, held) in told.take(RANKED).enumerate() {
            assert_eq!(sites.fill(held.site), Fill::Category(rank as u8));
            assert!(sites.name(held.site).starts_with("train.py:"), "{}", sites.name(held.site));
        }
        let same = sites.of(history, all[0].stack);
        assert_eq!(sites.of(history, all[0].stack), same);
        let none = sites.of(history, StackId::NONE);
        assert_eq!((sites.name(none), sites.fill(none)), (stacks::NO_STACK, Fill::Plain));
    }
}
