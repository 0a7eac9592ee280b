//! Minimums of roles, each by itself: with whom a gang begins that has some.
//!
//! Problem: a source may say how many of each role must run together; placement knows one minimum,
//! of members of whatever role.
//!
//! Decides that a gang below its minimum looks for places for exactly as many members as it lacks:
//! of each role those that the role lacks, the first in the order of members, then the first of all
//! others; of members that are of use only together whole replicas before parts of them
//! ([`replicas`](super::replicas)). None of them can be left out, so whatever is chosen among them
//! breaks no role. Where members of a role look different, and those that stand first find no
//! places, others of them may begin in their stead, or beside them those whom they want near
//! ([`Choices`], searched by `cycle::of_roles`): not members of replicas, which are whole or not
//! there at all.
//! Who does not begin is an extra member, as any that comes late. A gang that lost members of a
//! role which is below its own minimum by that is below its minimum whatever else of it runs: what
//! runs and what its roles lack must run together. Members that are being deleted are lost already:
//! whoever stands in for them is chosen without them.
//!
//! Cost: gangs without such minimums a look at one member; others a look at each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{GangKey, Roles, Text};
use crate::model::pod::Pod;
use crate::model::state::ClusterState;

/// With how many members a gang below its minimum begins, and who may be one of them.
struct Beginning {
    /// Members that must run together, those included that have places.
    least: u32,
    /// How many of each role lack a place.
    lacks: BTreeMap<Text, u32>,
    /// Members of whatever role that lack one beside those.
    others: u32,
    /// Members that could have one, in the order in which they are taken; nobody where none lacks.
    free: Vec<PodIdx>,
}

/// Who may begin a gang that has roles.
#[derive(Debug)]
pub(crate) struct Choices {
    /// Members by role and shape, in order of their first member.
    pub slots: Vec<Slot>,
    /// How many of each role must be among those that begin.
    pub least: Vec<u32>,
    /// How many begin.
    pub all: u32,
    /// Members of replicas that do not begin, whoever of the others does.
    pub off: BTreeSet<PodIdx>,
}

/// Minimums of roles, and how many members are of which role and shape, in replicas or not.
pub(crate) type RoleKinds =
    (Arc<BTreeMap<Text, u32>>, BTreeMap<(Option<Text>, ShapeIdx, bool), u32>);

/// Members of one role that look alike, and are in replicas or not.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Number of the role in [`Choices::least`]; `None`: of none that must be there.
    pub role: Option<usize>,
    /// Shape.
    pub shape: ShapeIdx,
    /// They are in replicas, and all of them begin, whoever of the others does.
    pub fixed: bool,
    /// Members, in the order in which they are taken.
    pub members: Vec<PodIdx>,
}

impl ClusterState {
    /// Takes the roles into the minimum, and puts those off that a gang begins without: who is too
    /// many in its group, and who is beyond as many as can use a claim.
    pub(crate) fn derive_roles(&mut self, workload: WorkloadIdx) {
        if matches!(self.workloads[workload].id.key, GangKey::Pod(_)) {
            return;
        }
        let Some(roles) = self.roles_of(workload) else {
            let mut later = self.surplus(workload);
            later.extend(self.beyond_claims(workload, &later));
            let waits = |pod: &PodIdx| self.pods[*pod].later;
            if !later.is_empty() || self.workloads[workload].members.iter().any(waits) {
                self.put_off(workload, &later.into_iter().collect());
            }
            return;
        };
        let begins = self.beginning(workload, &roles);
        let first = self.first_of(&begins);
        let mut planned = self.planned(workload);
        // Room may be made for others than a gang that runs lacks by now.
        if self.workloads[workload].assignment.is_some() && !first.is_subset(&planned) {
            planned.clear();
        }
        // Whom others want near begins with them, though it is more than must begin.
        let waits = |pod: &PodIdx| !first.contains(pod) && !planned.contains(pod);
        let mut later: BTreeSet<PodIdx> = begins.free.iter().copied().filter(waits).collect();
        let off: Vec<PodIdx> = later.iter().copied().collect();
        later.extend(self.beyond_claims(workload, &off));
        self.workloads[workload].min_member = begins.least;
        self.put_off(workload, &later);
    }

    /// Who begins of those who may: as many of each role as that lacks, then as many of all as lack
    /// beside those.
    fn first_of(&self, begins: &Beginning) -> BTreeSet<PodIdx> {
        let (mut lacks, mut others) = (begins.lacks.clone(), begins.others);
        let mut first = BTreeSet::new();
        for pod in &begins.free {
            let role = self.pods[*pod].role().and_then(|role| lacks.get_mut(role));
            match role.filter(|lacks| **lacks > 0) {
                Some(lacks) => *lacks -= 1,
                None if others > 0 => others -= 1,
                None => continue,
            }
            first.insert(*pod);
        }
        first
    }

