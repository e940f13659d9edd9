//! What is left behind step by step: the trend of the floor, and the stacks whose blocks pile up.
//!
//! A rising floor alone is growth. The word leak needs the blocks: a stack is suspected when the number of its blocks that are
//! live when a step ends rises step after step, none of them going. Workspaces that libraries keep for themselves are named,
//! not suspected.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use vramscope_trace::StackId;

use crate::{Block, BlockId, History, LaneId, Metric, Position, Steps};

/// So many ends of steps are needed to speak of a trend.
const FEWEST: usize = 4;
/// The floor rises if it does in at least this part (in tenths) of the steps.
const RISES: usize = 6;
/// A stack is suspected if no wait for its next lasting block was longer than so many times the usual one.
const WAITS: f64 = 2.5;
/// How many blocks are read between two looks at the cancel flag.
const STRIDE: u32 = 1 << 16;
/// The workspace that cuBLAS asks for before Hopper: 2 × 4 MiB and 8 × 16 KiB. Nothing else is of this size.
const WORKSPACE: u64 = 8_519_680;
/// The one it asks for on Hopper and later: a common size, so a matrix call must have asked for it.
const LARGE_WORKSPACE: u64 = 32 << 20;

/// What the counts are taken at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The ends of steps.
    Step,
    /// There are no steps: each time a stack comes again whose blocks come and go.
    Turn,
}

/// A stack whose blocks pile up.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspect {
    /// Where they are allocated; [`StackId::NONE`] = no stack recorded.
    pub stack: StackId,
    /// Their size where no stack is recorded: blocks of one size are then taken together.
    pub size: Option<u64>,
    /// How many more there are after each step.
    pub blocks_per_step: f64,
    /// How many more bytes.
    pub bytes_per_step: f64,
    /// How many had piled up at the last step's end.
    pub blocks: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The first step (or turn) that left one behind.
    pub since: u32,
}

/// A block that a library keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// The block.
    pub block: BlockId,
    /// Its size.
    pub bytes: u64,
    /// What it is, as text to show.
    pub name: &'static str,
}

/// What is left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaks {
    /// What the counts are taken at.
    pub beat: Beat,
    /// Where they are taken: the floor is what is allocated there.
    pub beats: Vec<Position>,
    /// Rise of the floor in bytes a step, first effects left out: the middle of the slopes between all pairs. `None` = too few.
    pub floor_slope: Option<f64>,
    /// Whether it rises in most steps.
    pub rising: bool,
    /// Most bytes a step first.
    pub suspects: Vec<Suspect>,
    /// Workspaces still live at the end, in order.
    pub workspaces: Vec<Workspace>,
}

/// Looks for leaks in a lane whose steps are known (or not: then in the turns of what repeats most). `None` when cancelled or
/// for an unknown lane. Costs O(blocks), read at most twice.
pub fn leaks(history: &History, lane: LaneId, steps: &Steps, cancel: &dyn Fn() -> bool) -> Option<Leaks> {
    history.lanes().get(usize::from(lane.0))?;
    let each = |seen: &mut dyn FnMut(&Block)| {
        for id in 0..history.blocks() {
            if id % STRIDE == 0 && cancel() {
                return None;
            }
            if let Some(block) = history.block(BlockId(id)).filter(|block| block.lane == lane) {
                seen(&block);
            }
        }
        Some(())
    };
    let ends: Vec<Position> =
        steps.steps.iter().filter(|step| !step.out_of_memory).map(|step| step.range.end).collect();
    let (beat, beats) = if ends.len() >= FEWEST {
        (Beat::Step, ends)
    } else {
        let mut turns = Turns::default();
        each(&mut |block| turns.add(block))?;
        (Beat::Turn, turns.busiest())
    };
    let first = first_effects(steps, beat);
    let mut workspaces = Vec::new();
    let mut piles = Piles::default();
    each(&mut |block| match workspace(history, block) {
        Some(workspace) => workspaces.push(workspace),
        None => piles.add(block, &beats),
    })?;
    let floors: Vec<u64> =
        beats.iter().skip(first).map(|at| history.value_at(lane, Metric::Allocated, *at).unwrap_or_default()).collect();
    let enough = floors.len() >= FEWEST;
    let rises = floors.windows(2).filter(|pair| pair[1] > pair[0]).count();
    Some(Leaks {
        beat,
        floor_slope: enough.then(|| middle_slope(&floors)),
        rising: enough && rises * 10 >= (floors.len() - 1) * RISES,
        suspects: piles.suspects(beats.len(), first),
        workspaces,
        beats,
    })
}

/// Blocks are told apart by their stack; without one, by their size.
type Group = (StackId, Option<u64>);

fn group(block: &Block) -> Group {
    (block.stack, (block.stack == StackId::NONE).then_some(block.bytes))
}

/// The groups whose blocks come and go: their bytes, and where they go.
#[derive(Default)]
struct Turns {
    groups: FxHashMap<Group, (u64, Vec<Position>)>,
}

impl Turns {
    fn add(&mut self, block: &Block) {
        if let Some(freed) = block.free_requested.filter(|_| !block.at_start) {
            let (bytes, turns) = self.groups.entry(group(block)).or_default();
            *bytes += block.bytes;
            turns.push(freed);
        }
    }

