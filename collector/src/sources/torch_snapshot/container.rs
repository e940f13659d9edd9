//! What a file is wrapped in (gzip, the viewer's HTML page) and which syntax is inside, told by its first bytes.

use std::io::{Chain, Cursor, Read};

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::read::MultiGzDecoder;
use vramscope_trace::Progress;

use super::error::ReadError;

/// The syntax of the snapshot itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Pickle,
    Json,
}

/// A file unwrapped.
pub(super) struct Opened<'a> {
    pub reader: Box<dyn Read + 'a>,
    pub syntax: Syntax,
    /// In words: "PyTorch memory snapshot (pickle, gzip)".
    pub format: String,
}

/// How many first bytes tell formats apart.
const HEAD: usize = 512;

/// How deep wrappers may be nested.
const MOST_WRAPPERS: usize = 4;

type Peeked<'a> = Chain<Cursor<Vec<u8>>, Box<dyn Read + 'a>>;

/// Looks at the first bytes and unwraps until a snapshot's syntax appears.
///
/// # Errors
/// Files of other formats, by name; unreadable files.
pub(super) fn open<'a>(
    source: Box<dyn Read + Send + 'a>,
    packed_bytes: u64,
    progress: &'a Progress,
) -> Result<Opened<'a>, ReadError> {
    progress.set_total(packed_bytes);
    let mut reader: Box<dyn Read + 'a> = Box::new(Counted { inner: source, progress, done: 0 });
    let mut wrappers: Vec<&str> = Vec::new();
    loop {
        let (head, whole) = peek(reader, progress)?;
        match head.first_chunk::<2>() {
            _ if head.is_empty() => return Err(ReadError::Failed("is empty".into())),
            Some(&[0x1f, 0x8b]) if wrappers.len() < MOST_WRAPPERS => {
                wrappers.push("gzip");
                let limit = packed_bytes.saturating_mul(super::UNPACK_FACTOR).saturating_add(256 << 20);
                reader = Box::new(Unpacked { inner: MultiGzDecoder::new(whole), given: 0, limit });
            }
            Some(&[0x80, 2..=5]) => return Ok(opened(whole, Syntax::Pickle, &wrappers)),
            _ => match sniff_text(&head) {
                Some(Text::Json) => return Ok(opened(whole, Syntax::Json, &wrappers)),
                Some(Text::Html) if wrappers.len() < MOST_WRAPPERS => {
                    wrappers.push("HTML page");
                    reader = embedded(whole, progress)?;
                }
                _ => return Err(ReadError::Failed(other_format(&head))),
            },
        }
    }
}

fn opened<'a>(reader: Peeked<'a>, syntax: Syntax, wrappers: &[&str]) -> Opened<'a> {
    let name = if syntax == Syntax::Pickle { "pickle" } else { "JSON" };
    let mut format = format!("PyTorch memory snapshot ({name}");
    for wrapper in wrappers {
        format.push_str(", ");
        format.push_str(wrapper);
    }
    format.push(')');
    Opened { reader: Box::new(reader), syntax, format }
}

fn peek<'a>(mut reader: Box<dyn Read + 'a>, progress: &Progress) -> Result<(Vec<u8>, Peeked<'a>), ReadError> {
    let mut head = Vec::new();
    let outcome = reader.by_ref().take(HEAD as u64).read_to_end(&mut head);
    if let Err(error) = outcome
        && head.is_empty()
    {
        return Err(ReadError::from_io(&error, 0, progress));
    }
    let whole = Cursor::new(head.clone()).chain(reader);
    Ok((head, whole))
}

/// A packed stream's content, as far as it may go. Every layer has the limit: what is packed twice could otherwise hide hours of
/// unpacking that give nothing.
struct Unpacked<'a> {
    inner: MultiGzDecoder<Peeked<'a>>,
    given: u64,
    limit: u64,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.given += count as u64;
        if self.given > self.limit {
            let sentence = format!(
                "unpacks to more than {} bytes, {} times its own size or more; that is not a recording",
                self.limit,
                super::UNPACK_FACTOR
            );
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, sentence));
        }
        Ok(count)
    }
}

