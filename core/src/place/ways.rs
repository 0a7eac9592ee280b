//! What a member of a gang takes of volumes and devices on a node, where it can choose.
//!
//! Problem: by itself a pod takes the smallest volume and the first devices that will do, as
//! kube-scheduler has it. Another member may be able to use only what it took, and the gang waits
//! for ever though there is a way. A search that goes back on its choices goes back on these, too.
//!
//! Decides which choices a search looks at: those that can matter to some member of the gang, what
//! the pod would take by itself first. Most members have one: their volumes are made for them, or
//! their devices are as good as any other of the node.
//!
//! Bounds are counts: of more than [`WAYS_MAX`] choices of one pod on one node the search knows
//! that it does not see all. Cost: nothing for gangs that choose nothing, and for those that are
//! placed before a search begins.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use crate::model::ids::{ClassIdx, ShapeIdx};
use crate::model::input::{ClaimKey, PodShape, ResourceClaimKey};
use crate::model::room::Room;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::volumes::Choices;
use crate::place::{attached, common_claims};
use crate::rules::dynamic_resources::named;
use crate::rules::dynamic_resources::ways::{self as devices, DeviceWay, Kinds, Taken};

/// Choices of one pod on one node that are looked at: two claims with eight unlike devices or
/// volumes each.
const WAYS_MAX: usize = 64;

/// Volumes and devices of a pod on a node; nothing for a pod that has no choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    volumes: Choices,
    devices: Option<DeviceWay>,
}

impl Way {
    /// What its open claims get.
    pub fn volumes(&self) -> &Choices {
        &self.volumes
    }

    /// Its devices; `None`: it has no claims on any.
    pub fn devices(&self) -> Option<&DeviceWay> {
        self.devices.as_ref()
    }

    /// Whether nobody took anything of it.
    pub fn is_open(&self, state: &ClusterState) -> bool {
        let free = |way| devices::are_free(&state.room.devices, way);
        state.room.volumes.are_open(&self.volumes) && self.devices.as_ref().is_none_or(free)
    }
}

/// Choices of the members of a gang, some of whom have any.
#[derive(Debug)]
pub(super) struct Choosing {
    classes: Vec<ClassIdx>,
    /// Devices told apart, once a search has begun.
    kinds: Option<Kinds>,
    /// Who is where does not tell what others find: members share claims, or have volumes to
    /// choose.
    tied: bool,
    /// Positions where nobody goes who chooses.
    plain: BTreeSet<usize>,
    /// Some choices were not looked at.
    cut: bool,
    /// Ways by number, as far as others can tell one from another.
    numbers: BTreeMap<(Choices, Taken), u32>,
}

impl Choosing {
    /// `None`: nobody of these chooses anything.
    pub fn of(state: &ClusterState, classes: &[ClassIdx]) -> Option<Choosing> {
        if !classes.iter().any(|class| chooses(state, *class)) {
            return None;
        }
        let takes = |class: &ClassIdx| state.classes.class(*class).coupled();
        let tied = |class: &ClassIdx| takes(class) || common_claims::any(state, *class);
        let tied = classes.iter().any(tied);
        let (classes, numbers, plain) = (classes.to_vec(), BTreeMap::new(), BTreeSet::new());
        Some(Choosing { classes, kinds: None, tied, plain, cut: false, numbers })
    }

    /// At these positions nobody goes who chooses: what they offer matters to nobody.
    pub fn leave_out(&mut self, plain: BTreeSet<usize>) {
        self.plain = plain;
    }

    fn kinds(&mut self, state: &ClusterState) -> &mut Kinds {
        let shapes = self.classes.iter().map(|class| shape(state, *class));
        self.kinds.get_or_insert_with(|| Kinds::of(&state.room.devices, shapes))
    }

    /// Whether some choices were left out.
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    /// A number for a way, the same for all that others cannot tell apart.
    pub fn number(&mut self, way: &Way) -> u32 {
        let taken = way.devices.as_ref().map(DeviceWay::taken);
        let seen = (way.volumes.clone(), taken.cloned().unwrap_or_default());
        let next = self.numbers.len() as u32;
        *self.numbers.entry(seen).or_insert(next)
    }

    /// What members of a class could take on a node that has something for them.
    fn ways(&mut self, txn: &Txn<'_>, class: ClassIdx, node: NodeIdx) -> Vec<Way> {
        let state = txn.state();
        let room = &state.room;
        let Some(facts) = room.facts(node) else { return Vec::new() };
        let question = state.classes.class(class).question(room, node);
        let mut found =
            match question.volumes.map(|demand| demand.ways(&room.volumes, facts, WAYS_MAX)) {
                None => vec![Way::default()],
                Some((all, whole)) => {
                    self.cut |= !whole;
                    all.into_iter().map(|volumes| Way { volumes, devices: None }).collect()
                }
            };
        let shape = &question.shape.facts;
        if !shape.claims.is_empty() {
            let (all, whole) =
                devices::ways(&room.devices, shape, facts, self.kinds(state), WAYS_MAX);
            self.cut |= !whole;
            let with = |way: &Way| {
                let volumes = way.volumes.clone();
                all.iter().map(move |one| {
                    let (volumes, devices) = (volumes.clone(), Some(one.clone()));
                    Way { volumes, devices }
                })
            };
            found = found.iter().flat_map(with).collect();
        }
        self.cut |= found.len() > WAYS_MAX;
        found.truncate(WAYS_MAX);
        found
    }

