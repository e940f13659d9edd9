//! `vramscope whatif` as programs use it: the promised fields, the order of rows, and how it refuses.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recording(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: the recording {} is not here", path.display());
    None
}

fn whatif(file: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramscope")).arg("whatif").arg(file).args(arguments).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_setting_is_an_object_with_the_promised_fields() {
    let Some(file) = recording("whatif/w_varlen@default.pickle.gz") else { return };
    let got = json(&whatif(&file, &["--conf", "", "--capacity-mib", "3000", "--json"]));
    assert_eq!(got["conf"], "");
    assert_eq!(got["capacity_bytes"], 3000_u64 << 20);
    assert_eq!(got["peak_reserved_bytes"], 3_057_647_616_u64);
    assert_eq!((got["segment_allocs"].as_u64(), got["segment_frees"].as_u64()), (Some(59), Some(18)));
    assert_eq!(got["retries"], 2);
    assert!(got["min_capacity_bytes"].is_null());
    assert_eq!(got["oom"]["step"], 1);
    assert_eq!(got["oom"]["phase"], "backward");
    assert_eq!(got["oom"]["requested_bytes"].as_u64().map(|bytes| bytes >> 20), Some(453));
    assert!(got["oom"]["event"].is_u64() && got["depends_on_addresses"].is_boolean());
}

#[test]
fn without_a_setting_all_useful_ones_come_best_first() {
    let Some(file) = recording("whatif/w_varlen@default.pickle.gz") else { return };
    let got = json(&whatif(&file, &["--json"]));
    let rows = got.as_array().unwrap();
    let peaks: Vec<u64> = rows.iter().map(|row| row["peak_reserved_bytes"].as_u64().unwrap()).collect();
    assert!(peaks.len() > 10 && peaks.is_sorted(), "{peaks:?}");
    assert_eq!(rows[0]["conf"], "expandable_segments:True");
    let least = json(&whatif(&file, &["--conf", "", "--min-capacity", "--json"]));
    let least = least["min_capacity_bytes"].as_u64().unwrap() >> 20;
    let fails = |mebibytes: u64| {
        let got = json(&whatif(&file, &["--conf", "", "--capacity-mib", &mebibytes.to_string(), "--json"]));
        !got["oom"].is_null()
    };
    assert!(!fails(least) && fails(least - 2), "{least}");
}

#[test]
fn people_get_a_table() {
    let Some(file) = recording("whatif/w_varlen@default.pickle.gz") else { return };
    let output = whatif(&file, &["--capacity-mib", "3000"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("peak reserved") && text.contains("(defaults)") && text.contains("out of memory in step"));
}

#[test]
fn wrong_settings_are_wrong_usage_and_files_without_history_are_refused() {
    let Some(file) = recording("whatif/w_varlen@default.pickle.gz") else { return };
    for arguments in [["--conf", "colour:blue"], ["--torch", "1.12"], ["--capacity-mib", "0"]] {
        assert_eq!(whatif(&file, &arguments).status.code(), Some(2), "{arguments:?}");
    }
    let old = whatif(&file, &["--torch", "2.0", "--conf", "expandable_segments:True"]);
    assert_eq!(old.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&old.stderr).contains("2.1"));
    let missing = whatif(Path::new("no/such/file.pickle"), &[]);
    assert_eq!(missing.status.code(), Some(1));
}
