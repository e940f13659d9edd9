//! What a user can ask for. Views change nothing themselves: they send commands, and `app` applies them in one place before
//! the next frame is painted.

use std::cell::RefCell;
use std::path::PathBuf;

use vramscope_model::{BlockId, LaneId, Metric, Position};

use crate::axis::{AxisKind, Span};
use crate::ctx::ColorBy;
use crate::playback::Pace;

/// A wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Ask for files in the system's own dialog.
    ChooseFiles,
    /// Ask for a folder of ranks in the system's own dialog.
    ChooseFolder,
    /// Open these files or folders, in place of what is open.
    Open(Vec<PathBuf>),
    /// Open a recording that comes with the program, by its name.
    OpenDemo(&'static str),
    /// Stop loading and go back to the start page.
    CancelLoading,
    /// Close everything and show the start page.
    ShowStart,
    /// Show another of the open recordings, by index.
    ShowRun(usize),
    /// Show the recording that many places further on; negative = before.
    NextRun(isize),
    /// Show another device or process of this recording.
    ShowLane(LaneId),
    /// Put the cursor at the state after that many events.
    MoveCursor(Position),
    /// Move the cursor by events; negative = back.
    StepCursor(i64),
    /// Put the cursor at the highest allocated value in the whole recording.
    JumpToPeak,
    /// Put the cursor at the beginning.
    JumpToStart,
    /// Put the cursor at the end.
    JumpToEnd,
    /// Show this part of the axis.
    ShowSpan(Span),
    /// Zoom around the cursor; a factor below 1 shows less.
    Zoom(f64),
    /// Move what is shown by this part of its own width.
    Pan(f64),
    /// Show the whole recording.
    ShowAll,
    /// Measure between two positions, or stop measuring.
    Measure(Option<(Position, Position)>),
    /// The pointer is over this block, in whichever view.
    HoverBlock(Option<BlockId>),
    /// Keep this block's details in view.
    SelectBlock(Option<BlockId>),
    /// Lay the axis out by time or by events.
    SetAxis(AxisKind),
    /// The other of time and events.
    ToggleAxis,
    /// Show or hide a line of the timeline.
    ToggleMetric(Metric),
    /// State the device's capacity in bytes, which recordings do not tell.
    SetCapacity(Option<u64>),
    /// Colour the map's blocks by something else.
    ColorBlocks(ColorBy),
    /// Let the cursor move by itself, or stop it.
    TogglePlay,
    /// Change how fast it moves by itself.
    SetPace(Pace),
    /// Dark to light and back.
    ToggleTheme,
    /// Show or hide the list of keys.
    ToggleHelp,
    /// Show or hide the list of problems.
    ToggleProblems,
    /// Close what lies on top: a list, a measurement, the chosen block.
    Dismiss,
}

/// Where views leave their commands during a frame.
#[derive(Default)]
pub struct Commands {
    queue: RefCell<Vec<Command>>,
}

impl Commands {
    /// Leaves a command. It takes effect before the next frame.
    pub fn send(&self, command: Command) {
        self.queue.borrow_mut().push(command);
    }

    /// Everything that was sent, in order.
    pub fn take(&self) -> Vec<Command> {
        std::mem::take(&mut *self.queue.borrow_mut())
    }

    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }
}
