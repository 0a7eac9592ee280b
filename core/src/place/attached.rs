//! What the members of a gang see of the volumes that nodes attach.
//!
//! Problem: a node attaches so many volumes of a driver and no more. Two nodes that have the same
//! free may have room for unlike numbers of volumes, and one may have some already that members
//! bring: a search that tries nodes which look the same once has to tell them apart.
//!
//! Decides nothing. Cost: nothing for members without volumes, and for those whose volumes no
//! driver counts; else the volumes of a node for each look at it. Which volumes the members have is
//! found out once for a search.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::ClassIdx;
use crate::model::input::{ClaimKey, Text};
use crate::model::state::ClusterState;
use crate::model::volumes::{Counted, Handle, by_attach};

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
            let claims = wanted.claims.iter();
            let claims = claims.filter_map(|using| state.room.volumes.counted(&using.claim));
            let disks = wanted.disks.iter().filter_map(|disk| disk.attach.as_ref()).map(by_attach);
            volumes.extend(claims.chain(disks).map(Own::of));
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
