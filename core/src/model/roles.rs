//! Minimums of roles, each by itself: with whom a gang begins that has some.
//!
//! Problem: a source may say how many of each role must run together; placement knows one minimum,
//! of members of whatever role.
//!
//! Decides that a gang below its minimum looks for places for exactly as many members as it lacks:
//! of each role those that the role lacks, the first in the order of members, then the first of
//! all others; of members that are of use only together whole replicas before parts of them
//! ([`replicas`](super::replicas)). None of them can be left out, so whatever is chosen among them
//! breaks no role. The others are extra members, as any that come late. A gang that lost members of
//! a role which is below its own minimum by that is below its minimum whatever else of it runs:
//! what runs and what its roles lack must run together. Members that are being deleted are lost
//! already: whoever stands in for them is chosen without them.
//!
//! Cost: gangs without such minimums a look at one member; others a look at each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{GangKey, Roles, Text};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;

impl ClusterState {
    /// Takes the roles into the minimum, and puts those off that a gang begins without: who is too
    /// many in its group, and who is beyond as many as can use a claim.
    pub(super) fn derive_roles(&mut self, workload: WorkloadIdx) {
        let entry = &self.workloads[workload];
        if matches!(entry.id.key, GangKey::Pod(_)) {
            return;
        }
        let Some(roles) = self.roles_of(workload) else {
            let mut later = self.surplus(workload);
            later.extend(self.beyond_claims(workload, &later));
            let waits = |pod: &PodIdx| self.pods[*pod].later;
            if !later.is_empty() || entry.members.iter().any(waits) {
                self.put_off(workload, &later.into_iter().collect());
            }
            return;
        };
        let members = entry.members.clone();
        let placed = members.iter().filter(|pod| self.pods[**pod].stays()).count() as u32;
        let of_roles = self.least_of_roles(workload, &roles);
        let mut lacks = self.lacks(workload, &of_roles);
        let lacking = lacks.values().fold(0_u32, |sum, lacks| sum.saturating_add(*lacks));
        let stated = entry.min_member;
        let least = match lacking {
            0 => stated,
            lacking => stated.max(placed.saturating_add(lacking)),
        };
        let mut others = least.saturating_sub(placed).saturating_sub(lacking);
        let mut later = BTreeSet::new();
        let free = members.into_iter().filter(|pod| placed < least && self.pods[*pod].free());
        for pod in self.whole_replicas_first(workload, free.collect()) {
            let role = self.pods[pod].role().and_then(|role| lacks.get_mut(role));
            match role.filter(|lacks| **lacks > 0) {
                Some(lacks) => *lacks -= 1,
                None if others > 0 => others -= 1,
                None => drop(later.insert(pod)),
            }
        }
        let off: Vec<PodIdx> = later.iter().copied().collect();
        later.extend(self.beyond_claims(workload, &off));
        self.workloads[workload].min_member = least;
        self.put_off(workload, &later);
    }

    /// The first role of which fewer members exist, or are free of gates, than must run together;
    /// else the first replica that is begun with, and of which that is so.
    pub(super) fn lacking_role(&self, workload: WorkloadIdx) -> Option<Reason> {
        let roles = self.roles_of(workload)?;
        let done = self.ended_well(workload);
        let members = &self.workloads[workload].members;
        let lacking = roles.least.iter().find_map(|(role, need)| {
            let of_role = |pod: &&Pod| pod.role() == Some(role);
            let all = members.iter().map(|pod| &self.pods[*pod]).filter(of_role);
            let all: Vec<&Pod> = all.filter(|pod| pod.counts()).collect();
            let ended = done.iter().copied().filter(of_role).count() as u32;
            let (have, need) = (all.len() as u32, need.saturating_sub(ended));
            let gated = all.iter().filter(|pod| pod.gated).count() as u32;
            if have < need {
                return Some(Reason::RoleGathering { role: role.clone(), have, need });
            }
            (have - gated < need).then_some(Reason::Gated { pods: gated })
        });
        lacking.or_else(|| self.lacking_replica(workload))
    }

    /// The roles of a gang, if it has minimums for them.
    pub(super) fn roles_of(&self, workload: WorkloadIdx) -> Option<Arc<Roles>> {
        let mut members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        members.find(|pod| pod.counts())?.gang.roles.clone()
    }

    /// How many members of each role have neither a place to stay nor ended well, of so many that
    /// must run.
    pub(super) fn lacks<'a>(
        &self,
        workload: WorkloadIdx,
        least: &'a BTreeMap<Text, u32>,
    ) -> BTreeMap<&'a Text, u32> {
        let mut lacks: BTreeMap<&Text, u32> =
            least.iter().map(|(role, least)| (role, *least)).collect();
        let members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let placed = members.filter(|pod| pod.stays());
        for pod in placed.chain(self.ended_well(workload)) {
            if let Some(lacks) = pod.role().and_then(|role| lacks.get_mut(role)) {
                *lacks = lacks.saturating_sub(1);
            }
        }
        lacks
    }

    /// Puts these members of a workload off, and no others.
    fn put_off(&mut self, workload: WorkloadIdx, later: &BTreeSet<PodIdx>) {
        for pod in self.workloads[workload].members.clone() {
            self.pods[pod].later = later.contains(&pod);
        }
        let entry = &mut self.workloads[workload];
        for set in &mut entry.sets {
            let pods = entry.members.iter().map(|pod| &self.pods[*pod]);
            let ready = pods.filter(|pod| pod.shape == set.shape && pod.counts() && pod.ready());
            set.ready = ready.count() as u32;
        }
    }
}
