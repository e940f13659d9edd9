//! The parts of a memory snapshot as trees: entries, blocks, segments and whole files.

use super::{Node, dict, tuple};

/// Where the made-up segments lie.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;
pub(crate) const MIB: u64 = 1 << 20;
/// Time of the first entry in Unix microseconds.
pub(crate) const TIME: u64 = 1_700_000_000_000_000;

/// A call stack of two frames.
pub(crate) fn frames() -> Node {
    vec![frame("train.py", 12, "step \u{1f680}"), frame("C:\\torch\\\"odd\".cpp", 0, "c10::alloc")].into()
}

/// A stack frame.
pub(crate) fn frame(file: &str, line: u64, name: &str) -> Node {
    dict([("name", name.into()), ("filename", file.into()), ("line", line.into())])
}

/// A trace entry without a time.
pub(crate) fn entry(action: &str, address: u64, size: u64) -> Node {
    let address = if action == "oom" { ("device_free", address.into()) } else { ("addr", address.into()) };
    dict([("action", action.into()), address, ("size", size.into()), ("stream", 0.into())])
}

/// A trace: entries in order, one microsecond apart, all with one call stack.
pub(crate) fn trace(entries: Vec<Node>) -> Node {
    let frames = frames();
    let timed =
        |(index, entry): (usize, Node)| entry.with("time_us", TIME + index as u64).with("frames", frames.clone());
    entries.into_iter().enumerate().map(timed).collect::<Vec<_>>().into()
}

/// A block of a final segment.
pub(crate) fn block(address: u64, size: u64, state: &str) -> Node {
    dict([
        ("address", address.into()),
        ("size", size.into()),
        ("requested_size", size.into()),
        ("state", state.into()),
        ("frames", vec![].into()),
    ])
}

/// A final segment.
pub(crate) fn segment(address: u64, size: u64, blocks: Vec<Node>) -> Node {
    dict([
        ("device", 0.into()),
        ("address", address.into()),
        ("total_size", size.into()),
        ("allocated_size", 0.into()),
        ("active_size", 0.into()),
        ("requested_size", 0.into()),
        ("stream", 0.into()),
        ("segment_type", if size <= 2 * MIB { "small" } else { "large" }.into()),
        ("segment_pool_id", tuple(vec![0.into(), 0.into()])),
        ("is_expandable", false.into()),
        ("frames", frames()),
        ("blocks", blocks.into()),
    ])
}

/// An annotation record.
pub(crate) fn annotation(name: &str, stage: &str, time: u64) -> Node {
    dict([("name", name.into()), ("stage", stage.into()), ("device", 0.into()), ("time_us", time.into())])
}

/// The settings PyTorch writes when none were set.
pub(crate) fn settings() -> Node {
    let divisions = (0..16).map(|power| (Node::from(&*(1u32 << power).to_string()), 0.into())).collect::<Vec<_>>();
    dict([
        ("PYTORCH_CUDA_ALLOC_CONF", "".into()),
        ("max_split_size", (-1).into()),
        ("garbage_collection_threshold", 0.0.into()),
        ("expandable_segments", false.into()),
        ("roundup_power2_divisions", Node::Dict(divisions.into())),
    ])
}

/// A whole file.
pub(crate) fn snapshot(segments: Vec<Node>, traces: Vec<Node>) -> Node {
    dict([
        ("segments", segments.into()),
        ("device_traces", traces.into()),
        ("allocator_settings", settings()),
        ("external_annotations", vec![].into()),
    ])
}

/// A small whole history: one block stays, one goes, one step is annotated.
pub(crate) fn small() -> Node {
    let entries = vec![
        entry("segment_alloc", BASE, 2 * MIB),
        entry("alloc", BASE, 4),
        entry("alloc", BASE + 512, 700),
        entry("free_requested", BASE + 512, 700),
        entry("free_completed", BASE + 512, 700),
        entry("segment_alloc", BASE + 32 * MIB, 20 * MIB),
        entry("alloc", BASE + 32 * MIB, 19 * MIB + 1),
    ];
    let segments = vec![
        segment(
            BASE,
            2 * MIB,
            vec![block(BASE, 512, "active_allocated"), block(BASE + 512, 2 * MIB - 512, "inactive")],
        ),
        segment(BASE + 32 * MIB, 20 * MIB, vec![block(BASE + 32 * MIB, 20 * MIB, "active_allocated")]),
    ];
    let notes = vec![annotation("step \"1\"", "START", TIME), annotation("step \"1\"", "END", TIME + 6)];
    snapshot(segments, vec![trace(entries), vec![].into()]).with("external_annotations", notes)
}
