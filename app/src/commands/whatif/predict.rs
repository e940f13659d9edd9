//! Predictions as rows: the fields that programs may rely on. Bytes are integers, unknown is `null`.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use vramscope_model::{Position, Steps};
use vramscope_sim::{Failure, Policy, Prediction, min_capacity, predict, rank};
use vramscope_trace::{Requests, StackId};

/// The recorded run.
pub(super) struct Recorded<'a> {
    pub(super) requests: &'a Requests,
    /// Its steps and phases; `None` if none were looked for.
    pub(super) steps: Option<Steps>,
}

/// What would have happened under one setting.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) conf: String,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) peak_reserved_bytes: u64,
    /// The least and the most of it, over the ways that the driver may place segments.
    pub(super) peak_reserved_range_bytes: [u64; 2],
    pub(super) peak_allocated_bytes: u64,
    pub(super) segment_allocs: u64,
    pub(super) segment_frees: u64,
    pub(super) retries: u64,
    pub(super) oom: Option<Oom>,
    /// The smallest capacity on which the run survives; `null` if it was not asked for, or if none is enough.
    pub(super) min_capacity_bytes: Option<u64>,
    pub(super) depends_on_addresses: bool,
}

/// The first request that fails.
#[derive(Debug, Serialize)]
pub(super) struct Oom {
    /// The recorded event that shows the request.
    pub(super) event: u32,
    pub(super) step: Option<u32>,
    pub(super) phase: Option<&'static str>,
    /// What the tensor needs.
    pub(super) requested_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) allocated_bytes: u64,
    #[serde(skip)]
    pub(super) stack: StackId,
}

/// A row a setting, best first.
pub(super) fn rows(recorded: &Recorded<'_>, settings: &[(String, Policy)], with_capacity: bool) -> Vec<Row> {
    let mut found: Vec<(usize, Prediction, Option<u64>)> = side_by_side(settings, |policy| {
        let least = if with_capacity { min_capacity(recorded.requests, policy) } else { None };
        (predict(recorded.requests, policy), least)
    });
    found.sort_by(|(_, one, _), (_, other, _)| rank(one, other));
    found.into_iter().map(|(index, prediction, least)| row(recorded, &settings[index], &prediction, least)).collect()
}

/// Runs a job for each setting on all cores; answers in the order of the settings, with their numbers.
fn side_by_side<T: Send, U: Send>(
    settings: &[(String, Policy)],
    job: impl Fn(&Policy) -> (T, U) + Sync,
) -> Vec<(usize, T, U)> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(settings.len()));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(settings.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, policy)) = settings.get(index) else { return };
                    let (one, other) = job(policy);
                    answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, one, other));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(index, ..)| *index);
    answers
}

fn row(recorded: &Recorded<'_>, setting: &(String, Policy), found: &Prediction, least: Option<u64>) -> Row {
    let totals = &found.outcome.totals;
    Row {
        conf: setting.0.clone(),
        capacity_bytes: setting.1.limit.bytes(),
        peak_reserved_bytes: totals.peak_reserved,
        peak_reserved_range_bytes: [found.peak_reserved_range.0, found.peak_reserved_range.1],
        peak_allocated_bytes: totals.peak_allocated,
        segment_allocs: totals.segment_allocs,
        segment_frees: totals.segment_frees,
        retries: totals.retries,
        oom: found.outcome.failure.map(|failure| oom(recorded, &failure)),
        min_capacity_bytes: least,
        depends_on_addresses: found.depends_on_addresses,
    }
}

fn oom(recorded: &Recorded<'_>, failure: &Failure) -> Oom {
    let at = Position(failure.event);
    let steps = recorded.steps.as_ref();
    Oom {
        event: failure.event,
        step: steps.and_then(|steps| steps.step_at(at)),
        phase: steps.and_then(|steps| steps.phase_at(at)).map(|span| span.phase.name()),
        requested_bytes: failure.requested,
        reserved_bytes: failure.totals.reserved,
        allocated_bytes: failure.totals.allocated,
        stack: failure.stack,
    }
}
