//! PyTorch's caching allocator as a pure function: [`Requests`](vramscope_trace::Requests) and a [`Policy`] in, events out.
//!
//! [`Allocator`] is the allocator itself, one request at a time. [`replay()`] runs a recorded stream of requests through it. What a
//! recording does not tell is said where it matters: capacity, what a program does after a failure, and where the driver
//! places memory ([`Addresses`]), which decides between free blocks of equal size.

mod allocator;
mod blocks;
pub mod conf;
pub mod edit;
mod places;
mod policy;
mod pool;
mod replay;
mod whatif;

pub use allocator::{Allocator, Ask, Totals};
pub use blocks::BlockRef;
pub use places::Addresses;
pub use policy::{Limit, Policy, PoolTraits, Torch};
pub use replay::{AtFailure, Failure, Outcome, replay};
pub use whatif::{Prediction, min_capacity, predict, rank, useful_settings};
