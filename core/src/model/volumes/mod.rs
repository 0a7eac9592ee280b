//! Storage: claims, volumes and classes as fed, and who uses what where.
//!
//! Decides nothing; the volume rules read it through a [`Demand`], which says once for a kind of
//! pod what its claims mean on any node. What placed pods chose for claims that are not bound
//! yet (a volume, or a node to make one for) is kept with the claim until its last user leaves.
//!
//! Whoever keeps an answer keeps the [`Volumes::stamp`] that it was given at: a change of a claim,
//! volume or class is seen by those that depend on it, and by nobody else. What pods hold of a
//! node changes with that node, which its room tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::model::input::{
    AttachmentFacts, CapacityFacts, ClaimFacts, ClaimKey, DriverFacts, NodeFacts, PodVolumes,
    StorageClassFacts, StorageFact, Text, VolumeFacts,
};

mod attachments;
mod concerned;
mod demand;
mod holdings;
mod left;
mod ways;

use attachments::Attachments;
use demand::{is_among, reaches};
use holdings::NodeUse;

pub use concerned::{Concerned, MayFit};
pub use demand::{Counted, Demand, Handle, Need, Wanted};
pub use holdings::{Choice, Choices, Setting};
pub use left::Storage;

/// All storage objects and their uses.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<ClaimKey, ClaimEntry>,
    volumes: BTreeMap<Text, VolumeEntry>,
    /// Volumes by the claim that they are kept for.
    kept_for: BTreeMap<ClaimKey, BTreeSet<Text>>,
    /// By StorageClass.
    pools: BTreeMap<Text, Pool>,
    drivers: BTreeMap<Text, DriverFacts>,
    /// By node.
    served: BTreeMap<Text, Served>,
    capacities: BTreeMap<(Text, Text), Arc<CapacityFacts>>,
    attachments: Attachments,
    on_node: Vec<NodeUse>,
    clock: u64,
    /// When something changed last that concerns everybody.
    everybody: u64,
}

/// What drivers do for a node.
#[derive(Debug, PartialEq)]
struct Served {
    /// By driver.
    limits: BTreeMap<Text, i64>,
    /// Plugins that they have taken over.
    migrated: BTreeSet<Text>,
}

/// A claim that exists or is used.
#[derive(Debug, Default)]
struct ClaimEntry {
    facts: Option<Arc<ClaimFacts>>,
    /// Placed pods that use it, by node.
    users: BTreeMap<NodeIdx, u32>,
    /// Of those, pods that are only nominated for their node.
    nominated: u32,
    /// What they chose for it.
    choice: Option<Choice>,
    stamp: u64,
}

impl ClaimEntry {
    /// Whether somebody has it who is not only nominated: a claim for one pod is taken then.
    fn is_taken(&self) -> bool {
        self.users.values().sum::<u32>() > self.nominated
    }
}

/// A volume that exists or was chosen.
#[derive(Debug, Default)]
struct VolumeEntry {
    facts: Option<Arc<VolumeFacts>>,
    /// The claim that placed pods chose it for.
    chosen_for: Option<ClaimKey>,
    /// Attachments that name it.
    attachments: u32,
    stamp: u64,
}

/// What one StorageClass has.
#[derive(Debug, Default)]
struct Pool {
    class: Option<Arc<StorageClassFacts>>,
    /// Volumes that are nobody's, smallest first.
    open: BTreeSet<(i64, Text)>,
    capacities: BTreeSet<(Text, Text)>,
    stamp: u64,
    /// When one of its volumes was chosen last, or let go.
    taken: u64,
}

/// When something changed last: another stamp than before says that what was kept holds no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Something that a [`Demand`] tells of.
    pub facts: u64,
    /// Some volume that it could take was taken, or let go.
    pub taken: u64,
}

