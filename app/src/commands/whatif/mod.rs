//! `vramscope whatif`: what would have happened under other allocator settings, as JSON for programs or as a table for people.

mod predict;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::error::ErrorKind;
use vramscope_model::{History, LaneId, requests, steps};
use vramscope_sim::{Policy, Torch, conf, useful_settings};
use vramscope_trace::Requests;

use crate::jobs::Wake;
use crate::session::{RunState, Session};

use self::predict::Recorded;

/// What to predict.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  vramscope whatif snapshot.pickle\n  vramscope whatif snapshot.pickle --conf expandable_segments:True --capacity-mib 24000\n  vramscope whatif snapshot.pickle --min-capacity --json | jq '.[0].min_capacity_bytes'\n\nThe run ends at its first failure. Give the capacity that PyTorch's allocator may use: the card's, less what the CUDA\ncontext, libraries and other processes take."
)]
pub(super) struct WhatifArguments {
    /// A recording with a history of events
    file: PathBuf,
    /// Settings as in PYTORCH_CUDA_ALLOC_CONF, "" for PyTorch's defaults; leave out for a table of all useful ones
    #[arg(long)]
    conf: Option<String>,
    /// The most mebibytes that the allocator may reserve
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    capacity_mib: Option<u64>,
    /// The cap that the recording was made under, where there was one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    recorded_capacity_mib: Option<u64>,
    /// The version of PyTorch to predict for, 2.0 to 2.15
    #[arg(long, value_name = "VERSION", value_parser = Torch::parse, default_value = "2.15")]
    torch: Torch,
    /// The device, by its ordinal; the one with the most events if left out
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Search the smallest capacity on which the run survives
    #[arg(long)]
    min_capacity: bool,
    /// Write JSON: an object, or without --conf a list of objects, best first
    #[arg(long)]
    json: bool,
}

/// Reads the recording, predicts, and writes the answer to stdout.
pub(super) fn run(arguments: &WhatifArguments) -> Result<(), String> {
    let capacity = arguments.capacity_mib.map(|mebibytes| mebibytes << 20);
    let chosen = arguments.conf.as_deref().map(|text| {
        let policy = conf::parse(text, arguments.torch, capacity);
        (text.to_owned(), policy.unwrap_or_else(|sentence| refuse(&sentence)))
    });
    let history = read(&arguments.file)?;
    let lane = lane_of(&history, arguments.device)?;
    let recorded_capacity = arguments.recorded_capacity_mib.map(|mebibytes| mebibytes << 20);
    let requests = requests(&history, lane, recorded_capacity, &|| false);
    let requests = requests.filter(|requests| !requests.list.is_empty());
    let requests = requests.ok_or("the recording has no events to replay: only the final state is known")?;
    let recorded = Recorded { requests: &requests, steps: steps(&history, lane, &|| false) };
    let settings = match &chosen {
        Some(one) => vec![one.clone()],
        None => table_of(&requests, arguments.torch, capacity),
    };
    let mut rows = predict::rows(&recorded, &settings, arguments.min_capacity);
    let encoded = match (&chosen, arguments.json) {
        (_, false) => text::of(&recorded, &rows, history.dictionary()),
        (Some(_), true) => encode(rows.pop().as_ref())?,
        (None, true) => encode(Some(&rows))?,
    };
    print(&encoded)
}

/// The settings of the table.
fn table_of(requests: &Requests, torch: Torch, capacity: Option<u64>) -> Vec<(String, Policy)> {
    useful_settings(torch, capacity, requests.settings.conf.as_deref())
}

/// Ends the program as wrong usage does.
fn refuse(sentence: &str) -> ! {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{sentence}\n")).exit()
}

fn read(file: &Path) -> Result<Arc<History>, String> {
    let wake: Wake = Arc::new(|| ());
    let mut session = Session::open(&[file.to_owned()], &wake)?;
    session.wait();
    match session.runs() {
        [run] => match &run.state {
            RunState::Failed(sentence) => Err(format!("{} {sentence}", run.origin)),
            RunState::Ready | RunState::Loading => Ok(Arc::clone(&run.history)),
        },
        runs => Err(format!("{} holds {} recordings; choose one of them", file.display(), runs.len())),
    }
}

fn lane_of(history: &History, device: Option<u16>) -> Result<LaneId, String> {
    let lanes = history.lanes().iter().filter(|lane| device.is_none_or(|device| lane.device.0 == device));
    let most = lanes.max_by_key(|lane| (lane.entries, std::cmp::Reverse(lane.id)));
    most.map(|lane| lane.id).ok_or_else(|| match device {
        Some(device) => format!("the recording has no events on device {device}"),
        None => "the recording has no memory in it".to_owned(),
    })
}

fn encode<T: serde::Serialize>(answer: Option<&T>) -> Result<String, String> {
    let encoded = serde_json::to_string_pretty(&answer);
    encoded.map(|text| text + "\n").map_err(|error| format!("the answer cannot be written as JSON: {error}"))
}

fn print(text: &str) -> Result<(), String> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Someone who pipes into `head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the answer cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
