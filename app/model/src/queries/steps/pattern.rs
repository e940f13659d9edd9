//! Phases from the order of allocations and frees alone, for recordings without stacks.
//!
//! A forward pass keeps what the backward pass needs, and the backward pass frees it in turn. Between them stands the loss, a
//! single number. Optimizers that work on lists make a row of temporaries and free them in a row; dropping gradients frees a
//! row of blocks as large as the parameters. These rows end the steps.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::ops::{Life, Ops};
use super::{Evidence, Label, Phase, StepSource};

/// The shortest row of frees that can be a list of gradients or temporaries.
const ROW: usize = 8;
/// Rows of one update are apart by at most this many operations.
const APART: usize = 24;
/// Numbers allocated within so many operations belong together: those around the loss.
const NUMBERS: usize = 6;
/// A second pass of a step saves at least so many blocks.
const SAVED: usize = 4;
/// So many operations at the start of a step may bring its batch.
const BATCH: usize = 12;

/// A row of frees that ends an update.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The first operation of the update that is known: the first temporary's allocation, or the first free.
    start: usize,
    /// The first free of gradients.
    release: usize,
    end: usize,
    /// Whether it frees temporaries made for it.
    temporaries: bool,
}

/// A forward and a backward pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// Its first operation.
    start: usize,
    /// The first operation of the backward pass.
    turn: usize,
    /// Bytes that cross the turn.
    crossing: u64,
}

/// Labels from the order of operations; an inner `None` when it has no such order, an outer one when cancelled.
pub(super) fn evidence(ops: &Ops, cancel: &dyn Fn() -> bool) -> Option<Option<Evidence>> {
    let load = load(ops);
    let updates = updates(ops, load);
    let mut labels = vec![Label::Open; ops.len()];
    labels[..load].fill(Label::Is(Phase::Load, 0));
    let mut lengths = Vec::new();
    let mut start = load;
    let mut passes_seen = 0;
    let ends: Vec<Row> = updates.iter().copied().chain([Row::end_of(ops.len())]).collect();
    for row in ends {
        if cancel() {
            return None;
        }
        // An update that begins before the last one ended (or before loading did) is none of its own.
        if row.start < start {
            continue;
        }
        let passes = passes(ops, start..row.start, row.start == ops.len());
        let range = start..row.start;
        if !passes.is_empty() {
            label_passes(ops, range, &passes, row.release, &mut labels);
            passes_seen += passes.len();
            lengths.push(row.end - start);
        } else if row.start == ops.len() && passes_seen > 0 {
            label_rest(ops, range, &mut labels);
        }
        if row.start < ops.len() && !passes.is_empty() {
            let after = row.release.max(row.start);
            labels[row.start..after].fill(Label::Is(Phase::Optimizer, 0));
            labels[after..row.end].fill(Label::Is(Phase::ZeroGrad, 0));
        }
        start = row.end;
    }
    if updates.is_empty() && passes_seen < 2 {
        labels[load..].fill(Label::Open);
        return Some(only_forward(ops, load, labels));
    }
    let confidence = regularity(&mut lengths, updates.is_empty());
    Some(Some(Evidence { source: StepSource::Periodicity, labels, starts: None, confidence }))
}

impl Row {
    /// Not a row: the end of the recording.
    fn end_of(count: usize) -> Self {
        Self { start: count, release: count, end: count, temporaries: false }
    }
}

/// A recording that ends before anything is freed in turn: what grows after loading may be a first forward pass.
fn only_forward(ops: &Ops, load: usize, mut labels: Vec<Label>) -> Option<Evidence> {
    let kept = |range: Range<usize>| ops.born_in(range).filter(|life| life.death as usize == ops.len());
    let grown: u64 = kept(load..ops.len()).map(|life| life.bytes).sum();
    let loaded: u64 = kept(0..load).map(|life| life.bytes).sum();
    let frees = ops.ops[load..].iter().any(|op| !op.allocates);
    if load == 0 || !frees || grown < loaded {
        return None;
    }
    labels[load..].fill(Label::Is(Phase::Forward, 0));
    Some(Evidence { source: StepSource::Periodicity, labels, starts: None, confidence: 0.3 })
}

