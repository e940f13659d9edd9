//! The Python hook on a stub of PyTorch, under the real shim: phases, steps, snapshots, and a job that notices nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

#[path = "shim/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

use support::{Run, golden, here, package};

/// A folder with the hook under the name Python looks for, and perhaps a sitecustomize of the job's own in another.
fn hook_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("hookdir").tempdir().unwrap();
    fs::copy(package().join("../assets/vramscope_hook.py"), folder.path().join("sitecustomize.py")).unwrap();
    folder
}

/// Whether there is a Python to run the hook; says so if not.
fn has_python() -> bool {
    let here = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        println!("skipped: there is no python3 to run the hook");
    }
    here
}

fn train(variant: &str, more: &[(&str, &str)], first: &str) -> Run {
    let hook = hook_folder();
    let path = format!("{}:{first}:{}", hook.path().display(), here().join("stub").display());
    let mut command = Command::new("python3");
    command
        .arg(here().join("programs/training.py"))
        .arg(variant)
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(more.iter().copied());
    Run::with(&mut command, "").succeeded()
}

#[test]
fn phases_and_steps_are_marked() {
    if !has_python() {
        return;
    }
    for variant in ["plain", "closure", "fails", "compiling"] {
        golden(&format!("hook-{variant}"), &train(variant, &[], "").dump());
    }
    golden("hook-modules", &train("plain", &[("VRAMSCOPE_MODULES", "1")], "").dump());
}

#[test]
fn a_torch_it_does_not_know_is_left_alone_where_it_differs() {
    if !has_python() {
        return;
    }
    golden("hook-broken", &train("broken", &[("STUB_BROKEN", "1")], "").dump());
}

#[test]
fn out_of_memory_leaves_snapshots_but_not_without_end() {
    if !has_python() {
        return;
    }
    let run = train("oom", &[], "");
    let files = fs::read_dir(run.rings.path()).unwrap();
    let mut names: Vec<String> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".ring"));
    names.iter_mut().for_each(|name| name.replace_range(..=name.find('-').unwrap(), ""));
    names.sort();
    assert_eq!(names, ["oom-1.pickle", "oom-2.pickle", "oom-3.pickle"]);
}

#[test]
fn the_rank_is_told_once_the_program_knows_it() {
    if !has_python() {
        return;
    }
    let run = train("plain", &[("STUB_RANK", "5")], "");
    assert_eq!(run.files()[0].rank(), Some(5));
}

#[test]
fn the_jobs_own_sitecustomize_runs_as_if_alone() {
    if !has_python() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let file = own.path().join("sitecustomize.py");
    fs::write(
        &file,
        "import os, sys\nsys.own = (__name__, os.path.basename(__file__))\nsys.argv0 = sys.modules['sitecustomize']\n",
    )
    .unwrap();
    let hook = hook_folder();
    let check = "import sys; assert sys.own == ('sitecustomize', 'sitecustomize.py'); import sitecustomize; \
                 assert sitecustomize is sys.argv0 and sitecustomize.__file__.startswith(sys.argv[1]); assert 'torch' not in sys.modules";
    let run = Run::with(
        Command::new("python3")
            .args(["-c", check])
            .arg(own.path())
            .env("PYTHONPATH", format!("{}:{}", hook.path().display(), own.path().display())),
        "",
    );
    drop(run.succeeded());
}

#[test]
fn without_the_shim_or_torch_it_does_nothing() {
    if !has_python() {
        return;
    }
    let hook = hook_folder();
    let check = "import sys; sys.path.insert(0, sys.argv[1]); import torch; assert not torch._pre and not torch._before; \
                 assert torch.Tensor.backward.__name__ == 'backward' and not hasattr(torch.Tensor.backward, '__wrapped__')";
    for ring in [None, Some(hook.path())] {
        let mut command = Command::new("python3");
        command
            .args(["-c", check])
            .arg(here().join("stub"))
            .env("PYTHONPATH", hook.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.envs(ring.map(|ring| ("VRAMSCOPE_RING_DIR", ring)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let missing = "import importlib\ntry:\n    import torch\nexcept ModuleNotFoundError as error:\n    assert error.name == 'torch'\nelse:\n    raise SystemExit(1)";
    drop(Run::with(Command::new("python3").args(["-c", missing]).env("PYTHONPATH", hook.path()), "").succeeded());
}
