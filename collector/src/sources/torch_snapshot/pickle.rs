//! Pickle, protocols 2 to 5, as far as plain data needs it.
//!
//! **Promise.** No input makes this reader panic, recurse, run code or loop without consuming bytes. Each byte of input takes at
//! most a constant amount of memory (see [`super::MEMORY_FACTOR`]). Opcodes that name or call Python objects are refused with
//! their name and offset: a snapshot needs none of them, and they are how a pickle runs code.

use vramscope_trace::NameId;

use super::error::ReadError;
use super::input::Input;
use super::machine::Machine;
use super::value::{Value, Word};

mod op {
    pub(super) const MARK: u8 = b'(';
    pub(super) const STOP: u8 = b'.';
    pub(super) const POP: u8 = b'0';
    pub(super) const POP_MARK: u8 = b'1';
    pub(super) const DUP: u8 = b'2';
    pub(super) const BINFLOAT: u8 = b'G';
    pub(super) const BININT: u8 = b'J';
    pub(super) const BININT1: u8 = b'K';
    pub(super) const BININT2: u8 = b'M';
    pub(super) const NONE: u8 = b'N';
    pub(super) const BINSTRING: u8 = b'T';
    pub(super) const SHORT_BINSTRING: u8 = b'U';
    pub(super) const BINUNICODE: u8 = b'X';
    pub(super) const EMPTY_LIST: u8 = b']';
    pub(super) const APPEND: u8 = b'a';
    pub(super) const APPENDS: u8 = b'e';
    pub(super) const LIST: u8 = b'l';
    pub(super) const DICT: u8 = b'd';
    pub(super) const EMPTY_DICT: u8 = b'}';
    pub(super) const SETITEM: u8 = b's';
    pub(super) const SETITEMS: u8 = b'u';
    pub(super) const TUPLE: u8 = b't';
    pub(super) const EMPTY_TUPLE: u8 = b')';
    pub(super) const BINGET: u8 = b'h';
    pub(super) const LONG_BINGET: u8 = b'j';
    pub(super) const BINPUT: u8 = b'q';
    pub(super) const LONG_BINPUT: u8 = b'r';
    pub(super) const BINBYTES: u8 = b'B';
    pub(super) const SHORT_BINBYTES: u8 = b'C';
    pub(super) const PROTO: u8 = 0x80;
    pub(super) const TUPLE1: u8 = 0x85;
    pub(super) const TUPLE2: u8 = 0x86;
    pub(super) const TUPLE3: u8 = 0x87;
    pub(super) const NEWTRUE: u8 = 0x88;
    pub(super) const NEWFALSE: u8 = 0x89;
    pub(super) const LONG1: u8 = 0x8a;
    pub(super) const LONG4: u8 = 0x8b;
    pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
    pub(super) const BINUNICODE8: u8 = 0x8d;
    pub(super) const BINBYTES8: u8 = 0x8e;
    pub(super) const MEMOIZE: u8 = 0x94;
    pub(super) const FRAME: u8 = 0x95;
    pub(super) const BYTEARRAY8: u8 = 0x96;
}

/// Name of an opcode that is refused.
fn refused_name(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'c' => "GLOBAL",
        0x93 => "STACK_GLOBAL",
        b'R' => "REDUCE",
        b'b' => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        b'I' => "INT (protocol 0)",
        b'L' => "LONG (protocol 0)",
        b'F' => "FLOAT (protocol 0)",
        b'S' => "STRING (protocol 0)",
        b'V' => "UNICODE (protocol 0)",
        b'g' => "GET (protocol 0)",
        b'p' => "PUT (protocol 0)",
        _ => return None,
    })
}

/// A value too long for the window: read piece by piece.
struct Long {
    header: usize,
    length: u64,
    kind: LongKind,
}

#[derive(Clone, Copy, PartialEq)]
enum LongKind {
    Text,
    Bytes,
    Integer,
}

/// Runs a pickle to its end and leaves the one value on the machine's stack.
///
/// # Errors
/// Torn and refused files, with the offset; what was folded before stays in the machine.
pub(super) fn run(input: &mut Input<'_>, machine: &mut Machine) -> Result<Value, ReadError> {
    let mut text = Vec::new();
    loop {
        let base = input.offset();
        let window = input.window()?;
        let mut at = 0;
        let outcome = run_window(window, &mut at, base, machine);
        input.consume(at);
        match outcome? {
            Outcome::Stopped(word) => return Ok(machine.decode(word)),
            Outcome::More if at == 0 => return Err(ReadError::torn(input.offset())),
            Outcome::More => {}
            Outcome::Long(long) => {
                input.consume(long.header);
                text.clear();
                input.take(long.length, |part| {
                    if long.kind != LongKind::Bytes {
                        text.extend_from_slice(part);
                    }
                })?;
                match long.kind {
                    LongKind::Text => self::text(machine, &text),
                    LongKind::Integer => machine.push_number(integer(&text)),
                    LongKind::Bytes => machine.stack.push(Word::OPAQUE),
                }
            }
        }
        if machine.is_full() {
            return Err(ReadError::Failed(format!("holds more than 4 billion items, at byte {}", input.offset())));
        }
    }
}