/// How sure steps are that are as alike as these: 0.5 to 0.9, less without visible updates.
fn regularity(lengths: &mut [usize], bare: bool) -> f32 {
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let alike = lengths.iter().filter(|length| length.abs_diff(median) * 20 <= median).count();
    let share = if lengths.is_empty() { 0.0 } else { alike as f32 / lengths.len() as f32 };
    let many = (lengths.len() as f32 / 3.0).min(1.0);
    (0.5 + 0.4 * share * many) * if bare { 0.7 } else { 1.0 }
}

/// The first operation after the last allocation: what is freed from there on may go because the program ends.
fn tail(ops: &Ops) -> usize {
    ops.ops.iter().rposition(|op| op.allocates).map_or(0, |last| last + 1)
}

/// How many leading operations only build up what stays: the model.
fn load(ops: &Ops) -> usize {
    let tail = tail(ops) as u32;
    let building = |op: &usize| ops.ops[*op].allocates && ops.life(*op).death >= tail;
    let count = (0..ops.len()).take_while(building).count();
    if count < 4 { 0 } else { count }
}

/// The rows that end updates, those of one update as one.
fn updates(ops: &Ops, load: usize) -> Vec<Row> {
    let tail = tail(ops) as u32;
    let parameters =
        ops.lives.iter().filter(|life| life.death >= tail && (life.at_start || (life.birth as usize) < load));
    let mut sizes = FxHashMap::<u64, u32>::default();
    let mut count = 0;
    for life in parameters {
        *sizes.entry(life.bytes).or_default() += 1;
        count += 1;
    }
    let row = ROW.max(count / 2);
    let mut rows = rows(ops, row, &sizes);
    if rows.is_empty() && row > ROW {
        rows = self::rows(ops, ROW, &sizes);
    }
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        match merged.last_mut() {
            Some(last) if row.start < last.end + APART => {
                last.end = row.end;
                if last.release == last.end || row.temporaries {
                    last.release = row.release;
                }
                last.temporaries |= row.temporaries;
            }
            _ => merged.push(row),
        }
    }
    // Without parameters to compare with, one row may be anything.
    if sizes.is_empty() && merged.len() < 2 {
        merged.clear();
    }
    // Where updates show temporaries, a lone release of gradients is a place inside a step.
    if merged.iter().filter(|row| row.temporaries).count() * 2 >= merged.len() {
        merged.retain(|row| row.temporaries);
    }
    merged
}

/// Rows of at least `least` frees whose blocks are as large as parameters, or were allocated in one row just before.
fn rows(ops: &Ops, least: usize, sizes: &FxHashMap<u64, u32>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut op = 0;
    let mut allocs = 0..0;
    // The last operation of the row before: what it left alone is older than this step.
    let mut before = 0;
    while op < ops.len() {
        let allocates = ops.ops[op].allocates;
        let length = ops.ops[op..].iter().take_while(|other| other.allocates == allocates).count();
        let range = op..op + length;
        op += length;
        if allocates {
            allocs = range;
            continue;
        }
        if length < least {
            continue;
        }
        let lives = || range.clone().map(|op| (op, ops.life(op)));
        let fresh = |life: &Life| !life.at_start && allocs.contains(&(life.birth as usize));
        let temporaries = lives().filter(|(_, life)| fresh(life)).count();
        let released = || lives().filter(|(_, life)| !fresh(life) && (life.birth as usize >= before && !life.at_start));
        let like_parameters = released().filter(|(_, life)| sizes.contains_key(&life.bytes)).count();
        let with_temporaries = temporaries >= least;
        let releases =
            released().count() >= least && (sizes.is_empty() || like_parameters * 5 >= released().count() * 4);
        if !with_temporaries && !releases {
            continue;
        }
        let first_fresh = lives().filter(|(_, life)| fresh(life)).map(|(_, life)| life.birth as usize).min();
        let start = if with_temporaries { first_fresh.unwrap_or(range.start) } else { range.start };
        let release = if releases { released().map(|(op, _)| op).min() } else { None };
        let last = if releases { released().map(|(op, _)| op).max() } else { None };
        let last_fresh =
            if with_temporaries { lives().filter(|(_, life)| fresh(life)).map(|(op, _)| op).max() } else { None };
        let end = last.max(last_fresh).map_or(range.end, |last| last + 1);
        rows.push(Row { start, release: release.unwrap_or(end), end, temporaries: with_temporaries });
        before = end;
    }
    rows
}

