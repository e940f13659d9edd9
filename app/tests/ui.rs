//! The window driven by its accessible names, keys and the mouse, without a display.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod support;

use std::path::{Path, PathBuf};

use egui::{Key, Modifiers, Rect, pos2, vec2};
use egui_kittest::kittest::Queryable;
use support::{Window, click, drag, press, send, settle, shows, span, window, with_demo};
use vramscope::axis::AxisKind;
use vramscope::command::Command;
use vramscope::views::workspace::Part;
use vramscope_model::{Metric, Position};

fn cursor(window: &Window) -> u32 {
    window.state().cursor().unwrap().0
}

fn plot(window: &Window) -> Rect {
    window.state().area(Part::Timeline).unwrap()
}

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(path);
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
    }
    path.exists().then_some(path)
}

#[test]
fn the_start_page_offers_every_way_in() {
    let mut window = window();
    settle(&mut window);
    for name in ["Open recording\u{2026}", "Folder of ranks\u{2026}", "Path of a recording", "Open", "Dark or light"] {
        window.get_by_label(name);
    }
    for demo in &vramscope::demos::DEMOS {
        window.get_by_label(&format!("Open demo: {}", demo.title));
    }
    assert!(shows(&window, "vramscope open snapshot.pickle"));
    window.get_by_label("Open demo: A small GPT, six steps").click();
    settle(&mut window);
    assert_eq!(window.state().session().runs().len(), 1);
    window.get_by_label("Recording: A small GPT, six steps");
    window.get_by_label("Device: GPU 0");
    window.get_by_label("Start page").click();
    settle(&mut window);
    assert!(window.state().session().is_empty());
}

#[test]
fn a_path_can_be_typed_and_a_wrong_one_is_told() {
    let mut window = window();
    settle(&mut window);
    window.get_by_label("Path of a recording").focus();
    window.run();
    window.get_by_label("Path of a recording").type_text("no/such.pickle");
    window.run();
    window.key_press(Key::Enter);
    settle(&mut window);
    assert!(shows(&window, "no/such.pickle cannot be opened"));
    assert!(window.state().session().is_empty());
}

#[test]
fn typing_a_path_is_not_a_shortcut() {
    let mut window = window();
    settle(&mut window);
    window.get_by_label("Path of a recording").focus();
    window.run();
    window.get_by_label("Path of a recording").type_text("what?");
    settle(&mut window);
    assert!(!window.state().state().help);
}

#[test]
fn a_file_that_cannot_be_read_says_why_and_leads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.pickle");
    std::fs::write(&path, "hello").unwrap();
    let mut window = window();
    send(&mut window, Command::Open(vec![path]));
    assert!(shows(&window, "notes.pickle ") && window.state().cursor().is_none());
    window.get_by_label("Back to the start page").click();
    settle(&mut window);
    assert!(window.state().session().is_empty());
}

#[cfg(unix)]
#[test]
fn reading_shows_progress_and_can_be_cancelled() {
    // A pipe that nobody writes into: reading it never gets anywhere.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.pickle");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: there is no mkfifo here");
        return;
    }
    let mut window = window();
    window.state().commands().send(Command::Open(vec![path]));
    window.run_steps(3);
    assert!(shows(&window, "Reading slow.pickle"));
    assert!(window.state().session().is_loading());
    window.get_by_label("Cancel").click();
    window.run_steps(3);
    assert!(window.state().session().is_empty());
    window.get_by_label("Open recording\u{2026}");
}

#[test]
fn the_cursor_starts_at_the_peak_and_keys_move_it() {
    let mut window = with_demo("gpt_fp32");
    let history = std::sync::Arc::clone(&window.state().session().runs()[0].history);
    let lane = history.lanes()[0].id;
    let peak = history.peak(lane, Metric::Allocated).unwrap().at.0;
    let (start, end) = (history.recording_start().0, history.end().0);
    assert_eq!(cursor(&window), peak);
    for (modifiers, key, expected) in [
        (Modifiers::NONE, Key::ArrowRight, peak + 1),
        (Modifiers::NONE, Key::ArrowLeft, peak),
        (Modifiers::SHIFT, Key::ArrowRight, peak + 100),
        (Modifiers::SHIFT, Key::ArrowLeft, peak),
        (Modifiers::NONE, Key::Home, start),
        (Modifiers::NONE, Key::ArrowLeft, start),
        (Modifiers::NONE, Key::End, end),
        (Modifiers::NONE, Key::ArrowRight, end),
        (Modifiers::NONE, Key::P, peak),
    ] {
        press(&mut window, modifiers, key);
        assert_eq!(cursor(&window), expected, "{key:?}");
    }
}

