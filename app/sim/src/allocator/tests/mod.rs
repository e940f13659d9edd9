//! The allocator against a slow, obvious one, with invariants checked after every request.

mod invariants;
mod naive;

use std::cell::RefCell;

use proptest::prelude::*;
use vramscope_trace::{Event, EventKind, PoolOwner, StackId, StreamId};

use self::naive::Naive;
use crate::allocator::{Allocator, Ask};
use crate::blocks::BlockRef;
use crate::places::Addresses;
use crate::policy::{Limit, Policy, PoolTraits, Torch};

const MIB: u64 = 1 << 20;

/// What a generated program does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc {
        bytes: u64,
        stream: u64,
        owner: PoolOwner,
    },
    /// The block at this place of the live ones, counted around.
    Free {
        which: usize,
        completes: bool,
    },
    Complete {
        which: usize,
    },
    EmptyCache,
    Retire {
        owner: PoolOwner,
    },
}

const PRIVATE: [PoolOwner; 2] = [PoolOwner(1, 0), PoolOwner(0, 1)];

fn owners() -> impl Strategy<Value = PoolOwner> {
    prop_oneof![8 => Just(PoolOwner::DEFAULT), 1 => Just(PRIVATE[0]), 1 => Just(PRIVATE[1])]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        3 => 1..5000_u64,
        3 => (1..40_u64).prop_map(|count| count * 50_000),
        3 => (1..24_u64).prop_map(|count| count * MIB + 512),
        1 => (20..80_u64).prop_map(|count| count * MIB),
        1 => 0..100 * MIB,
    ];
    let alloc = (bytes, prop_oneof![4 => Just(0_u64), 1 => Just(7)], owners())
        .prop_map(|(bytes, stream, owner)| Step::Alloc { bytes, stream, owner });
    let step = prop_oneof![
        12 => alloc,
        9 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(which, completes)| Step::Free { which, completes }),
        2 => any::<usize>().prop_map(|which| Step::Complete { which }),
        1 => Just(Step::EmptyCache),
        1 => any::<bool>().prop_map(|graph| Step::Retire { owner: PRIVATE[usize::from(graph)] }),
    ];
    prop::collection::vec(step, 1..120)
}

fn policies() -> impl Strategy<Value = Policy> {
    let limit = prop_oneof![
        1 => Just(Limit::None),
        3 => (10..200_u64).prop_map(|count| Limit::Fraction(count * 2 * MIB)),
        1 => (10..200_u64).prop_map(|count| Limit::Device(count * 2 * MIB)),
    ];
    let split = prop_oneof![2 => Just(None), 1 => (21..64_u64).prop_map(|count| Some(count * MIB))];
    let divisions = prop_oneof![3 => Just(0_u32), 1 => Just(1), 1 => Just(2), 1 => Just(8)];
    let collects = prop_oneof![2 => Just(0.0), 1 => Just(0.5), 1 => Just(0.8)];
    let traits = prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 0..=2);
    (limit, split, divisions, collects, any::<bool>(), prop::bool::weighted(0.1), 0..3_usize, traits).prop_map(
        |(limit, split, divisions, collects, expandable, throws, large, traits)| {
            let mut policy = Policy::new(Torch::NEWEST);
            policy.limit = limit;
            policy.settings.max_split_size = split;
            policy.settings.roundup_power2_divisions = [divisions; 16];
            policy.settings.garbage_collection_threshold = collects;
            policy.settings.expandable_segments = expandable;
            policy.throw_at_cap = throws;
            policy.large_segment = [20, 20, 40][large] * MIB;
            policy.max_non_split_rounding = [20, 24, 60][large] * MIB;
            policy.reservation = [None, Some(512 * MIB), None][large];
            policy.pools = traits
                .into_iter()
                .zip(PRIVATE)
                .map(|((no_split, use_on_oom, own_allocator), owner)| PoolTraits {
                    owner,
                    no_split,
                    use_on_oom,
                    own_allocator,
                })
                .collect();
            policy
        },
    )
}

/// A block, by the names that both allocators have for it.
type Both = (BlockRef, u32);

/// Takes one block out of a list, counting around.
fn take(list: &mut Vec<Both>, which: usize) -> Option<Both> {
    (!list.is_empty()).then(|| list.swap_remove(which % list.len()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn fast_and_slow_agree(policy in policies(), steps in steps()) {
        let told = RefCell::new(Vec::<(StreamId, EventKind)>::new());
        let sink = |event: Event| told.borrow_mut().push((event.stream.unwrap(), event.kind));
        let mut fast = Allocator::new(policy.clone(), Addresses::Rising, &[], sink);
        let mut slow = Naive::new(&policy);
        let (mut live, mut pending) = (Vec::<Both>::new(), Vec::<Both>::new());
        for step in steps {
            match step {
                Step::Alloc { bytes, stream, owner } => {
                    let ask = Ask { bytes, stream: StreamId(stream), owner, stack: StackId::NONE };
                    match (fast.alloc(&ask), slow.alloc(&ask)) {
                        (Ok(one), Ok(other)) => live.push((one, other)),
                        (one, other) => prop_assert_eq!(one.err(), other.err(), "{:?}", step),
                    }
                }
                Step::Free { which, completes } => {
                    if let Some((one, other)) = take(&mut live, which) {
                        fast.request_free(one, StackId::NONE);
                        slow.request_free(other);
                        if completes {
                            fast.complete_free(one);
                            slow.complete_free(other);
                        } else {
                            pending.push((one, other));
                        }
                    }
                }
                Step::Complete { which } => {
                    // Some of these have been waited for by the allocator itself.
                    if let Some((one, other)) = take(&mut pending, which) {
                        fast.complete_free(one);
                        slow.complete_free(other);
                    }
                }
                Step::EmptyCache => {
                    fast.empty_cache();
                    slow.empty_cache();
                }
                Step::Retire { owner } => {
                    fast.retire_pool(owner);
                    slow.retire_pool(owner);
                }
            }
            prop_assert_eq!(&*told.borrow(), &slow.events, "after {:?}", step);
            told.borrow_mut().clear();
            slow.events.clear();
            let totals = *fast.totals();
            prop_assert_eq!(
                (totals.reserved, totals.allocated, totals.pending, totals.retries),
                (slow.reserved(), slow.allocated(), slow.pending(), slow.retries)
            );
            invariants::check(&mut fast);
        }
        // Nothing is lost: when all is freed and emptied, only pools whose owner lives keep memory.
        for (one, _) in live {
            fast.request_free(one, StackId::NONE);
        }
        for owner in PRIVATE {
            fast.retire_pool(owner);
        }
        fast.empty_cache();
        invariants::check(&mut fast);
        prop_assert_eq!(fast.totals().allocated + fast.totals().pending + fast.totals().reserved, 0);
    }
}
