//! Steps and phases of real recordings, judged by the marks that were taken beside them. Neither marks nor annotations are
//! given to the search; once it may see stacks, once not even those.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vramscope_model::{BlockId, Forecaster, History, Ingest, LaneId, Phase, Steps, leaks, step_facts, steps};
use vramscope_trace::{Batch, EventKind, Progress, SourceMessage, StackId};

/// The recordings of trainings, and the steps that their entries lie in.
const TRAININGS: [(&str, usize); 17] = [
    ("gpt_accum", 6),
    ("gpt_allstacks", 2),
    ("gpt_amp_fp16", 6),
    ("gpt_bf16", 6),
    ("gpt_ckpt", 6),
    ("gpt_fp32", 6),
    ("gpt_no_set_to_none", 6),
    ("gpt_truncated", 1),
    ("varlen_capped", 24),
    ("varlen_default", 24),
    ("varlen_expandable", 24),
    ("varlen_maxsplit64", 24),
    ("varlen_roundup4", 24),
    ("leak_logits", 9),
    ("grow_oom", 24),
    ("oom_first", 1),
    ("empty_cache_each", 4),
];

fn corpus() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not here", path.display());
    None
}

/// What is left in a recording before it is searched.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Everything,
    Stacks,
    Neither,
}

fn strip(batch: &mut Batch, left: Left) {
    if left == Left::Everything {
        return;
    }
    batch.events.retain(|event| {
        !matches!(
            event.kind,
            EventKind::AnnotationBegin { .. } | EventKind::AnnotationEnd { .. } | EventKind::Mark { .. }
        )
    });
    for event in &mut batch.events {
        if let EventKind::BlockAlloc { stack, .. }
        | EventKind::SegmentAlloc { stack, .. }
        | EventKind::SegmentMap { stack, .. }
        | EventKind::FreeRequested { stack, .. }
        | EventKind::OutOfMemory { stack, .. } = &mut event.kind
            && left == Left::Neither
        {
            *stack = StackId::NONE;
        }
    }
}

fn read(path: &Path, left: Left) -> History {
    let (out, messages) = crossbeam_channel::bounded(64);
    let mut ingest = Ingest::new();
    std::thread::scope(|scope| {
        scope.spawn(move || vramscope_collector::read_file(path, &Progress::default(), &out));
        for message in messages {
            match message {
                SourceMessage::Batch(mut batch) => {
                    strip(&mut batch, left);
                    ingest.push(batch);
                }
                SourceMessage::Reset => ingest = Ingest::new(),
                SourceMessage::Info(info) => ingest.set_info(info),
                SourceMessage::Done => {}
                SourceMessage::Failed(sentence) => panic!("{} {sentence}", path.display()),
            }
        }
    });
    ingest.history()
}

fn found(history: &History) -> Steps {
    steps(history, LaneId(0), &|| false).unwrap()
}

/// A mark of a sidecar: when (Unix µs), in which step, which phase begins.
type Mark = (i64, i64, String);

fn marks(path: &Path) -> Vec<Mark> {
    let sidecar: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mark = |mark: &serde_json::Value| {
        (mark["t_us"].as_i64().unwrap(), mark["step"].as_i64().unwrap(), mark["phase"].as_str().unwrap().to_owned())
    };
    sidecar["marks"].as_array().unwrap().iter().map(mark).collect()
}

/// The loss counts as forward; all but forward, backward and optimizer as other.
fn judged(phase: &str) -> &str {
    match phase {
        "forward" | "loss" => "forward",
        "backward" | "optimizer" => phase,
        _ => "other",
    }
}

/// Part of the allocated bytes in the right phase, and how many steps the marks tell.
fn judge(history: &History, steps: &Steps, marks: &[Mark]) -> (f64, usize) {
    let (mut all, mut right) = (0, 0);
    let mut told = BTreeSet::new();
    let blocks = (0..history.blocks()).filter_map(|id| history.block(BlockId(id)));
    for block in blocks.filter(|block| !block.at_start) {
        let time = history.time_at(block.allocated).unwrap().micros();
        let (step, truth) = match marks.partition_point(|mark| mark.0 <= time) {
            0 => (-1, "before"),
            after => (marks[after - 1].1, marks[after - 1].2.as_str()),
        };
        told.extend((step >= 0).then_some(step));
        let phase = steps.phase_at(block.allocated).map_or(Phase::Other, |span| span.phase);
        all += block.bytes;
        right += if judged(phase.name()) == judged(truth) { block.bytes } else { 0 };
    }
    (right as f64 / all as f64, told.len())
}