#[test]
fn keys_zoom_and_move_what_is_shown() {
    let mut window = with_demo("gpt_fp32");
    send(&mut window, Command::ShowAll);
    let all = span(&window);
    press(&mut window, Modifiers::NONE, Key::W);
    let zoomed = span(&window);
    assert!(zoomed.1 - zoomed.0 < 0.81 * (all.1 - all.0));
    press(&mut window, Modifiers::NONE, Key::A);
    let left = span(&window);
    assert!(left.0 < zoomed.0 || left.0 == all.0);
    press(&mut window, Modifiers::NONE, Key::W);
    press(&mut window, Modifiers::NONE, Key::A);
    let before = span(&window);
    press(&mut window, Modifiers::NONE, Key::D);
    assert!(span(&window).0 > before.0);
    press(&mut window, Modifiers::NONE, Key::S);
    assert!(span(&window).1 - span(&window).0 > before.1 - before.0);
    press(&mut window, Modifiers::NONE, Key::Num0);
    assert_eq!(span(&window), all);
}

#[test]
fn the_axis_can_count_time_or_events() {
    let mut window = with_demo("gpt_fp32");
    assert_eq!(window.state().span().unwrap().1, AxisKind::Time);
    let at = cursor(&window);
    window.get_by_label("Axis: Events").click();
    settle(&mut window);
    assert_eq!(window.state().span().unwrap().1, AxisKind::Events);
    assert_eq!(cursor(&window), at, "the cursor stays at its event");
    press(&mut window, Modifiers::NONE, Key::T);
    assert_eq!(window.state().span().unwrap().1, AxisKind::Time);
    // A part that is zoomed into holds the same events on the other axis.
    send(&mut window, Command::ShowAll);
    for _ in 0..12 {
        press(&mut window, Modifiers::NONE, Key::W);
    }
    let time = span(&window);
    press(&mut window, Modifiers::NONE, Key::T);
    press(&mut window, Modifiers::NONE, Key::T);
    let again = span(&window);
    let length = time.1 - time.0;
    assert!((again.0 - time.0).abs() < 0.3 * length && (again.1 - time.1).abs() < 0.3 * length);
}

#[test]
fn a_click_moves_the_cursor_and_every_view_follows() {
    let mut window = with_demo("gpt_fp32");
    send(&mut window, Command::SetAxis(AxisKind::Events));
    let area = plot(&window);
    let before = cursor(&window);
    click(&mut window, pos2(area.left() + 0.75 * area.width(), area.center().y));
    let after = cursor(&window);
    assert_ne!(before, after);
    assert!(shows(&window, "Timeline: at "));
    assert!(shows(&window, &format!("{} of", vramscope::widgets::number::text(u64::from(after)))), "the status line");
    let snapshot_figure = window.state().session().runs()[0].history.snapshot_at(Position(after)).lanes[0].allocated;
    let text = vramscope::widgets::bytes::text(snapshot_figure);
    assert!(shows(&window, &format!("{text} allocated")), "the timeline says {text}");
}

#[test]
fn the_mouse_pans_zooms_measures_and_resets() {
    let mut window = with_demo("gpt_fp32");
    send(&mut window, Command::SetAxis(AxisKind::Events));
    let all = span(&window);
    let area = plot(&window);
    let middle = area.center();
    window.hover_at(middle);
    window.run();
    let scroll = egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: vec2(0.0, 300.0),
        modifiers: Modifiers::NONE,
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
    };
    window.event(scroll);
    window.run_steps(60);
    settle(&mut window);
    let zoomed = span(&window);
    assert!(zoomed.1 - zoomed.0 < 0.6 * (all.1 - all.0), "{zoomed:?}");
    let away = middle + vec2(0.0, 60.0);
    drag(&mut window, away, away + vec2(120.0, 0.0));
    let moved = span(&window);
    assert!(moved.0 < zoomed.0, "dragging to the right shows what was before");
    assert!(((moved.1 - moved.0) - (zoomed.1 - zoomed.0)).abs() < 1e-6);
    window.event(egui::Event::ModifiersChanged(Modifiers::SHIFT));
    drag(&mut window, away, away + vec2(120.0, 0.0));
    window.event(egui::Event::ModifiersChanged(Modifiers::NONE));
    let look = window.state().state().looks[0].clone();
    let (from, to) = look.measured.unwrap();
    assert!(from < to);
    assert_eq!(span(&window), moved, "measuring moves nothing");
    press(&mut window, Modifiers::NONE, Key::Escape);
    assert_eq!(window.state().state().looks[0].measured, None);
    window.hover_at(away);
    window.run();
    for _ in 0..2 {
        let button = |pressed| egui::Event::PointerButton {
            pos: away,
            button: egui::PointerButton::Primary,
            pressed,
            modifiers: Modifiers::NONE,
        };
        window.input_mut().events.extend([button(true), button(false)]);
    }
    settle(&mut window);
    assert_eq!(span(&window), all, "a double-click shows everything");
}

