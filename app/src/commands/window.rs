//! The window on the screen, and what happens where there is none.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::complain;
use crate::app::App;
use crate::jobs::Wake;
use crate::session::Session;

/// How to see the window all the same; completes "There is no window here".
const ADVICE: &str = "to see it, run this on a machine with a display, connect with `ssh -X`, or copy the recording to \
                      your own machine and open it there";

/// Opens the window with the start page.
pub(super) fn start_page() -> Result<(), String> {
    run(|_| Ok(()), None)?.map_err(|why| format!("{why}; {ADVICE}, or use `vramscope report FILE` for text"))
}

/// Opens the window with what `open` starts reading. Without a display, says so and prints the text report instead.
pub(super) fn show(
    open: impl Fn(&Wake) -> Result<Session, String>,
    theme: Option<egui::Theme>,
) -> Result<(), String> {
    let shown = run(
        |app| {
            let session = open(app.wake())?;
            app.show_session(session);
            Ok(())
        },
        theme,
    )?;
    let Err(why) = shown else { return Ok(()) };
    let wake: Wake = Arc::new(|| ());
    let mut session = open(&wake)?;
    complain(&format!("{why}; {ADVICE}. Here is the report"));
    session.wait();
    super::report::print_text(session.runs())
}

/// Runs the window until it is closed. The outer error is the input's fault, the inner one says why there is no window.
fn run(
    prepare: impl FnOnce(&mut App) -> Result<(), String>,
    theme: Option<egui::Theme>,
) -> Result<Result<(), String>, String> {
    if !has_display() {
        return Ok(Err("there is no display".to_owned()));
    }
    let started = Arc::new(AtomicBool::new(false));
    let fault = std::rc::Rc::new(std::cell::RefCell::new(None));
    let (flag, place) = (Arc::clone(&started), std::rc::Rc::clone(&fault));
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        flag.store(true, Ordering::Release);
        let mut app = App::new(&creation.egui_ctx);
        creation.egui_ctx.set_theme(theme.unwrap_or(egui::Theme::Dark));
        match prepare(&mut app) {
            Ok(()) => Ok(Box::new(app)),
            Err(sentence) => {
                place.replace(Some(sentence));
                Err("nothing to show".into())
            }
        }
    });
    let outcome = quietly(&started, || eframe::run_native("vramscope", options(), create));
    if let Some(sentence) = fault.take() {
        return Err(sentence);
    }
    Ok(outcome.and_then(|result| result.map_err(|error| format!("no window can be opened ({error})"))))
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
            Err(format!("no window can be opened ({})", text.unwrap_or("the window system failed")))
        }
    }
}

fn options() -> eframe::NativeOptions {
    let viewport = egui::ViewportBuilder::default()
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
