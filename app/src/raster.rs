//! Paints the program's real screens into an image without a window or a graphics card.
//!
//! egui hands over triangles with a colour and a texture position at each corner. This file fills them the way egui's own
//! renderers do: colours and textures are multiplied and blended with premultiplied alpha, in gamma space. It serves
//! `open --png`, the pictures in the documentation, and tests that look at pixels.

use std::collections::HashMap;

use egui::epaint::{ImageDelta, Mesh, Primitive, Vertex};
use egui::{Color32, ColorImage, Context, ImageData, Rect, TextureFilter, TextureId, TextureOptions, TexturesDelta};

/// Frames a screen gets to settle: layout in egui takes a second pass, and answers of queries come a frame later.
const MOST_FRAMES: usize = 2000;
/// Pause between frames while an answer is still being worked out.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(4);

/// An egui context without a window, with its textures.
pub struct Offscreen {
    ctx: Context,
    size: egui::Vec2,
    scale: f32,
    textures: Textures,
    time: f64,
    events: Vec<egui::Event>,
}

impl Offscreen {
    /// A screen of `size` points with `scale` pixels a point, showing dark or light.
    pub fn new(size: egui::Vec2, scale: f32, theme: egui::Theme) -> Self {
        let ctx = Context::default();
        crate::theme::install(&ctx);
        ctx.set_theme(theme);
        Self { ctx, size, scale, textures: Textures::default(), time: 0.0, events: Vec::new() }
    }

    /// The context, for whoever must ask for repaints of it.
    pub fn ctx(&self) -> &Context {
        &self.ctx
    }

    /// Puts the pointer somewhere, or does whatever else a user can do, before the next frame.
    pub fn send(&mut self, event: egui::Event) {
        self.events.push(event);
    }

    /// Runs `ui` until it asks for no more frames and tells that it waits for nothing (`false`), then returns the picture.
    pub fn picture(&mut self, ui: impl FnMut(&mut egui::Ui) -> bool) -> ColorImage {
        let output = self.settle(ui);
        let primitives = self.ctx.tessellate(output.shapes, output.pixels_per_point);
        self.paint(&primitives, output.pixels_per_point)
    }

    /// The same without painting. Returns the last frame; its textures are already in place.
    pub fn settle(&mut self, mut ui: impl FnMut(&mut egui::Ui) -> bool) -> egui::FullOutput {
        let mut frames = 0;
        loop {
            let input = self.input();
            let mut waiting = false;
            let mut output = self.ctx.run_ui(input, |root| waiting = ui(root));
            frames += 1;
            self.textures.apply(&output.textures_delta);
            let freed = std::mem::take(&mut output.textures_delta.free);
            output.textures_delta.clear();
            let settled = !self.ctx.has_requested_repaint() && !waiting;
            if frames > 2 && (settled || frames >= MOST_FRAMES) {
                return output;
            }
            self.textures.map.retain(|id, _| !freed.contains(id));
            if waiting {
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn input(&mut self) -> egui::RawInput {
        self.time += 1.0 / 4.0;
        // As a window says it. Set on the context instead, it would reach only the second frame whole.
        let viewport = egui::ViewportInfo { native_pixels_per_point: Some(self.scale), ..Default::default() };
        egui::RawInput {
            viewports: std::iter::once((egui::ViewportId::ROOT, viewport)).collect(),
            screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, self.size)),
            time: Some(self.time),
            focused: true,
            events: std::mem::take(&mut self.events),
            ..Default::default()
        }
    }

    fn paint(&self, primitives: &[egui::ClippedPrimitive], scale: f32) -> ColorImage {
        let size = [(self.size.x * scale).round() as usize, (self.size.y * scale).round() as usize];
        let mut canvas = Canvas { width: size[0], pixels: vec![Color32::BLACK; size[0] * size[1]] };
        for primitive in primitives {
            let clip = PixelRect::of(primitive.clip_rect, scale, size);
            if let Primitive::Mesh(mesh) = &primitive.primitive
                && let Some(texture) = self.textures.map.get(&mesh.texture_id)
            {
                canvas.mesh(mesh, texture, clip, scale);
            }
        }
        ColorImage::new(size, canvas.pixels)
    }
}

/// Writes an image as a PNG file.
pub fn write_png(path: &std::path::Path, image: &ColorImage) -> Result<(), String> {
    let sentence = |error: &dyn std::fmt::Display| format!("{} cannot be written: {error}", path.display());
    let file = std::fs::File::create(path).map_err(|error| sentence(&error))?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), image.width() as u32, image.height() as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(|error| sentence(&error))?;
    let bytes: Vec<u8> = image.pixels.iter().flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()]).collect();
    writer.write_image_data(&bytes).map_err(|error| sentence(&error))?;
    writer.finish().map_err(|error| sentence(&error))
}

/// Textures by id, kept up to date from egui's deltas.
#[derive(Default)]
struct Textures {
    map: HashMap<TextureId, Texture>,
}

struct Texture {
    image: ColorImage,
    options: TextureOptions,
}

impl Textures {
    fn apply(&mut self, delta: &TexturesDelta) {
        for (&id, changes) in &delta.set {
            for change in changes {
                self.apply_one(id, change);
            }
        }
    }

