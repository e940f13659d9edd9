//! Pickle at the level of opcodes: where each begins and ends, so that a change keeps the rest readable.

/// Byte ranges of the opcodes of a pickle, in order; what cannot be split further is one last range.
pub(crate) fn split(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = length(&bytes[at..]).min(bytes.len() - at);
        ranges.push(at..at + length);
        at += length;
    }
    ranges
}

/// Length of the first opcode with its argument.
fn length(bytes: &[u8]) -> usize {
    let number = |width: usize| {
        let mut wide = [0; 8];
        let Some(digits) = bytes.get(1..=width) else { return usize::MAX };
        wide[..width].copy_from_slice(digits);
        1 + width + usize::try_from(u64::from_le_bytes(wide)).unwrap_or(usize::MAX / 2).min(usize::MAX / 2)
    };
    match bytes[0] {
        b'K' | b'h' | b'q' | 0x80 | 0x82 => 2,
        b'M' | 0x83 => 3,
        b'J' | b'j' | b'r' | 0x84 => 5,
        b'G' | 0x95 => 9,
        b'U' | b'C' | 0x8a | 0x8c => number(1),
        b'T' | b'X' | b'B' | 0x8b => number(4),
        0x8d | 0x8e | 0x96 => number(8),
        _ => 1,
    }
}

/// Opcodes without an argument, and short ones with a plain argument: what a mutation puts in.
pub(crate) const PIECES: &[&[u8]] = &[
    b"(",
    b"0",
    b"1",
    b"2",
    b"N",
    b"]",
    b"a",
    b"e",
    b"l",
    b"d",
    b"}",
    b"s",
    b"u",
    b"t",
    b")",
    b".",
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x88",
    b"\x89",
    b"\x94",
    b"K\x00",
    b"K\x01",
    b"K\xff",
    b"M\x00\x02",
    b"M\xff\xff",
    b"J\xff\xff\xff\xff",
    b"J\x00\x00\x20\x00",
    b"J\xff\xff\xff\x7f",
    b"\x8a\x00",
    b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00",
    b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\x8a\x06\x00\x00\x00\x00\x7f\x00",
    b"\x8a\x01\xff",
    b"\x8b\x09\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x80",
    b"\x8a\x0a\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01",
    b"G\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"G\x40\x00\x00\x00\x00\x00\x00\x00",
    b"G\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"h\x00",
    b"h\x01",
    b"h\x02",
    b"j\xff\xff\xff\x7f",
    b"q\x00",
    b"q\x05",
    b"r\xff\xff\xff\xff",
    b"C\x01a",
    b"B\x00\x00\x00\x00",
    b"\x8e\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x96\x01\x00\x00\x00\x00\x00\x00\x00a",
    b"X\x00\x00\x00\x00",
    b"\x8c\x00",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x95\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\x80\x02",
    b"c",
    b"\x93",
    b"R",
    b"\x8f",
    b"\x8c\x02\xff\xfe",
    b"U\x01\n",
];

/// `text` as a short string opcode.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x8c, text.len().min(255) as u8];
    bytes.extend_from_slice(&text.as_bytes()[..text.len().min(255)]);
    bytes
}
