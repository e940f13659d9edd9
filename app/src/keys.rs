//! What keys mean. The list that the user sees is in `views::help`.

use egui::{Context, Key, Modifiers};

use crate::command::{Command, Commands};
use crate::demos::DEMOS;

/// How far `A` and `D` move, as a part of what is shown.
const PAN: f64 = 0.15;
/// How much more `W` shows of the middle.
const ZOOM: f64 = 0.8;
/// Events a long step moves.
const LONG_STEP: i64 = 100;

/// Keys that open the demos of the start page, in their order.
const DEMO_KEYS: [Key; DEMOS.len()] = [Key::Num1, Key::Num2, Key::Num3, Key::Num4];

/// Which page the keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// The start page.
    Start,
    /// A recording is being read, or could not be.
    Loading,
    /// A recording is shown.
    Recording,
}

/// Sends what was pressed. Nothing while a text is being typed; keys of the timeline only while a recording is shown.
pub(crate) fn read(ctx: &Context, page: Page, commands: &Commands) {
    let typing = ctx.text_edit_focused();
    // The space bar presses the button that has the focus; only without one it plays.
    let focused = ctx.memory(|memory| memory.focused().is_some());
    ctx.input_mut(|input| {
        if input.consume_key(Modifiers::COMMAND, Key::O) {
            commands.send(Command::ChooseFiles);
        }
        if typing {
            return;
        }
        // A question mark is typed with shift on most keyboards, and its text says more than its key.
        let question = |event: &egui::Event| matches!(event, egui::Event::Text(text) if text == "?");
        if input.events.iter().any(question) {
            commands.send(Command::ToggleHelp);
        }
        if input.key_pressed(Key::Escape) {
            commands.send(Command::Dismiss);
        }
        if input.modifiers.command || input.modifiers.alt {
            return;
        }
        match page {
            Page::Start => return demos(input, commands),
            Page::Loading => return,
            Page::Recording => {}
        }
        if !focused && input.consume_key(Modifiers::NONE, Key::Space) {
            commands.send(Command::TogglePlay);
        }
        let step = if input.modifiers.shift { LONG_STEP } else { 1 };
        let keys = [
            (Key::ArrowLeft, Command::StepCursor(-step)),
            (Key::ArrowRight, Command::StepCursor(step)),
            (Key::Home, Command::JumpToStart),
            (Key::End, Command::JumpToEnd),
            (Key::P, Command::JumpToPeak),
            (Key::W, Command::Zoom(ZOOM)),
            (Key::S, Command::Zoom(1.0 / ZOOM)),
            (Key::A, Command::Pan(-PAN)),
            (Key::D, Command::Pan(PAN)),
            (Key::Num0, Command::ShowAll),
            (Key::T, Command::ToggleAxis),
            (Key::OpenBracket, Command::NextRun(-1)),
            (Key::CloseBracket, Command::NextRun(1)),
        ];
        for (key, command) in keys {
            for _ in 0..input.num_presses(key) {
                commands.send(command.clone());
            }
        }
    });
}

fn demos(input: &mut egui::InputState, commands: &Commands) {
    for (key, demo) in DEMO_KEYS.into_iter().zip(&DEMOS) {
        if input.consume_key(Modifiers::NONE, key) {
            commands.send(Command::OpenDemo(demo.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(page: Page, modifiers: Modifiers, key: Key) -> Vec<Command> {
        let ctx = Context::default();
        let event = egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
        let input =
            egui::RawInput { events: vec![egui::Event::ModifiersChanged(modifiers), event], ..Default::default() };
        let commands = Commands::default();
        let mut output = ctx.run_ui(input, |ui| read(ui.ctx(), page, &commands));
        output.textures_delta.clear();
        commands.take()
    }

    #[test]
    fn opening_works_on_every_page() {
        for page in [Page::Start, Page::Loading, Page::Recording] {
            assert_eq!(pressed(page, Modifiers::COMMAND, Key::O), [Command::ChooseFiles], "{page:?}");
            assert_eq!(pressed(page, Modifiers::NONE, Key::O), [], "{page:?}");
        }
    }

    #[test]
    fn digits_mean_demos_on_the_start_page_only() {
        assert_eq!(pressed(Page::Start, Modifiers::NONE, Key::Num1), [Command::OpenDemo(DEMOS[0].name)]);
        assert_eq!(pressed(Page::Start, Modifiers::NONE, Key::Num4), [Command::OpenDemo(DEMOS[3].name)]);
        assert_eq!(pressed(Page::Start, Modifiers::NONE, Key::ArrowLeft), []);
        assert_eq!(pressed(Page::Recording, Modifiers::NONE, Key::Num1), []);
        assert_eq!(pressed(Page::Loading, Modifiers::NONE, Key::Num1), []);
    }
}