    fn apply_one(&mut self, id: TextureId, change: &ImageDelta) {
        let ImageData::Color(image) = &change.image;
        let Some([left, top]) = change.pos else {
            self.map.insert(id, Texture { image: ColorImage::clone(image), options: change.options });
            return;
        };
        if let Some(texture) = self.map.get_mut(&id) {
            let (width, patch) = (texture.image.width(), image.width());
            for (row, pixels) in image.pixels.chunks_exact(patch).enumerate() {
                let start = (top + row) * width + left;
                texture.image.pixels[start..start + patch].copy_from_slice(pixels);
            }
        }
    }
}

impl Texture {
    /// The colour at a texture position (0 to 1 on both axes), premultiplied, channels 0 to 255.
    fn sample(&self, u: f32, v: f32) -> [f32; 4] {
        let (width, height) = (self.image.width(), self.image.height());
        let (x, y) = (u * width as f32, v * height as f32);
        if self.options.magnification == TextureFilter::Nearest {
            return self.texel(x.floor() as i64, y.floor() as i64);
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (right_part, low_part) = (x - left, y - top);
        let (left, top) = (left as i64, top as i64);
        if right_part < 1e-3 && low_part < 1e-3 {
            return self.texel(left, top);
        }
        let corners = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| self.texel(left + dx, top + dy));
        let mut color = [0.0; 4];
        for (channel, value) in color.iter_mut().enumerate() {
            let upper = corners[0][channel] + (corners[1][channel] - corners[0][channel]) * right_part;
            let lower = corners[2][channel] + (corners[3][channel] - corners[2][channel]) * right_part;
            *value = upper + (lower - upper) * low_part;
        }
        color
    }

    /// The texel, with positions outside drawn to the edge.
    fn texel(&self, x: i64, y: i64) -> [f32; 4] {
        let (width, height) = (self.image.width(), self.image.height());
        let x = x.clamp(0, width as i64 - 1) as usize;
        let y = y.clamp(0, height as i64 - 1) as usize;
        self.image.pixels[y * width + x].to_array().map(f32::from)
    }
}

/// A rectangle of whole pixels, upper bounds excluded.
#[derive(Clone, Copy)]
struct PixelRect {
    left: i64,
    top: i64,
    right: i64,
    bottom: i64,
}

impl PixelRect {
    fn of(rect: Rect, scale: f32, size: [usize; 2]) -> Self {
        let bound = |value: f32, most: usize| ((value * scale).round() as i64).clamp(0, most as i64);
        Self {
            left: bound(rect.min.x, size[0]),
            top: bound(rect.min.y, size[1]),
            right: bound(rect.max.x, size[0]),
            bottom: bound(rect.max.y, size[1]),
        }
    }
}

struct Canvas {
    width: usize,
    pixels: Vec<Color32>,
}

impl Canvas {
    fn mesh(&mut self, mesh: &Mesh, texture: &Texture, clip: PixelRect, scale: f32) {
        for corners in mesh.triangles() {
            let [a, b, c] = corners.map(|index| mesh.vertices[index as usize]);
            self.triangle([a, b, c], texture, clip, scale);
        }
    }

    /// Fills the pixels whose centre lies in the triangle. A centre on an edge belongs to one side of it only (the rule of
    /// graphics cards), so that triangles sharing an edge neither overlap nor leave a gap.
    fn triangle(&mut self, mut corners: [Vertex; 3], texture: &Texture, clip: PixelRect, scale: f32) {
        let place = |vertex: &Vertex| (f64::from(vertex.pos.x * scale), f64::from(vertex.pos.y * scale));
        let area = edge(place(&corners[0]), place(&corners[1]), place(&corners[2]));
        if area == 0.0 || !area.is_finite() {
            return;
        }
        if area < 0.0 {
            corners.swap(1, 2);
        }
        let points = corners.each_ref().map(place);
        let bounds =
            |values: [f64; 3]| (values[0].min(values[1]).min(values[2]), values[0].max(values[1]).max(values[2]));
        let (left, right) = bounds(points.map(|point| point.0));
        let (top, bottom) = bounds(points.map(|point| point.1));
        let columns = (left.floor() as i64).max(clip.left)..(right.ceil() as i64).min(clip.right);
        let rows = (top.floor() as i64).max(clip.top)..(bottom.ceil() as i64).min(clip.bottom);
        let flat = corners[0].color == corners[1].color
            && corners[1].color == corners[2].color
            && corners[0].uv == corners[1].uv
            && corners[1].uv == corners[2].uv;
        let flat_color = flat.then(|| shade(&corners, [1.0, 0.0, 0.0], texture));
        for y in rows {
            let mut entered = false;
            for x in columns.clone() {
                let centre = (x as f64 + 0.5, y as f64 + 0.5);
                let weight = |from: usize, to: usize| inside(points[from], points[to], centre);
                let (Some(a), Some(b), Some(c)) = (weight(1, 2), weight(2, 0), weight(0, 1)) else {
                    // A row of a triangle is one run.
                    if entered {
                        break;
                    }
                    continue;
                };
                entered = true;
                let color = flat_color.unwrap_or_else(|| {
                    let part = area.abs().recip();
                    shade(&corners, [(a * part) as f32, (b * part) as f32, (c * part) as f32], texture)
                });
                self.blend(y as usize * self.width + x as usize, color);
            }
        }
    }

