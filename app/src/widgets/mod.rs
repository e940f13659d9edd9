//! Small building blocks that every view shares: numbers in words, buttons, icons, frames.

pub mod bytes;
pub mod controls;
pub mod copy;
pub mod fill;
pub mod icon;
pub mod number;
pub mod steps;
pub mod time;
