//! Steps, phases, leaks and forecasts on small made-up runs, and laws that hold for every stream.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use proptest::prelude::*;
use support::{event, history as plain_history, odd_events};
use vramscope_model::{
    Beat, Forecast, ForecastCause, Forecaster, History, Ingest, LaneId, Phase, StepFacts, StepSource, Steps, leaks,
    step_facts, steps,
};
use vramscope_trace::{Batch, Event, EventKind, Frame, Interner, StackId};

const MIB: u64 = 1 << 20;
const TRAIN: (&str, &str) = ("train.py", "train");
const MODULE: (&str, &str) = ("site-packages/torch/nn/modules/module.py", "_call_impl");
const LINEAR: (&str, &str) = ("site-packages/torch/nn/modules/linear.py", "forward");
const UPDATE: (&str, &str) = ("site-packages/torch/optim/adam.py", "step");
const ZERO_GRAD: (&str, &str) = ("site-packages/torch/optim/optimizer.py", "zero_grad");

/// Writes the events of a run, one microsecond apart.
struct Script {
    interner: Interner,
    events: Vec<Event>,
    next: u64,
}

impl Script {
    fn new() -> Self {
        Self { interner: Interner::new(), events: Vec::new(), next: 1 << 30 }
    }

    /// A stack, innermost frame first; the line tells call sites apart.
    fn stack(&mut self, frames: &[(&str, &str)], line: u32) -> StackId {
        let frames: Vec<_> = frames
            .iter()
            .map(|(file, function)| {
                let (file, function) = (self.interner.name(file), self.interner.name(function));
                self.interner.frame(Frame { file, function, line })
            })
            .collect();
        self.interner.stack(&frames)
    }

    fn push(&mut self, kind: EventKind) {
        let micros = self.events.len() as i64;
        self.events.push(event(micros, kind));
    }

    fn alloc(&mut self, bytes: u64, stack: StackId) -> u64 {
        let address = self.next;
        self.next += bytes;
        self.push(EventKind::BlockAlloc { address, bytes, requested: Some(bytes), stack, at_start: false });
        address
    }

    fn free(&mut self, address: u64, stack: StackId) {
        self.push(EventKind::FreeRequested { address, stack, at_start: false });
        self.push(EventKind::FreeCompleted { address });
    }

    fn mark(&mut self, text: &str) {
        let name = self.interner.name(text);
        self.push(EventKind::Mark { name });
    }

    fn annotate(&mut self, text: &str, begins: bool) {
        let name = self.interner.name(text);
        self.push(if begins { EventKind::AnnotationBegin { name } } else { EventKind::AnnotationEnd { name } });
    }

    fn history(mut self) -> History {
        let mut ingest = Ingest::new();
        ingest.push(Batch { dictionary: self.interner.take_chunks(), ..Batch::default() });
        ingest.push(Batch { events: self.events, ..Batch::default() });
        ingest.history()
    }
}

fn found(history: &History) -> Steps {
    steps(history, LaneId(0), &|| false).unwrap()
}

/// The phases of a recording in order, neighbours joined.
fn order(steps: &Steps) -> Vec<Phase> {
    let mut order: Vec<Phase> = steps.phases.iter().map(|span| span.phase).collect();
    order.dedup();
    order
}

/// A training step with stacks: four layers, gradients, an update. `first` = the update creates its state.
fn train_step(script: &mut Script, first: bool) {
    let data = script.stack(&[TRAIN], 1);
    let forward = script.stack(&[LINEAR, MODULE, TRAIN], 2);
    let update = script.stack(&[UPDATE, TRAIN], 4);
    let zero_grad = script.stack(&[ZERO_GRAD, TRAIN], 5);
    let batch = script.alloc(MIB, data);
    let saved: Vec<u64> = (0..4).map(|_| script.alloc(8 * MIB, forward)).collect();
    let gradients: Vec<u64> = saved
        .into_iter()
        .rev()
        .map(|block| {
            let gradient = script.alloc(4 * MIB, StackId::NONE);
            script.free(block, StackId::NONE);
            gradient
        })
        .collect();
    for _ in 0..if first { 20 } else { 0 } {
        script.alloc(4 * MIB, update);
    }
    let temporary = script.alloc(4 * MIB, update);
    script.free(temporary, update);
    for gradient in gradients {
        script.free(gradient, zero_grad);
    }
    script.free(batch, data);
}

