//! What the members of a gang see of the volumes that nodes attach.
//!
//! Problem: a node attaches so many volumes of a driver and no more. Two nodes that have the same
//! free may have room for unlike numbers of volumes, and one may have some already that members
//! bring: a search that tries nodes which look the same once has to tell them apart.
//!
//! One that is attached and that no pod of the node uses counts twice for who brings it there, and
//! once from then on ([`crate::rules::node_volume_limits`]): a member that brings it and others may
//! find room only after one that brings less, or only before those that bring others.
//!
//! Decides for whom others may open nodes that way, and where it matters who goes first. Cost:
//! nothing for members without volumes, and for those whose volumes no driver counts; else the
//! volumes of a node for each look at it. Which volumes the members have is found out once for a
//! search.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::{ClassIdx, ShapeIdx};
use crate::model::input::{ClaimKey, Text};
use crate::model::room::Room;
use crate::model::state::ClusterState;
use crate::model::volumes::{Counted, Handle};

/// Volumes of a gang that drivers count.
#[derive(Debug)]
pub(super) struct Attached {
    /// By driver: they are told apart by what follows.
    volumes: BTreeSet<(Text, Own)>,
}

/// [`Handle`] for keeps.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Own {
    Volume(Text),
    Claim(ClaimKey),
}

impl Own {
    fn of((driver, handle): Counted<'_>) -> (Text, Own) {
        let own = match handle {
            Handle::Volume(name) => Own::Volume(name.into()),
            Handle::Claim(key) => Own::Claim(key.clone()),
        };
        (driver.into(), own)
    }
}

impl Attached {
    /// Volumes of members of these classes; `None`: no driver counts any.
    pub fn of(state: &ClusterState, classes: &[ClassIdx]) -> Option<Attached> {
        let mut volumes = BTreeSet::new();
        for class in classes {
            let shape = state.room.shape(state.classes.class(*class).key.shape);
            let Some(wanted) = &shape.facts.volumes else { continue };
            let counted = state.room.volumes.counted_of(wanted);
            volumes.extend(counted.map(|(counted, _)| Own::of(counted)));
        }
        (!volumes.is_empty()).then_some(Attached { volumes })
    }

    /// What members see at a position: for each of their drivers how many volumes more it attaches
    /// there, and which of theirs are there already.
    pub fn looks(&self, state: &ClusterState, position: usize, looks: &mut Vec<u32>) {
        let room = &state.room;
        let node = room.tree.order()[position];
        let Some(facts) = room.facts(node) else { return };
        let limits = room.volumes.limits(&facts.name);
        let used = room.volumes.counted_on(node);
        let attached: BTreeSet<Counted<'_>> = room.volumes.attached_to(&facts.name).collect();
        let mut left: BTreeMap<&str, i64> = BTreeMap::new();
        for (driver, _) in &self.volumes {
            // No limit is none that anybody gets to.
            let limit = limits.and_then(|all| all.get(driver)).copied().unwrap_or(i64::MAX);
            left.insert(driver, limit);
        }
        for (driver, _) in used.union(&attached) {
            left.entry(driver).and_modify(|left| *left = left.saturating_sub(1));
        }
        for left in left.into_values() {
            looks.push(u32::try_from(left.max(0)).unwrap_or(u32::MAX));
        }
        for (driver, own) in &self.volumes {
            let handle = match own {
                Own::Volume(name) => Handle::Volume(name),
                Own::Claim(key) => Handle::Claim(key),
            };
            let counted = (&**driver, handle);
            looks.push(
                u32::from(used.contains(&counted)) * 2 + u32::from(attached.contains(&counted)),
            );
        }
    }
}

/// For which of these others of them may open nodes by bringing volumes that are attached there and
/// that nobody there uses: who brings more of the driver's than such a one.
pub(super) fn are_opened(room: &Room, shapes: impl Iterator<Item = ShapeIdx> + Clone) -> Vec<bool> {
    let counted = |shape: ShapeIdx| {
        let wanted = room.shape(shape).facts.volumes.iter();
        wanted.flat_map(move |wanted| room.volumes.counted_of(wanted))
    };
    // By whom each is brought, and as which claims.
    let mut brought: BTreeMap<Counted<'_>, (BTreeSet<usize>, BTreeSet<&ClaimKey>)> =
        BTreeMap::new();
    for (at, shape) in shapes.clone().enumerate() {
        for (volume, claim) in counted(shape) {
            let (by, claims) = brought.entry(volume).or_default();
            by.insert(at);
            claims.extend(claim);
        }
    }
    brought.retain(|volume, (by, claims)| by.len() > 1 && is_idle(room, *volume, claims));
    let opened = |shape: ShapeIdx| {
        let own: BTreeSet<Counted<'_>> = match brought.is_empty() {
            true => BTreeSet::new(),
            false => counted(shape).map(|(volume, _)| volume).collect(),
        };
        let several = |driver: &str| own.iter().filter(|(of, _)| *of == driver).count() > 1;
        own.iter().any(|volume| brought.contains_key(volume) && several(volume.0))
    };
    shapes.map(opened).collect()
}

/// Whether it may matter who of these goes first on a node: some bring a volume that is attached
/// there and that nobody there uses, others bring more of its driver, and there is no room for all
/// of them and one.
pub(super) fn need_order(room: &Room, shapes: impl Iterator<Item = ShapeIdx>) -> bool {
    let mut brought: BTreeMap<Counted<'_>, BTreeSet<&ClaimKey>> = BTreeMap::new();
    let mut by_driver: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (at, shape) in shapes.enumerate() {
        let wanted = room.shape(shape).facts.volumes.iter();
        for (volume, claim) in wanted.flat_map(|wanted| room.volumes.counted_of(wanted)) {
            brought.entry(volume).or_default().extend(claim);
            by_driver.entry(volume.0).or_default().insert(at);
        }
    }
    let mut several = brought.iter().filter(|(volume, _)| by_driver[volume.0].len() > 1);
    several.any(|(volume, claims)| {
        let all = brought.keys().filter(|(driver, _)| *driver == volume.0).count();
        is_idle(room, *volume, claims) && is_tight(room, *volume, all)
    })
}

/// Whether some node that has a volume attached may not attach so many more of its driver.
fn is_tight(room: &Room, volume: Counted<'_>, more: usize) -> bool {
    let volumes = &room.volumes;
    volumes.attached_where(volume).any(|name| {
        let limit = volumes.limits(name).and_then(|limits| limits.get(volume.0));
        let node = room.find_node(name);
        limit.zip(node).is_some_and(|(limit, node)| {
            let mut there = volumes.counted_on(node);
            there.extend(volumes.attached_to(name));
            let there = there.iter().filter(|(driver, _)| *driver == volume.0).count();
            i64::try_from(there + more).unwrap_or(i64::MAX) > *limit
        })
    })
}

/// Whether some node that says how many it attaches has a volume that no pod there uses, as one of
/// these claims or otherwise.
fn is_idle(room: &Room, volume: Counted<'_>, claims: &BTreeSet<&ClaimKey>) -> bool {
    let volumes = &room.volumes;
    volumes.attached_where(volume).any(|name| {
        let limited = volumes.limits(name).is_some_and(|limits| limits.contains_key(volume.0));
        let node = room.find_node(name).filter(|_| limited);
        node.is_some_and(|node| {
            !claims.iter().any(|claim| volumes.is_used_on(node, claim))
                && !volumes.counted_on(node).contains(&volume)
        })
    })
}
