//! Whether a series goes on rising, how fast and since when; and whether it rises in jumps.

use super::params::Params;

/// How many recent values trends are read from.
pub(super) const WINDOW: usize = 24;

/// The latest values of a series, newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    values: Vec<f64>,
}

impl Recent {
    pub(super) fn push(&mut self, value: f64) {
        if self.values.len() == WINDOW {
            self.values.remove(0);
        }
        self.values.push(value);
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(super) fn last(&self) -> Option<f64> {
        self.values.last().copied()
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
    }
}

/// An excess that has not moved for so many steps has stopped rising.
const STILL: usize = 5;

/// A steady rise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    /// Rise a step.
    pub(super) slope: f64,
    /// Where the trend stands now.
    pub(super) level: f64,
    /// The steps it is known to have lasted.
    pub(super) age: f64,
}

/// The trend of the floor: nearly every step adds something, and the latest ones do.
pub(super) fn of_floor(floors: &[f64], params: &Params) -> Option<Trend> {
    let rises: Vec<f64> = floors.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let count = rises.len();
    if count < 2 {
        return None;
    }
    let mean = rises.iter().sum::<f64>() / count as f64;
    let spread = (rises.iter().map(|rise| (rise - mean).powi(2)).sum::<f64>() / count as f64).sqrt();
    let error = (spread / (count as f64).sqrt()).max(1e-6);
    let rising = rises.iter().filter(|rise| **rise > mean * 0.1).count();
    if mean < 2e-5 || mean < error * params.floor_sure || rising * 10 < count * 6 {
        return None;
    }
    let latest = &rises[count.saturating_sub(4)..];
    let recent = latest.iter().sum::<f64>() / latest.len() as f64;
    // A trend that has stopped is none, however long it was.
    let stopped = rises.iter().rev().take(2).all(|rise| *rise < mean * 0.1);
    if stopped || recent < mean * 0.25 {
        return None;
    }
    let level = floors.last().copied().unwrap_or(0.0);
    Some(Trend { slope: (mean + recent) / 2.0, level, age: count as f64 })
}

/// The trend of the peak above the floor: a line through it leaves little, and it still rises.
pub(super) fn of_excess(excesses: &[f64], params: &Params) -> Option<Trend> {
    let (slope, level, error) = line(excesses)?;
    if excesses.len() < 5 || slope < 2e-5 || slope < error * params.excess_sure {
        return None;
    }
    let latest = &excesses[excesses.len().saturating_sub(6)..];
    let (recent, _, _) = line(latest)?;
    let still = excesses.windows(2).rev().take(STILL).all(|pair| (pair[1] - pair[0]).abs() < slope * 0.1);
    (!still && recent > slope * 0.3).then_some(Trend { slope, level, age: excesses.len() as f64 })
}

/// The line of least squares through a series: slope a step, value at the last step, standard error of the slope.
fn line(values: &[f64]) -> Option<(f64, f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut across, mut square) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let x = index as f64 - middle;
        across += x * (value - mean);
        square += x * x;
    }
    let slope = across / square;
    let rest = values
        .iter()
        .enumerate()
        .map(|(index, value)| (value - mean - slope * (index as f64 - middle)).powi(2))
        .sum::<f64>();
    let error = (rest / (count - 2.0) / square).sqrt().max(1e-6);
    Some((slope, mean + slope * middle, error))
}

/// How long a trend has lasted. One that is not seen for a moment is not over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Age {
    steps: f64,
    missing: u32,
}

impl Age {
    /// Steps a trend may not be seen for.
    const PAUSE: u32 = 3;

    /// Adds a step; gives the trend its true age.
    pub(super) fn step(&mut self, trend: Option<Trend>) -> Option<Trend> {
        match trend {
            Some(trend) => {
                self.steps = if self.steps == 0.0 { trend.age } else { self.steps + 1.0 };
                self.missing = 0;
            }
            None if self.missing < Self::PAUSE && self.steps > 0.0 => {
                self.steps += 1.0;
                self.missing += 1;
            }
            None => *self = Self::default(),
        }
        trend.map(|trend| Trend { age: self.steps, ..trend })
    }
}

/// Lasting jumps of the floor.
#[derive(Clone, Debug, Default)]
pub(super) struct Jumps {
    /// How many there were.
    pub(super) count: u32,
    /// The size of the last.
    pub(super) size: f64,
    /// Steps since the last.
    pub(super) since: f64,
    /// Steps between the last two.
    pub(super) apart: f64,
    /// How much the floor rose in the step before.
    before: f64,
}

impl Jumps {
    /// Adds a step with its rise of the floor; tells whether that was a jump. `usual` is what the floor moves by otherwise.
    pub(super) fn step(&mut self, rise: f64, usual: f64) -> bool {
        self.since += 1.0;
        // Where every step rises as much, it is a slope.
        let jump = rise > 0.01 && rise > usual * 8.0 && rise > self.before * 3.0;
        self.before = rise;
        if jump {
            self.apart = if self.count > 0 { self.since } else { 0.0 };
            (self.size, self.since) = (rise, 0.0);
            self.count += 1;
        } else if rise < -self.size * 0.5 && self.count > 0 {
            // What jumped up has come down: it did not last.
            *self = Self { before: rise, ..Self::default() };
        }
        jump
    }

    /// The chance of another jump in each coming step `1..`, given none before it.
    pub(super) fn chance(&self, ahead: f64, params: &Params) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        if self.count == 1 {
            // The longer it stays away, the less likely it is one that comes again.
            let silent = (-params.jump_rate * self.since).exp() * params.jump_again;
            let again = silent / (silent + 1.0 - params.jump_again);
            let left = (-params.jump_rate * (ahead - 1.0)).exp() * again;
            let still = left / (left + 1.0 - again);
            return still * params.jump_rate;
        }
        let due = self.apart - self.since;
        if due < -1.5 {
            return 0.5 / self.apart.max(1.0);
        }
        match ahead - due.max(1.0) {
            early if early < -1.5 => 0.02 / self.apart.max(1.0),
            late if late > 1.5 => 0.5 / self.apart.max(1.0),
            _ => params.jump_regular * 0.6,
        }
    }

    /// The chance a step of another jump after the next.
    pub(super) fn second(&self, params: &Params) -> f64 {
        if self.count < 2 { params.jump_rate } else { 1.0 / self.apart.max(1.0) }
    }
}