#[test]
fn stacks_tell_phases_and_the_first_update_leaves_its_state() {
    let mut script = Script::new();
    for step in 0..3 {
        train_step(&mut script, step == 0);
    }
    let found = found(&script.history());
    assert_eq!((found.source, found.steps.len()), (StepSource::Stacks, 3));
    use Phase::{Backward, Data, Forward, Optimizer, Other, ZeroGrad};
    let one = [Data, Forward, Backward, Optimizer, ZeroGrad];
    assert_eq!(order(&found), [&one[..], &one[..], &one[..], &[Other]].concat());
    let states: Vec<u64> = found.steps.iter().map(|step| step.state_bytes).collect();
    assert_eq!(states, [80 * MIB, 0, 0]);
}

#[test]
fn a_forward_pass_that_no_backward_pass_uses_is_validation() {
    let mut script = Script::new();
    for _ in 0..3 {
        train_step(&mut script, false);
        let forward = script.stack(&[LINEAR, MODULE, TRAIN], 9);
        for _ in 0..5 {
            let block = script.alloc(16 * MIB, forward);
            script.free(block, forward);
        }
    }
    let found = found(&script.history());
    assert_eq!(found.steps.len(), 3);
    let validations = found.phases.iter().filter(|span| span.phase == Phase::Validation);
    assert!(validations.clone().all(|span| span.step.is_none()));
    assert_eq!(validations.count(), 3);
}

#[test]
fn marks_come_first_and_number_the_steps() {
    let mut script = Script::new();
    for step in 0..4 {
        for phase in ["data", "forward", "backward", "optimizer"] {
            script.mark(&format!("step {step} {phase}"));
            let block = script.alloc(MIB, StackId::NONE);
            script.free(block, StackId::NONE);
        }
    }
    let found = found(&script.history());
    assert_eq!((found.source, found.steps.len()), (StepSource::Marks, 4));
    use Phase::{Backward, Data, Forward, Optimizer};
    assert_eq!(order(&found)[..5], [Data, Forward, Backward, Optimizer, Data]);
}

#[test]
fn annotations_tell_where_there_are_no_stacks() {
    let mut script = Script::new();
    for _ in 0..4 {
        for span in ["forward", "backward", "Optimizer.step#AdamW.step"] {
            script.annotate(span, true);
            let block = script.alloc(MIB, StackId::NONE);
            script.free(block, StackId::NONE);
            script.annotate(span, false);
        }
    }
    let found = found(&script.history());
    assert_eq!((found.source, found.steps.len()), (StepSource::Annotations, 4));
    assert!(found.steps.iter().all(|step| !step.partial && step.micro_steps == 1));
}

#[test]
fn gradients_dropped_before_the_backward_pass_end_the_step_before() {
    let mut script = Script::new();
    let mut gradients: Vec<u64> = Vec::new();
    for _ in 0..4 {
        let forward = script.stack(&[LINEAR, MODULE, TRAIN], 2);
        let zero_grad = script.stack(&[ZERO_GRAD, TRAIN], 3);
        let saved: Vec<u64> = (0..4).map(|_| script.alloc(8 * MIB, forward)).collect();
        for gradient in gradients.drain(..) {
            script.free(gradient, zero_grad);
        }
        for block in saved {
            gradients.push(script.alloc(4 * MIB, StackId::NONE));
            script.free(block, StackId::NONE);
        }
    }
    let found = found(&script.history());
    assert_eq!(found.steps.len(), 4, "{found:?}");
}

#[test]
fn a_loop_without_learning_has_turns() {
    let mut script = Script::new();
    for _ in 0..6 {
        let first = script.stack(&[LINEAR, MODULE, TRAIN], 2);
        let second = script.stack(&[LINEAR, MODULE, MODULE, TRAIN], 3);
        for stack in [first, second, second] {
            let block = script.alloc(MIB, stack);
            script.free(block, stack);
        }
    }
    assert_eq!(found(&script.history()).steps.len(), 6);
}

#[test]
fn cancelling_gives_nothing() {
    let mut script = Script::new();
    train_step(&mut script, true);
    let history = script.history();
    assert_eq!(steps(&history, LaneId(0), &|| true), None);
    assert_eq!(leaks(&history, LaneId(0), &found(&history), &|| true), None);
    assert_eq!(steps(&history, LaneId(1), &|| false), None);
}

