//! NVML in every state it has been seen in, scripted: cases 34–36, 38, 40 and 41 of the collected reports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "shim/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use support::build;
use tempfile::TempDir;
use vramscope_collector::sources::nvml::{Memory, Missing, NvmlSource, Places, State, Whose};
use vramscope_trace::{Counter, Event, EventKind, Interner, ProblemKind, TimeNs};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A copy of the fake library with its script, a folder of process files, and what came out of polling.
struct Bench {
    _folder: TempDir,
    source: NvmlSource,
    names: Interner,
    time: i64,
}

/// The folder that stands for `/proc`; `first` = this is the namespace the driver counts in.
fn process_files(folder: &Path, first: bool, processes: &[(u32, &str)]) -> PathBuf {
    let proc = folder.join("proc");
    fs::create_dir_all(proc.join("self/ns")).unwrap();
    symlink(if first { "pid:[4026531836]" } else { "pid:[4026532200]" }, proc.join("self/ns/pid")).unwrap();
    for (pid, name) in processes {
        fs::create_dir_all(proc.join(pid.to_string())).unwrap();
        fs::write(proc.join(pid.to_string()).join("comm"), format!("{name}\n")).unwrap();
    }
    fs::write(proc.join("meminfo"), "MemTotal:       127600748 kB\nMemFree: 1 kB\nMemAvailable:   58000000 kB\n")
        .unwrap();
    proc
}

impl Bench {
    fn new(script: &str) -> Self {
        Self::with(script, &[], true, &[])
    }

