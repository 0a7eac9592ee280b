//! Pod affinity, topology spread, host ports and taints by their definition: every question scans
//! all nodes and pods.
//!
//! Slow and obviously right, for properties: whether a pod may go to a node as things are, and
//! whether some order and some nodes get all members of a gang in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    HostPort, LabelSelector, Labels, NodeFacts, PeerSelector, PeerTerm, PodFacts, PodPhase,
    PodShape, Spread, TaintEffect, Text,
};
use capstan_core::rules::neighbours::Tenancy;
use capstan_core::rules::selector::selects;
use capstan_core::rules::taints::tolerates;

use crate::facts::text;

/// A pod with a place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its node.
    pub node: usize,
    /// What it is and wants.
    pub shape: Arc<PodShape>,
    /// How it is there.
    pub tenancy: Tenancy,
}

impl Placed {
    /// One that stays.
    pub fn new(node: usize, shape: Arc<PodShape>) -> Placed {
        Placed { node, shape, tenancy: Tenancy::Staying }
    }

    /// What is fed of one that is not ours.
    pub fn describe(&self, facts: &mut PodFacts, node: &Text) {
        (facts.ours, facts.node) = (false, Some(node.clone()));
        facts.phase = PodPhase::Running;
        facts.terminating = self.tenancy == Tenancy::Leaving;
        facts.nominated = self.tenancy == Tenancy::Nominated;
    }
}

/// Nodes, and who is on them.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    /// Nodes.
    pub nodes: Vec<NodeFacts>,
    /// Labels of namespaces.
    pub namespaces: BTreeMap<Text, Labels>,
    /// Pods.
    pub placed: Vec<Placed>,
    /// Nodes that reach a device for the one claim which all pods with a claim share: which device.
    pub linked: BTreeMap<usize, usize>,
}

impl Cluster {
    /// Whether a pod may go to a node: what it asks is free, and the pods around agree, with those
    /// that are only nominated for the node and without them.
    pub fn takes(&self, node: usize, shape: &PodShape) -> bool {
        let nominated = |placed: &Placed| placed.tenancy == Tenancy::Nominated;
        if !self.placed.iter().any(nominated) {
            return self.would_take(node, shape);
        }
        [Some(node), None].into_iter().all(|seen| {
            let mut as_seen = self.clone();
            as_seen.placed.retain(|placed| !nominated(placed) || Some(placed.node) == seen);
            as_seen.would_take(node, shape)
        })
    }

    fn would_take(&self, node: usize, shape: &PodShape) -> bool {
        self.selects(node, shape)
            && self.is_tolerated(node, shape)
            && self.has_room(node, shape)
            && self.has_ports(node, shape)
            && self.is_linked(node, shape)
            && self.is_near(node, shape)
            && self.is_apart(node, shape)
            && self.is_spread(node, shape)
    }

