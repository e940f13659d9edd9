//! What the tests of the shim share: building it, the stand-ins and the small programs, and running one under it.

#![allow(clippy::unwrap_used, dead_code, reason = "a test's helper, of which each test binary uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use vramscope_collector::sources::shim::{RingFile, dump};

/// The root of this package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder `tests/shim`.
pub(crate) fn here() -> PathBuf {
    package().join("tests/shim")
}

/// Runs cargo on another package and returns the library it makes. Its target folder is apart: cargo holds this one's lock.
pub(crate) fn build(manifest: &str, library: &str, features: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("built").join(features.join("-"));
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(package().join(manifest))
        .arg("--target-dir")
        .arg(&target)
        .args(features.iter().flat_map(|feature| ["--features", feature]))
        .status()
        .unwrap();
    assert!(status.success(), "{manifest} does not build");
    target.join("debug").join(library)
}

/// Everything that a test under the shim needs.
pub(crate) struct Kit {
    /// The shim.
    pub(crate) shim: PathBuf,
    /// Holds the stand-ins under the names that programs look for.
    pub(crate) libraries: PathBuf,
    /// The program made from `programs/job.c`.
    pub(crate) job: PathBuf,
    /// The program made from `programs/direct.c`.
    pub(crate) direct: PathBuf,
}

/// Builds it all, once a test binary.
pub(crate) fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let shim = build("shim/Cargo.toml", "libvramscope_shim.so", &[]);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kit-{}", std::process::id()));
        let libraries = folder.join("libraries");
        fs::create_dir_all(&libraries).unwrap();
        let cuda = build("fake_driver/cuda/Cargo.toml", "libfake_cuda.so", &[]);
        fs::copy(&cuda, libraries.join("libcuda.so.1")).unwrap();
        fs::copy(build("fake_driver/c10/Cargo.toml", "libfake_c10.so", &[]), libraries.join("libc10.so")).unwrap();
        let (job, direct) = (folder.join("job"), folder.join("direct"));
        compile(&job, "job.c", &[]);
        compile(&direct, "direct.c", &[&libraries.join("libcuda.so.1")]);
        Kit { shim, libraries, job, direct }
    })
}

fn compile(program: &Path, source: &str, libraries: &[&Path]) {
    let mut command = Command::new("cc");
    command.arg("-O2").arg("-Wall").arg("-o").arg(program).arg(here().join("programs").join(source));
    let status = command.args(libraries).args(["-ldl", "-lpthread"]).status().unwrap();
    assert!(status.success(), "{source} does not compile");
}

/// A run under the shim.
pub(crate) struct Run {
    /// What the program said.
    pub(crate) output: Output,
    /// Its rings.
    pub(crate) rings: tempfile::TempDir,
}

impl Run {
    /// Runs a program under the shim; `script` is the fake driver's.
    pub(crate) fn new(program: &Path, arguments: &[&str], script: &str) -> Self {
        Self::with(Command::new(program).args(arguments), script)
    }

    /// Runs a command under the shim, with whatever else it brings in its environment.
    pub(crate) fn with(command: &mut Command, script: &str) -> Self {
        let rings = tempfile::tempdir().unwrap();
        let kit = kit();
        let output = command
            .env("LD_PRELOAD", &kit.shim)
            .env("NVTX_INJECTION64_PATH", &kit.shim)
            .env("LD_LIBRARY_PATH", &kit.libraries)
            .env("VRAMSCOPE_RING_DIR", rings.path())
            .env("VRAMSCOPE_FAKE_CUDA", script)
            .output()
            .unwrap();
        Self { output, rings }
    }

    /// Fails unless the program saw what it expected.
    pub(crate) fn succeeded(self) -> Self {
        let said = String::from_utf8_lossy(&self.output.stderr);
        assert!(self.output.status.success(), "{}: {said}", self.output.status);
        self
    }

    /// Its rings, in the order in which they were made.
    pub(crate) fn files(&self) -> Vec<RingFile> {
        let mut rings: Vec<RingFile> = fs::read_dir(self.rings.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "ring"))
            .map(|path| RingFile::open(&path).unwrap().unwrap())
            .collect();
        rings.sort_by_key(|ring| ring.header().monotonic_ns);
        rings
    }

    /// All its rings as text, a heading each.
    pub(crate) fn dump(&self) -> String {
        let rings = self.files().into_iter().map(|mut ring| format!("ring\n{}", dump(&mut ring)));
        rings.collect()
    }
}

/// Compares a text with the golden file of that name. `UPDATE_GOLDEN=1` writes it.
pub(crate) fn golden(name: &str, text: &str) {
    let path = here().join("golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{}", path.display());
}
