//! Any table as CSV or as an Arrow file, row by row, so that a table need not fit into memory.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::write::io_error;

/// Rows of a record batch.
const BATCH_ROWS: usize = 1 << 16;

/// Bytes of texts that make a record batch full.
const BATCH_TEXT: usize = 16 << 20;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated text with a header line (RFC 4180). Unknown is empty, an empty text is `""`. Times are Unix
    /// microseconds, in columns whose names end in `_us`.
    Csv,
    /// An Arrow IPC file, packed with zstd. Times are nanosecond timestamps in UTC.
    Arrow,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// A whole number: bytes, addresses, counts.
    Number,
    /// A moment.
    Time,
    /// A text.
    Text,
    /// Yes or no.
    Flag,
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// Nobody knows, or it has no meaning in this row.
    Unknown,
    /// A whole number.
    Number(u64),
    /// Nanoseconds since the Unix epoch.
    Time(i64),
    /// A text.
    Text(&'a str),
    /// Yes or no.
    Flag(bool),
}

impl Cell<'_> {
    /// A number that may be unknown.
    pub fn number(value: Option<impl Into<u64>>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(value.into()))
    }
}

/// Writes one table.
pub struct TableWriter<W: Write> {
    columns: Vec<(&'static str, CellType)>,
    out: Out<W>,
}

enum Out<W: Write> {
    Csv { out: W, line: String },
    Arrow(Box<Batches<W>>),
}

impl<W: Write> TableWriter<W> {
    /// Begins a table with named columns.
    ///
    /// # Errors
    /// When `out` does not take it. So with everything below.
    pub fn new(out: W, format: Format, columns: &[(&'static str, CellType)]) -> io::Result<Self> {
        let columns = columns.to_vec();
        let out = match format {
            Format::Csv => {
                let name = |(name, of): &(&str, CellType)| {
                    if *of == CellType::Time { format!("{name}_us") } else { (*name).to_owned() }
                };
                let header: Vec<String> = columns.iter().map(name).collect();
                let mut out = out;
                out.write_all((header.join(",") + "\n").as_bytes())?;
                Out::Csv { out, line: String::new() }
            }
            Format::Arrow => Out::Arrow(Box::new(Batches::new(out, &columns)?)),
        };
        Ok(Self { columns, out })
    }

    /// Adds a row: a cell a column, each of its column's type or unknown. A cell of another type counts as unknown.
    ///
    /// # Errors
    /// As [`TableWriter::new`].
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        let cell = |index: usize| cells.get(index).copied().unwrap_or(Cell::Unknown);
        match &mut self.out {
            Out::Csv { out, line } => {
                line.clear();
                for index in 0..self.columns.len() {
                    if index > 0 {
                        line.push(',');
                    }
                    write_csv(cell(index), line);
                }
                line.push('\n');
                out.write_all(line.as_bytes())
            }
            Out::Arrow(batches) => batches.row(cell),
        }
    }

    /// Ends the table.
    ///
    /// # Errors
    /// As [`TableWriter::new`].
    pub fn finish(self) -> io::Result<W> {
        let mut out = match self.out {
            Out::Csv { out, .. } => out,
            Out::Arrow(batches) => batches.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}

fn write_csv(cell: Cell<'_>, line: &mut String) {
    match cell {
        Cell::Unknown => {}
        Cell::Number(number) => line.push_str(&number.to_string()),
        Cell::Time(nanoseconds) => line.push_str(&nanoseconds.div_euclid(1000).to_string()),
        Cell::Flag(flag) => line.push_str(if flag { "true" } else { "false" }),
        Cell::Text(text) if text.is_empty() || text.contains(['"', ',', '\n', '\r']) => {
            line.push('"');
            line.push_str(&text.replace('"', "\"\""));
            line.push('"');
        }
        Cell::Text(text) => line.push_str(text),
    }
}

enum Builder {
    Number(UInt64Builder),
    Time(Int64Builder),
    Text(StringBuilder),
    Flag(BooleanBuilder),
}

/// Rows that wait for a record batch.
struct Batches<W: Write> {
    file: FileWriter<W>,
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
    text: usize,
}

impl<W: Write> Batches<W> {
    fn new(out: W, columns: &[(&'static str, CellType)]) -> io::Result<Self> {
        let data_type = |of| match of {
            CellType::Number => DataType::UInt64,
            CellType::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            CellType::Text => DataType::Utf8,
            CellType::Flag => DataType::Boolean,
        };
        let builder = |of| match of {
            CellType::Number => Builder::Number(UInt64Builder::new()),
            CellType::Time => Builder::Time(Int64Builder::new()),
            CellType::Text => Builder::Text(StringBuilder::new()),
            CellType::Flag => Builder::Flag(BooleanBuilder::new()),
        };
        let fields: Vec<Field> = columns.iter().map(|&(name, of)| Field::new(name, data_type(of), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).map_err(io_error)?;
        let file = FileWriter::try_new_with_options(out, &schema, options).map_err(io_error)?;
        let builders = columns.iter().map(|&(_, of)| builder(of)).collect();
        Ok(Self { file, schema, builders, rows: 0, text: 0 })
    }

    fn row<'a>(&mut self, cell: impl Fn(usize) -> Cell<'a>) -> io::Result<()> {
        for (index, builder) in self.builders.iter_mut().enumerate() {
            match (builder, cell(index)) {
                (Builder::Number(builder), Cell::Number(number)) => builder.append_value(number),
                (Builder::Time(builder), Cell::Time(time)) => builder.append_value(time),
                (Builder::Flag(builder), Cell::Flag(flag)) => builder.append_value(flag),
                (Builder::Text(builder), Cell::Text(text)) => {
                    builder.append_value(text);
                    self.text += text.len();
                }
                (Builder::Number(builder), _) => builder.append_null(),
                (Builder::Time(builder), _) => builder.append_null(),
                (Builder::Flag(builder), _) => builder.append_null(),
                (Builder::Text(builder), _) => builder.append_null(),
            }
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS || self.text >= BATCH_TEXT { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.rows = 0;
        self.text = 0;
        let array = |builder: &mut Builder| -> ArrayRef {
            match builder {
                Builder::Number(builder) => Arc::new(builder.finish()),
                Builder::Text(builder) => Arc::new(builder.finish()),
                Builder::Flag(builder) => Arc::new(builder.finish()),
                Builder::Time(builder) => {
                    let times = builder.finish().reinterpret_cast::<arrow_array::types::TimestampNanosecondType>();
                    let times: TimestampNanosecondArray = times;
                    Arc::new(times.with_timezone("UTC"))
                }
            }
        };
        let arrays = self.builders.iter_mut().map(array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io_error)?;
        self.file.write(&batch).map_err(io_error)
    }

    fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write()?;
        }
        self.file.finish().map_err(io_error)?;
        self.file.into_inner().map_err(io_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_it_must_and_tells_unknown_from_empty() {
        let columns = [("a", CellType::Text), ("when", CellType::Time), ("n", CellType::Number), ("f", CellType::Flag)];
        let mut table = TableWriter::new(Vec::new(), Format::Csv, &columns).unwrap();
        table.row(&[Cell::Text("x,\"y\"\n"), Cell::Time(-1), Cell::Number(u64::MAX), Cell::Flag(true)]).unwrap();
        table.row(&[Cell::Text(""), Cell::Unknown, Cell::number(None::<u64>), Cell::Flag(false)]).unwrap();
        table.row(&[Cell::Unknown, Cell::Time(1999)]).unwrap();
        let text = String::from_utf8(table.finish().unwrap()).unwrap();
        assert_eq!(text, "a,when_us,n,f\n\"x,\"\"y\"\"\n\",-1,18446744073709551615,true\n\"\",,,false\n,1,,\n");
    }

    #[test]
    fn arrow_tables_come_back_in_batches() {
        let columns = [("a", CellType::Text), ("when", CellType::Time), ("n", CellType::Number), ("f", CellType::Flag)];
        let mut table = TableWriter::new(Vec::new(), Format::Arrow, &columns).unwrap();
        let rows = BATCH_ROWS as u64 + 5;
        for n in 0..rows {
            table.row(&[Cell::Text("t"), Cell::Time(n as i64), Cell::Number(n), Cell::Unknown]).unwrap();
        }
        let bytes = table.finish().unwrap();
        let reader = arrow_ipc::reader::FileReader::try_new(io::Cursor::new(bytes), None).unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), rows);
        assert_eq!(batches[1].column(3).null_count(), 5);
    }
}
