//! What an expression looks at of a device.
//!
//! Devices that are alike in what is looked at have one answer, and one evaluation gives it. Only
//! attributes and amounts that are named where they are read (`device.attributes["a.b"].c`) are
//! told apart; whatever else is done with a device, it may look at all of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::parse::{Expr, Program};
use super::value::Value;

/// What is looked at, beside the driver and what is said of a device as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// All of it.
    pub all: bool,
    /// Attributes, by domain and name.
    pub attributes: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Amounts, by domain and name.
    pub capacity: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// Fields that all devices have, and that are always looked at.
const PLAIN: [&str; 2] = ["driver", "allowMultipleAllocations"];

impl Reads {
    /// What an expression looks at of the variable `device`, in addition.
    pub fn add(&mut self, program: &Program) {
        // Who cannot look through it takes it to look at all.
        let noted = program.go_through(|tree| self.note(tree));
        self.all |= noted.is_err();
    }

    fn note(&mut self, expression: &Expr) {
        match expression {
            Expr::Literal(_) => {}
            Expr::Variable(name) => self.all |= &**name == "device",
            Expr::Field(base, name, _) | Expr::Has(base, name) => self.named(base, name),
            Expr::Index(base, index, _) => match &**index {
                Expr::Literal(Value::Text(name)) => self.named(base, name),
                _ => self.each([&**base, &**index]),
            },
            Expr::Call(base, _, args) => {
                self.each(base.iter().map(|base| &**base));
                self.each(args);
            }
            Expr::List(parts) => self.each(parts.iter().map(|(part, _)| part)),
            Expr::Map(parts) => {
                self.each(parts.iter().flat_map(|(key, value, _)| [key, value]));
            }
            Expr::Unary(_, of) => self.note(of),
            Expr::Binary(_, left, right) => self.each([&**left, &**right]),
            Expr::Choice(condition, yes, no) => self.each([&**condition, &**yes, &**no]),
            Expr::Each(each) => {
                self.each([&each.range, &each.body]);
                self.each(&each.filter);
            }
            Expr::Bind(_, value, body) => self.each([&**value, &**body]),
            Expr::OptMap(base, _, body, _) => self.each([&**base, &**body]),
        }
    }

    fn each<'a>(&mut self, expressions: impl IntoIterator<Item = &'a Expr>) {
        expressions.into_iter().for_each(|expression| self.note(expression));
    }

    /// An element that is named where it is read.
    fn named(&mut self, base: &Expr, name: &Arc<str>) {
        match (base, domain(base)) {
            (_, Some(("attributes", domain))) => {
                self.attributes.insert((domain.clone(), name.clone()));
            }
            (_, Some((_, domain))) => {
                self.capacity.insert((domain.clone(), name.clone()));
            }
            (Expr::Variable(variable), None)
                if &**variable == "device" && PLAIN.contains(&&**name) => {}
            (base, None) => self.note(base),
        }
    }
}

/// `device.attributes["domain"]` and `device.capacity["domain"]`: which, and the domain.
fn domain(expression: &Expr) -> Option<(&'static str, &Arc<str>)> {
    let Expr::Index(base, index, _) = expression else { return None };
    let (Expr::Field(device, of, false), Expr::Literal(Value::Text(domain))) = (&**base, &**index)
    else {
        return None;
    };
    let of = ["attributes", "capacity"].into_iter().find(|known| *known == &**of)?;
    let whole = matches!(&**device, Expr::Variable(name) if &**name == "device");
    whole.then_some((of, domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::parse;

    fn reads(text: &str) -> Reads {
        let mut reads = Reads::default();
        reads.add(&parse(text).expect(text));
        reads
    }

    #[test]
    fn what_is_named_where_it_is_read_is_all_that_is_looked_at() {
        let one = |name: &str| BTreeSet::from([("a.b".into(), name.into())]);
        let found = reads("device.driver == 'x' && device.attributes['a.b'].model == 'm'");
        assert_eq!(found, Reads { attributes: one("model"), ..Reads::default() });
        for text in [
            "has(device.attributes['a.b'].model)",
            "device.attributes['a.b']['model'] == 1",
            "device.attributes['a.b'].?model.orValue(1) == 1",
            "[1].all(x, device.attributes[?'a.b'][?'model'].hasValue())",
            "!(device.allowMultipleAllocations ? {'a': device.attributes['a.b'].model}.a : true)",
        ] {
            assert_eq!(reads(text).attributes, one("model"), "{text}");
            assert!(!reads(text).all, "{text}");
        }
        let found = reads("device.capacity['a.b'].memory.isGreaterThan(quantity('1Gi'))");
        assert_eq!(found, Reads { capacity: one("memory"), ..Reads::default() });
        assert_eq!(reads("lists.range(10).all(x, x >= 0)"), Reads::default());
    }

    #[test]
    fn whatever_else_is_done_with_a_device_may_look_at_all_of_it() {
        for text in [
            "'a.b' in device.attributes",
            "'model' in device.attributes['a.b']",
            "device.attributes['a' + '.b'].model == 1",
            "device.attributes.exists(d, d == 'a.b')",
            "cel.bind(all, device.attributes['a.b'], all.model == 1)",
            "cel.bind(d, device, d.driver == 'x')",
            "dyn(device) == 1",
            "has(device.attributes.a)",
            "[device].all(device, device.driver == 'x')",
            "optional.of(device).optMap(d, d.driver).hasValue()",
        ] {
            assert!(reads(text).all, "{text}");
        }
    }
}
