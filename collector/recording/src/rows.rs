//! Rows that wait to be written, column by column.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, ListBuilder, PrimitiveBuilder, StringBuilder, UInt32Builder};
use arrow_array::types::{Int8Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, DictionaryArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};

use crate::row::Row;
use crate::schema::{self, COLUMNS, COUNTERS, KINDS, Name, ORIGINS, POOLS, Type};

/// A column of words: keys wait, the words are the same for every batch.
struct Words {
    keys: PrimitiveBuilder<Int8Type>,
    words: Arc<StringArray>,
}

impl Words {
    fn new<T>(list: &[(T, &'static str)]) -> Self {
        let words = Arc::new(StringArray::from_iter_values(list.iter().map(|(_, word)| *word)));
        Self { keys: PrimitiveBuilder::new(), words }
    }

    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let words: ArrayRef = Arc::<StringArray>::clone(&self.words);
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(self.keys.finish(), words)?))
    }
}

/// A column that waits.
enum Column {
    Words(Words),
    Time(PrimitiveBuilder<TimestampNanosecondType>),
    U16(PrimitiveBuilder<UInt16Type>),
    U32(PrimitiveBuilder<UInt32Type>),
    U64(PrimitiveBuilder<UInt64Type>),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Ids(ListBuilder<UInt32Builder>),
}

fn taken<T: ArrowPrimitiveType>(builder: &mut PrimitiveBuilder<T>) -> ArrayRef {
    Arc::new(builder.finish())
}

impl Column {
    fn new(name: Name, of: Type) -> Self {
        match of {
            Type::Word => Self::Words(match name {
                Name::Origin => Words::new(&ORIGINS),
                Name::Pool => Words::new(&POOLS),
                Name::Counter => Words::new(&COUNTERS),
                _ => Words::new(&KINDS),
            }),
            Type::Time => Self::Time(PrimitiveBuilder::new().with_timezone("UTC")),
            Type::U16 => Self::U16(PrimitiveBuilder::new()),
            Type::U32 => Self::U32(PrimitiveBuilder::new()),
            Type::U64 => Self::U64(PrimitiveBuilder::new()),
            Type::Bool => Self::Bool(BooleanBuilder::new()),
            Type::Text => Self::Text(StringBuilder::new()),
            Type::Ids => {
                let item = Field::new("item", DataType::UInt32, false);
                Self::Ids(ListBuilder::new(UInt32Builder::new()).with_field(item))
            }
        }
    }

    fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Words(words) => words.take()?,
            Self::Time(builder) => taken(builder),
            Self::U16(builder) => taken(builder),
            Self::U32(builder) => taken(builder),
            Self::U64(builder) => taken(builder),
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Ids(builder) => Arc::new(builder.finish()),
        })
    }

    /// Appends this column's part of a row.
    fn push(&mut self, name: Name, row: &Row<'_>) {
        match self {
            Self::Words(words) => words.keys.append_option(match name {
                Name::Origin => row.origin.map(|origin| schema::key(&ORIGINS, &origin)),
                Name::Pool => row.pool.map(|pool| schema::key(&POOLS, &pool)),
                Name::Counter => row.counter.map(|counter| schema::key(&COUNTERS, &counter)),
                _ => Some(row.kind as i8),
            }),
            Self::Time(builder) => builder.append_option(row.time),
            Self::U16(builder) => builder.append_option(row.device),
            Self::U32(builder) => builder.append_option(match name {
                Name::Process => row.process,
                Name::Stack => row.stack,
                Name::PoolGraph => row.pool_graph,
                Name::PoolUser => row.pool_user,
                Name::Label => row.name,
                Name::Id => row.id,
                Name::File => row.file,
                Name::Function => row.function,
                _ => row.line,
            }),
            Self::U64(builder) => builder.append_option(match name {
                Name::Stream => row.stream,
                Name::Address => row.address,
                Name::Bytes => row.bytes,
                Name::Requested => row.requested,
                Name::DeviceFree => row.device_free,
                _ => row.value,
            }),
            Self::Bool(builder) => builder.append_option(row.at_start),
            Self::Text(builder) => builder.append_option(if name == Name::Text { row.text } else { row.key }),
            Self::Ids(builder) => {
                builder.values().append_slice(row.frames.unwrap_or(&[]));
                builder.append(row.frames.is_some());
            }
        }
    }
}

/// Rows that wait.
pub(crate) struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    count: usize,
    /// Bytes of texts and lists, which can be large.
    heavy: usize,
}

impl Rows {
    pub(crate) fn new() -> Self {
        let columns = COLUMNS.iter().map(|&(name, _, of)| Column::new(name, of)).collect();
        Self { schema: schema::schema(), columns, count: 0, heavy: 0 }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the texts and lists that wait.
    pub(crate) fn heavy(&self) -> usize {
        self.heavy
    }

    pub(crate) fn push(&mut self, row: &Row<'_>) {
        for (column, (name, _, _)) in self.columns.iter_mut().zip(COLUMNS) {
            column.push(name, row);
        }
        self.count += 1;
        self.heavy += row.text.map_or(0, str::len) + row.key.map_or(0, str::len) + row.frames.map_or(0, size_of_val);
    }

    /// What waits, as a record batch.
    pub(crate) fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.count = 0;
        self.heavy = 0;
        let arrays = self.columns.iter_mut().map(Column::take).collect::<Result<_, _>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
    }
}
