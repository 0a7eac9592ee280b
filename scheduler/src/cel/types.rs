//! The check of types before an expression is evaluated.
//!
//! Decides what is refused at once, as Kubernetes does: functions that do not exist, or not for
//! such types; comparisons of unlike types; lists and maps of mixed ones; literals that cannot be
//! read. What an attribute is only a device knows, and what is empty may hold anything: such types
//! fit all others. So this refuses nothing that Kubernetes takes; of empty lists, it takes more.

use std::fmt;
use std::sync::Arc;

use super::functions;
use super::parse::{Each, Expr, Loop};
use super::signatures::{self, Signature};
use super::value::Value;
use super::{Fault, format, regexes};

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Nothing is known of it: elements of what is empty.
    Free,
    /// Only known when it is evaluated.
    Dyn,
    /// That of `null`.
    Null,
    /// One without parts, by its name.
    Plain(&'static str),
    /// A list.
    List(Box<Type>),
    /// A map.
    Map(Box<Type>, Box<Type>),
    /// A value or none.
    Optional(Box<Type>),
    /// Of a signature: any type, the same for the same letter.
    Any(u8),
}

/// Types that have names of their own in expressions, beside those with a dot.
pub(super) const NAMES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

/// Types whose names have dots.
pub(super) const DOTTED: [&str; 4] =
    ["google.protobuf.Duration", "google.protobuf.Timestamp", "net.CIDR", "net.IP"];

/// Numbers, and what else has an order.
const NUMBERS: [&str; 3] = ["double", "int", "uint"];
const ORDERED: [&str; 5] = ["bool", "bytes", "duration", "string", "timestamp"];

impl Type {
    /// Reads a type of a signature.
    pub fn read(text: &'static str) -> Option<Type> {
        let boxed = |text| Type::read(text).map(Box::new);
        let Some((name, inner)) = text.split_once('<') else {
            return Some(match (text, text.as_bytes()) {
                ("dyn", _) => Type::Dyn,
                (_, [letter @ (b'A'..=b'Z')]) => Type::Any(*letter),
                _ => Type::Plain(text),
            });
        };
        let inner = inner.strip_suffix('>')?;
        match name {
            "list" => Some(Type::List(boxed(inner)?)),
            "optional" => Some(Type::Optional(boxed(inner)?)),
            "map" => {
                let (key, value) = inner.split_once(',')?;
                Some(Type::Map(boxed(key)?, boxed(value)?))
            }
            _ => None,
        }
    }

    fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Null,
            plain => Type::Plain(plain.kind()),
        }
    }

    fn list(of: Type) -> Type {
        Type::List(Box::new(of))
    }

    fn map(key: Type, value: Type) -> Type {
        Type::Map(Box::new(key), Box::new(value))
    }

    fn is_open(&self) -> bool {
        matches!(self, Type::Free | Type::Dyn)
    }

    fn has_free(&self) -> bool {
        match self {
            Type::Free => true,
            Type::List(of) | Type::Optional(of) => of.has_free(),
            Type::Map(key, value) => key.has_free() || value.has_free(),
            _ => false,
        }
    }

    /// What may be `null`.
    fn is_nullable(&self) -> bool {
        match self {
            Type::Plain(name) => {
                let message = !NUMBERS.contains(name) && !ORDERED.contains(name);
                matches!(*name, "duration" | "timestamp") || (message && *name != "type")
            }
            Type::List(_) | Type::Map(..) => false,
            _ => true,
        }
    }

    /// Whether a value of one type can be where another is needed.
    fn fits(&self, other: &Type) -> bool {
        match (self, other) {
            (a, b) if a.is_open() || b.is_open() => true,
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.fits(b),
            (Type::Map(a, b), Type::Map(c, d)) => a.fits(c) && b.fits(d),
            (a, b) => a == b,
        }
    }

    /// The wider one of two types that fit each other.
    fn wider(&self, other: &Type) -> Type {
        match (self, other) {
            (Type::Dyn, _) | (_, Type::Dyn) => Type::Dyn,
            (Type::Free, other) | (other, Type::Free) | (Type::Null, other) => other.clone(),
            (Type::List(a), Type::List(b)) => Type::list(a.wider(b)),
            (Type::Optional(a), Type::Optional(b)) => Type::Optional(Box::new(a.wider(b))),
            (Type::Map(a, b), Type::Map(c, d)) => Type::map(a.wider(c), b.wider(d)),
            (one, _) => one.clone(),
        }
    }

    /// Whether two types are one, as far as they are known.
    fn same(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Free, _) | (_, Type::Free) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a.same(b),
            (Type::Map(a, b), Type::Map(c, d)) => a.same(c) && b.same(d),
            (a, b) => a == b,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Free | Type::Dyn | Type::Any(_) => out.write_str("dyn"),
            Type::Null => out.write_str("null"),
            Type::Plain(name) => out.write_str(name),
            Type::List(of) => write!(out, "list({of})"),
            Type::Map(key, value) => write!(out, "map({key}, {value})"),
            Type::Optional(of) => write!(out, "optional({of})"),
        }
    }
}

