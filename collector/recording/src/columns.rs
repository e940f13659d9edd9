//! Unpacks the columns of one record batch. Nothing is believed: not lengths, offsets, counts of nulls, or that text is text.

use std::borrow::Cow;

use arrow_ipc::{BodyCompressionMethod, CompressionType, RecordBatch};

use crate::layout::{Layout, Place};
use crate::message::Stop;
use crate::read::{MEMORY_FLOOR, UNPACK_FACTOR};
use crate::schema::{COLUMNS, Type};

/// Which rows have a value; empty = all.
#[derive(Debug, Default)]
pub(crate) struct Valid(Vec<u8>);

impl Valid {
    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        self.0.is_empty() || self.0.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }
}

/// The values of one column.
#[derive(Debug)]
pub(crate) enum Values {
    /// No row has a value.
    Nothing,
    Word(Valid, Vec<i8>),
    Time(Valid, Vec<i64>),
    U16(Valid, Vec<u16>),
    U32(Valid, Vec<u32>),
    U64(Valid, Vec<u64>),
    /// A bit a row.
    Bool(Valid, Vec<u8>),
    /// Ends of texts, rising, on the borders of characters.
    Text(Valid, Vec<u32>, String),
    /// Ends of lists, rising.
    Ids(Valid, Vec<u32>, Vec<u32>),
}

/// How much may still be unpacked.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    given: u64,
}

impl Budget {
    fn take(&mut self, bytes: u64, packed: u64) -> Result<(), Stop> {
        self.given = self.given.saturating_add(bytes);
        if self.given > MEMORY_FLOOR.saturating_add(packed.saturating_mul(UNPACK_FACTOR)) {
            let sentence = format!("unpacks to more than {UNPACK_FACTOR} times its size; that is not a recording");
            return Err(Stop::Failed(sentence));
        }
        Ok(())
    }
}

/// Takes buffers out of the body of a message.
struct Body<'a> {
    batch: RecordBatch<'a>,
    bytes: &'a [u8],
    packed: bool,
    budget: &'a mut Budget,
    /// Bytes of the file read so far.
    so_far: u64,
}

fn damaged(what: &str) -> Stop {
    Stop::torn(format!("a batch is damaged ({what})"))
}

impl<'a> Body<'a> {
    fn new(batch: RecordBatch<'a>, bytes: &'a [u8], budget: &'a mut Budget, so_far: u64) -> Result<Self, Stop> {
        let packed = match batch.compression() {
            None => false,
            Some(how) if how.codec() == CompressionType::ZSTD && how.method() == BodyCompressionMethod::BUFFER => true,
            Some(_) => return Err(Stop::Failed("is packed in another way than with zstd".to_owned())),
        };
        Ok(Self { batch, bytes, packed, budget, so_far })
    }

    /// Rows and nulls of a node.
    fn node(&self, index: usize) -> Result<(usize, usize), Stop> {
        let nodes = self.batch.nodes().filter(|nodes| index < nodes.len()).ok_or_else(|| damaged("columns"))?;
        let node = nodes.get(index);
        let count = |number| usize::try_from(number).map_err(|_| damaged("counts"));
        Ok((count(node.length())?, count(node.null_count())?))
    }

