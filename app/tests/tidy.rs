//! Rules about the code that a program can check: who may use whom, how files begin, how long they are, what stands at the top.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop and may say why")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file below `folder` with one of the endings, as (path from the root, text).
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    fn walk(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    walk(&path, endings, found);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), endings, &mut found);
    found.sort();
    let relative = |path: PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    found.into_iter().map(|path| (relative(path.clone()), fs::read_to_string(&path).unwrap())).collect()
}

fn sources() -> Vec<(String, String)> {
    let mut all = files("app", &[".rs"]);
    all.extend(files("collector", &[".rs"]));
    assert!(all.len() > 50, "the walk found only {} files", all.len());
    all
}

/// Folder of each package and what it may depend on (outside of tests). The reason for each edge is in ARCHITECTURE.md.
const PACKAGES: &[(&str, &[&str])] = &[
    ("collector/trace", &["hashbrown"]),
    ("collector/wire", &[]),
    ("collector/nvml_v1", &["nvml-wrapper"]),
    ("collector/fake_driver/c10", &[]),
    ("collector/fake_driver/cuda", &[]),
    ("collector/fake_driver/nvml", &[]),
    ("collector/recording", &["vramscope-trace", "arrow-array", "arrow-ipc", "arrow-schema", "zstd"]),
    ("app/model", &["vramscope-trace", "rustc-hash", "smallvec"]),
    ("app/sim", &["vramscope-trace", "rustc-hash"]),
    (
        "collector",
        &[
            "vramscope-nvml-v1",
            "vramscope-recording",
            "vramscope-trace",
            "vramscope-wire",
            "base64",
            "crossbeam-channel",
            "flate2",
            "nvml-wrapper",
            "rustc-hash",
        ],
    ),
    (
        "collector/fuzz",
        &["base64", "vramscope-collector", "vramscope-recording", "vramscope-trace", "crossbeam-channel", "flate2"],
    ),
    (
        "app",
        &[
            "vramscope-collector",
            "vramscope-model",
            "vramscope-recording",
            "vramscope-sim",
            "vramscope-trace",
            "clap",
            "crossbeam-channel",
            "eframe",
            "egui",
            "egui_plot",
            "png",
            "rfd",
            "rustc-hash",
            "serde",
            "serde_json",
        ],
    ),
];

/// Where a C interface is spoken or imitated: the only places with unsafe code, each block with its reason, and lints of their own.
const UNSAFE: &[&str] = &["collector/shim", "collector/fake_driver", "collector/nvml_v1"];

fn may_be_unsafe(path: &str) -> bool {
    UNSAFE.iter().any(|folder| path.starts_with(folder))
}

/// Names in the `[dependencies]` table of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        } else if inside
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once(['.', '=', ' '])
        {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn packages_depend_on_what_the_table_allows() {
    let members = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for (folder, allowed) in PACKAGES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let found = dependencies(&manifest);
        assert!(!found.is_empty() || allowed.is_empty(), "{folder}: no dependencies were read");
        for name in found {
            assert!(allowed.contains(&name.as_str()), "{folder} must not depend on {name}");
        }
        let lints = if may_be_unsafe(folder) { "[lints.clippy]" } else { "[lints]\nworkspace = true" };
        assert!(manifest.contains(lints), "{folder} does not take the workspace's lints");
        assert!(members.contains(&format!("\"{folder}\"")), "{folder} is no workspace member");
    }
    let members = members.lines().find(|line| line.starts_with("members")).unwrap().matches('"').count() / 2;
    assert_eq!(members, PACKAGES.len(), "a workspace member is missing from the table");
}