/// What the letters of a signature stand for.
#[derive(Default)]
struct Letters(Vec<(u8, Type)>);

impl Letters {
    fn of(&self, letter: u8) -> Option<&Type> {
        self.0.iter().find(|(known, _)| *known == letter).map(|(_, it)| it)
    }

    /// Whether a type can stand where a signature has another.
    fn fit(&mut self, given: &Type, wanted: &Type) -> bool {
        match (given, wanted) {
            (given, Type::Any(letter)) => self.bind(*letter, given),
            (given, wanted) if given.is_open() || wanted.is_open() => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fit(a, b)
            }
            (Type::Map(a, b), Type::Map(c, d)) => self.fit(a, c) && self.fit(b, d),
            (given, wanted) => given.fits(wanted),
        }
    }

    fn bind(&mut self, letter: u8, given: &Type) -> bool {
        let among = |names: &[&str]| match given {
            Type::Plain(name) => names.contains(name),
            given => given.is_open(),
        };
        let allowed = match letter {
            b'C' => among(&NUMBERS) || among(&ORDERED),
            b'S' => among(&NUMBERS) || among(&["duration"]),
            b'N' | b'M' => among(&NUMBERS),
            b'K' => among(&ORDERED),
            _ => true,
        };
        match self.0.iter_mut().find(|(known, _)| *known == letter) {
            _ if !allowed => false,
            None => {
                self.0.push((letter, given.clone()));
                true
            }
            Some((_, known)) if known.fits(given) => {
                *known = known.wider(given);
                true
            }
            Some(_) => false,
        }
    }

    fn result(&self, gives: &Type) -> Type {
        match gives {
            Type::Any(letter) => self.of(*letter).cloned().unwrap_or(Type::Free),
            Type::List(of) => Type::list(self.result(of)),
            Type::Optional(of) => Type::Optional(Box::new(self.result(of))),
            Type::Map(key, value) => Type::map(self.result(key), self.result(value)),
            plain => plain.clone(),
        }
    }
}

/// Refuses what can never be evaluated. What is asked of a device is a bool.
pub(super) fn check(expression: &Expr) -> Result<(), Fault> {
    let mut checker = Checker { names: Vec::new(), mixed: false };
    match checker.infer(expression)? {
        Type::Plain("bool") | Type::Free | Type::Dyn => Ok(()),
        other => Err(Fault::new(format!("it is a {other}, not a bool"))),
    }
}

struct Checker {
    /// Variables, the innermost last.
    names: Vec<(Arc<str>, Type)>,
    /// Lists and maps may be of mixed types: they are to be written by `format()`.
    mixed: bool,
}

