//! Laws of the format: what is written comes back, up to the tear if there is one, and no bytes break the reader.

mod support;

use proptest::prelude::*;
use support::{Said, any_event, batches, borders, event, full_info, recorded, story};
use vramscope_recording::{Anonymizer, MAGIC, Reader, Writer};
use vramscope_trace::{Batch, EventKind, NameId, Problem, ProblemKind, RunInfo, SourceMessage, StackId};

fn told(batches: &[Batch], info: Option<&RunInfo>) -> Said {
    let messages = batches.iter().cloned().map(SourceMessage::Batch);
    let info = info.map(|info| SourceMessage::Info(info.clone().into()));
    Said::of(messages.chain(info).chain([SourceMessage::Done]))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn what_is_recorded_comes_back(
        texts in prop::collection::vec(any::<String>(), 0..12),
        events in prop::collection::vec(any::<[u8; 8]>(), 0..120),
        cut in 1..40_usize,
    ) {
        let batches = batches(&texts, &events, cut);
        let info = full_info();
        let bytes = recorded(&batches, Some(&info));
        prop_assert!(bytes.starts_with(&MAGIC));
        prop_assert_eq!(Said::read(&bytes), told(&batches, Some(&info)));
        // Chunking makes no difference to what is said.
        let mut whole = Writer::new(Vec::new()).unwrap();
        batches.iter().for_each(|batch| whole.batch(batch).unwrap());
        whole.info(&info).unwrap();
        prop_assert_eq!(Said::read(&whole.finish().unwrap()), Said::read(&bytes));
    }

    #[test]
    fn changed_bytes_never_break_the_reader(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (batches, info) = story();
        let mut bytes = recorded(&batches, Some(&info));
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        Said::read(&bytes);
        Said::read(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn headers_full_of_noise_never_break_the_reader(noise in prop::collection::vec(any::<u8>(), 0..400), length in 0..500_u32) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(noise);
        prop_assert!(Said::read(&bytes).failure.is_some());
    }
}

#[test]
fn every_cut_gives_what_came_before_it() {
    let (batches, info) = story();
    let bytes = recorded(&batches, Some(&info));
    let whole = Said::read(&bytes);
    let borders = borders(&bytes);
    let events_up_to = |cut: usize| {
        // The schema and the dictionaries of words come first, then a message for each of the three batches, then the facts.
        let behind = borders.iter().rev().filter(|border| **border > cut).count();
        14 * 4_usize.saturating_sub(behind).min(3)
    };
    let near_a_border = |cut: usize| borders.iter().any(|border| border.abs_diff(cut) < 20);
    for cut in (0..bytes.len()).filter(|cut| cut % 23 == 0 || near_a_border(*cut)) {
        let said = Said::read(&bytes[..cut]);
        if cut < borders[1] {
            assert!(said.failure.is_some(), "cut at {cut}");
            continue;
        }
        assert_eq!(said.failure, None, "cut at {cut}");
        assert_eq!(said.events.len(), events_up_to(cut), "cut at {cut}");
        assert_eq!(said.events, whole.events[..said.events.len()]);
        let torn = said.problems.iter().find(|problem| problem.kind == ProblemKind::TornFile);
        assert!(torn.is_some(), "cut at {cut}");
    }
    assert!(!whole.problems.iter().any(|problem| problem.kind == ProblemKind::TornFile));
}

#[test]
fn a_killed_writer_leaves_what_it_flushed() {
    let (batches, _) = story();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    writer.batch(&batches[0]).unwrap();
    writer.flush().unwrap();
    writer.batch(&batches[1]).unwrap();
    // Killed: what waits is lost, and there is no end mark.
    std::mem::forget(writer);
    let said = Said::read(&file);
    assert_eq!(said.events, batches[0].events);
    assert!(
        said.problems
            .iter()
            .any(|problem| problem.kind == ProblemKind::TornFile && problem.example.contains("end mark"))
    );
}

#[test]
fn large_recordings_come_in_full_batches_and_small_pieces() {
    let events: Vec<_> =
        (0..150_000_u32).map(|n| any_event(n.to_le_bytes().repeat(2).try_into().unwrap(), 1, 1)).collect();
    let batch = Batch { events, ..Batch::default() };
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.batch(&batch).unwrap();
    let bytes = writer.finish().unwrap();
    assert!(borders(&bytes).len() < 12, "{} messages", borders(&bytes).len());
    let mut reader = Reader::new(&bytes[..]);
    let mut most = 0;
    let said = Said::of(std::iter::from_fn(|| {
        let message = reader.next_message();
        if let Some(SourceMessage::Batch(batch)) = &message {
            most = most.max(batch.events.len());
        }
        message
    }));
    assert!(said.events == batch.events && (1..=4096).contains(&most));
    assert_eq!(reader.offset(), bytes.len() as u64);
}

#[test]
fn quiet_stretches_stay_within_what_may_be_unpacked() {
    // The most monotonous run: its recording packs as well as any can.
    let free = event(EventKind::FreeCompleted { address: 0 });
    let batch = Batch { events: vec![free; 1 << 20], ..Batch::default() };
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.batch(&batch).unwrap();
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 160_000, "{} bytes", bytes.len());
    assert_eq!(Said::read(&bytes).events.len(), 1 << 20);
}

