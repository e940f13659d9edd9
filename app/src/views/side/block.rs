//! The chosen block: what it is, when it lived, what lies beside it, and the whole stack that allocated it.

use egui::{RichText, ScrollArea, Ui};
use vramscope_model::{Block, BlockId, LaneState, Position};

use super::layout::{self, Row};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::glossary;
use crate::sites::Sites;
use crate::stacks;
use crate::theme::{self, SMALL, UNIT};
use crate::views::block_facts;
use crate::widgets::{bytes, controls, number, time};

/// Height that the stack takes at most.
const STACK: f32 = 40.0 * UNIT;

/// Paints the section. Returns the neighbour under the pointer.
pub(super) fn show(ui: &mut Ui, ctx: &Ctx<'_>, state: &LaneState, sites: &mut Sites, block: &Block) -> Option<BlockId> {
    let theme = ctx.theme;
    layout::heading(ui, theme, glossary::SELECTED, "Esc lets it go");
    let site = sites.of(ctx.history, block.stack);
    ui.add(
        egui::Label::new(RichText::new(sites.name(site)).font(theme::strong(SMALL + 1.0)).color(theme.text)).truncate(),
    );
    ui.add_space(UNIT);
    block_facts::table(ui, theme, "selected block", &block_facts::of(ctx, block));
    ui.add_space(UNIT);
    lifetime(ui, ctx, block);
    let hovered = neighbours(ui, ctx, state, sites, block);
    stack(ui, ctx, block);
    hovered
}

/// A moment in words.
fn moment(ctx: &Ctx<'_>, at: Position) -> String {
    ctx.axis.elapsed(at).map_or_else(|| format!("event {}", number::text(u64::from(at.0))), time::duration)
}

/// When it was allocated and freed, each with a way there.
fn lifetime(ui: &mut Ui, ctx: &Ctx<'_>, block: &Block) {
    let theme = ctx.theme;
    let begin = if block.at_start { "before recording".to_owned() } else { moment(ctx, block.allocated) };
    let row = Row { name: "Go to allocation", value: &begin, button: true, ..Row::default() };
    if layout::row(ui, theme, row).on_hover_text("Put the cursor where it is first in use").clicked() {
        ctx.commands.send(Command::MoveCursor(block.allocated));
    }
    match block.free_requested {
        Some(freed) => {
            let value = moment(ctx, freed);
            let row = Row { name: "Go to free", value: &value, button: true, ..Row::default() };
            let last = Position(freed.0.saturating_sub(1));
            if layout::row(ui, theme, row).on_hover_text("Put the cursor where it is last in use").clicked() {
                ctx.commands.send(Command::MoveCursor(last));
            }
        }
        None => {
            layout::row(ui, theme, Row { name: "Never freed in this recording", ..Row::default() });
        }
    }
}

/// What lies before and behind it at the cursor.
fn neighbours(ui: &mut Ui, ctx: &Ctx<'_>, state: &LaneState, sites: &mut Sites, block: &Block) -> Option<BlockId> {
    let segment = state.segments.iter().find(|segment| Some(segment.segment) == block.segment)?;
    let index = segment.blocks.iter().position(|known| known.id == block.id)?;
    let mut hovered = None;
    let before = index.checked_sub(1).map(|index| segment.blocks[index]);
    let behind = segment.blocks.get(index + 1).copied();
    for (name, other) in [("Block before it", before), ("Block behind it", behind)] {
        let Some(other) = other else { continue };
        let distance = if other.address < block.address {
            block.address - (other.address + other.bytes)
        } else {
            other.address - (block.address + block.bytes)
        };
        let value = bytes::text(other.bytes);
        let note = if distance == 0 { String::new() } else { format!("{} off", bytes::short(distance)) };
        let row = Row { name, note: &note, value: &value, button: true, ..Row::default() };
        let response = layout::row(ui, ctx.theme, row);
        if response.hovered() {
            hovered = Some(other.id);
        }
        if response.clicked() {
            ctx.commands.send(Command::SelectBlock(Some(other.id)));
        }
        let stack = ctx.history.block(other.id).map(|block| block.stack).unwrap_or_default();
        let site = sites.of(ctx.history, stack);
        response.on_hover_text(sites.name(site));
    }
    hovered
}

/// The stack, innermost frame first; the telling one stands out.
fn stack(ui: &mut Ui, ctx: &Ctx<'_>, block: &Block) {
    let theme = ctx.theme;
    let dictionary = ctx.history.dictionary();
    let frames = stacks::frames(dictionary, block.stack);
    if frames.is_empty() {
        return layout::sentence(ui, theme, "No stack was recorded for it.");
    }
    let telling = stacks::telling_frame(dictionary, block.stack).map(|frame| stacks::describe_fully(dictionary, frame));
    ui.add_space(UNIT);
    ScrollArea::vertical().id_salt("stack of the selected block").max_height(STACK).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        ui.set_min_width(ui.available_width());
        for frame in &frames {
            let color = if telling.as_ref() == Some(frame) { theme.text } else { theme.faint };
            let text = RichText::new(short(frame)).font(theme::mono(SMALL - 1.0)).color(color);
            ui.add(egui::Label::new(text).truncate()).on_hover_text(frame);
        }
    });
    ui.add_space(UNIT);
    if controls::button(ui, theme, "Copy stack").clicked() {
        ui.ctx().copy_text(frames.join("\n"));
    }
}

/// A frame without most of its path.
fn short(frame: &str) -> String {
    let (path, rest) = frame.split_once(' ').unwrap_or((frame, ""));
    let parts: Vec<&str> = path.rsplitn(3, ['/', '\\']).collect();
    match parts[..] {
        [file, folder, _] => format!("{folder}/{file} {rest}"),
        _ => frame.to_owned(),
    }
}