#[test]
fn phases_are_found_without_annotations_and_without_stacks() {
    let Some(corpus) = corpus() else { return };
    println!(
        "{:<20} {:>5} | {:<11} {:>5} {:>7} | {:<11} {:>5} {:>7}",
        "", "steps", "with", "found", "right", "without", "found", "right"
    );
    for (name, count) in TRAININGS {
        let marks = marks(&corpus.join(format!("{name}.json")));
        let mut line = format!("{name:<20} {count:>5}");
        for (left, least) in [(Left::Stacks, 0.99), (Left::Neither, 0.90)] {
            let history = read(&corpus.join(format!("{name}.pickle.gz")), left);
            let steps = found(&history);
            let (right, told) = judge(&history, &steps, &marks);
            line += &format!(" | {:<11} {:>5} {:>6.2}%", steps.source.name(), steps.steps.len(), right * 100.0);
            assert_eq!(told, count, "{name}: the sidecar");
            assert_eq!(steps.steps.len(), count, "{name}: {:?}", steps.source);
            assert!(right >= least, "{name}: {:?}: {right}", steps.source);
            let open = steps.steps.iter().filter(|step| step.partial || step.out_of_memory).count();
            let cut = usize::from(["gpt_truncated", "leak_logits", "grow_oom", "oom_first"].contains(&name));
            assert_eq!(open, cut, "{name}: {:?}: steps cut short", steps.source);
        }
        println!("{line}");
    }
}

#[test]
fn accumulation_and_first_effects_are_seen() {
    let Some(corpus) = corpus() else { return };
    for (name, micro_steps) in [("gpt_accum", 4), ("gpt_fp32", 1), ("gpt_ckpt", 1)] {
        for left in [Left::Everything, Left::Stacks, Left::Neither] {
            let steps = found(&read(&corpus.join(format!("{name}.pickle.gz")), left)).steps;
            assert!(steps.iter().all(|step| step.micro_steps == micro_steps), "{name}: {steps:?}");
            // AdamW keeps two numbers for each of 36.7 million parameters.
            let [first, others @ ..] = &steps[..] else { panic!("{name} has no steps") };
            assert!((280 << 20..300 << 20).contains(&first.state_bytes), "{name}: {first:?}");
            assert!(others.iter().all(|step| !step.first_effects()), "{name}: {others:?}");
        }
    }
}

#[test]
fn a_leak_of_logits_is_found_and_the_workspace_is_named() {
    let Some(corpus) = corpus() else { return };
    let history = read(&corpus.join("leak_logits.pickle.gz"), Left::Stacks);
    let steps = found(&history);
    let leaks = leaks(&history, LaneId(0), &steps, &|| false).unwrap();
    // Four rows of logits a step: 4 x 512 x 16,384 numbers of 4 bytes.
    let slope = 4.0 * 512.0 * 16_384.0 * 4.0;
    assert!((leaks.floor_slope.unwrap() - slope).abs() < slope * 0.01, "{leaks:?}");
    assert!((leaks.suspects[0].bytes_per_step - slope).abs() < slope * 0.01, "{:?}", leaks.suspects);
    assert!(!leaks.workspaces.is_empty());

    let history = read(&corpus.join("gpt_fp32.pickle.gz"), Left::Stacks);
    let clean = vramscope_model::leaks(&history, LaneId(0), &found(&history), &|| false).unwrap();
    assert_eq!(clean.suspects, [], "a run without a leak");
}

#[test]
fn a_recorded_run_can_be_forecast() {
    let Some(corpus) = corpus() else { return };
    let history = read(&corpus.join("leak_logits.pickle.gz"), Left::Stacks);
    let facts = step_facts(&history, LaneId(0), &found(&history));
    assert_eq!(facts.len(), 8, "the step that died is not finished");
    let mut forecaster = Forecaster::new(3_600 << 20);
    let forecasts: Vec<_> = facts.into_iter().map(|facts| forecaster.step(facts)).collect();
    let last = forecasts.last().unwrap();
    assert!(last.p50 > 0.8, "{last:?}");
    assert_eq!(last.cause.name(), "leak");
}

#[test]
fn other_trainings_are_read_as_well() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("../whatif");
    for (name, count) in [("w_grow", 40), ("w_moe", 30), ("w_varlen", 40)] {
        let marks = marks(&folder.join(format!("{name}@default.json")));
        for left in [Left::Stacks, Left::Neither] {
            let history = read(&folder.join(format!("{name}@default.pickle.gz")), left);
            let steps = found(&history);
            let (right, _) = judge(&history, &steps, &marks);
            println!("{name:<20} {:<11} {:>5} {:>6.2}%", steps.source.name(), steps.steps.len(), right * 100.0);
            assert_eq!(steps.steps.len(), count, "{name}: {:?}", steps.source);
            assert!(right >= 0.95, "{name}: {:?}: {right}", steps.source);
        }
    }
}