impl Checker {
    fn infer(&mut self, expression: &Expr) -> Result<Type, Fault> {
        match expression {
            Expr::Literal(value) => Ok(Type::of(value)),
            Expr::Variable(name) => self.variable(name),
            Expr::Field(base, name, optional) => {
                let base = self.infer(base)?;
                field(&base, name, *optional)
            }
            Expr::Has(base, name) => {
                let base = self.infer(base)?;
                field(&base, name, false).map(|_| Type::Plain("bool"))
            }
            Expr::Index(base, index, optional) => {
                let types = [self.infer(base)?, self.infer(index)?];
                resolve(if *optional { "[?]" } else { "[]" }, false, &types)
            }
            Expr::Call(base, name, args) => self.call(base.as_deref(), name, args),
            Expr::List(parts) => {
                let mut kind = Elements::default();
                for (part, optional) in parts {
                    let part = self.infer(part)?;
                    kind.add(element(part, *optional)?, self.mixed)?;
                }
                Ok(Type::list(kind.of()))
            }
            Expr::Map(entries) => self.map(entries),
            Expr::Unary(operator, of) => {
                let of = self.infer(of)?;
                resolve(operator, false, &[of])
            }
            Expr::Binary(operator, left, right) => {
                let types = [self.infer(left)?, self.infer(right)?];
                resolve(operator, false, &types)
            }
            Expr::Choice(condition, yes, no) => {
                let types = [self.infer(condition)?, self.infer(yes)?, self.infer(no)?];
                resolve("?:", false, &types)
            }
            Expr::Each(each) => self.each(each),
            Expr::Bind(name, value, body) => {
                let value = self.infer(value)?;
                self.with(&[(name, value)], body)
            }
            Expr::OptMap(base, name, body, flat) => {
                let base = self.infer(base)?;
                let inner = match &base {
                    Type::Optional(of) => (**of).clone(),
                    _ => Type::Dyn,
                };
                let body = self.with(&[(name, inner)], body)?;
                resolve(if *flat { "optFlatMap" } else { "optMap" }, false, &[base, body])
            }
        }
    }

    fn variable(&self, name: &Arc<str>) -> Result<Type, Fault> {
        let known = self.names.iter().rev().find(|(known, _)| known == name);
        match known {
            Some((_, it)) => Ok(it.clone()),
            None if &**name == "device" => Ok(Type::Plain("device")),
            None if NAMES.contains(&&**name) => Ok(Type::Plain("type")),
            None => Err(Fault::new(format!("{name} is not known"))),
        }
    }