impl Volumes {
    /// Takes a fact in.
    pub fn apply(&mut self, fact: StorageFact) -> Concerned {
        match fact {
            StorageFact::Claim(facts) => self.put_claim(&facts.key.clone(), Some(facts)),
            StorageFact::ClaimGone(key) => self.put_claim(&key, None),
            StorageFact::Volume(facts) => self.put_volume(&facts.name.clone(), Some(facts)),
            StorageFact::VolumeGone(name) => self.put_volume(&name, None),
            StorageFact::Class(facts) => self.put_class(&facts.name.clone(), Some(facts)),
            StorageFact::ClassGone(name) => self.put_class(&name, None),
            StorageFact::Driver(facts) => {
                let old = self.drivers.insert(facts.name.clone(), facts.clone());
                self.concern_everybody(old != Some(facts))
            }
            StorageFact::DriverGone(name) => {
                let old = self.drivers.remove(&name);
                self.concern_everybody(old.is_some())
            }
            StorageFact::Limits { node, limits, migrated } => {
                let served = Served { limits, migrated };
                let changed = self.served.get(&node) != Some(&served);
                self.served.insert(node.clone(), served);
                Concerned { named: Some(node), ..Concerned::if_new(changed) }
            }
            StorageFact::LimitsGone(node) => {
                let changed = self.served.remove(&node).is_some();
                Concerned { named: Some(node), ..Concerned::if_new(changed) }
            }
            StorageFact::Capacity(facts) => {
                let key = (facts.namespace.clone(), facts.name.clone());
                self.put_capacity(key, Some(facts))
            }
            StorageFact::CapacityGone(namespace, name) => {
                self.put_capacity((namespace, name), None)
            }
            StorageFact::Attachment(facts) => self.put_attachment(&facts.name.clone(), Some(facts)),
            StorageFact::AttachmentGone(name) => self.put_attachment(&name, None),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn concern_everybody(&mut self, changed: bool) -> Concerned {
        if changed {
            self.everybody = self.tick();
        }
        Concerned::if_new(changed)
    }

    fn put_claim(&mut self, key: &ClaimKey, facts: Option<ClaimFacts>) -> Concerned {
        let stamp = self.tick();
        let entry = self.claims.entry(key.clone()).or_default();
        let volumes = &self.volumes;
        let attached = |volume: &Text| volumes.get(volume).is_some_and(|it| it.attachments > 0);
        let changed = entry.facts.as_deref() != facts.as_ref();
        let chosen = entry.choice.as_ref().and_then(|choice| choice.volume.as_ref());
        let got = facts.as_ref().and_then(|facts| facts.volume.as_ref());
        let had = entry.facts.as_ref().and_then(|facts| facts.volume.as_ref());
        let lost = facts.is_none() || had.is_some() && had != got;
        let may_fit = match changed {
            false => MayFit::Nobody,
            // What was chosen for it may be another's now.
            true if chosen.is_some_and(|chosen| Some(chosen) != got) => MayFit::WhoHasVolumes,
            // It may count for less where it is used: what it has is attached there already.
            true if !entry.users.is_empty() && (lost || got.is_some_and(attached)) => {
                MayFit::WhoHasVolumes
            }
            true => MayFit::Users(key.clone()),
        };
        if changed {
            entry.facts = facts.map(Arc::new);
            entry.stamp = stamp;
        }
        let nodes = entry.users.keys().copied().collect();
        self.forget_unused_claim(key);
        Concerned { may_fit, nodes, named: None }
    }

    /// A claim that neither exists nor is used is nothing.
    fn forget_unused_claim(&mut self, key: &ClaimKey) {
        let unused = |entry: &ClaimEntry| entry.facts.is_none() && entry.users.is_empty();
        if self.claims.get(key).is_some_and(unused) {
            let gone = self.claims.remove(key);
            assert!(gone.is_some_and(|gone| gone.choice.is_none()), "a choice of nobody");
            self.everybody = self.tick();
        }
    }

    fn put_volume(&mut self, name: &Text, facts: Option<VolumeFacts>) -> Concerned {
        let facts = facts.map(Arc::new);
        let entry = self.volumes.entry(name.clone()).or_default();
        let (old, attached) = (entry.facts.clone(), entry.attachments > 0);
        if old == facts {
            self.forget_unused_volume(name);
            return Concerned::default();
        }
        entry.facts = facts.clone();
        let stamp = self.tick();
        self.volumes.get_mut(name).expect("just there").stamp = stamp;
        let of = |facts: &Option<Arc<VolumeFacts>>| Some(facts.as_ref()?.claim.as_ref()?.0.clone());
        let may_fit = match (of(&old), of(&facts)) {
            // What is attached may have another name now.
            _ if attached => MayFit::WhoHasVolumes,
            (had, Some(claim)) if had.as_ref().is_none_or(|had| *had == claim) => {
                MayFit::Users(claim)
            }
            _ => MayFit::WhoHasVolumes,
        };
        let mut nodes = Vec::new();
        for (facts, now) in [(&old, false), (&facts, true)] {
            let Some(facts) = facts else { continue };
            if let Some((claim, _)) = &facts.claim {
                let kept = self.kept_for.entry(claim.clone()).or_default();
                match now {
                    true => kept.insert(name.clone()),
                    false => kept.remove(name),
                };
                if kept.is_empty() {
                    self.kept_for.remove(claim);
                }
                let users = self.claims.get(claim).map(|entry| entry.users.keys().copied());
                nodes.extend(users.into_iter().flatten());
            }
            let pool = self.pools.entry(facts.class.clone()).or_default();
            pool.stamp = stamp;
            let place = (facts.capacity, name.clone());
            match now && facts.available && facts.claim.is_none() && !facts.deleting {
                true => pool.open.insert(place),
                false => pool.open.remove(&place),
            };
            self.forget_unused_pool(&facts.class);
        }
        if attached {
            self.everybody = self.tick();
            self.attachments.rename(name, handle(&old), handle(&facts));
        }
        self.forget_unused_volume(name);
        Concerned { may_fit, nodes, named: None }
    }

    fn forget_unused_volume(&mut self, name: &Text) {
        let unused = |entry: &VolumeEntry| {
            entry.facts.is_none() && entry.chosen_for.is_none() && entry.attachments == 0
        };
        if self.volumes.get(name).is_some_and(unused) {
            self.volumes.remove(name);
            self.everybody = self.tick();
        }
    }

    fn put_class(&mut self, name: &Text, facts: Option<StorageClassFacts>) -> Concerned {
        let stamp = self.tick();
        let pool = self.pools.entry(name.clone()).or_default();
        let changed = pool.class.as_deref() != facts.as_ref();
        if changed {
            pool.class = facts.map(Arc::new);
            pool.stamp = stamp;
        }
        self.forget_unused_pool(name);
        Concerned::if_new(changed)
    }

    fn forget_unused_pool(&mut self, class: &Text) {
        let unused = |pool: &Pool| {
            pool.class.is_none() && pool.open.is_empty() && pool.capacities.is_empty()
        };
        if self.pools.get(class).is_some_and(unused) {
            self.pools.remove(class);
            self.everybody = self.tick();
        }
    }

    fn put_capacity(&mut self, key: (Text, Text), facts: Option<CapacityFacts>) -> Concerned {
        let facts = facts.map(Arc::new);
        let old = match &facts {
            Some(facts) => self.capacities.insert(key.clone(), facts.clone()),
            None => self.capacities.remove(&key),
        };
        if old == facts {
            return Concerned::default();
        }
        // How much is left is a preference: nobody fits because of it who did not before.
        let refuses = |it: &CapacityFacts| CapacityFacts { left: None, ..it.clone() };
        let concerns = old.as_deref().map(refuses) != facts.as_deref().map(refuses);
        let stamp = self.tick();
        for (facts, now) in [(old, false), (facts, true)] {
            let Some(facts) = facts else { continue };
            let pool = self.pools.entry(facts.class.clone()).or_default();
            pool.stamp = stamp;
            match now {
                true => pool.capacities.insert(key.clone()),
                false => pool.capacities.remove(&key),
            };
            self.forget_unused_pool(&facts.class);
        }
        Concerned::if_new(concerns)
    }

    fn put_attachment(&mut self, name: &Text, facts: Option<AttachmentFacts>) -> Concerned {
        let called = |volume: &Text| called(&self.volumes, volume);
        let old = self.attachments.put(name, facts.clone(), called);
        if old == facts {
            return Concerned::default();
        }
        // One more takes from its node.
        let mut concerned = Concerned::if_new(old.is_some());
        for (facts, now) in [(old, false), (facts, true)] {
            let Some(facts) = facts else { continue };
            let volume = self.volumes.entry(facts.volume.clone()).or_default();
            match now {
                true => volume.attachments += 1,
                false => volume.attachments -= 1,
            }
            self.forget_unused_volume(&facts.volume);
            if concerned.named.as_ref().is_some_and(|other| *other != facts.node) {
                self.everybody = self.tick();
            }
            concerned.named = Some(facts.node);
        }
        concerned
    }

    /// When anything changed last that these volumes depend on.
    pub fn stamp(&self, wanted: &PodVolumes) -> Stamp {
        let (mut latest, mut taken) = (self.everybody, 0);
        for using in &wanted.claims {
            let Some(entry) = self.claims.get(&using.claim) else { continue };
            latest = latest.max(entry.stamp);
            let Some(facts) = &entry.facts else { continue };
            let volume = facts.volume.as_ref().and_then(|name| self.volumes.get(name));
            let pool = self.pools.get(&facts.class);
            latest = latest.max(volume.map_or(0, |volume| volume.stamp));
            latest = latest.max(pool.map_or(0, |pool| pool.stamp));
            taken = taken.max(pool.map_or(0, |pool| pool.taken));
        }
        for pool in wanted.to_be_made.iter().filter_map(|it| self.pools.get(&it.class)) {
            latest = latest.max(pool.stamp);
            taken = taken.max(pool.taken);
        }
        Stamp { facts: latest, taken }
    }

    /// A claim as fed.
    pub fn claim(&self, key: &ClaimKey) -> Option<&ClaimFacts> {
        self.claims.get(key)?.facts.as_deref()
    }

    /// A volume as fed.
    pub fn volume(&self, name: &Text) -> Option<&Arc<VolumeFacts>> {
        self.volumes.get(name)?.facts.as_ref()
    }

    /// Whether pods stay away from nodes where a driver is not.
    pub fn requires(&self, driver: &str) -> bool {
        self.drivers.get(driver).is_some_and(|facts| facts.required)
    }

    /// Most volumes of each driver on a node; `None`: nobody says.
    pub fn limits(&self, node: &Text) -> Option<&BTreeMap<Text, i64>> {
        self.served.get(node).map(|served| &served.limits)
    }

    /// Whether a node can use a volume that a claim is bound to: with the labels of its driver
    /// where one has taken the volume's kind over. As in kube-scheduler nobody asks so of volumes
    /// that claims could still take.
    pub fn reaches_bound(&self, node: &NodeFacts, volume: &VolumeFacts) -> bool {
        let taken_over = volume.taken_over.as_ref().filter(|it| {
            let served = self.served.get(&node.name);
            served.is_some_and(|served| served.migrated.contains(&it.plugin))
        });
        match taken_over {
            Some(taken_over) => is_among(node, taken_over.nodes.as_ref()),
            None => reaches(node, volume),
        }
    }

    fn class(&self, name: &Text) -> Option<&Arc<StorageClassFacts>> {
        self.pools.get(name)?.class.as_ref()
    }
}

/// What the driver of a volume calls it.
fn handle(facts: &Option<Arc<VolumeFacts>>) -> Option<&Text> {
    facts.as_ref()?.attach.as_ref().map(|attach| &attach.handle)
}

/// The same by the volume's name.
fn called(volumes: &BTreeMap<Text, VolumeEntry>, name: &Text) -> Option<Text> {
    handle(&volumes.get(name)?.facts).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::input::{
        AccessModes, CapacityType, ClaimTemplate, ClaimUse, NodeSelector, NodeSelectorTerm,
        Operator, Requirement, TakenOver,
    };

    const HOSTNAME: &str = "kubernetes.io/hostname";

    fn key(name: &str) -> ClaimKey {
        ClaimKey { namespace: "team".into(), name: name.into() }
    }

    fn wants(name: &str) -> PodVolumes {
        let claims = vec![ClaimUse { claim: key(name), made_for: None }];
        PodVolumes { claims, ..PodVolumes::default() }
    }

    fn claim(name: &str) -> StorageFact {
        StorageFact::Claim(ClaimFacts {
            key: key(name),
            uid: name.into(),
            class: "local".into(),
            size: Some(1),
            modes: AccessModes::ONE_NODE,
            block: false,
            attributes: None,
            selector: None,
            volume: None,
            bound: false,
            lost: false,
            deleting: false,
            selected_node: None,
            made_for: None,
        })
    }

    fn volume(name: &str, node: &str) -> StorageFact {
        let (key, operator) = (HOSTNAME.into(), Operator::In);
        let labels = vec![Requirement { key, operator, values: vec![node.into()] }];
        let term = NodeSelectorTerm { labels, fields: Vec::new() };
        StorageFact::Volume(VolumeFacts {
            name: name.into(),
            class: "local".into(),
            capacity: 1,
            modes: AccessModes::ONE_NODE,
            block: false,
            attributes: None,
            labels: Default::default(),
            nodes: Some(NodeSelector { terms: vec![term] }),
            claim: None,
            available: true,
            deleting: false,
            attach: None,
            taken_over: None,
        })
    }

    fn node(name: &str) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            labels: [(HOSTNAME.into(), name.into())].into(),
            taints: Vec::new(),
            unschedulable: false,
            allocatable: BTreeMap::new(),
            features: Vec::new(),
            images: Arc::default(),
            capacity_type: CapacityType::Unknown,
            price: None,
        }
    }

