//! The one writer: takes events in order, feeds the folds, and hands out histories.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use vramscope_trace::{Batch, DeviceId, Event, EventKind, Problem, ProblemKind, ProcessId, RunInfo, TimeNs};

use crate::folds::checkpoints::Checkpoints;
use crate::folds::clock::Clock;
use crate::folds::lane::{KnownAddresses, LaneFold, Step, StreamIndex};
use crate::folds::spans::Spans;
use crate::history::{History, Inner};
use crate::store::{EventRow, Extra, Form, NO_TIME, Place, Store};
use crate::{Lane, LaneId, Position, Subject};

/// The most events a history takes. What comes later is counted as lost.
const MOST_EVENTS: u32 = 1 << 28;

/// Takes events in order. What it has taken so far can be had at any time, as a [`History`].
#[derive(Debug, Default)]
pub struct Ingest {
    store: Store,
    lanes: Vec<LaneFold>,
    places: FxHashMap<(ProcessId, DeviceId), u16>,
    newest_place: Option<(ProcessId, DeviceId, u16)>,
    streams: StreamIndex,
    known: KnownAddresses,
    clock: Clock,
    spans: Spans,
    checkpoints: Checkpoints,
    problems: Vec<Problem>,
    /// Those of them that sources told.
    told_problems: Vec<Problem>,
    /// How many leading events state what was so before recording began, and whether that part is over.
    start_facts: u32,
    started: bool,
}

impl Ingest {
    /// A writer that has taken nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Facts about the run; the last ones count.
    pub fn set_info(&mut self, info: Arc<RunInfo>) {
        self.store.info = Some(info);
    }

    /// Takes a batch. Nothing in it can make this fail: what is odd becomes a problem.
    pub fn push(&mut self, batch: Batch) {
        for chunk in batch.dictionary {
            if !self.store.dictionary.push(chunk) {
                Problem::note(&mut self.problems, ProblemKind::UnknownKey, 1, || {
                    format!("before event {}: names that do not follow those told before", self.store.events.len())
                });
            }
        }
        for problem in batch.problems {
            Problem::note(&mut self.told_problems, problem.kind, problem.count, || problem.example.clone());
            Problem::note(&mut self.problems, problem.kind, problem.count, || problem.example);
        }
        for event in &batch.events {
            self.take(event);
        }
    }

    /// Everything taken so far. Costs O(lanes and problems), not O(events).
    pub fn history(&self) -> History {
        let mut problems = self.problems.clone();
        self.clock.add_problems(&mut problems);
        if self.spans.open_count > 0 {
            Problem::note(&mut problems, ProblemKind::OrphanAnnotation, self.spans.open_count, || {
                format!("{} annotations begin but do not end", self.spans.open_count)
            });
        }
        problems.sort_by_key(|problem| problem.kind);
        let inner = Inner {
            store: self.store.clone(),
            lanes: self.lanes.iter().map(|lane| lane.facts.clone()).collect(),
            series: self.lanes.iter().map(|lane| lane.series.clone()).collect(),
            problems,
            told_problems: self.told_problems.clone(),
            time_axis: self.clock.axis(),
            recording_start: Position(self.start_facts),
        };
        History { inner: Arc::new(inner) }
    }

    #[inline]
    fn take(&mut self, event: &Event) {
        let seq = self.store.events.len();
        let Some(place) = self.place_of(event).filter(|_| seq < MOST_EVENTS) else {
            return self.refuse(seq);
        };
        let is_start = event.kind.at_start();
        self.started |= !is_start;
        self.start_facts += u32::from(!self.started);
        // The smallest time stands for none in a row.
        let time = event.time.filter(|time| time.0 != NO_TIME);
        let (form, subject) = if is_memory(&event.kind) {
            if is_start {
                self.clock.start_fact(time);
            } else {
                self.clock.memory_event(time);
            }
            self.take_memory_event(event, place, seq)
        } else {
            (Form::Extra, self.take_other_event(event, time, place, seq))
        };
        self.write(event, place, form, subject);
        self.checkpoints.write_if_due(&mut self.store, &self.lanes);
    }

