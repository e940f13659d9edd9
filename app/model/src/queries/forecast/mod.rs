//! Whether a run will die of memory, and when: a forecast after each step, from finished steps only.
//!
//! Kept a step: the *floor* (allocated when it ended), the *peak*, the *excess* (peak above the floor it started from), the
//! reserved peak and whether the allocator emptied its cache. Forecast: the floor's trend and jumps and the excess's trend and
//! tail are carried on for 50 steps and compared with the *limit*, the allocated peak at which allocation fails. The limit
//! lies below the capacity by what caches and pinned pieces take; it is not known, but every step survived shows that it is
//! higher than that step's peak. So a steady run near its capacity is safe, and a growing one is not. How many steps the run
//! has made is no input; how many were *seen* only widens or narrows what is believed.

mod facts;
mod limit;
mod params;
mod tail;
mod trend;

pub use facts::step_facts;
use limit::{Limit, Pressure};
use params::Params;
use tail::{Excesses, Tail};
use trend::{Age, Jumps, Recent, Trend};

/// The forecast's horizons in steps.
const NEAR: usize = 20;
const FAR: usize = 50;
/// The allocator is pressed if it emptied its cache in so many steps in a row.
const FLUSHES: usize = 3;
/// Below this chance within 50 steps, no cause is named.
const WORTH_A_CAUSE: f64 = 0.05;

/// What one finished step did. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepFacts {
    /// Allocated when it ended.
    pub floor: u64,
    /// Allocated at its peak.
    pub peak: u64,
    /// Reserved at its peak.
    pub reserved: u64,
    /// Whether the allocator gave memory back during it: it had emptied its cache to make room.
    pub flushed: bool,
    /// How much the optimizer's phase added to what is allocated; `None` = unknown.
    pub update_growth: Option<i64>,
}

/// Why a run may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForecastCause {
    /// There is no danger to explain.
    None,
    /// Each step leaves something behind.
    Leak,
    /// Steps need more and more while they run.
    Growth,
    /// Steps vary, and a large one may come.
    RareLarge,
    /// Free memory lies in pieces: the allocator empties its cache again and again.
    Fragmentation,
    /// The optimizer's state has grown.
    StateGrowth,
    /// What is kept rises in jumps.
    StepUp,
    /// Something not seen before.
    Unknown,
}

impl ForecastCause {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Leak => "leak",
            Self::Growth => "growth",
            Self::RareLarge => "rare_large",
            Self::Fragmentation => "fragmentation",
            Self::StateGrowth => "state_growth",
            Self::StepUp => "step_up",
            Self::Unknown => "unknown",
        }
    }
}

/// What may come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The chance of running out of memory within the next 20 steps.
    pub p20: f64,
    /// The same within 50 steps.
    pub p50: f64,
    /// The main reason.
    pub cause: ForecastCause,
    /// Steps until it happens, if things go on as they do: 8 times in 10 between these two.
    pub steps_left: Option<(u32, u32)>,
    /// By how much the floor rises a step, in bytes, where it does.
    pub floor_slope: Option<f64>,
    /// By how much the peak above the floor rises a step, in bytes, where it does.
    pub excess_slope: Option<f64>,
}

/// Forecasts a run step by step. Costs a few thousand operations a step, whatever came before.
#[derive(Clone, Debug)]
pub struct Forecaster {
    params: Params,
    cap: f64,
    seen: u32,
    floors: Recent,
    recent_excesses: Recent,
    excesses: Excesses,
    /// Of the floor and of the excess.
    trends: [Option<Trend>; 2],
    ages: [Age; 2],
    jumps: Jumps,
    /// Newest last; whether each of the latest steps emptied the cache.
    flushes: Recent,
    pressure: Pressure,
    /// The last optimizer phase's growth, and whether the last jump came from one.
    update_growth: Option<f64>,
    state_jump: bool,
}

/// What is carried on into the future.
struct Outlook<'a> {
    floor: f64,
    floor_trend: Option<Trend>,
    excess_trend: Option<Trend>,
    tail: Tail<'a>,
    surprise: f64,
}

impl Forecaster {
    /// A forecaster for a run that may reserve `cap` bytes.
    pub fn new(cap: u64) -> Self {
        Self::with(cap, Params::FITTED)
    }

    fn with(cap: u64, params: Params) -> Self {
        Self {
            params,
            cap: (cap as f64).max(1.0),
            seen: 0,
            floors: Recent::default(),
            recent_excesses: Recent::default(),
            excesses: Excesses::default(),
            trends: [None; 2],
            ages: [Age::default(); 2],
            jumps: Jumps::default(),
            flushes: Recent::default(),
            pressure: Pressure { highest: 0.0, peak: 0.0, reserved: 0.0, most: 0.0, piece: 0.0, flushing: 0.0 },
            update_growth: None,
            state_jump: false,
        }
    }

