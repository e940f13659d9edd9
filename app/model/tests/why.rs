//! Why allocations fail: a small story for each cause and each growth, and the questions on the way.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::collections::HashMap;

use proptest::prelude::*;
use support::{LARGE, alloc, event, free, freed, reserve};
use vramscope_model::{
    Answer, Asked, Capacity, CapacitySource, Cause, Growth, History, Ingest, LaneId, Phase, Position, Steps, Why,
    steps, why,
};
use vramscope_trace::{
    AllocatorSettings, Batch, Event, EventKind, Frame, Interner, Pool, PoolOwner, RunInfo, StackId, StreamId,
};

const LANE: LaneId = LaneId(0);
/// One unit of the stories: a multiple of what segments are rounded to.
const U: u64 = 100 << 20;
const GIB: u64 = 1 << 30;

/// A job's events, written down as they happen. Every block has a segment of its own unless told otherwise.
struct Story {
    interner: Interner,
    stacks: HashMap<&'static str, StackId>,
    events: Vec<Event>,
    next: u64,
    settings: AllocatorSettings,
}

impl Story {
    fn new() -> Self {
        let settings = AllocatorSettings::default();
        Self { interner: Interner::new(), stacks: HashMap::new(), events: Vec::new(), next: 64 * GIB, settings }
    }

    fn push(&mut self, kind: EventKind) {
        self.events.push(event(1000 + self.events.len() as i64, kind));
    }

    fn mark(&mut self, name: &str) {
        let name = self.interner.name(name);
        self.push(EventKind::Mark { name });
    }

    /// A stack of one frame: `file function`.
    fn stack(&mut self, site: &'static str) -> StackId {
        let interner = &mut self.interner;
        *self.stacks.entry(site).or_insert_with(|| {
            let (file, function) = site.split_once(' ').unwrap();
            let (file, function) = (interner.name(file), interner.name(function));
            let frame = interner.frame(Frame { file, function, line: 1 });
            interner.stack(&[frame])
        })
    }

    /// Allocates so many bytes; the address names them.
    fn hold(&mut self, bytes: u64, site: &'static str) -> u64 {
        let address = self.next;
        self.next += bytes;
        let stack = self.stack(site);
        self.push(reserve(address, bytes));
        self.push(EventKind::BlockAlloc { address, bytes, requested: Some(bytes), stack, at_start: false });
        address
    }

    /// Frees a block and gives its segment back.
    fn release(&mut self, address: u64, bytes: u64) {
        self.push(free(address));
        self.push(freed(address));
        self.push(EventKind::SegmentFree { address, bytes });
    }

    /// Allocates and frees.
    fn pass(&mut self, bytes: u64, site: &'static str) {
        let address = self.hold(bytes, site);
        self.release(address, bytes);
    }

    fn fail(&mut self, requested: u64, device_free: Option<u64>) {
        self.push(EventKind::OutOfMemory { requested, device_free, stack: StackId::NONE });
    }

    fn history(&mut self) -> History {
        let mut ingest = Ingest::new();
        let info = RunInfo { settings: Some(self.settings.clone()), ..RunInfo::default() };
        ingest.set_info(info.into());
        ingest.push(Batch { dictionary: self.interner.take_chunks(), events: self.events.clone(), ..Batch::default() });
        ingest.history()
    }

    /// Why its last failure happened.
    fn why(&mut self, capacity: Option<Capacity>) -> Why {
        let history = self.history();
        let capacity = capacity.unwrap_or_else(|| Capacity::from_failures(&history, LANE));
        let failure = Asked::Failure(*history.ooms().last().unwrap());
        let why = why(&history, LANE, &failure, &capacity, &found(&history), &|| false).unwrap();
        check(&why);
        why
    }
}

fn found(history: &History) -> Steps {
    steps(history, LANE, &|| false).unwrap()
}

