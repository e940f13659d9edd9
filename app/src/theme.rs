//! How everything looks: one 4-point grid, three text sizes, one accent, eight category colours, in dark and in light.
//!
//! [`install`] turns egui's own look into ours, so that ordinary widgets need no styling. What is painted by hand takes its
//! colours from [`Theme`], and nothing outside this file names a colour.

use std::sync::Arc;

use egui::{Color32, Context, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Margin, RichText, Stroke};

/// The grid: every distance is a multiple of this, in points.
pub const UNIT: f32 = 4.0;
/// Captions, axis labels, table heads.
pub const SMALL: f32 = 11.0;
/// Everything that is read.
pub const BODY: f32 = 13.0;
/// Titles, one a screen.
pub const TITLE: f32 = 20.0;
/// Corners of cards and fields.
pub const RADIUS: u8 = 6;
/// Height of buttons and fields.
pub const CONTROL: f32 = 28.0;

/// Colours by what they are for. Two exist, [`Theme::DARK`] and [`Theme::LIGHT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theme {
    /// Whether text is light on dark.
    pub dark: bool,
    /// What lies deepest: behind plots and maps.
    pub canvas: Color32,
    /// Bars and panels.
    pub panel: Color32,
    /// Cards, fields, pop-ups.
    pub raised: Color32,
    /// What lies under the pointer.
    pub hover: Color32,
    /// What is pressed or chosen.
    pub pressed: Color32,
    /// Hairlines between areas, and grid lines.
    pub line: Color32,
    /// Frames of fields and buttons.
    pub line_strong: Color32,
    /// What is read first.
    pub text: Color32,
    /// Labels beside what is read first.
    pub muted: Color32,
    /// Axis labels, hints, what is switched off.
    pub faint: Color32,
    /// The one accent: the cursor, the chosen thing, the main button.
    pub accent: Color32,
    /// Text on the accent.
    pub on_accent: Color32,
    /// Attention, not danger.
    pub warn: Color32,
    /// Danger: out of memory, errors.
    pub danger: Color32,
    /// Eight colours for categories, told apart under the common kinds of colour blindness and in print.
    pub categories: [Color32; 8],
    /// Bytes reserved from the driver.
    pub reserved: Color32,
    /// Bytes of blocks in use.
    pub allocated: Color32,
    /// Bytes that tensors asked for.
    pub requested: Color32,
    /// Bytes freed that wait for another stream.
    pub pending: Color32,
}

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

impl Theme {
    /// Light text on near-black blue-grey.
    pub const DARK: Self = Self {
        dark: true,
        canvas: rgb(0x0d_1015),
        panel: rgb(0x12_161c),
        raised: rgb(0x19_1e26),
        hover: rgb(0x21_2832),
        pressed: rgb(0x2a_3340),
        line: rgb(0x20_2630),
        line_strong: rgb(0x32_3b48),
        text: rgb(0xdd_e3ea),
        muted: rgb(0x93_9eac),
        faint: rgb(0x63_6e7d),
        accent: rgb(0x5e_a1ff),
        on_accent: rgb(0x08_111d),
        warn: rgb(0xe9_a84a),
        danger: rgb(0xf2_6d6b),
        categories: [
            rgb(0x57_9fe6),
            rgb(0xe1_7a1a),
            rgb(0x2c_c7bb),
            rgb(0xee_9686),
            rgb(0xf2_d34a),
            rgb(0x94_ebfa),
            rgb(0xbe_4845),
            rgb(0xac_7e9b),
        ],
        reserved: rgb(0x76_859a),
        allocated: rgb(0x57_9fe6),
        requested: rgb(0x5a_d1c0),
        pending: rgb(0xe1_7a1a),
    };

    /// Dark text on white.
    pub const LIGHT: Self = Self {
        dark: false,
        canvas: rgb(0xff_ffff),
        panel: rgb(0xf6_f7f9),
        raised: rgb(0xff_ffff),
        hover: rgb(0xec_eff3),
        pressed: rgb(0xe0_e5ec),
        line: rgb(0xe4_e8ed),
        line_strong: rgb(0xcf_d6de),
        text: rgb(0x1b_212a),
        muted: rgb(0x58_6372),
        faint: rgb(0x8b_95a3),
        accent: rgb(0x1f_69d6),
        on_accent: rgb(0xff_ffff),
        warn: rgb(0xb2_6a00),
        danger: rgb(0xcc_3536),
        categories: [
            rgb(0x2b_7bcf),
            rgb(0xbd_7a00),
            rgb(0x10_7356),
            rgb(0xc0_4b92),
            rgb(0x8a_a37a),
            rgb(0x6f_9de8),
            rgb(0xb4_3900),
            rgb(0x5f_40a0),
        ],
        reserved: rgb(0x8a_97a8),
        allocated: rgb(0x2b_7bcf),
        requested: rgb(0x12_8f83),
        pending: rgb(0xbd_7a00),
    };

