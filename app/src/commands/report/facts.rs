//! What a report says: the fields that programs may rely on. Bytes are integers, times Unix microseconds, unknown is `null`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use vramscope_model::{Fragmentation, History, Lane, LaneId, LaneState, Metric, Position, fragmentation, holders};
use vramscope_trace::TimeNs;

use super::training::{self, Training};
use super::verdict;
use crate::commands::why::{CapacityFields, WhyFields};
use crate::session::Run;
use crate::stacks;

/// How many holders of the peak are listed.
const HOLDERS: usize = 10;

/// A recording.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) rank: Option<u32>,
    pub(super) format: Option<String>,
    /// Events of any source, counter samples and annotations excluded.
    pub(super) entries: u64,
    pub(super) devices: Vec<Device>,
    /// Ordinals of devices that the process could see but that have no memory and no events.
    pub(super) devices_without_events: Vec<u16>,
    pub(super) annotations: u64,
    /// Pinned host memory, where the file lists it; host memory is not in any other figure.
    pub(super) host_bytes: Option<u64>,
    pub(super) allocator_settings: Option<String>,
    #[serde(flatten)]
    pub(super) training: Training,
    pub(super) capacity: CapacityFields,
    /// Why the last allocation that failed did so; `null` if none failed.
    pub(super) why: Option<WhyFields>,
    pub(super) problems: Vec<Problem>,
}

/// One device of a recording. Without `peak_` a figure is the state at the end.
#[derive(Debug, Serialize)]
pub(super) struct Device {
    pub(super) device: u16,
    pub(super) process: Option<u32>,
    pub(super) entries: u64,
    pub(super) peak_allocated_bytes: u64,
    pub(super) peak_allocated_time_us: Option<i64>,
    pub(super) peak_reserved_bytes: u64,
    pub(super) peak_reserved_time_us: Option<i64>,
    pub(super) allocated_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) active_bytes: u64,
    pub(super) requested_bytes: Option<u64>,
    pub(super) pending_bytes: u64,
    /// Allocated before recording began.
    pub(super) base_bytes: u64,
    pub(super) truncated: bool,
    pub(super) segments: u64,
    pub(super) blocks: u64,
    pub(super) largest_free_bytes: u64,
    pub(super) releasable_bytes: u64,
    pub(super) pinned_free_bytes: u64,
    pub(super) rounding_bytes: Option<u64>,
    pub(super) pools: Vec<PoolFigures>,
    pub(super) ooms: Vec<Oom>,
    pub(super) peak_holders: Vec<PeakHolder>,
    /// What the end's blocks hold, largest first; empty if nothing is allocated.
    pub(super) end_holders: Vec<PeakHolder>,
    #[serde(skip)]
    pub(super) peak_sites: Vec<Site>,
    #[serde(skip)]
    pub(super) end_sites: Vec<Site>,
}

/// Free and used bytes of one pool and stream at the end.
#[derive(Debug, Serialize)]
pub(super) struct PoolFigures {
    /// "small" or "large"; `null` = unknown.
    pub(super) class: Option<&'static str>,
    /// PyTorch's pool id; `[0, 0]` is the default pool.
    pub(super) pool_id: Option<[u32; 2]>,
    pub(super) stream: Option<u64>,
    pub(super) reserved_bytes: u64,
    pub(super) allocated_bytes: u64,
    pub(super) pending_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) largest_free_bytes: u64,
}

/// An allocation that failed.
#[derive(Debug, Serialize)]
pub(super) struct Oom {
    pub(super) size_bytes: u64,
    pub(super) device_free_bytes: Option<u64>,
    pub(super) time_us: Option<i64>,
    pub(super) allocated_bytes: u64,
    pub(super) reserved_bytes: u64,
    /// The longest contiguous free piece of any pool and stream at that moment.
    pub(super) largest_free_bytes: u64,
    /// All free pieces together.
    pub(super) free_bytes: u64,
    pub(super) pools: Vec<PoolFigures>,
    pub(super) stack: Vec<String>,
}

