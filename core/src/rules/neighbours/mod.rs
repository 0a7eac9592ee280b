//! Pods around pods: what PodTopologySpread and InterPodAffinity read.
//!
//! Problem: whether a node will do depends on the pods of its domain (a host, a rack, a zone), on
//! what they want of others, and on all other domains. A pod that is placed may change that for
//! thousands of nodes, for better or worse.
//!
//! Wanted: the answers of kube-scheduler; who uses none of it pays nothing; equal pods share all of
//! it; a placement costs what it changes.
//!
//! - [`Neighbourhood`] knows how many pods of which shape each node has, and which node is in which
//!   domain of a key ([`keys`]). It is the only state that is changed with placements; its changes
//!   are undone like those of the ledger.
//! - An [`Outlook`] is what one class of pods makes of it: counts by domain, kept with the class's
//!   index and brought up to date from the same log of changed nodes. Where a count turns the
//!   answer for a domain, all nodes of that domain are looked at again.
//! - What only makes some nodes better than others is the outlook's [`preferences`]. There every
//!   pod counts; nodes of its domain get other scores, and are not looked at again for that.
//!
//! Shapes that differ in nothing but labels that no selector reads are one: the shell leaves those
//! out ([`crate::model::input::Kin`]).
//!
//! - A pod that another scheduler nominated ([`Tenancy::Nominated`]) may never come: a node has to
//!   do with those that are nominated for it and without them. They keep others away from their
//!   node alone, and bring nobody near. (kube-scheduler forgets to ask where nobody else there has
//!   anti-affinity and the pod that comes has no terms of its own: that is taken for an error.)
//!
//! Restart: all of it is derived from pods, nodes and namespaces.

use std::collections::BTreeMap;

use capstan_topology::NodeIdx;

use crate::model::ids::ShapeIdx;
use crate::model::input::{Kin, Labels, PeerSelector, PodShape, Text};
use crate::rules::selector;

mod counter;
pub mod keys;
mod outlook;
pub mod preferences;

pub use outlook::{Outlook, Skew};

/// Pods of one shape on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenants {
    /// Their shape; one with a [`Kin`].
    pub shape: ShapeIdx,
    /// Those that stay.
    pub staying: u32,
    /// Those that are being deleted.
    pub leaving: u32,
    /// Those that may come.
    pub nominated: u32,
}

/// How a pod is on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tenancy {
    /// It stays.
    #[default]
    Staying,
    /// It is being deleted.
    Leaving,
    /// It may come: another scheduler nominated it.
    Nominated,
}

/// Who is where, by what others may want of them.
#[derive(Debug, Default)]
pub struct Neighbourhood {
    tenants: Vec<Vec<Tenants>>,
    /// Domains of the keys that terms name.
    pub keys: keys::Keys,
    namespaces: BTreeMap<Text, Labels>,
    /// Counts what makes every outlook void: labels of namespaces, keys that went.
    epoch: u64,
    /// Shapes that pods which come may help: they want others near, or are spread.
    hoping: Vec<ShapeIdx>,
    /// For shapes that were asked about, whether a pod of it may help any of those.
    helps: BTreeMap<ShapeIdx, bool>,
}

impl Neighbourhood {
    /// A pod is on a node. The inverse is [`Neighbourhood::remove`].
    pub fn place(&mut self, node: NodeIdx, shape: ShapeIdx, tenancy: Tenancy) {
        if self.tenants.len() <= node.at() {
            self.tenants.resize_with(node.at() + 1, Vec::new);
        }
        let tenants = &mut self.tenants[node.at()];
        let at = match tenants.binary_search_by_key(&shape, |it| it.shape) {
            Ok(at) => at,
            Err(at) => {
                tenants.insert(at, Tenants { shape, staying: 0, leaving: 0, nominated: 0 });
                at
            }
        };
        *tenants[at].of(tenancy) += 1;
    }

    /// A pod is off its node.
    pub fn remove(&mut self, node: NodeIdx, shape: ShapeIdx, tenancy: Tenancy) {
        let tenants = &mut self.tenants[node.at()];
        let at = tenants.binary_search_by_key(&shape, |it| it.shape).expect("it was placed");
        let count = tenants[at].of(tenancy);
        *count = count.checked_sub(1).expect("it was placed so");
        let Tenants { staying, leaving, nominated, .. } = tenants[at];
        if staying + leaving + nominated == 0 {
            tenants.remove(at);
        }
    }

    /// Who is on a node.
    #[inline]
    pub fn on(&self, node: NodeIdx) -> &[Tenants] {
        self.tenants.get(node.at()).map_or(&[], Vec::as_slice)
    }

    /// States the labels of a namespace; `None`: it is gone.
    pub fn set_namespace(&mut self, name: &Text, labels: Option<&Labels>) {
        let changed = match labels {
            Some(labels) => {
                self.namespaces.insert(name.clone(), labels.clone()) != Some(labels.clone())
            }
            None => self.namespaces.remove(name).is_some(),
        };
        if changed {
            self.epoch += 1;
            self.helps.clear();
        }
    }

    /// Counts what makes every outlook void.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A shape came to be known; one that hopes for others changes who helps.
    pub fn meet(&mut self, shape: ShapeIdx, facts: &PodShape) {
        if hopes(facts) {
            self.hoping.push(shape);
            self.helps.clear();
        }
    }

