//! Messages of every wording, with figures of our own.

use proptest::prelude::*;

use super::super::{Cause, explain};
use super::{MessageFormat, OomMessage, ProcessUse, messages};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn one(text: &str) -> OomMessage {
    let mut found = messages(text);
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0)
}

fn cause(text: &str) -> Cause {
    explain(&one(text)).cause.unwrap()
}

/// What `size` of two decimals stands for.
fn gib(value: f64) -> Option<u64> {
    Some((value * GIB as f64).round() as u64)
}

const SENTENCES: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of \
    24.00 GiB of which 256.00 MiB is free. Process 77 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has \
    22.75 GiB memory in use. Process 78 has 2.50 MiB memory in use. 23.50 GiB allowed; Of the allocated memory 20.00 GiB is \
    allocated by PyTorch, with 1.50 GiB allocated in private pools (e.g., CUDA Graphs), and 2.25 GiB is reserved by PyTorch but \
    unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to \
    avoid fragmentation.  See documentation";

#[test]
fn figures_in_sentences() {
    let message = one(SENTENCES);
    assert_eq!((message.format, message.backend, message.device), (MessageFormat::Sentences, "CUDA", Some(1)));
    assert_eq!((message.requested, message.card, message.free), (Some(512 * MIB), gib(24.0), Some(256 * MIB)));
    assert_eq!((message.allowed, message.allocated), (gib(23.5), gib(20.0)));
    assert_eq!((message.private_pools, message.unallocated, message.reserved), (gib(1.5), gib(2.25), gib(22.25)));
    assert_eq!(message.this_process, gib(22.75));
    let listed = [(77, GIB), (78, 5 * MIB / 2)].map(|(pid, bytes)| ProcessUse { pid, bytes: Some(bytes) });
    assert_eq!(message.processes, listed);
    assert!(!message.beyond_range, "the advice is no complaint");
    let figures = message.figures();
    assert_eq!(figures.non_framework, gib(0.5));
    assert_eq!(figures.other_processes, Some(GIB + 5 * MIB / 2));
    assert_eq!((figures.in_use, figures.own_pid), (gib(18.5), None));
}

#[test]
fn figures_in_parentheses() {
    let message = one(
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 5.50 GiB already \
        allocated; 18.06 MiB free; 6.00 GiB allowed; 5.75 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory \
        try setting max_split_size_mb to avoid fragmentation.",
    );
    assert_eq!(
        (message.format, message.device, message.requested),
        (MessageFormat::Parentheses, Some(0), Some(20 * MIB))
    );
    assert_eq!((message.card, message.allocated, message.allowed), (gib(7.79), gib(5.5), gib(6.0)));
    assert_eq!((message.reserved, message.unallocated), (gib(5.75), gib(0.25)));
    assert_eq!(message.free, Some((18.06 * MIB as f64).round() as u64));
    let older = one(
        "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 11.00 GiB total capacity; 9.00 GiB already \
        allocated; 1.00 GiB free; 512.00 MiB cached)",
    );
    assert_eq!((older.reserved, older.unallocated, older.free), (gib(9.5), gib(0.5), gib(1.0)));
}

#[test]
fn the_misspelt_capacity_and_a_device_without_number() {
    let text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU  has a total capacty of 16.00 GiB of which 1023 bytes is free. \
        Of the allocated memory 15.00 GiB is allocated by PyTorch, and 128.00 KiB is reserved by PyTorch but unallocated.";
    let message = one(text);
    assert_eq!((message.device, message.card, message.free), (None, gib(16.0), Some(1023)));
    assert_eq!((message.unallocated, message.this_process), (Some(128 << 10), None));
    assert_eq!(message.figures().other_processes, None, "without a list of processes nothing is known of them");
    assert_eq!(cause(text), Cause::Capacity);
}

#[test]
fn the_asynchronous_backends_list() {
    let text = "torch.OutOfMemoryError: Allocation on device 2 would exceed allowed memory. (out of memory)\nCurrently allocated     \
        : 9.38 GiB\nRequested               : 20.00 MiB\nDevice limit            : 11.76 GiB\nFree (according to CUDA): 14.81 MiB\nPyTorch \
        limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n";
    let message = one(text);
    assert_eq!(
        (message.format, message.device, message.requested),
        (MessageFormat::MallocAsync, Some(2), Some(20 * MIB))
    );
    assert_eq!((message.allocated, message.card, message.allowed), (gib(9.38), gib(11.76), None));
    assert_eq!(cause(text), Cause::Capacity);
    assert_eq!(cause(&text.replace("14.81 MiB", "3.00 GiB").replace("17179869184.00", "9.39")), Cause::MemoryFraction);
}

