//! Why real runs died: recordings that end in a failure, the messages they died with, and the two commands that tell.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "helpers of tests are tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use vramscope_model::{
    Asked, Capacity, CapacitySource, Cause, Growth, History, Ingest, LaneId, Metric, Phase, explain, messages, steps,
    why,
};
use vramscope_trace::{PoolOwner, Progress, SourceMessage, StreamId};

const LANE: LaneId = LaneId(0);

/// Recordings that end in a failure, what had grown, and where in a step they died. All ran under a memory fraction.
const FAILURES: [(&str, Growth, Phase); 3] = [
    ("grow_oom", Growth::LongerInput, Phase::Backward),
    ("leak_logits", Growth::Leak, Phase::Backward),
    ("oom_first", Growth::None, Phase::Forward),
];

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: {} is not here", path.display());
    None
}

fn read(path: &Path) -> History {
    let (out, messages) = crossbeam_channel::bounded(64);
    let mut ingest = Ingest::new();
    std::thread::scope(|scope| {
        scope.spawn(move || vramscope_collector::read_file(path, &Progress::default(), &out));
        for message in messages {
            match message {
                SourceMessage::Batch(batch) => ingest.push(batch),
                SourceMessage::Reset => ingest = Ingest::new(),
                SourceMessage::Info(info) => ingest.set_info(info),
                SourceMessage::Done => {}
                SourceMessage::Failed(sentence) => panic!("{} {sentence}", path.display()),
            }
        }
    });
    ingest.history()
}

fn sidecar(corpus: &Path, name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(corpus.join(format!("{name}.json"))).unwrap()).unwrap()
}

#[test]
fn recorded_failures_have_their_cause_and_growth() {
    let Some(corpus) = shared("corpus") else { return };
    for (name, growth, phase) in FAILURES {
        let history = read(&corpus.join(format!("{name}.pickle.gz")));
        let failure = history.ooms()[0];
        let capacity = Capacity::from_failures(&history, LANE);
        let steps = steps(&history, LANE, &|| false).unwrap();
        let why = why(&history, LANE, &Asked::Failure(failure), &capacity, &steps, &|| false).unwrap();
        println!("{name}: {} {:#?}", why.sentence, why.advice.iter().map(|advice| &advice.title).collect::<Vec<_>>());
        assert_eq!((why.cause, why.growth), (Some(Cause::MemoryFraction), growth), "{name}: {}", why.sentence);
        assert_eq!(steps.phase_at(failure.at).unwrap().phase, phase, "{name}");

        let truth = sidecar(&corpus, name)["options"]["fraction_mb"].as_str().unwrap().parse::<u64>().unwrap() << 20;
        assert_eq!(capacity.source, CapacitySource::MemoryFraction);
        assert!((capacity.bytes.unwrap()..capacity.below.unwrap()).contains(&truth), "{name}: {capacity:?}");

        let held: u64 = why.holders.iter().map(|held| held.bytes).sum();
        let allocated = history.value_at(LANE, Metric::Allocated, failure.at).unwrap();
        assert!(held <= allocated && held * 2 > allocated, "{name}: the ten largest holders have {held}");
        assert!(
            why.advice.iter().take(2).any(|advice| advice.title.starts_with("Raise the memory fraction")),
            "{name}"
        );
        assert_eq!(why.grown_by.is_some(), growth == Growth::Leak, "{name}: {:?}", why.grown_by);
    }
}

#[test]
fn messages_agree_with_the_recordings_they_come_from() {
    let Some(corpus) = shared("corpus") else { return };
    for (name, ..) in FAILURES {
        let truth = sidecar(&corpus, name);
        let text = truth["oom"]["message"].as_str().unwrap();
        let message = messages(text).remove(0);
        assert_eq!(explain(&message).cause, Some(Cause::MemoryFraction), "{name}");
        let history = read(&corpus.join(format!("{name}.pickle.gz")));
        let failure = history.ooms()[0];
        // Two decimals of a gibibyte.
        let near = |said: Option<u64>, bytes: u64| said.unwrap().abs_diff(bytes) <= 6 << 20;
        assert_eq!(message.requested, Some(failure.requested), "{name}");
        assert!(near(message.free, failure.device_free.unwrap()), "{name}");
        assert!(near(message.reserved, history.value_at(LANE, Metric::Reserved, failure.at).unwrap()), "{name}");
        assert!(near(message.allocated, history.value_at(LANE, Metric::Allocated, failure.at).unwrap()), "{name}");
        let fraction = truth["options"]["fraction_mb"].as_str().unwrap().parse::<u64>().unwrap() << 20;
        assert!(near(message.allowed, fraction), "{name}");
        // The process was listed by name; context and libraries took what they take.
        let outside = message.figures().non_framework.unwrap();
        assert!((400 << 20..1 << 30).contains(&outside), "{name}: {outside}");
    }
}