enum Text {
    Json,
    Html,
}

fn sniff_text(head: &[u8]) -> Option<Text> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match head.first()? {
        b'{' | b'[' => Some(Text::Json),
        b'<' => Some(Text::Html),
        _ => None,
    }
}

/// The snapshot inside the page that `_memory_viz.py` writes: the first `"base64": "…"` of its script.
fn embedded<'a>(page: impl Read + 'a, progress: &Progress) -> Result<Box<dyn Read + 'a>, ReadError> {
    const KEY: &[u8] = b"\"base64\"";
    let mut page = std::io::BufReader::with_capacity(64 << 10, page);
    let mut matched = 0;
    let mut byte = [0];
    let mut next = || -> Result<u8, ReadError> {
        page.read_exact(&mut byte).map(|()| byte[0]).map_err(|error| match ReadError::from_io(&error, 0, progress) {
            ReadError::Torn(_) => ReadError::Failed(
                "is an HTML page without a memory snapshot in it; PyTorch's _memory_viz.py embeds one".into(),
            ),
            other => other,
        })
    };
    while matched < KEY.len() {
        let byte = next()?;
        matched = if byte == KEY[matched] { matched + 1 } else { usize::from(byte == KEY[0]) };
    }
    while next()? != b'"' {}
    Ok(Box::new(DecoderReader::new(UntilQuote { inner: page, ended: false }, &STANDARD)))
}

/// Gives bytes up to the next quote.
struct UntilQuote<R> {
    inner: R,
    ended: bool,
}

impl<R: Read> Read for UntilQuote<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        match buffer[..count].iter().position(|&byte| byte == b'"') {
            Some(quote) => {
                self.ended = true;
                Ok(quote)
            }
            None => Ok(count),
        }
    }
}

/// Counts what is read of the file itself, and stops when someone asks to.
struct Counted<'a> {
    inner: Box<dyn Read + Send + 'a>,
    progress: &'a Progress,
    done: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.progress.is_cancelled() {
            return Err(std::io::Error::other("cancelled"));
        }
        let count = self.inner.read(buffer)?;
        self.done += count as u64;
        self.progress.set_done(self.done);
        Ok(count)
    }
}

/// What a file that is no snapshot looks like, and what to do.
fn other_format(head: &[u8]) -> String {
    let text = String::from_utf8_lossy(head);
    let starts = |prefix: &[u8]| head.starts_with(prefix);
    let not_yet = |name: &str| format!("is {name}, which this version cannot open yet; open a memory snapshot instead");
    if starts(b"PK\x03\x04") {
        "is a zip archive, probably a PyTorch checkpoint; a memory snapshot is what torch.cuda.memory._dump_snapshot() writes".into()
    } else if starts(b"SQLite format 3") {
        not_yet("an SQLite database, probably an Nsight Systems export")
    } else if starts(&vramscope_recording::MAGIC) {
        "has a vramscope recording packed inside; unpack it and open that".into()
    } else if text.starts_with("timestamp") && text.contains("memory.") {
        not_yet("a table written by nvidia-smi (CSV)")
    } else if text.starts_with("# gpu") || text.starts_with("#gpu") {
        let monitor = if text.lines().next().is_some_and(|line| line.contains("pid")) { "pmon" } else { "dmon" };
        not_yet(&format!("a table written by nvidia-smi {monitor}"))
    } else if text.starts_with("Thread,Time,Action") || text.starts_with("Time,Action,Pointer") {
        not_yet("an RMM allocation log (CSV)")
    } else if head.first() == Some(&0x0a) {
        not_yet("a JAX device memory profile (pprof)")
    } else if matches!(head.first_chunk::<2>(), Some(&[0x80, protocol]) if protocol > 5 && protocol < 32) {
        format!("is a pickle of protocol {}; protocols 2 to 5 are known", head[1])
    } else {
        let first: Vec<String> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!(
            "is no format this program knows (it begins with the bytes {}); it opens PyTorch memory snapshots and recordings of its own",
            first.join(" ")
        )
    }
}
