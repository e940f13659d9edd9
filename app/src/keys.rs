//! What keys mean. The list that the user sees is in `views::help`.

use egui::{Context, Key, Modifiers};

use crate::command::{Command, Commands};

/// How far `A` and `D` move, as a part of what is shown.
const PAN: f64 = 0.15;
/// How much more `W` shows of the middle.
const ZOOM: f64 = 0.8;
/// Events a long step moves.
const LONG_STEP: i64 = 100;

/// Sends what was pressed. Nothing while a text is being typed; keys of the timeline only while a recording is shown.
pub(crate) fn read(ctx: &Context, recording: bool, commands: &Commands) {
    let typing = ctx.text_edit_focused();
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
        if !recording || input.modifiers.command || input.modifiers.alt {
            return;
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
