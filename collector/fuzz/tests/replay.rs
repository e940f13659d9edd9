//! Replays the corpus: every input that once taught the fuzzer something keeps its promises.

use std::path::Path;

use vramscope_fuzz::TARGETS;

#[test]
fn the_corpus_keeps_its_promises() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            println!("{}", path.display());
            target(&std::fs::read(&path).unwrap());
            inputs += 1;
        }
        assert!(inputs > 10, "{name}: only {inputs} inputs");
    }
}

#[test]
fn targets_take_anything() {
    for (_, target) in TARGETS {
        for input in [&b""[..], b"\0", b"\x80", b"{", b"\xef\xbb\xbf[", b"\x1f\x8b", b"\x05a"] {
            target(input);
        }
    }
}