/// Case 30: summing a loss tensor, not its value, keeps every step's graph.
#[test]
fn a_slow_staircase_is_a_leak_with_its_slope() {
    let mut script = Script::new();
    let (large, small) = (script.stack(&[TRAIN], 1), script.stack(&[TRAIN], 2));
    for _ in 0..20 {
        let block = script.alloc(64 * MIB, large);
        script.alloc(MIB, small);
        script.free(block, large);
    }
    let history = script.history();
    let found = leaks(&history, LaneId(0), &found(&history), &|| false).unwrap();
    assert_eq!((found.beat, found.beats.len()), (Beat::Turn, 20));
    assert_eq!(found.floor_slope, Some(MIB as f64));
    assert!(found.rising);
    let [suspect] = &found.suspects[..] else { panic!("{:?}", found.suspects) };
    assert_eq!((suspect.stack, suspect.bytes_per_step, suspect.blocks_per_step), (small, MIB as f64, 1.0));
}

/// Case 23: a matrix library's workspace stays and is no leak.
#[test]
fn a_library_workspace_is_named_and_not_accused() {
    for (bytes, frames, known) in [
        (8_519_680, &[LINEAR, TRAIN][..], true),
        (33_554_432, &[LINEAR, TRAIN][..], true),
        (33_554_432, &[TRAIN][..], false),
    ] {
        let mut script = Script::new();
        let stack = script.stack(frames, 1);
        script.alloc(bytes, stack);
        let history = script.history();
        let found = leaks(&history, LaneId(0), &found(&history), &|| false).unwrap();
        let named: Vec<_> = found.workspaces.iter().map(|workspace| (workspace.bytes, workspace.name)).collect();
        assert_eq!(named, if known { vec![(bytes, "cuBLAS workspace")] } else { vec![] });
        assert_eq!(found.suspects, []);
    }
}

#[test]
fn a_cache_that_turns_over_is_no_leak() {
    let mut script = Script::new();
    let stack = script.stack(&[TRAIN], 7);
    let mut cache = std::collections::VecDeque::new();
    for step in 0..30 {
        train_step(&mut script, step == 0);
        cache.push_back(script.alloc(2 * MIB, stack));
        if cache.len() > 5 {
            let oldest = cache.pop_front().unwrap();
            script.free(oldest, stack);
        }
    }
    let history = script.history();
    assert_eq!(leaks(&history, LaneId(0), &found(&history), &|| false).unwrap().suspects, []);
}

#[test]
fn facts_of_steps_are_those_of_their_states() {
    let mut script = Script::new();
    for step in 0..3 {
        train_step(&mut script, step == 0);
    }
    let history = script.history();
    let facts = step_facts(&history, LaneId(0), &found(&history));
    let floors: Vec<u64> = facts.iter().map(|facts| facts.floor).collect();
    // The batch is freed after the last step's end, and before the next step's forward pass.
    assert_eq!(floors, [81 * MIB; 3]);
    let peaks: Vec<u64> = facts.iter().map(|facts| facts.peak).collect();
    assert_eq!(peaks, [101 * MIB, 117 * MIB, 117 * MIB]);
}

const CAP: u64 = 1_000_000;

fn forecasts(facts: impl IntoIterator<Item = StepFacts>) -> Vec<Forecast> {
    let mut forecaster = Forecaster::new(CAP);
    facts.into_iter().map(|facts| forecaster.step(facts)).collect()
}

fn step(floor: u64, peak: u64, reserved: u64) -> StepFacts {
    StepFacts { floor, peak, reserved, flushed: false, update_growth: Some(0) }
}

#[test]
fn a_steady_run_near_its_capacity_is_safe() {
    let last = *forecasts((0..100).map(|_| step(300_000, 950_000, 990_000))).last().unwrap();
    assert!(last.p50 < 0.2, "{last:?}");
    assert_eq!((last.steps_left, last.floor_slope), (None, None));
}

#[test]
fn a_leak_is_seen_coming_with_its_cause_slope_and_range() {
    let leak = |n: u64| step(300_000 + n * 3_000, 650_000 + n * 3_000, 700_000 + n * 3_000);
    let forecasts = forecasts((0..80).map(leak));
    let last = forecasts.last().unwrap();
    assert_eq!(last.cause, ForecastCause::Leak);
    assert!(last.p50 > 0.8 && last.p20 <= last.p50, "{last:?}");
    assert!((last.floor_slope.unwrap() - 3_000.0).abs() < 1.0);
    // 113,000 bytes are left to the capacity itself.
    let (least, most) = last.steps_left.unwrap();
    assert!(least <= most && most <= 38, "{last:?}");
    let early = &forecasts[10];
    assert!(early.p20 < 0.2, "{early:?}");
}