    /// What members see of the volumes and devices of a position.
    pub fn looks(&mut self, txn: &Txn<'_>, position: usize, looks: &mut Vec<u32>) {
        const NOTHING: u32 = u32::MAX;
        if self.plain.contains(&position) {
            looks.push(NOTHING);
            return;
        }
        let state = txn.state();
        let room = &state.room;
        let facts = room.facts(room.tree.order()[position]).filter(|_| !self.tied);
        let told = facts.is_some_and(|facts| self.kinds(state).look(&room.devices, facts, looks));
        if !told {
            // No two nodes offer the same.
            looks.push(position as u32);
        }
    }
}

/// Whether members of a class choose volumes or devices, or have some that nobody else can have.
pub(super) fn chooses(state: &ClusterState, class: ClassIdx) -> bool {
    state.classes.class(class).coupled() || !shape(state, class).claims.is_empty()
}

/// For which of these (shapes and numbers of pods) others of them may open nodes by what they
/// take: who finds no node before may find one after them. They choose for a claim that they share,
/// or use what a node has attached and nobody uses, or take a device that stops a search.
pub(super) fn are_opened(
    room: &Room,
    members: impl Iterator<Item = (ShapeIdx, u32)> + Clone,
) -> Vec<bool> {
    let shapes = members.clone().map(|(shape, _)| shape);
    let by_volumes = are_opened_by_choices(room, members.clone());
    let by_attached = attached::are_opened(room, shapes);
    let by_devices = are_opened_by_devices(room, members);
    let all = by_volumes.into_iter().zip(by_attached).zip(by_devices);
    all.map(|((one, other), third)| one || other || third).collect()
}

fn are_opened_by_devices(
    room: &Room,
    members: impl Iterator<Item = (ShapeIdx, u32)> + Clone,
) -> Vec<bool> {
    let claims = |shape: ShapeIdx| &room.shape(shape).facts.claims;
    let mut users: BTreeMap<&ResourceClaimKey, u32> = BTreeMap::new();
    let mut all = 0_u32;
    for (shape, count) in members.clone().filter(|(shape, _)| !claims(*shape).is_empty()) {
        all = all.saturating_add(count);
        for key in named(&room.shape(shape).facts) {
            let users = users.entry(key).or_default();
            *users = users.saturating_add(count);
        }
    }
    let shared = |key: &ResourceClaimKey| users.get(key).is_some_and(|users| *users > 1);
    let opened = |(shape, _): (ShapeIdx, u32)| {
        all > 1 && devices::may_be_opened(&room.devices, &room.shape(shape).facts, shared)
    };
    members.map(opened).collect()
}

fn are_opened_by_choices(
    room: &Room,
    members: impl Iterator<Item = (ShapeIdx, u32)> + Clone,
) -> Vec<bool> {
    let volumes = |shape: ShapeIdx| room.shape(shape).facts.volumes.as_ref();
    let mut users: BTreeMap<&ClaimKey, u32> = BTreeMap::new();
    for (shape, count) in members.clone() {
        for using in volumes(shape).into_iter().flat_map(|wanted| &wanted.claims) {
            let users = users.entry(&using.claim).or_default();
            *users = users.saturating_add(count);
        }
    }
    let shared = |claim: &ClaimKey| users.get(claim).is_some_and(|users| *users > 1);
    let opened = |(shape, _): (ShapeIdx, u32)| {
        volumes(shape).is_some_and(|wanted| room.volumes.may_be_opened(wanted, shared))
    };
    members.map(opened).collect()
}

/// Whether this is so for any of these classes and numbers of members.
pub(super) fn any_opened(state: &ClusterState, asks: &[(ClassIdx, u32)]) -> bool {
    let shape = |class: ClassIdx| state.classes.class(class).key.shape;
    let members = asks.iter().map(|(class, count)| (shape(*class), *count));
    let shapes = members.clone().map(|(shape, _)| shape);
    are_opened(&state.room, members).contains(&true) || attached::need_order(&state.room, shapes)
}

fn shape(state: &ClusterState, class: ClassIdx) -> &PodShape {
    let class = state.classes.class(class);
    &state.room.shape(class.key.shape).facts
}

/// What a member could take on a node, each with its number; nothing, once, if nobody chooses.
pub(super) fn ways(
    choosing: &mut Option<Choosing>,
    txn: &Txn<'_>,
    class: ClassIdx,
    node: NodeIdx,
) -> Vec<(u32, Option<Way>)> {
    let Some(choosing) = choosing else { return vec![(0, None)] };
    let all = choosing.ways(txn, class, node).into_iter();
    all.map(|way| (choosing.number(&way), Some(way))).collect()
}
