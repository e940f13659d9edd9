//! Reads a recording and prints how long that took and what came: `cargo run --release -p vramscope-collector --example read FILE`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;
use std::time::Instant;

use vramscope_trace::{Progress, SourceMessage};

fn main() {
    for file in std::env::args().skip(1) {
        let begin = Instant::now();
        let (out, messages) = crossbeam_channel::bounded(64);
        let (mut events, mut resets) = (0usize, 0);
        std::thread::scope(|scope| {
            let file = &file;
            scope.spawn(move || vramscope_collector::read_file(Path::new(file), &Progress::default(), &out));
            for message in messages {
                match message {
                    SourceMessage::Batch(batch) => {
                        events += batch.events.len();
                        for problem in batch.problems {
                            println!("  {} x{}: {}", problem.kind, problem.count, problem.example);
                        }
                    }
                    SourceMessage::Reset => {
                        resets += 1;
                        events = 0;
                    }
                    SourceMessage::Info(info) => println!("  {}", info.format),
                    SourceMessage::Failed(sentence) => println!("  {file} {sentence}"),
                    SourceMessage::Done => {}
                }
            }
        });
        println!("{file}: {events} events, {resets} resets, {:.3} s", begin.elapsed().as_secs_f64());
    }
}
