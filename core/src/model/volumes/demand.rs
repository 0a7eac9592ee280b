//! What a pod's claims mean, found out once for all nodes.
//!
//! Bound claims lead to their volumes; open ones to the volumes that they could take, smallest
//! first, and to what would be made for them. As kube-scheduler has it, a volume that is kept for
//! a claim is the only one that it takes, the smallest claim chooses first, and no volume is
//! taken twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Choice, ClaimEntry, Storage, Volumes};
use crate::explain::reason::StorageRefusal;
use crate::model::input::{
    Attach, CapacityFacts, ClaimFacts, ClaimKey, ClaimTemplate, Disk, DiskKind, DriverFacts,
    NodeFacts, NodeSelector, Operator, PodVolumes, Requirement, StorageClassFacts, Text,
    VolumeFacts,
};
use crate::rules::selector::{node_matches, selects};

/// Label that names a node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What the volumes of a kind of pod need of a node.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// Claims: those that are open last, smallest first.
    pub claims: Vec<Wanted>,
    /// Claims that are made with the pod, where they wait for it: nobody chooses for them yet.
    pub to_be_made: Vec<Wanted>,
    /// What every node says of it, whatever the node.
    pub problem: Option<StorageRefusal>,
    /// A claim for one pod only that another pod uses.
    pub in_use: Option<ClaimKey>,
    /// Claims for one pod only.
    pub exclusive: Vec<ClaimKey>,
    /// A volume that two such pods cannot have on one node.
    pub clashing: Option<Text>,
    /// What one pod gets is not there for the next of its kind, on whatever node.
    pub coupled: bool,
}

/// One claim.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The claim.
    pub claim: ClaimKey,
    /// Made for one pod.
    pub ephemeral: bool,
    /// What it needs.
    pub need: Need,
}

/// What a claim needs of a node.
#[derive(Clone, Debug)]
pub enum Need {
    /// To reach this volume.
    Bound(Arc<VolumeFacts>),
    /// To reach a volume that does not exist.
    Nowhere(Text),
    /// To suit what other pods chose for it; with the volume that they chose, if it exists.
    Chosen(Choice, Option<Arc<VolumeFacts>>, bool),
    /// To be the node that its volume is being made for.
    Selected(Text, Making),
    /// To reach one of these volumes, or a new one.
    Open(Candidates, Making),
}

/// How a volume would be made.
#[derive(Clone, Debug, Default)]
pub struct Making {
    /// Its class, if anybody makes volumes of it.
    class: Option<Arc<StorageClassFacts>>,
    /// Bytes asked.
    asked: i64,
    /// Where enough is left; `None`: nobody counts.
    capacities: Option<Vec<Arc<CapacityFacts>>>,
}

/// What comes of trying to make a volume for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It could be made.
    Yes,
    /// Nobody would make it there.
    Nowhere,
    /// Too little storage is left there.
    NoStorage,
}

/// Volumes that a claim could take as long as nobody else has them ([`Volumes::is_free`]), in order
/// of preference. They are found out once, whoever takes and leaves some of them meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    all: Vec<Arc<VolumeFacts>>,
    /// Positions by label and value that nodes must have: a local volume is found by its node
    /// without looking at those of all others.
    by_label: BTreeMap<Text, BTreeMap<Text, Vec<u32>>>,
    /// Positions of those that ask for nothing so simple.
    others: Vec<u32>,
}