    fn storage() -> Volumes {
        let mut volumes = Volumes::default();
        let class = StorageClassFacts {
            name: "local".into(),
            provisioner: None,
            driver: None,
            waits: true,
            topologies: Vec::new(),
        };
        let facts = [StorageFact::Class(class), claim("c"), claim("d")];
        let of_nodes = [volume("a-1", "a"), volume("a-2", "a"), volume("b-1", "b")];
        facts.into_iter().chain(of_nodes).for_each(|fact| drop(volumes.apply(fact)));
        volumes
    }

    fn takes(volumes: &Volumes, demand: &Demand, on: &str) -> Option<Text> {
        demand.on(&node(on), volumes).ok()?.remove(0).1.volume
    }

    #[test]
    fn what_others_take_leaves_what_is_known_of_a_claim_as_it_was() {
        let mut volumes = storage();
        let (before, demand) = (volumes.stamp(&wants("c")), volumes.demand(&wants("c")));
        assert_eq!(takes(&volumes, &demand, "a").as_deref(), Some("a-1"));
        let taken = volumes.choose(&node("a"), &wants("d")).expect("a volume");
        let after = volumes.stamp(&wants("c"));
        assert_eq!(after.facts, before.facts, "nothing to find out anew");
        assert_ne!(after.taken, before.taken, "but not the same for all nodes");
        assert_eq!(takes(&volumes, &demand, "a").as_deref(), Some("a-2"));
        let (ways, whole) = demand.ways(&volumes, &node("a"), 9);
        assert_eq!((ways.len(), whole), (1, true), "the one that is left");
        volumes.take_back(&taken);
        assert_eq!(takes(&volumes, &demand, "a").as_deref(), Some("a-1"));
        volumes.apply(volume("a-0", "a"));
        assert_ne!(volumes.stamp(&wants("c")).facts, before.facts, "a volume that was not there");
    }