#[test]
fn memory_of_a_recorded_graphs_pool_serves_nobody_else() {
    let Some(corpus) = shared("corpus") else { return };
    let history = read(&corpus.join("cuda_graph.pickle.gz"));
    let reserved = history.value_at(LANE, Metric::Reserved, history.end()).unwrap();
    // Emptying the cache returns 256 MiB of the default pool; the graph's pool has 161 MiB free.
    let bytes = 320 << 20;
    let asked = Asked::Request { at: history.end(), bytes, owner: PoolOwner::DEFAULT, stream: StreamId(0) };
    let steps = steps(&history, LANE, &|| false).unwrap();
    let answer = |card| why(&history, LANE, &asked, &Capacity::of_card(card), &steps, &|| false).unwrap();
    let tight = answer(reserved);
    assert_eq!(tight.cause, Some(Cause::PrivatePool), "{}", tight.sentence);
    assert_eq!(answer(reserved + bytes).cause, None);
}

fn run(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramscope"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_report_tells_limit_and_reason() {
    let Some(corpus) = shared("corpus") else { return };
    let path = corpus.join("leak_logits.pickle.gz");
    let path = path.to_str().unwrap();
    let report = json(&run(&["report", path, "--json"], ""));
    assert_eq!(report["capacity"]["source"], "memory_fraction");
    assert_eq!(
        (&report["why"]["cause"], &report["why"]["growth"]),
        (&Value::from("memory_fraction"), &Value::from("leak"))
    );
    let path_of_questions = report["why"]["path"].as_array().unwrap();
    assert!(path_of_questions.iter().all(|node| node["question"].is_string() && node["answer"].is_string()));
    assert!(path_of_questions.last().unwrap()["bytes"].is_u64());
    assert!(report["why"]["advice"].as_array().unwrap().iter().all(|advice| advice["effect_bytes"].is_null()));
    let small = json(&run(&["report", path, "--json", "--capacity", "3.4GiB"], ""));
    assert_eq!(small["capacity"]["source"], "user");
    assert_ne!(small["why"]["cause"], "memory_fraction");
    let text = String::from_utf8(run(&["report", path], "").stdout).unwrap();
    assert!(text.contains("why it ran out of memory") && text.contains("what can help"), "{text}");
    assert_eq!(run(&["report", path, "--capacity", "many"], "").status.code(), Some(2));

    let whole = json(&run(&["report", corpus.join("gpt_fp32.pickle.gz").to_str().unwrap(), "--json"], ""));
    assert!(whole["why"].is_null() && whole["capacity"]["bytes"].is_null());
}

const MESSAGE: &str = "step 9\nTraceback (most recent call last):\n  File \"train.py\", line 3\ntorch.OutOfMemoryError: CUDA out of memory. \
    Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this \
    process has 38.00 GiB memory in use. Process 12 has 41.00 GiB memory in use. Of the allocated memory 37.00 GiB is allocated by \
    PyTorch, and 256.00 MiB is reserved by PyTorch but unallocated.\n";

#[test]
fn explain_reads_a_log() {
    let told = json(&run(&["explain", "--json"], MESSAGE));
    assert_eq!(told["requested_bytes"], 2_u64 << 30);
    assert_eq!(told["other_processes_bytes"], 41_u64 << 30);
    assert_eq!(told["non_framework_bytes"], 768_u64 << 20);
    assert_eq!((&told["why"]["cause"], &told["why"]["growth"]), (&Value::from("other_processes"), &Value::Null));
    assert_eq!(told["capacity"]["bytes"], 80_u64 << 30);

    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    std::fs::write(&log, [b"\xff\xfe broken text ", MESSAGE.as_bytes(), MESSAGE.as_bytes()].concat()).unwrap();
    let output = run(&["explain", log.to_str().unwrap()], "");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["the last of 2 messages", "Other processes hold 41.00 GiB", "of 80.00 GiB", "nvidia-smi"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn explain_refuses_a_text_without_a_message_in_one_sentence() {
    for (arguments, stdin) in [(&["explain"][..], "all went well\n"), (&["explain", "no/such/file.log"][..], "")] {
        let output = run(arguments, stdin);
        let sentence = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty() && sentence.trim_end().lines().count() == 1, "{sentence}");
    }
}