/// The forward and backward passes of one step. `last` = the recording ends there, perhaps in the middle of one.
fn passes(ops: &Ops, range: Range<usize>, last: bool) -> Vec<Pass> {
    let Range { start, end } = range;
    // What is saved lives and dies in here; in a step that was cut short, what is alive would have died.
    let within = |life: &Life| {
        let began = life.birth as usize >= start || life.at_start && start == 0;
        let died = (life.death as usize) < end || last && life.death as usize == ops.len();
        began && died
    };
    let mut crossing = vec![0u64; end - start + 1];
    let mut live = 0u64;
    if start == 0 {
        live =
            ops.lives.iter().filter(|life| life.at_start && (life.death as usize) < end).map(|life| life.bytes).sum();
    }
    crossing[0] = live;
    let mut numbers: Vec<usize> = if live > 0 { vec![start] } else { Vec::new() };
    for op in start..end {
        let life = ops.life(op);
        if within(life) {
            live = if ops.ops[op].allocates { live + life.bytes } else { live.saturating_sub(life.bytes) };
        }
        crossing[op + 1 - start] = live;
        if ops.ops[op].allocates && life.scalar {
            match numbers.last_mut() {
                Some(at) if *at > start && op - *at <= NUMBERS && !grows(ops, *at..op) => *at = op + 1,
                _ => numbers.push(op + 1),
            }
        }
    }
    let headless = numbers.first() == Some(&start);
    let most = crossing.iter().copied().max().unwrap_or(0);
    let mut found: Vec<Pass> = Vec::new();
    // Bytes that crossed the last pass's turn and are freed before the number that is looked at.
    let (mut dead, mut counted) = (0, start);
    for turn in numbers {
        let crossing_here = crossing[turn - start];
        if crossing_here * 4 < most || crossing_here == 0 {
            continue;
        }
        let next = Pass { start, turn, crossing: crossing_here };
        let Some(before) = found.last_mut() else {
            found.push(next);
            continue;
        };
        // Another pass, if most of what crossed the turn before is gone; else the same: its turn is where most crosses.
        dead += gone(ops, start, before.turn, counted.max(before.turn)..turn);
        counted = turn;
        if dead * 10 >= before.crossing * 7 {
            // In a step whose beginning is missing, what is left of a pass looks like a small one.
            let alike = !headless || crossing_here * 2 >= before.crossing;
            if alike && saved(ops, before.turn, turn, end) >= SAVED {
                found.push(next);
                dead = 0;
            }
        } else if next.crossing > before.crossing {
            *before = next;
            dead = 0;
        }
    }
    let untils: Vec<usize> = found.iter().skip(1).map(|pass| pass.turn).chain([end]).collect();
    let mut until = untils.into_iter();
    found.retain(|pass| {
        let dead = gone(ops, start, pass.turn, pass.turn..until.next().unwrap_or(end));
        dead * if last { 10 } else { 4 } >= pass.crossing
    });
    for index in 1..found.len() {
        let between = found[index - 1].turn..found[index].turn;
        found[index].start = fewest(ops, start, between, end);
    }
    found
}

/// Whether a range allocates anything that is not small.
fn grows(ops: &Ops, range: Range<usize>) -> bool {
    ops.born_in(range).any(|life| life.bytes > 1 << 20)
}

