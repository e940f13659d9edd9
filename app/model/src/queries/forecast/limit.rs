//! The allocated peak at which allocation fails: unknown, but above every peak that was survived.

use super::params::Params;

/// How many points stand for the distribution.
const POINTS: usize = 8;

/// What is believed of the limit: a logistic distribution, cut off below the highest peak survived and at the capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    middle: f64,
    spread: f64,
    survived: f64,
    /// Which part of the way above what was survived is left, where the allocator is pressed.
    nearer: f64,
}

/// How near the allocator is to its capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// The highest allocated peak survived.
    pub(super) highest: f64,
    /// The last step's allocated peak.
    pub(super) peak: f64,
    /// The last step's reserved peak.
    pub(super) reserved: f64,
    /// The highest reserved peak.
    pub(super) most: f64,
    /// The largest piece the reserved peak grew by from step to step, the first steps left out; 0 = it did not.
    pub(super) piece: f64,
    /// How many of the latest steps emptied the cache, 0 to 1.
    pub(super) flushing: f64,
}

impl Limit {
    /// What is believed under this pressure.
    pub(super) fn new(pressure: &Pressure, params: &Params) -> Self {
        let Pressure { highest, peak, reserved, most, piece, flushing } = *pressure;
        // Memory in caches around the blocks counts in part: what does not fit in it needs new room.
        let gap = (reserved - peak).clamp(0.0, 0.25);
        let middle = params.limit - params.gap_weight * (gap - 0.1);
        let free = (1.0 - most - if piece > 0.0 { piece } else { params.piece }).max(0.0);
        let safe = highest.max(peak + params.reserve_weight * free);
        let pressed = ((highest - params.flush_from) / 0.15).clamp(0.0, 1.0) * flushing;
        let nearer = (1.0 - params.flush_weight * pressed).max(0.05);
        Self { middle, spread: params.limit_spread, survived: safe, nearer }
    }

    /// The limit below which it lies with this chance.
    pub(super) fn quantile(&self, chance: f64) -> f64 {
        let below = 1.0 / (1.0 + (-(self.survived - self.middle) / self.spread).exp());
        let chance = (below + chance * (1.0 - below)).clamp(1e-9, 1.0 - 1e-9);
        // Deep in the upper tail the distribution is exponential.
        let value = if below > 1.0 - 1e-7 {
            self.survived + self.spread * chance
        } else {
            self.middle + self.spread * (chance / (1.0 - chance)).ln()
        };
        let value = value.clamp(self.survived, self.survived.max(1.0));
        self.survived + (value - self.survived) * self.nearer
    }

    /// Limits with their weights.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let weight = 1.0 / POINTS as f64;
        (0..POINTS).map(move |point| (self.quantile((point as f64 + 0.5) * weight), weight))
    }
}
