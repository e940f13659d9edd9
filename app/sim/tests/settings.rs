//! Other settings predicted from default recordings, held against real runs under those settings.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod support;

use vramscope_sim::{Torch, conf, predict};
use vramscope_trace::Requests;

use support::{read, shared, snapshots};

/// The settings text and the cap in bytes that a sidecar's name stands for.
fn setting(name: &str) -> (String, Option<u64>) {
    let (mut options, mut cap) = (Vec::new(), None);
    for part in name.split(',') {
        if let Some((collect, mebibytes)) = part.split_once("cap") {
            cap = Some(mebibytes.parse::<u64>().unwrap() << 20);
            if let Some(share) = collect.strip_prefix("gc") {
                options.push(format!("garbage_collection_threshold:0.{}", share.trim_end_matches('0')));
            }
        } else if part != "default" {
            options.push(part.to_owned());
        }
    }
    (options.join(","), cap)
}

/// What a real run and its prediction have in common.
#[derive(Default)]
struct Score {
    verdicts: usize,
    all: usize,
    exact: usize,
    /// Errors of the peak, relative, of runs that survived.
    errors: Vec<f64>,
}

impl Score {
    fn add(&mut self, name: &str, requests: &Requests, truth: &serde_json::Value) {
        let (text, cap) = setting(name);
        let policy = conf::parse(&text, Torch::v2(11), cap).unwrap();
        let found = predict(requests, &policy);
        let marks = truth["marks"].as_array().unwrap();
        let real = marks.iter().filter_map(|mark| mark["peak_reserved"].as_u64()).max().unwrap();
        let survived = truth["oom"].is_null();
        let peak = found.outcome.totals.peak_reserved;
        self.all += 1;
        self.verdicts += usize::from(found.outcome.failure.is_none() == survived);
        if survived {
            self.errors.push(peak.abs_diff(real) as f64 / real as f64);
            self.exact += usize::from(peak == real);
        }
        let (low, high) = found.peak_reserved_range;
        println!(
            "  {name}: real {} MiB, predicted {} ({} to {}), {}",
            real >> 20,
            peak >> 20,
            low >> 20,
            high >> 20,
            if peak == real { "exact" } else { "off" }
        );
    }
}

#[test]
fn predictions_equal_real_runs() {
    let Some(folder) = shared("whatif") else { return };
    let mut score = Score::default();
    for path in snapshots(&folder) {
        let history = read(&path);
        let requests = vramscope_model::requests(&history, history.lanes()[0].id, None, &|| false).unwrap();
        let workload = path.file_name().unwrap().to_string_lossy().replace("default.pickle.gz", "");
        println!("{workload}");
        let mut sides: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        sides.sort();
        for side in sides {
            let name = side.file_name().unwrap().to_string_lossy().into_owned();
            let name = name.strip_prefix(&workload).and_then(|rest| rest.strip_suffix(".json"));
            if let Some(name) = name {
                let truth = serde_json::from_reader(std::fs::File::open(&side).unwrap()).unwrap();
                score.add(name, &requests, &truth);
            }
        }
    }
    let Score { verdicts, all, exact, mut errors } = score;
    errors.sort_by(f64::total_cmp);
    let high = errors[(errors.len() - 1).min(errors.len() * 95 / 100)];
    println!("exact {exact} of {}, 95 % within {:.2} %, verdicts {verdicts} of {all}", errors.len(), high * 100.0);
    assert_eq!((verdicts, all), (48, 48), "whether a run survives is predicted right");
    assert!(exact >= 32, "{exact} of {} peaks are exact", errors.len());
    assert!(high <= 0.01, "95 % of peaks are off by at most {high}");
}

/// The same workload recorded under five settings: each recording predicts all of them.
#[test]
fn any_recording_predicts_the_others() {
    let Some(folder) = shared("corpus") else { return };
    let settings = [
        ("default", "", None),
        ("expandable", "expandable_segments:True", None),
        ("maxsplit64", "max_split_size_mb:64", None),
        ("roundup4", "roundup_power2_divisions:4", None),
        ("capped", "", Some(4600 << 20)),
    ];
    let side = |name: &str, ending: &str| folder.join(format!("varlen_{name}.{ending}"));
    for (from, _, cap) in settings {
        let history = read(&side(from, "pickle.gz"));
        // Without its cap, too: the recording itself tells emptied caches from those that the allocator emptied.
        for known in [None, cap] {
            let requests = vramscope_model::requests(&history, history.lanes()[0].id, known, &|| false).unwrap();
            for (to, text, cap) in settings {
                let truth: serde_json::Value =
                    serde_json::from_reader(std::fs::File::open(side(to, "json")).unwrap()).unwrap();
                let marks = truth["marks"].as_array().unwrap();
                let real = marks.iter().filter_map(|mark| mark["peak_reserved"].as_u64()).max().unwrap();
                let found = predict(&requests, &conf::parse(text, Torch::v2(11), cap).unwrap()).outcome;
                assert_eq!((found.totals.peak_reserved, found.failure), (real, None), "{to} from {from}");
            }
        }
    }
}