enum Outcome {
    Stopped(Word),
    /// The window ends inside an opcode, or exactly after one.
    More,
    Long(Long),
}

#[expect(clippy::too_many_lines, reason = "one arm an opcode: a table, read as one")]
fn run_window(window: &[u8], at: &mut usize, base: u64, m: &mut Machine) -> Result<Outcome, ReadError> {
    /// The `N` bytes after the opcode, or out of here for more.
    macro_rules! argument {
        ($count:literal) => {
            match window.get(*at + 1..).and_then(|rest| rest.first_chunk::<$count>()) {
                Some(bytes) => {
                    *at += 1 + $count;
                    *bytes
                }
                None => return Ok(Outcome::More),
            }
        };
    }
    macro_rules! sized {
        ($count:literal, $int:ty, $kind:expr) => {{
            let Some(bytes) = window.get(*at + 1..).and_then(|rest| rest.first_chunk::<$count>()) else {
                return Ok(Outcome::More);
            };
            let length = <$int>::from_le_bytes(*bytes) as u64;
            let body = window.get(*at + 1 + $count..).unwrap_or(&[]);
            if length > body.len() as u64 {
                // At the window's start it holds all it can: only a long value, or the end of the file, is left.
                if *at > 0 {
                    return Ok(Outcome::More);
                }
                return Ok(Outcome::Long(Long { header: 1 + $count, length, kind: $kind }));
            }
            let body = &body[..length as usize];
            match $kind {
                LongKind::Text => text(m, body),
                LongKind::Integer => m.push_number(integer(body)),
                LongKind::Bytes => m.stack.push(Word::OPAQUE),
            }
            *at += 1 + $count + length as usize;
        }};
    }
    while let Some(&opcode) = window.get(*at) {
        match opcode {
            op::LONG_BINGET => {
                let number = u32::from_le_bytes(argument!(4));
                let value = m.memo.get(number).ok_or_else(|| unknown_memo(number, base, *at))?;
                m.stack.push(value);
            }
            op::BINGET => {
                let [number] = argument!(1);
                let value = m.memo.get(number.into()).ok_or_else(|| unknown_memo(number.into(), base, *at))?;
                m.stack.push(value);
            }
            op::MEMOIZE => {
                let top = top(m, base, *at)?;
                m.memo.push(top);
                *at += 1;
            }
            op::LONG1 => sized!(1, u8, LongKind::Integer),
            op::BININT => {
                let value = i32::from_le_bytes(argument!(4));
                m.push_number(Value::Int(value.into()));
            }
            op::BININT1 => {
                let [value] = argument!(1);
                m.push_number(Value::Int(value.into()));
            }
            op::BININT2 => {
                let value = u16::from_le_bytes(argument!(2));
                m.push_number(Value::Int(value.into()));
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => sized!(1, u8, LongKind::Text),
            op::BINUNICODE | op::BINSTRING => sized!(4, u32, LongKind::Text),
            op::BINUNICODE8 => sized!(8, u64, LongKind::Text),
            op::SHORT_BINBYTES => sized!(1, u8, LongKind::Bytes),
            op::BINBYTES => sized!(4, u32, LongKind::Bytes),
            op::BINBYTES8 | op::BYTEARRAY8 => sized!(8, u64, LongKind::Bytes),
            op::LONG4 => sized!(4, u32, LongKind::Integer),
            op::BINPUT => {
                let [number] = argument!(1);
                let top = top(m, base, *at)?;
                m.memo.put(number.into(), top);
            }
            op::LONG_BINPUT => {
                let number = u32::from_le_bytes(argument!(4));
                let top = top(m, base, *at)?;
                m.memo.put(number, top);
            }
            op::BINFLOAT => {
                let value = f64::from_be_bytes(argument!(8));
                m.push_number(Value::Float(value));
            }
            op::PROTO => {
                let [protocol] = argument!(1);
                if protocol > 5 {
                    return Err(ReadError::Failed(format!(
                        "is a pickle of protocol {protocol}; protocols 2 to 5 are known"
                    )));
                }
            }
            op::FRAME => {
                argument!(8);
            }
            op::STOP => {
                *at += 1;
                return m.stack.pop().map(Outcome::Stopped).ok_or_else(|| underflow(base, *at - 1));
            }
            _ => {
                container(opcode, m, base, *at)?;
                *at += 1;
            }
        }
    }
    Ok(Outcome::More)
}

/// Opcodes without an argument that work on the stack.
#[inline]
fn container(opcode: u8, m: &mut Machine, base: u64, at: usize) -> Result<(), ReadError> {
    match opcode {
        op::EMPTY_DICT => m.push_dict(),
        op::MARK => m.marks.push(m.stack.len()),
        op::SETITEMS => {
            let from = mark(m, base, at)?;
            let dict = below(m, from, base, at)?;
            m.set_from(dict, from);
        }
        op::EMPTY_LIST => m.push_list(),
        op::APPENDS => {
            let from = mark(m, base, at)?;
            let list = below(m, from, base, at)?;
            m.append_from(list, from);
        }
        op::APPEND => {
            let from = m.stack.len().checked_sub(1).ok_or_else(|| underflow(base, at))?;
            let list = below(m, from, base, at)?;
            m.append_from(list, from);
        }
        op::SETITEM => {
            let from = m.stack.len().checked_sub(2).ok_or_else(|| underflow(base, at))?;
            let dict = below(m, from, base, at)?;
            m.set_from(dict, from);
        }
        op::NONE => m.stack.push(Word::NONE),
        op::NEWTRUE => m.stack.push(Word::TRUE),
        op::NEWFALSE => m.stack.push(Word::FALSE),
        op::EMPTY_TUPLE => m.push_list(),
        op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
            let count = usize::from(opcode - op::TUPLE1) + 1;
            let from = m.stack.len().checked_sub(count).ok_or_else(|| underflow(base, at))?;
            tuple(m, from);
        }
        op::TUPLE => {
            let from = mark(m, base, at)?;
            tuple(m, from);
        }
        op::LIST => {
            let from = mark(m, base, at)?;
            m.collect_list(from);
        }
        op::DICT => {
            let from = mark(m, base, at)?;
            m.push_dict();
            if let Some(dict) = m.stack.pop() {
                m.set_from(dict, from);
                m.stack.push(dict);
            }
        }
        op::POP => {
            // As Python does: a mark directly on top is popped instead.
            if m.marks.last() == Some(&m.stack.len()) {
                m.marks.pop();
            } else {
                m.stack.pop().ok_or_else(|| underflow(base, at))?;
            }
        }
        op::POP_MARK => {
            let from = mark(m, base, at)?;
            m.stack.truncate(from);
        }
        op::DUP => {
            let top = top(m, base, at)?;
            m.stack.push(top);
        }
        _ => return Err(unknown_opcode(opcode, base, at)),
    }
    Ok(())
}

