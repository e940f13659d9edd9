//! The same allocator, slow and obvious: lists that are searched from end to end. The fast one has to agree with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use vramscope_trace::{AllocatorSettings, EventKind, Pool as PoolName, PoolOwner, SizeClass, StackId, StreamId};

use crate::allocator::Ask;
use crate::policy::{Limit, Policy};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Free,
    Live(u32),
    Pending(u32),
    Unmapped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    born: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) pool: PoolName,
    stream: StreamId,
    /// Page size of an expandable segment.
    page: Option<u64>,
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
pub(super) struct Naive {
    policy: Policy,
    pub(super) segments: Vec<Segment>,
    retired: Vec<PoolOwner>,
    searches: Vec<(PoolName, u64)>,
    waiting: Vec<u32>,
    handed_out: u32,
    next_segment: u64,
    next_space: u64,
    pub(super) retries: u64,
    pub(super) events: Vec<(StreamId, EventKind)>,
}

type Place = (usize, usize);

impl Naive {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            policy: policy.clone(),
            segments: Vec::new(),
            retired: Vec::new(),
            searches: Vec::new(),
            waiting: Vec::new(),
            handed_out: 0,
            next_segment: 0x7f00_0000_0000,
            next_space: 0x3_0200_0000,
            retries: 0,
            events: Vec::new(),
        }
    }

    fn sum(&self, wanted: impl Fn(Kind) -> bool) -> u64 {
        let pieces = self.segments.iter().flat_map(|segment| &segment.pieces);
        pieces.filter(|piece| wanted(piece.kind)).map(|piece| piece.bytes).sum()
    }

    pub(super) fn reserved(&self) -> u64 {
        self.sum(|kind| kind != Kind::Unmapped)
    }

    pub(super) fn allocated(&self) -> u64 {
        self.sum(|kind| matches!(kind, Kind::Live(_)))
    }

    pub(super) fn pending(&self) -> u64 {
        self.sum(|kind| matches!(kind, Kind::Pending(_)))
    }

    fn collects(&self) -> Option<u64> {
        let share = self.policy.settings.garbage_collection_threshold;
        match self.policy.limit {
            Limit::Fraction(cap) if share > 0.0 => Some((share * cap as f64) as u64),
            _ => None,
        }
    }

    fn clock(&mut self, pool: PoolName) -> &mut u64 {
        if !self.searches.iter().any(|(known, _)| *known == pool) {
            self.searches.push((pool, 0));
        }
        self.searches.iter_mut().find(|(known, _)| *known == pool).map(|(_, count)| count).unwrap()
    }

    pub(super) fn alloc(&mut self, ask: &Ask) -> Result<u32, u64> {
        let rounded = self.policy.settings.round(ask.bytes);
        let class = AllocatorSettings::class_of(rounded);
        let pool = PoolName { owner: ask.owner, class };
        let Some(place) = self.find(pool, ask.stream, rounded).or_else(|| self.make(ask, pool, rounded)) else {
            let left = self.policy.limit.bytes().map(|limit| limit.saturating_sub(self.reserved()));
            let kind = EventKind::OutOfMemory { requested: rounded, device_free: left, stack: StackId::NONE };
            self.events.push((ask.stream, kind));
            return Err(rounded);
        };
        Ok(self.hand_out(place, ask, rounded))
    }

    fn hand_out(&mut self, (segment, piece): Place, ask: &Ask, rounded: u64) -> u32 {
        self.handed_out += 1;
        let owner = self.segments[segment].pool.owner;
        let pieces = &mut self.segments[segment].pieces;
        let whole = pieces[piece];
        let rest = whole.bytes - rounded;
        let small = rounded <= 1 << 20;
        let mut splits = if small || self.policy.settings.expandable_segments {
            rest >= 512
        } else {
            rest > 1 << 20 && self.policy.settings.max_split_size.is_none_or(|limit| rounded < limit)
        };
        splits &= !(owner.is_private() && self.policy.traits(owner).no_split);
        let bytes = if splits { rounded } else { whole.bytes };
        pieces[piece] = Piece { bytes, kind: Kind::Live(self.handed_out), ..whole };
        if splits {
            pieces.insert(piece + 1, Piece { address: whole.address + bytes, bytes: rest, ..whole });
        }
        let kind = EventKind::BlockAlloc {
            address: whole.address,
            bytes,
            requested: Some(ask.bytes),
            stack: StackId::NONE,
            at_start: false,
        };
        self.events.push((ask.stream, kind));
        self.handed_out
    }

    /// Free pieces of a pool and stream by size, then address.
    fn shelf(&self, pool: PoolName, stream: StreamId) -> Vec<Place> {
        let mut found = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            if (segment.pool, segment.stream) == (pool, stream) {
                let free = segment.pieces.iter().enumerate().filter(|(_, piece)| piece.kind == Kind::Free);
                found.extend(free.map(|(piece, _)| (index, piece)));
            }
        }
        found.sort_by_key(|&place| (self.at(place).bytes, self.at(place).address));
        found
    }

    fn at(&self, (segment, piece): Place) -> Piece {
        self.segments[segment].pieces[piece]
    }

    fn could_be(&self, (segment, piece): Place) -> u64 {
        let behind = self.segments[segment].pieces.get(piece + 1).filter(|next| next.kind == Kind::Unmapped);
        self.at((segment, piece)).bytes + behind.map_or(0, |next| next.bytes)
    }

    fn find(&mut self, pool: PoolName, stream: StreamId, rounded: u64) -> Option<Place> {
        if self.collects().is_some() {
            *self.clock(pool) += 1;
        }
        let mut fitting = self.shelf(pool, stream);
        fitting.retain(|&place| self.at(place).bytes >= rounded);
        let expandable = |place: Place| self.segments[place.0].page.is_some();
        let mut best = *fitting.first()?;
        if expandable(best) && self.policy.settings.expandable_segments {
            for next in fitting.iter().skip(1) {
                if !expandable(best) || self.could_be(*next) >= self.could_be(best) {
                    break;
                }
                best = *next;
            }
        } else if expandable(best) {
            best = *fitting.iter().find(|place| !expandable(**place))?;
        }
        let bytes = self.at(best).bytes;
        let limit = self.policy.settings.max_split_size.unwrap_or(u64::MAX);
        let refused =
            if rounded < limit { bytes >= limit } else { bytes >= rounded + self.policy.max_non_split_rounding };
        (!refused).then_some(best)
    }

    fn make(&mut self, ask: &Ask, pool: PoolName, rounded: u64) -> Option<Place> {
        if let Some(threshold) = self.collects() {
            self.collect(threshold);
        }
        let bytes = self.segment_bytes(rounded);
        if let Some(place) = self.ask_device(ask, pool, rounded) {
            return Some(place);
        }
        if self.policy.throw_at_cap && matches!(self.policy.limit, Limit::Fraction(_)) && self.exceeds(bytes) {
            return None;
        }
        if !ask.owner.is_private() {
            let lenders: Vec<PoolOwner> =
                self.policy.pools.iter().filter(|traits| traits.use_on_oom).map(|traits| traits.owner).collect();
            for owner in lenders {
                if let Some(place) = self.find(PoolName { owner, class: pool.class }, ask.stream, rounded) {
                    return Some(place);
                }
            }
        }
        if self.release_oversize(pool, ask.stream, rounded)
            && let Some(place) = self.ask_device(ask, pool, rounded)
        {
            return Some(place);
        }
        if ask.owner.0 != 0 {
            return None;
        }
        self.empty_cache();
        self.retries += 1;
        self.ask_device(ask, pool, rounded)
    }

    fn segment_bytes(&self, rounded: u64) -> u64 {
        if rounded <= 1 << 20 {
            2 << 20
        } else if rounded < 10 << 20 {
            self.policy.large_segment
        } else {
            rounded.div_ceil(2 << 20) * (2 << 20)
        }
    }

    fn exceeds(&self, more: u64) -> bool {
        self.policy.limit.bytes().is_some_and(|limit| self.reserved() + more > limit)
    }

    fn ask_device(&mut self, ask: &Ask, pool: PoolName, rounded: u64) -> Option<Place> {
        let bytes = self.segment_bytes(rounded);
        let expands = self.policy.settings.expandable_segments && !self.policy.traits(ask.owner).own_allocator;
        if (!expands || matches!(self.policy.limit, Limit::Fraction(_))) && self.exceeds(bytes) {
            return None;
        }
        if expands {
            return self.expand(ask, pool, rounded);
        }
        let address = self.next_segment;
        self.next_segment += bytes;
        let piece = Piece { address, bytes, kind: Kind::Free, born: 0 };
        self.segments.push(Segment { pool, stream: ask.stream, page: None, pieces: vec![piece] });
        let kind = EventKind::SegmentAlloc { address, bytes, pool: Some(pool), stack: StackId::NONE, at_start: false };
        self.events.push((ask.stream, kind));
        Some((self.segments.len() - 1, 0))
    }

    fn expand(&mut self, ask: &Ask, pool: PoolName, rounded: u64) -> Option<Place> {
        let page = if pool.class == SizeClass::Small { 2 << 20 } else { self.policy.large_segment };
        let (segment, mut piece) = match self.room(pool, ask.stream, rounded) {
            Some(place) => place,
            None => {
                let bytes = self.policy.reservation.unwrap_or(1 << 40).div_ceil(page) * page;
                if rounded.div_ceil(page) * page > bytes {
                    return None;
                }
                let space = Piece { address: self.next_space, bytes, kind: Kind::Unmapped, born: 0 };
                self.next_space = (self.next_space + bytes).div_ceil(32 << 20) * (32 << 20);
                self.segments.push(Segment { pool, stream: ask.stream, page: Some(page), pieces: vec![space] });
                (self.segments.len() - 1, 0)
            }
        };
        loop {
            let here = self.at((segment, piece));
            if here.kind == Kind::Free && here.bytes >= rounded {
                return Some((segment, piece));
            }
            let (at, missing) =
                if here.kind == Kind::Free { (piece + 1, rounded - here.bytes) } else { (piece, rounded) };
            let space = self.at((segment, at));
            let bytes = (missing.min(space.bytes).div_ceil(page) * page).min(space.bytes);
            if matches!(self.policy.limit, Limit::Device(_)) && self.exceeds(bytes) {
                return None;
            }
            let born = *self.clock(pool);
            let pieces = &mut self.segments[segment].pieces;
            pieces[at] = Piece { bytes, kind: Kind::Free, born, ..space };
            if bytes < space.bytes {
                let rest = Piece { address: space.address + bytes, bytes: space.bytes - bytes, ..space };
                pieces.insert(at + 1, rest);
            }
            let kind = EventKind::SegmentMap {
                address: space.address,
                bytes,
                pool: Some(pool),
                stack: StackId::NONE,
                at_start: false,
            };
            self.events.push((ask.stream, kind));
            piece = self.merge(segment, at, born);
        }
    }

    fn room(&self, pool: PoolName, stream: StreamId, rounded: u64) -> Option<Place> {
        let free = |piece: &Piece| matches!(piece.kind, Kind::Free | Kind::Unmapped);
        let mut candidates = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            if (segment.pool, segment.stream) != (pool, stream) {
                continue;
            }
            for (at, piece) in segment.pieces.iter().enumerate().filter(|(_, piece)| piece.kind == Kind::Unmapped) {
                let from = if at > 0 && free(&segment.pieces[at - 1]) { at - 1 } else { at };
                let run = segment.pieces[from..].iter().take_while(|piece| free(piece));
                if run.map(|piece| piece.bytes).sum::<u64>() >= rounded {
                    candidates.push((piece.address, (index, from)));
                }
            }
        }
        candidates.into_iter().min().map(|(_, place)| place)
    }

    /// Joins a free (or unmapped) piece with neighbours of its kind; gives its place.
    fn merge(&mut self, segment: usize, mut at: usize, born: u64) -> usize {
        let pieces = &mut self.segments[segment].pieces;
        if at + 1 < pieces.len() && pieces[at + 1].kind == pieces[at].kind {
            pieces[at].bytes += pieces.remove(at + 1).bytes;
        }
        if at > 0 && pieces[at - 1].kind == pieces[at].kind {
            pieces[at - 1].bytes += pieces.remove(at).bytes;
            at -= 1;
        }
        pieces[at].born = born;
        at
    }

    fn place_of(&self, kind: Kind) -> Option<Place> {
        self.segments.iter().enumerate().find_map(|(index, segment)| {
            segment.pieces.iter().position(|piece| piece.kind == kind).map(|piece| (index, piece))
        })
    }

    pub(super) fn request_free(&mut self, block: u32) {
        let Some((segment, piece)) = self.place_of(Kind::Live(block)) else { return };
        let stream = self.segments[segment].stream;
        let freed = &mut self.segments[segment].pieces[piece];
        freed.kind = Kind::Pending(block);
        let address = freed.address;
        self.waiting.push(block);
        self.events.push((stream, EventKind::FreeRequested { address, stack: StackId::NONE, at_start: false }));
    }

    pub(super) fn complete_free(&mut self, block: u32) {
        let Some((segment, piece)) = self.place_of(Kind::Pending(block)) else { return };
        self.waiting.retain(|waiting| *waiting != block);
        let Segment { pool, stream, .. } = self.segments[segment];
        let born = *self.clock(pool);
        let freed = &mut self.segments[segment].pieces[piece];
        freed.kind = Kind::Free;
        let address = freed.address;
        self.events.push((stream, EventKind::FreeCompleted { address }));
        self.merge(segment, piece, born);
    }

    pub(super) fn empty_cache(&mut self) {
        for block in self.waiting.clone() {
            self.complete_free(block);
        }
        let mut owners = vec![PoolOwner::DEFAULT];
        owners.extend(self.retired.clone());
        for owner in owners {
            let mut classes = [SizeClass::Large, SizeClass::Small];
            if owner.is_private() {
                classes.reverse();
            }
            for class in classes {
                self.release_pool(PoolName { owner, class });
            }
        }
    }

    pub(super) fn retire_pool(&mut self, owner: PoolOwner) {
        if !self.retired.contains(&owner) {
            self.retired.push(owner);
            self.retired.sort();
        }
    }

    fn release_pool(&mut self, pool: PoolName) {
        let mut streams: Vec<StreamId> = self.segments.iter().map(|segment| segment.stream).collect();
        streams.sort();
        streams.dedup();
        let mut addresses = Vec::new();
        for stream in streams {
            addresses.extend(self.shelf(pool, stream).into_iter().map(|place| self.at(place).address));
        }
        for expandable in [false, true] {
            for &address in &addresses {
                let place = self.segments.iter().enumerate().find_map(|(index, segment)| {
                    let here = segment.pieces.iter().position(|piece| piece.address == address);
                    here.map(|piece| (index, piece)).filter(|_| segment.page.is_some() == expandable)
                });
                match place {
                    Some(place) if expandable => self.unmap(place),
                    Some((segment, _)) if self.segments[segment].pieces.len() == 1 => self.release(segment),
                    _ => {}
                }
            }
        }
    }

    fn release(&mut self, segment: usize) {
        let gone = self.segments.remove(segment);
        let kind = EventKind::SegmentFree { address: gone.pieces[0].address, bytes: gone.pieces[0].bytes };
        self.events.push((gone.stream, kind));
    }

    fn unmap(&mut self, (segment, piece): Place) {
        let Segment { pool, stream, page, .. } = self.segments[segment];
        let page = page.unwrap();
        let start = self.segments[segment].pieces[0].address;
        let free = self.at((segment, piece));
        let end = free.address + free.bytes;
        let (first, last) = ((free.address - start).div_ceil(page) * page + start, (end - start) / page * page + start);
        if first >= last {
            return;
        }
        let born = *self.clock(pool);
        let parts = [(free.address, first, Kind::Free), (first, last, Kind::Unmapped), (last, end, Kind::Free)];
        let parts = parts.into_iter().filter(|(from, to, _)| to > from);
        let parts: Vec<Piece> =
            parts.map(|(address, to, kind)| Piece { address, bytes: to - address, kind, born }).collect();
        let at = piece + parts.iter().position(|part| part.kind == Kind::Unmapped).unwrap();
        self.segments[segment].pieces.splice(piece..=piece, parts);
        self.merge(segment, at, born);
        self.events.push((stream, EventKind::SegmentUnmap { address: first, bytes: last - first }));
        if self.segments[segment].pieces.len() == 1 {
            self.segments.remove(segment);
        }
    }

    fn release_oversize(&mut self, pool: PoolName, stream: StreamId, rounded: u64) -> bool {
        let Some(limit) = self.policy.settings.max_split_size else { return false };
        let wanted = rounded.max(limit);
        let shelf = self.shelf(pool, stream);
        let from = shelf.iter().position(|&place| self.at(place).bytes >= wanted).unwrap_or(shelf.len());
        if let Some(&(segment, _)) = shelf.get(from)
            && self.segments[segment].page.is_none()
            && self.segments[segment].pieces.len() == 1
        {
            self.release(segment);
            return true;
        }
        let below: Vec<Piece> = shelf[..from].iter().rev().map(|&place| self.at(place)).collect();
        let mut released = 0;
        for piece in below {
            if released >= wanted || piece.bytes < limit {
                break;
            }
            let whole = |segment: &Segment| {
                segment.page.is_none() && segment.pieces.len() == 1 && segment.pieces[0].address == piece.address
            };
            if let Some(segment) = self.segments.iter().position(whole) {
                released += piece.bytes;
                self.release(segment);
            }
        }
        released >= wanted
    }

    fn collect(&mut self, threshold: u64) {
        let Some(target) = self.reserved().checked_sub(threshold).filter(|target| *target > 0) else { return };
        let pool = PoolName { owner: PoolOwner::DEFAULT, class: SizeClass::Large };
        let now = *self.clock(pool);
        let mut reclaimed = 0;
        while reclaimed < target {
            let mut unused: Vec<(StreamId, u64, u64, u64)> = Vec::new();
            for segment in &self.segments {
                if segment.pool == pool && segment.page.is_none() && segment.pieces.len() == 1 {
                    let piece = segment.pieces[0];
                    if piece.kind == Kind::Free {
                        unused.push((segment.stream, piece.bytes, piece.address, now - piece.born));
                    }
                }
            }
            unused.sort();
            let ages: u64 = unused.iter().map(|found| found.3).sum();
            let average = ages as f64 / unused.len() as f64;
            let old: Vec<_> = unused.into_iter().filter(|found| found.3 as f64 >= average).collect();
            if old.is_empty() {
                return;
            }
            for (_, bytes, address, _) in old {
                reclaimed += bytes;
                let segment = self.segments.iter().position(|segment| segment.pieces[0].address == address).unwrap();
                self.release(segment);
            }
        }
    }
}
