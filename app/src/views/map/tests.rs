//! Laws of the map, on states made up at random: nothing is lost, no more items than pixels, positions there and back agree.

use proptest::prelude::*;
use vramscope_model::{BlockId, BlockState, LaneId, LaneState, MappedRanges, SegmentId, SegmentState};
use vramscope_trace::{Pool, PoolOwner, SizeClass, StreamId};

use super::View;
use super::fold::{Item, Window, Work, fold, offset_of, place_in_row};
use super::input::{focus, within, zoomed};
use super::layout::{Layout, Room, layout};
use super::model::{Model, What, build};

const MIB: u64 = 1 << 20;

/// A segment from the lengths of its stretches: in use, free, in use, free, … in units of 512 bytes.
fn segment(number: u32, address: u64, stretches: &[u64], hole: u64, private: u32, stream: u64) -> SegmentState {
    let mut at = address;
    let mut blocks = Vec::new();
    for (index, units) in stretches.iter().enumerate() {
        let bytes = units * 512;
        if index % 2 == 0 && bytes > 0 {
            let id = BlockId(number * 1000 + index as u32);
            blocks.push(BlockState { id, address: at, bytes, requested: None, pending: index % 6 == 4 });
        }
        at += bytes;
    }
    let mut mapped = MappedRanges::new();
    mapped.push(address..at.max(address + 512));
    if hole > 0 {
        let behind = at.max(address + 512) + hole;
        mapped.push(behind..behind + 4 * MIB);
    }
    let class = if number.is_multiple_of(3) { SizeClass::Small } else { SizeClass::Large };
    SegmentState {
        segment: SegmentId(number),
        address,
        pool: Some(Pool { owner: PoolOwner(private, 0), class }),
        stream: Some(StreamId(stream)),
        expandable: hole > 0,
        mapped,
        blocks: blocks.into(),
    }
}

fn state(segments: Vec<SegmentState>, loose: u32) -> LaneState {
    let reserved = segments.iter().map(SegmentState::mapped_bytes).sum();
    let loose = (0..loose).map(|index| BlockState {
        id: BlockId(900_000 + index),
        address: u64::from(index) << 30,
        bytes: 512 << (index % 20),
        requested: None,
        pending: false,
    });
    LaneState { lane: LaneId(0), segments, loose: loose.collect(), allocated: 0, pending: 0, requested: None, reserved }
}

fn states() -> impl Strategy<Value = LaneState> {
    let stretches = prop::collection::vec(prop_oneof![0u64..4, 0u64..4000, 0u64..400_000], 1..40);
    let hole = prop_oneof![3 => Just(0u64), 1 => 1u64..1000 * MIB];
    let one = (stretches, hole, 0u32..3, 0u64..3);
    (prop::collection::vec(one, 1..60), 0u32..40).prop_map(|(all, loose)| {
        let segments = all.into_iter().enumerate().map(|(index, (stretches, hole, private, stream))| {
            segment(index as u32, (index as u64 + 1) << 40, &stretches, hole, private, stream)
        });
        state(segments.collect(), loose)
    })
}

fn rooms() -> impl Strategy<Value = Room> {
    (20u32..2000, 20u32..900, prop_oneof![Just(1.0f32), Just(2.0f32)]).prop_map(|(width, height, scale)| Room {
        width,
        height,
        scale,
    })
}

/// Bytes of memory in an item.
fn bytes(model: &Model, item: &Item) -> u64 {
    let pieces = &model.pieces[item.pieces.clone()];
    pieces.iter().map(|piece| piece.bytes_in(item.places.start, item.places.end)).sum()
}

