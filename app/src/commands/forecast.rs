//! `vramscope forecast`: for each finished step of recorded runs, the chance that the run dies of memory soon.
//!
//! One run a line: `{"id", "cap", "per_step": [{phase: [allocated at its end, allocated peak, reserved peak]}]}`, bytes, phases in
//! their order. One answer a line and step, written as soon as its run has been read: `{"id", "step", "p20", "p50", "cause",
//! "steps_left"}`. A forecast knows the steps up to its own and nothing else.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vramscope_model::{Forecaster, StepFacts};

/// What to forecast.
#[derive(Args)]
#[command(after_help = "Example:\n  vramscope forecast runs.jsonl | jq 'select(.p50 > 0.8)'")]
pub(super) struct ForecastArguments {
    /// Runs, one JSON object a line; `-` reads stdin
    runs: PathBuf,
}

/// A recorded run. More fields may be there; they are not looked at.
#[derive(Deserialize)]
struct Run {
    id: Value,
    /// Bytes that may be reserved.
    cap: u64,
    per_step: Vec<Map<String, Value>>,
}

/// A forecast after one step.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a Value,
    step: usize,
    p20: f64,
    p50: f64,
    cause: &'static str,
    steps_left: Option<(u32, u32)>,
}

/// Forecasts every run of the file to stdout.
pub(super) fn run(arguments: &ForecastArguments) -> Result<(), String> {
    let name = arguments.runs.display();
    let input: Box<dyn BufRead> = if arguments.runs.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&arguments.runs).map_err(|error| format!("{name} cannot be opened: {error}"))?;
        Box::new(BufReader::new(file))
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for (number, line) in (1..).zip(input.lines()) {
        let line = line.map_err(|error| format!("{name} cannot be read: {error}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let run: Run = serde_json::from_str(&line).map_err(|error| format!("{name}, line {number}: {error}"))?;
        let written = forecast(&run, &mut out).map_err(|problem| format!("{name}, line {number}: {problem}"))?;
        match written.and_then(|()| out.flush()) {
            // Someone who pipes into `head` has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(format!("the forecast cannot be written: {error}")),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Writes a run's forecasts. The outer error is the input's fault, the inner one the output's.
fn forecast(run: &Run, out: &mut impl Write) -> Result<io::Result<()>, String> {
    let mut forecaster = Forecaster::new(run.cap);
    let mut reserved = 0;
    for (step, phases) in run.per_step.iter().enumerate() {
        let facts = facts(phases, &mut reserved).map_err(|problem| format!("step {step}: {problem}"))?;
        let forecast = forecaster.step(facts);
        let line = Line {
            id: &run.id,
            step,
            p20: round(forecast.p20),
            p50: round(forecast.p50),
            cause: forecast.cause.name(),
            steps_left: forecast.steps_left,
        };
        let written = serde_json::to_writer(&mut *out, &line).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| out.write_all(b"\n")) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// Chances are written to five places.
fn round(chance: f64) -> f64 {
    (chance * 1e5).round() / 1e5
}

/// A step's facts from its phases. `reserved` is the reserved peak of the phase before: where it falls, the allocator has
/// given memory back.
fn facts(phases: &Map<String, Value>, reserved: &mut u64) -> Result<StepFacts, String> {
    let mut facts = StepFacts::default();
    let mut before = None;
    for (phase, figures) in phases {
        let [floor, peak, reserved_peak] = <[u64; 3]>::deserialize(figures)
            .map_err(|_| format!("{phase} should be [allocated at its end, allocated peak, reserved peak]"))?;
        facts.peak = facts.peak.max(peak);
        facts.reserved = facts.reserved.max(reserved_peak);
        facts.flushed |= reserved_peak < *reserved;
        if phase == "optimizer" {
            facts.update_growth = before.map(|before: u64| floor as i64 - before as i64);
        }
        facts.floor = floor;
        *reserved = reserved_peak;
        before = Some(floor);
    }
    if phases.is_empty() { Err("it has no phases".to_owned()) } else { Ok(facts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_line_and_odd_input_a_sentence() {
        let run: Run = serde_json::from_str(
            r#"{"id": 7, "cap": 1000, "kind": "x", "per_step": [{"forward": [300, 400, 500], "backward": [100, 600, 700]}]}"#,
        )
        .unwrap();
        let mut out = Vec::new();
        forecast(&run, &mut out).unwrap().unwrap();
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["id"], &line["step"]), (&Value::from(7), &Value::from(0)));
        assert!(line["p20"].as_f64() <= line["p50"].as_f64() && line["p50"].as_f64() < Some(1.0));

        let mut reserved = 0;
        let empty: Map<String, Value> = serde_json::from_str("{}").unwrap();
        assert_eq!(facts(&empty, &mut reserved).unwrap_err(), "it has no phases");
        let short: Map<String, Value> = serde_json::from_str(r#"{"forward": [1, 2]}"#).unwrap();
        assert!(facts(&short, &mut reserved).unwrap_err().starts_with("forward should be"));
    }

    #[test]
    fn a_fall_of_the_reserved_peak_is_a_flush() {
        let mut reserved = 0;
        let step: Map<String, Value> =
            serde_json::from_str(r#"{"forward": [10, 20, 90], "backward": [5, 30, 80], "optimizer": [9, 9, 80]}"#)
                .unwrap();
        let facts = facts(&step, &mut reserved).unwrap();
        let expected = StepFacts { floor: 9, peak: 30, reserved: 90, flushed: true, update_growth: Some(4) };
        assert_eq!((facts, reserved), (expected, 80));
    }
}