impl Volumes {
    /// What volumes mean as things are.
    pub fn demand(&self, wanted: &PodVolumes) -> Demand {
        let mut demand = Demand::default();
        let mut open: Vec<(Option<i64>, Wanted)> = Vec::new();
        for using in &wanted.claims {
            let facts = match self.known(using.made_for.as_ref(), &using.claim) {
                Ok(facts) => facts,
                Err(problem) => {
                    demand.problem.get_or_insert(problem);
                    continue;
                }
            };
            let ephemeral = using.made_for.is_some();
            if facts.one_pod() && !ephemeral {
                demand.exclusive.push(using.claim.clone());
                demand.coupled = true;
                if self.claims.get(&using.claim).is_some_and(ClaimEntry::is_taken) {
                    demand.in_use.get_or_insert(using.claim.clone());
                }
            }
            let need = self.need(facts, &mut demand.problem);
            let Some(need) = need else { continue };
            let one = Wanted { claim: using.claim.clone(), ephemeral, need };
            match &one.need {
                Need::Bound(_) | Need::Nowhere(_) => demand.claims.push(one),
                _ => open.push((facts.size, one)),
            }
        }
        demand.coupled |= !open.is_empty();
        // Those of one size stay in the order of their pod, as kube-scheduler leaves them.
        open.sort_by_key(|(size, _)| *size);
        demand.claims.extend(open.into_iter().map(|(_, wanted)| wanted));
        let clashing = |disk: &&Disk| match disk.kind {
            DiskKind::Counted => false,
            DiskKind::AwsElasticBlockStore => true,
            DiskKind::Rbd => !disk.read_only && !disk.monitors.is_empty(),
            DiskKind::GcePersistentDisk | DiskKind::Iscsi => !disk.read_only,
        };
        demand.clashing = wanted.disks.iter().find(clashing).map(|disk| disk.id.clone());
        demand.to_be_made = self.to_be_made(wanted);
        demand
    }

    /// What claims of a template's pods will need. One whose class waits for nobody gets its volume
    /// before its pod gets a node, and nobody knows where.
    fn to_be_made(&self, wanted: &PodVolumes) -> Vec<Wanted> {
        let open = |template: &ClaimTemplate| {
            let class = self.class(&template.class).filter(|class| class.waits)?;
            let facts = template.claim();
            let need = Need::Open(self.candidates(&facts), self.making(&facts, class));
            Some(Wanted { claim: facts.key, ephemeral: true, need })
        };
        wanted.to_be_made.iter().filter_map(open).collect()
    }

    /// Whether what other users choose for an open claim may open nodes for pods with these
    /// volumes: by themselves they take the smallest volume for one claim after the other, which
    /// may leave none for the last; and what is made for one node may be usable where nothing is
    /// made.
    pub fn may_be_opened(&self, wanted: &PodVolumes, shared: impl Fn(&ClaimKey) -> bool) -> bool {
        let facts = wanted.claims.iter().filter_map(|using| self.claim(&using.claim));
        let open = |facts: &&ClaimFacts| !facts.fully_bound() && self.choice(&facts.key).is_none();
        let open: Vec<&ClaimFacts> = facts.filter(open).collect();
        let not_everywhere = |class: &StorageClassFacts| {
            let maker = class.provisioner.as_ref().map(|name| self.drivers.get(name));
            let counts = |maker: Option<&DriverFacts>| maker.is_some_and(|it| it.counts_capacity);
            maker.is_some_and(|maker| !class.topologies.is_empty() || counts(maker))
        };
        let by_zone = |facts: &ClaimFacts| {
            let class = self.class(&facts.class);
            // Once it is chosen for, others follow to wherever that may be used.
            let bound_to_one = facts.selected_node.is_some();
            let one = bound_to_one || class.is_some_and(|class| not_everywhere(class));
            facts.modes.many_nodes() && one
        };
        open.iter().any(|facts| shared(&facts.key) && (open.len() > 1 || by_zone(facts)))
    }

    /// A claim that could be used.
    fn known(
        &self,
        made_for: Option<&Text>,
        key: &ClaimKey,
    ) -> Result<&ClaimFacts, StorageRefusal> {
        let claim = key.name.clone();
        let Some(facts) = self.claim(key) else {
            return Err(StorageRefusal::ClaimMissing { claim, ephemeral: made_for.is_some() });
        };
        if facts.lost {
            let volume = facts.volume.clone().unwrap_or_else(|| "".into());
            return Err(StorageRefusal::ClaimLost { claim, volume });
        }
        if facts.deleting {
            return Err(StorageRefusal::ClaimDeleting { claim });
        }
        match made_for {
            Some(pod) if facts.made_for.as_ref() != Some(pod) => {
                Err(StorageRefusal::ClaimForeign { claim })
            }
            _ => Ok(facts),
        }
    }

