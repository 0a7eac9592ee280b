//! What people are told of objects, once.
//!
//! Decides that a fault is said when it appears and not again while it stays, whatever else
//! about the object changes; and that nothing is remembered of objects that are gone.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::Text;

use super::Kind;
use super::roster::Named;
use crate::convert::facts::{ClassKind, Missing};
use crate::convert::remarks::{About, object};
use crate::read::error::Notice;

/// A field, if it is about one, and what is wrong with it.
pub type Fault = (Option<String>, String);

/// What was said, and what is still to be said.
#[derive(Debug, Default)]
pub struct Notes {
    /// Faults of each object by itself.
    faults: BTreeMap<(Kind, Named), BTreeSet<Fault>>,
    /// Remarks that needed more than one object.
    pub said: BTreeSet<About>,
    /// Classes that are missing.
    missing: BTreeSet<(ClassKind, Text)>,
    pending: Vec<Notice>,
}

impl Notes {
    /// All that is wrong with an object now.
    pub fn faults(&mut self, kind: Kind, named: &Named, faults: impl IntoIterator<Item = Fault>) {
        let faults: BTreeSet<Fault> = faults.into_iter().collect();
        if faults.is_empty() && self.faults.is_empty() {
            return;
        }
        let at = (kind, named.clone());
        let before = self.faults.remove(&at).unwrap_or_default();
        for (path, problem) in faults.difference(&before) {
            let object = match &*named.0 {
                "" => format!("{} {}", kind.name(), named.1).into(),
                namespace => object(kind.name(), namespace, &named.1),
            };
            let (path, problem) = (path.clone(), problem.clone());
            self.pending.push(Notice { place: None, object: Some(object), path, problem });
        }
        if !faults.is_empty() {
            self.faults.insert(at, faults);
        }
    }

    /// An object is gone.
    pub fn forget(&mut self, kind: Kind, named: &Named) {
        self.faults.remove(&(kind, named.clone()));
        if self.said.is_empty() {
            return;
        }
        let first = About {
            kind: kind.name().into(),
            namespace: named.0.clone(),
            name: named.1.clone(),
            problem: "".into(),
        };
        let said: Vec<About> =
            self.said.range(first.clone()..).take_while(|it| it.same(&first)).cloned().collect();
        for about in said {
            self.said.remove(&about);
        }
    }

    /// Those of the missing classes that were not named before.
    pub fn missing(&mut self, mut named: Missing) -> Missing {
        named.0.retain(|class, _| self.missing.insert(class.clone()));
        named
    }

    /// A class came; should it go again, that is worth saying.
    pub fn found(&mut self, kind: ClassKind, class: &Text) {
        self.missing.remove(&(kind, class.clone()));
    }

    /// Gangs are no objects and so never gone: what was said of them is forgotten now and then.
    pub fn forget_gangs(&mut self) {
        self.said.retain(|about| !about.is_gang());
    }

    /// What is to be said.
    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.pending)
    }
}