fn tuple(m: &mut Machine, from: usize) {
    if let [first, second] = m.stack[from..]
        && let (Some(first), Some(second)) = (first.as_int(), second.as_int())
        && let (Ok(first), Ok(second)) = (u32::try_from(first), u32::try_from(second))
    {
        m.stack.truncate(from);
        m.push_number(Value::Pair(first, second));
    } else {
        m.collect_list(from);
    }
}

#[inline]
fn text(m: &mut Machine, bytes: &[u8]) {
    // Every entry may carry an empty label of its own.
    let name = if bytes.is_empty() {
        NameId::default()
    } else {
        // Python may write lone surrogates; they are shown as replacement characters.
        m.interner.name(&String::from_utf8_lossy(bytes))
    };
    m.stack.push(Word::name(name));
}

/// A little-endian two's-complement integer of any length.
pub(super) fn integer(bytes: &[u8]) -> Value {
    let Some(&last) = bytes.last() else { return Value::Int(0) };
    let negative = last & 0x80 != 0;
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    if bytes.len() <= 8 {
        wide[..bytes.len()].copy_from_slice(bytes);
        return Value::Int(i64::from_le_bytes(wide));
    }
    let (low, high) = bytes.split_at(8);
    wide.copy_from_slice(low);
    let number = u64::from_le_bytes(wide);
    if !negative && high.iter().all(|&byte| byte == 0) {
        i64::try_from(number).map_or(Value::Big(number), Value::Int)
    } else if negative && high.iter().all(|&byte| byte == 0xff) && (number as i64) < 0 {
        Value::Int(number as i64)
    } else {
        Value::OddInt
    }
}

/// The position of the last mark, which is removed.
#[inline]
fn mark(m: &mut Machine, base: u64, at: usize) -> Result<usize, ReadError> {
    match m.marks.pop() {
        Some(from) if from <= m.stack.len() => Ok(from),
        _ => Err(underflow(base, at)),
    }
}

#[inline]
fn below(m: &Machine, from: usize, base: u64, at: usize) -> Result<Word, ReadError> {
    from.checked_sub(1).map(|index| m.stack[index]).ok_or_else(|| underflow(base, at))
}

#[inline]
fn top(m: &Machine, base: u64, at: usize) -> Result<Word, ReadError> {
    m.stack.last().copied().ok_or_else(|| underflow(base, at))
}

#[cold]
fn underflow(base: u64, at: usize) -> ReadError {
    ReadError::Failed(format!("is no valid pickle: an opcode at byte {} takes more than there is", base + at as u64))
}

#[cold]
fn unknown_memo(number: u32, base: u64, at: usize) -> ReadError {
    ReadError::Failed(format!(
        "is no valid pickle: before byte {} it refers to item {number}, which was never stored",
        base + at as u64
    ))
}

#[cold]
fn unknown_opcode(opcode: u8, base: u64, at: usize) -> ReadError {
    let offset = base + at as u64;
    ReadError::Failed(match refused_name(opcode) {
        Some(name) => format!(
            "uses the pickle opcode {name} at byte {offset}; memory snapshots are plain data and never need it, so the file was not read further"
        ),
        None => format!("has the unknown pickle opcode {opcode:#04x} at byte {offset}"),
    })
}
