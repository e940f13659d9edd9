//! The window around the views: what is shown first, dropping files, the overview's brush, pickers, copying, and rest.

mod support;

use std::sync::Arc;

use egui::{Key, Modifiers, pos2};
use egui_kittest::kittest::Queryable;
use support::{Window, click, drag, press, send, settle, shows, span, window, with_demo};
use vramscope::axis::AxisKind;
use vramscope::command::Command;
use vramscope::session::Session;
use vramscope::views::workspace::Part;
use vramscope_model::{Ingest, Metric};
use vramscope_trace::{Batch, DeviceId, Event, EventKind, Interner, Origin, ProcessId, RunInfo, StackId, TimeNs};

/// A file as a window system hands it over.
#[derive(Debug)]
struct File(std::path::PathBuf);

impl egui::DroppedFile for File {
    fn path(&self) -> &std::path::Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|error| error.to_string())
    }
}

#[test]
fn a_dropped_file_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dropped.pickle.gz");
    std::fs::write(&path, vramscope::demos::DEMOS[2].bytes).unwrap();
    let mut window = window();
    settle(&mut window);
    window.input_mut().hovered_files.push(egui::HoveredFile::default());
    window.run_steps(2);
    assert!(window.state().session().is_empty(), "it only hovers");
    window.input_mut().hovered_files.clear();
    window.input_mut().dropped_files.push(Arc::new(File(path)));
    window.step();
    window.input_mut().dropped_files.clear();
    settle(&mut window);
    window.get_by_label("Recording: dropped.pickle.gz");
}

#[test]
fn digits_open_the_demos_of_the_start_page() {
    for (key, demo) in [(Key::Num1, &vramscope::demos::DEMOS[0]), (Key::Num4, &vramscope::demos::DEMOS[3])] {
        let mut window = window();
        settle(&mut window);
        press(&mut window, Modifiers::NONE, key);
        window.get_by_label(&format!("Recording: {}", demo.title));
    }
}

#[test]
fn an_idle_beginning_is_not_shown_first_but_can_be() {
    let mut window = with_demo("grow_oom");
    let first = span(&window);
    assert!(first.0 > 4e9, "five seconds of nothing: {first:?}");
    let history = Arc::clone(&window.state().session().runs()[0].history);
    let axis = vramscope::axis::Axis::new(&history, AxisKind::Time);
    for at in [history.peak(history.lanes()[0].id, Metric::Reserved).unwrap().at, history.end()] {
        let place = axis.place_of(at);
        assert!((first.0..=first.1).contains(&place), "{at:?}");
    }
    let all = (axis.all().low, axis.all().high);
    press(&mut window, Modifiers::NONE, Key::Num0);
    assert_eq!(span(&window), all);
    // All of it stays in view on the other axis, and on the way back.
    press(&mut window, Modifiers::NONE, Key::T);
    assert_eq!(span(&window), (f64::from(history.recording_start().0), f64::from(history.end().0)));
    press(&mut window, Modifiers::NONE, Key::T);
    assert_eq!(span(&window), all);
}

#[test]
fn the_brush_of_the_overview_moves_stretches_and_is_drawn_anew() {
    let mut window = with_demo("gpt_fp32");
    send(&mut window, Command::SetAxis(AxisKind::Events));
    send(&mut window, Command::ShowAll);
    let strip = window.get_by_label_contains("Overview").rect();
    let all = span(&window);
    let length = all.1 - all.0;
    let x = |part: f32| pos2(strip.left() + part * strip.width(), strip.center().y);
    let near = |place: f64, part: f64| (place - (all.0 + part * length)).abs() < 0.01 * length;
    drag(&mut window, x(0.4), x(0.6));
    let drawn = span(&window);
    assert!(near(drawn.0, 0.4) && near(drawn.1, 0.6), "a new part is drawn: {drawn:?}");
    drag(&mut window, x(0.5), x(0.7));
    let moved = span(&window);
    assert!(near(moved.0, 0.6) && near(moved.1, 0.8), "it is moved: {moved:?}");
    drag(&mut window, x(0.8), x(0.9));
    let stretched = span(&window);
    assert!(near(stretched.0, 0.6) && near(stretched.1, 0.9), "its end is stretched: {stretched:?}");
    drag(&mut window, x(0.6), x(0.2));
    let both = span(&window);
    assert!(near(both.0, 0.2) && near(both.1, 0.9), "and its beginning: {both:?}");
    click(&mut window, x(0.5));
    let centred = span(&window);
    assert!(near(f64::midpoint(centred.0, centred.1), 0.5), "a click centres it: {centred:?}");
}

fn event(time: i64, device: u16, kind: EventKind) -> Event {
    let (process, device) = (ProcessId(0), DeviceId(device));
    Event { time: Some(TimeNs(time)), process, device, stream: None, origin: Origin::Shim, kind }
}

fn alloc(address: u64, bytes: u64, at_start: bool) -> EventKind {
    EventKind::BlockAlloc { address, bytes, requested: Some(bytes), stack: StackId::NONE, at_start }
}

