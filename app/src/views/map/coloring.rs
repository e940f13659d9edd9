//! Which colour each block has, and what the colours mean.

use rustc_hash::FxHashMap;
use vramscope_model::{BlockId, GapKind, History, LaneId, Position, TimeAxis};
use vramscope_trace::{NameId, TimeNs};

use super::model::{Group, Model, What};
use crate::ctx::{ColorBy, Ctx};
use crate::sites::Sites;
use crate::widgets::fill::Fill;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Upper ends of the size classes, in bytes; the last class has none.
const SIZES: [(u64, &str); 8] = [
    (4 * KIB, "to 4 KiB"),
    (64 * KIB, "to 64 KiB"),
    (MIB, "to 1 MiB"),
    (10 * MIB, "to 10 MiB"),
    (50 * MIB, "to 50 MiB"),
    (200 * MIB, "to 200 MiB"),
    (1024 * MIB, "to 1 GiB"),
    (u64::MAX, "above 1 GiB"),
];
/// Upper ends of the ages, in nanoseconds.
const AGES: [(f64, &str); 8] = [
    (1e6, "under 1 ms"),
    (1e7, "under 10 ms"),
    (1e8, "under 100 ms"),
    (1e9, "under 1 s"),
    (1e10, "under 10 s"),
    (6e10, "under 1 min"),
    (6e11, "under 10 min"),
    (f64::INFINITY, "older"),
];
/// Upper ends of the ages in events, for recordings without usable times.
const EVENT_AGES: [(f64, &str); 8] = [
    (10.0, "under 10 events"),
    (100.0, "under 100 events"),
    (1e3, "under 1 000 events"),
    (1e4, "under 10 000 events"),
    (1e5, "under 100 000 events"),
    (1e6, "under 1 million events"),
    (1e7, "under 10 million events"),
    (f64::INFINITY, "older"),
];
/// The ribbon over the timeline gives annotations this category first.
const FIRST_PHASE: usize = 2;

/// What a colour means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub fill: Fill,
    pub name: String,
    /// Bytes of blocks that have it now.
    pub bytes: u64,
    pub count: u64,
}

/// The colours of all pieces.
#[derive(Debug, Default)]
pub(super) struct Coloring {
    /// By piece of the model.
    pub fills: Vec<Fill>,
    /// What the colours of blocks in use mean: largest first, or in their natural order.
    pub legend: Vec<Meaning>,
}

/// The annotation that each moment belongs to: the innermost one.
#[derive(Debug, Default)]
pub(super) struct Phases {
    /// From each time on, the phase that holds: an index of `names`.
    changes: Vec<(TimeNs, Option<usize>)>,
    names: Vec<NameId>,
}

impl Phases {
    /// Reads the annotations of a lane. Costs as much as there are: a job.
    pub(super) fn read(history: &History, lane: LaneId) -> Self {
        let Some(lane) = history.lanes().iter().find(|known| known.id == lane) else { return Self::default() };
        let mut phases = Self::default();
        let mut numbers: FxHashMap<NameId, usize> = FxHashMap::default();
        let mut ends: Vec<(TimeNs, bool, u32, usize)> = Vec::new();
        for span in history.annotations() {
            let (Some(begin), Some(end)) = (span.begin, span.end.or(Some(TimeNs(i64::MAX)))) else { continue };
            if span.device != lane.device || span.process != lane.process {
                continue;
            }
            let next = phases.names.len();
            let number = *numbers.entry(span.name).or_insert(next);
            if number == next {
                phases.names.push(span.name);
            }
            ends.push((begin, true, span.depth, number));
            ends.push((end, false, span.depth, number));
        }
        // At equal times, what ends does so before the next begins.
        ends.sort();
        let mut open: Vec<(u32, usize)> = Vec::new();
        for (time, begins, depth, number) in ends {
            if begins {
                open.push((depth, number));
            } else if let Some(index) = open.iter().rposition(|known| *known == (depth, number)) {
                open.remove(index);
            }
            let innermost = open.iter().max_by_key(|(depth, _)| *depth).map(|(_, number)| *number);
            match phases.changes.last_mut().filter(|(last, _)| *last == time) {
                Some(last) => last.1 = innermost,
                None => phases.changes.push((time, innermost)),
            }
        }
        phases
    }