#[test]
fn a_small_file_cannot_unpack_to_a_large_one() {
    let text = "a".repeat(60 << 20);
    let problem = Problem { kind: ProblemKind::NoTimes, count: 1, example: text };
    let mut writer = Writer::new(Vec::new()).unwrap();
    for _ in 0..3 {
        writer.problem(&problem).unwrap();
    }
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() < 100_000);
    let failure = Said::read(&bytes).failure.unwrap();
    assert!(failure.contains("unpacks to more than"), "{failure}");
}

#[test]
fn what_was_never_told_is_a_problem_and_not_a_lie() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.event(&event(EventKind::Mark { name: NameId(7) })).unwrap();
    writer.event(&event(EventKind::FreeRequested { address: 1, stack: StackId(9), at_start: false })).unwrap();
    let said = Said::read(&writer.finish().unwrap());
    assert_eq!(said.events[0].kind, EventKind::Mark { name: NameId(0) });
    assert_eq!(said.problems[0].kind, ProblemKind::UnknownKey);
    assert_eq!(said.problems[0].count, 2);
}

#[test]
fn problems_keep_their_place_among_the_events() {
    let problem = |example: &str| Problem { kind: ProblemKind::Overlap, count: 1, example: example.into() };
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.event(&event(EventKind::FreeCompleted { address: 1 })).unwrap();
    writer.problem(&problem("behind")).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = Reader::new(&bytes[..]);
    let Some(SourceMessage::Batch(first)) = reader.next_message() else { panic!("no batch") };
    assert!(first.problems.is_empty() && first.events.len() == 1, "a batch's problems count as told before its events");
}

#[test]
fn an_anonymous_copy_has_no_names_and_the_same_events() {
    let texts: Vec<String> = (0..9).map(|n| format!("/home/mia/project{n}/secret_{n}.py")).collect();
    let events: Vec<[u8; 8]> = (0..200u8).map(|n| [1, 3, 1, 5, 1, 7, 1, 1].map(|step| n.wrapping_mul(step))).collect();
    let mut batches = batches(&texts, &events, 20);
    batches[1].problems.push(Problem { kind: ProblemKind::Overlap, count: 2, example: "in secret_3.py".into() });
    let mut info = full_info();
    info.settings.as_mut().unwrap().all.push(("mia".into(), "secret_place".into()));
    let mut writer = Writer::anonymous(Vec::new(), Anonymizer::new()).unwrap();
    batches.iter().for_each(|batch| writer.batch(batch).unwrap());
    writer.info(&info).unwrap();
    let (open, hidden) = (told(&batches, Some(&info)), Said::read(&writer.finish().unwrap()));
    assert_eq!((&hidden.events, &hidden.frames, &hidden.stacks), (&open.events, &open.frames, &open.stacks));
    assert_eq!(hidden.names.len(), open.names.len());
    let everything = format!("{hidden:?}");
    for word in ["mia", "home", "project", "secret"] {
        assert!(!everything.contains(word), "{word}");
    }
    assert_eq!(hidden.problems[0].count, 2);
    assert_eq!(hidden.info.unwrap().entries_by_device, info.entries_by_device);
}