/// What holds for every answer.
fn check(why: &Why) {
    assert!(!why.sentence.is_empty() && why.sentence.ends_with('.'), "{}", why.sentence);
    let (last, before) = why.path.split_last().unwrap();
    assert_ne!(last.answer, Answer::No, "{last:?}");
    assert!(before.iter().all(|node| node.answer != Answer::Yes), "{before:?}");
    for node in &why.path {
        assert!(node.question.ends_with('?') && !node.words.is_empty(), "{node:?}");
    }
    assert!(why.advice.len() <= 6);
    for advice in &why.advice {
        assert!(!advice.cost.is_empty() && !advice.source.is_empty() && advice.effect_bytes.is_none(), "{advice:?}");
    }
}

fn titles(why: &Why) -> String {
    why.advice.iter().map(|advice| advice.title.as_str()).collect::<Vec<_>>().join("; ")
}

fn with(stream: u64, owner: PoolOwner, kind: EventKind) -> Event {
    let mut event = Event { stream: Some(StreamId(stream)), ..event(1000, kind) };
    if let EventKind::SegmentAlloc { pool, .. } = &mut event.kind {
        *pool = Some(Pool { owner, ..LARGE });
    }
    event
}

#[test]
fn free_memory_of_a_private_pool_serves_nobody_else() {
    let mut story = Story::new();
    story.hold(100 * U, "train.py main");
    story.events.push(with(0, PoolOwner(0, 1), reserve(0, 600 * U)));
    story.fail(50 * U, Some(10 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::PrivatePool), Growth::None));
    assert_eq!(why.path.last().unwrap().bytes, Some(600 * U));
    assert!(titles(&why).contains("graph_pool_handle") && !titles(&why).contains("expandable"), "{}", titles(&why));
}

/// A segment that once held the same request, cut up by small blocks.
fn cut_up(device_free: Option<u64>) -> Story {
    let mut story = Story::new();
    for kind in [reserve(0, 116 * U), alloc(0, 116 * U), free(0), freed(0)] {
        story.push(kind);
    }
    for n in 0..5 {
        story.push(alloc(n * 24 * U, 3 * U));
    }
    story.fail(116 * U, device_free);
    story
}

#[test]
fn free_memory_in_pieces_is_fragmentation() {
    for device_free in [Some(4 * U), None] {
        let why = cut_up(device_free).why(None);
        assert_eq!(why.cause, Some(Cause::Fragmentation), "{}", why.sentence);
        assert!(why.sentence.contains("in 5 pieces") && why.sentence.contains("all but"), "{}", why.sentence);
        let mut pins: Vec<u32> = why.pinned_by.iter().map(|block| block.0).collect();
        pins.sort_unstable();
        assert_eq!(pins, [1, 2, 3, 4, 5]);
        let settings: Vec<_> = why.advice.iter().filter_map(|advice| advice.setting).collect();
        assert_eq!(settings, ["expandable_segments:True", "max_split_size_mb:128"]);
    }
}

#[test]
fn what_is_set_already_is_not_advised() {
    let mut story = cut_up(Some(4 * U));
    story.settings.expandable_segments = true;
    assert!(story.why(None).advice.iter().all(|advice| advice.setting.is_none()));
    story.settings = AllocatorSettings { max_split_size: Some(64 << 20), ..AllocatorSettings::default() };
    let settings: Vec<_> = story.why(None).advice.iter().filter_map(|advice| advice.setting).collect();
    assert_eq!(settings, ["expandable_segments:True"]);
}

#[test]
fn free_memory_of_another_stream_serves_nobody_else() {
    let mut story = Story::new();
    for kind in [reserve(0, 500 * U), alloc(0, 500 * U), free(0), freed(0)] {
        story.events.push(with(7, PoolOwner::DEFAULT, kind));
    }
    story.hold(100 * U, "train.py main");
    story.fail(200 * U, Some(0));
    let why = story.why(None);
    assert_eq!((why.cause, why.path.last().unwrap().bytes), (Some(Cause::OtherStream), Some(500 * U)));
    assert!(titles(&why).contains("stream that runs the training"), "{}", titles(&why));
}

