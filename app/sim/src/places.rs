//! Where the driver puts the memory it is asked for. Addresses decide nothing but ties: best fit takes the lowest of equals.
//!
//! The model of the driver follows what recordings show. Address space is handed out in granules of 32 MiB, from the top down,
//! and a segment begins at the lowest address of its granules; what is left of the last granule serves later segments, the
//! lowest place first. Granules that are wholly free are used again, the highest first. Address space between recorded
//! segments that none of them ever took belongs to others.

use std::collections::BTreeMap;

use vramscope_trace::DriverPlace;

/// The driver's granule of address space.
const GRANULE: u64 = 32 << 20;
/// Where a model without any recorded address begins, downwards.
const TOP: u64 = 0x7f00_0000_0000;
/// Where address space of expandable segments begins, upwards, as recordings show it.
const RESERVATIONS: u64 = 0x3_0200_0000;
/// The address space of an expandable segment where nothing else is said: more than any device has.
pub(crate) const WIDE: u64 = 1 << 40;

/// How places are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// As recorded, where the recording asked the driver for the same size at the same request, after as many segments had gone
    /// back, and the place is free; otherwise as the driver does.
    #[default]
    Recorded,
    /// Every new segment above all others: the first extreme.
    Rising,
    /// Every new segment below all others: the other extreme.
    Falling,
}

/// The driver's address space.
#[derive(Clone, Debug)]
pub(crate) struct Places<'a> {
    how: Addresses,
    /// By event.
    recorded: &'a [DriverPlace],
    /// The event of the request that needs memory.
    event: u32,
    /// Taken address space, start to end.
    taken: BTreeMap<u64, u64>,
    /// Address space known to be free, start to end, joined. All below `lowest` is free, too.
    gaps: BTreeMap<u64, u64>,
    lowest: u64,
    highest: u64,
    next_reservation: u64,
    /// How many recorded places were used or passed over.
    followed: usize,
    /// How many ordinary segments went back.
    given_back: u32,
    guessed: u64,
}

impl<'a> Places<'a> {
    /// An address space in which nothing is taken, with places to use as long as they fit.
    pub(crate) fn new(how: Addresses, recorded: &'a [DriverPlace]) -> Self {
        Self {
            how,
            recorded,
            event: 0,
            taken: BTreeMap::new(),
            gaps: BTreeMap::new(),
            lowest: TOP,
            highest: 0,
            next_reservation: RESERVATIONS,
            followed: 0,
            given_back: 0,
            guessed: 0,
        }
    }

    /// Sets the recorded event of the request that may need memory.
    #[inline]
    pub(crate) fn set_event(&mut self, event: u32) {
        self.event = event;
    }

    /// Marks memory as taken.
    pub(crate) fn take(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let is_first = self.taken.is_empty();
        self.taken.insert(address, end);
        self.highest = self.highest.max(end);
        if is_first || address < self.lowest {
            // New granules. What is left of the last one is free.
            self.lowest = address;
            if address.is_multiple_of(GRANULE) {
                let granules = end.checked_next_multiple_of(GRANULE).unwrap_or(end);
                self.add_gap(end, granules);
            }
            return;
        }
        let Some((&start, &gap_end)) = self.gaps.range(..=address).next_back() else { return };
        if gap_end <= address {
            return;
        }
        self.gaps.remove(&start);
        if start < address {
            self.gaps.insert(start, address);
        }
        if end < gap_end {
            self.gaps.insert(end, gap_end);
        }
    }

    /// Keeps new address space of expandable segments at or above an address.
    pub(crate) fn keep_clear(&mut self, end: u64) {
        self.next_reservation = self.next_reservation.max(end);
    }

    /// A place for an ordinary segment; `None` if the address space is full.
    pub(crate) fn segment(&mut self, bytes: u64) -> Option<u64> {
        let address = match self.how {
            Addresses::Rising => self.highest.max(TOP),
            Addresses::Falling => self.lowest.checked_sub(bytes)?,
            Addresses::Recorded => match self.recorded_place(bytes, false) {
                Some(address) => address,
                None => self.guess(bytes)?,
            },
        };
        address.checked_add(bytes)?;
        self.take(address, bytes);
        Some(address)
    }

    /// How many ordinary segments were placed after the run had left the recorded one: their addresses are no facts.
    pub(crate) fn guessed(&self) -> u64 {
        self.guessed
    }

    /// Address space for an expandable segment whose first mapping will be of `mapped` bytes; `None` if there is none left.
    pub(crate) fn reservation(&mut self, bytes: u64, mapped: u64) -> Option<u64> {
        let recorded = match self.how {
            Addresses::Recorded => self.recorded_place(mapped, true),
            Addresses::Rising | Addresses::Falling => None,
        };
        let address = recorded.unwrap_or(self.next_reservation);
        let end = address.checked_add(bytes)?.checked_next_multiple_of(GRANULE)?;
        self.next_reservation = self.next_reservation.max(end);
        Some(address)
    }

    /// A segment went back to the driver.
    pub(crate) fn give_back(&mut self, address: u64, bytes: u64) {
        self.given_back += 1;
        self.taken.remove(&address);
        self.add_gap(address, address.saturating_add(bytes));
    }

