//! The events that everything in vramscope is made of, and the names they refer to.
//!
//! A *source* (a file, a running job, a simulator) says what happened as a stream of [`Batch`]es. A batch holds [`Event`]s, the
//! texts and call stacks they mention for the first time ([`DictionaryChunk`]), and [`Problem`]s the source found in its data.
//! This crate only defines those types; it reads nothing and draws nothing.

mod batch;
mod dictionary;
mod event;
mod ids;
mod intern;
mod problem;
mod requests;
mod run_info;
mod settings;

pub use batch::{Batch, Progress, SourceMessage};
pub use dictionary::{Dictionary, DictionaryChunk, Frame};
pub use event::{Event, EventKind, Origin};
pub use ids::{Counter, DeviceId, FrameId, NameId, Pool, PoolOwner, ProcessId, SizeClass, StackId, StreamId, TimeNs};
pub use intern::Interner;
pub use problem::{Problem, ProblemKind};
pub use requests::{Action, DriverPlace, Request, Requests, StartBlock, StartRun, StartState};
pub use run_info::RunInfo;
pub use settings::AllocatorSettings;
