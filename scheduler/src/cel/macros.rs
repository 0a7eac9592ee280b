//! What looks like a method and is part of the grammar: loops, `cel.bind` and `optMap`.

use std::sync::Arc;

use super::parse::{Each, Expr, Loop};
use super::{Fault, signatures};

/// `base.name(args)`.
pub(super) fn expand(base: Expr, name: Arc<str>, args: Vec<Expr>) -> Result<Expr, Fault> {
    // What is done; how many names it needs, and whether it has a filter.
    let plan = match (&*name, args.len()) {
        ("all", count @ 2..=3) => (Each::All, count - 1, false),
        ("exists", count @ 2..=3) => (Each::Exists, count - 1, false),
        ("existsOne", 3) => (Each::ExistsOne, 2, false),
        ("exists_one", count @ 2..=3) => (Each::ExistsOne, count - 1, false),
        ("map", count @ 2..=3) => (Each::Map, 1, count == 3),
        ("filter", 2) => (Each::Filter, 1, false),
        ("transformList", count @ 3..=4) => (Each::Map, 2, count == 4),
        ("transformMap", count @ 3..=4) => (Each::Entries, 2, count == 4),
        ("transformMapEntry", count @ 3..=4) => (Each::Merge, 2, count == 4),
        ("sortBy", 2) => (Each::SortBy, 1, false),
        _ => return other(base, name, args),
    };
    let (each, count, filtered) = plan;
    let needs = || Fault::new(format!("{name}() needs {count} name(s) and an expression"));
    let mut args = args.into_iter();
    let mut named = || match args.next() {
        Some(Expr::Variable(name)) => Ok(name),
        _ => Err(needs()),
    };
    let first = named()?;
    let second = (count == 2).then(named).transpose()?;
    if second.as_ref() == Some(&first) {
        return Err(Fault::new(format!("{name}() has the name {first} twice")));
    }
    let filter = if filtered { args.next() } else { None };
    let body = args.next().ok_or_else(needs)?;
    Ok(Expr::Each(Box::new(Loop { each, range: base, names: (first, second), filter, body })))
}

fn other(base: Expr, name: Arc<str>, args: Vec<Expr>) -> Result<Expr, Fault> {
    let before = match &base {
        Expr::Variable(before) => &**before,
        _ => "",
    };
    match (before, &*name, args.as_slice()) {
        ("cel", "bind", [Expr::Variable(x), value, body]) => {
            Ok(Expr::Bind(x.clone(), Box::new(value.clone()), Box::new(body.clone())))
        }
        ("cel", "bind", _) => Err(Fault::new("cel.bind() needs a name, a value and an expression")),
        (_, "optMap" | "optFlatMap", [Expr::Variable(x), body]) => {
            let flat = &*name == "optFlatMap";
            Ok(Expr::OptMap(Box::new(base), x.clone(), Box::new(body.clone()), flat))
        }
        (_, "optMap" | "optFlatMap", _) => {
            Err(Fault::new(format!("{name}() needs one name and an expression")))
        }
        _ => {
            let whole = format!("{before}.{name}");
            match before.is_empty() || signatures::of(&whole).is_empty() {
                true => Ok(Expr::Call(Some(Box::new(base)), name, args)),
                false => Ok(Expr::Call(None, whole.into(), args)),
            }
        }
    }
}
