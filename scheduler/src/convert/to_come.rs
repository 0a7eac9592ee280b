//! What a member of a gang tells the engine of pods that are made after it.
//!
//! Decides what those will look like: as their template says, with all that is added to any pod.
//! They bear roles where members that are there do: else nobody but a place would have one, and
//! what it counts of a role would be missing beside those of it that are there. Slices are cut over
//! those that look alike: where something was added to the pod that is there nobody knows whether
//! it will look like those that come, and none of them is told.
//! [`crate::gangs::to_come`] knows which they are.

use std::sync::Arc;

use capstan_core::model::input::{
    GangRef, Neighbours, OwnerPodSet, PeerTerm, PodShape, Roles, Text, ToCome, TopologyWish, Wishes,
};

use super::facts::Facts;
use super::gang::{Role, is_group, levels_of_part};
use super::marks::Marks;
use super::pod::PodDraft;
use super::sharing::Pairs;
use crate::api::keys;
use crate::gangs::owner::Sets;
use crate::gangs::to_come::Later;
use crate::gangs::wishes::{self, Asked};
use crate::gangs::{self, Member, lws};

impl Facts<'_> {
    /// What a pod knows of others of its gang that are made after it.
    pub(super) fn who_comes(
        &mut self,
        (pod, member): (&PodDraft, &Member<'_>),
        (own_shape, own_asked): (&Arc<PodShape>, &Asked),
        gang: &GangRef,
    ) -> Option<Arc<ToCome>> {
        let later = gangs::to_come::of(member, gang, &pod.labels)?;
        let owners = &later.owners[..];
        let in_group = is_group(gang);
        let asked_of_sets = later.of.map_or_else(Sets::default, |of| of.sets(owners));
        let role_of = |role: &Role| gangs::to_come::role_in_group(member, role, later.by_name);
        let least = gang.roles.as_ref().map(|roles| {
            let stated = |set: &gangs::to_come::Set<'_>| Some((role_of(set.role)?, set.count));
            let mut least = (*roles.least).clone();
            least.extend(later.sets.iter().filter_map(stated));
            Arc::new(least)
        });
        let mut sets = Vec::new();
        for set in &later.sets {
            let role = set.role;
            let marks: Vec<&Marks> = [&[&*role.template][..], owners].concat();
            let asked = wishes::read(&marks, &mut Vec::new());
            let (shape, labels) = self.beside(pod, role, later.level);
            let shape = self.shape_of((role, &shape, &labels), (&asked, &pod.namespace, true));
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
                name: role.name.clone(),
                count: set.count,
                before: set.first,
                shape,
                roles: least.clone().map(roles),
                late: Some(0),
            });
        }
        let unasked = own_asked.wishes.topology == TopologyWish::default();
        let level = later.level.filter(|_| unasked).cloned();
        let Later { maker, own, least, stated, .. } = later;
        Some(Arc::new(ToCome { maker, own, sets, least, stated, level }))
    }

    /// What pods of a role ask, and their labels, that will be in the domain of a pod: what its
    /// controller has added to that one, so that its gang has the domain to itself, holds for them.
    fn beside(
        &mut self,
        pod: &PodDraft,
        role: &Role,
        level: Option<&Text>,
    ) -> (Arc<PodShape>, Pairs) {
        let Some(level) = level else { return (role.shape.clone(), role.labels.clone()) };
        let mut labels = role.labels.to_vec();
        for (key, value) in pod.labels.iter().filter(|(key, _)| key.starts_with(lws::OF_SET)) {
            if !keys::INDEXES.contains(&&**key) && labels.iter().all(|(known, _)| known != key) {
                labels.push((key.clone(), value.clone()));
            }
        }
        labels.sort();
        let labels = self.shared.labels.list(&labels);
        let Some(has) = pod.shape.neighbours.as_deref() else {
            return (role.shape.clone(), labels);
        };
        let mut wants = role.shape.neighbours.as_deref().cloned().unwrap_or_default();
        let of = |terms: &[PeerTerm]| -> Vec<PeerTerm> {
            terms.iter().filter(|term| term.key == *level).cloned().collect()
        };
        wants.affinity.extend(of(&has.affinity));
        wants.anti_affinity.extend(of(&has.anti_affinity));
        if wants == Neighbours::default() {
            return (role.shape.clone(), labels);
        }
        let shape = PodShape { neighbours: Some(Arc::new(wants)), ..PodShape::clone(&role.shape) };
        (self.shared.shapes.of(shape), labels)
    }
}

/// Wishes of a member of a gang that has a domain to itself, and of which others will be pinned to
/// where the first goes: it goes where all of them have places, if there is such a domain.
pub(super) fn with_level(mut wishes: Wishes, gang: &GangRef) -> Wishes {
    let level = gang.to_come.as_ref().and_then(|known| known.level.clone());
    wishes.topology.preferred = level.or(wishes.topology.preferred);
    wishes
}