/// Device 2 of four, with blocks from before recording, a mark, and a place where events were lost.
fn with_notes() -> Window {
    let mut names = Interner::new();
    let name = names.name("epoch 2");
    let mut events = vec![event(0, 2, alloc(1 << 20, 300 << 20, true))];
    events.extend(
        (0..100u32)
            .map(|at| event(i64::from(at) * 10_000_000, 2, alloc((1 << 40) + (u64::from(at) << 30), 4 << 20, false))),
    );
    events.push(event(500_000_000, 2, EventKind::LostEvents { count: 1234 }));
    events.sort_by_key(|event| event.time);
    events.push(event(250_000_000, 2, EventKind::Mark { name }));
    let mut ingest = Ingest::new();
    ingest.push(Batch { dictionary: names.take_chunks(), events, ..Batch::default() });
    ingest.set_info(Arc::new(RunInfo { devices_visible: 4, ..RunInfo::default() }));
    let mut window = window();
    window.state_mut().show_session(Session::of_history("notes", ingest.history()));
    settle(&mut window);
    window
}

#[test]
fn marks_and_lost_events_say_what_they_are() {
    let mut window = with_notes();
    let area = window.state().area(Part::Timeline).unwrap();
    let (left, right) = (area.left() + 72.0, area.right() - 16.0);
    let x = |part: f32| pos2(left + part * (right - left), area.center().y + 20.0);
    let part = 1.0 / 0.99;
    window.hover_at(x(0.25 * part));
    settle(&mut window);
    assert!(shows(&window, "Mark: epoch 2"));
    assert!(!shows(&window, "lost here"));
    window.hover_at(x(0.5 * part));
    settle(&mut window);
    assert!(shows(&window, "events were lost here"));
    assert!(!shows(&window, "Mark: "));
}

#[test]
fn case_10_devices_that_did_nothing_are_listed_as_such() {
    let mut window = with_notes();
    window.get_by_label("Device: GPU 2").click();
    settle(&mut window);
    for idle in [0, 1, 3] {
        assert!(shows(&window, &format!("GPU {idle}   no events")));
    }
    assert!(!shows(&window, "GPU 2   no events"));
}

#[test]
fn case_6_a_snapshot_without_a_recording_says_how_to_make_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare.json");
    let text = r#"[{"device": 0, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small",
        "blocks": [{"size": 1048576, "state": "active_allocated"}, {"size": 1048576, "state": "inactive"}]}]"#;
    std::fs::write(&path, text).unwrap();
    let mut window = window();
    send(&mut window, Command::Open(vec![path]));
    assert!(shows(&window, "No events were recorded") && shows(&window, "_record_memory_history"));
    assert!(window.state().area(Part::Map).is_some(), "the map is there all the same");
}

#[test]
fn case_9_the_rank_that_differs_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let bytes = if rank == 2 { 40 << 20 } else { 20 << 20 };
        let text = format!(
            r#"{{"segments": [], "device_traces": [[
                {{"action": "segment_alloc", "addr": 4194304, "size": {bytes}, "stream": 0}},
                {{"action": "alloc", "addr": 4194304, "size": {bytes}, "stream": 0}},
                {{"action": "free_requested", "addr": 4194304, "size": {bytes}, "stream": 0}},
                {{"action": "free_completed", "addr": 4194304, "size": {bytes}, "stream": 0}},
                {{"action": "segment_free", "addr": 4194304, "size": {bytes}, "stream": 0}}]]}}"#
        );
        std::fs::write(folder.path().join(format!("oom_rank{rank}.json")), text).unwrap();
    }
    let mut window = window();
    send(&mut window, Command::Open(vec![folder.path().to_owned()]));
    assert!(shows(&window, "one differs"));
    window.get_by_label("Recording: oom_rank0.json").click();
    settle(&mut window);
    let odd = window.get_by_label_contains("\u{2022} differs from the others");
    odd.click();
    settle(&mut window);
    assert_eq!(window.state().state().run, 2);
    window.get_by_label("differs from the others");
}

#[test]
fn lines_and_numbers_can_be_copied() {
    let copied = |window: &Window| {
        let commands = &window.output().platform_output.commands;
        commands.iter().find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        })
    };
    let mut window = window();
    settle(&mut window);
    window.get_by_label("Copy line 3").click();
    window.step();
    let text = copied(&window).or_else(|| {
        window.step();
        copied(&window)
    });
    assert_eq!(text.as_deref(), Some("vramscope open snapshot.pickle"));
}

/// Frames that are painted until the window comes to rest; egui takes one to see that nothing has changed.
fn frames(window: &mut Window) -> u64 {
    window.run()
}

#[test]
fn a_window_at_rest_paints_nothing() {
    let mut start = window();
    settle(&mut start);
    let mut help = with_demo("gpt_fp32");
    send(&mut help, Command::ToggleHelp);
    let mut hovered = with_demo("gpt_fp32");
    let area = hovered.state().area(Part::Timeline).unwrap();
    hovered.hover_at(area.center());
    settle(&mut hovered);
    let mut failed = window();
    send(&mut failed, Command::Open(vec!["no/such.pickle".into()]));
    let windows =
        [("start", start), ("demo", with_demo("grow_oom")), ("help", help), ("hover", hovered), ("failed", failed)];
    for (name, mut window) in windows {
        // An answer counts as there just before it wakes the window: that last frame is due.
        std::thread::sleep(std::time::Duration::from_millis(60));
        window.run();
        assert_eq!(frames(&mut window), 1, "{name}: it asks for more frames");
        assert!(!window.ctx.has_requested_repaint() && !window.state().busy(), "{name}");
        std::thread::sleep(std::time::Duration::from_millis(60));
        assert!(!window.ctx.has_requested_repaint(), "{name}: a thread woke it for nothing");
    }
}
