//! JSON snapshots: the same machine, driven by another syntax.
//!
//! **Promise.** As for pickles: no panic, no recursion, constant memory a byte.

use super::error::ReadError;
use super::input::Input;
use super::keys;
use super::machine::Machine;
use super::value::{Value, Word};

/// What some writers begin UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An open container: where its values begin on the stack.
struct Open {
    from: usize,
    is_list: bool,
}

/// Reads one JSON value and leaves nothing on the machine's stack.
///
/// # Errors
/// Torn and malformed files, with the offset; files of other formats, by name.
pub(super) fn run(input: &mut Input<'_>, m: &mut Machine) -> Result<Value, ReadError> {
    let mut open: Vec<Open> = Vec::new();
    let mut text = Vec::new();
    if input.window()?.starts_with(BYTE_ORDER_MARK) {
        input.consume(BYTE_ORDER_MARK.len());
    }
    loop {
        let byte = skip_blanks(input)?;
        match byte {
            b'{' | b'[' => {
                input.consume(1);
                let is_list = byte == b'[';
                if is_list {
                    m.push_list();
                } else {
                    m.push_dict();
                }
                open.push(Open { from: m.stack.len(), is_list });
                let closing = if is_list { b']' } else { b'}' };
                if skip_blanks(input)? == closing {
                    input.consume(1);
                    open.pop();
                } else {
                    if !is_list {
                        key(input, m, &mut text)?;
                    }
                    continue;
                }
            }
            b'"' => {
                string(input, &mut text)?;
                let name = m.interner.name(&String::from_utf8_lossy(&text));
                m.stack.push(Word::name(name));
            }
            _ => scalar(input, m, &mut text)?,
        }
        // A value is complete: close containers until one goes on.
        loop {
            let Some(container) = open.last() else {
                let top = m.stack.pop().ok_or_else(|| malformed(input))?;
                return Ok(m.decode(top));
            };
            let (from, is_list) = (container.from, container.is_list);
            if m.is_full() {
                return Err(ReadError::Failed(format!("holds more than 4 billion items, at byte {}", input.offset())));
            }
            if is_list {
                // Item by item, so that a long list never waits on the stack.
                let list = m.stack[from - 1];
                m.append_from(list, from);
            }
            match skip_blanks(input)? {
                b',' => {
                    input.consume(1);
                    if !is_list {
                        key(input, m, &mut text)?;
                    }
                    break;
                }
                b']' if is_list => {}
                b'}' if !is_list => {
                    let dict = m.stack[from - 1];
                    m.set_from(dict, from);
                }
                _ => return Err(malformed(input)),
            }
            input.consume(1);
            open.pop();
        }
    }
}

/// Reads `"key":`, leaving the key on the stack.
fn key(input: &mut Input<'_>, m: &mut Machine, text: &mut Vec<u8>) -> Result<(), ReadError> {
    if skip_blanks(input)? != b'"' {
        return Err(malformed(input));
    }
    string(input, text)?;
    let name = m.interner.name(&String::from_utf8_lossy(text));
    if matches!(name, keys::TRACE_EVENTS | keys::SCHEMA_VERSION) {
        return Err(ReadError::Failed(
            "is a PyTorch profiler trace (Chrome trace JSON), which this version cannot open yet; open a memory snapshot instead".into(),
        ));
    }
    m.stack.push(Word::name(name));
    if skip_blanks(input)? != b':' {
        return Err(malformed(input));
    }
    input.consume(1);
    Ok(())
}

/// The next byte that is no white space, not consumed.
fn skip_blanks(input: &mut Input<'_>) -> Result<u8, ReadError> {
    loop {
        let window = input.window()?;
        if window.is_empty() {
            return Err(ReadError::torn(input.offset()));
        }
        let blanks = window.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if let Some(&byte) = window.get(blanks) {
            input.consume(blanks);
            return Ok(byte);
        }
        input.consume(blanks);
    }
}

