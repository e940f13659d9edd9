//! What the map tells about the thing under the pointer.

use egui::{Id, PopupAnchor, Tooltip, Ui};
use vramscope_model::GapKind;
use vramscope_trace::StackId;

use super::model::{Piece, What};
use super::{Frame, Hit};
use crate::glossary;
use crate::sites::Sites;
use crate::stacks;
use crate::views::block_facts::{self, Fact};
use crate::widgets::{bytes, number};

/// How many frames of a stack the tooltip has room for.
const FRAMES: usize = 6;

/// Shows it beside the pointer.
pub(super) fn show(ui: &Ui, frame: &Frame<'_>, hit: Hit, sites: &mut Sites, id: Id) {
    Tooltip::always_open(ui.ctx().clone(), ui.layer_id(), id, PopupAnchor::Pointer).gap(16.0).show(|ui| {
        ui.spacing_mut().item_spacing.y = 2.0;
        let theme = frame.ctx.theme;
        match frame.piece(hit).what {
            What::Block { id, .. } => {
                let Some(block) = frame.ctx.history.block(id) else { return };
                let site = sites.of(frame.ctx.history, block.stack);
                ui.label(theme.heading(sites.name(site)));
                let mut facts = block_facts::of(frame.ctx, &block);
                if let Some(phase) =
                    frame.phases.name_at(frame.ctx.history, block.allocated).filter(|_| !block.at_start)
                {
                    facts.push(Fact::new("phase", phase));
                }
                block_facts::table(ui, theme, "map tooltip", &facts);
                stack(ui, frame, block.stack);
            }
            What::Gap(kind) => gap(ui, frame, hit, kind),
            What::Hole => {
                ui.label(theme.heading("Unmapped"));
                ui.label(glossary::UNMAPPED.meaning);
            }
        }
    });
}

/// The innermost frames; the side panel has all of them once the block is chosen.
fn stack(ui: &mut Ui, frame: &Frame<'_>, stack: StackId) {
    let lines = stacks::short_frames(frame.ctx.history.dictionary(), stack);
    if lines.is_empty() {
        return;
    }
    ui.add_space(4.0);
    for line in lines.iter().take(FRAMES) {
        ui.label(frame.ctx.theme.caption(line));
    }
    if lines.len() > FRAMES {
        let more = number::of((lines.len() - FRAMES) as u64, "more frame", "more frames");
        ui.label(frame.ctx.theme.hint(format!("and {more}: click to keep the block in view")));
    }
}

fn gap(ui: &mut Ui, frame: &Frame<'_>, hit: Hit, kind: GapKind) {
    let theme = frame.ctx.theme;
    let piece = frame.piece(hit);
    let (name, term) = match kind {
        GapKind::Pinned => ("Free, but pinned", glossary::PINNED),
        GapKind::Releasable => ("Free and releasable", glossary::RELEASABLE),
    };
    ui.label(theme.heading(name));
    let pieces = frame.model.pieces_of(hit.row);
    let blocks = pieces.iter().filter(|piece| matches!(piece.what, What::Block { .. })).count();
    let index = hit.piece - frame.model.rows[hit.row].pieces.start;
    let beside = |piece: Option<&Piece>| match piece.map(|piece| (piece.what, piece.length)) {
        Some((What::Block { .. }, length)) => format!("block of {}", bytes::text(length)),
        Some((What::Gap(_), length)) => format!("more free memory, {}", bytes::text(length)),
        Some((What::Hole, _)) => "unmapped addresses".to_owned(),
        None => "end of the segment".to_owned(),
    };
    let mut facts = vec![
        Fact::exact("size", piece.length),
        Fact::new("before it", beside(index.checked_sub(1).map(|index| &pieces[index]))),
        Fact::new("behind it", beside(pieces.get(index + 1))),
        Fact::new("segment", bytes::text(frame.model.rows[hit.row].bytes)),
    ];
    if kind == GapKind::Pinned {
        facts.insert(
            1,
            Fact::new("held back by", number::of(blocks as u64, "block in its segment", "blocks in its segment")),
        );
    }
    facts.push(Fact::new("address", format!("{:#x}", piece.address)));
    block_facts::table(ui, theme, "map tooltip", &facts);
    ui.add_space(4.0);
    ui.label(theme.caption(term.meaning));
}
