//! Whether a request would be served now, and if not, why.

use egui::{Align2, Rect, RichText, Role, Sense, Ui, WidgetInfo, pos2, vec2};
use vramscope_model::{Fit, LaneState, fit};
use vramscope_trace::{PoolOwner, StreamId};

use super::layout;
use super::model::{self, Answers, Reason, Request, Verdict};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::glossary;
use crate::theme::{self, CONTROL, SMALL, Theme, UNIT};
use crate::widgets::fill::Fill;
use crate::widgets::icon::{self, Icon};
use crate::widgets::{bytes, controls};

/// Most other places that are told.
const MOST_PLACES: usize = 4;

/// The field for a size, and the last answer.
#[derive(Default)]
pub(super) struct RequestField {
    text: String,
    /// What was typed; `None` = the recording's own next request.
    typed: Option<u64>,
    error: Option<String>,
    answer: Option<(Asked, Vec<(Place, Fit)>)>,
}

/// A pool's owner and a stream: what a request is for.
type Place = (PoolOwner, StreamId);

#[derive(Clone, Copy, PartialEq)]
struct Asked {
    key: model::Key,
    bytes: u64,
    place: Place,
}

impl RequestField {
    /// Paints the section.
    pub(super) fn show(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, state: &LaneState, answers: &Answers) {
        let theme = ctx.theme;
        layout::heading(ui, theme, glossary::NEXT_REQUEST, "");
        self.field(ui, ctx, answers.next);
        if let Some(error) = &self.error {
            ui.add(egui::Label::new(RichText::new(error).font(theme::font(SMALL)).color(theme.danger)).wrap());
        }
        let place = answers.next.map_or((PoolOwner::DEFAULT, StreamId(0)), |next| (next.owner, next.stream));
        if let Some(oom) = answers.failed.filter(|oom| oom.at != ctx.cursor) {
            let value = bytes::short(oom.requested);
            let row = layout::Row {
                name: "Go to the request that failed",
                value: &value,
                button: true,
                ..layout::Row::default()
            };
            let response = layout::row(ui, theme, row);
            if response.on_hover_text("Put the cursor just before it failed").clicked() {
                ctx.commands.send(Command::MoveCursor(oom.at));
            }
        }
        let Some(bytes) = self.typed.or(answers.next.map(|next| next.bytes)) else {
            return layout::sentence(ui, theme, "Nothing is allocated after the cursor: type a size to try it.");
        };
        let asked = Asked { key: model::key(ctx), bytes, place };
        let known = self.answer.take().filter(|(known, _)| *known == asked);
        let (_, fits) = self.answer.insert(known.unwrap_or_else(|| (asked, ask(ctx, state, asked, answers))));
        let Some((_, here)) = fits.first() else { return };
        compare(ui, ctx, here);
        let verdict = model::verdict(here, answers.fragmentation.reserved, ctx.capacity);
        answer(ui, theme, &verdict);
        for ((owner, stream), fit) in fits.iter().skip(1).take(MOST_PLACES) {
            let pool =
                if owner.is_private() { format!("private pool ({}, {}), ", owner.0, owner.1) } else { String::new() };
            let verdict = model::verdict(fit, answers.fragmentation.reserved, None);
            let text = if verdict.served { "served from cache" } else { "needs a new segment" };
            let row = layout::Row { name: &format!("{pool}{stream}"), value: text, ..layout::Row::default() };
            layout::row(ui, theme, row).on_hover_text("The same request from there");
        }
    }

