//! How large the next excess may be, from those seen: counted inside, extrapolated beyond.

use super::params::Params;

/// How many excesses are kept.
const KEPT: usize = 300;

/// The excesses seen so far (the latest 300), sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct Excesses {
    sorted: Vec<f64>,
    order: Vec<f64>,
    /// Where the oldest of `order` is, once it is full.
    oldest: usize,
}

impl Excesses {
    pub(super) fn push(&mut self, value: f64) {
        if self.order.len() == KEPT {
            let old = std::mem::replace(&mut self.order[self.oldest], value);
            self.oldest = (self.oldest + 1) % KEPT;
            let at = self.sorted.partition_point(|known| *known < old);
            self.sorted.remove(at);
        } else {
            self.order.push(value);
        }
        let at = self.sorted.partition_point(|known| *known < value);
        self.sorted.insert(at, value);
    }

    pub(super) fn sorted(&self) -> &[f64] {
        &self.sorted
    }
}

/// A tail: below its threshold, what was counted; above, the predictive distribution of an exponential tail whose scale is
/// only known from so many values (a Lomax distribution), which widens by itself where few were seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail<'a> {
    sorted: &'a [f64],
    threshold: f64,
    rate: f64,
    sum: f64,
    count: i32,
}

impl<'a> Tail<'a> {
    /// The tail of sorted values.
    pub(super) fn of(sorted: &'a [f64], params: &Params) -> Self {
        let n = sorted.len();
        let largest = sorted.last().copied().unwrap_or(0.0);
        let wanted = ((n as f64 * params.tail_share) as usize).clamp(4, 40);
        let count = wanted.min(n.saturating_sub(1));
        let threshold = if count == 0 { largest } else { sorted[n - 1 - count] };
        let over: f64 = sorted[n - count..].iter().map(|value| value - threshold).sum();
        let least = params.tail_floor * largest.max(0.05);
        let (rate, sum, count) = if count == 0 {
            (1.0 / (n as f64 + 1.0), least * 4.0, 1)
        } else {
            (count as f64 / n as f64, over * params.tail_scale + least, count)
        };
        Self { sorted, threshold, rate, sum, count: i32::try_from(count).unwrap_or(40) }
    }

    /// The middle of what was seen.
    pub(super) fn middle(&self) -> f64 {
        self.sorted.get(self.sorted.len() / 2).copied().unwrap_or(0.0)
    }

    /// The chance that one step's excess is above `room`.
    pub(super) fn above(&self, room: f64) -> f64 {
        let beyond = room - self.threshold;
        if beyond > 0.0 {
            return self.rate * (1.0 + beyond / self.sum).powi(-self.count.max(1));
        }
        let n = self.sorted.len();
        let more = n - self.sorted.partition_point(|value| *value <= room);
        ((more as f64 + 0.5) / (n as f64 + 1.0)).max(self.rate)
    }
}
