//! `vramscope open`: recordings in a window, or as a picture.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{picture, window};
use crate::demos::{self, DEMOS};
use crate::jobs::Wake;
use crate::session::Session;

/// What to open and how.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  vramscope open snapshot.pickle\n  vramscope open ranks/\n  vramscope open --demo\n  \
                        vramscope open snapshot.pickle --png peak.png --at peak --scale 2"
)]
pub(super) struct OpenArguments {
    /// Recordings, or folders with one for each rank
    #[arg(required_unless_present = "demo")]
    files: Vec<PathBuf>,
    /// Open a recording that comes with the program
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = DEMOS[0].name, conflicts_with = "files")]
    demo: Option<String>,
    /// Close the window once everything has been read and painted; for measuring
    #[arg(long, hide = true, conflicts_with = "png")]
    quit_when_ready: bool,
    #[command(flatten)]
    picture: picture::PictureArguments,
}

/// Opens the window, or paints the picture that `--png` asks for.
pub(super) fn run(arguments: &OpenArguments) -> Result<(), String> {
    let open = |wake: &Wake| match &arguments.demo {
        Some(name) => Ok(Session::open_demo(demos::find(name)?, wake)),
        None => Session::open(&arguments.files, wake),
    };
    match arguments.picture.path() {
        Some(path) => {
            let wake: Wake = Arc::new(|| ());
            picture::paint(open(&wake)?, &arguments.picture, path)
        }
        None => {
            let (theme, quit_when_ready) = (arguments.picture.theme(), arguments.quit_when_ready);
            window::show(open, window::Opening { theme, quit_when_ready })
        }
    }
}