/// A part of the tree, texts that must not stand in it, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "app/model/src",
        &["egui", "std::fs", "std::net", "std::thread", "Instant", "SystemTime", "std::env", "println!"],
        "the model neither reads, waits nor draws",
    ),
    (
        "app/sim/src",
        &["egui", "vramscope_model", "std::fs", "std::net", "std::thread", "Instant", "SystemTime", "println!"],
        "the simulator turns requests into events and nothing else",
    ),
    (
        "collector/recording/src",
        &["egui", "vramscope_model", "vramscope_collector", "std::fs", "std::net", "std::thread", "Instant"],
        "a recording is read from and written to what it is given",
    ),
    ("collector/trace/src", &["egui", "std::fs", "std::net", "std::thread", "Instant"], "events are plain data"),
    ("collector/src", &["egui", "vramscope_model"], "sources know nothing of the model or the window"),
    (
        "app/src/views",
        &["crate::session", "vramscope_collector", "std::fs", "std::thread", "Instant::now", "SystemTime"],
        "views paint what they are given",
    ),
    ("app/src/session.rs", &["egui"], "a session does not paint"),
];

#[test]
fn no_part_uses_what_it_must_not() {
    let sources = sources();
    for (part, words, why) in FORBIDDEN {
        let mut looked_at = 0;
        let is_code = |path: &str| path.starts_with(part) && !path.ends_with("/tests.rs");
        for (path, text) in sources.iter().filter(|(path, _)| is_code(path)) {
            looked_at += 1;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or("");
                for word in *words {
                    assert!(!code.contains(word), "{path}:{}: {word} ({why})", number + 1);
                }
            }
        }
        assert!(looked_at > 0, "{part} has no files");
    }
}

#[test]
fn every_file_begins_with_what_it_is() {
    for (path, text) in sources() {
        let first = text.lines().next().unwrap_or("");
        assert!(
            first.starts_with("//! ") && first.len() > 20,
            "{path} does not begin with a line that says what it is"
        );
    }
}

#[test]
fn files_are_short() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines < 500, "{path} has {lines} lines");
    }
}

#[test]
fn nothing_is_left_undone_or_unsafe() {
    for (path, text) in sources() {
        if path.ends_with("tests/tidy.rs") {
            continue;
        }
        for word in ["todo!(", "unimplemented!(", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{path}: {word}");
        }
        let unsafe_words = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];
        if may_be_unsafe(&path) {
            let blocks = text.matches("unsafe {").count();
            let reasons = text.matches("SAFETY:").count();
            assert!(blocks == 0 || reasons > 0, "{path}: unsafe without a reason");
        } else {
            for word in unsafe_words {
                assert!(!text.contains(word), "{path}: {word}");
            }
        }
    }
}

#[test]
fn the_top_level_is_as_given() {
    let allowed = ["Cargo.toml", "Cargo.lock", "README.md", "app", "assets", "collector", "target"];
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let known = allowed.contains(&name.as_str()) || name.starts_with('.') || name.starts_with("LICENSE");
        assert!(known, "{name} does not belong at the top");
    }
}

#[test]
fn there_is_one_egui() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for name in ["egui", "emath", "epaint", "ecolor", "eframe"] {
        let count = lock.matches(&format!("name = \"{name}\"\n")).count();
        assert_eq!(count, 1, "{count} versions of {name}");
    }
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let text = fs::read_to_string(root().join("app/ARCHITECTURE.md")).unwrap();
    let sources = sources();
    let mut checked = 0;
    for line in text.lines().filter(|line| line.starts_with("- ")) {
        for name in line.split('`').skip(1).step_by(2).filter(|name| name.starts_with("test:")) {
            let name = name.trim_start_matches("test:");
            let declared = format!("fn {name}(");
            assert!(sources.iter().any(|(_, text)| text.contains(&declared)), "no test is called {name}");
            checked += 1;
        }
    }
    assert!(checked >= 12, "ARCHITECTURE.md names only {checked} tests");
}

#[test]
fn no_file_speaks_of_a_machine() {
    let mut texts = sources();
    for folder in ["app", "collector", "assets"] {
        texts.extend(files(folder, &[".md", ".toml", ".txt"]));
    }
    texts.push(("README.md".into(), fs::read_to_string(root().join("README.md")).unwrap()));
    for (path, text) in texts.iter().filter(|(path, _)| !path.ends_with("tests/tidy.rs")) {
        for word in ["/work/", "/root/", "/tmp/"] {
            assert!(!text.contains(word), "{path} holds the path of some machine: {word}");
        }
    }
}