    fn at(&self, time: TimeNs) -> Option<usize> {
        let after = self.changes.partition_point(|(begin, _)| *begin <= time);
        self.changes[after.checked_sub(1)?].1
    }

    /// The name of the phase at a position.
    pub(super) fn name_at<'a>(&self, history: &'a History, at: Position) -> Option<&'a str> {
        let number = self.at(history.time_at(at)?)?;
        Some(history.dictionary().name(self.names[number]))
    }
}

/// How a block is classed: the order of the class in the legend, and its colour. Equal orders are one class.
type Class = (u32, Fill);

/// Looks blocks up.
struct Classes<'a, 'b> {
    ctx: &'a Ctx<'b>,
    sites: &'a mut Sites,
    phases: &'a Phases,
    /// When the cursor is, in nanoseconds or events.
    now: Option<f64>,
    streams: Vec<Option<vramscope_trace::StreamId>>,
}

/// The class of blocks from before the recording.
const BEFORE: u32 = u32::MAX - 1;
/// The class of blocks that nothing is known about.
const UNKNOWN: u32 = u32::MAX;

impl Classes<'_, '_> {
    fn class(&mut self, group: usize, facts: &Group, id: BlockId, bytes: u64) -> Class {
        match self.ctx.color_by {
            ColorBy::Size => {
                let class = SIZES.iter().position(|(end, _)| bytes <= *end).unwrap_or(SIZES.len() - 1);
                (class as u32, Fill::Step(class as u8))
            }
            ColorBy::Pool if facts.pool.is_none() => (UNKNOWN, Fill::Plain),
            ColorBy::Pool => (group as u32, Fill::Category(group as u8 % 8)),
            ColorBy::Stream => match self.streams.iter().position(|stream| *stream == facts.stream) {
                Some(index) if facts.stream.is_some() => (index as u32, Fill::Category(index as u8 % 8)),
                _ => (UNKNOWN, Fill::Plain),
            },
            ColorBy::Stack => self.by_stack(id),
            ColorBy::Age => self.by_age(id),
            ColorBy::Phase => self.by_phase(id),
        }
    }

    fn by_stack(&mut self, id: BlockId) -> Class {
        let history = self.ctx.history;
        let stack = history.block(id).map_or(vramscope_trace::StackId::NONE, |block| block.stack);
        let site = self.sites.of(history, stack);
        (site.number(), self.sites.fill(site))
    }

    fn by_age(&self, id: BlockId) -> Class {
        let Some(block) = self.ctx.history.block(id) else { return (UNKNOWN, Fill::Plain) };
        if block.at_start {
            return (BEFORE, Fill::Plain);
        }
        let (ages, then) = match self.now {
            Some(_) => (&AGES, self.ctx.axis.elapsed(block.allocated)),
            None => (&EVENT_AGES, Some(f64::from(block.allocated.0))),
        };
        let now = self.now.unwrap_or(f64::from(self.ctx.cursor.0));
        let Some(age) = then.map(|then| now - then) else { return (UNKNOWN, Fill::Plain) };
        let class = ages.iter().position(|(end, _)| age < *end).unwrap_or(ages.len() - 1);
        (class as u32, Fill::Step(7 - class as u8))
    }

    fn by_phase(&self, id: BlockId) -> Class {
        let history = self.ctx.history;
        let Some(block) = history.block(id) else { return (UNKNOWN, Fill::Plain) };
        if block.at_start {
            return (BEFORE, Fill::Plain);
        }
        match history.time_at(block.allocated).and_then(|time| self.phases.at(time)) {
            Some(number) => (number as u32, Fill::Category(((number + FIRST_PHASE) % 8) as u8)),
            None => (UNKNOWN, Fill::Plain),
        }
    }

