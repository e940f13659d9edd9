//! What is on screen. A view looks at a [`crate::ctx::Ctx`], paints, and sends commands; it changes nothing else.

pub mod block_facts;
pub mod help;
pub mod loading;
pub mod map;
pub mod overview;
pub mod side;
pub mod start;
pub mod status;
pub mod timeline;
pub mod top;
pub mod workspace;