    fn blend(&mut self, index: usize, color: [f32; 4]) {
        if color[3] >= 255.0 {
            self.pixels[index] =
                Color32::from_rgb(color[0].round() as u8, color[1].round() as u8, color[2].round() as u8);
            return;
        }
        let keep = 1.0 - color[3] / 255.0;
        let under = self.pixels[index].to_array();
        let channel = |c: usize| (color[c] + f32::from(under[c]) * keep).round().clamp(0.0, 255.0) as u8;
        self.pixels[index] = Color32::from_rgb(channel(0), channel(1), channel(2));
    }
}

/// Vertex colour times texture colour at the given weights of the corners.
fn shade(corners: &[Vertex; 3], weights: [f32; 3], texture: &Texture) -> [f32; 4] {
    let blend = |value: &dyn Fn(&Vertex) -> f32| {
        value(&corners[0]) * weights[0] + value(&corners[1]) * weights[1] + value(&corners[2]) * weights[2]
    };
    let texel = texture.sample(blend(&|vertex| vertex.uv.x), blend(&|vertex| vertex.uv.y));
    let mut color = [0.0; 4];
    for (channel, value) in color.iter_mut().enumerate() {
        *value = blend(&|vertex| f32::from(vertex.color.to_array()[channel])) * texel[channel] / 255.0;
    }
    color
}

/// Twice the signed area of a triangle.
fn edge(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> f64 {
    (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0)
}

/// The weight of the corner opposite the edge, if the point lies on the inner side or on an edge that owns its points.
fn inside(from: (f64, f64), to: (f64, f64), point: (f64, f64)) -> Option<f64> {
    let weight = edge(from, to, point);
    let owns = from.1 == to.1 && to.0 > from.0 || to.1 < from.1;
    (weight > 0.0 || weight == 0.0 && owns).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{Shape, pos2};

    fn painted(shapes: impl Fn(&egui::Painter) + 'static) -> ColorImage {
        let mut screen = Offscreen::new(egui::vec2(40.0, 30.0), 2.0, egui::Theme::Dark);
        screen.picture(move |ui| {
            shapes(ui.painter());
            false
        })
    }

    fn at(image: &ColorImage, x: usize, y: usize) -> [u8; 3] {
        let pixel = image.pixels[y * image.width() + x];
        [pixel.r(), pixel.g(), pixel.b()]
    }

    #[test]
    fn a_rectangle_covers_exactly_its_pixels() {
        let image = painted(|painter| {
            let mut mesh = Mesh::default();
            mesh.add_colored_rect(Rect::from_min_max(pos2(5.0, 6.0), pos2(10.0, 12.0)), Color32::from_rgb(10, 200, 30));
            painter.add(Shape::mesh(mesh));
        });
        assert_eq!(image.size, [80, 60]);
        let count = image.pixels.iter().filter(|pixel| pixel.g() == 200).count();
        assert_eq!(count, 10 * 12);
        assert_eq!(at(&image, 10, 12), [10, 200, 30]);
        assert_eq!(at(&image, 19, 23), [10, 200, 30]);
        assert_ne!(at(&image, 20, 23), [10, 200, 30]);
    }

    #[test]
    fn triangles_that_share_an_edge_do_not_overlap() {
        // Half-transparent white over black twice would be brighter along a shared diagonal.
        let image = painted(|painter| {
            let all = Rect::from_min_max(pos2(0.0, 0.0), pos2(40.0, 30.0));
            let mut mesh = Mesh::default();
            mesh.add_colored_rect(all, Color32::BLACK);
            mesh.add_colored_rect(all, Color32::from_white_alpha(128));
            painter.add(Shape::mesh(mesh));
        });
        assert!(image.pixels.iter().all(|pixel| pixel.r() == 128), "{:?}", image.pixels.iter().map(Color32::r).max());
    }

    #[test]
    fn text_is_painted_and_clipped() {
        let text = |clip: Rect| {
            painted(move |painter| {
                let painter = painter.with_clip_rect(clip);
                painter.rect_filled(clip, 0.0, Color32::BLACK);
                painter.text(pos2(0.0, 0.0), egui::Align2::LEFT_TOP, "MMMM", crate::theme::mono(13.0), Color32::WHITE);
            })
        };
        let whole = text(Rect::from_min_max(pos2(0.0, 0.0), pos2(40.0, 30.0)));
        let half = text(Rect::from_min_max(pos2(0.0, 0.0), pos2(20.0, 30.0)));
        let bright = |image: &ColorImage, from: usize| {
            (0..image.pixels.len()).filter(|i| i % 80 >= from && image.pixels[*i].r() > 200).count()
        };
        assert!(bright(&whole, 0) > 100);
        assert!(bright(&whole, 40) > 20);
        assert_eq!(bright(&half, 40), 0);
    }
}
