//! Measurements for people, not run by default: `cargo test --release -p vramscope-model --test speed -- --ignored --nocapture`.

mod support;

use std::time::Instant;

use support::{ingest, job};
use vramscope_model::{Metric, Position};
use vramscope_trace::Batch;

#[test]
#[ignore = "a measurement"]
fn ingest_and_seek() {
    for live in [400, 20_000] {
        let events = job(live, 2_700_000);
        let batches: Vec<Batch> =
            events.chunks(4096).map(|part| Batch { events: part.to_vec(), ..Batch::default() }).collect();
        let mut ingest = ingest();
        let start = Instant::now();
        for batch in batches {
            ingest.push(batch);
        }
        let took = start.elapsed();
        let history = ingest.history();
        let storage = history.storage();
        println!(
            "{live} live: {} events in {took:?} = {:.1} M/s; {:.1} bytes an event; {} checkpoints, {} rows",
            events.len(),
            events.len() as f64 / took.as_secs_f64() / 1e6,
            storage.bytes as f64 / events.len() as f64,
            storage.checkpoints,
            storage.checkpoint_rows
        );
        let positions: Vec<Position> = (1..200).map(|n| Position(n * (events.len() as u32 / 200))).collect();
        let mut seeks: Vec<_> = positions
            .iter()
            .map(|at| {
                let start = Instant::now();
                let snapshot = history.snapshot_at(*at);
                (start.elapsed(), snapshot.lanes[0].segments.len())
            })
            .collect();
        seeks.sort();
        println!("  snapshot_at: median {:?}, worst {:?}", seeks[100].0, seeks[198].0);
        let edges: Vec<Position> = (0..=1500).map(|n| Position(n * (events.len() as u32 / 1500))).collect();
        let lane = history.lanes()[0].id;
        let start = Instant::now();
        let columns = history.columns(lane, Metric::Allocated, &edges);
        println!("  1,500 columns: {:?} ({})", start.elapsed(), columns.len());
        let start = Instant::now();
        for _ in 0..1000 {
            drop(ingest.history());
        }
        println!("  history(): {:?}", start.elapsed() / 1000);
    }
}
