//! Who pins free memory, and who holds most.

use egui::Ui;
use vramscope_model::{BlockId, LaneState, Pin};

use super::figures::percent;
use super::layout::{self, Row};
use super::model::held_back;
use crate::command::Command;
use crate::ctx::{ColorBy, Ctx};
use crate::glossary;
use crate::sites::{SiteHolder, Sites};
use crate::widgets::{bytes, number};

/// Sites listed under "Holds most".
const HOLDERS: usize = 8;

/// The blocks that hold back most. Returns the one under the pointer.
pub(super) fn pinned_by(ui: &mut Ui, ctx: &Ctx<'_>, sites: &mut Sites, pins: &[Pin], pinned: u64) -> Option<BlockId> {
    let theme = ctx.theme;
    layout::heading(ui, theme, glossary::PINNED_BY, if pins.is_empty() { "" } else { "block, held back" });
    if pins.is_empty() {
        let text = if pinned == 0 { "No free memory is pinned." } else { "No single block holds much back." };
        layout::sentence(ui, theme, text);
        return None;
    }
    let mut hovered = None;
    for pin in pins {
        let Some(block) = ctx.history.block(pin.block) else { continue };
        let site = sites.of(ctx.history, block.stack);
        let about = if pin.pinned_bytes > 0 { "" } else { "~" };
        let (note, value) = (bytes::short(block.bytes), format!("{about}{}", bytes::text(held_back(pin))));
        let fill = (ctx.color_by == ColorBy::Stack).then(|| sites.fill(site));
        let chosen = ctx.selected == Some(pin.block);
        let row =
            Row { fill, name: sites.name(site), note: &note, value: &value, button: true, chosen, ..Row::default() };
        let response = layout::row(ui, theme, row);
        if response.hovered() {
            hovered = Some(pin.block);
        }
        if response.clicked() {
            ctx.commands.send(Command::SelectBlock((!chosen).then_some(pin.block)));
        }
        response.on_hover_ui(|ui| {
            ui.label(sites.name(site));
            let size = bytes::text(block.bytes);
            ui.label(if pin.pinned_bytes > 0 {
                let held = bytes::text(pin.pinned_bytes);
                format!("Freeing this one block of {size} would make {held} of free memory releasable.")
            } else {
                let held = bytes::text(pin.shared_bytes);
                format!("This block of {size} and others pin their segment together; its share is {held}.")
            });
            ui.label(theme.caption("Click to select it"));
        });
    }
    hovered
}

/// The sites that hold most of what is in use.
pub(super) fn holds_most(ui: &mut Ui, ctx: &Ctx<'_>, state: &LaneState, sites: &mut Sites, holders: &[SiteHolder]) {
    let theme = ctx.theme;
    let all: u64 = holders.iter().map(|held| held.bytes).sum();
    let note = if holders.is_empty() { "" } else { "blocks, bytes" };
    layout::heading(ui, theme, glossary::HOLDS_MOST, note);
    if holders.is_empty() {
        layout::sentence(ui, theme, "Nothing is in use.");
    }
    let most = holders.first().map_or(1, |held| held.bytes.max(1));
    for held in holders.iter().take(HOLDERS) {
        let fill = (ctx.color_by == ColorBy::Stack).then(|| sites.fill(held.site));
        let (note, value) = (format!("\u{d7}{}", number::text(held.count)), bytes::text(held.bytes));
        let bar = (held.bytes as f64 / most as f64) as f32;
        let name = sites.name(held.site);
        let response =
            layout::row(ui, theme, Row { fill, name, note: &note, value: &value, bar, button: true, ..Row::default() });
        if response.clicked() {
            let largest = largest_of(ctx, state, sites, *held);
            ctx.commands.send(Command::SelectBlock(largest));
        }
        response.on_hover_ui(|ui| {
            ui.label(sites.name(held.site));
            let blocks = number::of(held.count, "block", "blocks");
            let share = percent(held.bytes, all);
            ui.label(theme.caption(format!("{blocks}, {} ({share} of allocated)", bytes::exact(held.bytes))));
            ui.label(theme.caption("Click to select its largest block"));
        });
    }
    if let Some(rest) = holders.get(HOLDERS..).filter(|rest| !rest.is_empty()) {
        let value = bytes::text(rest.iter().map(|held| held.bytes).sum());
        let name = number::of(rest.len() as u64, "other", "others");
        layout::row(ui, theme, Row { name: &name, value: &value, inset: true, ..Row::default() });
    }
}

/// The largest block in use of a site; of equal ones the oldest.
fn largest_of(ctx: &Ctx<'_>, state: &LaneState, sites: &mut Sites, held: SiteHolder) -> Option<BlockId> {
    let blocks = state.segments.iter().flat_map(|segment| &segment.blocks).chain(&state.loose);
    let mut best: Option<(u64, BlockId)> = None;
    for block in blocks.filter(|block| !block.pending) {
        let better = best.is_none_or(|(bytes, id)| (block.bytes, id) > (bytes, block.id));
        let stack = ctx.history.block(block.id).map(|block| block.stack).unwrap_or_default();
        if better && sites.of(ctx.history, stack) == held.site {
            best = Some((block.bytes, block.id));
        }
    }
    best.map(|(_, id)| id)
}
