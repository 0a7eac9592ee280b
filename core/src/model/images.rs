//! Images on nodes, counted: of how many nodes how many have which.
//!
//! What an image is worth to a pod is scaled by the share of nodes that have it
//! ([`crate::score`]), as kube-scheduler scales it: what few nodes have is not to draw all pods
//! there. Counts follow the facts of offered nodes one by one. Whoever keeps what a share led to
//! asks again once [`ImageCounts::revision`] is another one. An image that no node has any more is
//! forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::input::{Images, NodeFacts, Text};

/// The share of all nodes.
pub const ALL: u32 = 1_000;

/// How many nodes there are, and how many of them have which image, by each of its names.
#[derive(Debug, Default)]
pub struct ImageCounts {
    nodes: u64,
    having: BTreeMap<Text, u64>,
    revision: u64,
}

impl ImageCounts {
    /// A node had these images, if it was offered, and has those, if it still is.
    pub fn change(&mut self, old: Option<&Arc<Images>>, new: Option<&Arc<Images>>) {
        if old == new {
            return;
        }
        self.revision += 1;
        match (old, new) {
            (None, Some(_)) => self.nodes += 1,
            (Some(_), None) => {
                self.nodes = self.nodes.checked_sub(1).expect("a node is counted before it goes");
            }
            _ => {}
        }
        for name in only_in(old, new) {
            let count = self.having.get_mut(&name).expect("an image is counted before it goes");
            *count -= 1;
            if *count == 0 {
                self.having.remove(&name);
            }
        }
        for name in only_in(new, old) {
            *self.having.entry(name).or_default() += 1;
        }
    }

    /// Counts changes: while it stays, so do all shares.
    #[inline]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// For each of these images the share of nodes that have it, in parts of [`ALL`], rounded
    /// down; empty: so few have any of them that it is nothing.
    pub fn shares(&self, wanted: &[Text]) -> Vec<u32> {
        let share = |image: &Text| {
            let having = self.having.get(image).copied().unwrap_or(0);
            (having * u64::from(ALL)).checked_div(self.nodes).unwrap_or(0) as u32
        };
        let shares: Vec<u32> = wanted.iter().map(share).collect();
        if shares.iter().all(|share| *share == 0) { Vec::new() } else { shares }
    }

    /// Compares with the nodes that are offered.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount<'a>(&self, offered: impl Iterator<Item = &'a NodeFacts>) {
        let mut counted = ImageCounts::default();
        offered.for_each(|facts| counted.change(None, Some(&facts.images)));
        assert_eq!(self.nodes, counted.nodes, "nodes that may have images");
        assert_eq!(self.having, counted.having, "nodes by image");
    }
}

/// Images that are among the ones and not among the others.
fn only_in(ones: Option<&Arc<Images>>, others: Option<&Arc<Images>>) -> Vec<Text> {
    let Some(ones) = ones else { return Vec::new() };
    let stays = |name: &Text| others.is_some_and(|others| others.contains_key(name));
    ones.keys().filter(|name| !stays(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(names: &[&str]) -> Arc<Images> {
        Arc::new(names.iter().map(|name| (Text::from(*name), 1)).collect())
    }

    #[test]
    fn shares_follow_nodes_and_images_that_come_and_go() {
        let mut counts = ImageCounts::default();
        let wanted = [Text::from("a"), Text::from("b")];
        assert_eq!(counts.shares(&wanted), [0; 0]);
        let (both, one, none) = (images(&["a", "b"]), images(&["b"]), images(&[]));
        counts.change(None, Some(&both));
        counts.change(None, Some(&none));
        counts.change(None, Some(&none));
        assert_eq!(counts.shares(&wanted), [333, 333]);
        counts.change(Some(&none), Some(&one));
        assert_eq!(counts.shares(&wanted), [333, 666]);
        let revision = counts.revision();
        counts.change(Some(&one), Some(&images(&["b"])));
        assert_eq!(counts.revision(), revision, "nothing changed");
        counts.change(Some(&both), Some(&one));
        assert_eq!(counts.shares(&wanted), [0, 666]);
        counts.change(Some(&none), None);
        assert_eq!(counts.shares(&wanted), [0, 1_000]);
        counts.change(Some(&one), None);
        counts.change(Some(&one), None);
        assert_eq!(counts.shares(&wanted), [0; 0]);
        assert!(counts.having.is_empty(), "what no node has is forgotten");
        counts.recount(std::iter::empty());
    }

    #[test]
    fn an_image_of_very_few_nodes_is_none() {
        let mut counts = ImageCounts::default();
        counts.change(None, Some(&images(&["a"])));
        for _ in 0..1_000 {
            counts.change(None, Some(&images(&[])));
        }
        assert_eq!(counts.shares(&["a".into()]), [0; 0]);
    }

    #[test]
    #[should_panic(expected = "nodes by image")]
    fn recount_notices_an_image_that_is_lost() {
        let facts = NodeFacts {
            name: "n".into(),
            labels: Default::default(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: Default::default(),
            features: Vec::new(),
            images: images(&["a"]),
            capacity_type: crate::model::input::CapacityType::Unknown,
            price: None,
        };
        let mut counts = ImageCounts::default();
        counts.change(None, Some(&facts.images));
        counts.having.clear();
        counts.recount(std::iter::once(&facts));
    }
}