    /// Where the blocks of the group go that moves most bytes.
    fn busiest(self) -> Vec<Position> {
        let often = self.groups.into_iter().filter(|(_, (_, turns))| turns.len() >= FEWEST);
        let busiest = often.max_by_key(|(group, (bytes, _))| (*bytes, Reverse(*group)));
        let mut turns = busiest.map_or_else(Vec::new, |(_, (_, turns))| turns);
        turns.sort_unstable();
        turns
    }
}

/// How many beats at the start show what later ones do not repeat.
fn first_effects(steps: &Steps, beat: Beat) -> usize {
    match beat {
        Beat::Step => steps.steps.iter().take_while(|step| step.first_effects() || step.partial).count(),
        Beat::Turn => 0,
    }
}

/// The workspace that a block is, if it is one and still live.
fn workspace(history: &History, block: &Block) -> Option<Workspace> {
    if block.free_requested.is_some() {
        return None;
    }
    let known = match block.requested.unwrap_or(block.bytes) {
        WORKSPACE => true,
        LARGE_WORKSPACE => matrix_call(history, block.stack),
        _ => false,
    };
    known.then_some(Workspace { block: block.id, bytes: block.bytes, name: "cuBLAS workspace" })
}

/// Whether a stack's innermost frames multiply matrices.
fn matrix_call(history: &History, stack: StackId) -> bool {
    let dictionary = history.dictionary();
    dictionary.stack(stack).iter().filter_map(|frame| dictionary.frame(*frame)).take(12).any(|frame| {
        let (file, function) = (dictionary.name(frame.file), dictionary.name(frame.function));
        ["linear.py", "attention"].iter().any(|part| file.contains(part))
            || ["linear", "matmul", "addmm", "bmm", "gemm", "cublas", "CUDABlas", "einsum"]
                .iter()
                .any(|part| function.contains(part))
    })
}

/// The middle of the slopes between all pairs (of at most 200 values, the latest).
fn middle_slope(values: &[u64]) -> f64 {
    let values = &values[values.len().saturating_sub(200)..];
    let mut slopes = Vec::with_capacity(values.len() * values.len() / 2);
    for (from, low) in values.iter().enumerate() {
        for (to, high) in values.iter().enumerate().skip(from + 1) {
            slopes.push((*high as f64 - *low as f64) / (to - from) as f64);
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

/// What a group of blocks leaves behind: by beat, blocks and bytes that came since the beat before and stay, or go.
#[derive(Default)]
struct Piles {
    groups: FxHashMap<Group, Vec<(usize, i64, i64)>>,
}

impl Piles {
    fn add(&mut self, block: &Block, beats: &[Position]) {
        let beat_of = |at: Position| beats.partition_point(|beat| *beat < at);
        let from = beat_of(block.allocated);
        let to = block.free_requested.map_or(beats.len(), beat_of);
        if from < to && !block.at_start {
            let changes = self.groups.entry(group(block)).or_default();
            changes.extend([(from, 1, block.bytes as i64), (to, -1, -(block.bytes as i64))]);
        }
    }

    fn suspects(self, beats: usize, first: usize) -> Vec<Suspect> {
        if beats < first + FEWEST {
            return Vec::new();
        }
        let suspects = self.groups.into_iter().filter_map(|(group, changes)| suspect(group, changes, beats, first));
        let mut suspects: Vec<Suspect> = suspects.collect();
        suspects.sort_by(|a, b| {
            b.bytes_per_step.total_cmp(&a.bytes_per_step).then((a.stack, a.size).cmp(&(b.stack, b.size)))
        });
        suspects
    }
}

/// A group whose number of blocks rises again and again, evenly, and does not fall.
fn suspect((stack, size): Group, mut changes: Vec<(usize, i64, i64)>, beats: usize, first: usize) -> Option<Suspect> {
    changes.sort_unstable_by_key(|(beat, ..)| *beat);
    let mut by_beat: Vec<(usize, i64, i64)> = Vec::new();
    for (beat, count, bytes) in changes {
        match by_beat.last_mut() {
            Some(last) if last.0 == beat => (last.1, last.2) = (last.1 + count, last.2 + bytes),
            _ => by_beat.push((beat, count, bytes)),
        }
    }
    // What came in the first steps may be there to stay: the model's own state.
    by_beat.retain(|(beat, count, bytes)| (first.max(1)..beats).contains(beat) && (*count, *bytes) != (0, 0));
    let since = by_beat.iter().find(|(_, count, _)| *count > 0)?.0;
    let later = || by_beat.iter().filter(|(beat, ..)| *beat >= since);
    let seen = beats - since;
    let (blocks, bytes) = later().fold((0, 0), |(blocks, sum), (_, count, bytes)| (blocks + count, sum + bytes));
    let gained: i64 = later().map(|(_, count, _)| (*count).max(0)).sum();
    let rises: Vec<usize> = later().filter(|(_, count, _)| *count > 0).map(|(beat, ..)| *beat).collect();
    let ends = rises.iter().skip(1).copied().chain([beats]);
    let longest = rises.iter().zip(ends).map(|(from, to)| to - from).max()?;
    let regular = longest as f64 <= WAITS * seen as f64 / rises.len() as f64;
    // A pile that began a moment ago shows nothing yet; one that mostly goes again is a cache.
    if rises.len() < FEWEST - 1 || !regular || blocks * 10 < gained * 9 || bytes <= 0 {
        return None;
    }
    Some(Suspect {
        stack,
        size,
        blocks_per_step: blocks as f64 / seen as f64,
        bytes_per_step: bytes as f64 / seen as f64,
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        bytes: bytes as u64,
        since: since as u32,
    })
}