    fn add_gap(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        if let Some((&before, &before_end)) = self.gaps.range(..start).next_back()
            && before_end == start
        {
            self.gaps.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.gaps.remove(&end) {
            end = after_end;
        }
        self.gaps.insert(start, end);
    }

    /// Where the recording has memory of this size for this request, if that is free.
    fn recorded_place(&mut self, bytes: u64, expandable: bool) -> Option<u64> {
        let first = self.recorded.partition_point(|place| place.event < self.event);
        let here = self.recorded[first..].iter().take_while(|place| place.event == self.event);
        let (offset, place) =
            here.enumerate().find(|(_, place)| (place.expandable, place.bytes) == (expandable, bytes))?;
        if !expandable && place.given_back != self.given_back {
            return None;
        }
        let end = place.address.checked_add(bytes)?;
        let before = self.taken.range(..end).next_back();
        if before.is_some_and(|(_, &taken)| taken > place.address) {
            return None;
        }
        if !expandable {
            let skipped = self.recorded.get(self.followed..first + offset);
            let follows = skipped.is_some_and(|skipped| skipped.iter().all(|place| place.expandable));
            self.guessed += u64::from(self.guessed > 0 || !follows);
            self.followed = first + offset + 1;
        }
        Some(place.address)
    }

    /// Where the driver would probably place a segment.
    fn guess(&mut self, bytes: u64) -> Option<u64> {
        self.guessed += 1;
        self.rest_of_a_granule(bytes).or_else(|| self.whole_granules(bytes))
    }

    /// The lowest place that is left in a granule that is partly taken.
    fn rest_of_a_granule(&self, bytes: u64) -> Option<u64> {
        if bytes >= GRANULE {
            return None;
        }
        self.gaps.iter().find_map(|(&start, &end)| {
            // What is left of the granule that the gap begins in, then of the one that it ends in.
            let head = end.min(start.checked_next_multiple_of(GRANULE).unwrap_or(end));
            let tail = start.max(end / GRANULE * GRANULE);
            if head - start >= bytes {
                return Some(start);
            }
            (end - tail >= bytes).then_some(tail)
        })
    }

    /// Free granules, as high as possible; else new ones below all others.
    fn whole_granules(&self, bytes: u64) -> Option<u64> {
        let granules = bytes.checked_next_multiple_of(GRANULE)?;
        let fit = self.gaps.iter().rev().find_map(|(&start, &end)| {
            let start = start.checked_next_multiple_of(GRANULE)?;
            let place = (end / GRANULE * GRANULE).checked_sub(granules)?;
            (place >= start).then_some(place)
        });
        fit.or_else(|| (self.lowest / GRANULE * GRANULE).checked_sub(granules))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn granules_go_downwards_and_their_rest_is_used() {
        let mut places = Places::new(Addresses::Recorded, &[]);
        let first = places.segment(20 * MIB).unwrap();
        assert_eq!(first, TOP - 32 * MIB);
        assert_eq!(places.segment(2 * MIB).unwrap(), first + 20 * MIB, "the rest of the granule");
        assert_eq!(places.segment(48 * MIB).unwrap(), first - 64 * MIB);
        assert_eq!(places.segment(16 * MIB).unwrap(), first - 16 * MIB, "the rest of the second granule");
        assert_eq!(places.segment(12 * MIB).unwrap(), first - 96 * MIB);
        places.give_back(first - 64 * MIB, 48 * MIB);
        assert_eq!(places.segment(32 * MIB).unwrap(), first - 64 * MIB, "whole granules as high as possible");
    }

    #[test]
    fn recorded_places_are_used_for_the_same_request_and_size() {
        let place = |event, address, bytes| DriverPlace { event, given_back: 0, address, bytes, expandable: false };
        let first = 0x7000_0000_0000;
        let recorded = [place(0, first, 20 * MIB), place(3, first, 2 * MIB), place(5, first + 90 * MIB, 2 * MIB)];
        let mut places = Places::new(Addresses::Recorded, &recorded);
        assert_eq!(places.segment(20 * MIB), Some(first));
        places.set_event(3);
        assert_eq!(places.segment(2 * MIB), Some(first + 20 * MIB), "the recorded place is taken");
        places.set_event(5);
        assert_eq!(places.segment(4 * MIB), Some(first + 22 * MIB), "another size");
        assert_eq!(places.segment(2 * MIB), Some(first + 90 * MIB));
        assert_eq!(places.guessed(), 3, "once the run differs, no place is certain");
    }

    #[test]
    fn extremes_only_rise_or_fall() {
        let mut rising = Places::new(Addresses::Rising, &[]);
        let mut falling = Places::new(Addresses::Falling, &[]);
        for bytes in [2, 20, 48, 2] {
            let (high, low) = (rising.highest.max(TOP), falling.lowest);
            assert_eq!(rising.segment(bytes * MIB).unwrap(), high);
            assert_eq!(falling.segment(bytes * MIB).unwrap(), low - bytes * MIB);
        }
    }
}