    /// What a claim needs; `None`: nothing helps, for which the first problem stands.
    fn need(&self, facts: &ClaimFacts, problem: &mut Option<StorageRefusal>) -> Option<Need> {
        if facts.fully_bound() {
            let name = facts.volume.as_ref().expect("a bound claim has a volume");
            let volume = self.volume(name).cloned();
            return Some(volume.map_or_else(|| Need::Nowhere(name.clone()), Need::Bound));
        }
        let class = self.class(&facts.class).filter(|class| class.waits);
        let Some(class) = class.filter(|_| facts.volume.is_none()) else {
            problem.get_or_insert(StorageRefusal::ClaimUnbound { claim: facts.key.name.clone() });
            return None;
        };
        if let Some(choice) = self.claims.get(&facts.key).and_then(|entry| entry.choice.as_ref()) {
            let volume = choice.volume.as_ref().and_then(|name| self.volume(name)).cloned();
            return Some(Need::Chosen(choice.clone(), volume, facts.modes.many_nodes()));
        }
        let making = self.making(facts, class);
        Some(match &facts.selected_node {
            Some(node) => Need::Selected(node.clone(), making),
            None => Need::Open(self.candidates(facts), making),
        })
    }

    fn making(&self, claim: &ClaimFacts, class: &Arc<StorageClassFacts>) -> Making {
        let Some(provisioner) = &class.provisioner else { return Making::default() };
        let counts = self.drivers.get(provisioner).is_some_and(|it| it.counts_capacity);
        let capacities = claim.size.filter(|_| counts).map(|size| {
            let pool = &self.pools[&class.name];
            let all = pool.capacities.iter().map(|key| &self.capacities[key]);
            all.filter(|it| it.largest.is_some_and(|most| most >= size)).cloned().collect()
        });
        Making { class: Some(class.clone()), asked: claim.size.unwrap_or(0), capacities }
    }

    fn candidates(&self, claim: &ClaimFacts) -> Candidates {
        let suits = |volume: &VolumeFacts| {
            volume.capacity >= claim.size.unwrap_or(0)
                && (volume.block, &volume.attributes) == (claim.block, &claim.attributes)
                && !volume.deleting
        };
        let kept = self.kept_for.get(&claim.key).into_iter().flatten();
        let kept = kept.filter_map(|name| self.volume(name));
        let own = |volume: &&Arc<VolumeFacts>| {
            volume.is_for(claim) && volume.class == claim.class && suits(volume)
        };
        if let Some(kept) = kept.clone().find(own) {
            return Candidates::of(vec![kept.clone()]);
        }
        let Some(pool) = self.pools.get(&claim.class) else { return Candidates::default() };
        let least = (claim.size.unwrap_or(0), Text::from(""));
        let open = pool.open.range(least..).filter_map(|(_, name)| self.volume(name));
        let takes = |volume: &&Arc<VolumeFacts>| {
            let selected = claim.selector.as_ref().is_none_or(|it| selects(it, &volume.labels));
            selected && suits(volume) && volume.modes.contains(claim.modes)
        };
        let mut found: Vec<Arc<VolumeFacts>> = open.filter(takes).cloned().collect();
        // Of equal ones those first that others can do least with.
        found.sort_by_key(|volume| (volume.capacity, !is_of_one_node(volume)));
        Candidates::of(found)
    }
}

