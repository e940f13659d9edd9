//! The timeline's chart: `egui_plot` draws the axes, the grid and the straight lines; the curves are items of our own, one
//! mesh each with a few quads a pixel column, so that no peak is lost and the work depends on pixels alone.

use std::ops::RangeInclusive;

use egui::epaint::{Mesh, Shape};
use egui::{Color32, Id, Rangef, Sense, Ui, UiBuilder};
use egui_plot::{
    AxisHints, GridMark, HLine, LineStyle, Plot, PlotBounds, PlotGeometry, PlotItem, PlotItemBase, PlotTransform,
    PlotUi, VLine,
};
use vramscope_model::Metric;

use super::layout::{Areas, GUTTER, RULER};
use super::model::Data;
use super::notes::Notes;
use crate::axis::Span;
use crate::ctx::{Ctx, metric_color};
use crate::theme::{self, SMALL, UNIT, mix};
use crate::widgets::bytes;
use crate::widgets::steps::{StepArea, StepStyle, add};

/// A layer of a curve: opacity of the filled part; and of the band between lowest and highest value and of the upper edge.
type Layer = (Metric, Option<f32>, Option<(f32, f32)>);

/// The curves from back to front. Allocated comes in two layers: requested is hardly less and would else be hidden by its
/// filling or hide its edge.
const LAYERS: [Layer; 5] = [
    (Metric::Reserved, Some(0.15), Some((0.42, 0.9))),
    (Metric::Allocated, Some(0.30), None),
    (Metric::Requested, None, Some((0.45, 0.8))),
    (Metric::Allocated, None, Some((0.62, 1.0))),
    (Metric::Pending, Some(0.35), Some((0.7, 1.0))),
];
/// Between the plot and the numbers below it: room for the cursor's handle.
const HANDLE: f32 = 2.5 * UNIT;
/// About what a digit of an axis takes, in points.
const DIGIT: f32 = 6.2;
/// Hatching of places where events are missing: from line to line, in points.
const HATCH: f32 = 6.0;

/// Draws the chart into its area. The mouse is not the chart's business.
pub(super) fn show(ui: &mut Ui, ctx: &Ctx<'_>, areas: &Areas, data: &Data, notes: &Notes) {
    let (theme, plot) = (ctx.theme, areas.plot);
    let place = plot.with_min_x(plot.left() - GUTTER).with_max_y(plot.bottom() + RULER);
    let font = theme::mono(SMALL - 1.0);
    let always = Rangef::new(1.0, 2.0);
    let hints = |hints: AxisHints<'static>| {
        hints.tick_label_color(theme.faint).tick_label_font(font.clone()).label_spacing(always)
    };
    let most = (plot.width() / (24.0 * UNIT)) as usize;
    let rows = (plot.height() / (11.0 * UNIT)) as u32;
    let room = AxisHints::new_x().min_thickness(HANDLE).formatter(|_, _| String::new());
    let chart = Plot::new("chart")
        .id(Id::unique("timeline chart"))
        .width(place.width())
        .height(place.height())
        .sense(Sense::hover())
        .allow_zoom(false)
        .allow_drag(false)
        .allow_scroll(false)
        .allow_axis_zoom_drag(false)
        .allow_boxed_zoom(false)
        .allow_double_click_reset(false)
        .auto_bounds(false)
        .show_x(false)
        .show_y(false)
        .show_background(false)
        .grid_color(mix(theme.canvas, theme.line, 0.8))
        .grid_spacing(always)
        .x_grid_spacer(|input| ticks(ctx, Span { low: input.bounds.0, high: input.bounds.1 }, most))
        .y_grid_spacer(|input| byte_ticks(input.bounds.1, rows))
        .custom_x_axes(vec![
            room,
            hints(AxisHints::new_x())
                .min_thickness(RULER - HANDLE)
                .formatter(|mark, shown| time(ctx, areas, mark, shown)),
        ])
        .custom_y_axes(vec![
            hints(AxisHints::new_y()).min_thickness(GUTTER).formatter(|mark, _| bytes::short(mark.value as u64)),
        ]);
    let mut child = ui.new_child(UiBuilder::new().max_rect(place));
    child.spacing_mut().item_spacing = egui::Vec2::ZERO;
    let shown = chart.show(&mut child, |items| fill(items, ctx, areas, data, notes));
    debug_assert!((shown.transform.frame().min - plot.min).length() < 0.1, "the chart lines up with the overview");
}

