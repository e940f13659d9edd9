//! Paints every screen without a window and looks at the pixels. With `VRAMSCOPE_PICTURES=FOLDER` the pictures are kept.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use egui::{Color32, ColorImage, vec2};
use vramscope::app::App;
use vramscope::command::Command;
use vramscope::raster::{Offscreen, write_png};
use vramscope::theme::Theme;

/// Paints the window after some commands.
fn picture(name: &str, scale: f32, theme: egui::Theme, commands: &[Command]) -> ColorImage {
    let mut screen = Offscreen::new(vec2(1280.0, 800.0), scale, theme);
    let mut app = App::new(screen.ctx());
    for command in commands {
        app.commands().send(command.clone());
        // Each command sees the recording that the ones before it opened.
        app.settle(&mut screen);
    }
    let image = app.picture(&mut screen);
    assert_eq!(image.size, [(1280.0 * scale) as usize, (800.0 * scale) as usize]);
    if let Some(folder) = std::env::var_os("VRAMSCOPE_PICTURES") {
        write_png(&std::path::Path::new(&folder).join(format!("{name}.png")), &image).unwrap();
    }
    image
}

fn count(image: &ColorImage, color: Color32) -> usize {
    image.pixels.iter().filter(|&&pixel| pixel == color).count()
}

fn colors(image: &ColorImage) -> usize {
    image.pixels.iter().collect::<std::collections::HashSet<_>>().len()
}

#[test]
fn the_start_page_shows_demos_in_both_themes() {
    for (name, theme, palette, scale) in [
        ("start_dark", egui::Theme::Dark, Theme::DARK, 1.0),
        ("start_light", egui::Theme::Light, Theme::LIGHT, 1.0),
        ("start_dark_2x", egui::Theme::Dark, Theme::DARK, 2.0),
    ] {
        let image = picture(name, scale, theme, &[]);
        assert!(count(&image, palette.allocated) > 500, "{name}: the demos' pictures are there");
        assert!(count(&image, palette.danger) > 20, "{name}: one of them fails");
        assert!(count(&image, palette.canvas) > image.pixels.len() / 3, "{name} is calm");
        assert!(colors(&image) > 200, "{name} has text");
    }
}

#[test]
fn a_failed_opening_is_told_on_the_start_page() {
    let image = picture("start_error", 1.0, egui::Theme::Dark, &[Command::Open(vec!["no/such.pickle".into()])]);
    let fine = picture("start_again", 1.0, egui::Theme::Dark, &[]);
    assert!(count(&image, Theme::DARK.danger) > count(&fine, Theme::DARK.danger) + 40);
}

#[test]
fn every_demo_fills_the_window() {
    for demo in &vramscope::demos::DEMOS {
        for (suffix, scale, theme, palette) in
            [("dark", 1.0, egui::Theme::Dark, Theme::DARK), ("light", 1.0, egui::Theme::Light, Theme::LIGHT)]
        {
            let name = format!("{}_{suffix}", demo.name);
            let image = picture(&name, scale, theme, &[Command::OpenDemo(demo.name)]);
            assert!(count(&image, palette.accent) > 100, "{name}: the cursor");
            assert!(count(&image, palette.line) > 2000, "{name}: hairlines");
        }
    }
}

#[test]
fn lists_and_zoom_change_the_picture() {
    let open = Command::OpenDemo("varlen_default");
    let theme = egui::Theme::Dark;
    let plain = picture("workspace_2x", 2.0, theme, std::slice::from_ref(&open));
    let zoomed = picture("workspace_zoomed_2x", 2.0, theme, &[open.clone(), Command::Zoom(0.01)]);
    let events = picture(
        "workspace_events_2x",
        2.0,
        theme,
        &[
            open.clone(),
            Command::ToggleAxis,
            Command::SetCapacity(Some(10 << 30)),
            Command::Measure(Some((vramscope_model::Position(9000), vramscope_model::Position(14000)))),
        ],
    );
    let help = picture("help_2x", 2.0, theme, &[open, Command::ToggleHelp]);
    for (name, other) in [("zoomed", zoomed), ("events", events), ("help", help)] {
        let changed = plain.pixels.iter().zip(&other.pixels).filter(|(a, b)| a != b).count();
        assert!(changed > 10_000, "{name}: {changed} pixels");
    }
}

#[test]
fn the_pointer_shows_exact_values() {
    let mut screen = Offscreen::new(vec2(1280.0, 800.0), 2.0, egui::Theme::Dark);
    let mut app = App::new(screen.ctx());
    app.commands().send(Command::OpenDemo("gpt_fp32"));
    app.settle(&mut screen);
    app.commands().send(Command::SetAxis(vramscope::axis::AxisKind::Events));
    let before = app.picture(&mut screen);
    screen.send(egui::Event::PointerMoved(egui::pos2(400.0, 300.0)));
    let after = app.picture(&mut screen);
    if let Some(folder) = std::env::var_os("VRAMSCOPE_PICTURES") {
        write_png(&std::path::Path::new(&folder).join("hover_2x.png"), &after).unwrap();
    }
    assert!(before.pixels.iter().zip(&after.pixels).filter(|(a, b)| a != b).count() > 5000);
}

#[test]
fn the_number_of_shapes_depends_on_pixels_not_on_events() {
    // DESIGN's budget is four shapes a column; curves are one mesh each, so far fewer do.
    for demo in &vramscope::demos::DEMOS {
        for axis in [vramscope::axis::AxisKind::Time, vramscope::axis::AxisKind::Events] {
            let mut screen = Offscreen::new(vec2(1280.0, 800.0), 1.0, egui::Theme::Dark);
            let mut app = App::new(screen.ctx());
            app.commands().send(Command::SetAxis(axis));
            app.commands().send(Command::OpenDemo(demo.name));
            app.settle(&mut screen);
            let ctx = screen.ctx().clone();
            let output = screen.settle(|ui| {
                app.logic(&ctx);
                app.ui(ui);
                app.busy()
            });
            assert!(output.shapes.len() < 1500, "{}: {} shapes", demo.name, output.shapes.len());
        }
    }
}