#[test]
fn a_leak_that_stops_stops_the_alarm() {
    let leak = |n: u64| step(300_000 + n.min(60) * 3_000, 650_000 + n.min(60) * 3_000, 880_000);
    let last = *forecasts((0..90).map(leak)).last().unwrap();
    assert!(last.p50 < 0.3, "{last:?}");
}

#[test]
fn causes_follow_what_grows() {
    let growth = |n: u64| step(300_000, 650_000 + n * 3_000 + n % 3 * 500, 850_000);
    assert_eq!(forecasts((0..70).map(growth)).last().unwrap().cause, ForecastCause::Growth);
    let jumps = |n: u64| step(300_000 + n / 20 * 90_000, 650_000 + n / 20 * 90_000, 900_000);
    assert_eq!(forecasts((0..50).map(jumps)).last().unwrap().cause, ForecastCause::StepUp);
    let state = |n: u64| {
        let grown = if n > 20 { 200_000 } else { 0 };
        let update_growth = Some(if n == 21 { 200_000 } else { 0 });
        StepFacts { update_growth, ..step(300_000 + grown, 790_000 + if n > 21 { grown } else { 0 }, 900_000) }
    };
    assert_eq!(forecasts((0..22).map(state)).last().unwrap().cause, ForecastCause::StateGrowth);
    let varied = |n: u64| step(300_000, 500_000 + n * 7_919 % 97 * 4_000, 960_000);
    assert_eq!(forecasts((0..40).map(varied)).last().unwrap().cause, ForecastCause::RareLarge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the events: spans tile the recording, steps are apart and in order, and what a span says of its step holds.
    #[test]
    fn spans_tile_and_steps_are_in_order(
        bytes in prop::collection::vec(any::<[u8; 6]>(), 0..400), told in any::<bool>(), on_time in any::<bool>()
    ) {
        let history = plain_history(&odd_events(&bytes, told, on_time));
        for lane in history.lanes() {
            let found = steps(&history, lane.id, &|| false).unwrap();
            prop_assert_eq!(found.phases.first().unwrap().range.start, history.recording_start());
            prop_assert_eq!(found.phases.last().unwrap().range.end, history.end());
            prop_assert!(found.phases.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
            prop_assert!(found.phases.iter().all(|span| span.range.start <= span.range.end));
            prop_assert!(found.steps.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
            for span in &found.phases {
                if let Some(step) = span.step {
                    let range = &found.steps[step as usize].range;
                    prop_assert!(range.start <= span.range.start);
                }
            }
            leaks(&history, lane.id, &found, &|| false).unwrap();
            step_facts(&history, lane.id, &found);
        }
    }

    /// Whatever a run does: chances are chances, the near one is not above the far one, and what comes later changes nothing.
    #[test]
    fn forecasts_are_chances_and_know_only_the_past(
        steps in prop::collection::vec((0..CAP * 2, 0..CAP * 2, 0..CAP * 2, any::<bool>()), 1..60), cut in 0..60usize
    ) {
        let facts: Vec<StepFacts> = steps
            .iter()
            .map(|&(floor, peak, reserved, flushed)| StepFacts { flushed, ..step(floor, peak, reserved) })
            .collect();
        let all = forecasts(facts.iter().copied());
        for forecast in &all {
            prop_assert!((0.0..=1.0).contains(&forecast.p20) && (0.0..=1.0).contains(&forecast.p50));
            prop_assert!(forecast.p20 <= forecast.p50);
            prop_assert!(forecast.steps_left.is_none_or(|(least, most)| least <= most));
        }
        let cut = cut.min(facts.len());
        prop_assert_eq!(&forecasts(facts[..cut].iter().copied())[..], &all[..cut]);
    }

    /// A run of twice the size on a card of twice the size has the same chances.
    #[test]
    fn forecasts_do_not_depend_on_the_unit(steps in prop::collection::vec((0..CAP, 0..CAP, 0..CAP), 1..40)) {
        let facts = |factor: u64| steps.iter().map(move |&(a, b, c)| step(a * factor, b * factor, c * factor));
        let mut large = Forecaster::new(CAP * 4);
        for (small, large) in forecasts(facts(1)).into_iter().zip(facts(4).map(|facts| large.step(facts))) {
            prop_assert!((small.p50 - large.p50).abs() < 1e-9);
        }
    }
}