    fn with(script: &str, features: &[&str], first: bool, processes: &[(u32, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnvidia-ml.so.1");
        fs::copy(build("fake_driver/nvml/Cargo.toml", "libfake_nvml.so", features), &library).unwrap();
        fs::write(folder.path().join("script.txt"), script).unwrap();
        let proc = process_files(folder.path(), first, processes);
        let source = NvmlSource::open(&Places { library: Some(library), proc }).unwrap();
        Self { _folder: folder, source, names: Interner::new(), time: 0 }
    }

    fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.time += 1;
        self.source.poll(TimeNs(self.time), &mut self.names, &mut events);
        events
    }

    fn marks(&self, events: &[Event]) -> Vec<String> {
        let text = |event: &Event| match event.kind {
            EventKind::Mark { name } => Some(self.names.text(name).to_owned()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }
}

/// Samples as (device, process, counter, value).
fn samples(events: &[Event]) -> Vec<(u16, u32, Counter, u64)> {
    let sample = |event: &Event| match event.kind {
        EventKind::CounterSample { counter, value } => Some((event.device.0, event.process.0, counter, value)),
        _ => None,
    };
    events.iter().filter_map(sample).collect()
}

fn gpu(name: &str, memory: &str) -> String {
    let mut text = format!("gpu {name} name NVIDIA H200\ngpu {name} uuid GPU-{name}\n");
    for pair in memory.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap();
        text.push_str(&format!("gpu {name} {key} {value}\n"));
    }
    text
}

#[test]
fn case_34_every_band_of_a_device_has_a_source() {
    let memory = format!("total={} reserved={} used={} free={}", 80 * GIB, GIB, 61 * GIB, 18 * GIB);
    let script = format!("order a\n{}gpu a process 55:{}\ngpu a process 56:{}\n", gpu("a", &memory), 55 * GIB, 5 * GIB);
    let mut bench = Bench::with(&script, &[], true, &[(55, "python3"), (56, "Xorg")]);
    let events = bench.poll();
    assert_eq!(
        samples(&events),
        [
            (0, 0, Counter::DeviceTotal, 80 * GIB),
            (0, 0, Counter::DeviceUsed, 61 * GIB),
            (0, 0, Counter::DeviceFree, 18 * GIB),
            (0, 0, Counter::DeviceReserved, GIB),
            (0, 55, Counter::ProcessUsed, 55 * GIB),
            (0, 56, Counter::ProcessUsed, 5 * GIB),
        ]
    );
    let list = bench.source.gpus()[0].processes.clone().unwrap();
    assert_eq!(list[0].whose, Whose::Named("python3".to_owned()));
    assert_eq!(bench.poll(), [], "nothing changed, nothing is said");
}

#[test]
fn case_35_the_older_memory_call_is_used_where_it_must_be_and_labelled() {
    let script = format!(
        "order a\n{}",
        gpu("a", &format!("total={} reserved={} used={} free={}", 81920 * MIB, 905 * MIB, 8 * MIB, 81007 * MIB))
    );
    let mut bench = Bench::new(&script);
    let events = bench.poll();
    let memory = &bench.source.gpus()[0].memory;
    assert_eq!(*memory, Memory::Apart { total: 81920 * MIB, reserved: 905 * MIB, used: 8 * MIB, free: 81007 * MIB });
    assert_eq!(bench.marks(&events), ["GPU-a: memory by NVML, what the driver keeps told apart"]);

    let mut bench = Bench::with(&script, &["old"], true, &[]);
    let events = bench.poll();
    let memory = &bench.source.gpus()[0].memory;
    assert_eq!(*memory, Memory::Together { total: 81920 * MIB, used: 913 * MIB, free: 81007 * MIB });
    assert_eq!(bench.marks(&events), ["GPU-a: memory by NVML's older call, what the driver keeps counts as used"]);
    assert!(samples(&events).iter().all(|sample| sample.2 != Counter::DeviceReserved), "unknown is not 0");
}

#[test]
fn case_36_unified_memory_is_told_by_error_and_name_never_by_error_alone() {
    let of = |name: &str| format!("order a\ngpu a name {name}\ngpu a uuid GPU-a\ngpu a process 7:{}\n", 63931 * MIB);
    let mut bench = Bench::new(&of("NVIDIA GB10"));
    let events = bench.poll();
    assert_eq!(
        bench.source.gpus()[0].memory,
        Memory::Unified { total: 127_600_748 * 1024, available: 58_000_000 * 1024 }
    );
    assert_eq!(bench.source.gpus()[0].process_bytes(), Some(63931 * MIB));
    assert!(bench.marks(&events)[0].contains("unified memory"));
    assert!(samples(&events).contains(&(0, 0, Counter::DeviceUsed, 63931 * MIB)));

    let mut bench = Bench::new(&of("NVIDIA H200"));
    let events = bench.poll();
    assert_eq!(bench.source.gpus()[0].memory, Memory::Unknown(Missing::NotSupported));
    assert_eq!(samples(&events), [(0, 7, Counter::ProcessUsed, 63931 * MIB)], "no device figure is made up");
}

#[test]
fn case_38_no_nvml_is_a_sentence_and_nothing_of_nothing_is_unknown() {
    let places =
        Places { library: Some(PathBuf::from("/nonexistent/libnvidia-ml.so.1")), proc: PathBuf::from("/proc") };
    let sentence = NvmlSource::open(&places).err().unwrap();
    assert!(sentence.starts_with("NVML is not present on this machine"), "{sentence}");

    let mut bench =
        Bench::new("order a\ngpu a name Orin (nvgpu)\ngpu a uuid GPU-a\ngpu a total 0\ngpu a used 0\ngpu a free 0\n");
    bench.poll();
    assert!(matches!(bench.source.gpus()[0].memory, Memory::Unified { .. }), "a known part with useless numbers");
    let mut bench =
        Bench::new("order a\ngpu a name Thing\ngpu a uuid GPU-a\ngpu a total 0\ngpu a used 0\ngpu a free 0\n");
    let events = bench.poll();
    assert_eq!((bench.source.gpus()[0].total(), samples(&events).len()), (None, 0));
}

#[test]
fn case_40_process_numbers_of_another_namespace_are_not_looked_up_here() {
    let memory = format!("total={} reserved=0 used={} free=0", 16 * GIB, 16 * GIB);
    let over = 16 * GIB + 800 * MIB;
    let script = format!(
        "order a\n{}gpu a process 79:na\ngpu a process 4190000:{}\ngpu a process 80:{over}\n",
        gpu("a", &memory),
        7 * GIB
    );
    let here = [(79, "bash"), (80, "sshd")];
    let mut bench = Bench::with(&script, &[], false, &here);
    let events = bench.poll();
    let list = bench.source.gpus()[0].processes.clone().unwrap();
    let seen: Vec<_> = list.iter().map(|process| (process.pid, process.used, process.whose.clone())).collect();
    assert_eq!(
        seen,
        [(79, None, Whose::Unsure), (4_190_000, Some(7 * GIB), Whose::OtherNamespace), (80, Some(over), Whose::Unsure)]
    );
    let of_processes = samples(&events).into_iter().filter(|sample| sample.2 == Counter::ProcessUsed);
    assert_eq!(
        of_processes.map(|sample| sample.1).collect::<Vec<_>>(),
        [4_190_000, 80],
        "no figure for what is not told"
    );
    let problems = bench.source.take_problems();
    assert_eq!((problems.len(), problems[0].kind), (1, ProblemKind::OverCapacity));
    let mut bench = Bench::with(&script, &[], true, &here);
    bench.poll();
    assert_eq!(bench.source.gpus()[0].processes.clone().unwrap()[0].whose, Whose::Named("bash".to_owned()));
}

#[test]
fn case_41_a_lost_gpu_freezes_alone_and_the_rest_keep_their_places() {
    let mut script = "order a b c d\norder a c d from 60\ngpu b lost yes from 50\n".to_owned();
    for (number, name) in ["a", "b", "c", "d"].iter().enumerate() {
        let used = (number as u64 + 1) * GIB;
        script.push_str(&gpu(
            name,
            &format!("total={} reserved=0 used={used} free={} temperature=40", 80 * GIB, 80 * GIB - used),
        ));
    }
    script.push_str(&format!(
        "gpu d used {} from 61\ngpu a power 70000 from 70\ngpu a temperature error:999 from 70\n",
        9 * GIB
    ));
    let mut bench = Bench::new(&script);
    let mut lost = Vec::new();
    for sample in 0..80 {
        let events = bench.poll();
        for mark in bench.marks(&events) {
            if !mark.contains("memory by") {
                lost.push((sample, mark));
            }
        }
        if sample == 61 {
            assert_eq!(samples(&events), [(3, 0, Counter::DeviceUsed, 9 * GIB)], "GPU d is still device 3");
        }
        assert!(sample == 0 || samples(&events).iter().all(|sample| sample.0 != 1), "no figure for the lost one");
    }
    assert_eq!(lost, [(50, "GPU-b is lost".to_owned())]);
    let gpus = bench.source.gpus();
    assert_eq!(gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>(), ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]);
    assert_eq!(gpus[1].state, State::Lost { since: TimeNs(51) });
    let Memory::Apart { used, .. } = gpus[1].memory else { panic!("frozen at the last good sample") };
    assert_eq!(used, 2 * GIB);
    assert_eq!((&gpus[0].power, &gpus[0].state), (&Ok(70_000), &State::Answering));
    assert!(
        matches!(&gpus[0].temperature, Err(Missing::Failed(_))),
        "one field fails alone: {:?}",
        gpus[0].temperature
    );
    assert_eq!(gpus[2].power, Err(Missing::NotSupported));
}

#[test]
fn slices_are_devices_of_their_own() {
    let mut script = "order a\ngpu a mig s,t\n".to_owned();
    script.push_str(&gpu("a", &format!("total={} reserved=0 used=0 free=0", 80 * GIB)));
    for slice in ["s", "t"] {
        let memory = format!("total={} reserved=0 used={GIB} free={}", 20 * GIB, 19 * GIB);
        script.push_str(&gpu(slice, &memory).replace("GPU-", "MIG-"));
    }
    let mut bench = Bench::new(&script);
    bench.poll();
    let seen: Vec<_> =
        bench.source.gpus().iter().map(|gpu| (gpu.uuid.as_str(), gpu.slice_of.as_deref(), gpu.total())).collect();
    assert_eq!(
        seen,
        [
            ("GPU-a", None, Some(80 * GIB)),
            ("MIG-s", Some("GPU-a"), Some(20 * GIB)),
            ("MIG-t", Some("GPU-a"), Some(20 * GIB))
        ]
    );
}

#[test]
fn polling_slows_down_while_nothing_moves() {
    let memory = format!("total={} reserved=0 used={GIB} free=0", 80 * GIB);
    let mut bench = Bench::new(&format!("order a\n{}gpu a used {} from 20\n", gpu("a", &memory), 2 * GIB));
    let waits: Vec<u128> = (0..21)
        .map(|_| {
            bench.poll();
            bench.source.wait().as_millis()
        })
        .collect();
    assert_eq!((waits[0], waits[19], waits[20]), (50, 500, 50), "{waits:?}");
    assert!(waits[..20].is_sorted());
}

#[test]
fn a_process_that_leaves_holds_nothing() {
    let memory = format!("total={} reserved=0 used={GIB} free=0", 80 * GIB);
    let mut bench =
        Bench::new(&format!("order a\n{}gpu a process 5:{GIB}\ngpu a process 6:{MIB} from 1\n", gpu("a", &memory)));
    bench.poll();
    let mut second = samples(&bench.poll());
    second.sort_by_key(|sample| sample.1);
    assert_eq!(second, [(0, 5, Counter::ProcessUsed, 0), (0, 6, Counter::ProcessUsed, MIB)]);
}