#[test]
fn a_request_may_be_larger_than_the_card() {
    let mut story = Story::new();
    story.hold(2 * GIB, "train.py main");
    story.fail(26 * GIB, Some(22 * GIB));
    for capacity in [Some(Capacity::of_card(24 * GIB)), None] {
        let why = story.why(capacity);
        assert_eq!((why.cause, why.path.len()), (Some(Cause::LargerThanCard), 1));
        assert_eq!(why.path[0].bytes, Some(24 * GIB));
        let titles = titles(&why);
        assert!(
            titles.contains("line that asked") && !titles.contains("pieces") && !titles.contains("longest"),
            "{titles}"
        );
    }
}

#[test]
fn memory_beyond_the_card_was_spilled() {
    let mut story = Story::new();
    story.hold(29 * GIB / 2, "train.py main");
    story.fail(GIB, Some(0));
    let why = story.why(Some(Capacity::of_card(8 * GIB)));
    assert_eq!(why.cause, Some(Cause::Unknown));
    assert!(why.sentence.contains("spilled 6.50 GiB to system memory"), "{}", why.sentence);
    assert!(titles(&why).contains("fallback"), "{}", titles(&why));
}

#[test]
fn a_limit_of_the_programs_own_shows_when_the_driver_had_room() {
    let mut story = Story::new();
    story.pass(40 * U, "train.py main");
    story.hold(30 * U, "train.py main");
    story.fail(20 * U, Some(500 * U));
    let history = story.history();
    let capacity = Capacity::from_failures(&history, LANE);
    let between = Capacity {
        bytes: Some(40 * U),
        below: Some(50 * U),
        source: CapacitySource::MemoryFraction,
        ..Capacity::default()
    };
    assert_eq!(capacity, between);
    let why = story.why(None);
    assert_eq!(why.cause, Some(Cause::MemoryFraction));
    assert!(titles(&why).contains("to at least 4.88 GiB"), "{}", titles(&why));
    // On a card that ends before, the card is the limit.
    assert_eq!(story.why(Some(Capacity::of_card(35 * U))).cause, Some(Cause::Capacity));
}

#[test]
fn what_others_hold_counts_only_where_it_is_known_and_matters() {
    let mut story = Story::new();
    story.hold(20 * U, "train.py main");
    story.fail(10 * U, Some(5 * U));
    let card = Capacity { card: Some(100 * U), ..Capacity::default() };
    let cause = |story: &mut Story, others, outside| {
        story.why(Some(Capacity { other_processes: others, non_framework: outside, ..card })).cause.unwrap()
    };
    assert_eq!(cause(&mut story, Some(70 * U), Some(5 * U)), Cause::OtherProcesses);
    assert_eq!(cause(&mut story, Some(4 * U), Some(71 * U)), Cause::NonFramework);
    assert_eq!(cause(&mut story, Some(4 * U), Some(4 * U)), Cause::Capacity);
    let why = story.why(Some(card));
    assert_eq!(why.cause, Some(Cause::Capacity));
    assert!(why.sentence.contains("7.32 GiB of the card are neither"), "{}", why.sentence);
}

#[test]
fn without_figures_of_the_card_the_limit_is_unknown() {
    let mut story = Story::new();
    story.hold(20 * U, "train.py main");
    story.fail(10 * U, None);
    let why = story.why(None);
    assert_eq!(why.cause, Some(Cause::Unknown));
    assert!(why.path.iter().any(|node| node.answer == Answer::Unknown && node.bytes.is_none()));
    assert_eq!(story.why(Some(Capacity::of_card(25 * U))).cause, Some(Cause::Capacity));
}

/// One training step that peaks at `peak` above what is held.
fn step(story: &mut Story, number: u32, peak: u64) {
    story.mark(&format!("step {number} forward"));
    let activations = story.hold(peak / 2, "model.py forward");
    story.mark(&format!("step {number} backward"));
    story.pass(peak - peak / 2, "model.py backward");
    story.release(activations, peak / 2);
}

