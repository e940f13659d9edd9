//! What can be told about one block, in words, for tooltips and for the side panel.

use egui::{Grid, RichText, Ui};
use vramscope_model::Block;

use crate::ctx::Ctx;
use crate::theme::{self, SMALL, Theme, UNIT};
use crate::views::map::pool_name;
use crate::widgets::{bytes, number, time};

/// A word and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The word.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// More about it, on hover.
    pub more: Option<String>,
}

impl Fact {
    /// A plain value.
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), more: None }
    }

    /// A size, exact on hover.
    pub fn exact(name: &'static str, size: u64) -> Self {
        Self { name, value: bytes::text(size), more: Some(bytes::exact(size)) }
    }
}

/// Size, what was asked for, age, place.
pub fn of(ctx: &Ctx<'_>, block: &Block) -> Vec<Fact> {
    let mut facts = vec![Fact::exact("size", block.bytes)];
    match block.requested {
        Some(requested) => {
            let rounding = block.bytes.saturating_sub(requested);
            let text = if rounding == 0 {
                bytes::text(requested)
            } else {
                format!("{} + {} rounding", bytes::text(requested), bytes::text(rounding))
            };
            facts.push(Fact { name: "requested", value: text, more: Some(bytes::exact(requested)) });
        }
        None => facts.push(Fact::new("requested", "not told by this recording")),
    }
    facts.push(Fact::new("age", age(ctx, block)));
    if block.free_requested.is_some_and(|at| at <= ctx.cursor) {
        let gone = block.free_completed.is_some_and(|at| at <= ctx.cursor);
        facts.push(Fact::new("state", if gone { "freed" } else { "pending: freed, another stream may still use it" }));
    }
    let stream = block.stream.map_or_else(|| "unknown stream".to_owned(), |stream| stream.to_string());
    facts.push(Fact::new("pool", format!("{}, {stream}", pool_name(block.pool))));
    facts.push(Fact::new("address", format!("{:#x}", block.address)));
    facts
}

/// How long a block has lived at the cursor, or lived in all.
fn age(ctx: &Ctx<'_>, block: &Block) -> String {
    if block.at_start {
        return "from before the recording".to_owned();
    }
    let until = block.free_requested.map_or(ctx.cursor, |freed| freed.min(ctx.cursor));
    if until < block.allocated {
        return "not allocated yet".to_owned();
    }
    let events = number::of(u64::from(until.0 - block.allocated.0), "event", "events");
    match (ctx.axis.elapsed(block.allocated), ctx.axis.elapsed(until)) {
        (Some(from), Some(to)) => format!("{}, {events}", time::duration(to - from)),
        _ => events,
    }
}

/// Words left, values right of them.
pub fn table(ui: &mut Ui, theme: &Theme, id: &str, facts: &[Fact]) {
    Grid::new(id).num_columns(2).spacing([3.0 * UNIT, 2.0]).min_row_height(4.0 * UNIT).show(ui, |ui| {
        for fact in facts {
            ui.label(theme.caption(fact.name));
            let label = ui.label(RichText::new(&fact.value).font(theme::mono(SMALL)).color(theme.text));
            if let Some(more) = &fact.more {
                label.on_hover_text(more);
            }
            ui.end_row();
        }
    });
}