    pub(crate) fn selects(&self, node: usize, shape: &PodShape) -> bool {
        let labels = &self.nodes[node].labels;
        shape.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether a pod tolerates all that keeps pods off a node.
    fn is_tolerated(&self, node: usize, shape: &PodShape) -> bool {
        let mut taints = self.nodes[node].taints.iter();
        taints.all(|taint| {
            let hard = taint.effect != TaintEffect::PreferNoSchedule;
            !hard || tolerates(&shape.tolerations, taint, false)
        })
    }

    fn has_room(&self, node: usize, shape: &PodShape) -> bool {
        shape.requests.iter().all(|(resource, asked)| {
            let here = self.placed.iter().filter(|placed| placed.node == node);
            let used: i64 = here.filter_map(|placed| placed.shape.requests.get(resource)).sum();
            let has = self.nodes[node].allocatable.get(resource).copied().unwrap_or(0);
            used + asked <= has
        })
    }

    fn has_ports(&self, node: usize, shape: &PodShape) -> bool {
        let every = |port: &HostPort| &*port.ip == "0.0.0.0";
        let same = |a: &HostPort, b: &HostPort| {
            let address = a.ip == b.ip || every(a) || every(b);
            a.port == b.port && a.protocol == b.protocol && address
        };
        let here = self.placed.iter().filter(|placed| placed.node == node);
        let mut used = here.flat_map(|placed| &placed.shape.ports);
        !used.any(|used| shape.ports.iter().any(|wanted| same(used, wanted)))
    }

    /// Whether the claim of a pod can be used on a node: it reaches a device, the one of whoever
    /// shares the claim.
    fn is_linked(&self, node: usize, shape: &PodShape) -> bool {
        let sharing = self.placed.iter().filter(|placed| !placed.shape.claims.is_empty());
        shape.claims.is_empty()
            || self.linked.get(&node).is_some_and(|device| {
                sharing.clone().all(|placed| self.linked.get(&placed.node) == Some(device))
            })
    }

    pub(crate) fn value(&self, node: usize, key: &Text) -> Option<&Text> {
        self.nodes[node].labels.get(key)
    }

    pub(crate) fn means(&self, peers: &PeerSelector, pod: &PodShape) -> bool {
        let (Some(labels), Some(kin)) = (&peers.labels, pod.kin.as_deref()) else { return false };
        let by_label = |wanted: &LabelSelector| {
            selects(wanted, self.namespaces.get(&kin.namespace).unwrap_or(&Labels::new()))
        };
        (peers.namespaces.contains(&kin.namespace)
            || peers.namespace_selector.as_ref().is_some_and(by_label))
            && selects(labels, &kin.labels)
    }

    /// Pods that the terms mean all together, in the domain of a node.
    fn in_domain<'a>(
        &'a self,
        node: usize,
        key: &'a Text,
        terms: &'a [PeerTerm],
    ) -> impl Iterator<Item = &'a Placed> {
        let value = self.value(node, key);
        self.placed.iter().filter(move |placed| {
            value.is_some()
                && self.value(placed.node, key) == value
                && terms.iter().all(|term| self.means(&term.peers, &placed.shape))
        })
    }

    fn is_near(&self, node: usize, shape: &PodShape) -> bool {
        let Some(wants) = shape.neighbours.as_deref() else { return true };
        let terms = &wants.affinity;
        let keys = || terms.iter().map(|term| &term.key);
        if !keys().all(|key| self.value(node, key).is_some()) {
            return false;
        }
        let mut all = 0..self.nodes.len();
        let nobody = !all.any(|at| keys().any(|key| self.in_domain(at, key, terms).count() > 0));
        let first = nobody && terms.iter().all(|term| self.means(&term.peers, shape));
        first || keys().all(|key| self.in_domain(node, key, terms).count() > 0)
    }

    fn is_apart(&self, node: usize, shape: &PodShape) -> bool {
        let own = shape.neighbours.iter().flat_map(|wants| &wants.anti_affinity);
        let mine = own
            .into_iter()
            .all(|term| self.in_domain(node, &term.key, std::slice::from_ref(term)).count() == 0);
        let theirs = self.placed.iter().all(|placed| {
            let wants = placed.shape.neighbours.iter().flat_map(|wants| &wants.anti_affinity);
            wants.into_iter().all(|term| {
                let value = self.value(node, &term.key);
                let together = value.is_some() && self.value(placed.node, &term.key) == value;
                !together || !self.means(&term.peers, shape)
            })
        });
        mine && theirs
    }

    fn is_spread(&self, node: usize, shape: &PodShape) -> bool {
        let spread = shape.neighbours.iter().flat_map(|wants| &wants.spread);
        let hard: Vec<&Spread> = spread.filter(|spread| spread.required).collect();
        hard.iter().all(|spread| {
            let Some(own) = self.value(node, &spread.key) else { return false };
            let makes_domain = |at: &usize| {
                let labels = &self.nodes[*at].labels;
                let selected = self.selects(*at, shape);
                hard.iter().all(|other| labels.contains_key(&other.key))
                    && (!spread.honors_affinity || selected)
                    && (!spread.honors_taints || self.is_tolerated(*at, shape))
            };
            let mut domains: BTreeMap<&Text, u32> = BTreeMap::new();
            for at in (0..self.nodes.len()).filter(makes_domain) {
                let value = self.value(at, &spread.key).expect("it has all keys");
                let here = self.placed.iter().filter(|placed| placed.node == at);
                let counted = here.filter(|placed| counts(spread, shape, placed)).count();
                *domains.entry(value).or_default() += counted as u32;
            }
            let enough = domains.len() as u32 >= spread.min_domains;
            let least = domains.values().min().copied().filter(|_| enough).unwrap_or(0);
            let kin = shape.kin.as_deref().expect("pods that spread are seen");
            let own_count = spread.labels.as_ref().is_some_and(|it| selects(it, &kin.labels));
            let count = domains.get(own).copied().unwrap_or(0) + u32::from(own_count);
            count <= least + spread.max_skew
        })
    }

    /// Whether so many of these, or all, find places in some order.
    pub fn takes_some(&mut self, members: &[Arc<PodShape>], least: usize) -> bool {
        let mut left: BTreeMap<Arc<PodShape>, u32> = BTreeMap::new();
        members.iter().for_each(|shape| *left.entry(shape.clone()).or_default() += 1);
        self.search(&mut left, least.min(members.len()), &mut Vec::new(), &mut BTreeSet::new())
    }

    fn search(
        &mut self,
        left: &mut BTreeMap<Arc<PodShape>, u32>,
        least: usize,
        places: &mut Vec<(Arc<PodShape>, usize)>,
        seen: &mut BTreeSet<Vec<(Arc<PodShape>, usize)>>,
    ) -> bool {
        if places.len() >= least {
            return true;
        }
        let kinds: Vec<Arc<PodShape>> =
            left.iter().filter(|(_, count)| **count > 0).map(|(shape, _)| shape.clone()).collect();
        let mut state = places.clone();
        state.sort();
        if !seen.insert(state) {
            return false;
        }
        for shape in kinds {
            for node in 0..self.nodes.len() {
                if !self.takes(node, &shape) {
                    continue;
                }
                self.placed.push(Placed::new(node, shape.clone()));
                places.push((shape.clone(), node));
                *left.get_mut(&shape).expect("listed") -= 1;
                let found = self.search(left, least, places, seen);
                *left.get_mut(&shape).expect("listed") += 1;
                places.pop();
                self.placed.pop();
                if found {
                    return true;
                }
            }
        }
        false
    }

    /// Whether these can have come to these nodes one by one.
    pub fn comes_about(&mut self, places: &[(Arc<PodShape>, usize)]) -> bool {
        if places.is_empty() {
            return true;
        }
        for at in 0..places.len() {
            let (shape, node) = places[at].clone();
            if !self.takes(node, &shape) {
                continue;
            }
            let mut rest = places.to_vec();
            rest.remove(at);
            self.placed.push(Placed::new(node, shape));
            let found = self.comes_about(&rest);
            self.placed.pop();
            if found {
                return true;
            }
        }
        false
    }
}

/// A kind of pods with the slot of a node that each takes, as one more resource.
pub fn sized(shape: &Arc<PodShape>) -> Arc<PodShape> {
    let mut own = PodShape::clone(shape);
    own.requests.insert(text("pods"), 1);
    Arc::new(own)
}

/// Whether a constraint counts a pod.
pub(crate) fn counts(spread: &Spread, own: &PodShape, placed: &Placed) -> bool {
    let (Some(labels), Some(kin)) = (&spread.labels, placed.shape.kin.as_deref()) else {
        return false;
    };
    let here = own.kin.as_deref().is_some_and(|own| own.namespace == kin.namespace);
    here && placed.tenancy != Tenancy::Leaving && !labels.is_empty() && selects(labels, &kin.labels)
}