#[test]
fn validation_that_leaves_memory_behind_is_named() {
    let mut story = Story::new();
    story.mark("load");
    story.hold(30 * U, "model.py init");
    for number in 0..3 {
        step(&mut story, number, 40 * U);
    }
    story.mark("validation");
    story.hold(25 * U, "model.py evaluate");
    story.pass(40 * U, "model.py evaluate");
    story.mark("step 3 forward");
    story.hold(20 * U, "model.py forward");
    story.mark("step 3 backward");
    story.hold(10 * U, "model.py backward");
    story.fail(20 * U, Some(15 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::Validation), "{}", why.sentence);
    assert!(why.sentence.contains("2.44 GiB behind"), "{}", why.sentence);
    assert!(titles(&why).contains("inference_mode"), "{}", titles(&why));
    let phases: Vec<_> = why.holders.iter().map(|held| (held.phase, held.bytes / U)).collect();
    assert_eq!(phases, [(Phase::Load, 30), (Phase::Validation, 25), (Phase::Forward, 20), (Phase::Backward, 10)]);
}

#[test]
fn validation_that_dies_itself_is_named() {
    let mut story = Story::new();
    story.hold(30 * U, "model.py init");
    step(&mut story, 0, 40 * U);
    story.mark("validation");
    story.hold(60 * U, "model.py evaluate");
    story.fail(20 * U, Some(10 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::Validation), "{}", why.sentence);
}

/// Ten parameters of four units; forward takes twenty.
fn up_to_the_first_update() -> Story {
    let mut story = Story::new();
    story.mark("load");
    for _ in 0..10 {
        story.hold(4 * U, "model.py init");
    }
    step(&mut story, 0, 20 * U);
    story.mark("step 0 optimizer");
    story
}

#[test]
fn optimizer_state_that_does_not_fit_is_named() {
    let mut story = up_to_the_first_update();
    for _ in 0..13 {
        story.hold(4 * U, "adam.py step");
    }
    story.fail(4 * U, Some(3 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::StateGrowth), "{}", why.sentence);
    assert!(titles(&why).contains("8-bit Adam"), "{}", titles(&why));
}

#[test]
fn optimizer_state_that_leaves_no_room_for_the_next_step_is_named() {
    let mut story = up_to_the_first_update();
    for _ in 0..20 {
        story.hold(4 * U, "adam.py step");
    }
    story.mark("step 1 forward");
    story.hold(10 * U, "model.py forward");
    story.mark("step 1 backward");
    story.fail(10 * U, Some(8 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::StateGrowth), "{}", why.sentence);
    assert!(why.sentence.contains("7.81 GiB of state") && why.sentence.contains("not grow again"), "{}", why.sentence);
}

#[test]
fn a_longer_input_is_named() {
    let mut story = Story::new();
    story.hold(30 * U, "model.py init");
    for (number, peak) in [20, 22, 20, 24].into_iter().enumerate() {
        step(&mut story, number as u32, peak * U);
    }
    story.mark("step 4 forward");
    story.hold(28 * U, "model.py forward");
    story.fail(10 * U, Some(2 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::LongerInput), "{}", why.sentence);
    assert!(titles(&why).contains("by length"), "{}", titles(&why));
}

#[test]
fn a_step_like_any_other_has_not_grown() {
    let mut story = Story::new();
    story.hold(30 * U, "model.py init");
    for number in 0..4 {
        step(&mut story, number, 40 * U);
    }
    story.mark("step 4 forward");
    story.hold(20 * U, "model.py forward");
    story.fail(10 * U, Some(2 * U));
    assert_eq!(story.why(None).growth, Growth::None);
}

