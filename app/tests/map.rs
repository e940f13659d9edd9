//! The block map and the side panel, driven by accessible names, keys and the mouse; and what they cost.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop and may say why")]

use std::path::{Path, PathBuf};

use egui::{Event, Key, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, TouchPhase, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vramscope::app::App;
use vramscope::command::Command;
use vramscope::ctx::ColorBy;
use vramscope::playback::Pace;
use vramscope::raster::{Offscreen, write_png};
use vramscope::theme::Theme;
use vramscope::views::workspace::Part;

type Window = Harness<'static, App>;

/// Frames until nothing is being read or worked out any more.
fn settle(window: &mut Window) {
    window.step();
    while window.state().busy() {
        std::thread::sleep(std::time::Duration::from_millis(2));
        window.step();
    }
    window.run();
}

fn send(window: &mut Window, command: Command) {
    window.state().commands().send(command);
    settle(window);
}

fn with_demo(name: &'static str) -> Window {
    let builder = Harness::builder().with_size(vec2(1280.0, 800.0));
    let mut window = builder.build_eframe(|creation| App::new(&creation.egui_ctx));
    send(&mut window, Command::OpenDemo(name));
    window
}

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(path);
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
    }
    path.exists().then_some(path)
}

fn shows(window: &Window, text: &str) -> bool {
    window.query_all_by_label_contains(text).next().is_some()
}

/// A place in the first line of the map, a part of the line from its left end.
fn first_line(window: &Window, part: f32) -> Pos2 {
    let area = window.state().area(Part::Map).unwrap();
    area.min + vec2(72.0 + (area.width() - 88.0) * part, 40.0 + 22.0 + 4.0)
}

fn click(window: &mut Window, at: Pos2) {
    window.hover_at(at);
    window.step();
    for pressed in [true, false] {
        window.event(Event::PointerButton {
            pos: at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        });
        window.step();
    }
    settle(window);
}

#[test]
fn the_map_tells_what_it_shows() {
    let mut window = with_demo("grow_oom");
    assert!(shows(&window, "Block map: 56 segments, 4.34 GiB of 4.75 GiB in use"));
    send(&mut window, Command::JumpToEnd);
    assert!(shows(&window, "Block map: 57 segments, 65.00 MiB of 4.80 GiB in use"));
    send(&mut window, Command::JumpToStart);
    assert!(!shows(&window, "Block map: 57"));
}

#[test]
fn the_pointer_hovers_and_a_click_selects() {
    let mut window = with_demo("grow_oom");
    let at = first_line(&window, 0.2);
    window.hover_at(at);
    settle(&mut window);
    let hovered = window.state().state().hovered.expect("a block fills the first line");
    assert!(shows(&window, "address"), "the tooltip tells its address");
    click(&mut window, at);
    assert_eq!(window.state().state().looks[0].selected, Some(hovered));
    assert!(shows(&window, "Selected block"));
    window.hover_at(egui::pos2(300.0, 20.0));
    settle(&mut window);
    assert_eq!(window.state().state().hovered, None);
    let before = window.state().cursor().unwrap();
    window.get_by_label_contains("Go to allocation").click();
    settle(&mut window);
    let allocation = window.state().cursor().unwrap();
    assert!(allocation <= before);
    window.get_by_label_contains("Go to free").click();
    settle(&mut window);
    assert!(window.state().cursor().unwrap() > allocation);
    assert!(shows(&window, "Selected block"));
    window.key_press(Key::Escape);
    settle(&mut window);
    assert_eq!(window.state().state().looks[0].selected, None);
}

