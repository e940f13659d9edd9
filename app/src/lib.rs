//! vramscope: shows where a training job's GPU memory goes, in a window, as a picture, or as a text report.
//!
//! [`commands`] turns arguments into one command. [`session`] reads recordings on threads of their own; [`app`] takes the newest
//! history of each, applies [`command`]s, and lets [`views`] paint. Views see a [`ctx::Ctx`] and nothing else.

pub mod app;
mod apply;
pub mod axis;
pub mod command;
pub mod commands;
pub mod ctx;
pub mod demos;
mod first_view;
pub mod glossary;
pub mod jobs;
mod keys;
pub mod playback;
mod preview;
pub mod ranks;
pub mod raster;
pub mod saving;
pub mod session;
pub mod sites;
pub mod stacks;
pub mod tables;
pub mod theme;
pub mod views;
pub mod widgets;