    /// The field, and where its size comes from.
    fn field(&mut self, ui: &mut Ui, ctx: &Ctx<'_>, next: Option<Request>) {
        let theme = ctx.theme;
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 2.0 * UNIT;
            let field = controls::field(ui, theme, "Size of the request", "a size", 22.0 * UNIT, &mut self.text);
            if field.lost_focus() {
                self.typed = None;
                self.error = None;
                match self.text.trim() {
                    "" => {}
                    text if next.is_some_and(|next| text == bytes::short(next.bytes)) => {}
                    text => match bytes::parse(text) {
                        Ok(size) => self.typed = Some(size),
                        Err(sentence) => self.error = Some(sentence),
                    },
                }
            } else if !field.has_focus() && self.error.is_none() {
                let shown = self.typed.or(next.map(|next| next.bytes)).map_or_else(String::new, bytes::short);
                if self.text != shown {
                    self.text = shown;
                }
            }
            let source = match (self.typed, next.map(|next| next.reason)) {
                (Some(_), _) => "as typed",
                (None, Some(Reason::Failed)) => "the one that failed",
                (None, Some(Reason::Next)) => "next in the recording",
                (None, None) => "",
            };
            ui.label(theme.caption(source));
            let back = self.typed.is_some() || self.error.is_some();
            if back
                && controls::icon_button(ui, theme, Icon::Close, "", "Back to the recording\u{2019}s next request")
                    .clicked()
            {
                (self.typed, self.error) = (None, None);
            }
        });
        ui.add_space(UNIT);
    }
}

/// Asks for the request's own place first, then for every other pool owner and stream there is.
fn ask(ctx: &Ctx<'_>, state: &LaneState, asked: Asked, answers: &Answers) -> Vec<(Place, Fit)> {
    let settings = model::settings(ctx.history);
    let mut places = vec![asked.place];
    for pool in &answers.fragmentation.by_pool {
        let place = (pool.pool.map_or(PoolOwner::DEFAULT, |pool| pool.owner), pool.stream.unwrap_or_default());
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.truncate(MOST_PLACES + 1);
    places.into_iter().map(|place| (place, fit(state, asked.bytes, place.0, place.1, &settings))).collect()
}

/// The request and the longest free piece, one above the other on one scale.
fn compare(ui: &mut Ui, ctx: &Ctx<'_>, fit: &Fit) {
    let theme = ctx.theme;
    let most = fit.rounded.max(fit.largest_free_here).max(1);
    let lines = [
        ("request", fit.rounded, None),
        ("longest free piece", fit.largest_free_here, Some(Fill::Releasable)),
        ("all free pieces", fit.free_here, Some(Fill::Releasable)),
    ];
    let most = most.max(fit.free_here.min(most.saturating_mul(3)));
    for (name, size, fill) in lines {
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 4.5 * UNIT), Sense::hover());
        let painter = ui.painter();
        painter.text(rect.left_center(), Align2::LEFT_CENTER, name, theme::font(SMALL), theme.muted);
        painter.text(rect.right_center(), Align2::RIGHT_CENTER, bytes::text(size), theme::mono(SMALL), theme.text);
        let (from, to) = (rect.left() + 27.0 * UNIT, rect.right() - 20.0 * UNIT);
        let width = ((to - from) * (size as f64 / most as f64).min(1.0) as f32).max(if size > 0 { 1.0 } else { 0.0 });
        let bar = Rect::from_min_max(pos2(from, rect.center().y - 4.0), pos2(from + width, rect.center().y + 4.0));
        match fill {
            Some(fill) => fill.paint(painter, bar, theme),
            None => drop(painter.rect_filled(bar, 1.0, theme.accent)),
        }
        let spoken = format!("{name}: {}", bytes::text(size));
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &spoken));
        response.on_hover_text(bytes::exact(size));
    }
    ui.add_space(UNIT);
}

fn answer(ui: &mut Ui, theme: &Theme, verdict: &Verdict) {
    let color = if verdict.served { theme.categories[2] } else { theme.warn };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), CONTROL - 2.0 * UNIT), Sense::hover());
    let shape = if verdict.served { Icon::Fine } else { Icon::Warning };
    icon::paint(ui.painter(), rect.left_center() + vec2(2.0 * UNIT, 0.0), shape, color);
    let at = rect.left_center() + vec2(5.0 * UNIT, 0.0);
    ui.painter().text(at, Align2::LEFT_CENTER, &verdict.line, theme::strong(SMALL + 1.0), theme.text);
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &verdict.line));
    for reason in &verdict.reasons {
        layout::sentence(ui, theme, reason);
    }
    ui.add_space(UNIT);
}
