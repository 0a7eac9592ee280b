//! What a member of a gang tells the engine of pods that are made after it.
//!
//! Decides what those will look like: as their template says, with all that is added to any pod.
//! [`crate::gangs::to_come`] knows which they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{GangRef, OwnerPodSet, Roles, Text, ToCome};

use super::facts::Facts;
use super::gang::is_group;
use super::marks::Marks;
use super::pod::PodDraft;
use crate::gangs::owner::Sets;
use crate::gangs::{self, Member, wishes};

impl Facts<'_> {
    /// What a pod knows of others of its gang that are made after it.
    pub(super) fn to_come(
        &mut self,
        (pod, member): (&PodDraft, &Member<'_>),
        gang: &GangRef,
    ) -> Option<Arc<ToCome>> {
        let later = gangs::to_come::of(member, gang, &pod.labels)?;
        let owners = &later.owners[..];
        let in_group = is_group(gang);
        let asked_of_sets = later.of.map_or_else(Sets::default, |of| of.sets(owners));
        let mut least: BTreeMap<Text, u32> = BTreeMap::new();
        if let Some(roles) = &gang.roles {
            least.clone_from(&roles.least);
        }
        least.extend(later.sets.iter().map(|set| (set.role.name.clone(), set.count)));
        let least = Arc::new(least);
        let mut sets = Vec::new();
        for set in &later.sets {
            let role = set.role;
            let marks: Vec<&Marks> = [&[&*role.template][..], owners].concat();
            let asked = wishes::read(&marks, &mut Vec::new());
            let kind = (role, &role.shape, &role.labels);
            let shape = self.shape_of(kind, (&asked, &pod.namespace, true));
            let levels =
                later.of.and_then(|of| of.own_levels(role, (owners, &asked_of_sets), in_group));
            let shape = self.in_set(shape, later.of.map(|_| &role.name), levels);
            let (name, least) = (role.name.clone(), least.clone());
            let roles = Roles { own: Some(name.clone()), least, replica: None };
            sets.push(OwnerPodSet {
                name,
                count: set.count,
                before: 0,
                shape,
                roles: in_group.then(|| Arc::new(roles)),
                late: Some(set.done),
            });
        }
        Some(Arc::new(ToCome { maker: later.maker, own: later.own, sets }))
    }
}