#[test]
fn a_leak_is_named_with_its_rate_and_stack() {
    let mut story = Story::new();
    for _ in 0..20 {
        let batch = story.hold(64 * U, "train.py forward_pass");
        story.hold(U, "train.py keep_loss");
        story.release(batch, 64 * U);
    }
    story.fail(64 * U, Some(63 * U));
    let why = story.why(None);
    assert_eq!((why.cause, why.growth), (Some(Cause::Capacity), Growth::Leak), "{}", why.sentence);
    assert_eq!(why.grown_by, Some(story.stack("train.py keep_loss")));
    assert!(why.sentence.contains("100.00 MiB more with each turn"), "{}", why.sentence);
    assert!(why.advice[0].title.contains(".item()"), "{}", titles(&why));
}

#[test]
fn a_request_that_nobody_made_is_answered_too() {
    let mut story = Story::new();
    let kept = story.hold(40 * U, "train.py main");
    let idle = story.hold(20 * U, "train.py main");
    story.push(free(idle));
    story.push(freed(idle));
    let history = story.history();
    let ask = |units: u64, capacity: Capacity| {
        let asked =
            Asked::Request { at: history.end(), bytes: units * U, owner: PoolOwner::DEFAULT, stream: StreamId(0) };
        let why = why(&history, LANE, &asked, &capacity, &found(&history), &|| false).unwrap();
        check(&why);
        (why.cause, why.sentence)
    };
    let card = Capacity::of_card(70 * U);
    assert!(matches!(ask(20, card), (None, words) if words.contains("from the cache")));
    assert!(matches!(ask(10, Capacity::of_card(60 * U)), (None, words) if words.contains("from the cache")));
    let tight = Capacity { bytes: Some(90 * U), ..card };
    assert!(matches!(ask(30, tight), (None, words) if words.contains("new segment")));
    assert!(matches!(ask(30, card), (None, words) if words.contains("emptied its cache")));
    assert_eq!(ask(31, card).0, Some(Cause::Capacity));
    assert_eq!(ask(71, card).0, Some(Cause::LargerThanCard));
    assert_eq!(ask(31, Capacity::default()).0, Some(Cause::Unknown));
    let limited = Capacity { bytes: Some(60 * U), source: CapacitySource::MemoryFraction, ..Capacity::default() };
    assert_eq!(ask(25, limited).0, Some(Cause::MemoryFraction));
    assert_eq!(kept, 64 * GIB);
}

#[test]
fn nothing_is_answered_for_a_lane_that_is_not_there_or_when_cancelled() {
    let mut story = cut_up(None);
    let history = story.history();
    let failure = Asked::Failure(history.ooms()[0]);
    let capacity = Capacity::default();
    assert_eq!(why(&history, LaneId(9), &failure, &capacity, &found(&history), &|| false), None);
    assert_eq!(why(&history, LANE, &failure, &capacity, &found(&history), &|| true), None);
    assert!(failure.at() > Position::START);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every failure and every request has an answer, whatever the events say.
    #[test]
    fn every_question_has_an_answer(
        bytes in prop::collection::vec(any::<[u8; 6]>(), 1..300),
        request in any::<u64>(),
        card in any::<u64>(),
        at in 0..300_u32,
    ) {
        let history = support::history(&support::odd_events(&bytes, true, true));
        for lane in history.lanes() {
            let steps = steps(&history, lane.id, &|| false).unwrap();
            let asked = Asked::Request {
                at: Position(at),
                bytes: request >> (request % 64),
                owner: PoolOwner::DEFAULT,
                stream: StreamId(0),
            };
            let failures = history.ooms().into_iter().filter(|oom| oom.lane == lane.id).map(Asked::Failure);
            for asked in failures.chain([asked]) {
                for capacity in [Capacity::from_failures(&history, lane.id), Capacity::of_card(card >> (card % 64))] {
                    let why = why(&history, lane.id, &asked, &capacity, &steps, &|| false).unwrap();
                    check(&why);
                    let made = matches!(asked, Asked::Failure(_));
                    prop_assert!(why.cause.is_some() || !made);
                    let held: u64 = why.holders.iter().map(|held| held.bytes).sum();
                    let allocated = history.value_at(lane.id, vramscope_model::Metric::Allocated, asked.at()).unwrap();
                    prop_assert!(held <= allocated);
                }
            }
        }
    }
}
