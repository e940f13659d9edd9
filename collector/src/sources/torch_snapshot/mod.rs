//! PyTorch memory snapshots: what `torch.cuda.memory._dump_snapshot` and its relatives write.
//!
//! Three stages run at once: this thread reads the file and folds it into rows, a second one sizes blocks and makes events, and
//! whoever receives the events works on a third. Most files tell a whole history under default settings on one device; that is
//! what the second stage assumes until it sees otherwise. Then it says [`SourceMessage::Reset`], waits for the whole file,
//! rebuilds what was there before the first entry, and starts again.
//!
//! **Promise on untrusted input.** No input makes the reader panic or hang, and it takes at most [`MEMORY_FACTOR`] bytes of memory
//! for each byte of unpacked input (ordinary files take less than one and a half); a packed file may unpack to at most
//! [`UNPACK_FACTOR`] times its size, however often it was packed. Nothing in a file is ever executed.

mod container;
mod document;
mod emit;
mod error;
mod finish;
mod fold;
mod input;
mod json;
mod keys;
mod machine;
mod pickle;
mod placement;
mod rows;
mod start;
mod streaming;
mod value;

use crossbeam_channel::{Receiver, Sender, bounded};
use vramscope_trace::{Progress, SourceMessage};

use self::container::Syntax;
use self::document::Document;
use self::error::ReadError;
use self::input::Input;
use self::machine::{Machine, Streamed};

/// The most memory the reader takes for each byte of unpacked input, beyond a fixed [`MEMORY_FLOOR`].
pub const MEMORY_FACTOR: u64 = 128;

/// Memory the reader may take for any input.
pub const MEMORY_FLOOR: u64 = 64 << 20;

/// How many times its own size a packed file may unpack to (beyond the first 256 MiB).
pub const UNPACK_FACTOR: u64 = 512;

/// Chunks that may wait between the stages.
const WAITING_CHUNKS: usize = 64;

/// Reads a snapshot from `source` and says what happened in it; ends with [`SourceMessage::Done`] or
/// [`SourceMessage::Failed`].
pub(crate) fn read(
    source: Box<dyn std::io::Read + Send + '_>,
    packed_bytes: u64,
    progress: &Progress,
    out: &Sender<SourceMessage>,
) {
    let (chunks, received) = bounded(WAITING_CHUNKS);
    let (document, finished) = bounded::<Result<(Document, String), ReadError>>(1);
    let result = std::thread::scope(|scope| {
        let placer = scope.spawn(move || place(&received, &finished, progress, out));
        // The sender of chunks is gone when this returns; the placer then takes the document.
        let read = parse(source, packed_bytes, progress, Some(chunks));
        // The placer only goes away early when nobody listens.
        let _ = document.send(read);
        placer.join().unwrap_or_else(|_| Err(ReadError::Failed("could not be read: an internal error".into())))
    });
    let last = match result {
        Ok(()) => SourceMessage::Done,
        Err(error) => SourceMessage::Failed(error.to_string()),
    };
    // If nobody listens any more, nobody misses it.
    let _ = out.send(last);
}

/// Reads the whole file. Returns what it says and, in words, its format.
fn parse<'a>(
    source: Box<dyn std::io::Read + Send + 'a>,
    packed_bytes: u64,
    progress: &'a Progress,
    stream: Option<Sender<Streamed>>,
) -> Result<(Document, String), ReadError> {
    let opened = container::open(source, packed_bytes, progress)?;
    let mut input = Input::new(opened.reader, progress);
    let mut machine = Machine::new(stream);
    let result = match opened.syntax {
        Syntax::Pickle => pickle::run(&mut input, &mut machine),
        Syntax::Json => json::run(&mut input, &mut machine),
    };
    let document = match result {
        Ok(top) => document::build(machine, Some(top), None)?,
        Err(ReadError::Torn(offset)) => document::build(machine, None, Some(offset))?,
        Err(error) => return Err(error),
    };
    Ok((document, opened.format))
}

fn place(
    received: &Receiver<Streamed>,
    finished: &Receiver<Result<(Document, String), ReadError>>,
    progress: &Progress,
    out: &Sender<SourceMessage>,
) -> Result<(), ReadError> {
    let mut emitter = emit::Emitter::new(out, progress);
    let streamed = streaming::run(received, &mut emitter)?;
    let (document, format) = finished.recv().map_err(|_| ReadError::Cancelled)??;
    finish::run(document, format, &streamed, &mut emitter)
}
