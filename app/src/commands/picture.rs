//! The picture that `open --png` paints: the real window, without a display.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use vramscope_trace::TimeNs;

use crate::app::App;
use crate::command::Command;
use crate::raster::{Offscreen, write_png};
use crate::session::{RunState, Session};
use crate::views::workspace::Part;

/// How a picture is painted.
#[derive(Args)]
pub(super) struct PictureArguments {
    /// Paint into this PNG file instead of opening a window
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Which part of the window to paint
    #[arg(long, value_enum, default_value_t = View::All, requires = "png")]
    view: View,
    /// Size of the picture in points
    #[arg(long, value_name = "WxH", default_value = "1280x800", value_parser = size, requires = "png")]
    size: (f32, f32),
    /// Pixels a point
    #[arg(long, default_value_t = 1.0, value_parser = scale, requires = "png")]
    scale: f32,
    /// Colours
    #[arg(long, value_enum)]
    theme: Option<Theme>,
    /// Where the cursor is: peak, end, or a time in Unix microseconds
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = moment, requires = "png")]
    at: Moment,
}

/// A part of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    All,
    Timeline,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Theme {
    Dark,
    Light,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Peak,
    End,
    Micros(i64),
}

fn size(text: &str) -> Result<(f32, f32), String> {
    let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    match sides {
        Some((width, height)) if (100.0..=8192.0).contains(&width) && (100.0..=8192.0).contains(&height) => {
            Ok((width, height))
        }
        _ => Err("a size is written like 1280x800, each side from 100 to 8192".to_owned()),
    }
}

fn scale(text: &str) -> Result<f32, String> {
    text.parse().ok().filter(|scale| (0.5..=4.0).contains(scale)).ok_or_else(|| "a scale from 0.5 to 4".to_owned())
}

fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        _ => text.parse().map(Moment::Micros).map_err(|_| "peak, end, or a time in Unix microseconds".to_owned()),
    }
}

impl PictureArguments {
    /// The file to paint into, if a picture is wanted.
    pub(super) fn path(&self) -> Option<&Path> {
        self.png.as_deref()
    }

    /// The colours that were asked for.
    pub(super) fn theme(&self) -> Option<egui::Theme> {
        self.theme.map(|theme| match theme {
            Theme::Dark => egui::Theme::Dark,
            Theme::Light => egui::Theme::Light,
        })
    }
}

/// Reads everything, paints the window and writes the file.
pub(super) fn paint(mut session: Session, arguments: &PictureArguments, path: &Path) -> Result<(), String> {
    session.wait();
    let Some(run) = session.runs().first() else { return Err("there is nothing to paint".to_owned()) };
    let history = Arc::clone(&run.history);
    if let RunState::Failed(sentence) = &run.state
        && history.lanes().is_empty()
    {
        return Err(format!("{} {sentence}", run.origin));
    }
    for run in &session.runs()[1..] {
        if let RunState::Failed(sentence) = &run.state {
            super::complain(&format!("{} {sentence}", run.origin));
        }
    }
    let size = egui::vec2(arguments.size.0, arguments.size.1);
    let mut screen = Offscreen::new(size, arguments.scale, arguments.theme().unwrap_or(egui::Theme::Dark));
    let mut app = App::new(screen.ctx());
    app.show_session(session);
    app.commands().send(match arguments.at {
        Moment::Peak => Command::JumpToPeak,
        Moment::End => Command::JumpToEnd,
        Moment::Micros(micros) => Command::MoveCursor(history.position_at(TimeNs::from_micros(micros))),
    });
    let image = app.picture(&mut screen);
    let image = match arguments.view {
        View::All => image,
        View::Timeline => cut(&image, app.area(Part::Timeline), arguments.scale)?,
        View::Map => cut(&image, app.area(Part::Map), arguments.scale)?,
    };
    write_png(path, &image)
}

/// The part of a picture inside a rectangle in points.
fn cut(image: &egui::ColorImage, area: Option<egui::Rect>, scale: f32) -> Result<egui::ColorImage, String> {
    let area = area.ok_or("this recording has nothing to show in that view")?;
    Ok(image.region(&area, Some(scale)))
}