impl Candidates {
    fn of(all: Vec<Arc<VolumeFacts>>) -> Candidates {
        let mut by_label: BTreeMap<Text, BTreeMap<Text, Vec<u32>>> = BTreeMap::new();
        let mut others = Vec::new();
        for (volume, at) in all.iter().zip(0..) {
            let terms = volume.nodes.as_ref().map(|nodes| nodes.terms.as_slice());
            let simple = match terms {
                Some([term]) => {
                    let all = term.labels.iter().filter(|it| it.operator == Operator::In);
                    all.min_by_key(|requirement| requirement.values.len())
                }
                _ => None,
            };
            let Some(simple) = simple else {
                others.push(at);
                continue;
            };
            let values = by_label.entry(simple.key.clone()).or_default();
            for value in &simple.values {
                let there = values.entry(value.clone()).or_default();
                if there.last() != Some(&at) {
                    there.push(at);
                }
            }
        }
        Candidates { all, by_label, others }
    }

    /// Those that may be reached from a node: by label, and then all others.
    fn near<'a>(&'a self, node: &'a NodeFacts) -> impl Iterator<Item = &'a [u32]> {
        let there = |(key, values): (&Text, &'a BTreeMap<Text, Vec<u32>>)| {
            Some(values.get(node.labels.get(key)?)?.as_slice())
        };
        self.by_label.iter().filter_map(there).chain([self.others.as_slice()])
    }

    /// All that a node reaches.
    pub fn reached<'a>(&'a self, node: &NodeFacts) -> impl Iterator<Item = &'a Arc<VolumeFacts>> {
        let mut near: Vec<u32> = self.near(node).flatten().copied().collect();
        near.retain(|at| reaches(node, &self.all[*at as usize]));
        near.sort_unstable();
        near.into_iter().map(|at| &self.all[at as usize])
    }

    /// The first that a node reaches and that is free.
    pub fn first(
        &self,
        node: &NodeFacts,
        free: impl Fn(&VolumeFacts) -> bool,
    ) -> Option<&Arc<VolumeFacts>> {
        let suits = |at: &&u32| {
            let volume = &self.all[**at as usize];
            free(volume) && reaches(node, volume)
        };
        let first = self.near(node).filter_map(|some| some.iter().find(suits)).min()?;
        Some(&self.all[*first as usize])
    }
}

impl Need {
    /// How a volume would be made, if one may be.
    pub fn making(&self) -> Option<&Making> {
        match self {
            Need::Selected(_, making) | Need::Open(_, making) => Some(making),
            Need::Bound(_) | Need::Nowhere(_) | Need::Chosen(..) => None,
        }
    }

    /// Volumes that an open claim could take on a node; `None`: one could be made for it there.
    pub fn takes_there<'a>(
        &'a self,
        volumes: &Volumes,
        claim: &ClaimKey,
        node: &NodeFacts,
    ) -> Option<Vec<&'a Text>> {
        let Need::Open(candidates, making) = self else { return None };
        if making.on(node) == Made::Yes {
            return None;
        }
        let free = candidates.reached(node).filter(|volume| volumes.is_free(volume, claim));
        Some(free.map(|volume| &volume.name).collect())
    }
}

impl Making {
    /// Whether a volume could be made for a node.
    pub fn on(&self, node: &NodeFacts) -> Made {
        let Some(class) = &self.class else { return Made::Nowhere };
        let here = |topology: &Vec<_>| !topology.is_empty() && selects(topology, &node.labels);
        if !class.topologies.is_empty() && !class.topologies.iter().any(here) {
            return Made::Nowhere;
        }
        match &self.capacities {
            Some(capacities) if !capacities.iter().any(|it| is_near(it, node)) => Made::NoStorage,
            _ => Made::Yes,
        }
    }

    /// Whether somebody counts what is left for it.
    pub fn counts(&self) -> bool {
        self.capacities.is_some()
    }