fn items(model: &Model, layout: &Layout, window: Window) -> (Vec<Vec<Item>>, Work) {
    let mut work = Work::default();
    let lines = layout.lines.iter().map(|line| {
        let mut items = Vec::new();
        for strip in &layout.strips[line.strips.clone()] {
            fold(model, layout, *strip, window, &mut items, &mut work);
        }
        items
    });
    (lines.collect(), work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Law 6: items are at most as many as pixels, and their bytes sum to what is reserved (and loose).
    #[test]
    fn items_are_at_most_pixels_and_sum_exactly(state in states(), room in rooms()) {
        let model = build(&state);
        let layout = layout(&model, room);
        let loose: u64 = state.loose.iter().map(|block| block.bytes).sum();
        prop_assert_eq!(model.totals().1, state.reserved + loose);
        let (lines, work) = items(&model, &layout, Window { zoom: 1.0, left: 0.0, width: room.width });
        let mut sum = 0;
        let mut count = 0;
        for line in &lines {
            prop_assert!(line.len() <= room.width as usize);
            let mut next = 0;
            for item in line {
                prop_assert!(item.columns.start >= next && item.columns.end > item.columns.start);
                prop_assert!(item.pieces.len() == 1 || item.columns.len() == 1, "{item:?}");
                next = item.columns.end;
            }
            prop_assert!(next <= room.width);
            sum += line.iter().map(|item| bytes(&model, item)).sum::<u64>();
            count += line.len() as u64;
        }
        prop_assert_eq!(sum, state.reserved + loose);
        prop_assert_eq!(work.items, count);
        prop_assert!(work.pieces <= (model.pieces.len() + layout.strips.len()) as u64);
    }

    /// Every piece is in some item, however small it is.
    #[test]
    fn no_block_disappears(state in states(), room in rooms()) {
        let model = build(&state);
        let layout = layout(&model, room);
        let (lines, _) = items(&model, &layout, Window { zoom: 1.0, left: 0.0, width: room.width });
        let mut seen = vec![false; model.pieces.len()];
        for item in lines.iter().flatten() {
            seen[item.pieces.clone()].fill(true);
        }
        for (piece, seen) in model.pieces.iter().zip(seen) {
            prop_assert!(seen || piece.length == 0, "{piece:?}");
        }
    }

    /// Zoomed in, what is in view is a part of the whole, and neighbouring views share nothing.
    #[test]
    fn neighbouring_views_add_up(state in states(), room in rooms(), zoom in 1.0f64..50.0, cut in 0.0f64..1.0) {
        let model = build(&state);
        let layout = layout(&model, room);
        let width = (f64::from(room.width) * zoom).ceil() as u32;
        let cut = (f64::from(width) * cut) as u32;
        let sum = |left: u32, width: u32| -> u64 {
            let (lines, _) = items(&model, &layout, Window { zoom, left: f64::from(left), width });
            lines.iter().flatten().map(|item| bytes(&model, item)).sum()
        };
        prop_assert_eq!(sum(0, cut) + sum(cut, width - cut), model.totals().1);
    }

    /// Rows are all laid out, on lines that do not overlap, and found again where they are.
    #[test]
    fn every_row_lies_somewhere_and_is_found_there(state in states(), room in rooms()) {
        let model = build(&state);
        let layout = layout(&model, room);
        let mut bottom = 0;
        for line in &layout.lines {
            prop_assert!(line.top >= bottom && !line.strips.is_empty());
            bottom = line.top + line.height;
            let mut right = 0;
            for strip in &layout.strips[line.strips.clone()] {
                prop_assert!(strip.left >= right && strip.width > 0);
                right = strip.left + strip.width;
            }
            prop_assert!(right <= room.width);
        }
        for row in 0..model.rows.len() {
            let pixels: u32 = layout.strips_of(row).map(|(_, strip)| strip.width).sum();
            prop_assert_eq!(pixels, layout.widths[row]);
            let (line, strip) = layout.strips_of(row).next().unwrap();
            let index = layout.line_at(f64::from(line.top) + 0.5).unwrap();
            prop_assert_eq!(&layout.lines[index], line);
            prop_assert_eq!(layout.strip_at(index, f64::from(strip.left) + 0.5, 0.0), Some(strip));
            for piece in model.pieces_of(row).iter().filter(|piece| piece.length > 0) {
                let found = layout.strips_of(row).any(|(_, strip)| {
                    let [low, high] = [piece.start, piece.end()].map(|at| offset_of(&model, &layout, strip, at));
                    let middle = place_in_row(&model, &layout, strip, f64::midpoint(low, high));
                    high > low && middle.abs_diff(piece.start.midpoint(piece.end())) <= piece.length / 2 + 2
                });
                prop_assert!(found, "{piece:?}");
            }
        }
    }

    /// Zooming keeps what is under the pointer there, and views never leave the map.
    #[test]
    fn zooming_keeps_the_place(state in states(), room in rooms(), x in 0.0f64..1.0, factor in 0.1f64..0.9) {
        let model = build(&state);
        let layout = layout(&model, room);
        let width = f64::from(room.width);
        let view = zoomed(View::default(), 0.2, width / 2.0, &layout, room);
        let x = x * width;
        let closer = zoomed(view, factor, x, &layout, room);
        prop_assert!(((x + view.left) / view.zoom - (x + closer.left) / closer.zoom).abs() < 1e-6 * width);
        let out = zoomed(closer, 1e9, x, &layout, room);
        prop_assert_eq!(out, View { top: out.top, ..View::default() });
        let far = within(View { zoom: 4.0, left: 1e12, top: 1e12 }, &layout, room);
        prop_assert!(far.left <= width * far.zoom - width + 1e-6 && far.top <= f64::from(layout.height));
    }
}

fn plain(sizes: &[u64]) -> LaneState {
    let segments = sizes.iter().enumerate().map(|(index, mib)| {
        let mut segment = segment(index as u32 * 3 + 1, (index as u64 + 1) << 40, &[mib * 1024, mib * 1024], 0, 0, 0);
        let mut blocks = segment.blocks.to_vec();
        blocks[0].pending = false;
        segment.blocks = blocks.into();
        segment
    });
    state(segments.collect(), 0)
}

const ROOM: Room = Room { width: 1000, height: 300, scale: 1.0 };

#[test]
fn the_longest_segment_fills_the_line_and_small_ones_share_lines() {
    let mut sizes = vec![500, 500, 250, 250];
    sizes.extend([2; 20]);
    let model = build(&plain(&sizes));
    let layout = layout(&model, ROOM);
    let strips: Vec<usize> = layout.lines.iter().map(|line| line.strips.len()).collect();
    assert_eq!(strips, [1, 1, 1, 21], "two of 250 do not fit beside each other with a gap between them");
    assert_eq!(layout.strips[0].width, 1000);
    assert_eq!(layout.strips[2].width, 500);
    assert_eq!(layout.strips[23].width, 4);
    assert!((layout.bytes_per_pixel - 500.0 * MIB as f64 / 1000.0).abs() < 1.0);
}

#[test]
fn a_huge_segment_is_broken_where_there_is_room_and_a_crowd_is_shown_whole() {
    let huge = build(&plain(&[8000, 40]));
    let broken = layout(&huge, ROOM);
    assert!(broken.strips_of(0).count() > 4, "{}", broken.strips_of(0).count());
    assert!(broken.height <= ROOM.height);
    let crowd = build(&plain(&[256; 400]));
    let crowded = layout(&crowd, ROOM);
    assert!(crowded.height <= ROOM.height + 22, "{}", crowded.height);
    assert!(crowded.lines[0].strips.len() > 8);
}

#[test]
fn ten_thousand_segments_still_show_and_cost_what_they_are() {
    let segments = (0..10_000).map(|index| segment(index * 3, (u64::from(index) + 1) << 32, &[1000, 3096], 0, 0, 0));
    let mut all: Vec<SegmentState> = segments.collect();
    all.push(segment(1, 1 << 60, &[40_000_000, 2_000_000], 0, 0, 0));
    let model = build(&state(all, 0));
    assert_eq!(model.pieces.len(), 20_002);
    let layout = layout(&model, ROOM);
    assert!(layout.strips.iter().all(|strip| strip.width >= 1));
    let (lines, work) = items(&model, &layout, Window { zoom: 1.0, left: 0.0, width: ROOM.width });
    assert!(work.items <= lines.len() as u64 * 1000);
    assert!(work.pieces <= 20_002);
    assert_eq!(work.strips, layout.strips.len() as u64);
    // In a view of one line, only what is on it is looked at.
    let mut one = Work::default();
    for strip in &layout.strips[layout.lines[3].strips.clone()] {
        fold(&model, &layout, *strip, Window { zoom: 1.0, left: 0.0, width: ROOM.width }, &mut Vec::new(), &mut one);
    }
    assert!(one.items <= 1000 && one.strips as usize == layout.lines[3].strips.len());
}

#[test]
fn groups_keep_pools_and_streams_apart_and_add_up() {
    let segments = vec![
        segment(1, 1 << 40, &[100, 300], 0, 0, 0),
        segment(4, 2 << 40, &[100, 300, 0, 0, 50], 0, 0, 7),
        segment(3, 3 << 40, &[0, 4096], 0, 0, 0),
        segment(7, 4 << 40, &[100], 0, 1, 7),
    ];
    let model = build(&state(segments, 2));
    let names: Vec<String> = model
        .groups
        .iter()
        .map(|group| format!("{} {:?}", super::pool_name(group.pool), group.stream.map(|stream| stream.0)))
        .collect();
    assert_eq!(
        names,
        [
            "Large pool Some(0)",
            "Small pool Some(0)",
            "Large pool Some(7)",
            "Private pool (1, 0), large Some(7)",
            "Unknown pool None"
        ]
    );
    let first = &model.groups[0];
    assert_eq!((first.allocated, first.pinned, first.releasable), (100 * 512, 300 * 512, 0));
    assert_eq!(model.groups[1].releasable, 4096 * 512);
    assert_eq!(model.groups[2].pending, 50 * 512);
    assert!(model.groups[4].loose && model.groups[4].rows.len() == 2);
}

#[test]
fn double_click_looks_closer_and_back() {
    let model = build(&plain(&[500, 250]));
    let layout = layout(&model, ROOM);
    let y = f64::from(layout.lines[1].top) + 1.0;
    let near = focus(View::default(), Some((10.0, y)), &layout, ROOM);
    assert!((near.zoom - 2.0).abs() < 1e-9 && near.left == 0.0);
    assert_eq!(focus(near, Some((10.0, y)), &layout, ROOM), View::default());
    assert_eq!(focus(View::default(), None, &layout, ROOM), View::default());
    let whole_line = focus(View::default(), Some((500.0, f64::from(layout.lines[0].top) + 1.0)), &layout, ROOM);
    assert!((whole_line.zoom - 4.0).abs() < 1e-9);
}

#[test]
fn a_hole_is_drawn_short_and_has_no_bytes() {
    let model = build(&state(vec![segment(1, 1 << 40, &[2048, 2048], 100 << 30, 0, 0)], 0));
    let hole = model.pieces.iter().find(|piece| piece.what == What::Hole).unwrap();
    assert!(hole.length <= MIB && hole.bytes_in(0, u64::MAX) == 0);
    assert_eq!(model.rows[0].bytes, 2 * MIB + 4 * MIB);
}
