//! The columns of a recording, and the words in them. What stands here is frozen: files keep it forever.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use vramscope_trace::{Counter, Origin, SizeClass};

/// The version of the format, in the schema's metadata under `vramscope.version`. It grows only when old readers would go wrong.
pub const VERSION: u32 = 1;

/// Where the version stands.
pub(crate) const VERSION_KEY: &str = "vramscope.version";

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    BlockAlloc,
    FreeRequested,
    FreeCompleted,
    OutOfMemory,
    AnnotationBegin,
    AnnotationEnd,
    Mark,
    CounterSample,
    LostEvents,
    Other,
    Name,
    Frame,
    Stack,
    Problem,
    Run,
}

/// Every kind of row with its word.
pub(crate) const KINDS: [(Kind, &str); 19] = [
    (Kind::SegmentAlloc, "segment_alloc"),
    (Kind::SegmentFree, "segment_free"),
    (Kind::SegmentMap, "segment_map"),
    (Kind::SegmentUnmap, "segment_unmap"),
    (Kind::BlockAlloc, "block_alloc"),
    (Kind::FreeRequested, "free_requested"),
    (Kind::FreeCompleted, "free_completed"),
    (Kind::OutOfMemory, "out_of_memory"),
    (Kind::AnnotationBegin, "annotation_begin"),
    (Kind::AnnotationEnd, "annotation_end"),
    (Kind::Mark, "mark"),
    (Kind::CounterSample, "counter_sample"),
    (Kind::LostEvents, "lost_events"),
    (Kind::Other, "other"),
    (Kind::Name, "name"),
    (Kind::Frame, "frame"),
    (Kind::Stack, "stack"),
    (Kind::Problem, "problem"),
    (Kind::Run, "run"),
];

/// Who says it.
pub(crate) const ORIGINS: [(Origin, &str); 5] = [
    (Origin::Shim, "shim"),
    (Origin::Snapshot, "snapshot"),
    (Origin::Nvml, "nvml"),
    (Origin::Simulator, "simulator"),
    (Origin::Annotation, "annotation"),
];

/// The two size pools.
pub(crate) const POOLS: [(SizeClass, &str); 2] = [(SizeClass::Small, "small"), (SizeClass::Large, "large")];

/// What is counted.
pub(crate) const COUNTERS: [(Counter, &str); 12] = [
    (Counter::DeviceTotal, "device_total"),
    (Counter::DeviceUsed, "device_used"),
    (Counter::ProcessUsed, "process_used"),
    (Counter::DeviceFree, "device_free"),
    (Counter::DeviceReserved, "device_reserved"),
    (Counter::FrameworkReserved, "framework_reserved"),
    (Counter::FrameworkAllocated, "framework_allocated"),
    (Counter::OutsideFramework, "outside_framework"),
    (Counter::HostPinned, "host_pinned"),
    (Counter::BusyPercent, "busy_percent"),
    (Counter::Temperature, "temperature"),
    (Counter::Power, "power"),
];

/// The place of a value in one of the lists above: its key in the column.
pub(crate) fn key<T: PartialEq>(list: &[(T, &'static str)], value: &T) -> i8 {
    list.iter().position(|(known, _)| known == value).unwrap_or(0) as i8
}

/// The columns, in the order of the files this version writes. Readers find them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Kind,
    Time,
    Process,
    Device,
    Stream,
    Origin,
    Address,
    Bytes,
    Requested,
    Stack,
    AtStart,
    Pool,
    PoolGraph,
    PoolUser,
    DeviceFree,
    Text,
    Counter,
    Value,
    Id,
    Key,
    File,
    Function,
    Line,
    Frames,
    Label,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A word of a short list: dictionary of int8 to utf8.
    Word,
    /// Nanoseconds since the Unix epoch: timestamp in UTC.
    Time,
    U16,
    U32,
    U64,
    Bool,
    Text,
    /// List of 32-bit numbers.
    Ids,
}

/// Every column: its name in code, in the file, and its type.
pub(crate) const COLUMNS: [(Name, &str, Type); 25] = [
    (Name::Kind, "kind", Type::Word),
    (Name::Time, "time", Type::Time),
    (Name::Process, "process", Type::U32),
    (Name::Device, "device", Type::U16),
    (Name::Stream, "stream", Type::U64),
    (Name::Origin, "origin", Type::Word),
    (Name::Address, "address", Type::U64),
    (Name::Bytes, "bytes", Type::U64),
    (Name::Requested, "requested", Type::U64),
    (Name::Stack, "stack", Type::U32),
    (Name::AtStart, "at_start", Type::Bool),
    (Name::Pool, "pool", Type::Word),
    (Name::PoolGraph, "pool_graph", Type::U32),
    (Name::PoolUser, "pool_user", Type::U32),
    (Name::DeviceFree, "device_free", Type::U64),
    (Name::Label, "name", Type::U32),
    (Name::Counter, "counter", Type::Word),
    (Name::Value, "value", Type::U64),
    (Name::Id, "id", Type::U32),
    (Name::Text, "text", Type::Text),
    (Name::Key, "key", Type::Text),
    (Name::File, "file", Type::U32),
    (Name::Function, "function", Type::U32),
    (Name::Line, "line", Type::U32),
    (Name::Frames, "frames", Type::Ids),
];

fn data_type(of: Type) -> DataType {
    match of {
        Type::Word => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
        Type::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Type::U16 => DataType::UInt16,
        Type::U32 => DataType::UInt32,
        Type::U64 => DataType::UInt64,
        Type::Bool => DataType::Boolean,
        Type::Text => DataType::Utf8,
        Type::Ids => DataType::List(Arc::new(Field::new("item", DataType::UInt32, false))),
    }
}

/// The schema that this version writes.
pub(crate) fn schema() -> SchemaRef {
    let field = |&(name, word, of): &(Name, &str, Type)| Field::new(word, data_type(of), name != Name::Kind);
    let fields: Vec<Field> = COLUMNS.iter().map(field).collect();
    let metadata: HashMap<String, String> = [(VERSION_KEY.to_owned(), VERSION.to_string())].into();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

#[cfg(test)]
mod counter_tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own() {
        for counter in Counter::ALL {
            assert_eq!(COUNTERS[key(&COUNTERS, &counter) as usize].0, counter);
        }
    }
}
