//! The window on the screen, and what happens where there is none.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::complain;
use crate::app::App;
use crate::jobs::Wake;
use crate::session::Session;

/// How to see the window all the same; completes "There is no window here".
const ADVICE: &str = "to see it, run this on a machine with a display, connect with `ssh -X`, or copy the recording to \
                      your own machine and open it there";

/// Side of the window's icon in pixels.
const ICON: usize = 64;

/// How the window is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// Colours; `None` = dark.
    pub theme: Option<egui::Theme>,
    /// Whether it closes again once everything has been read and painted.
    pub quit_when_ready: bool,
}

/// A session on its way into the window, which does not exist yet when reading starts.
type Parcel = Rc<RefCell<Option<Session>>>;

/// The window as other threads know it: empty until it exists.
type Slot = Arc<OnceLock<egui::Context>>;

/// Opens the window with the start page.
pub(super) fn start_page() -> Result<(), String> {
    let slot = Slot::default();
    run(&slot, &wake_of(&slot), &Parcel::default(), Opening::default())
        .map_err(|why| format!("{why}; {ADVICE}, or use `vramscope report FILE` for text"))
}

/// Opens the window with what `open` starts reading. Without a display, says so and prints the text report instead.
pub(super) fn show(open: impl FnOnce(&Wake) -> Result<Session, String>, opening: Opening) -> Result<(), String> {
    let slot = Slot::default();
    let wake = wake_of(&slot);
    // Reading goes on while the window, its fonts and its graphics are set up.
    let parcel: Parcel = Rc::new(RefCell::new(Some(open(&wake)?)));
    let Err(why) = run(&slot, &wake, &parcel, opening) else { return Ok(()) };
    let Some(mut session) = parcel.take() else { return Err(why) };
    complain(&format!("{why}; {ADVICE}. Here is the report"));
    session.wait();
    super::report::print_text(session.runs())
}

/// Tells the window that there is news, once there is a window. It paints a first time without being told.
fn wake_of(slot: &Slot) -> Wake {
    let slot = Arc::clone(slot);
    Arc::new(move || {
        if let Some(ctx) = slot.get() {
            ctx.request_repaint();
        }
    })
}

/// Runs the window until it is closed. The error says why there is none; the parcel is still there then.
fn run(slot: &Slot, wake: &Wake, parcel: &Parcel, opening: Opening) -> Result<(), String> {
    if !has_display() {
        return Err("there is no display".to_owned());
    }
    let started = Arc::new(AtomicBool::new(false));
    let (flag, slot, wake, parcel) = (Arc::clone(&started), Arc::clone(slot), Arc::clone(wake), Rc::clone(parcel));
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        flag.store(true, Ordering::Release);
        let ctx = &creation.egui_ctx;
        // There is only one window, so nobody has filled the slot before.
        let _ = slot.set(ctx.clone());
        let mut app = App::woken_by(ctx, wake);
        ctx.set_theme(opening.theme.unwrap_or(egui::Theme::Dark));
        if let Some(session) = parcel.take() {
            app.show_session(session);
        }
        app.quit_when_ready(opening.quit_when_ready);
        Ok(Box::new(app))
    });
    quietly(&started, || eframe::run_native("vramscope", options(), create))?
        .map_err(|error| no_window(&error.to_string()))
}

/// Runs the window system; where a library of it is missing it panics before the first frame, which is no more than an error.
fn quietly<T>(started: &Arc<AtomicBool>, run: impl FnOnce() -> T) -> Result<T, String> {
    let hook = take_hook();
    let flag = Arc::clone(started);
    set_hook(Box::new(move |info| {
        if flag.load(Ordering::Acquire) {
            hook(info);
        }
    }));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Ok(value),
        Err(cause) if started.load(Ordering::Acquire) => resume_unwind(cause),
        Err(cause) => {
            let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
            Err(no_window(text.unwrap_or("the window system failed")))
        }
    }
}

/// Why there is no window, in words. Of a chain of causes only the last means something to a user.
fn no_window(cause: &str) -> String {
    let last = cause.rsplit(": ").next().unwrap_or(cause);
    format!("no window can be opened ({})", last.trim_end_matches('.'))
}

fn options() -> eframe::NativeOptions {
    let theme = crate::theme::Theme::DARK;
    let rgba = crate::widgets::icon::mark_image(ICON, [theme.accent, theme.categories[2], theme.reserved]);
    let icon = egui::IconData { rgba, width: ICON as u32, height: ICON as u32 };
    let viewport = egui::ViewportBuilder::default()
        .with_icon(icon)
        .with_title("vramscope")
        .with_app_id("vramscope")
        .with_inner_size([1280.0, 800.0])
        .with_min_inner_size([720.0, 480.0])
        .with_drag_and_drop(true);
    eframe::NativeOptions { viewport, renderer: eframe::Renderer::Glow, ..Default::default() }
}

/// Whether a window system can be reached, as far as the environment tells.
fn has_display() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !cfg!(target_os = "linux") || set("DISPLAY") || set("WAYLAND_DISPLAY") || set("WAYLAND_SOCKET")
}