    /// Whether a pod of this shape that comes may help others that wait.
    pub fn helps<'a>(&mut self, shape: ShapeIdx, facts: impl Fn(ShapeIdx) -> &'a PodShape) -> bool {
        if self.hoping.is_empty() {
            return false;
        }
        if let Some(known) = self.helps.get(&shape) {
            return *known;
        }
        let wanted = |hoping: &ShapeIdx| self.hopes_for(facts(*hoping), facts(shape));
        let helps = self.hoping.iter().any(wanted);
        self.helps.insert(shape, helps);
        helps
    }

    /// Whether a pod that waits may find more places for it that one of the other shape came.
    pub fn hopes_for(&self, hoping: &PodShape, other: &PodShape) -> bool {
        other.kin.as_deref().is_some_and(|kin| self.is_hoped_for(hoping, kin))
    }

    fn is_hoped_for(&self, hoping: &PodShape, kin: &Kin) -> bool {
        let Some(wants) = &hoping.neighbours else { return false };
        let near = !wants.affinity.is_empty()
            && wants.affinity.iter().all(|term| self.selects(&term.peers, kin));
        let own = hoping.kin.as_deref();
        near || own.is_some_and(|own| {
            let counted = |labels| own.namespace == kin.namespace && spread_counts(labels, kin);
            wants.spread.iter().any(|spread| counted(spread.labels.as_ref()))
        })
    }

    /// Whether a selector means a pod.
    pub fn selects(&self, peers: &PeerSelector, kin: &Kin) -> bool {
        let Some(labels) = &peers.labels else { return false };
        let by_label = |wanted| match self.namespaces.get(&kin.namespace) {
            Some(labels) => selector::selects(wanted, labels),
            None => selector::selects(wanted, &Labels::new()),
        };
        let there = peers.namespaces.binary_search(&kin.namespace).is_ok()
            || peers.namespace_selector.as_ref().is_some_and(by_label);
        there && selector::selects(labels, &kin.labels)
    }

    /// Whether a pod had rather be away from another: it prefers that, or to be spread among such.
    pub fn shuns(&self, own: &PodShape, other: &PodShape) -> bool {
        let wants = (own.neighbours.as_deref(), own.kin.as_deref(), other.kin.as_deref());
        let (Some(wants), Some(kin), Some(theirs)) = wants else { return false };
        let mut away = wants.preferred.iter().filter(|preferred| preferred.weight < 0);
        let spread = wants.spread.iter().filter(|spread| !spread.required);
        let mut spread = spread.filter(|_| kin.namespace == theirs.namespace);
        away.any(|preferred| self.selects(&preferred.term.peers, theirs))
            || spread.any(|spread| spread_counts(spread.labels.as_ref(), theirs))
    }

    /// Forgets a node without pods.
    pub fn forget_node(&mut self, node: NodeIdx) {
        if let Some(tenants) = self.tenants.get_mut(node.at()) {
            assert!(tenants.is_empty(), "a node with pods on it");
            *tenants = Vec::new();
        }
    }

    /// Gives back the memory of node slots from one on, which were all forgotten.
    pub fn truncate_nodes(&mut self, slots: usize) {
        self.tenants.truncate(slots);
    }

    /// Forgets shapes that nothing uses, and keys that none of the others names.
    pub fn sweep<'a>(&mut self, used: &[bool], shapes: impl Fn() -> Vec<&'a PodShape>) {
        self.hoping.retain(|shape| used[shape.at()]);
        self.helps.clear();
        let shapes = shapes();
        let named: std::collections::BTreeSet<&Text> =
            shapes.iter().flat_map(|shape| keys_of(shape)).collect();
        if self.keys.sweep(|key| named.contains(key)) {
            self.epoch += 1;
        }
    }

    /// Compares with the pods that are placed: node, shape, and how.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount(&self, placed: impl Iterator<Item = (NodeIdx, ShapeIdx, Tenancy)>) {
        let mut counted = Neighbourhood::default();
        placed.for_each(|(node, shape, tenancy)| counted.place(node, shape, tenancy));
        for at in 0..self.tenants.len().max(counted.tenants.len()) {
            let node = NodeIdx(at as u32);
            assert_eq!(self.on(node), counted.on(node), "pods on node slot {at}");
        }
    }
}

impl Tenants {
    fn of(&mut self, tenancy: Tenancy) -> &mut u32 {
        match tenancy {
            Tenancy::Staying => &mut self.staying,
            Tenancy::Leaving => &mut self.leaving,
            Tenancy::Nominated => &mut self.nominated,
        }
    }
}

/// Every topology key that a shape's terms name.
pub fn keys_of(shape: &PodShape) -> impl Iterator<Item = &Text> {
    shape.neighbours.iter().flat_map(|wants| {
        let terms = wants.affinity.iter().chain(&wants.anti_affinity);
        let preferred = wants.preferred.iter().map(|preferred| &preferred.term);
        let of_terms = terms.chain(preferred).map(|term| &term.key);
        of_terms.chain(wants.spread.iter().map(|spread| &spread.key))
    })
}

/// Whether pods that come may turn a refusal of such a pod.
fn hopes(shape: &PodShape) -> bool {
    let wants = shape.neighbours.as_ref();
    wants.is_some_and(|wants| {
        !wants.affinity.is_empty() || wants.spread.iter().any(|spread| spread.required)
    })
}

/// Whether a spread constraint counts a pod of its namespace. As kube-scheduler has it, a selector
/// that is there and empty counts none.
fn spread_counts(labels: Option<&crate::model::input::LabelSelector>, kin: &Kin) -> bool {
    labels.is_some_and(|labels| !labels.is_empty() && selector::selects(labels, &kin.labels))
}
