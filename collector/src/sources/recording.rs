//! Recordings of this program (`.vmt`) as a source.

use std::io::Read;

use crossbeam_channel::Sender;
use vramscope_recording::Reader;
use vramscope_trace::{Progress, SourceMessage};

/// Reads a recording of about `bytes` bytes and says what happened in it; ends with [`SourceMessage::Done`] or
/// [`SourceMessage::Failed`].
pub(crate) fn read(source: impl Read, bytes: u64, progress: &Progress, out: &Sender<SourceMessage>) {
    progress.set_total(bytes);
    let mut reader = Reader::new(source);
    while let Some(message) = reader.next_message() {
        progress.set_done(reader.offset());
        if progress.is_cancelled() {
            // If nobody listens any more, nobody misses it. So below.
            let _ = out.send(SourceMessage::Failed("was not read to the end: cancelled".to_owned()));
            return;
        }
        if out.send(message).is_err() {
            return;
        }
    }
}