    /// Adds a finished step and forecasts.
    pub fn step(&mut self, facts: StepFacts) -> Forecast {
        self.add(facts);
        self.forecast()
    }

    fn add(&mut self, facts: StepFacts) {
        let part = |bytes: u64| bytes as f64 / self.cap;
        let (floor, peak) = (part(facts.floor), part(facts.peak));
        let update = facts.update_growth.map(|bytes| bytes as f64 / self.cap);
        if let Some(before) = self.floors.last() {
            let rise = floor - before;
            let usual = median_move(self.floors.values());
            if self.jumps.step(rise, usual) {
                let from_update = update.zip(self.update_growth).is_some_and(|(now, then)| now - then > rise * 0.6);
                self.state_jump = from_update;
                // A jump is no slope: the trend is read anew.
                self.floors.clear();
            }
            let excess = (peak - before).max(0.0);
            self.recent_excesses.push(excess);
            self.excesses.push(excess);
        }
        self.update_growth = update;
        self.floors.push(floor);
        self.flushes.push(if facts.flushed { 1.0 } else { 0.0 });
        let reserved = part(facts.reserved);
        let last = &self.pressure;
        let piece = if self.seen > 2 { last.piece.max(reserved - last.reserved) } else { 0.0 };
        let (highest, most) = (last.highest.max(peak), last.most.max(reserved));
        self.pressure = Pressure { highest, peak, reserved, most, piece, flushing: 0.0 };
        self.seen += 1;
        let floor_trend = trend::of_floor(self.floors.values(), &self.params);
        let excess_trend = trend::of_excess(self.recent_excesses.values(), &self.params);
        let [floor_age, excess_age] = &mut self.ages;
        self.trends = [floor_age.step(floor_trend), excess_age.step(excess_trend)];
    }

    fn forecast(&self) -> Forecast {
        let params = &self.params;
        let floor = self.floors.last().unwrap_or(0.0);
        let [floor_trend, excess_trend] = self.trends;
        let mut residuals = Vec::new();
        if let Some(trend) = excess_trend {
            let values = self.recent_excesses.values();
            let ages = (0..values.len()).rev();
            residuals.extend(values.iter().zip(ages).map(|(value, age)| value + trend.slope * age as f64));
            residuals.sort_unstable_by(f64::total_cmp);
        }
        let sorted = if excess_trend.is_some() { &residuals } else { self.excesses.sorted() };
        let outlook = Outlook {
            floor,
            floor_trend,
            excess_trend,
            tail: Tail::of(sorted, params),
            surprise: params.surprise / (f64::from(self.seen) + params.surprise_prior),
        };
        let flushes = self.flushes.values();
        let latest = &flushes[flushes.len().saturating_sub(FLUSHES)..];
        let flushing = latest.iter().sum::<f64>() / FLUSHES as f64;
        let pressure = Pressure { highest: self.pressure.highest.max(floor), flushing, ..self.pressure };
        let limit = Limit::new(&pressure, params);
        let mut alive = [0.0; 2];
        for (room, weight) in limit.points() {
            self.survive(&outlook, room, weight, &mut alive);
        }
        let p20 = calibrate(1.0 - alive[0], params.calibration[0]);
        let p50 = calibrate(1.0 - alive[1], params.calibration[1]).max(p20);
        Forecast {
            p20,
            p50,
            cause: self.cause(&outlook, flushing, p50),
            steps_left: steps_left(&outlook, &limit),
            floor_slope: floor_trend.map(|trend| trend.slope * self.cap),
            excess_slope: excess_trend.map(|trend| trend.slope * self.cap),
        }
    }