/// Blocks of one call stack.
#[derive(Debug, Serialize)]
pub(super) struct PeakHolder {
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// Frames, innermost first; empty = no stack recorded.
    pub(super) stack: Vec<String>,
}

/// Blocks whose stacks have the same telling frame: what people look for.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) bytes: u64,
    pub(super) count: u64,
    pub(super) title: String,
}

/// A complaint about the data.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) kind: &'static str,
    pub(super) count: u64,
    pub(super) example: String,
    #[serde(skip)]
    pub(super) explanation: &'static str,
}

impl Report {
    /// The facts of a run as far as it has been read. `card` is the card's size, if the user names it.
    pub(super) fn of(run: &Run, card: Option<u64>) -> Self {
        let history = &run.history;
        let (capacity, why) = verdict::of(history, card);
        let info = history.info();
        let devices: Vec<Device> = history.lanes().iter().map(|lane| Device::of(history, lane)).collect();
        let visible = info.map_or(0, |info| info.devices_visible);
        let devices_without_events =
            (0..visible).filter(|&ordinal| devices.iter().all(|device| device.device != ordinal)).collect();
        let problem = |problem: vramscope_trace::Problem| Problem {
            kind: problem.kind.name(),
            count: problem.count,
            example: problem.example,
            explanation: problem.kind.explanation(),
        };
        Self {
            file: run.origin.clone(),
            rank: run.rank,
            format: info.map(|info| info.format.clone()),
            entries: devices.iter().map(|device| device.entries).sum(),
            devices,
            devices_without_events,
            annotations: info.map_or(0, |info| info.annotations),
            host_bytes: info.and_then(|info| info.host_bytes),
            allocator_settings: info.and_then(|info| info.settings.as_ref()?.conf.clone()),
            training: training::of(history, card),
            capacity,
            why,
            problems: history.problems().into_iter().map(problem).collect(),
        }
    }
}

impl Device {
    fn of(history: &History, lane: &Lane) -> Self {
        let end = history.end();
        let value = |metric, at| history.value_at(lane.id, metric, at);
        let peak = |metric| {
            let peak = history.peak(lane.id, metric);
            let time = peak.and_then(|peak| history.time_at(peak.at)).map(TimeNs::micros);
            (peak.map_or(0, |peak| peak.bytes), time)
        };
        let (peak_allocated_bytes, peak_allocated_time_us) = peak(Metric::Allocated);
        let (peak_reserved_bytes, peak_reserved_time_us) = peak(Metric::Reserved);
        let figures = figures_at(history, lane.id, end);
        let allocated = value(Metric::Allocated, end).unwrap_or(0);
        let pending = value(Metric::Pending, end).unwrap_or(0);
        let requested = value(Metric::Requested, end);
        let peak_at = history.peak(lane.id, Metric::Allocated).map(|peak| peak.at);
        let (peak_holders, peak_sites) = holders_at(history, lane.id, peak_at);
        let (end_holders, end_sites) = holders_at(history, lane.id, Some(end));
        let device = lane.device.0;
        let info = history.info();
        let told = info.and_then(|info| info.entries_by_device.iter().find(|(known, _)| *known == device));
        Self {
            device,
            process: (lane.process.0 != 0).then_some(lane.process.0),
            entries: told.map_or(lane.entries, |&(_, entries)| entries),
            peak_allocated_bytes,
            peak_allocated_time_us,
            peak_reserved_bytes,
            peak_reserved_time_us,
            allocated_bytes: allocated,
            reserved_bytes: value(Metric::Reserved, end).unwrap_or(0),
            active_bytes: allocated + pending,
            requested_bytes: requested,
            pending_bytes: pending,
            base_bytes: value(Metric::Allocated, history.recording_start()).unwrap_or(0),
            truncated: info.is_some_and(|info| info.truncated_devices.contains(&device)),
            segments: figures.segments,
            blocks: figures.blocks + figures.loose_blocks,
            largest_free_bytes: figures.largest_free,
            releasable_bytes: figures.releasable,
            pinned_free_bytes: figures.pinned,
            rounding_bytes: requested.map(|requested| allocated.saturating_sub(requested)),
            pools: pools(&figures),
            ooms: ooms(history, lane.id),
            peak_holders,
            end_holders,
            peak_sites,
            end_sites,
        }
    }
}

