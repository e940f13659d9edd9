//! Files of every version that shipped are read forever. `version1.vmt` was written by the first.

mod support;

use support::{Said, recorded, story};
use vramscope_recording::VERSION;
use vramscope_trace::SourceMessage;

#[test]
fn the_first_version_is_read_as_ever() {
    let said = Said::read(include_bytes!("golden/version1.vmt"));
    let (batches, info) = story();
    let messages = batches.into_iter().map(SourceMessage::Batch);
    let told = Said::of(messages.chain([SourceMessage::Info(info.into()), SourceMessage::Done]));
    assert_eq!(said, told);
}

#[test]
fn this_version_writes_the_columns_of_the_golden_file() {
    // Whoever changes the columns keeps the old file, adds one of the new version beside it, and reads both.
    assert_eq!(VERSION, 1);
    let (batches, info) = story();
    let now = recorded(&batches, Some(&info));
    let schema = |bytes: &[u8]| arrow_ipc::reader::StreamReader::try_new(bytes, None).unwrap().schema();
    assert_eq!(schema(&now), schema(include_bytes!("golden/version1.vmt")));
}

#[test]
#[ignore = "writes the file that the others compare with; for new versions only"]
fn write_the_golden_file() {
    let (batches, info) = story();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/version{VERSION}.vmt"));
    std::fs::write(path, recorded(&batches, Some(&info))).unwrap();
}