fn fill<'a>(items: &mut PlotUi<'a>, ctx: &'a Ctx<'_>, areas: &'a Areas, data: &'a Data, notes: &'a Notes) {
    let theme = ctx.theme;
    let (span, top) = (ctx.span, data.top);
    items.set_plot_bounds(PlotBounds::from_min_max([span.low, 0.0], [span.high, top]));
    for (index, layer) in LAYERS.into_iter().enumerate() {
        if let Some(columns) = data.of(layer.0).filter(|_| ctx.shown.has(layer.0)) {
            let name = format!("curve {index}");
            let paint = move |ui: &Ui, frame: &PlotTransform| curve(ctx, layer, columns, &step_area(ui, frame, top));
            items.add(Item::new(name, metric_color(theme, layer.0), paint));
        }
        // What was allocated before recording is a part of what is allocated: it lies on its filling and below its edge.
        if index == 1 && !data.base.is_empty() && ctx.shown.has(Metric::Allocated) {
            let paint = move |ui: &Ui, frame: &PlotTransform| base(ctx, data, &step_area(ui, frame, top));
            items.add(Item::new("base".to_owned(), theme.allocated, paint));
        }
    }
    if !notes.lost.is_empty() {
        let paint = move |ui: &Ui, _: &PlotTransform| lost(ui, ctx, areas, notes);
        items.add(Item::new("lost events".to_owned(), theme.warn, paint));
    }
    if let Some(capacity) = ctx.capacity.filter(|&capacity| capacity as f64 <= top) {
        let style = LineStyle::Dashed { length: 6.0 };
        items.hline(HLine::new("capacity", capacity as f64).color(theme.danger).width(1.0).style(style));
    }
    // Neighbours on one pixel are one line: there are never more lines than pixels.
    let line = |items: &mut PlotUi<'a>, name: String, places: &[f64], color: Color32, width: f32, style: LineStyle| {
        let mut last = f32::NEG_INFINITY;
        for (index, &place) in places.iter().enumerate() {
            let x = areas.pixel(items.ctx(), span, place);
            if x > last && areas.plot.x_range().contains(x) {
                last = x;
                let line = VLine::new(format!("{name} {index}"), areas.place(span, x));
                items.vline(line.color(color).width(width).style(style));
            }
        }
    };
    let (marks, ooms) = (places(&notes.marks), places(&notes.ooms));
    line(items, "mark".to_owned(), &marks, theme.muted.gamma_multiply(0.7), 1.0, LineStyle::dashed_dense());
    line(items, "out of memory".to_owned(), &ooms, theme.danger, 1.5, LineStyle::Solid);
    let cursor = [ctx.axis.place_of(ctx.cursor)];
    line(items, "cursor".to_owned(), &cursor, theme.accent, 1.0, LineStyle::Solid);
}

fn places<T>(flags: &[super::flags::Flag<T>]) -> Vec<f64> {
    flags.iter().map(|flag| flag.low).collect()
}

/// Where values lie in the chart.
fn step_area(ui: &Ui, transform: &PlotTransform, top: f64) -> StepArea {
    StepArea { rect: *transform.frame(), top, pixels_per_point: ui.pixels_per_point() }
}

fn curve(ctx: &Ctx<'_>, layer: Layer, columns: &[vramscope_model::Column], area: &StepArea) -> Mesh {
    let (metric, fill, edge) = layer;
    let shade = |opacity: f32| mix(ctx.theme.canvas, metric_color(ctx.theme, metric), opacity);
    let style = StepStyle { fill: fill.map(shade), edge: edge.map(|(band, line)| (shade(band), shade(line))) };
    let mut mesh = Mesh::default();
    add(&mut mesh, area, columns, style);
    mesh
}

fn base(ctx: &Ctx<'_>, data: &Data, area: &StepArea) -> Mesh {
    let theme = ctx.theme;
    let tint = mix(theme.allocated, theme.reserved, 0.7);
    let fill = mix(theme.canvas, tint, if theme.dark { 0.42 } else { 0.36 });
    let style = StepStyle { fill: Some(fill), edge: Some((fill, mix(theme.canvas, tint, 0.75))) };
    let mut mesh = Mesh::default();
    add(&mut mesh, area, &data.base, style);
    mesh
}