    fn with(&mut self, names: &[(&Arc<str>, Type)], body: &Expr) -> Result<Type, Fault> {
        let before = self.names.len();
        self.names.extend(names.iter().map(|(name, it)| ((*name).clone(), it.clone())));
        let made = self.infer(body);
        self.names.truncate(before);
        made
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<Type, Fault> {
        let (mut keys, mut values) = (Elements::default(), Elements::default());
        for (key, value, optional) in entries {
            keys.add(self.infer(key)?, self.mixed)?;
            let value = self.infer(value)?;
            values.add(element(value, *optional)?, self.mixed)?;
        }
        Ok(Type::map(keys.of(), values.of()))
    }

    fn call(&mut self, base: Option<&Expr>, name: &str, args: &[Expr]) -> Result<Type, Fault> {
        if signatures::of(name).is_empty() {
            return Err(Fault::new(format!("there is no function {name}()")));
        }
        let mixed = self.mixed;
        self.mixed |= name == "format";
        let types = match (base, name, args) {
            (Some(Expr::Literal(Value::Text(text))), "format", [Expr::List(parts)]) => {
                self.format(text, parts).map(|of| vec![Type::Plain("string"), of])
            }
            _ => base.into_iter().chain(args).map(|arg| self.infer(arg)).collect(),
        };
        self.mixed = mixed;
        let made = resolve(name, base.is_some(), &types?)?;
        literals(base, name, args)?;
        Ok(made)
    }

    /// What a format that is written out writes of what stands behind it; the type of that.
    fn format(&mut self, text: &str, parts: &[(Expr, bool)]) -> Result<Type, Fault> {
        let mut types = Vec::with_capacity(parts.len());
        for (part, optional) in parts {
            let part = self.infer(part)?;
            types.push(element(part, *optional)?);
        }
        let mut left = types.iter();
        for piece in format::pieces(text)? {
            let format::Piece::Clause(clause, _) = piece else { continue };
            let missing = || Fault::new("a format has fewer values than clauses");
            let kind = match left.next().ok_or_else(missing)? {
                Type::Plain(kind) => kind,
                Type::Optional(_) => "optional",
                Type::List(_) => "list",
                Type::Map(..) => "map",
                Type::Null => "null",
                Type::Free | Type::Dyn | Type::Any(_) => continue,
            };
            if !format::takes(clause, kind) {
                return Err(Fault::new(format!("%{clause} in a format of a {kind}")));
            }
        }
        match left.next() {
            None => Ok(Type::list(Type::Dyn)),
            Some(_) => Err(Fault::new("a format has more values than clauses")),
        }
    }

    fn each(&mut self, each: &Loop) -> Result<Type, Fault> {
        let range = self.infer(&each.range)?;
        let (first, second) = match (&range, &each.names.1) {
            (Type::List(of), None) => ((**of).clone(), Type::Dyn),
            (Type::List(of), Some(_)) => (Type::Plain("int"), (**of).clone()),
            (Type::Map(key, value), _) => ((**key).clone(), (**value).clone()),
            (range, _) if range.is_open() => (Type::Dyn, Type::Dyn),
            (range, _) => return Err(Fault::new(format!("a {range} has no elements"))),
        };
        let mut names = vec![(&each.names.0, first.clone())];
        names.extend(each.names.1.as_ref().map(|name| (name, second)));
        let truth = |it: Type| match it.fits(&Type::Plain("bool")) {
            true => Ok(()),
            false => Err(Fault::new(format!("a {it} where a bool is needed"))),
        };
        if let Some(filter) = &each.filter {
            truth(self.with(&names, filter)?)?;
        }
        let body = self.with(&names, &each.body)?;
        match each.each {
            Each::All | Each::Exists | Each::ExistsOne => {
                truth(body)?;
                Ok(Type::Plain("bool"))
            }
            Each::Filter => {
                truth(body)?;
                Ok(Type::list(first))
            }
            Each::Map => Ok(Type::list(body)),
            Each::Entries => Ok(Type::map(first, body)),
            Each::Merge => match body {
                Type::Map(..) => Ok(body),
                open if open.is_open() => Ok(Type::map(Type::Dyn, Type::Dyn)),
                other => Err(Fault::new(format!("a {other} where a map is needed"))),
            },
            Each::SortBy => resolve("sortBy", false, &[range, body]),
        }
    }
}

/// The elements of a list or map that is written out.
#[derive(Default)]
struct Elements(Option<(Type, Type)>);

impl Elements {
    fn add(&mut self, new: Type, mixed: bool) -> Result<(), Fault> {
        let Some((first, all)) = &mut self.0 else {
            self.0 = Some((new.clone(), new));
            return Ok(());
        };
        if !mixed && !first.same(&new) {
            return Err(Fault::new(format!("a {new} beside a {first}, in one list or map")));
        }
        *all = if all.fits(&new) { all.wider(&new) } else { Type::Dyn };
        Ok(())
    }