    #[test]
    fn only_volumes_of_the_node_are_looked_at() {
        let volumes = storage();
        let demand = volumes.demand(&wants("c"));
        let named = |on: &str| {
            let there = demand.claims[0].need.takes_there(&volumes, &key("c"), &node(on));
            there.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(named("a"), Some(vec!["a-1".to_owned(), "a-2".to_owned()]));
        assert_eq!(named("b"), Some(vec!["b-1".to_owned()]));
        assert_eq!(named("other"), Some(Vec::new()));
    }

    #[test]
    fn where_a_driver_has_taken_its_kind_over_a_volume_is_found_as_the_driver_says() {
        let mut volumes = storage();
        let of = |node: &str| match volume("old", node) {
            StorageFact::Volume(facts) => facts,
            other => panic!("{other:?}"),
        };
        let taken_over = TakenOver { plugin: "kubernetes.io/x".into(), nodes: of("b").nodes };
        let old = VolumeFacts { taken_over: Some(Box::new(taken_over)), ..of("a") };
        let reached = |all: &Volumes| ["a", "b"].map(|on| all.reaches_bound(&node(on), &old));
        assert_eq!(reached(&volumes), [true, false], "no driver has it");
        for on in ["a", "b"] {
            let (limits, migrated) = (BTreeMap::new(), ["kubernetes.io/x".into()].into());
            let says = StorageFact::Limits { node: on.into(), limits, migrated };
            let concerned = volumes.apply(says);
            assert_eq!(concerned.named.as_deref(), Some(on), "{concerned:?}");
            assert_eq!(concerned.may_fit, MayFit::WhoHasVolumes);
        }
        assert_eq!(reached(&volumes), [false, true]);
        volumes.apply(StorageFact::LimitsGone("a".into()));
        assert_eq!(reached(&volumes), [true, true], "a node of which nothing is known");
    }

    #[test]
    fn claims_that_are_made_with_their_pods_want_nodes_where_that_is_possible() {
        let template = |class: &str| ClaimTemplate {
            key: key("<pod>-scratch"),
            class: class.into(),
            size: Some(1),
            modes: AccessModes::ONE_NODE,
            block: false,
            attributes: None,
            selector: None,
        };
        let of = |class: &str| {
            let to_be_made = vec![template(class)];
            PodVolumes { to_be_made, ..PodVolumes::default() }
        };
        let could = |volumes: &Volumes, class: &str| {
            let demand = volumes.demand(&of(class));
            ["a", "b", "c"].map(|on| demand.could_be_made(&node(on), volumes).is_ok())
        };
        let mut volumes = storage();
        assert_eq!(could(&volumes, "local"), [true, true, false], "where volumes are");
        assert_eq!(could(&volumes, "unknown"), [true; 3], "it may be one that waits for nobody");
        let before = volumes.stamp(&of("made"));
        let (key, operator, values) = (HOSTNAME.into(), Operator::In, vec!["c".into()]);
        volumes.apply(StorageFact::Class(StorageClassFacts {
            name: "made".into(),
            provisioner: Some("csi.x".into()),
            driver: None,
            waits: true,
            topologies: vec![vec![Requirement { key, operator, values }]],
        }));
        assert_ne!(volumes.stamp(&of("made")), before, "its class is there");
        assert_eq!(could(&volumes, "made"), [false, false, true]);
        let demand = volumes.demand(&of("made"));
        assert_eq!(demand.on(&node("a"), &volumes), Ok(Choices::new()), "nobody chooses for them");
    }
}