    fn name(&self, class: u32, model: &Model) -> String {
        let mode = self.ctx.color_by;
        let index = class as usize;
        match (mode, class) {
            (ColorBy::Stack, _) => self.sites.name_of_number(class).to_owned(),
            (ColorBy::Phase, UNKNOWN) => "outside annotations".to_owned(),
            (_, UNKNOWN) => "unknown".to_owned(),
            (_, BEFORE) => "before recording".to_owned(),
            (ColorBy::Size, _) => SIZES[index].1.to_owned(),
            (ColorBy::Age, _) => if self.now.is_some() { AGES[index].1 } else { EVENT_AGES[index].1 }.to_owned(),
            (ColorBy::Pool, _) => {
                let group = &model.groups[index];
                let pool = group.pool.map_or_else(String::new, |pool| pool.to_string());
                group.stream.map_or(pool.clone(), |stream| format!("{pool} · {stream}"))
            }
            (ColorBy::Stream, _) => self.streams[index].map_or_else(String::new, |stream| stream.to_string()),
            (ColorBy::Phase, _) => self.ctx.history.dictionary().name(self.phases.names[index]).to_owned(),
        }
    }
}

/// Colours a map. Costs what is live.
pub(super) fn color(ctx: &Ctx<'_>, model: &Model, sites: &mut Sites, phases: &Phases) -> Coloring {
    let timed = matches!(ctx.history.time_axis(), TimeAxis::Usable { .. });
    let mut streams: Vec<_> = model.groups.iter().filter(|group| !group.loose).map(|group| group.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    let now = if timed { ctx.axis.elapsed(ctx.cursor) } else { None };
    let mut classes = Classes { ctx, sites, phases, now, streams };
    let mut fills = Vec::with_capacity(model.pieces.len());
    let mut sums: FxHashMap<u32, (Fill, u64, u64)> = FxHashMap::default();
    for (number, group) in model.groups.iter().enumerate() {
        let pieces = model.rows[group.rows.clone()].iter().flat_map(|row| &model.pieces[row.pieces.clone()]);
        for piece in pieces {
            fills.push(match piece.what {
                What::Gap(GapKind::Pinned) => Fill::Pinned,
                What::Gap(GapKind::Releasable) => Fill::Releasable,
                What::Hole => Fill::Plain,
                What::Block { pending: true, .. } => Fill::Pending,
                What::Block { id, .. } => {
                    let (class, fill) = classes.class(number, group, id, piece.length);
                    let sum = sums.entry(class).or_insert((fill, 0, 0));
                    (sum.1, sum.2) = (sum.1 + piece.length, sum.2 + 1);
                    fill
                }
            });
        }
    }
    let mut order: Vec<(u32, (Fill, u64, u64))> = sums.into_iter().collect();
    order.sort_unstable_by_key(|(class, (_, bytes, _))| match ctx.color_by {
        ColorBy::Stack | ColorBy::Phase => (u64::MAX - bytes, *class),
        _ => (0, *class),
    });
    let legend = order
        .into_iter()
        .map(|(class, (fill, bytes, count))| Meaning { fill, name: classes.name(class, model), bytes, count })
        .collect();
    Coloring { fills, legend }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_annotation_holds() {
        let names = vec![NameId(1), NameId(2)];
        let phases = Phases {
            changes: vec![(TimeNs(10), Some(0)), (TimeNs(20), Some(1)), (TimeNs(30), Some(0)), (TimeNs(40), None)],
            names,
        };
        let at = |time| phases.at(TimeNs(time));
        assert_eq!(
            [9, 10, 19, 20, 29, 30, 39, 40].map(at),
            [None, Some(0), Some(0), Some(1), Some(1), Some(0), Some(0), None]
        );
    }
}
