//! What tests of the window share: opening it without a display, and using it as a person would.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "helpers of tests are tests, and each test program uses its own part"
)]

use egui::{Key, Modifiers, Pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vramscope::app::App;
use vramscope::command::Command;

pub(crate) type Window = Harness<'static, App>;

pub(crate) fn window() -> Window {
    Harness::builder().with_size(vec2(1280.0, 800.0)).build_eframe(|creation| App::new(&creation.egui_ctx))
}

/// Frames until nothing is being read or worked out any more.
pub(crate) fn settle(window: &mut Window) {
    window.step();
    while window.state().busy() {
        std::thread::sleep(std::time::Duration::from_millis(2));
        window.step();
    }
    window.run();
}

pub(crate) fn send(window: &mut Window, command: Command) {
    window.state().commands().send(command);
    settle(window);
}

pub(crate) fn with_demo(name: &'static str) -> Window {
    let mut window = window();
    send(&mut window, Command::OpenDemo(name));
    window
}

pub(crate) fn press(window: &mut Window, modifiers: Modifiers, key: Key) {
    window.key_press_modifiers(modifiers, key);
    settle(window);
}

/// The part of the axis that is shown.
pub(crate) fn span(window: &Window) -> (f64, f64) {
    let (span, _) = window.state().span().unwrap();
    (span.low, span.high)
}

pub(crate) fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

/// Presses and lets go of the primary button.
pub(crate) fn click(window: &mut Window, at: Pos2) {
    window.hover_at(at);
    window.run();
    window.drag_at(at);
    window.run();
    window.drop_at(at);
    settle(window);
}

pub(crate) fn drag(window: &mut Window, from: Pos2, to: Pos2) {
    window.hover_at(from);
    window.run();
    window.drag_at(from);
    window.run();
    window.hover_at(from.lerp(to, 0.5));
    window.run();
    window.hover_at(to);
    window.run();
    window.drop_at(to);
    settle(window);
}
