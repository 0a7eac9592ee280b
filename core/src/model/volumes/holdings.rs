//! What placed pods hold of storage, and what they chose for claims that are not bound yet.
//!
//! Uses are counted by claim and node. A choice is made when the first user of a claim is placed
//! by a decision, and stands for all users until the last is gone; each change hands back what it
//! takes to undo it.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use super::demand::{Counted, Handle, Made, Need, by_attach, reaches};
use super::{Demand, Volumes, called};
use crate::explain::reason::StorageRefusal;
use crate::model::input::{
    AttachmentFacts, ClaimKey, Disk, NodeFacts, PodVolumes, Text, VolumeFacts,
};

/// What pods of one node hold.
#[derive(Debug, Default)]
pub(super) struct NodeUse {
    claims: BTreeMap<ClaimKey, u32>,
    disks: Vec<Disk>,
}

/// What is to become of a claim that is not bound yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// The node that it was chosen for.
    pub node: Text,
    /// Zone and region of that node.
    zone: [Option<Text>; 2],
    /// The volume that it gets; `None`: one is made.
    pub volume: Option<Text>,
}

/// Choices of one change, with their claims.
pub type Choices = Vec<(ClaimKey, Choice)>;

/// What has to be written of a claim before a pod that uses it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The claim.
    pub claim: ClaimKey,
    /// Its uid.
    pub uid: Text,
    /// What was chosen for it.
    pub choice: Choice,
}

/// Labels that say where a node is.
const PLACE_LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

fn zone_of(node: &NodeFacts) -> [Option<Text>; 2] {
    PLACE_LABELS.map(|label| node.labels.get(label).cloned())
}