#[test]
fn a_request_turned_down_beforehand() {
    let text = "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. \
        Requested size: 3.00 GiB.";
    let message = one(text);
    assert_eq!((message.format, message.requested), (MessageFormat::Rejected, gib(3.0)));
    assert_eq!(cause(text), Cause::MemoryFraction);
}

#[test]
fn an_address_range_that_is_too_short() {
    let text = "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 40.00 GiB is free. \
        The request does not fit in the 32.00 GiB reserved for its expandable segment. Of the allocated memory 30.00 GiB is allocated \
        by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";
    assert!(one(text).beyond_range);
    let why = explain(&one(text));
    assert_eq!(why.cause, Some(Cause::Unknown));
    assert!(why.sentence.contains("address range"), "{}", why.sentence);
}

#[test]
fn a_size_beyond_all_sense() {
    let text = "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.";
    assert_eq!((one(text).format, one(text).requested), (MessageFormat::Absurd, None));
    assert_eq!(cause(text), Cause::LargerThanCard);
}

#[test]
fn other_makers_words() {
    let xpu = one(
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.00 GiB. Of the \
        allocated memory 12.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch but unallocated. Please use `empty_cache` \
        to release all unoccupied cached memory.",
    );
    assert_eq!((xpu.backend, xpu.card, xpu.free, xpu.reserved), ("XPU", gib(15.0), None, gib(14.0)));
    let hip = one(
        "HIP out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 64.00 GiB of which 12.00 MiB is free.",
    );
    assert_eq!((hip.backend, hip.free), ("HIP", Some(12 * MIB)));
    let bare = one("RuntimeError: CUDA error: out of memory");
    assert_eq!((bare.format, explain(&bare).cause), (MessageFormat::Bare, Some(Cause::Unknown)));
}

#[test]
fn all_ones_means_unknown() {
    for all_ones in ["17179869184.00 GiB", "18446744073709551615 bytes"] {
        let text = format!(
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 0 bytes is free. Including \
             non-PyTorch memory, this process has {all_ones} memory in use. Of the allocated memory 14.50 GiB is allocated by PyTorch, \
             and 32.00 MiB is reserved by PyTorch but unallocated."
        );
        let message = one(&text);
        assert_eq!((message.this_process, message.free), (None, Some(0)));
        let why = explain(&message);
        assert_eq!(why.cause, Some(Cause::Unknown));
        assert!(why.sentence.contains("spilled 6.53 GiB"), "{}", why.sentence);
    }
}

#[test]
fn this_process_may_be_listed_like_any_other() {
    let text = "CUDA out of memory. Tried to allocate 172.00 MiB. GPU 3 has a total capacity of 22.00 GiB of which 150.00 MiB is free. \
        Process 9 has 600.00 MiB memory in use. Process 4242 has 21.25 GiB memory in use. Of the allocated memory 20.50 GiB is allocated by \
        PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.";
    let figures = one(text).figures();
    assert_eq!((figures.own_pid, figures.this_process), (Some(4242), gib(21.25)));
    assert_eq!(figures.other_processes, Some(600 * MIB));
    assert_eq!(figures.non_framework, gib(0.75).map(|bytes| bytes - 100 * MIB));
    // The same list on a larger card cannot hold this process as well.
    let apart = text.replace("22.00 GiB", "44.00 GiB");
    assert_eq!(
        (one(&apart).figures().own_pid, one(&apart).figures().other_processes),
        (None, gib(21.25).map(|b| b + 600 * MIB))
    );
}

/// A message with the given figures in GiB: request, card, free, this process, another, in use, reserved but not in use.
fn with(figures: [f64; 7]) -> String {
    let [request, card, free, this, other, used, rest] = figures;
    format!(
        "CUDA out of memory. Tried to allocate {request:.2} GiB. GPU 0 has a total capacity of {card:.2} GiB of which {free:.2} GiB is \
         free. Including non-PyTorch memory, this process has {this:.2} GiB memory in use. Process 8 has {other:.2} GiB memory in use. Of \
         the allocated memory {used:.2} GiB is allocated by PyTorch, and {rest:.2} GiB is reserved by PyTorch but unallocated."
    )
}

