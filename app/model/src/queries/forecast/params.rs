//! The forecaster's numbers, all in one place.
//!
//! They were fitted by random search to 238 recorded runs of 18 kinds (killed by a memory cap or not) and then rounded. The scores
//! hardly change when any one of them is moved by half, but they are better than what runs left out of such a fit get. Amounts
//! are parts of the capacity, times are steps.

/// What the forecaster believes before it sees a run.
#[derive(Clone, Debug)]
pub(super) struct Params {
    /// The allocated peak at which allocation fails: its middle. Below 1, because caches and pinned pieces take room.
    pub(super) limit: f64,
    /// Its spread (of a logistic distribution).
    pub(super) limit_spread: f64,
    /// How much of the gap between reserved and allocated counts against the limit.
    pub(super) gap_weight: f64,
    /// How much of what can still be reserved, one piece left out, allocated can grow by for sure.
    pub(super) reserve_weight: f64,
    /// That piece, where the run has not shown how large its pieces are.
    pub(super) piece: f64,
    /// How much steps in which the allocator emptied its cache bring the limit down towards what was survived.
    pub(super) flush_weight: f64,
    /// The highest peak from which they do, in full 0.15 above it.
    pub(super) flush_from: f64,
    /// Chance a step that a new trend of the floor stops. It falls with the steps the trend has lasted: (1 + age /
    /// `stop_prior`) to the power of -`floor_power`.
    pub(super) floor_stop: f64,
    /// How fast it falls.
    pub(super) floor_power: f64,
    /// The same for a trend of the peak above the floor.
    pub(super) excess_stop: f64,
    /// How fast it falls.
    pub(super) excess_power: f64,
    /// Steps after which a trend is no longer new.
    pub(super) stop_prior: f64,
    /// How many standard errors a trend of the floor must stand out by.
    pub(super) floor_sure: f64,
    /// The same for a trend of the peak above the floor.
    pub(super) excess_sure: f64,
    /// The chance that a first lasting jump of the floor will come again.
    pub(super) jump_again: f64,
    /// The chance a step of that, if it does.
    pub(super) jump_rate: f64,
    /// The chance that jumps that came at least twice go on at their pace.
    pub(super) jump_regular: f64,
    /// Chance a step of something never seen before, times the steps seen (plus `surprise_prior`).
    pub(super) surprise: f64,
    /// Steps added to those seen.
    pub(super) surprise_prior: f64,
    /// How much larger than all before it typically is.
    pub(super) surprise_size: f64,
    /// The smallest spread of a tail, in parts of the excess.
    pub(super) tail_floor: f64,
    /// Which part of the excesses counts as their tail.
    pub(super) tail_share: f64,
    /// How much heavier or lighter than exponential extrapolation the tail's size is taken.
    pub(super) tail_scale: f64,
    /// Calibration of the logit at 20 and 50 steps: offset and slope.
    pub(super) calibration: [[f64; 2]; 2],
}

impl Params {
    /// The fitted values.
    pub(super) const FITTED: Self = Self {
        limit: 0.883,
        limit_spread: 0.006,
        gap_weight: 0.28,
        reserve_weight: 2.5,
        piece: 0.27,
        flush_weight: 0.7,
        flush_from: 0.6,
        floor_stop: 0.012,
        floor_power: 0.4,
        excess_stop: 0.047,
        excess_power: 0.4,
        stop_prior: 27.0,
        floor_sure: 2.1,
        excess_sure: 5.6,
        jump_again: 0.98,
        jump_rate: 0.064,
        jump_regular: 0.98,
        surprise: 0.23,
        surprise_prior: 8.0,
        surprise_size: 0.23,
        tail_floor: 0.0001,
        tail_share: 0.56,
        tail_scale: 0.143,
        calibration: [[-0.19, 0.86], [-0.12, 1.55]],
    };
}