/// Reads a string in quotes into `text`, escapes resolved.
fn string(input: &mut Input<'_>, text: &mut Vec<u8>) -> Result<(), ReadError> {
    text.clear();
    input.consume(1);
    let mut high: Option<u16> = None;
    loop {
        let window = input.window()?;
        let plain = window.iter().take_while(|&&byte| byte != b'"' && byte != b'\\').count();
        if plain > 0 {
            flush_surrogate(&mut high, text);
            text.extend_from_slice(&window[..plain]);
        }
        let Some(&stop) = window.get(plain) else {
            if plain == 0 {
                return Err(ReadError::torn(input.offset()));
            }
            input.consume(plain);
            continue;
        };
        input.consume(plain + 1);
        if stop == b'"' {
            flush_surrogate(&mut high, text);
            return Ok(());
        }
        escape(input, text, &mut high)?;
    }
}

/// Reads what follows a backslash.
fn escape(input: &mut Input<'_>, text: &mut Vec<u8>, high: &mut Option<u16>) -> Result<(), ReadError> {
    let window = input.window()?;
    let Some(&kind) = window.first() else { return Err(ReadError::torn(input.offset())) };
    if kind == b'u' {
        let Some(digits) = window.get(1..5) else { return Err(ReadError::torn(input.offset())) };
        let value = |unit: Option<u32>, &digit: &u8| Some(unit? << 4 | char::from(digit).to_digit(16)?);
        let unit = digits.iter().fold(Some(0), value).and_then(|unit| u16::try_from(unit).ok());
        let Some(unit) = unit else { return Err(malformed(input)) };
        input.consume(5);
        if let Some(first) = high.take() {
            if let Some(Ok(both)) = char::decode_utf16([first, unit]).next() {
                push_char(both, text);
                return Ok(());
            }
            push_char(char::REPLACEMENT_CHARACTER, text);
        }
        match char::from_u32(u32::from(unit)) {
            Some(character) => push_char(character, text),
            None if (0xd800..0xdc00).contains(&unit) => *high = Some(unit),
            None => push_char(char::REPLACEMENT_CHARACTER, text),
        }
        return Ok(());
    }
    flush_surrogate(high, text);
    text.push(match kind {
        b'"' | b'\\' | b'/' => kind,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return Err(malformed(input)),
    });
    input.consume(1);
    Ok(())
}

fn push_char(character: char, text: &mut Vec<u8>) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

fn flush_surrogate(high: &mut Option<u16>, text: &mut Vec<u8>) {
    if high.take().is_some() {
        push_char(char::REPLACEMENT_CHARACTER, text);
    }
}

/// Reads a number, `true`, `false`, `null`, or one of the words Python adds (`NaN`, `Infinity`).
fn scalar(input: &mut Input<'_>, m: &mut Machine, text: &mut Vec<u8>) -> Result<(), ReadError> {
    text.clear();
    loop {
        let window = input.window()?;
        let part = window.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
        let ends = part < window.len() || part == 0;
        // No number needs more; the rest of a longer one only says that it is long.
        let keep = part.min(400_usize.saturating_sub(text.len()));
        text.extend_from_slice(&window[..keep]);
        input.consume(part);
        if ends {
            break;
        }
    }
    if input.window()?.is_empty() {
        // Whatever it was going to be, something has to follow.
        return Err(ReadError::torn(input.offset()));
    }
    let word = std::str::from_utf8(text).unwrap_or("");
    let value = match word {
        "true" | "false" | "null" => {
            m.stack.push(match word {
                "true" => Word::TRUE,
                "false" => Word::FALSE,
                _ => Word::NONE,
            });
            return Ok(());
        }
        "NaN" => Value::Float(f64::NAN),
        "Infinity" => Value::Float(f64::INFINITY),
        "-Infinity" => Value::Float(f64::NEG_INFINITY),
        _ => {
            let digits = word.strip_prefix('-').unwrap_or(word);
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                if let Ok(number) = word.parse::<i64>() {
                    Value::Int(number)
                } else if let Ok(number) = word.parse::<u64>() {
                    Value::Big(number)
                } else {
                    Value::OddInt
                }
            } else {
                match word.parse::<f64>() {
                    Ok(number) if word.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
                        Value::Float(number)
                    }
                    _ => return Err(malformed(input)),
                }
            }
        }
    };
    m.push_number(value);
    Ok(())
}

#[cold]
fn malformed(input: &Input<'_>) -> ReadError {
    ReadError::Failed(format!("is no valid JSON at byte {}", input.offset()))
}
