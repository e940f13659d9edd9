//! Small trees of values and writers for them, so that tests can make snapshots in every syntax without Python.

#![allow(dead_code, unused_imports, reason = "each test uses its part")]
#![allow(clippy::panic, reason = "helpers of tests are tests")]

mod json;
mod snapshot;
mod writer;

pub(crate) use json::json;
pub(crate) use snapshot::*;
pub(crate) use writer::{STYLES, Style, pickle};

use std::rc::Rc;

/// A value. Clones of a list or dictionary are the same object, which writers with a memo write once.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    None,
    Bool(bool),
    /// An integer of any length: little-endian two's complement.
    Int(Vec<u8>),
    Float(f64),
    Text(Rc<str>),
    List(Rc<Vec<Node>>),
    Tuple(Rc<Vec<Node>>),
    Dict(Rc<Vec<(Node, Node)>>),
}

impl From<i128> for Node {
    fn from(number: i128) -> Self {
        let mut bytes = number.to_le_bytes().to_vec();
        let sign = if number < 0 { 0xff } else { 0 };
        while bytes.len() > 1 && bytes[bytes.len() - 1] == sign && (bytes[bytes.len() - 2] ^ sign) & 0x80 == 0 {
            bytes.pop();
        }
        if number == 0 {
            bytes.clear();
        }
        Self::Int(bytes)
    }
}

impl From<u64> for Node {
    fn from(number: u64) -> Self {
        Self::from(i128::from(number))
    }
}

impl From<i32> for Node {
    fn from(number: i32) -> Self {
        Self::from(i128::from(number))
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Node {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl From<f64> for Node {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Vec<Node>> for Node {
    fn from(items: Vec<Node>) -> Self {
        Self::List(items.into())
    }
}

/// A tuple.
pub(crate) fn tuple(items: Vec<Node>) -> Node {
    Node::Tuple(items.into())
}

/// A dictionary with these pairs.
pub(crate) fn dict<const N: usize>(pairs: [(&str, Node); N]) -> Node {
    Node::Dict(Rc::new(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()))
}

impl Node {
    /// The dictionary with `key` set: in its place if it was there, else at the end.
    pub(crate) fn with(&self, key: &str, value: impl Into<Node>) -> Self {
        let mut pairs = self.without(key).pairs();
        let place = self.pairs().iter().position(|(known, _)| matches!(known, Self::Text(text) if &**text == key));
        pairs.insert(place.unwrap_or(pairs.len()), (key.into(), value.into()));
        Self::Dict(pairs.into())
    }

    /// The dictionary without `key`.
    pub(crate) fn without(&self, key: &str) -> Self {
        let mut pairs = self.pairs();
        pairs.retain(|(known, _)| !matches!(known, Self::Text(text) if &**text == key));
        Self::Dict(pairs.into())
    }

    fn pairs(&self) -> Vec<(Node, Node)> {
        match self {
            Self::Dict(pairs) => pairs.to_vec(),
            other => panic!("{other:?} is no dictionary"),
        }
    }
}
