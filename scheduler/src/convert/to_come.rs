//! What a member of a gang tells the engine of pods that are made after it.
//!
//! Decides what those will look like: as their template says, with all that is added to any pod.
//! They bear roles where members that are there do: else nobody but a place would have one, and
//! what it counts of a role would be missing beside those of it that are there. Slices are cut over
//! those that look alike: where something was added to the pod that is there nobody knows whether
//! it will look like those that come, and none of them is told.
//! [`crate::gangs::to_come`] knows which they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    GangRef, Neighbours, OwnerPodSet, PeerTerm, PodShape, Roles, Text, ToCome, TopologyWish, Wishes,
};

use super::facts::Facts;
use super::gang::{Role, is_group, levels_of_part};
use super::marks::Marks;
use super::pod::PodDraft;
use crate::gangs::owner::Sets;
use crate::gangs::to_come::{Later, Set};
use crate::gangs::wishes::{self, Asked};
use crate::gangs::{self, Member};

impl Facts<'_> {
    /// What a pod knows of others of its gang that are made after it.
    pub(super) fn who_comes(
        &mut self,
        (pod, member): (&PodDraft, &Member<'_>),
        own: (&Arc<PodShape>, &Asked),
        gang: &GangRef,
    ) -> Option<Arc<ToCome>> {
        let known = self.sets_to_come((pod, member), own, gang);
        gangs::to_come::with_stated(member, gang, known).map(Arc::new)
    }

    fn sets_to_come(
        &mut self,
        (pod, member): (&PodDraft, &Member<'_>),
        (own_shape, own_asked): (&Arc<PodShape>, &Asked),
        gang: &GangRef,
    ) -> Option<ToCome> {
        let later = gangs::to_come::of(member, gang, &pod.labels)?;
        let owners = &later.owners[..];
        let in_group = is_group(gang);
        let asked_of_sets = later.of.map_or_else(Sets::default, |of| of.sets(owners));
        let role_of = |role: &Role| gangs::to_come::role_in_group(member, role, later.by_name);
        let least = gang.roles.as_ref().map(|roles| {
            let mut later_of: BTreeMap<Text, u32> = BTreeMap::new();
            for set in &later.sets {
                if let Some(role) = role_of(set.role) {
                    let count = later_of.entry(role).or_default();
                    *count = count.saturating_add(set.count);
                }
            }
            let mut least = (*roles.least).clone();
            least.append(&mut later_of);
            Arc::new(least)
        });
        let mut sets = Vec::new();
        for set in &later.sets {
            let role = set.role;
            let marks: Vec<&Marks> = [&[&*role.template][..], owners].concat();
            let asked = wishes::read(&marks, &mut Vec::new());
            let shape = self.beside(pod, set, later.level);
            let shape = self.shape_of((role, &shape, &set.labels), (&asked, &pod.namespace, true));
            let slices = |asked: &Asked| asked.wishes.topology.slices.is_some();
            let by_shape = later.of.is_none() && (slices(own_asked) || slices(&asked));
            if by_shape && shape.requests == own_shape.requests && shape != *own_shape {
                sets.clear();
                break;
            }
            let levels = match later.of {
                Some(of) => of.own_levels(role, (owners, &asked_of_sets), in_group),
                None => levels_of_part(gang, &asked.wishes.topology),
            };
            let shape = self.in_set(shape, later.of.map(|_| &role.name), levels);
            let roles = |least| Arc::new(Roles { own: role_of(role), least, replica: None });
            sets.push(OwnerPodSet {
                name: set.name.clone(),
                count: set.count,
                before: set.first,
                shape,
                roles: least.clone().map(roles),
                late: Some(0),
            });
        }
        let unasked = own_asked.wishes.topology == TopologyWish::default();
        let level = later.level.filter(|_| unasked).cloned();
        let Later { maker, name, own, least, stated, .. } = later;
        let name = Some(name);
        Some(ToCome { maker, name, own, sets, least, stated, level, ..ToCome::default() })
    }

    /// What pods of a set ask that will be in the domain of a pod: what its controller has added to
    /// that one, so that its gang has the domain to itself, holds for them.
    fn beside(&mut self, pod: &PodDraft, set: &Set<'_>, level: Option<&Text>) -> Arc<PodShape> {
        let mut wants = set.wants.as_deref().cloned().unwrap_or_default();
        if let Some((level, has)) = level.zip(pod.shape.neighbours.as_deref()) {
            let of = |terms: &[PeerTerm]| -> Vec<PeerTerm> {
                terms.iter().filter(|term| term.key == *level).cloned().collect()
            };
            wants.affinity.extend(of(&has.affinity));
            wants.anti_affinity.extend(of(&has.anti_affinity));
        }
        let neighbours = (wants != Neighbours::default()).then(|| Arc::new(wants));
        if neighbours == set.role.shape.neighbours {
            return set.role.shape.clone();
        }
        self.shared.shapes.of(PodShape { neighbours, ..PodShape::clone(&set.role.shape) })
    }
}

/// Wishes of a member of a gang that has a domain to itself, and of which others will be pinned to
/// where the first goes: it goes where all of them have places, if there is such a domain.
pub(super) fn with_level(mut wishes: Wishes, gang: &GangRef) -> Wishes {
    let level = gang.to_come.as_ref().and_then(|known| known.level.clone());
    wishes.topology.preferred = level.or(wishes.topology.preferred);
    wishes
}
