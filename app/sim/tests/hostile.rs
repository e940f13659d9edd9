//! Requests that no program makes: whatever is asked for, nothing panics and sums stay sound.

use proptest::prelude::*;
use vramscope_sim::{Addresses, AtFailure, Limit, Policy, Torch, replay};
use vramscope_trace::{
    Action, DriverPlace, EventKind, Pool, PoolOwner, Request, Requests, SizeClass, StackId, StartBlock, StartRun,
    StartState, StreamId, TimeNs,
};

/// Numbers near the places where arithmetic breaks.
fn wild() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0..200_u64).prop_map(|count| count << 19),
        (0..1000_u64).prop_map(|back| u64::MAX - back),
        (0..64_u32).prop_map(|bit| 1 << bit),
        0..2000_u64,
    ]
}

fn owner() -> impl Strategy<Value = PoolOwner> {
    prop_oneof![3 => Just(PoolOwner::DEFAULT), 1 => (0..3_u32, 0..3_u32).prop_map(|(a, b)| PoolOwner(a, b))]
}

fn action() -> impl Strategy<Value = Action> {
    let alloc = (wild(), 0..3_u64, owner(), any::<bool>()).prop_map(|(bytes, stream, owner, failed)| Action::Alloc {
        bytes,
        stream: StreamId(stream),
        owner,
        stack: StackId::NONE,
        failed,
    });
    prop_oneof![
        4 => alloc,
        3 => (0..40_u32).prop_map(|allocation| Action::FreeRequested { allocation, stack: StackId::NONE }),
        3 => (0..40_u32).prop_map(|allocation| Action::FreeCompleted { allocation }),
        1 => Just(Action::EmptyCache),
        1 => owner().prop_map(|owner| Action::RetirePool { owner }),
    ]
}

fn start() -> impl Strategy<Value = StartState> {
    let class = prop_oneof![Just(SizeClass::Small), Just(SizeClass::Large)];
    let run = (wild(), wild(), owner(), class, 0..2_u64, any::<bool>()).prop_map(
        |(address, bytes, owner, class, stream, expandable)| StartRun {
            address,
            bytes,
            pool: Pool { owner, class },
            stream: StreamId(stream),
            expandable,
            stack: StackId::NONE,
        },
    );
    let block = (wild(), wild(), wild(), any::<bool>()).prop_map(|(address, bytes, requested, pending)| StartBlock {
        address,
        bytes,
        requested,
        stream: StreamId(0),
        owner: PoolOwner::DEFAULT,
        stack: StackId::NONE,
        pending,
    });
    (prop::collection::vec(run, 0..8), prop::collection::vec(block, 0..8)).prop_map(|(runs, mut blocks)| {
        blocks.sort_by_key(|block| block.address);
        StartState { runs, blocks }
    })
}

fn requests() -> impl Strategy<Value = Requests> {
    let places = prop::collection::vec((wild(), wild(), any::<bool>()), 0..6);
    (start(), prop::collection::vec(action(), 0..80), places, any::<bool>()).prop_map(
        |(start, actions, places, expandable)| {
            let place =
                |(address, bytes, expandable)| DriverPlace { event: 0, given_back: 0, address, bytes, expandable };
            let request = |(event, action)| Request { time: Some(TimeNs(0)), event, action };
            let mut requests = Requests {
                start,
                list: (0..).zip(actions).map(request).collect(),
                places: places.into_iter().map(place).collect(),
                ..Requests::default()
            };
            requests.settings.expandable_segments = expandable;
            requests
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_breaks_it(
        requests in requests(),
        expandable in any::<bool>(),
        split in prop::option::of(wild()),
        limit in prop_oneof![Just(Limit::None), wild().prop_map(Limit::Fraction), wild().prop_map(Limit::Device)],
        addresses in prop_oneof![Just(Addresses::Recorded), Just(Addresses::Rising), Just(Addresses::Falling)],
    ) {
        let mut policy = Policy::new(Torch::NEWEST);
        policy.settings.expandable_segments = expandable;
        policy.settings.max_split_size = split;
        policy.settings.garbage_collection_threshold = 0.5;
        policy.limit = limit;
        let (mut reserved, mut live) = (0_u128, 0_i64);
        let outcome = replay(&requests, &policy, addresses, AtFailure::GoOn, |event| match event.kind {
            EventKind::SegmentAlloc { bytes, .. } | EventKind::SegmentMap { bytes, .. } => reserved += u128::from(bytes),
            EventKind::SegmentFree { bytes, .. } | EventKind::SegmentUnmap { bytes, .. } => reserved -= u128::from(bytes),
            EventKind::BlockAlloc { .. } => live += 1,
            EventKind::FreeCompleted { .. } => live -= 1,
            _ => {}
        });
        prop_assert!(live >= 0);
        prop_assert_eq!(reserved, u128::from(outcome.totals.reserved));
        prop_assert!(u128::from(outcome.totals.allocated) + u128::from(outcome.totals.pending) <= reserved);
    }
}