    /// The number of the event's process and device; `None` if there are too many.
    #[inline]
    fn place_of(&mut self, event: &Event) -> Option<u16> {
        if let Some((process, device, place)) = self.newest_place
            && process == event.process
            && device == event.device
        {
            return Some(place);
        }
        let key = (event.process, event.device);
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None => {
                let place = u16::try_from(self.places.len()).ok()?;
                self.places.insert(key, place);
                let new = Place { process: event.process, device: event.device, lane: None };
                Arc::make_mut(&mut self.store.places).push(new);
                place
            }
        };
        self.newest_place = Some((event.process, event.device, place));
        Some(place)
    }

    #[cold]
    fn refuse(&mut self, seq: u32) {
        Problem::note(&mut self.problems, ProblemKind::LostEvents, 1, || {
            format!("after event {seq}: more events, processes or devices than this program can hold")
        });
    }

    #[inline]
    fn take_memory_event(&mut self, event: &Event, place: u16, seq: u32) -> (Form, Subject) {
        let known = self.store.places.get(usize::from(place)).and_then(|place| place.lane);
        let lane = known.unwrap_or_else(|| self.new_lane(event, place, seq));
        let fold = &mut self.lanes[usize::from(lane.0)];
        let before = fold.live_things();
        let outcome = fold.apply(&mut Step {
            store: &mut self.store,
            problems: &mut self.problems,
            streams: &mut self.streams,
            known: &mut self.known,
            event,
            seq,
            recording: self.started,
        });
        self.checkpoints.live = self.checkpoints.live - before + fold.live_things();
        outcome
    }

    fn new_lane(&mut self, event: &Event, place: u16, seq: u32) -> LaneId {
        // There are at most as many lanes as places, whose numbers fit.
        let id = LaneId(self.lanes.len() as u16);
        self.lanes.push(LaneFold::new(Lane {
            id,
            process: event.process,
            device: event.device,
            entries: 0,
            requested_known: true,
            first: Position(seq + 1),
            last: Position(seq + 1),
        }));
        if let Some(place) = Arc::make_mut(&mut self.store.places).get_mut(usize::from(place)) {
            place.lane = Some(id);
        }
        id
    }

    fn take_other_event(&mut self, event: &Event, time: Option<TimeNs>, place: u16, seq: u32) -> Subject {
        match event.kind {
            EventKind::AnnotationBegin { name } => {
                self.spans.begin(&mut self.store, place, name, seq);
                Subject::Name(name)
            }
            EventKind::AnnotationEnd { name } => {
                if !self.spans.end(&mut self.store, place, name, seq) {
                    let dictionary = &self.store.dictionary;
                    Problem::note(&mut self.problems, ProblemKind::OrphanAnnotation, 1, || {
                        format!(
                            "event {seq}: annotation \u{201c}{}\u{201d} ends but did not begin",
                            dictionary.name(name)
                        )
                    });
                }
                Subject::Name(name)
            }
            EventKind::Mark { name } => {
                self.store.marks.push().store(seq, Relaxed);
                Subject::Name(name)
            }
            EventKind::LostEvents { count } => {
                self.clock.other_event(time);
                self.store.lost.push().store(seq, Relaxed);
                Problem::note(&mut self.problems, ProblemKind::LostEvents, count, || {
                    format!("event {seq}: the source dropped {count} events")
                });
                Subject::None
            }
            _ => {
                self.clock.other_event(time);
                Subject::None
            }
        }
    }

    /// Writes the event's row; word for word beside it if the row cannot hold it.
    #[inline]
    fn write(&mut self, event: &Event, place: u16, form: Form, subject: Subject) {
        let clock = self.clock.latest;
        let timely = event.time.is_none_or(|time| time.0 == clock && clock != NO_TIME);
        let (form, index) = match (form, subject) {
            (Form::BlockAlloc | Form::FreeRequested | Form::FreeCompleted, Subject::Block(id)) if timely => {
                (form, id.0)
            }
            _ => {
                let index = self.store.extras.len();
                let cell: &OnceLock<Extra> = self.store.extras.push();
                // A fresh cell is empty, so this cannot be refused.
                let _ = cell.set(Extra { event: *event, subject });
                (Form::Extra, index)
            }
        };
        let row = self.store.events.push();
        row.clock.store(clock, Relaxed);
        row.subject.store(index, Relaxed);
        row.place.store(place, Relaxed);
        row.tag.store(EventRow::tag_of(event, form), Relaxed);
    }
}

/// Whether an event belongs to an allocator: such events make lanes.
#[inline]
fn is_memory(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::AnnotationBegin { .. }
            | EventKind::AnnotationEnd { .. }
            | EventKind::Mark { .. }
            | EventKind::CounterSample { .. }
            | EventKind::LostEvents { .. }
    )
}