    /// A buffer, unpacked; it has at least `least` bytes.
    fn buffer(&mut self, index: usize, least: usize) -> Result<Cow<'a, [u8]>, Stop> {
        let buffers = self.batch.buffers().filter(|all| index < all.len()).ok_or_else(|| damaged("buffers"))?;
        let place = buffers.get(index);
        let range = usize::try_from(place.offset())
            .ok()
            .zip(usize::try_from(place.length()).ok())
            .and_then(|(offset, length)| self.bytes.get(offset..offset.checked_add(length)?));
        let bytes = range.ok_or_else(|| damaged("a buffer outside of it"))?;
        let unpacked = if self.packed { self.unpack(bytes)? } else { Cow::Borrowed(bytes) };
        if unpacked.len() < least { Err(damaged("a buffer too short")) } else { Ok(unpacked) }
    }

    fn unpack(&mut self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, Stop> {
        if bytes.is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        let (length, packed) = bytes.split_first_chunk::<8>().ok_or_else(|| damaged("a buffer without length"))?;
        let length = i64::from_le_bytes(*length);
        if length == -1 {
            return Ok(Cow::Borrowed(packed));
        }
        let length = u64::try_from(length).map_err(|_| damaged("a negative length"))?;
        self.budget.take(length, self.so_far)?;
        let whole = zstd::bulk::decompress(packed, length as usize).map_err(|_| damaged("zstd"))?;
        if whole.len() as u64 == length { Ok(Cow::Owned(whole)) } else { Err(damaged("a wrong length")) }
    }

    /// The bits that say which of `rows` rows have values. `None` = none has.
    fn valid(&mut self, place: Place, rows: usize) -> Result<Option<Valid>, Stop> {
        let (length, nulls) = self.node(place.node)?;
        if length != rows || nulls > rows {
            return Err(damaged("columns of different length"));
        }
        if nulls == rows {
            return Ok(None);
        }
        let least = if nulls > 0 { rows.div_ceil(8) } else { 0 };
        let bits = self.buffer(place.buffer, least)?;
        Ok(Some(Valid(if nulls > 0 { bits.into_owned() } else { Vec::new() })))
    }

    /// `count` numbers of `N` bytes.
    fn numbers<const N: usize, T>(
        &mut self,
        buffer: usize,
        count: usize,
        of: fn([u8; N]) -> T,
    ) -> Result<Vec<T>, Stop> {
        let least = count.checked_mul(N).ok_or_else(|| damaged("counts"))?;
        let bytes = self.buffer(buffer, least)?;
        Ok(bytes.as_chunks::<N>().0.iter().take(count).map(|number| of(*number)).collect())
    }

    /// The ends of `rows` pieces of something of `whole` length.
    fn ends(&mut self, buffer: usize, rows: usize) -> Result<Vec<u32>, Stop> {
        let ends = self.numbers(buffer, rows.saturating_add(1), u32::from_le_bytes)?;
        if ends.is_sorted() { Ok(ends) } else { Err(damaged("offsets that fall")) }
    }

    fn text(&mut self, buffer: usize, rows: usize) -> Result<(Vec<u32>, String), Stop> {
        let ends = self.ends(buffer, rows)?;
        let last = ends.last().map_or(0, |end| *end as usize);
        let mut bytes = self.buffer(buffer + 1, last)?.into_owned();
        bytes.truncate(last);
        let text = String::from_utf8(bytes).map_err(|_| damaged("text"))?;
        if ends.iter().all(|end| text.is_char_boundary(*end as usize)) {
            Ok((ends, text))
        } else {
            Err(damaged("text"))
        }
    }

    fn column(&mut self, of: Type, place: Place, rows: usize) -> Result<Values, Stop> {
        let Some(valid) = self.valid(place, rows)? else { return Ok(Values::Nothing) };
        let data = place.buffer + 1;
        Ok(match of {
            Type::Word => Values::Word(valid, self.numbers(data, rows, i8::from_le_bytes)?),
            Type::Time => Values::Time(valid, self.numbers(data, rows, i64::from_le_bytes)?),
            Type::U16 => Values::U16(valid, self.numbers(data, rows, u16::from_le_bytes)?),
            Type::U32 => Values::U32(valid, self.numbers(data, rows, u32::from_le_bytes)?),
            Type::U64 => Values::U64(valid, self.numbers(data, rows, u64::from_le_bytes)?),
            Type::Bool => Values::Bool(valid, self.buffer(data, rows.div_ceil(8))?.into_owned()),
            Type::Text => {
                let (ends, text) = self.text(data, rows)?;
                Values::Text(valid, ends, text)
            }
            Type::Ids => {
                let ends = self.ends(data, rows)?;
                let last = ends.last().map_or(0, |end| *end as usize);
                Values::Ids(valid, ends, self.numbers(data + 2, last, u32::from_le_bytes)?)
            }
        })
    }
}

/// The columns of one record batch.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) rows: usize,
    /// In the order of [`COLUMNS`].
    pub(crate) values: Vec<Values>,
}

impl Columns {
    /// Unpacks all known columns. `so_far` = bytes of the file read so far.
    pub(crate) fn of(
        batch: RecordBatch<'_>,
        bytes: &[u8],
        layout: &Layout,
        budget: &mut Budget,
        so_far: u64,
    ) -> Result<Self, Stop> {
        let rows = usize::try_from(batch.length()).map_err(|_| damaged("counts"))?;
        let mut body = Body::new(batch, bytes, budget, so_far)?;
        let mut values = Vec::with_capacity(COLUMNS.len());
        if rows > 0 {
            for ((_, _, of), place) in COLUMNS.iter().zip(layout) {
                values.push(place.map_or(Ok(Values::Nothing), |place| body.column(*of, place, rows))?);
            }
            // Every row has a kind, so there are no more rows than bytes.
            if !matches!(values.first(), Some(Values::Word(..))) {
                return Err(damaged("rows without a kind"));
            }
        }
        Ok(Self { rows, values })
    }
}

/// The words of a dictionary batch.
pub(crate) fn words(
    batch: RecordBatch<'_>,
    bytes: &[u8],
    budget: &mut Budget,
    so_far: u64,
) -> Result<Vec<String>, Stop> {
    let rows = usize::try_from(batch.length()).map_err(|_| damaged("counts"))?;
    if rows > 1 << 7 {
        return Err(damaged("too many words"));
    }
    let (ends, text) = Body::new(batch, bytes, budget, so_far)?.text(1, rows)?;
    Ok(ends.windows(2).map(|pair| text[pair[0] as usize..pair[1] as usize].to_owned()).collect())
}