#[test]
fn each_limit_has_its_verdict() {
    let causes = [
        ([26.0, 24.0, 22.0, 1.5, 0.5, 1.0, 0.0], Cause::LargerThanCard),
        ([2.0, 80.0, 40.0, 39.0, 1.0, 38.0, 0.5], Cause::MemoryFraction),
        ([2.0, 80.0, 1.0, 39.0, 40.0, 38.0, 0.5], Cause::OtherProcesses),
        ([2.0, 80.0, 1.0, 78.5, 0.5, 60.0, 0.5], Cause::NonFramework),
        ([2.0, 80.0, 1.0, 78.5, 0.5, 60.0, 18.0], Cause::Fragmentation),
        ([2.0, 80.0, 1.0, 78.5, 0.5, 77.0, 1.0], Cause::Capacity),
    ];
    for (figures, expected) in causes {
        assert_eq!(cause(&with(figures)), expected, "{figures:?}");
    }
    let graphs = with([2.0, 80.0, 0.5, 79.0, 0.5, 78.0, 0.5]).replace(
        "allocated by PyTorch, and",
        "allocated by PyTorch, with 21.00 GiB allocated in private pools (e.g., CUDA Graphs), and",
    );
    assert_eq!(cause(&graphs), Cause::PrivatePool);
}

#[test]
fn messages_are_found_in_logs() {
    let log = format!(
        "Epoch 3: 41%|####  | 410/1000\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"train.py\", line 9, in <module>\n\
         \u{1b}[31m[rank1]: {}\u{1b}[0m\n[rank0]: shutting down\nTried to allocate port 8080 twice\n{{\"error\": \"CUDA out of memory. \
         Tried to allocate 3.00 GiB. GPU 0 has a total\\n[rank0]: capacity of 40.00 GiB of which 5.00 MiB is free.\"}}\n\u{fc}berall",
        SENTENCES.replace(". Process 77", ".\n[rank1]: Process 77")
    );
    let found = messages(&log);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], one(SENTENCES));
    assert_eq!((found[1].requested, found[1].card, found[1].free), (gib(3.0), gib(40.0), Some(5 * MIB)));
}

#[test]
fn other_texts_are_no_messages() {
    for text in [
        "",
        "Tried to allocate 5 threads",
        "Tried to allocate 5.00 MiB from the arena",
        "Allocation on device 0 failed",
        "\u{1b}[",
    ] {
        assert_eq!(messages(text), [], "{text}");
    }
}

/// A size as PyTorch writes it, and the bytes that its text stands for.
fn written() -> impl Strategy<Value = (String, u64)> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    (1..102_300_u64, 0..units.len()).prop_map(move |(hundredths, unit)| {
        let (name, exponent) = units[unit];
        let bytes = (hundredths as f64 / 100.0 * f64::from(exponent).exp2()).round() as u64;
        (format!("{}.{:02} {name}", hundredths / 100, hundredths % 100), bytes)
    })
}

/// Pieces of messages, torn.
fn torn() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "CUDA out of memory. ",
        "Tried to allocate ",
        "Allocation on device ",
        "Allocation was preemptively rejected",
        "GPU ",
        "(GPU 0; ",
        " total capacity; ",
        "total capacity of ",
        "17179869184.00 GiB",
        "1.50 GiB",
        "0 bytes",
        "..",
        "1e400 MiB",
        " is free",
        "Process ",
        " has ",
        " memory in use",
        " allowed; ",
        " already allocated",
        "more than 1EB",
        ": ",
        "Requested",
        "\n",
        "\\n",
        "\u{1b}[3",
        "\u{e4}",
        "9",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn figures_are_read_as_they_were_written(sizes in prop::collection::vec(written(), 7), older in any::<bool>(), pid in 1..99_999_u64) {
        let [asked, card, free, allowed, used, rest, other] = &sizes[..] else { unreachable!() };
        let text = if older {
            format!("CUDA out of memory. Tried to allocate {} (GPU 2; {} total capacity; {} already allocated; {} free; {} allowed; {} reserved in \
                total by PyTorch)", asked.0, card.0, used.0, free.0, allowed.0, rest.0)
        } else {
            format!("CUDA out of memory. Tried to allocate {}. GPU 2 has a total capacity of {} of which {} is free. Process {pid} has {} memory \
                in use. {} allowed; Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
                asked.0, card.0, free.0, other.0, allowed.0, used.0, rest.0)
        };
        let message = one(&text);
        prop_assert_eq!((message.device, message.requested, message.card), (Some(2), Some(asked.1), Some(card.1)));
        prop_assert_eq!((message.free, message.allowed, message.allocated), (Some(free.1), Some(allowed.1), Some(used.1)));
        if older {
            prop_assert_eq!(message.reserved, Some(rest.1));
        } else {
            prop_assert_eq!((message.unallocated, message.reserved), (Some(rest.1), Some(used.1 + rest.1)));
            prop_assert_eq!(message.processes, [ProcessUse { pid, bytes: Some(other.1) }]);
        }
    }

    #[test]
    fn every_text_is_answered(text in torn()) {
        for message in messages(&text) {
            let why = explain(&message);
            prop_assert!(why.cause.is_some() && !why.path.is_empty() && why.sentence.ends_with('.'), "{text}: {why:?}");
            message.figures();
        }
    }
}
