//! The side panel: where the memory goes at the cursor, whether the next request fits, who pins and who holds most, and the
//! chosen block.

mod block;
mod figures;
mod layout;
mod lists;
mod model;
mod request;

use egui::{ScrollArea, Ui};
use vramscope_model::BlockId;

use crate::ctx::Ctx;
use crate::sites::Sites;

use layout::PADDING;
use model::Answers;
use request::RequestField;

/// What the panel remembers between frames.
#[derive(Default)]
pub struct SideView {
    answers: Option<(model::Key, Answers)>,
    request: RequestField,
    hovered: Option<BlockId>,
    worked: u64,
}

impl SideView {
    /// How often the answers were worked out. Exact, for tests.
    pub fn worked(&self) -> u64 {
        self.worked
    }

    /// Paints the panel into the whole of `ui`. `sites` must be prepared for this lane.
    pub fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, sites: &mut Sites) {
        let all = ui.max_rect();
        ui.painter().rect_filled(all, 0.0, ctx.theme.panel);
        let Some(state) = ctx.lane_state() else {
            return crate::widgets::controls::empty(ui, ctx.theme, all, "Nothing is known at this instant");
        };
        let key = model::key(ctx);
        let known = self.answers.take().filter(|(known, _)| *known == key);
        let worked = &mut self.worked;
        let (_, answers) = self.answers.insert(known.unwrap_or_else(|| {
            *worked += 1;
            (key, model::answers(ctx, state, sites))
        }));
        let mut hovered = None;
        ScrollArea::vertical().id_salt("side").auto_shrink([false, false]).show(ui, |ui| {
            ui.set_max_width(ui.available_width());
            egui::Frame::new().inner_margin(egui::Margin::symmetric(PADDING as i8, 8)).show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 0.0;
                if let Some(block) = ctx.selected.and_then(|id| ctx.history.block(id)) {
                    hovered = block::show(ui, ctx, state, sites, &block);
                    layout::gap(ui, ctx.theme);
                }
                figures::show(ui, ctx, &answers.fragmentation);
                layout::gap(ui, ctx.theme);
                self.request.show(ui, ctx, state, answers);
                layout::gap(ui, ctx.theme);
                let pinned = lists::pinned_by(ui, ctx, sites, &answers.pins, answers.fragmentation.pinned);
                hovered = hovered.or(pinned);
                layout::gap(ui, ctx.theme);
                lists::holds_most(ui, ctx, state, sites, &answers.holders);
            });
        });
        crate::views::map::hover(ctx, &mut self.hovered, hovered);
    }
}

#[cfg(test)]
mod tests;