#[test]
fn space_plays_and_pauses_and_a_paused_window_is_still() {
    let mut window = with_demo("gpt_fp32");
    send(&mut window, Command::JumpToStart);
    send(&mut window, Command::SetPace(Pace::Even(1000.0)));
    let start = window.state().cursor().unwrap().0;
    window.key_press(Key::Space);
    window.step();
    window.get_by_label("Pause");
    window.run_steps(5);
    let played = window.state().cursor().unwrap().0;
    assert!(played > start && (played - start) % 100 == 0 && played - start <= 700, "{start} to {played}");
    window.key_press(Key::Space);
    settle(&mut window);
    assert!(!window.state().state().playback.playing);
    let paused = window.state().cursor().unwrap();
    let work = window.state().map_work();
    window.run_steps(5);
    assert_eq!(window.state().cursor().unwrap(), paused);
    assert_eq!(window.state().map_work(), work);
    assert!(!window.ctx.has_requested_repaint(), "nothing asks for frames");
    window.get_by_label("Play").click();
    window.run_steps(2);
    window.get_by_label("Pause").click();
    settle(&mut window);
    window.get_by_label("One event on").click();
    settle(&mut window);
    assert!(window.state().cursor().unwrap() > paused);
}

#[test]
fn playing_from_the_end_begins_again_and_stops_at_the_end() {
    let mut window = with_demo("cuda_graph");
    send(&mut window, Command::JumpToEnd);
    let end = window.state().cursor().unwrap();
    send(&mut window, Command::SetPace(Pace::Even(10_000.0)));
    window.state().commands().send(Command::TogglePlay);
    window.step();
    assert!(window.state().cursor().unwrap() < end);
    window.run_steps(6);
    assert_eq!(window.state().cursor().unwrap(), end);
    assert!(!window.state().state().playback.playing);
}

#[test]
fn colours_and_pace_are_chosen_from_lists() {
    let mut window = with_demo("gpt_fp32");
    for (by, meaning) in [(ColorBy::Size, "size"), (ColorBy::Phase, "phase"), (ColorBy::Age, "age")] {
        let old = window.state().state().color_by.name();
        window.get_by_label(&format!("Colour by: {old}")).click();
        settle(&mut window);
        window.get_by_label(meaning).click();
        settle(&mut window);
        assert_eq!(window.state().state().color_by, by);
    }
    window.get_by_label_contains("Pace: ").click();
    settle(&mut window);
    window.get_by_label_contains("100 events/s").click();
    settle(&mut window);
    assert_eq!(window.state().state().playback.pace, Pace::Even(100.0));
}

#[test]
fn a_request_can_be_tried() {
    let mut window = with_demo("grow_oom");
    assert!(shows(&window, "Served from cache"));
    let field = window.get_by_label("Size of the request");
    field.focus();
    window.step();
    window.get_by_label("Size of the request").click();
    window.step();
    window.key_press_modifiers(Modifiers::COMMAND, Key::A);
    window.step();
    window.get_by_label("Size of the request").type_text("4 GiB");
    window.key_press(Key::Enter);
    settle(&mut window);
    assert!(shows(&window, "Needs a new segment of 4.00 GiB"));
    assert!(shows(&window, "Only 4"), "and why");
    window.get_by_label("Back to the recording\u{2019}s next request").click();
    settle(&mut window);
    assert!(shows(&window, "Served from cache"));
    window.get_by_label_contains("Go to the request that failed").click();
    settle(&mut window);
    assert!(shows(&window, "Needs a new segment of 432.00 MiB"));
}

#[test]
fn lists_select_blocks() {
    let mut window = with_demo("varlen_default");
    assert!(shows(&window, "Pinned by") && shows(&window, "Holds most"));
    window.query_all_by_label_contains("train.py:33 forward: ").next().unwrap().click();
    settle(&mut window);
    assert!(window.state().state().looks[0].selected.is_some());
    assert!(shows(&window, "Copy stack"));
}

