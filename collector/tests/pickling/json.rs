//! Writes trees as JSON.

use super::Node;

/// Writes `node` as JSON text. Tuples become lists, and what is shared is written again each time.
pub(crate) fn json(node: &Node) -> String {
    let join = |parts: Vec<String>| parts.join(", ");
    match node {
        Node::None => "null".into(),
        Node::Bool(yes) => yes.to_string(),
        Node::Int(bytes) => integer(bytes),
        Node::Float(number) => format!("{number:?}"),
        Node::Text(text) => string(text),
        Node::List(items) | Node::Tuple(items) => format!("[{}]", join(items.iter().map(json).collect())),
        Node::Dict(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", json(key), json(value)));
            format!("{{{}}}", join(pairs.collect()))
        }
    }
}

/// Decimal digits of an integer of up to 16 bytes.
fn integer(bytes: &[u8]) -> String {
    let mut wide = [if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide).to_string()
}

fn string(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            // As Python does: everything beyond ASCII as UTF-16 units.
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| quoted.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    quoted.push('"');
    quoted
}
