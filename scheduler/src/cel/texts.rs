//! Functions of texts. Places are counted in characters.

use std::sync::Arc;

use super::Fault;
use super::eval::Scope;
use super::lists::count;
use super::value::Value;
use super::{format, regexes};

/// `text.name(args)`.
pub(super) fn call(
    scope: &mut Scope,
    text: &Arc<str>,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Fault> {
    use Value::{Bool, Int, Text};
    let made = |text: &str| Text(text.into());
    Ok(Some(match (name, args) {
        ("size", []) => count(text.chars().count()),
        ("contains", [Text(part)]) => Bool(text.contains(&**part)),
        ("startsWith", [Text(part)]) => Bool(text.starts_with(&**part)),
        ("endsWith", [Text(part)]) => Bool(text.ends_with(&**part)),
        ("matches", [Text(pattern)]) => regexes::matches(scope, text, pattern)?,
        ("find", [Text(pattern)]) => {
            let found = regexes::paid(scope, text, pattern)?;
            made(found.find(text).map_or("", |found| found.as_str()))
        }
        ("findAll", [Text(pattern)]) => regexes::all(scope, text, pattern, -1)?,
        ("findAll", [Text(pattern), Int(most)]) => regexes::all(scope, text, pattern, *most)?,
        ("lowerAscii", []) => made(&text.to_ascii_lowercase()),
        ("upperAscii", []) => made(&text.to_ascii_uppercase()),
        ("trim", []) => made(text.trim()),
        ("split", [Text(by)]) => split(scope, text, by, -1)?,
        ("split", [Text(by), Int(most)]) => split(scope, text, by, *most)?,
        ("replace", [Text(from), Text(to)]) => replaced(scope, text, from, to, -1)?,
        ("replace", [Text(from), Text(to), Int(most)]) => replaced(scope, text, from, to, *most)?,
        ("substring", [Int(from)]) => substring(text, *from, None)?,
        ("substring", [Int(from), Int(to)]) => substring(text, *from, Some(*to))?,
        ("charAt", [Int(at)]) => {
            let end = at.checked_add(1).filter(|_| text.chars().count() as i64 != *at);
            substring(text, *at, end)?
        }
        ("indexOf", [Text(part)]) => place(text, text.find(&**part)),
        ("indexOf", [Text(part), Int(from)]) => index_from(text, part, *from, false)?,
        ("lastIndexOf", [Text(part)]) => place(text, text.rfind(&**part)),
        ("lastIndexOf", [Text(part), Int(from)]) => index_from(text, part, *from, true)?,
        ("format", [Value::List(args)]) => format::format(scope, text, args)?,
        _ => return Ok(None),
    }))
}

/// The place of a byte, in characters; -1: nowhere.
fn place(text: &str, byte: Option<usize>) -> Value {
    byte.map_or(Value::Int(-1), |byte| count(text[..byte].chars().count()))
}

/// The first place of a part from some place on, or the last one up to there.
fn index_from(text: &str, part: &str, from: i64, last: bool) -> Result<Value, Fault> {
    let length = text.chars().count();
    let Ok(from) = usize::try_from(from) else {
        return Err(Fault::new(format!("character {from} of a text")));
    };
    if part.is_empty() {
        return Ok(count(from.min(length)));
    }
    if from >= length {
        return Ok(Value::Int(-1));
    }
    let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    Ok(match last {
        false => place(text, text[start..].find(part).map(|at| start + at)),
        true => {
            let end = text.len().min(start.saturating_add(part.len()));
            // What begins at this character ends at most so far; what ends later begins later.
            let mut found = text[..end_of(text, end)].rmatch_indices(part);
            place(text, found.find(|(at, _)| *at <= start).map(|(at, _)| at))
        }
    })
}

/// The next end of a character.
fn end_of(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

fn split(scope: &mut Scope, text: &str, by: &str, most: i64) -> Result<Value, Fault> {
    scope.spend(if by.is_empty() { text.len() } else { text.matches(by).count() })?;
    let texts: Vec<Value> = match (usize::try_from(most), by) {
        (Ok(0), _) => Vec::new(),
        (Ok(most), "") => {
            let cut = text.char_indices().nth(most - 1).map_or(text.len(), |(at, _)| at);
            let ones = text[..cut].chars().map(|one| Value::Text(one.to_string().into()));
            ones.chain((cut < text.len()).then(|| Value::Text(text[cut..].into()))).collect()
        }
        (Ok(most), by) => text.splitn(most, by).map(|part| Value::Text(part.into())).collect(),
        (Err(_), "") => text.chars().map(|one| Value::Text(one.to_string().into())).collect(),
        (Err(_), by) => text.split(by).map(|part| Value::Text(part.into())).collect(),
    };
    Ok(Value::List(Arc::new(texts)))
}

fn replaced(
    scope: &mut Scope,
    text: &str,
    from: &str,
    to: &str,
    most: i64,
) -> Result<Value, Fault> {
    // What it may grow to is paid before it does.
    let places = if from.is_empty() { text.len() + 1 } else { text.len() / from.len() };
    scope.spend(places.saturating_mul(1 + to.len() / 10))?;
    let made = match usize::try_from(most) {
        Ok(most) => text.replacen(from, to, most),
        Err(_) => text.replace(from, to),
    };
    Ok(Value::Text(made.into()))
}

fn substring(text: &str, from: i64, to: Option<i64>) -> Result<Value, Fault> {
    let length = text.chars().count() as i64;
    let to = to.unwrap_or(length);
    if from < 0 || to < from || to > length {
        return Err(Fault::new(format!("characters {from} to {to} of a text of {length}")));
    }
    let part = text.chars().skip(from as usize).take((to - from) as usize);
    Ok(Value::Text(part.collect::<String>().into()))
}