    /// The theme a context shows now.
    pub fn of(ctx: &Context) -> &'static Self {
        match ctx.theme() {
            egui::Theme::Dark => &Self::DARK,
            egui::Theme::Light => &Self::LIGHT,
        }
    }

    /// A hairline between areas.
    pub fn hairline(&self) -> Stroke {
        Stroke::new(1.0, self.line)
    }

    /// A caption: small and muted.
    pub fn caption(&self, text: impl Into<String>) -> RichText {
        RichText::new(text).font(font(SMALL)).color(self.muted)
    }

    /// A hint: small and faint.
    pub fn hint(&self, text: impl Into<String>) -> RichText {
        RichText::new(text).font(font(SMALL)).color(self.faint)
    }

    /// A heading inside a screen: body size, heavier.
    pub fn heading(&self, text: impl Into<String>) -> RichText {
        RichText::new(text).font(strong(BODY)).color(self.text)
    }

    /// The title of a screen.
    pub fn title(&self, text: impl Into<String>) -> RichText {
        RichText::new(text).font(strong(TITLE)).color(self.text)
    }

    /// A number or an address: digits of one width.
    pub fn number(&self, text: impl Into<String>) -> RichText {
        RichText::new(text).font(mono(SMALL + 1.0)).color(self.text)
    }
}

/// The text face.
pub fn font(size: f32) -> FontId {
    FontId::new(size, FontFamily::Proportional)
}

/// The text face, half-bold.
pub fn strong(size: f32) -> FontId {
    FontId::new(size, FontFamily::Name("strong".into()))
}

/// The face with digits of one width.
pub fn mono(size: f32) -> FontId {
    FontId::new(size, FontFamily::Monospace)
}

/// `over` at `opacity` (0 to 1) laid over `under`: an opaque colour, so that overlapping shapes do not add up.
pub fn mix(under: Color32, over: Color32, opacity: f32) -> Color32 {
    let channel = |a: u8, b: u8| (f32::from(a) + (f32::from(b) - f32::from(a)) * opacity).round() as u8;
    Color32::from_rgb(channel(under.r(), over.r()), channel(under.g(), over.g()), channel(under.b(), over.b()))
}

/// Gives a context our fonts and both themes. Call once, before the first frame.
pub fn install(ctx: &Context) {
    ctx.set_fonts(fonts());
    for (kind, theme) in [(egui::Theme::Dark, &Theme::DARK), (egui::Theme::Light, &Theme::LIGHT)] {
        let mut style = egui::Style { visuals: visuals(theme), ..Default::default() };
        spacing(&mut style);
        ctx.set_style_of(kind, style);
    }
}

