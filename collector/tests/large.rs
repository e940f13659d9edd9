//! Situation 3: pytorch/pytorch#176290, #158364, #178670 and Da1sypetals/SnapViewer#3. Long histories must arrive whole: every
//! event, the right peak, and call stacks that cost what they are, not how often they are mentioned. A tenth of the reported
//! size, so that the test stays quick; `cargo bench -p vramscope` opens longer ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use pickling::*;
use replay::Replay;
use vramscope_trace::EventKind;

const EVENTS: usize = 200_000;
const ADDRESSES: u64 = 5_000;
const STACKS: u64 = 200;
const FRAMES: u64 = 60;

#[test]
fn a_long_history_arrives_whole() {
    let stacks: Vec<Node> = (0..STACKS)
        .map(|stack| {
            let frames = (0..FRAMES).map(|depth| frame(&format!("file{}.py", depth % 7), stack * FRAMES + depth, "f"));
            Node::from(frames.collect::<Vec<_>>())
        })
        .collect();
    let mut live = vec![0u64; ADDRESSES as usize];
    let (mut sum, mut peak, mut last) = (0u64, 0u64, (0u64, 0u64));
    let mut entries = Vec::with_capacity(EVENTS);
    let mut random = 1u64;
    while entries.len() < EVENTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = (random >> 33) % ADDRESSES;
        let address = BASE + slot * MIB;
        let size = &mut live[slot as usize];
        if *size == 0 {
            *size = 512 * (1 + (random >> 50) % 512);
            sum += *size;
            peak = peak.max(sum);
            last = (address, *size);
            let stack = stacks[((random >> 40) % STACKS) as usize].clone();
            entries.push(entry("alloc", address, *size).with("frames", stack));
        } else {
            sum -= *size;
            entries.push(entry("free_requested", address, *size));
            entries.push(entry("free_completed", address, *size));
            *size = 0;
        }
    }
    let count = entries.len();
    let timed = |(index, entry): (usize, Node)| entry.with("time_us", TIME + index as u64);
    let trace: Vec<Node> = entries.into_iter().enumerate().map(timed).collect();
    let file = snapshot(Vec::new(), vec![trace.into()]);
    let replay = Replay::of_bytes(&pickle(&file, Style::Python(4)));
    assert_eq!(replay.failed, None);
    assert_eq!(replay.events.len(), count, "no event is left out");
    assert_eq!(replay.devices[&0].peak_allocated, peak);
    assert_eq!(replay.devices[&0].allocated, sum);
    let mut allocations = replay.events.iter().filter_map(|event| match event.kind {
        EventKind::BlockAlloc { address, bytes, .. } => Some((address, bytes)),
        _ => None,
    });
    assert_eq!(allocations.next_back(), Some(last));
    let (_, frames, stacks) = replay.dictionary.counts();
    // One more of each for what has no stack.
    assert!(frames <= (STACKS * FRAMES) as u32 + 1 && stacks <= STACKS as u32 + 2, "{frames} frames, {stacks} stacks");
}
