//! The smallest card on which a run survives, by search.

use vramscope_trace::Requests;

use crate::places::Addresses;
use crate::policy::{Limit, Policy};
use crate::replay::{AtFailure, replay};

/// Segments come in multiples of this, so capacities in between change nothing.
const STEP: u64 = 2 << 20;
/// How many capacities below the found one are tried as well. Survival is nearly, but not strictly, a matter of more or less:
/// an earlier emptying of the cache can happen to help.
const BELOW: u64 = 8;

/// The smallest capacity in bytes (of those that PyTorch may reserve, a multiple of 2 MiB) under which the run survives;
/// `None` if it fails however much there is. The policy's own limit only tells which kind of limit is meant.
pub fn min_capacity(requests: &Requests, policy: &Policy) -> Option<u64> {
    let limit = match policy.limit {
        Limit::Device(_) => Limit::Device,
        Limit::None | Limit::Fraction(_) => Limit::Fraction,
    };
    let run = |limit| replay(requests, &policy.with_limit(limit), Addresses::Recorded, AtFailure::Stop, |_| ());
    let survives = |steps: u64| run(limit(steps * STEP)).failure.is_none();
    let free = run(Limit::None);
    if free.failure.is_some() {
        return None;
    }
    // What is in use at once cannot fit into less; what is reserved without a limit is enough.
    let mut fails = (free.totals.peak_allocated.div_ceil(STEP)).saturating_sub(1);
    let mut holds = free.totals.peak_reserved.div_ceil(STEP).max(fails + 1);
    // Garbage collection gives memory back that is then asked for again, in other places: it may need a little more.
    while !survives(holds) {
        fails = holds;
        holds += holds / 16 + 1;
        if holds > free.totals.peak_reserved / STEP * 2 + 64 {
            return None;
        }
    }
    while holds - fails > 1 {
        let middle = fails + (holds - fails) / 2;
        if survives(middle) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
    let mut tried = holds;
    while tried > 1 && holds - tried < BELOW {
        tried -= 1;
        if survives(tried) {
            holds = tried;
        }
    }
    Some(holds * STEP)
}