fn fonts() -> FontDefinitions {
    let mut fonts = FontDefinitions::default();
    let faces: [(&str, &'static [u8]); 3] = [
        ("inter", include_bytes!("../../assets/fonts/Inter-Regular.otf")),
        ("inter-strong", include_bytes!("../../assets/fonts/Inter-SemiBold.otf")),
        ("jetbrains-mono", include_bytes!("../../assets/fonts/JetBrainsMono-Regular.ttf")),
    ];
    for (name, bytes) in faces {
        fonts.font_data.insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
    }
    let fallbacks = fonts.families.get(&FontFamily::Proportional).cloned().unwrap_or_default();
    let row = |first: &str| {
        let mut names = vec![first.to_owned(), "inter".to_owned()];
        names.extend(fallbacks.iter().cloned());
        names
    };
    fonts.families.insert(FontFamily::Proportional, row("inter"));
    fonts.families.insert(FontFamily::Monospace, row("jetbrains-mono"));
    fonts.families.insert(FontFamily::Name("strong".into()), row("inter-strong"));
    fonts
}

fn spacing(style: &mut egui::Style) {
    use egui::TextStyle::{Body, Button, Heading, Monospace, Small};
    style.text_styles = [
        (Small, font(SMALL)),
        (Body, font(BODY)),
        (Button, font(BODY)),
        (Heading, strong(TITLE)),
        (Monospace, mono(SMALL + 1.0)),
    ]
    .into();
    let spacing = &mut style.spacing;
    spacing.item_spacing = egui::vec2(2.0 * UNIT, UNIT);
    spacing.button_padding = egui::vec2(2.5 * UNIT, UNIT);
    spacing.interact_size = egui::vec2(CONTROL, CONTROL);
    spacing.window_margin = Margin::same(12);
    spacing.menu_margin = Margin::same(4);
    spacing.tooltip_width = 360.0;
    spacing.scroll = egui::style::ScrollStyle { bar_width: 6.0, ..egui::style::ScrollStyle::floating() };
    style.interaction.selectable_labels = false;
    style.interaction.tooltip_delay = 0.35;
    style.animation_time = 0.12;
    #[cfg(debug_assertions)]
    {
        style.debug.show_unaligned = false;
    }
}

fn visuals(theme: &Theme) -> egui::Visuals {
    let mut visuals = if theme.dark { egui::Visuals::dark() } else { egui::Visuals::light() };
    let radius = CornerRadius::same(RADIUS);
    let widget = |fill: Color32, line: Color32, text: Color32| egui::style::WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, line),
        corner_radius: radius,
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    };
    visuals.widgets.noninteractive = widget(theme.panel, theme.line, theme.text);
    visuals.widgets.inactive = widget(theme.raised, theme.line_strong, theme.text);
    visuals.widgets.hovered = widget(theme.hover, theme.line_strong, theme.text);
    visuals.widgets.active = widget(theme.pressed, theme.accent, theme.text);
    visuals.widgets.open = widget(theme.hover, theme.line_strong, theme.text);
    visuals.weak_text_color = Some(theme.muted);
    visuals.selection.bg_fill = mix(theme.raised, theme.accent, 0.35);
    visuals.selection.stroke = Stroke::new(1.0, theme.accent);
    visuals.hyperlink_color = theme.accent;
    visuals.faint_bg_color = theme.raised;
    visuals.extreme_bg_color = theme.canvas;
    visuals.text_edit_bg_color = Some(theme.canvas);
    visuals.code_bg_color = theme.canvas;
    visuals.warn_fg_color = theme.warn;
    visuals.error_fg_color = theme.danger;
    visuals.window_corner_radius = CornerRadius::same(RADIUS + 2);
    visuals.menu_corner_radius = radius;
    visuals.window_fill = theme.raised;
    visuals.window_stroke = Stroke::new(1.0, theme.line_strong);
    visuals.panel_fill = theme.panel;
    let shade = if theme.dark { 120 } else { 28 };
    visuals.popup_shadow =
        egui::Shadow { offset: [0, 6], blur: 20, spread: 0, color: Color32::from_black_alpha(shade) };
    visuals.window_shadow =
        egui::Shadow { offset: [0, 12], blur: 40, spread: 0, color: Color32::from_black_alpha(shade) };
    visuals.text_cursor.stroke = Stroke::new(1.5, theme.accent);
    visuals.text_cursor.blink = false;
    visuals.indent_has_left_vline = false;
    visuals
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG relative luminance.
    fn luminance(color: Color32) -> f32 {
        let linear = |byte: u8| {
            let value = f32::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(color.r()) + 0.7152 * linear(color.g()) + 0.0722 * linear(color.b())
    }

    fn contrast(a: Color32, b: Color32) -> f32 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_can_be_read_on_every_surface() {
        for theme in [Theme::DARK, Theme::LIGHT] {
            for surface in [theme.canvas, theme.panel, theme.raised, theme.hover] {
                assert!(contrast(theme.text, surface) > 7.0, "text on {surface:?}");
                assert!(contrast(theme.muted, surface) > 4.5, "muted on {surface:?}");
                assert!(contrast(theme.faint, surface) > 2.5, "faint on {surface:?}");
            }
            assert!(contrast(theme.on_accent, theme.accent) > 4.5);
            assert!(contrast(theme.accent, theme.canvas) > 4.5);
            assert!(contrast(theme.danger, theme.panel) > 4.5);
        }
    }

    /// What people with the common kinds of colour blindness see instead of linear red, green and blue: nothing changed,
    /// protanopia, deuteranopia, tritanopia (Machado, Oliveira and Fernandes 2009, full severity).
    const EYES: [[[f32; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152_286, 1.052_583, -0.204_868], [0.114_503, 0.786_281, 0.099_216], [-0.003_882, -0.048_116, 1.051_998]],
        [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_82, 0.042_94, 0.968_881]],
        [[1.255_528, -0.076_749, -0.178_779], [-0.078_411, 0.930_809, 0.147_602], [0.004_733, 0.691_367, 0.303_9]],
    ];

    fn times(matrix: [[f32; 3]; 3], v: [f32; 3]) -> [f32; 3] {
        matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    /// The colour as eyes of that kind see it, in OKLab: distances there are differences as people judge them.
    fn seen(color: Color32, eyes: [[f32; 3]; 3]) -> [f32; 3] {
        let linear = [color.r(), color.g(), color.b()].map(|byte| {
            let value = f32::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        let cones = [[0.412_22, 0.536_33, 0.051_45], [0.211_9, 0.680_7, 0.107_4], [0.088_3, 0.281_72, 0.629_98]];
        let lab = [[0.210_45, 0.793_62, -0.004_07], [1.978, -2.428_59, 0.450_59], [0.025_9, 0.782_77, -0.808_68]];
        times(lab, times(cones, times(eyes, linear).map(|part| part.max(0.0))).map(f32::cbrt))
    }

    #[test]
    fn categories_stand_out_from_the_canvas_and_from_each_other() {
        for theme in [Theme::DARK, Theme::LIGHT] {
            for (index, color) in theme.categories.into_iter().enumerate() {
                assert!(contrast(color, theme.canvas) > 2.5, "category {index}");
                for (other, eyes) in theme.categories[..index].iter().flat_map(|other| EYES.map(|eyes| (other, eyes))) {
                    let (a, b) = (seen(color, eyes), seen(*other, eyes));
                    let distance = (0..3).map(|axis| (a[axis] - b[axis]).powi(2)).sum::<f32>().sqrt();
                    assert!(distance > 0.06, "{color:?} and {other:?} for {eyes:?}: {distance}");
                }
            }
        }
    }
}
