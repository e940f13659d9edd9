//! Where the reserved memory goes: one bar, and the figures that add up to it.

use egui::{Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};
use vramscope_model::Fragmentation;

use super::layout::{self, Row};
use crate::ctx::Ctx;
use crate::glossary::{self, Term};
use crate::theme::UNIT;
use crate::widgets::fill::Fill;
use crate::widgets::{bytes, number};

/// Height of the bar.
const BAR: f32 = 4.0 * UNIT;

/// The colour of allocated memory in the bar.
const IN_USE: Fill = Fill::Category(0);

/// Paints the section.
pub(super) fn show(ui: &mut Ui, ctx: &Ctx<'_>, figures: &Fragmentation) {
    let theme = ctx.theme;
    layout::heading(ui, theme, glossary::AT_CURSOR, &format!("{} reserved", bytes::text(figures.reserved)));
    let parts = [
        (IN_USE, glossary::ALLOCATED, figures.allocated),
        (Fill::Pending, glossary::PENDING, figures.pending),
        (Fill::Pinned, glossary::PINNED, figures.pinned),
        (Fill::Releasable, glossary::RELEASABLE, figures.releasable),
    ];
    bar(ui, ctx, figures.reserved, &parts);
    ui.add_space(1.5 * UNIT);
    for (fill, term, size) in parts {
        part(ui, ctx, Some(fill), term, size, figures.reserved);
        if term == glossary::ALLOCATED && figures.rounding.is_some_and(|rounding| rounding > 0) {
            part(ui, ctx, None, glossary::ROUNDING, figures.rounding.unwrap_or(0), figures.reserved);
        }
    }
    ui.add_space(UNIT);
    plain(ui, ctx, glossary::REQUESTED, &bytes::maybe(figures.requested));
    let counts = format!(
        "{} in {}",
        number::of(figures.blocks, "block", "blocks"),
        number::of(figures.segments, "segment", "segments")
    );
    plain(ui, ctx, glossary::BLOCKS, &counts);
    if figures.loose_blocks > 0 {
        plain(ui, ctx, glossary::LOOSE, &bytes::text(figures.loose));
    }
}

/// The bar: each part as long as its share, and no part that exists shorter than a hair.
fn bar(ui: &mut Ui, ctx: &Ctx<'_>, all: u64, parts: &[(Fill, Term, u64)]) {
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), BAR), Sense::hover());
    let theme = ctx.theme;
    if all == 0 {
        ui.painter().rect_stroke(rect, 2.0, theme.hairline(), egui::StrokeKind::Inside);
        return;
    }
    let mut left = rect.left();
    let shown = parts.iter().filter(|(_, _, size)| *size > 0);
    let count = shown.clone().count() as f32;
    let room = rect.width() - (count - 1.0) - 2.0 * count;
    for (fill, term, size) in shown {
        let width = 2.0 + room * (*size as f64 / all as f64) as f32;
        let part = Rect::from_min_max(pos2(left, rect.top()), pos2(left + width, rect.bottom()));
        fill.paint(ui.painter(), part, theme);
        let piece = ui.interact(part, response.id.with(term.name), Sense::hover());
        explained(piece, ctx, *term, *size);
        left += width + 1.0;
    }
    let spoken = parts.iter().map(|(_, term, size)| format!("{} {}", term.name, bytes::text(*size)));
    let spoken = format!("Reserved memory: {}", spoken.collect::<Vec<_>>().join(", "));
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, &spoken));
}

fn part(ui: &mut Ui, ctx: &Ctx<'_>, fill: Option<Fill>, term: Term, size: u64, all: u64) {
    let percent = percent(size, all);
    let (value, inset) = (bytes::text(size), fill.is_none());
    let name = if inset { "of it rounding" } else { term.name };
    let row = Row { fill, name, note: &percent, value: &value, inset, ..Row::default() };
    explained(layout::row(ui, ctx.theme, row), ctx, term, size);
}

fn plain(ui: &mut Ui, ctx: &Ctx<'_>, term: Term, value: &str) {
    layout::row(ui, ctx.theme, Row { name: term.name, value, ..Row::default() }).on_hover_text(term.meaning);
}

fn explained(response: Response, ctx: &Ctx<'_>, term: Term, size: u64) {
    response.on_hover_ui(|ui| {
        ui.label(term.meaning);
        ui.label(ctx.theme.caption(bytes::exact(size)));
    });
}

/// A share of a whole; never 0 % for something, never 100 % for less than all.
pub(super) fn percent(part: u64, all: u64) -> String {
    if all == 0 || part == 0 {
        return "0 %".to_owned();
    }
    let share = part as f64 / all as f64 * 100.0;
    match share {
        _ if part == all => "100 %".to_owned(),
        _ if share < 0.1 => "<0.1 %".to_owned(),
        _ if share > 99.9 => ">99.9 %".to_owned(),
        _ => format!("{share:.1} %"),
    }
}