impl Demand {
    /// Whether all volumes that claims are bound to can be used on a node.
    pub fn reached_from(&self, node: &NodeFacts, volumes: &Volumes) -> Result<(), StorageRefusal> {
        for wanted in &self.claims {
            match &wanted.need {
                Need::Bound(volume) if !volumes.reaches_bound(node, volume) => {
                    let volume = volume.name.clone();
                    return Err(StorageRefusal::VolumeElsewhere { volume });
                }
                Need::Nowhere(volume) => {
                    return Err(StorageRefusal::VolumeMissing { volume: volume.clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether claims that are made with the pod would get something on a node, each by itself.
    pub fn could_be_made(&self, node: &NodeFacts, volumes: &Volumes) -> Result<(), StorageRefusal> {
        for wanted in &self.to_be_made {
            let Need::Open(candidates, making) = &wanted.need else { continue };
            let free = |volume: &VolumeFacts| volumes.is_free(volume, &wanted.claim);
            if candidates.first(node, free).is_some() {
                continue;
            }
            let claim = wanted.claim.name.clone();
            match making.on(node) {
                Made::Yes => {}
                Made::Nowhere => return Err(StorageRefusal::NoVolume { claim }),
                Made::NoStorage => return Err(StorageRefusal::NoStorage { claim }),
            }
        }
        Ok(())
    }

    /// What each open claim would get on a node, or why it gets nothing.
    pub fn on(&self, node: &NodeFacts, volumes: &Volumes) -> Result<Choices, StorageRefusal> {
        let mut made = Vec::new();
        let mut taken: Vec<&Text> = Vec::new();
        for wanted in &self.claims {
            let claim = || wanted.claim.name.clone();
            let making = match &wanted.need {
                Need::Bound(_) | Need::Nowhere(_) => continue,
                Need::Chosen(..) if wanted.need.suits_choice(node) => continue,
                Need::Chosen(..) => return Err(StorageRefusal::NoVolume { claim: claim() }),
                Need::Selected(selected, _) if *selected != node.name => {
                    return Err(StorageRefusal::NoVolume { claim: claim() });
                }
                Need::Selected(_, making) => making,
                Need::Open(candidates, making) => {
                    let free = |volume: &VolumeFacts| {
                        !taken.contains(&&volume.name) && volumes.is_free(volume, &wanted.claim)
                    };
                    if let Some(volume) = candidates.first(node, free) {
                        taken.push(&volume.name);
                        made.push((wanted.claim.clone(), choice(node, Some(&volume.name))));
                        continue;
                    }
                    making
                }
            };
            match making.on(node) {
                Made::Yes => made.push((wanted.claim.clone(), choice(node, None))),
                Made::Nowhere => return Err(StorageRefusal::NoVolume { claim: claim() }),
                Made::NoStorage => return Err(StorageRefusal::NoStorage { claim: claim() }),
            }
        }
        Ok(made)
    }
}

impl Need {
    /// Whether a node suits what others chose for a claim.
    pub(super) fn suits_choice(&self, node: &NodeFacts) -> bool {
        let Need::Chosen(choice, volume, many_nodes) = self else { return false };
        match (&choice.volume, volume) {
            (Some(_), volume) => volume.as_ref().is_some_and(|it| reaches(node, it)),
            (None, _) if *many_nodes => choice.zone == zone_of(node),
            (None, _) => choice.node == node.name,
        }
    }
}

pub(super) fn choice(node: &NodeFacts, volume: Option<&Text>) -> Choice {
    Choice { node: node.name.clone(), zone: zone_of(node), volume: volume.cloned() }
}

impl Volumes {
    /// A pod with these volumes is on a node. The inverse is [`Volumes::let_go`].
    pub fn hold(&mut self, node: NodeIdx, wanted: &PodVolumes) {
        if self.on_node.len() <= node.at() {
            self.on_node.resize_with(node.at() + 1, NodeUse::default);
        }
        for using in &wanted.claims {
            let stamp = self.tick();
            let entry = self.claims.entry(using.claim.clone()).or_default();
            // Whoever wants it for itself alone sees that it is used.
            let alone = entry.facts.as_ref().is_some_and(|facts| facts.one_pod());
            if alone && !entry.is_taken() {
                entry.stamp = stamp;
            }
            *entry.users.entry(node).or_default() += 1;
            *self.on_node[node.at()].claims.entry(using.claim.clone()).or_default() += 1;
        }
        if !wanted.disks.is_empty() {
            let disks = &mut self.on_node[node.at()].disks;
            disks.extend_from_slice(&wanted.disks);
            disks.sort_unstable();
        }
    }

    /// A pod with these volumes is gone from a node; the choices that go with their last user.
    pub fn let_go(&mut self, node: NodeIdx, wanted: &PodVolumes) -> Choices {
        let mut dropped = Vec::new();
        for using in &wanted.claims {
            let stamp = self.tick();
            let entry = self.claims.get_mut(&using.claim).expect("a claim that is used");
            one_less(&mut entry.users, &node);
            if !entry.is_taken() && entry.facts.as_ref().is_some_and(|facts| facts.one_pod()) {
                entry.stamp = stamp;
            }
            if entry.users.is_empty()
                && let Some(choice) = self.drop_choice(&using.claim)
            {
                dropped.push((using.claim.clone(), choice));
            }
            one_less(&mut self.on_node[node.at()].claims, &using.claim);
            self.forget_unused_claim(&using.claim);
        }
        for disk in &wanted.disks {
            let disks = &mut self.on_node[node.at()].disks;
            let at = disks.binary_search(disk).expect("a disk that is held");
            disks.remove(at);
        }
        dropped
    }

    /// The pod that holds these is only nominated for its node: nobody's claim is taken by it. The
    /// inverse, before it lets go, is [`Volumes::withdraw`].
    pub fn nominate(&mut self, wanted: &PodVolumes) {
        self.each_use(wanted, |nominated| *nominated += 1);
    }

    /// It is no more.
    pub fn withdraw(&mut self, wanted: &PodVolumes) {
        self.each_use(wanted, |nominated| *nominated -= 1);
    }

    fn each_use(&mut self, wanted: &PodVolumes, change: impl Fn(&mut u32)) {
        for using in &wanted.claims {
            let stamp = self.tick();
            let entry = self.claims.get_mut(&using.claim).expect("a claim that is used");
            change(&mut entry.nominated);
            entry.stamp = stamp;
        }
    }

    /// Whether a pod of a node uses a claim, if only nominated for it.
    pub fn is_used_on(&self, node: NodeIdx, claim: &ClaimKey) -> bool {
        self.on_node.get(node.at()).is_some_and(|held| held.claims.contains_key(claim))
    }

    /// Chooses for open claims of a pod that goes to a node; what was chosen. The pod does not
    /// hold them yet.
    pub fn choose(
        &mut self,
        node: &NodeFacts,
        wanted: &PodVolumes,
    ) -> Result<Choices, StorageRefusal> {
        let demand = self.demand(wanted);
        if let Some(problem) = demand.problem {
            return Err(problem);
        }
        demand.reached_from(node, self)?;
        let choices = demand.on(node, self)?;
        self.restore(&choices);
        Ok(choices)
    }

    /// Makes choices as they were made before.
    pub fn restore(&mut self, choices: &Choices) {
        for (claim, choice) in choices {
            let stamp = self.tick();
            let entry = self.claims.entry(claim.clone()).or_default();
            let old = entry.choice.replace(choice.clone());
            assert!(old.is_none(), "one choice for a claim");
            entry.stamp = stamp;
            if let Some(volume) = &choice.volume {
                let entry = self.volumes.entry(volume.clone()).or_default();
                let other = entry.chosen_for.replace(claim.clone());
                assert!(other.is_none(), "one claim for a volume");
                self.touch_pool_of(volume, stamp);
            }
        }
    }

    /// Makes choices again that went with pods which may have come back: where they did, and nobody
    /// chose otherwise.
    pub fn restore_used(&mut self, choices: Choices) {
        for (claim, choice) in choices {
            let entry = self.claims.get(&claim);
            let open = entry.is_some_and(|it| !it.users.is_empty() && it.choice.is_none());
            let volume = choice.volume.as_ref().and_then(|name| self.volumes.get(name));
            if open && volume.is_none_or(|volume| volume.chosen_for.is_none()) {
                self.restore(&vec![(claim, choice)]);
            }
        }
    }

    /// Takes choices back.
    pub fn take_back(&mut self, choices: &Choices) {
        for (claim, _) in choices.iter().rev() {
            let dropped = self.drop_choice(claim);
            assert!(dropped.is_some(), "a choice that was made");
            self.forget_unused_claim(claim);
        }
    }

    fn drop_choice(&mut self, claim: &ClaimKey) -> Option<Choice> {
        let stamp = self.tick();
        let entry = self.claims.get_mut(claim)?;
        let dropped = entry.choice.take()?;
        entry.stamp = stamp;
        if let Some(volume) = &dropped.volume {
            let entry = self.volumes.get_mut(volume).expect("a volume that was chosen");
            assert_eq!(entry.chosen_for.take().as_ref(), Some(claim), "chosen for another");
            self.touch_pool_of(volume, stamp);
            self.forget_unused_volume(volume);
        }
        Some(dropped)
    }

    fn touch_pool_of(&mut self, volume: &Text, stamp: u64) {
        let class = self.volume(volume).map(|facts| facts.class.clone());
        if let Some(pool) = class.and_then(|class| self.pools.get_mut(&class)) {
            pool.taken = stamp;
        }
    }

    /// What has to be written before a pod with these volumes can be bound: choices for its claims
    /// that are not bound yet.
    pub fn settings(&self, wanted: &PodVolumes) -> Vec<Setting> {
        let open = wanted.claims.iter().filter_map(|using| {
            let entry = self.claims.get(&using.claim)?;
            let facts = entry.facts.as_deref().filter(|facts| !facts.fully_bound())?;
            let choice = entry.choice.clone()?;
            Some(Setting { claim: using.claim.clone(), uid: facts.uid.clone(), choice })
        });
        open.collect()
    }

    /// What placed pods chose for a claim.
    pub fn choice(&self, claim: &ClaimKey) -> Option<&Choice> {
        self.claims.get(claim)?.choice.as_ref()
    }

    /// Disks that pods of a node hold.
    pub fn disks(&self, node: NodeIdx) -> &[Disk] {
        self.on_node.get(node.at()).map_or(&[], |held| &held.disks)
    }

    /// Volumes that pods of a node have, or will have, as drivers count them.
    pub fn counted_on(&self, node: NodeIdx) -> BTreeSet<Counted<'_>> {
        let held = self.on_node.get(node.at()).into_iter();
        let claims = held.clone().flat_map(|held| held.claims.keys());
        let disks = held.flat_map(|held| &held.disks).filter_map(|disk| disk.attach.as_ref());
        let claims = claims.filter_map(|claim| self.counted(claim));
        claims.chain(disks.map(by_attach)).collect()
    }

    /// Volumes that are attached to a node, as drivers count them.
    pub fn attached_to<'a>(&'a self, name: &Text) -> impl Iterator<Item = Counted<'a>> {
        self.attachments.on(name).filter_map(move |it| self.attaches(it))
    }

    /// How an attached volume counts: only one that names its driver itself does.
    fn attaches<'a>(&'a self, it: &'a AttachmentFacts) -> Option<Counted<'a>> {
        let attach = self.volume(&it.volume)?.attach.as_ref()?;
        (!attach.migrated).then(|| (&*it.driver, by_attach(attach).1))
    }

    /// Names of nodes to which a volume is attached, as drivers count it.
    pub fn attached_where<'a>(&'a self, counted: Counted<'a>) -> impl Iterator<Item = &'a Text> {
        let called = match counted.1 {
            Handle::Volume(name) => Some(Text::from(name)),
            Handle::Claim(_) => None,
        };
        let named = called.into_iter().flat_map(move |name| self.attachments.called(name));
        named.filter(move |it| self.attaches(it) == Some(counted)).map(|it| &it.node)
    }

    /// Forgets a node that nobody holds anything on.
    pub fn forget_node(&mut self, node: NodeIdx) {
        if let Some(held) = self.on_node.get_mut(node.at()) {
            let empty = held.claims.is_empty() && held.disks.is_empty();
            assert!(empty, "a node whose volumes are in use");
            *held = NodeUse::default();
        }
    }

    /// Gives back the memory of node slots from one on, which were all forgotten.
    pub fn truncate_nodes(&mut self, slots: usize) {
        self.on_node.truncate(slots);
    }

    /// Compares uses with those of all placed pods (node, volumes, whether only nominated), choices
    /// with each other, and lists of attachments with lists made anew.
    ///
    /// # Panics
    /// When they differ.
    pub fn recount<'a>(&self, placed: impl Iterator<Item = (NodeIdx, &'a PodVolumes, bool)>) {
        let mut counted = Volumes::default();
        for (node, wanted, nominated) in placed {
            counted.hold(node, wanted);
            if nominated {
                counted.nominate(wanted);
            }
        }
        for at in 0..self.on_node.len().max(counted.on_node.len()) {
            let of = |volumes: &Volumes| {
                let held = volumes.on_node.get(at);
                held.map(|held| (held.claims.clone(), held.disks.clone())).unwrap_or_default()
            };
            assert_eq!(of(self), of(&counted), "volumes of node slot {at}");
        }
        for (key, entry) in &self.claims {
            let users = counted.claims.get(key).map(|it| (it.users.clone(), it.nominated));
            let own = (entry.users.clone(), entry.nominated);
            assert_eq!(own, users.unwrap_or_default(), "users of claim {key:?}");
            assert!(entry.choice.is_none() || !entry.users.is_empty(), "a choice of nobody");
            if let Some(volume) = entry.choice.as_ref().and_then(|it| it.volume.as_ref()) {
                let chosen_for = &self.volumes[volume].chosen_for;
                assert_eq!(chosen_for.as_ref(), Some(key), "volume {volume} was chosen twice");
            }
        }
        for (name, entry) in &self.volumes {
            let Some(claim) = &entry.chosen_for else { continue };
            let choice = self.claims.get(claim).and_then(|entry| entry.choice.as_ref());
            let chosen = choice.and_then(|choice| choice.volume.as_ref());
            assert_eq!(chosen, Some(name), "a volume that was chosen for nobody");
        }
        self.attachments.recount(|volume| called(&self.volumes, volume));
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    let count = counts.get_mut(key).expect("one that was counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}
