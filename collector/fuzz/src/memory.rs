//! How much memory the reader itself takes.

use crossbeam_channel::bounded;
use vramscope_trace::{Progress, SourceMessage};

/// Reads `input` as it is and forgets what is said, except how it ended.
pub fn drain(input: &[u8]) -> String {
    let (out, messages) = bounded::<SourceMessage>(16);
    std::thread::scope(|scope| {
        scope.spawn(move || vramscope_collector::read_bytes(input, &Progress::default(), &out));
        match messages.into_iter().last() {
            Some(SourceMessage::Failed(sentence)) => sentence,
            _ => "done".into(),
        }
    })
}

/// By how many bytes the process was larger at most while `work` ran; coarse, and 0 where the system does not tell.
pub fn grown_by(work: impl FnOnce()) -> u64 {
    // Makes the system forget the largest size so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS:");
    work();
    status("VmHWM:").saturating_sub(before)
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}
