//! What would have happened: a recorded run under other settings, with what the answer depends on.

mod capacity;
mod table;
#[cfg(test)]
mod tests;

pub use capacity::min_capacity;
pub use table::{rank, useful_settings};

use vramscope_trace::Requests;

use crate::places::Addresses;
use crate::policy::Policy;
use crate::replay::{AtFailure, Failure, Outcome, replay};

/// What would have happened under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// The run with the likeliest places of segments. It ends at its first failure.
    pub outcome: Outcome,
    /// The smallest and largest peak of reserved memory in bytes, over all ways of placing segments that were tried.
    pub peak_reserved_range: (u64, u64),
    /// Whether the peak, or where the run fails, depends on where the driver places segments.
    pub depends_on_addresses: bool,
}

/// Predicts a run under a policy. Where the likeliest places of segments decided between free blocks of equal size, both
/// extremes are run too: every new segment above all others, and below.
pub fn predict(requests: &Requests, policy: &Policy) -> Prediction {
    let run = |addresses| replay(requests, policy, addresses, AtFailure::Stop, |_| ());
    let outcome = run(Addresses::Recorded);
    let peak = outcome.totals.peak_reserved;
    // Without ties no address decided anything; with recorded places only, the addresses are facts.
    if outcome.totals.ties == 0 || outcome.totals.guessed_places == 0 {
        return Prediction { outcome, peak_reserved_range: (peak, peak), depends_on_addresses: false };
    }
    let (mut low, mut high, mut depends) = (peak, peak, false);
    for extreme in [Addresses::Rising, Addresses::Falling].map(run) {
        let other = extreme.totals.peak_reserved;
        (low, high) = (low.min(other), high.max(other));
        depends |= other != peak || end_of(&extreme.failure) != end_of(&outcome.failure);
    }
    Prediction { outcome, peak_reserved_range: (low, high), depends_on_addresses: depends }
}

/// Which request ended a run.
fn end_of(failure: &Option<Failure>) -> Option<Option<usize>> {
    failure.map(|failure| failure.request)
}
