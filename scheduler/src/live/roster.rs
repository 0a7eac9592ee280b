//! Which object stands under which name, by kind.
//!
//! Decides when an object is another one than before (its uid differs), what a complete list
//! leaves behind, and which kinds are still awaited. Knows names and uids, nothing of contents.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::Text;

use super::Kind;

/// Namespace (empty where a kind has none) and name.
pub type Named = (Text, Text);

/// Names of all kinds.
#[derive(Debug, Default)]
pub struct Roster {
    kinds: BTreeMap<Kind, Names>,
}

/// Names of one kind.
#[derive(Debug, Default)]
struct Names {
    /// It was listed once, or is not served.
    known: bool,
    /// The list that was begun last.
    list: u32,
    /// By namespace, so that each name costs one text.
    names: BTreeMap<Text, BTreeMap<Text, Entry>>,
}

#[derive(Debug)]
struct Entry {
    uid: Text,
    /// The list during or after which it was seen last.
    list: u32,
}

impl Roster {
    /// A list of this kind begins.
    pub fn begin(&mut self, kind: Kind) {
        let names = self.kinds.entry(kind).or_default();
        names.list = names.list.wrapping_add(1);
    }

    /// An object was seen; the uid that stood there before comes back if it is another one.
    pub fn seen(&mut self, kind: Kind, named: &Named, uid: &Text) -> Option<Text> {
        let names = self.kinds.entry(kind).or_default();
        let ((namespace, name), list) = (named, names.list);
        let fresh = || Entry { uid: uid.clone(), list };
        let Some(within) = names.names.get_mut(namespace) else {
            names.names.insert(namespace.clone(), BTreeMap::from([(name.clone(), fresh())]));
            return None;
        };
        let Some(entry) = within.get_mut(name) else {
            within.insert(name.clone(), fresh());
            return None;
        };
        entry.list = list;
        (entry.uid != *uid).then(|| std::mem::replace(&mut entry.uid, uid.clone()))
    }

    /// An object is gone; `false`: it was not there, or another one stands under its name.
    pub fn gone(&mut self, kind: Kind, named: &Named, uid: &Text) -> bool {
        let Some(names) = self.kinds.get_mut(&kind) else { return false };
        let (namespace, name) = named;
        let Some(within) = names.names.get_mut(namespace) else { return false };
        let there = within.get(name).is_some_and(|entry| entry.uid == *uid);
        if there {
            within.remove(name);
            if within.is_empty() {
                names.names.remove(namespace);
            }
        }
        there
    }

    /// A list is complete; what it did not name comes back.
    pub fn complete(&mut self, kind: Kind) -> Vec<(Named, Text)> {
        let names = self.kinds.entry(kind).or_default();
        names.known = true;
        let list = names.list;
        let mut all = Vec::new();
        for (namespace, within) in &mut names.names {
            let gone = within.extract_if(.., |_, entry| entry.list != list);
            all.extend(gone.map(|(name, entry)| ((namespace.clone(), name), entry.uid)));
        }
        names.names.retain(|_, within| !within.is_empty());
        all
    }

    /// A kind is not served; what was there comes back.
    pub fn absent(&mut self, kind: Kind) -> Vec<(Named, Text)> {
        let names = self.kinds.entry(kind).or_default();
        names.known = true;
        let mut all = Vec::new();
        for (namespace, within) in std::mem::take(&mut names.names) {
            let named = |(name, entry): (Text, Entry)| ((namespace.clone(), name), entry.uid);
            all.extend(within.into_iter().map(named));
        }
        all
    }

    /// A kind is not looked at any more; what was there comes back.
    pub fn forget(&mut self, kind: Kind) -> Vec<(Named, Text)> {
        let gone = self.absent(kind);
        self.kinds.remove(&kind);
        gone
    }

    /// Those of these kinds of which nobody knows yet what there is.
    pub fn waiting(&self, kinds: &BTreeSet<Kind>) -> Vec<Kind> {
        let known = |kind: &Kind| self.kinds.get(kind).is_some_and(|names| names.known);
        kinds.iter().filter(|kind| !known(kind)).copied().collect()
    }

    /// Whether an object stands under this name.
    pub fn holds(&self, kind: Kind, named: &Named) -> bool {
        let within = self.kinds.get(&kind).and_then(|names| names.names.get(&named.0));
        within.is_some_and(|within| within.contains_key(&named.1))
    }

    /// Objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        let names = self.kinds.get(&kind).into_iter().flat_map(|names| names.names.values());
        names.map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::Node;

    fn named(name: &str) -> Named {
        ("".into(), name.into())
    }

    fn names(gone: Vec<(Named, Text)>) -> Vec<Text> {
        gone.into_iter().map(|((_, name), _)| name).collect()
    }

    #[test]
    fn a_list_replaces_what_was_there_before_it() {
        let mut roster = Roster::default();
        for name in ["a", "b", "c"] {
            roster.seen(KIND, &named(name), &"1".into());
        }
        roster.begin(KIND);
        roster.seen(KIND, &named("a"), &"1".into());
        // The connection broke, and the list begins anew: what it named before does not count.
        roster.begin(KIND);
        roster.seen(KIND, &named("b"), &"1".into());
        roster.seen(KIND, &named("d"), &"1".into());
        assert_eq!(names(roster.complete(KIND)), ["a".into(), "c".into()]);
        assert_eq!(roster.count(KIND), 2);
        assert!(roster.complete(KIND).is_empty());
    }

    #[test]
    fn another_uid_is_another_object() {
        let mut roster = Roster::default();
        assert_eq!(roster.seen(KIND, &named("a"), &"1".into()), None);
        assert_eq!(roster.seen(KIND, &named("a"), &"1".into()), None);
        assert_eq!(roster.seen(KIND, &named("a"), &"2".into()), Some("1".into()));
        assert!(!roster.gone(KIND, &named("a"), &"1".into()));
        assert!(!roster.gone(KIND, &named("b"), &"2".into()));
        assert!(roster.gone(KIND, &named("a"), &"2".into()));
        assert_eq!(roster.count(KIND), 0);
    }

    #[test]
    fn a_kind_is_awaited_until_it_was_listed_or_is_absent() {
        let kinds = BTreeSet::from([Kind::Node, Kind::Pod, Kind::Job]);
        let mut roster = Roster::default();
        roster.begin(Kind::Node);
        roster.absent(Kind::Pod);
        assert_eq!(roster.waiting(&kinds), [Kind::Node, Kind::Job]);
        roster.complete(Kind::Node);
        roster.complete(Kind::Job);
        // Listing again takes nothing back.
        roster.begin(Kind::Job);
        assert_eq!(roster.waiting(&kinds), []);
        roster.forget(Kind::Job);
        assert_eq!(roster.waiting(&kinds), [Kind::Job]);
    }
}
