//! What questions cost, by exact counters: nothing grows with the length of a history but logarithms.

mod support;

use support::{history, job};
use vramscope_model::{Metric, Position, Work};

const LIVE: u64 = 2_000;

#[test]
fn a_seek_costs_live_blocks_whatever_the_length() {
    for events in [30_000, 240_000] {
        let history = history(&job(LIVE, events));
        let mut worst = 0;
        for at in (0..=history.end().0).step_by(1_777) {
            let mut work = Work::default();
            let snapshot = history.snapshot_counted(Position(at), &mut work);
            assert!(snapshot.lanes[0].segments.len() <= 4);
            worst = worst.max(work.rows);
        }
        // The list of the checkpoint, and the blocks allocated since: a third of the events of an interval, but all of them
        // while the job starts.
        assert!(worst <= 2 * (LIVE + 1024), "{worst} rows for {events} events");
    }
}

#[test]
fn checkpoints_list_at_most_one_thing_for_two_events() {
    for live in [10, LIVE] {
        let history = history(&job(live, 200_000));
        let storage = history.storage();
        assert!(storage.checkpoints >= 40, "{storage:?}");
        assert!(storage.checkpoint_rows <= 100_000, "{storage:?}");
    }
}

#[test]
fn an_event_takes_at_most_sixty_bytes() {
    let events = job(LIVE, 600_000);
    let storage = history(&events).storage();
    assert!(storage.bytes <= 60 * events.len() as u64, "{storage:?}");
    // Two counters change with every block's allocation and free, none with the end of a plain free; one with every segment.
    let (segments, first) = (LIVE.div_ceil(512), LIVE);
    let cycles = (events.len() as u64 - segments - first) / 3;
    assert_eq!(storage.points, segments + 2 * first + 4 * cycles);
}

#[test]
fn columns_cost_logarithms() {
    for (events, most) in [(30_000, 130), (480_000, 170)] {
        let history = history(&job(LIVE, events));
        let edges: Vec<Position> = (0..=500).map(|n| Position(n * (history.end().0 / 500))).collect();
        let mut work = Work::default();
        let columns = history.columns_counted(history.lanes()[0].id, Metric::Allocated, &edges, &mut work);
        assert_eq!(columns.len(), 500);
        assert!(work.rows <= 500 * most, "{} rows a column", work.rows / 500);
    }
}

#[test]
fn looking_adds_no_storage() {
    let events = job(LIVE, 100_000);
    let mut ingest = support::ingest();
    for part in events.chunks(1_000) {
        ingest.push(vramscope_trace::Batch { events: part.to_vec(), ..Default::default() });
        let (one, two) = (ingest.history(), ingest.history());
        assert_eq!(one.storage(), two.storage());
    }
    assert_eq!(ingest.history().storage(), history(&events).storage());
}