    /// Adds the chances to be alive after the near and the far horizon, if the limit is `limit`.
    fn survive(&self, outlook: &Outlook<'_>, limit: f64, weight: f64, alive: &mut [f64; 2]) {
        let params = &self.params;
        let slope = outlook.slope();
        let stop = |trend: Option<Trend>, new: f64, power: f64| {
            trend.map_or(0.0, |trend| new * (1.0 + trend.age / params.stop_prior).powf(-power))
        };
        let stop = stop(outlook.floor_trend, params.floor_stop, params.floor_power)
            + stop(outlook.excess_trend, params.excess_stop, params.excess_power);
        let jumps = slope == 0.0 && !self.state_jump && self.jumps.count > 0;
        let dies = |growth: f64| outlook.dies(limit, growth, self.pressure.highest, params);
        let still = dies(0.0);
        if slope == 0.0 && !jumps {
            alive[0] += weight * (1.0 - still).powi(NEAR as i32);
            alive[1] += weight * (1.0 - still).powi(FAR as i32);
            return;
        }
        let jumped_dies = if jumps { dies(self.jumps.size) } else { 0.0 };
        let twice_dies = if jumps { dies(self.jumps.size * 2.0) } else { 0.0 };
        // The ways: going on as now, having stopped growing, having jumped once or twice.
        let (mut on, mut stopped, mut stopped_at, mut jumped, mut twice) = (1.0, 0.0, 0.0, 0.0, 0.0);
        for ahead in 1..=FAR {
            let growth = slope * ahead as f64;
            if jumps {
                let leap = on * self.jumps.chance(ahead as f64, params);
                on -= leap;
                let second = jumped * self.jumps.second(params);
                twice = twice * (1.0 - twice_dies) + second;
                jumped = (jumped - second) * (1.0 - jumped_dies) + leap;
            }
            if slope > 0.0 && on > 1e-4 {
                let ends = on * stop.min(1.0);
                stopped_at = if stopped + ends > 0.0 {
                    (stopped_at * stopped + growth * ends) / (stopped + ends)
                } else {
                    growth
                };
                stopped += ends;
                on -= ends;
                on *= 1.0 - dies(growth);
                if stopped > 1e-3 {
                    stopped *= 1.0 - dies(stopped_at);
                }
            } else {
                on *= 1.0 - still;
            }
            if ahead == NEAR {
                alive[0] += weight * (on + stopped + jumped + twice);
            }
        }
        alive[1] += weight * (on + stopped + jumped + twice);
    }

    fn cause(&self, outlook: &Outlook<'_>, flushing: f64, p50: f64) -> ForecastCause {
        if p50 < WORTH_A_CAUSE {
            return ForecastCause::None;
        }
        let slope = |trend: Option<Trend>| trend.map_or(0.0, |trend| trend.slope);
        let (floor, excess) = (slope(outlook.floor_trend), slope(outlook.excess_trend));
        if floor > 0.0 || excess > 0.0 {
            return if floor >= excess { ForecastCause::Leak } else { ForecastCause::Growth };
        }
        if self.jumps.count > 0 {
            return if self.state_jump { ForecastCause::StateGrowth } else { ForecastCause::StepUp };
        }
        if flushing > 0.3 {
            return ForecastCause::Fragmentation;
        }
        let sorted = self.excesses.sorted();
        let varies = sorted.first().zip(sorted.last()).is_some_and(|(least, most)| most - least > 0.02 * most);
        if varies { ForecastCause::RareLarge } else { ForecastCause::Unknown }
    }
}

impl Outlook<'_> {
    /// Rise of the peak a step.
    fn slope(&self) -> f64 {
        let slope = |trend: Option<Trend>| trend.map_or(0.0, |trend| trend.slope);
        slope(self.floor_trend) + slope(self.excess_trend)
    }

    /// The chance to die in a step that starts `growth` higher than the next.
    fn dies(&self, limit: f64, growth: f64, highest: f64, params: &Params) -> f64 {
        let tail = self.tail.above(limit - self.floor - growth);
        let unseen = self.surprise * (-(limit - highest).max(0.0) / params.surprise_size).exp();
        (tail + unseen).min(1.0)
    }
}

/// Steps until the peak meets the limit at the present pace: 8 times in 10 between these.
fn steps_left(outlook: &Outlook<'_>, limit: &Limit) -> Option<(u32, u32)> {
    let slope = outlook.slope();
    if slope <= 0.0 {
        return None;
    }
    let level = outlook.floor + outlook.tail.middle();
    let steps = |at: f64| ((limit.quantile(at).min(1.0) - level) / slope).clamp(0.0, 1e6) as u32;
    Some((steps(0.1), steps(0.9).max(1)))
}

/// How much a series usually moves in a step.
fn median_move(values: &[f64]) -> f64 {
    let mut moves: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    if moves.is_empty() {
        return 0.0;
    }
    moves.sort_unstable_by(f64::total_cmp);
    moves[moves.len() / 2]
}

fn calibrate(chance: f64, [offset, slope]: [f64; 2]) -> f64 {
    let chance = chance.clamp(1e-6, 1.0 - 1e-6);
    let logit = (chance / (1.0 - chance)).ln();
    1.0 / (1.0 + (-(offset + slope * logit)).exp())
}