    fn of(self) -> Type {
        self.0.map_or(Type::Free, |(_, all)| all)
    }
}

/// An element of a list or map; optional: what is in it, if anything.
fn element(given: Type, optional: bool) -> Result<Type, Fault> {
    match given {
        Type::Optional(of) if optional => Ok(*of),
        given if !optional || given.is_open() => Ok(given),
        other => Err(Fault::new(format!("a {other} where an optional is needed"))),
    }
}

fn field(base: &Type, name: &str, optional: bool) -> Result<Type, Fault> {
    let (inner, was) = match base {
        Type::Optional(of) => (&**of, true),
        base => (base, false),
    };
    let attributes = |of: Type| {
        let text = || Type::Plain("string");
        Type::map(text(), Type::map(text(), of))
    };
    let found = match (inner, name) {
        (Type::Map(_, value), _) => (**value).clone(),
        (Type::Plain("device"), "driver") => Type::Plain("string"),
        (Type::Plain("device"), "allowMultipleAllocations") => Type::Plain("bool"),
        (Type::Plain("device"), "attributes") => attributes(Type::Dyn),
        (Type::Plain("device"), "capacity") => attributes(Type::Plain("quantity")),
        (Type::Plain("device"), _) => {
            return Err(Fault::new(format!("a device has no field {name}")));
        }
        (open, _) if open.is_open() => Type::Dyn,
        (other, _) => return Err(Fault::new(format!("a {other} has no fields"))),
    };
    Ok(if was || optional { Type::Optional(Box::new(found)) } else { found })
}

/// What a function gives for such types.
fn resolve(name: &str, method: bool, given: &[Type]) -> Result<Type, Fault> {
    let mut found: Option<Type> = None;
    let known = signatures::of(name).iter().filter(|one| one.method == method);
    for Signature { takes, gives, .. } in known {
        let mut letters = Letters::default();
        let fit = takes.len() == given.len()
            && given.iter().zip(takes).all(|(given, wanted)| letters.fit(given, wanted));
        if !fit {
            continue;
        }
        // Of elements that only a device knows, each order there is fits.
        let open = letters.0.iter().any(|(letter, it)| *letter > b'B' && *it == Type::Dyn);
        let made = match gives {
            Type::Plain("bool") => gives.clone(),
            _ if open => Type::Dyn,
            gives => letters.result(gives),
        };
        found = Some(match found {
            Some(before) if before != made || before.has_free() => Type::Dyn,
            _ => made,
        });
    }
    found.ok_or_else(|| {
        let given: Vec<String> = given.iter().map(Type::to_string).collect();
        Fault::new(match (given.as_slice(), name.as_bytes()) {
            ([left, right], [first, ..]) if !first.is_ascii_alphabetic() || name == "in" => {
                format!("no such overload: {left} {name} {right}")
            }
            ([of, args @ ..], _) if method => {
                format!("no such overload: {of}.{name}({})", args.join(", "))
            }
            (given, _) => format!("no such overload: {name}({})", given.join(", ")),
        })
    })
}

/// Literals that are read before a device is looked at.
fn literals(base: Option<&Expr>, name: &str, args: &[Expr]) -> Result<(), Fault> {
    let patterns = match (name, base) {
        ("matches", None) => args,
        ("matches" | "find" | "findAll", Some(_)) => &args[..args.len().min(1)],
        _ => &[],
    };
    for pattern in patterns {
        if let Some(Value::Text(text)) = constant(pattern)? {
            regexes::check(&text)?;
        }
    }
    match (base, args) {
        (None, [arg]) if functions::CONVERSIONS.contains(&name) => match constant(arg)? {
            Some(value) => functions::convert(name, &value).map(|_| ()),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The value of a literal, or of what is made of one.
fn constant(expression: &Expr) -> Result<Option<Value>, Fault> {
    let (name, of) = match expression {
        Expr::Literal(value) => return Ok(Some(value.clone())),
        Expr::Call(None, name, args) => match args.as_slice() {
            [of] => (&**name, constant(of)?),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    match of {
        Some(value) if name == "dyn" => Ok(Some(value)),
        Some(value) if functions::CONVERSIONS.contains(&name) => {
            functions::convert(name, &value).map(Some)
        }
        _ => Ok(None),
    }
}
