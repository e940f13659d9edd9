//! JSON at the level of tokens: where each begins and ends, so that a change keeps the rest readable.

/// Byte ranges of the tokens of a JSON text, in order; strings are one token each.
pub(crate) fn split(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + length(&bytes[at..]);
        ranges.push(at..end);
        at = end;
    }
    ranges
}

fn length(bytes: &[u8]) -> usize {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    if bytes[0] == b'"' {
        let mut escaped = false;
        for (index, &byte) in bytes.iter().enumerate().skip(1) {
            match byte {
                b'\\' if !escaped => escaped = true,
                b'"' if !escaped => return index + 1,
                _ => escaped = false,
            }
        }
        return bytes.len();
    }
    if word(&bytes[0]) { bytes.iter().take_while(|byte| word(byte)).count() } else { 1 }
}

/// What a mutation puts in.
pub(crate) const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"{}",
    b"[]",
    b"[{}]",
    b"null",
    b"true",
    b"false",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"0",
    b"-1",
    b"512",
    b"1e3",
    b"1.5",
    b"-0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775808",
    b"1e308",
    b"-9223372036854775809",
    b"2097152",
    b"20971520",
    b"\"\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\ud800\"",
    b"\"\\u0000\"",
    b"\"\\n\"",
    b"\"a\":",
    b",\"a\":1",
    b" ",
    b"\n",
    b"\"\\q\"",
    b"\xef\xbb\xbf",
    b"\"\xff\"",
    b"tru",
    b"\"traceEvents\":[]",
];

/// `text` as a string.
pub(crate) fn text(text: &str) -> Vec<u8> {
    format!("\"{text}\"").into_bytes()
}