    /// Of whom a gang begins, and with how many; of members that wait for victims those first whose
    /// places are planned.
    fn beginning(&self, workload: WorkloadIdx, roles: &Roles) -> Beginning {
        let entry = &self.workloads[workload];
        let members = &entry.members;
        let placed = members.iter().filter(|pod| self.pods[**pod].stays()).count() as u32;
        let of_roles = self.least_of_roles(workload, roles);
        let lacks = self.lacks(workload, &of_roles);
        let lacking = lacks.values().fold(0_u32, |sum, lacks| sum.saturating_add(*lacks));
        let stated = entry.min_member;
        let least = match lacking {
            0 => stated,
            lacking => stated.max(placed.saturating_add(lacking)),
        };
        let others = least.saturating_sub(placed).saturating_sub(lacking);
        let free = members.iter().copied().filter(|pod| placed < least && self.pods[*pod].free());
        let mut free = self.whole_replicas_first(workload, free.collect());
        let planned = self.planned(workload);
        if !planned.is_empty() {
            free.sort_by_key(|pod| !planned.contains(pod));
        }
        let lacks = lacks.into_iter().map(|(role, lacks)| (role.clone(), lacks)).collect();
        Beginning { least, lacks, others, free }
    }

    /// Members that have places in what victims leave for a workload.
    fn planned(&self, workload: WorkloadIdx) -> BTreeSet<PodIdx> {
        let claim = self.claims.get(workload).into_iter();
        claim.flat_map(|claim| &claim.places.members).map(|(pod, _)| *pod).collect()
    }

    /// With whom else a gang with roles may begin than with those who stand first: where members
    /// look different of which not all begin, and some of these are in no replica.
    pub(crate) fn choices(&self, workload: WorkloadIdx) -> Option<Choices> {
        let roles = self.roles_of(workload)?;
        let begins = self.beginning(workload, &roles);
        let lacking = begins.lacks.values().fold(0_u32, |sum, lacks| sum.saturating_add(*lacks));
        let all = lacking.saturating_add(begins.others);
        let mut pods = begins.free.iter().map(|pod| &self.pods[*pod]);
        let shape = pods.next()?.shape;
        let alike = pods.all(|pod| pod.shape == shape);
        if begins.free.len() <= all as usize || alike {
            return None;
        }
        let first = self.first_of(&begins);
        let moves = |pod: &PodIdx| !first.contains(pod) && !self.pods[*pod].in_replica();
        if !begins.free.iter().any(moves) {
            return None;
        }
        // Who uses a claim of too many is chosen by that.
        if !self.beyond_claims(workload, &[]).is_empty() {
            return None;
        }
        let lacks: Vec<(Text, u32)> = begins.lacks.into_iter().collect();
        let (mut slots, mut off): (Vec<Slot>, BTreeSet<PodIdx>) = (Vec::new(), BTreeSet::new());
        for member in begins.free {
            let (pod, fixed) = (&self.pods[member], self.pods[member].in_replica());
            if fixed && !first.contains(&member) {
                off.insert(member);
                continue;
            }
            let role = pod.role().and_then(|role| lacks.iter().position(|(of, _)| of == role));
            let key = (role, pod.shape, fixed);
            match slots.iter_mut().find(|slot| (slot.role, slot.shape, slot.fixed) == key) {
                Some(slot) => slot.members.push(member),
                None => slots.push(Slot { role, shape: pod.shape, fixed, members: vec![member] }),
            }
        }
        let least = lacks.into_iter().map(|(_, least)| least).collect();
        Some(Choices { slots, least, all, off })
    }

    /// What a gang that has minimums of roles may begin with. Two of which the same members stand
    /// first may differ in it.
    pub(crate) fn role_kinds(&self, workload: WorkloadIdx) -> Option<Box<RoleKinds>> {
        let least = self.roles_of(workload)?.least.clone();
        let mut kinds: BTreeMap<(Option<Text>, ShapeIdx, bool), u32> = BTreeMap::new();
        for pod in &self.workloads[workload].members {
            let pod = &self.pods[*pod];
            *kinds.entry((pod.role().cloned(), pod.shape, pod.in_replica())).or_default() += 1;
        }
        Some(Box::new((least, kinds)))
    }

    /// A gang is to begin without these; who it was to begin without before.
    pub(crate) fn begin_without(
        &mut self,
        workload: WorkloadIdx,
        later: &BTreeSet<PodIdx>,
    ) -> BTreeSet<PodIdx> {
        let members = self.workloads[workload].members.iter().copied();
        let before = members.filter(|pod| self.pods[*pod].later).collect();
        self.put_off(workload, later);
        before
    }

    /// The first role of which fewer members exist, or are free of gates, than must run together;
    /// else the first replica that is begun with, and of which that is so.
    pub(super) fn lacking_role(&self, workload: WorkloadIdx) -> Option<Reason> {
        let roles = self.roles_of(workload)?;
        let done = self.ended_of_least(workload);
        let members = &self.workloads[workload].members;
        let lacking = roles.least.iter().find_map(|(role, need)| {
            let of_role = |pod: &&Pod| pod.role() == Some(role);
            let all = members.iter().map(|pod| &self.pods[*pod]).filter(of_role);
            let all: Vec<&Pod> = all.filter(|pod| pod.counts_itself()).collect();
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

    /// The roles of a gang, if it has minimums for them. A place for who is still to come stands
    /// behind all others, and knows also of the roles of such.
    pub(super) fn roles_of(&self, workload: WorkloadIdx) -> Option<Arc<Roles>> {
        let mut members = self.workloads[workload].members.iter().map(|pod| &self.pods[*pod]);
        let kept = members.clone().next_back().filter(|pod| pod.kept());
        if let Some(roles) = kept.and_then(|pod| pod.gang.roles.clone()) {
            return Some(roles);
        }
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
        for pod in placed.chain(self.ended_of_least(workload)) {
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