/// Hatched bands where events are missing, over the whole height.
fn lost(ui: &Ui, ctx: &Ctx<'_>, areas: &Areas, notes: &Notes) -> Mesh {
    let mut mesh = Mesh::default();
    let ink = ctx.theme.warn.gamma_multiply(0.55);
    for band in areas.bands(ui.ctx(), ctx.span, &notes.lost) {
        mesh.add_colored_rect(band, ctx.theme.warn.gamma_multiply(0.10));
        // Lines at 45 degrees, cut off at the sides of the band; they go on from band to band.
        let mut at = ((band.left() + band.top()) / HATCH).floor() * HATCH;
        while at < band.right() + band.bottom() {
            let (left, right) = (band.left().max(at - band.bottom()), band.right().min(at - band.top()));
            if left < right {
                let base = mesh.vertices.len() as u32;
                for (x, shift) in [(left, 0.0), (right, 0.0), (right, 1.4), (left, 1.4)] {
                    mesh.colored_vertex(egui::pos2(x, (at - x + shift).min(band.bottom())), ink);
                }
                mesh.add_triangle(base, base + 1, base + 2);
                mesh.add_triangle(base, base + 2, base + 3);
            }
            at += HATCH;
        }
    }
    mesh
}

/// The marks of the horizontal axis.
fn ticks(ctx: &Ctx<'_>, span: Span, most: usize) -> Vec<GridMark> {
    let (places, step_size) = ctx.axis.ticks(span, most);
    places.into_iter().map(|value| GridMark { value, step_size }).collect()
}

/// A mark of the horizontal axis in words; nothing where the words would be cut off at the window's edge.
fn time(ctx: &Ctx<'_>, areas: &Areas, mark: GridMark, shown: &RangeInclusive<f64>) -> String {
    let text = ctx.axis.tick(mark.value, mark.step_size);
    let half = text.chars().count() as f32 * DIGIT / 2.0;
    let span = Span { low: *shown.start(), high: *shown.end() };
    let x = areas.x(span, mark.value);
    if x + half > areas.plot.right() + super::MARGIN { String::new() } else { text }
}

/// Round byte values from 0 up to `top`, about `count` of them, a power of two apart.
fn byte_ticks(top: f64, count: u32) -> Vec<GridMark> {
    let wish = top / f64::from(count.max(1));
    let step_size = wish.max(1.0).log2().ceil().exp2();
    let value = |index: u32| f64::from(index) * step_size;
    (0..).map(value).take_while(|&value| value <= top).map(|value| GridMark { value, step_size }).collect()
}

/// An item that is one mesh, painted into the chart's frame.
struct Item<F> {
    base: PlotItemBase,
    color: Color32,
    paint: F,
}

impl<F: Fn(&Ui, &PlotTransform) -> Mesh> Item<F> {
    fn new(name: String, color: Color32, paint: F) -> Self {
        Self { base: PlotItemBase::new(name), color, paint }
    }
}

impl<F: Fn(&Ui, &PlotTransform) -> Mesh> PlotItem for Item<F> {
    fn shapes(&self, ui: &Ui, transform: &PlotTransform, shapes: &mut Vec<Shape>) {
        shapes.push(Shape::mesh((self.paint)(ui, transform)));
    }

    fn initialize(&mut self, _: RangeInclusive<f64>) {}

    fn color(&self) -> Color32 {
        self.color
    }

    fn geometry(&self) -> PlotGeometry<'_> {
        PlotGeometry::None
    }

    /// Bounds are set each frame, so nobody asks for an item's.
    fn bounds(&self) -> PlotBounds {
        PlotBounds::NOTHING
    }

    fn base(&self) -> &PlotItemBase {
        &self.base
    }

    fn base_mut(&mut self) -> &mut PlotItemBase {
        &mut self.base
    }
}

#[cfg(test)]
mod tests {
    use super::byte_ticks;

    #[test]
    fn byte_ticks_are_round_in_binary() {
        let values = |top, count| byte_ticks(top, count).into_iter().map(|mark| mark.value).collect::<Vec<_>>();
        let gib = f64::from(1 << 30);
        assert_eq!(values(7.9 * gib, 5), [0.0, 2.0 * gib, 4.0 * gib, 6.0 * gib]);
        assert_eq!(values(1.0, 5), [0.0, 1.0]);
        assert_eq!(values(100.0, 0).len(), 1);
    }
}