    /// What it asks and what is left for it on a node, with its class, where somebody counts that.
    pub fn left_on(&self, node: &NodeFacts) -> Option<(&Text, Storage)> {
        let class = self.class.as_ref()?;
        let near = self.capacities.as_ref()?.iter().filter(|it| is_near(it, node));
        let left = near.filter_map(|it| it.left).max().unwrap_or(0);
        Some((&class.name, Storage { asked: self.asked, left }))
    }
}

/// Whether a node could use what is made there.
fn is_near(capacity: &CapacityFacts, node: &NodeFacts) -> bool {
    capacity.nodes.as_ref().is_some_and(|nodes| selects(nodes, &node.labels))
}

/// Whether one node alone reaches a volume, as far as its terms say so by name.
fn is_of_one_node(volume: &VolumeFacts) -> bool {
    let Some(nodes) = &volume.nodes else { return false };
    let names_one = |it: &Requirement| {
        &*it.key == HOSTNAME && it.operator == Operator::In && it.values.len() == 1
    };
    matches!(&nodes.terms[..], [term] if term.labels.iter().any(names_one))
}

/// Whether a volume says of itself that it can be used on a node.
pub(super) fn reaches(node: &NodeFacts, volume: &VolumeFacts) -> bool {
    is_among(node, volume.nodes.as_ref())
}

/// Whether a node is one of those that a volume names.
pub(super) fn is_among(node: &NodeFacts, nodes: Option<&NodeSelector>) -> bool {
    // As kube-scheduler asks: with the labels of the node, not its name.
    nodes.is_none_or(|nodes| node_matches(nodes, &node.labels, ""))
}

/// How a volume counts: by its driver, and by what.
pub type Counted<'a> = (&'a str, Handle<'a>);

/// What makes two volumes of one driver the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Handle<'a> {
    /// The driver's own name.
    Volume(&'a str),
    /// None is there yet; it will be this claim's.
    Claim(&'a ClaimKey),
}

impl Volumes {
    /// Whether a volume that a claim could take was not chosen for another one. What is kept for
    /// the claim is nobody else's.
    pub fn is_free(&self, volume: &VolumeFacts, claim: &ClaimKey) -> bool {
        let entry = self.volumes.get(&volume.name);
        let other = entry.and_then(|it| it.chosen_for.as_ref()).filter(|other| *other != claim);
        other.is_none() || volume.claim.is_some()
    }

    /// How a claim counts against the limit of a driver.
    pub fn counted<'a>(&'a self, key: &'a ClaimKey) -> Option<Counted<'a>> {
        let facts = self.claim(key)?;
        if let Some(volume) = facts.volume.as_ref().and_then(|name| self.volume(name)) {
            return volume.attach.as_ref().map(by_attach);
        }
        let driver = self.class(&facts.class)?.driver.as_deref()?;
        Some((driver, Handle::Claim(key)))
    }

    /// Whether the driver that a claim counts under took the kind of its volume over.
    pub fn is_migrated(&self, key: &ClaimKey) -> bool {
        let Some(facts) = self.claim(key) else { return false };
        if let Some(volume) = facts.volume.as_ref().and_then(|name| self.volume(name)) {
            return volume.attach.as_ref().is_some_and(|attach| attach.migrated);
        }
        self.class(&facts.class).is_some_and(|class| class.driver != class.provisioner)
    }

    /// Volumes of a pod as drivers count them; those of claims, each with its claim, and others.
    pub fn counted_of<'a>(
        &'a self,
        wanted: &'a PodVolumes,
    ) -> impl Iterator<Item = (Counted<'a>, Option<&'a ClaimKey>)> {
        let claims = wanted.claims.iter().map(|using| &using.claim);
        let claims = claims.filter_map(move |claim| Some((self.counted(claim)?, Some(claim))));
        let disks = wanted.disks.iter().filter_map(|disk| disk.attach.as_ref());
        claims.chain(disks.map(|attach| (by_attach(attach), None)))
    }
}

/// How an attached volume counts.
pub fn by_attach(attach: &Attach) -> Counted<'_> {
    (&attach.driver, Handle::Volume(&attach.handle))
}