#[test]
fn lists_open_and_close() {
    let mut window = with_demo("gpt_fp32");
    window.event(egui::Event::Text("?".to_owned()));
    settle(&mut window);
    assert!(shows(&window, "Keys and gestures"));
    press(&mut window, Modifiers::NONE, Key::Escape);
    assert!(!window.state().state().help);
    window.get_by_label("Keys and gestures").click();
    settle(&mut window);
    assert!(window.state().state().help);
    window.get_by_label("Close the list of keys").click();
    settle(&mut window);
    assert!(!window.state().state().help);
    let dark = window.ctx.theme();
    window.get_by_label("Dark or light").click();
    settle(&mut window);
    assert_ne!(window.ctx.theme(), dark);
}

#[test]
fn lines_can_be_hidden_and_the_capacity_typed() {
    let mut window = with_demo("gpt_fp32");
    window.get_by_label("Show reserved").click();
    settle(&mut window);
    assert!(!window.state().state().shown.has(Metric::Reserved));
    window.get_by_label("Show reserved").click();
    settle(&mut window);
    assert!(window.state().state().shown.has(Metric::Reserved));
    let mut enter = |text: &str| {
        window.get_by_label("Device capacity").focus();
        window.run();
        window.key_press_modifiers(Modifiers::COMMAND, Key::A);
        window.run();
        window.key_press(Key::Backspace);
        window.get_by_label("Device capacity").type_text(text);
        window.run();
        window.key_press(Key::Enter);
        settle(&mut window);
        (window.state().state().capacity, shows(&window, "is not a size"))
    };
    assert_eq!(enter("24 GiB"), (Some(24 << 30), false));
    assert_eq!(enter("plenty"), (Some(24 << 30), true), "a wrong size is told and changes nothing");
    assert_eq!(enter(""), (None, false));
}

#[test]
fn ranks_are_listed_and_keys_go_through_them() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, demo) in [(0, 3), (1, 2), (10, 3)] {
        let path = folder.path().join(format!("snapshot_rank{rank}.pickle.gz"));
        std::fs::write(path, vramscope::demos::DEMOS[demo].bytes).unwrap();
    }
    let mut window = window();
    send(&mut window, Command::Open(vec![folder.path().to_owned()]));
    let names: Vec<_> = window.state().session().runs().iter().map(|run| run.rank).collect();
    assert_eq!(names, [Some(0), Some(1), Some(10)]);
    let first = cursor(&window);
    press(&mut window, Modifiers::NONE, Key::CloseBracket);
    assert_eq!(window.state().state().run, 1);
    assert_ne!(cursor(&window), first, "each rank has a cursor of its own");
    press(&mut window, Modifiers::NONE, Key::OpenBracket);
    assert_eq!((window.state().state().run, cursor(&window)), (0, first));
    window.get_by_label("Recording: snapshot_rank0.pickle.gz").click();
    settle(&mut window);
    window.get_by_label_contains("snapshot_rank10.pickle.gz   ").click();
    settle(&mut window);
    assert_eq!(window.state().state().run, 2);
}

#[test]
fn problems_are_counted_and_explained() {
    let Some(path) = shared("corpus/gpt_truncated.pickle.gz") else { return };
    let mut window = window();
    send(&mut window, Command::Open(vec![path]));
    let button = window.get_by_label_contains("of problem");
    button.click();
    settle(&mut window);
    assert!(shows(&window, "Earlier events were dropped or never recorded"));
    press(&mut window, Modifiers::NONE, Key::Escape);
    assert!(!shows(&window, "Earlier events were dropped or never recorded"));
}

#[test]
fn what_is_open_stays_when_something_else_cannot_be_opened() {
    let mut window = with_demo("cuda_graph");
    send(&mut window, Command::Open(vec!["no/such.pickle".into()]));
    assert!(shows(&window, "no/such.pickle cannot be opened"));
    assert_eq!(window.state().session().runs().len(), 1);
    press(&mut window, Modifiers::NONE, Key::Escape);
    assert!(!shows(&window, "cannot be opened"));
}

#[test]
fn nothing_is_repainted_while_nothing_changes() {
    let mut window = with_demo("grow_oom");
    window.run();
    assert!(!window.ctx.has_requested_repaint());
    assert!(!window.state().busy());
}
