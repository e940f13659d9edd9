//! What is on screen. A view looks at a [`crate::ctx::Ctx`], paints, and sends commands; it changes nothing else.

pub mod help;
pub mod loading;
pub mod overview;
pub mod start;
pub mod status;
pub mod timeline;
pub mod top;
pub mod workspace;