fn state_at(history: &History, lane: LaneId, at: Position) -> Option<LaneState> {
    history.snapshot_at(at).lanes.into_iter().find(|state| state.lane == lane)
}

fn figures_at(history: &History, lane: LaneId, at: Position) -> Fragmentation {
    state_at(history, lane, at).map(|state| fragmentation(&state)).unwrap_or_default()
}

fn pools(figures: &Fragmentation) -> Vec<PoolFigures> {
    let pool = |pool: &vramscope_model::PoolFigures| PoolFigures {
        class: pool.pool.map(|pool| match pool.class {
            vramscope_trace::SizeClass::Small => "small",
            vramscope_trace::SizeClass::Large => "large",
        }),
        pool_id: pool.pool.map(|pool| [pool.owner.0, pool.owner.1]),
        stream: pool.stream.map(|stream| stream.0),
        reserved_bytes: pool.reserved,
        allocated_bytes: pool.allocated,
        pending_bytes: pool.pending,
        free_bytes: pool.releasable + pool.pinned,
        largest_free_bytes: pool.largest_free,
    };
    figures.by_pool.iter().map(pool).collect()
}

fn ooms(history: &History, lane: LaneId) -> Vec<Oom> {
    let failed = |oom: vramscope_model::Oom| {
        let figures = figures_at(history, lane, oom.at);
        Oom {
            size_bytes: oom.requested,
            device_free_bytes: oom.device_free,
            time_us: oom.time.map(TimeNs::micros),
            allocated_bytes: history.value_at(lane, Metric::Allocated, oom.at).unwrap_or(0),
            reserved_bytes: history.value_at(lane, Metric::Reserved, oom.at).unwrap_or(0),
            largest_free_bytes: figures.largest_free,
            free_bytes: figures.releasable + figures.pinned,
            pools: pools(&figures),
            stack: stacks::frames(history.dictionary(), oom.stack),
        }
    };
    history.ooms().into_iter().filter(|oom| oom.lane == lane).map(failed).collect()
}

/// Who holds memory at a position: by call stack, as far as it says anything, the largest first; and by telling frame.
fn holders_at(history: &History, lane: LaneId, at: Option<Position>) -> (Vec<PeakHolder>, Vec<Site>) {
    let Some(state) = at.and_then(|at| state_at(history, lane, at)) else { return Default::default() };
    let mut by_stack = BTreeMap::<Vec<String>, (u64, u64)>::new();
    let mut by_title = BTreeMap::<String, (u64, u64)>::new();
    let add = |sum: &mut (u64, u64), bytes, count| *sum = (sum.0 + bytes, sum.1 + count);
    for holder in holders(history, &state, usize::MAX).largest {
        let dictionary = history.dictionary();
        add(by_stack.entry(stacks::frames(dictionary, holder.stack)).or_default(), holder.bytes, holder.count);
        add(by_title.entry(stacks::title(dictionary, holder.stack)).or_default(), holder.bytes, holder.count);
    }
    let by_stack = by_stack.into_iter().map(|(stack, (bytes, count))| PeakHolder { bytes, count, stack });
    let by_title = by_title.into_iter().map(|(title, (bytes, count))| Site { bytes, count, title });
    let (mut by_stack, mut by_title): (Vec<_>, Vec<_>) = (by_stack.collect(), by_title.collect());
    by_stack.sort_by_key(|holder| Reverse(holder.bytes));
    by_title.sort_by_key(|site| Reverse(site.bytes));
    by_stack.truncate(HOLDERS);
    by_title.truncate(HOLDERS);
    (by_stack, by_title)
}
