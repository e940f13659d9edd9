//! Where a file's schema puts the columns this version knows. Columns it does not know are stepped over.

use arrow_ipc::{Endianness, Field, Schema, TimeUnit, Type as IpcType};

use crate::schema::{COLUMNS, Name, Type, VERSION, VERSION_KEY};

/// Where a column begins in the lists of a record batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: usize,
    pub(crate) buffer: usize,
    /// For a column of words: the number of its dictionary.
    pub(crate) dictionary: i64,
}

/// The places of all known columns in the order of [`COLUMNS`]; `None` = the file lacks it.
pub(crate) type Layout = [Option<Place>; COLUMNS.len()];

/// Finds the columns.
///
/// # Errors
/// A sentence without a subject, if this is no recording or one of a newer version.
pub(crate) fn of(schema: Schema<'_>) -> Result<Layout, String> {
    let metadata = schema.custom_metadata();
    let version = metadata.iter().flatten().find(|pair| pair.key() == Some(VERSION_KEY)).and_then(|pair| pair.value());
    let Some(version) = version.and_then(|text| text.parse::<u32>().ok()) else {
        return Err("is an Arrow stream, but no vramscope recording".to_owned());
    };
    if version > VERSION {
        return Err(format!("has format version {version}; this program reads up to {VERSION}: use a newer vramscope"));
    }
    if schema.endianness() != Endianness::Little {
        return Err("has numbers in big-endian order, which vramscope does not read".to_owned());
    }
    let mut layout: Layout = [None; COLUMNS.len()];
    let mut at = Place { node: 0, buffer: 0, dictionary: 0 };
    for field in schema.fields().into_iter().flat_map(|fields| fields.iter()) {
        let known = COLUMNS.iter().position(|(_, word, _)| field.name() == Some(word));
        if let Some(index) = known {
            let (_, word, of) = COLUMNS[index];
            if !is(field, of) {
                return Err(format!("has a column \u{201c}{word}\u{201d} of another type than a recording"));
            }
            let dictionary = field.dictionary().map_or(0, |dictionary| dictionary.id());
            layout[index] = Some(Place { dictionary, ..at });
        }
        step_over(field, &mut at)?;
    }
    let kind = COLUMNS.iter().position(|(name, _, _)| *name == Name::Kind);
    if kind.is_none_or(|kind| layout[kind].is_none()) {
        return Err("has no column \u{201c}kind\u{201d}, so it is no recording".to_owned());
    }
    Ok(layout)
}

fn children(field: Field<'_>) -> impl Iterator<Item = Field<'_>> {
    field.children().into_iter().flat_map(|children| children.iter())
}

/// Whether a field has a type, exactly.
fn is(field: Field<'_>, of: Type) -> bool {
    let number = |bits, signed| {
        let int = field.type_as_int();
        int.is_some_and(|int| int.bitWidth() == bits && int.is_signed() == signed)
    };
    let word_keys = field.dictionary().and_then(|dictionary| dictionary.indexType());
    let plain = field.dictionary().is_none();
    match of {
        Type::Word => {
            let keys = word_keys.is_some_and(|keys| keys.bitWidth() == 8 && keys.is_signed());
            keys && field.type_type() == IpcType::Utf8
        }
        Type::Time => plain && field.type_as_timestamp().is_some_and(|time| time.unit() == TimeUnit::NANOSECOND),
        Type::U16 => plain && number(16, false),
        Type::U32 => plain && number(32, false),
        Type::U64 => plain && number(64, false),
        Type::Bool => plain && field.type_type() == IpcType::Bool,
        Type::Text => plain && field.type_type() == IpcType::Utf8,
        Type::Ids => {
            let mut items = children(field);
            let (item, more) = (items.next(), items.next());
            let numbers = item.is_some_and(|item| item.dictionary().is_none() && is(item, Type::U32));
            plain && field.type_type() == IpcType::List && numbers && more.is_none()
        }
    }
}

/// Moves `at` behind a field and its children.
fn step_over(field: Field<'_>, at: &mut Place) -> Result<(), String> {
    if field.dictionary().is_some() {
        at.node += 1;
        at.buffer += 2;
        return Ok(());
    }
    let (nodes, buffers, nested) = match field.type_type() {
        IpcType::Null => (1, 0, false),
        IpcType::Int
        | IpcType::FloatingPoint
        | IpcType::Bool
        | IpcType::Decimal
        | IpcType::Date
        | IpcType::Time
        | IpcType::Timestamp
        | IpcType::Interval
        | IpcType::Duration
        | IpcType::FixedSizeBinary => (1, 2, false),
        IpcType::Utf8 | IpcType::Binary | IpcType::LargeUtf8 | IpcType::LargeBinary => (1, 3, false),
        IpcType::List | IpcType::LargeList | IpcType::Map => (1, 2, true),
        IpcType::Struct_ | IpcType::FixedSizeList => (1, 1, true),
        _ => {
            let name: String = field.name().unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(format!("has a column \u{201c}{name}\u{201d} of a type that vramscope cannot step over"));
        }
    };
    at.node += nodes;
    at.buffer += buffers;
    if nested { children(field).try_for_each(|child| step_over(child, at)) } else { Ok(()) }
}
