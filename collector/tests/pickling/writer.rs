//! Writes trees as pickles, in the styles of Python, of PyTorch's C++ writer, and of writers that do everything one by one.

use std::collections::HashMap;
use std::rc::Rc;

use super::Node;

/// How a pickle is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As Python's `pickle.dump` does: a memo, batches of 1000, frames from protocol 4 on.
    Python(u8),
    /// As PyTorch's C++ pickler: protocol 2, one APPENDS for a whole list, numbers from 1 in the memo.
    Cpp,
    /// Protocol 2 without batches: APPEND and SETITEM.
    OneByOne,
    /// Protocol 4 without a memo: what is shared is written again each time.
    Unshared,
}

/// The styles that keep shared objects shared.
pub(crate) const STYLES: [Style; 6] =
    [Style::Python(2), Style::Python(3), Style::Python(4), Style::Python(5), Style::Cpp, Style::OneByOne];

/// Writes `node` as a whole pickle.
pub(crate) fn pickle(node: &Node, style: Style) -> Vec<u8> {
    let protocol = match style {
        Style::Python(protocol) => protocol,
        Style::Cpp | Style::OneByOne => 2,
        Style::Unshared => 4,
    };
    let mut writer = Writer { style, protocol, body: Vec::new(), memo: HashMap::new(), texts: HashMap::new(), next: 0 };
    writer.node(node);
    writer.body.push(b'.');
    let mut bytes = vec![0x80, protocol];
    if protocol >= 4 {
        bytes.push(0x95);
        bytes.extend((writer.body.len() as u64).to_le_bytes());
    }
    bytes.append(&mut writer.body);
    bytes
}

struct Writer {
    style: Style,
    protocol: u8,
    body: Vec<u8>,
    memo: HashMap<*const (), u32>,
    texts: HashMap<Rc<str>, u32>,
    next: u32,
}

impl Writer {
    fn node(&mut self, node: &Node) {
        match node {
            Node::None => self.body.push(b'N'),
            Node::Bool(yes) => self.body.push(if *yes { 0x88 } else { 0x89 }),
            Node::Int(bytes) => self.integer(bytes),
            Node::Float(number) => {
                self.body.push(b'G');
                self.body.extend(number.to_be_bytes());
            }
            Node::Text(text) => self.text(text),
            Node::List(items) => {
                if self.known(Rc::as_ptr(items).cast()) {
                    return;
                }
                self.body.push(b']');
                self.remember(Some(Rc::as_ptr(items).cast()));
                self.items(items);
            }
            Node::Tuple(items) => self.tuple(items),
            Node::Dict(pairs) => {
                if self.known(Rc::as_ptr(pairs).cast()) {
                    return;
                }
                self.body.push(b'}');
                self.remember(Some(Rc::as_ptr(pairs).cast()));
                self.pairs(pairs);
            }
        }
    }

    fn items(&mut self, items: &[Node]) {
        if self.style == Style::OneByOne {
            for item in items {
                self.node(item);
                self.body.push(b'a');
            }
            return;
        }
        for batch in items.chunks(self.batch()) {
            // Python writes a single item without a mark.
            let single = batch.len() == 1 && self.style != Style::Cpp;
            if !single {
                self.body.push(b'(');
            }
            batch.iter().for_each(|item| self.node(item));
            self.body.push(if single { b'a' } else { b'e' });
        }
    }

    fn pairs(&mut self, pairs: &[(Node, Node)]) {
        if self.style == Style::OneByOne {
            for (key, value) in pairs {
                self.node(key);
                self.node(value);
                self.body.push(b's');
            }
            return;
        }
        for batch in pairs.chunks(self.batch()) {
            let single = batch.len() == 1 && self.style != Style::Cpp;
            if !single {
                self.body.push(b'(');
            }
            for (key, value) in batch {
                self.node(key);
                self.node(value);
            }
            self.body.push(if single { b's' } else { b'u' });
        }
    }

    fn batch(&self) -> usize {
        if self.style == Style::Cpp { usize::MAX } else { 1000 }
    }

    fn tuple(&mut self, items: &[Node]) {
        if items.is_empty() {
            return self.body.push(b')');
        }
        let short = items.len() <= 3 && self.style != Style::Cpp;
        if !short {
            self.body.push(b'(');
        }
        items.iter().for_each(|item| self.node(item));
        self.body.push(if short { 0x84 + items.len() as u8 } else { b't' });
        self.remember(None);
    }

    fn integer(&mut self, bytes: &[u8]) {
        let mut wide = [if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 }; 8];
        let number = (bytes.len() <= 8).then(|| {
            wide[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(wide)
        });
        match number {
            Some(number @ 0..=0xff) => self.body.extend([b'K', number as u8]),
            Some(number @ 0x100..=0xffff) => {
                self.body.push(b'M');
                self.body.extend((number as u16).to_le_bytes());
            }
            Some(number) if i32::try_from(number).is_ok() => {
                self.body.push(b'J');
                self.body.extend((number as i32).to_le_bytes());
            }
            _ => {
                if bytes.len() < 256 {
                    self.body.extend([0x8a, bytes.len() as u8]);
                } else {
                    self.body.push(0x8b);
                    self.body.extend((bytes.len() as u32).to_le_bytes());
                }
                self.body.extend(bytes);
            }
        }
    }

    fn text(&mut self, text: &Rc<str>) {
        if self.style != Style::Unshared
            && let Some(&number) = self.texts.get(text)
        {
            return self.get(number);
        }
        if self.protocol >= 4 && text.len() < 256 {
            self.body.extend([0x8c, text.len() as u8]);
        } else {
            self.body.push(b'X');
            self.body.extend((text.len() as u32).to_le_bytes());
        }
        self.body.extend(text.as_bytes());
        self.texts.insert(Rc::clone(text), self.next);
        self.remember(None);
    }

    /// Refers to an object that was written before.
    fn known(&mut self, object: *const ()) -> bool {
        match self.memo.get(&object) {
            Some(&number) if self.style != Style::Unshared => {
                self.get(number);
                true
            }
            _ => false,
        }
    }

    fn remember(&mut self, object: Option<*const ()>) {
        if self.style == Style::Unshared {
            return;
        }
        if let Some(object) = object {
            self.memo.insert(object, self.next);
        }
        // PyTorch's C++ writer begins at 1.
        let number = self.next + u32::from(self.style == Style::Cpp);
        if self.protocol >= 4 {
            self.body.push(0x94);
        } else if number < 256 {
            self.body.extend([b'q', number as u8]);
        } else {
            self.body.push(b'r');
            self.body.extend(number.to_le_bytes());
        }
        self.next += 1;
    }

    fn get(&mut self, number: u32) {
        let number = number + u32::from(self.style == Style::Cpp);
        if number < 256 {
            self.body.extend([b'h', number as u8]);
        } else {
            self.body.push(b'j');
            self.body.extend(number.to_le_bytes());
        }
    }
}