/// Bytes that were live at `turn`, born since `start`, and are freed in a range after it.
fn gone(ops: &Ops, start: usize, turn: usize, range: Range<usize>) -> u64 {
    ops.ops[range]
        .iter()
        .filter(|op| !op.allocates)
        .map(|op| &ops.lives[op.life as usize])
        .filter(|life| if life.at_start { start == 0 } else { (start..turn).contains(&(life.birth as usize)) })
        .map(|life| life.bytes)
        .sum()
}

/// How many blocks born since `from` are live at `turn` and freed before `end`.
fn saved(ops: &Ops, from: usize, turn: usize, end: usize) -> usize {
    ops.born_in(from..turn).filter(|life| (turn..end).contains(&(life.death as usize))).count()
}

/// The first operation in `between` before which fewest blocks of the step are live that die before its update.
fn fewest(ops: &Ops, start: usize, between: Range<usize>, end: usize) -> usize {
    let mut live = 0i64;
    let mut best = (i64::MAX, between.end);
    for op in between {
        if live < best.0 {
            best = (live, op);
        }
        let life = ops.life(op);
        if (life.death as usize) < end && (life.birth as usize >= start) {
            live += if ops.ops[op].allocates { 1 } else { -1 };
        }
    }
    best.1
}

/// Labels the passes of a step and what is around them, up to `release`, where its gradients begin to go.
fn label_passes(ops: &Ops, range: Range<usize>, passes: &[Pass], release: usize, labels: &mut [Label]) {
    let Range { start, end } = range;
    for (index, pass) in passes.iter().enumerate() {
        let until = passes.get(index + 1).map_or(end, |next| next.start);
        labels[pass.start..pass.turn].fill(Label::Is(Phase::Forward, 0));
        let backward_end = if index + 1 < passes.len() { until } else { end_of_backward(ops, start, pass.turn, end) };
        labels[pass.turn..backward_end].fill(Label::Is(Phase::Backward, 0));
        labels[backward_end..until].fill(Label::Is(Phase::Optimizer, 0));
    }
    // The batch comes first: blocks that outlive the step's update, and the frees of the batch before.
    let first = passes.first().map_or(end, |pass| pass.turn);
    let batch = (start..first.min(start + BATCH))
        .take_while(|&op| !ops.ops[op].allocates || ops.life(op).death as usize >= release)
        .count();
    if start > 0 || !ops.lives.iter().any(|life| life.at_start) {
        labels[start..start + batch].fill(Label::Is(Phase::Data, 0));
    }
}

/// Where a backward pass that began at `turn` ends: with the last free of what it was given, and of what it made meanwhile.
fn end_of_backward(ops: &Ops, start: usize, turn: usize, end: usize) -> usize {
    if end == ops.len() {
        return end;
    }
    let mut last = turn;
    for op in turn..end {
        let life = ops.life(op);
        let given = if life.at_start { start == 0 } else { (start..turn).contains(&(life.birth as usize)) };
        if !ops.ops[op].allocates && given {
            last = op + 1;
        }
    }
    let made = ops.born_in(turn..last).map(|life| life.death as usize + 1).filter(|death| *death <= end).max();
    last.max(made.unwrap_or(0))
}

/// Labels what follows the last update of a recording when no backward pass does: a forward pass that was cut short, or
/// the program's end.
fn label_rest(ops: &Ops, range: Range<usize>, labels: &mut [Label]) {
    let kept: u64 =
        ops.born_in(range.clone()).filter(|life| life.death as usize == ops.len()).map(|life| life.bytes).sum();
    let (allocs, frees) = ops.ops[range.clone()].iter().fold((0usize, 0usize), |(allocs, frees), op| {
        if op.allocates { (allocs + 1, frees) } else { (allocs, frees + 1) }
    });
    if allocs > frees && allocs > ROW && kept > 0 {
        labels[range].fill(Label::Is(Phase::Forward, 0));
    }
}
