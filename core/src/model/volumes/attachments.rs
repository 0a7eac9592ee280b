//! VolumeAttachments: which volumes are attached to which nodes, by node and by the names that
//! drivers have for volumes.
//!
//! Decides nothing. What a driver calls a volume is a fact of the volume, which may come later than
//! its attachments, or change: the list by those names follows it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::input::{AttachmentFacts, Text};

/// All attachments.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    all: BTreeMap<Text, AttachmentFacts>,
    /// Names by node.
    on_node: BTreeMap<Text, BTreeSet<Text>>,
    /// Volumes, each with the name of an attachment.
    of_volume: BTreeSet<(Text, Text)>,
    /// Drivers' names of volumes, each with the name of an attachment.
    by_handle: BTreeSet<(Text, Text)>,
}

impl Attachments {
    /// States what an attachment is, or that it is gone; what it was. `handle`: what its driver
    /// calls a volume.
    pub fn put(
        &mut self,
        name: &Text,
        facts: Option<AttachmentFacts>,
        handle: impl Fn(&Text) -> Option<Text>,
    ) -> Option<AttachmentFacts> {
        let old = match &facts {
            Some(facts) => self.all.insert(name.clone(), facts.clone()),
            None => self.all.remove(name),
        };
        if old != facts {
            for (facts, now) in [(&old, false), (&facts, true)] {
                facts.iter().for_each(|it| self.list(name, it, handle(&it.volume), now));
            }
        }
        old
    }

    fn list(&mut self, name: &Text, facts: &AttachmentFacts, handle: Option<Text>, now: bool) {
        let there = self.on_node.entry(facts.node.clone()).or_default();
        let handle = handle.map(|handle| (handle, name.clone()));
        let pair = (facts.volume.clone(), name.clone());
        match now {
            true => {
                there.insert(name.clone());
                self.of_volume.insert(pair);
                self.by_handle.extend(handle);
            }
            false => {
                there.remove(name);
                self.of_volume.remove(&pair);
                handle.into_iter().for_each(|pair| _ = self.by_handle.remove(&pair));
            }
        }
        if there.is_empty() {
            self.on_node.remove(&facts.node);
        }
    }

    /// A volume's driver calls it something else than before.
    pub fn rename(&mut self, volume: &Text, old: Option<&Text>, new: Option<&Text>) {
        if old == new {
            return;
        }
        let names: Vec<Text> = with(&self.of_volume, volume.clone()).cloned().collect();
        for name in names {
            if let Some(old) = old {
                self.by_handle.remove(&(old.clone(), name.clone()));
            }
            self.by_handle.extend(new.map(|new| (new.clone(), name)));
        }
    }

    /// Attachments to a node.
    pub fn on(&self, node: &Text) -> impl Iterator<Item = &AttachmentFacts> {
        self.on_node.get(node).into_iter().flatten().map(|name| &self.all[name])
    }

    /// Attachments of volumes that some driver calls so.
    pub fn called(&self, handle: Text) -> impl Iterator<Item = &AttachmentFacts> {
        with(&self.by_handle, handle).map(|name| &self.all[name])
    }

    /// Compares the lists with lists made anew.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, handle: impl Fn(&Text) -> Option<Text>) {
        let mut anew = Attachments::default();
        for (name, facts) in &self.all {
            anew.put(name, Some(facts.clone()), &handle);
        }
        assert_eq!(self.on_node, anew.on_node, "attachments by node");
        assert_eq!(self.of_volume, anew.of_volume, "attachments by volume");
        assert_eq!(self.by_handle, anew.by_handle, "attachments by what drivers call volumes");
    }
}

/// What is listed with a key.
fn with(pairs: &BTreeSet<(Text, Text)>, key: Text) -> impl Iterator<Item = &Text> {
    let from = pairs.range((key.clone(), Text::from(""))..);
    from.take_while(move |(of, _)| *of == key).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, node: &str, volume: &str) -> AttachmentFacts {
        let [name, node, volume] = [name, node, volume].map(Text::from);
        AttachmentFacts { name, driver: "disks".into(), node, volume }
    }

    fn nodes(all: &Attachments, handle: &str) -> Vec<String> {
        all.called(handle.into()).map(|it| it.node.to_string()).collect()
    }

    #[test]
    fn attachments_are_found_by_what_drivers_call_volumes_whatever_comes_first() {
        let mut all = Attachments::default();
        let unknown = |_: &Text| None;
        let h = |volume: &Text| (&**volume == "v").then(|| Text::from("h"));
        all.put(&"a".into(), Some(facts("a", "n1", "v")), unknown);
        all.put(&"b".into(), Some(facts("b", "n2", "v")), unknown);
        all.put(&"c".into(), Some(facts("c", "n1", "w")), unknown);
        assert!(nodes(&all, "h").is_empty());
        all.rename(&"v".into(), None, Some(&"h".into()));
        assert_eq!(nodes(&all, "h"), ["n1", "n2"]);
        all.recount(h);
        all.put(&"a".into(), Some(facts("a", "n3", "v")), h);
        assert_eq!(nodes(&all, "h"), ["n3", "n2"]);
        assert_eq!(all.on(&"n1".into()).count(), 1);
        all.put(&"b".into(), None, h);
        all.recount(h);
        all.rename(&"v".into(), Some(&"h".into()), Some(&"i".into()));
        assert_eq!((nodes(&all, "h").len(), nodes(&all, "i")), (0, vec!["n3".to_owned()]));
    }
}
