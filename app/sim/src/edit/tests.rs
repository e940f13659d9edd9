//! Changes of a small run whose answers can be worked out by hand.

use vramscope_trace::{Action, AllocatorSettings, PoolOwner, Request, Requests, StackId, StreamId, TimeNs};

use super::*;
use crate::policy::{Policy, Torch};
use crate::{Addresses, AtFailure, replay};

const MIB: u64 = 1 << 20;

/// An allocation of so many MiB by a stack, or a free of an allocation by its number.
#[derive(Clone, Copy)]
enum Do {
    Make(u64, u32),
    Free(u32),
}

fn run(steps: &[Do]) -> Requests {
    let mut list = Vec::new();
    for (event, step) in (0..).zip(steps) {
        let request = |action| Request { time: Some(TimeNs(i64::from(event))), event, action };
        match *step {
            Do::Make(mebibytes, stack) => list.push(request(Action::Alloc {
                bytes: mebibytes * MIB,
                stream: StreamId(0),
                owner: PoolOwner::DEFAULT,
                stack: StackId(stack),
                failed: false,
            })),
            Do::Free(allocation) => {
                list.push(request(Action::FreeRequested { allocation, stack: StackId::NONE }));
                list.push(request(Action::FreeCompleted { allocation }));
            }
        }
    }
    Requests { list, ..Requests::default() }
}

fn peak(requests: &Requests) -> u64 {
    let policy = Policy::new(Torch::NEWEST);
    replay(requests, &policy, Addresses::Recorded, AtFailure::Stop, |_| ()).totals.peak_allocated / MIB
}

/// Weights 10, two activations of 20 freed in reverse, a gradient 10; then a state of 30 that stays.
fn training() -> Requests {
    use Do::{Free, Make};
    run(&[Make(10, 1), Make(20, 2), Make(20, 2), Make(10, 3), Free(2), Free(1), Make(30, 4), Free(3)])
}

#[test]
fn a_run_can_do_without_a_stacks_tensors() {
    let requests = training();
    assert_eq!(peak(&requests), 60);
    let edited = without(&requests, &Selection::of_stack(&requests, StackId(2)));
    assert_eq!((edited.changed, peak(&edited.requests)), (2, 50));
    let edited = without(&requests, &Selection::of_stack(&requests, StackId(9)));
    assert_eq!((edited.changed, &edited.requests), (0, &requests), "nothing chosen, nothing changed");
}

#[test]
fn tensors_can_be_freed_earlier_but_not_later() {
    let requests = training();
    let all = Selection::of(&requests, |_| true);
    // Before event 3 only the weights and two activations exist.
    let edited = freed_at(&requests, &all, 3);
    assert_eq!((edited.changed, peak(&edited.requests)), (3, 50));
    let late = freed_at(&requests, &Selection::of_stack(&requests, StackId(2)), 6);
    assert_eq!((late.changed, &late.requests), (0, &requests));
}

#[test]
fn optimizer_states_come_zero_one_or_two_times() {
    let requests = training();
    let states = Selection::made_to_last(&requests, &[5..6, 6..8], 7);
    assert_eq!(states.count(), 1);
    let end = |times| {
        let edited = repeated(&requests, &states, times).requests;
        let policy = Policy::new(Torch::NEWEST);
        replay(&edited, &policy, Addresses::Recorded, AtFailure::Stop, |_| ()).totals.allocated / MIB
    };
    assert_eq!([0, 1, 2].map(end), [10, 40, 70]);
    assert_eq!(repeated(&requests, &states, 1).requests, requests);
}

#[test]
fn activations_scale_by_a_factor_or_by_two_recordings() {
    let requests = training();
    let saved = Selection::made_and_freed(&requests, &[1..2, 2..3], &[4..5, 5..6]);
    assert_eq!(saved.count(), 2);
    let edited = resized(&requests, &saved, &Scale::Factor(1.5));
    assert_eq!(peak(&edited.requests), 80);
    // Batch 4 and batch 8: activations double, the rest stays; at batch 2 they halve.
    let doubled = resized(&requests, &saved, &Scale::Factor(2.0)).requests;
    let all = Selection::of(&requests, |_| true);
    let scale = fit_sizes((&requests, 4.0), (&doubled, 8.0), 2.0).unwrap();
    assert_eq!(resized(&requests, &all, &scale).requests, resized(&requests, &saved, &Scale::Factor(0.5)).requests);
    assert_eq!(fit_sizes((&requests, 4.0), (&requests, 4.0), 2.0), None);
}

#[test]
fn another_stream_keeps_its_own_memory() {
    use Do::{Free, Make};
    let requests = run(&[Make(30, 1), Free(0), Make(30, 2), Free(1)]);
    let policy = Policy::new(Torch::NEWEST);
    let reserved = |requests: &Requests| {
        replay(requests, &policy, Addresses::Recorded, AtFailure::Stop, |_| ()).totals.peak_reserved / MIB
    };
    let edited = on_stream(&requests, &Selection::of_stack(&requests, StackId(2)), StreamId(7));
    assert_eq!((reserved(&requests), reserved(&edited.requests)), (30, 60));
}

#[test]
fn the_ideal_leaves_no_gaps() {
    use Do::{Free, Make};
    // Two segments of 20 MiB are half full when 30 MiB are asked for.
    let requests = run(&[Make(11, 1), Make(11, 1), Free(0), Make(12, 2), Free(1), Make(30, 3)]);
    let settings = AllocatorSettings::default();
    assert_eq!(defragmented_bytes(&requests, &settings), 42 * MIB);
    assert_eq!(defragmented_bytes(&training(), &settings), 60 * MIB);
}

#[test]
fn a_start_that_changes_is_laid_out_anew() {
    use Do::{Free, Make};
    let mut requests = run(&[Make(30, 1), Free(1)]);
    let pool = vramscope_trace::Pool { owner: PoolOwner::DEFAULT, class: vramscope_trace::SizeClass::Large };
    requests.start.runs.push(vramscope_trace::StartRun {
        address: 64 * MIB,
        bytes: 100 * MIB,
        pool,
        stream: StreamId(0),
        expandable: false,
        stack: StackId::NONE,
    });
    requests.start.blocks.push(vramscope_trace::StartBlock {
        address: 64 * MIB,
        bytes: 20 * MIB,
        requested: 20 * MIB,
        stream: StreamId(0),
        owner: PoolOwner::DEFAULT,
        stack: StackId(8),
        pending: false,
    });
    let policy = Policy::new(Torch::NEWEST);
    let totals = |requests: &Requests| replay(requests, &policy, Addresses::Recorded, AtFailure::Stop, |_| ()).totals;
    assert_eq!((totals(&requests).peak_reserved, totals(&requests).segment_allocs), (100 * MIB, 0));
    let doubled = repeated(&requests, &Selection::of_stack(&requests, StackId(8)), 2).requests;
    assert_eq!((totals(&doubled).peak_reserved, totals(&doubled).peak_allocated), (70 * MIB, 70 * MIB));
}