#[test]
fn each_step_is_worked_out_only_when_it_must_be() {
    let mut window = with_demo("varlen_default");
    window.hover_at(first_line(&window, 0.5));
    settle(&mut window);
    let before = (window.state().map_work(), window.state().side_work());
    assert!(before.0.items <= before.0.columns && before.0.items > 50, "{:?}", before.0);
    for part in [0.1, 0.3, 0.7] {
        window.hover_at(first_line(&window, part));
        settle(&mut window);
    }
    assert_eq!((window.state().map_work(), window.state().side_work()), before, "hovering costs nothing");
    window.event(Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: vec2(0.0, 240.0),
        phase: TouchPhase::Move,
        modifiers: Modifiers::NONE,
        source: MouseWheelSource::Wheel,
    });
    settle(&mut window);
    let zoomed = window.state().map_work();
    assert!(zoomed.pictures > before.0.pictures, "the wheel zooms");
    assert_eq!(
        (zoomed.models, zoomed.colorings, zoomed.layouts),
        (before.0.models, before.0.colorings, before.0.layouts)
    );
    send(&mut window, Command::ColorBlocks(ColorBy::Size));
    let colored = window.state().map_work();
    assert_eq!(
        (colored.models, colored.layouts, colored.colorings),
        (zoomed.models, zoomed.layouts, zoomed.colorings + 1)
    );
    assert_eq!(colored.pictures, zoomed.pictures + 1);
    let side = window.state().side_work();
    send(&mut window, Command::StepCursor(1));
    let moved = window.state().map_work();
    assert_eq!(
        (moved.models, moved.layouts, moved.pictures),
        (colored.models + 1, colored.layouts + 1, colored.pictures + 1)
    );
    assert_eq!(window.state().side_work(), side + 1);
}

#[test]
fn pools_streams_and_long_segments_of_real_recordings_are_shown() {
    for (file, segments) in
        [("streams", "18 segments"), ("varlen_expandable", "2 segments"), ("gpt_truncated", "64 segments")]
    {
        let Some(path) = shared(&format!("corpus/{file}.pickle.gz")) else { return };
        let mut window = with_demo("cuda_graph");
        send(&mut window, Command::Open(vec![path]));
        for by in ColorBy::ALL {
            send(&mut window, Command::ColorBlocks(by));
            assert!(shows(&window, &format!("Block map: {segments}")), "{file}");
        }
        let work = window.state().map_work();
        assert!(work.items <= work.columns && work.pieces > 30, "{file}: {work:?}");
    }
}

/// Paints a window after the commands, with the pointer in the map. With `VRAMSCOPE_PICTURES=FOLDER` the picture is kept.
fn picture(name: &str, commands: &[Command], pointer: Option<f32>) -> egui::ColorImage {
    let mut screen = Offscreen::new(vec2(1280.0, 800.0), 1.0, egui::Theme::Dark);
    let mut app = App::new(screen.ctx());
    for command in commands {
        app.commands().send(command.clone());
        app.settle(&mut screen);
    }
    if let Some(part) = pointer {
        let area = app.area(Part::Map).unwrap();
        screen.send(Event::PointerMoved(area.min + vec2(72.0 + (area.width() - 88.0) * part, 40.0 + 22.0 + 84.0)));
    }
    let image = app.picture(&mut screen);
    if let Some(folder) = std::env::var_os("VRAMSCOPE_PICTURES") {
        write_png(&Path::new(&folder).join(format!("{name}.png")), &image).unwrap();
    }
    image
}

#[test]
fn what_is_chosen_and_hovered_stands_out() {
    let count = |image: &egui::ColorImage, color| image.pixels.iter().filter(|&&pixel| pixel == color).count();
    let open = Command::OpenDemo("grow_oom");
    let plain = picture("map_plain", std::slice::from_ref(&open), None);
    let window = with_demo("grow_oom");
    let run = &window.state().session().runs()[0];
    let state = run.history.snapshot_at(window.state().cursor().unwrap()).lanes.remove(0);
    let block = state.segments.iter().flat_map(|segment| &segment.blocks).max_by_key(|block| block.bytes).unwrap();
    let chosen = picture("map_chosen", &[open.clone(), Command::SelectBlock(Some(block.id))], Some(0.2));
    let gap = picture("map_gap", &[open.clone(), Command::ColorBlocks(ColorBy::Phase)], Some(0.7));
    picture("map_age", &[open.clone(), Command::ColorBlocks(ColorBy::Age)], None);
    picture("map_size", &[open, Command::ColorBlocks(ColorBy::Size)], None);
    let accent = Theme::DARK.accent;
    assert!(count(&chosen, accent) > count(&plain, accent) + 1500, "a frame around a whole line");
    assert!(count(&gap, Theme::DARK.raised) > count(&plain, Theme::DARK.raised) + 2000, "a tooltip");
}
