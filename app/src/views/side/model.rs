//! The answers the panel shows. Each costs what is live at the cursor, and they are kept while nothing changes.

use std::cmp::Reverse;

use vramscope_model::{
    Elsewhere, Fit, Fragmentation, History, LaneId, LaneState, Oom, Pin, Position, fragmentation, holders, pinning,
};
use vramscope_trace::{AllocatorSettings, PoolOwner, StreamId};

use crate::ctx::{Ctx, Revision};
use crate::sites::{SiteHolder, Sites};
use crate::views::map::pool_name;
use crate::widgets::bytes;

/// Blocks listed under "Pinned by".
const PINS: usize = 5;
/// A failure at most so many events away is what the next request is about.
const NEAR: u32 = 1000;

/// What the answers depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    revision: Revision,
    lane: LaneId,
    cursor: Position,
}

pub(super) fn key(ctx: &Ctx<'_>) -> Key {
    Key { revision: ctx.revision, lane: ctx.lane, cursor: ctx.cursor }
}

/// The answers.
#[derive(Debug)]
pub(super) struct Answers {
    pub fragmentation: Fragmentation,
    pub pins: Vec<Pin>,
    pub holders: Vec<SiteHolder>,
    /// What the program asked for next.
    pub next: Option<Request>,
    /// The next request that failed, or the last one.
    pub failed: Option<Oom>,
}

/// Works the answers out.
pub(super) fn answers(ctx: &Ctx<'_>, state: &LaneState, sites: &mut Sites) -> Answers {
    let held = holders(ctx.history, state, usize::MAX).largest;
    let failed = failure(ctx.history, ctx.lane, ctx.cursor);
    Answers {
        fragmentation: fragmentation(state),
        pins: top_pins(pinning(state, usize::MAX)),
        holders: sites.holders(ctx.history, held.iter().map(|held| (held.stack, held.bytes, held.count))),
        next: next_request(ctx.history, ctx.lane, failed.as_ref(), ctx.cursor),
        failed,
    }
}

/// What a block holds back: alone, or its share of what it holds back together with its segment's other blocks.
pub(super) fn held_back(pin: &Pin) -> u64 {
    pin.pinned_bytes.max(pin.shared_bytes)
}

/// The blocks that hold back most, alone before together.
pub(super) fn top_pins(mut pins: Vec<Pin>) -> Vec<Pin> {
    pins.sort_by_key(|pin| (Reverse(held_back(pin)), Reverse(pin.pinned_bytes), pin.block));
    pins.truncate(PINS);
    pins
}

/// Why a request is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is the next allocation of the recording.
    Next,
    /// It failed, here or nearby.
    Failed,
}

/// The first failure that is not before the cursor, else the last one.
pub(super) fn failure(history: &History, lane: LaneId, cursor: Position) -> Option<Oom> {
    let ooms: Vec<Oom> = history.ooms().into_iter().filter(|oom| oom.lane == lane).collect();
    ooms.iter().find(|oom| oom.seq.after() >= cursor).or(ooms.last()).copied()
}

/// A request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub bytes: u64,
    pub owner: PoolOwner,
    pub stream: StreamId,
    pub reason: Reason,
}

/// What the program asks for after the cursor: a request that will soon fail, or just did, else the next allocation.
pub(super) fn next_request(history: &History, lane: LaneId, failed: Option<&Oom>, cursor: Position) -> Option<Request> {
    let soon = |oom: &&Oom| oom.seq.after() >= cursor && oom.at.0.saturating_sub(cursor.0) <= NEAR;
    if let Some(oom) = failed.filter(soon) {
        let stream = oom.stream.unwrap_or_default();
        return Some(Request { bytes: oom.requested, owner: PoolOwner::DEFAULT, stream, reason: Reason::Failed });
    }
    let later = history.blocks_allocated_in(cursor..history.end());
    let mut blocks = (later.start.0..later.end.0).map(vramscope_model::BlockId).take(NEAR as usize);
    let block = blocks.find_map(|id| history.block(id).filter(|block| block.lane == lane))?;
    Some(Request {
        bytes: block.requested.unwrap_or(block.bytes),
        owner: block.pool.map_or(PoolOwner::DEFAULT, |pool| pool.owner),
        stream: block.stream.unwrap_or_default(),
        reason: Reason::Next,
    })
}

/// The settings the recording was made under, PyTorch's own where it does not tell.
pub(super) fn settings(history: &History) -> AllocatorSettings {
    history.info().and_then(|info| info.settings.clone()).unwrap_or_default()
}

/// An answer about a request, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether the cache serves it.
    pub served: bool,
    /// One line.
    pub line: String,
    /// Why, in sentences.
    pub reasons: Vec<String>,
}

/// Puts what the cache holds for a request into words.
pub(super) fn verdict(fit: &Fit, reserved: u64, capacity: Option<u64>) -> Verdict {
    if fit.from_cache.is_some() {
        return Verdict { served: true, line: "Served from cache, no new segment".to_owned(), reasons: Vec::new() };
    }
    let mut reasons = Vec::new();
    let enough = fit.free_here >= fit.rounded;
    if fit.free_here == 0 {
        reasons.push("This pool and stream have no free memory.".to_owned());
    } else if enough && fit.largest_free_here < fit.rounded {
        let (free, longest) = (bytes::text(fit.free_here), bytes::text(fit.largest_free_here));
        reasons.push(format!("{free} are free here, but in pieces: the longest is {longest}."));
    } else if enough {
        reasons.push("Free pieces that are long enough may not be used under the settings of this run.".to_owned());
    } else {
        reasons.push(format!("Only {} are free here.", bytes::text(fit.free_here)));
    }
    reasons.extend(fit.free_elsewhere.iter().filter(|other| other.largest_free >= fit.rounded).map(useless));
    if let Some(capacity) = capacity {
        let after = reserved.saturating_add(fit.segment_bytes);
        let (after_text, capacity_text) = (bytes::text(after), bytes::text(capacity));
        reasons.push(if after > capacity {
            format!("That would make {after_text} of {capacity_text}: more than the device has.")
        } else {
            format!("Reserved would rise to {after_text} of {capacity_text}.")
        });
    }
    Verdict { served: false, line: format!("Needs a new segment of {}", bytes::text(fit.segment_bytes)), reasons }
}

/// Why long enough free memory elsewhere does not help.
fn useless(other: &Elsewhere) -> String {
    let pool = pool_name(other.pool);
    let place = other.stream.map_or_else(|| pool.clone(), |stream| format!("{pool}, {stream}"));
    let why = if other.pool.is_some_and(|pool| pool.owner.is_private()) {
        "only its owner may use it"
    } else {
        "free memory stays with its pool and stream"
    };
    format!("{} in one piece elsewhere ({place}), but {why}.", bytes::text(other.largest_free))
}
