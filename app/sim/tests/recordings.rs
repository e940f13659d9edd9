//! Law 8: under the recorded settings, simulated events equal the recorded ones in kind, address, size and order.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod support;

use std::path::Path;

use vramscope_model::{History, LaneId};
use vramscope_sim::{Addresses, AtFailure, Policy, Torch, replay};
use vramscope_trace::{Event, EventKind, Requests};

use support::{read, shared, snapshots};

/// The cap in bytes that a sidecar tells.
fn cap(snapshot: &Path) -> Option<u64> {
    let path = snapshot.to_string_lossy().replace(".pickle.gz", ".json");
    let sidecar: serde_json::Value = serde_json::from_reader(std::fs::File::open(path).unwrap()).unwrap();
    let mebibytes: u64 = sidecar["options"]["fraction_mb"].as_str()?.parse().unwrap();
    Some(mebibytes << 20)
}

/// What law 8 compares of an event; `None` for what the allocator does not say.
fn compared(event: &Event) -> Option<(&'static str, u64, u64, u64)> {
    let (address, bytes, start) = match event.kind {
        EventKind::SegmentAlloc { address, bytes, at_start, .. }
        | EventKind::SegmentMap { address, bytes, at_start, .. }
        | EventKind::BlockAlloc { address, bytes, at_start, .. } => (address, bytes, at_start),
        EventKind::SegmentFree { address, bytes } | EventKind::SegmentUnmap { address, bytes } => {
            (address, bytes, false)
        }
        EventKind::FreeRequested { address, at_start, .. } => (address, 0, at_start),
        EventKind::FreeCompleted { address } => (address, 0, false),
        EventKind::OutOfMemory { requested, .. } => (0, requested, false),
        _ => return None,
    };
    Some((event.kind.label(), address, bytes, u64::from(start)))
}

fn recorded(history: &History, lane: LaneId) -> Vec<(&'static str, u64, u64, u64)> {
    let events = (0..history.end().0).filter_map(|seq| history.event(vramscope_model::EventSeq(seq)));
    events.filter(|view| view.lane == Some(lane)).filter_map(|view| compared(&view.event)).collect()
}

/// Compares one recording with its replay: how many events agree, and the first that does not, in words.
fn law(requests: &Requests, recorded: &[(&'static str, u64, u64, u64)]) -> (usize, Option<String>) {
    let mut simulated = Vec::with_capacity(recorded.len());
    let policy = Policy::recorded(requests, Torch::v2(11));
    replay(requests, &policy, Addresses::Recorded, AtFailure::GoOn, |event| simulated.extend(compared(&event)));
    let same = recorded.iter().zip(&simulated).take_while(|(left, right)| left == right).count();
    let all = same == recorded.len() && same == simulated.len();
    let differs = (!all)
        .then(|| format!("event {same}: recorded {:x?}, simulated {:x?}", recorded.get(same), simulated.get(same)));
    (same, differs)
}

#[test]
fn simulated_events_equal_the_recorded_ones() {
    let mut wrong = Vec::new();
    let mut total = 0;
    for folder in ["corpus", "whatif"] {
        let Some(folder) = shared(folder) else { return };
        for path in snapshots(&folder) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let history = read(&path);
            for lane in history.lanes() {
                let requests = vramscope_model::requests(&history, lane.id, cap(&path), &|| false).unwrap();
                let (same, differs) = law(&requests, &recorded(&history, lane.id));
                total += same;
                println!("{name}: {same} events agree {}", differs.as_deref().unwrap_or(""));
                wrong.extend(differs.map(|differs| format!("{name}: {differs}")));
            }
        }
    }
    println!("{total} events agree");
    assert!(total > 380_000, "only {total} events were compared");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
