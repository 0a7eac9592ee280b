//! Claims with devices of which nobody makes use, and that keep others from those devices.
//!
//! Problem: a claim stays allocated whose pod is not bound (`idle_claims`). Where that pod fits
//! nowhere, not with other devices either, nothing is won for it by giving them back; and they are
//! lost to all: to who would fit, of higher priority too, and to two pods of which each has what
//! the other needs.
//!
//! Wanted: work that finds no place gets such devices, as with kube-scheduler, which takes them
//! from every pod that it finds no node for. Here they go back only for somebody who would start
//! with them, in the order in which work is looked at: who waits in vain holds nothing by which
//! others could not start beside it, just as if its claim had no devices. In vain waits who would
//! not start as things are, others being stopped for it or not. Work that would keeps what it has,
//! and so does work that lacks quota and finds room with it, or that is not looked at: it pauses,
//! it gathers, or others leave for it. Of a strict queue nobody starts before the first, which
//! takes from those behind it. Of several claims that would do, who is last in order gives up its
//! own. Nobody does for work that would be held all the same, for reserved starts of others.
//!
//! Phases: work was looked at in vain, and would be without its own idle claims -> those that
//! others keep who wait are taken to have no devices either, in a transaction that is set aside,
//! and it is looked at again -> as few of these claims as do are chosen -> whose they are is looked
//! at, as things are: what is of use there is left out, and others are chosen -> the rest is given
//! back (`engine/giving_back.rs`), and nobody is stopped for the work until claims show that.
//!
//! Work that has a use of its claims when others are looked at, or that is not looked at, may lack
//! nodes later, which no fact tells: who asks for devices is looked at again then.
//!
//! There is no circle: each time a claim that had devices has none, and it gets some again only
//! when its pod has a place. So two never take turns for one device.
//!
//! Restart: claims, pods and who waits show all of it. Cost: once a step the pods that wait and
//! name claims with devices, if work that asks for devices is looked at in vain; for each such look
//! one more while others keep devices that might meet what it asks, and the choice where that helps
//! ([`TRIES_MAX`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::cycle::Verdict;
use crate::engine::Engine;
use crate::engine::giving_back::Due;
use crate::explain::obstacles;
use crate::model::ids::{PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Allocation, PodShape, Readiness, ResourceClaimFacts, ResourceClaimKey};
use crate::model::txn::Txn;
use crate::place::classes::Scoring;
use crate::place::gang::{self, TopologyAsk};
use crate::plan::Seen;
use crate::rules::dynamic_resources::named;
use crate::time::Time;

/// Looks at work that waits in the choice of as few claims as do.
const TRIES_MAX: usize = 64;

/// Choices of claims, each without what was of use to some in the one before.
const CHOICES_MAX: usize = 16;

/// Claims with devices that work which waits names.
#[derive(Debug, Default)]
pub(crate) struct IdleClaims {
    /// Pods that wait, by claims with devices that they name; `None`: nobody asked in this step.
    named: Option<BTreeMap<ResourceClaimKey, Vec<PodIdx>>>,
    /// Work among these that lacked nodes when others were looked at last.
    in_vain: BTreeSet<WorkloadIdx>,
}

impl IdleClaims {
    /// Facts come in: who waits, and what claims have, may be another now.
    pub(crate) fn forget_named(&mut self) {
        self.named = None;
    }
}

/// A claim that others keep who wait.
#[derive(Debug)]
struct Withheld {
    claim: ResourceClaimFacts,
    /// Pods that give it back.
    givers: Vec<PodIdx>,
    /// Work that names it.
    of: BTreeSet<WorkloadIdx>,
}

impl Engine {
    /// Work was looked at in vain: claims of others go back without whose devices it would start;
    /// whether there are such.
    pub(super) fn take_from_who_waits(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        mut helps: impl FnMut(&mut Engine) -> bool,
    ) -> bool {
        if self.gives_back(workload) {
            return false;
        }
        if self.idle.named.is_none() {
            self.idle.named = Some(self.waiting_by_claim());
            let growth = &self.growth;
            self.idle.in_vain.retain(|gang| !growth.contains(gang));
        }
        let mut others = self.withheld_from(workload);
        if others.is_empty() {
            return false;
        }
        let own = self.own_idle_claims(workload);
        let of_own: BTreeSet<ResourceClaimKey> =
            own.iter().flat_map(|(_, claims)| claims).map(|claim| claim.key.clone()).collect();
        for _ in 0..CHOICES_MAX {
            let of_others = others.iter().map(|other| &other.claim.key);
            let keys: Vec<ResourceClaimKey> = of_own.iter().chain(of_others).cloned().collect();
            if others.is_empty() || !self.holds_without(&keys, &mut helps) {
                return false;
            }
            let needed = fewest(keys.len(), |those| {
                let freed: Vec<ResourceClaimKey> =
                    those.iter().map(|at| keys[*at].clone()).collect();
                self.holds_without(&freed, &mut helps)
            });
            let freed: BTreeSet<&ResourceClaimKey> = needed.iter().map(|at| &keys[*at]).collect();
            let taken = others.iter().filter(|other| freed.contains(&other.claim.key));
            let mut of: BTreeSet<WorkloadIdx> =
                taken.flat_map(|other| other.of.iter().copied()).collect();
            of.retain(|other| self.has_use_of_claims(*other, workload));
            if of.is_empty() {
                let due = due_of(own, &others, &freed);
                self.give_claims_back(now, workload, due, |has| Seen::Idle(has.clone()));
                return true;
            }
            // If it is without later, who looks now is to look again.
            self.idle.in_vain.retain(|other| !of.contains(other));
            others.retain(|other| other.of.is_disjoint(&of));
        }
        false
    }

    /// Pods that wait, by claims with devices that they name.
    fn waiting_by_claim(&self) -> BTreeMap<ResourceClaimKey, Vec<PodIdx>> {
        let (pods, room) = (&self.state.pods, &self.state.room);
        let has_devices = |key: &&ResourceClaimKey| {
            room.devices.claim(key).is_some_and(|claim| claim.allocation.is_some())
        };
        let concerned =
            |shape: ShapeIdx| named(&room.shape(shape).facts).any(|key| has_devices(&key));
        let mut waits = self.waiting.with_shapes(concerned);
        waits.extend(self.growth.iter().chain(&self.growth_parked).copied());
        let mut found: BTreeMap<ResourceClaimKey, Vec<PodIdx>> = BTreeMap::new();
        for pod in waits.into_iter().flat_map(|workload| self.state.unplaced(workload)) {
            let entry = &pods[pod];
            if !entry.needs_place() || entry.kept() {
                continue;
            }
            for key in named(&room.shape(entry.shape).facts).filter(has_devices) {
                found.entry(key.clone()).or_default().push(pod);
            }
        }
        found
    }

    /// Claims of others who wait with devices of which some might do for work, those first that are
    /// of who goes last.
    fn withheld_from(&self, workload: WorkloadIdx) -> Vec<Withheld> {
        let (state, room) = (&self.state, &self.state.room);
        let Some(all) = self.idle.named.as_ref().filter(|all| !all.is_empty()) else {
            return Vec::new();
        };
        let sets = &state.workloads[workload].sets;
        let shapes: Vec<&PodShape> = sets.iter().map(|set| &*room.shape(set.shape).facts).collect();
        let own =
            |key: &ResourceClaimKey| shapes.iter().any(|shape| named(shape).any(|it| it == key));
        let may_meet =
            |has: &Allocation| shapes.iter().any(|shape| room.devices.may_meet(shape, has));
        let mut found: Vec<Withheld> = Vec::new();
        for (key, pods) in all.iter().filter(|(key, _)| !own(key)) {
            let Some(other) = self.withheld(key, pods) else { continue };
            let waits = |of: &WorkloadIdx| *of != workload && self.waits_unpromised(*of);
            let has = other.claim.allocation.as_ref();
            if has.is_some_and(|has| may_meet(has)) && other.of.iter().all(waits) {
                found.push(other);
            }
        }
        let first = |other: &Withheld| other.of.iter().map(|of| state.queue_order(*of)).min();
        found.sort_by(|a, b| first(b).cmp(&first(a)).then_with(|| a.claim.key.cmp(&b.claim.key)));
        found
    }

    /// A claim that these pods name which wait, if nobody uses it, and nobody else has reserved it
    /// but pods of ours that wait.
    fn withheld(&self, key: &ResourceClaimKey, namers: &[PodIdx]) -> Option<Withheld> {
        let (pods, devices) = (&self.state.pods, &self.state.room.devices);
        let claim = devices.claim(key)?;
        let has = claim.allocation.as_ref().filter(|has| has.readiness == Readiness::Ready)?;
        let used = devices.in_use(key) || devices.is_promised(key);
        if used || self.goes_back(key, None) {
            return None;
        }
        let idle = devices.reserved_by_such(key, |by| self.waits_here(by));
        let free = has.reserved.is_empty();
        let reservers: Vec<PodIdx> = devices.reservers(key).collect();
        let mut givers = if free { namers.to_vec() } else { reservers.clone() };
        givers.retain(|pod| pods.get(*pod).is_some());
        givers.sort_by(|a, b| pods[*a].uid.cmp(&pods[*b].uid));
        if free {
            // Anybody may.
            givers.truncate(1);
        }
        let all = namers.iter().chain(&reservers);
        let of = all.filter_map(|pod| pods.get(*pod)?.workload).collect();
        let claim = claim.clone();
        (idle && !givers.is_empty()).then_some(Withheld { claim, givers, of })
    }

    /// Whether work waits to be looked at, or was, or members of it beside those that run were; and
    /// nobody leaves for it.
    fn waits_unpromised(&self, workload: WorkloadIdx) -> bool {
        let waits = self.waiting.contains(workload) || self.growth_parked.contains(&workload);
        waits && self.state.claims.get(workload).is_none()
    }

    /// Its own idle claims that will have no devices once all have given them back who would now.
    fn own_idle_claims(&self, workload: WorkloadIdx) -> Vec<Due> {
        let mut due = self.idle_claims(workload);
        let mut givers: BTreeMap<ResourceClaimKey, BTreeSet<PodIdx>> = BTreeMap::new();
        for (pod, claims) in &due {
            for claim in claims {
                givers.entry(claim.key.clone()).or_default().insert(*pod);
            }
        }
        let devices = &self.state.room.devices;
        let whole = |claim: &ResourceClaimFacts| {
            devices.reserved_by_such(&claim.key, |by| givers[&claim.key].contains(&by))
        };
        due.iter_mut().for_each(|(_, claims)| claims.retain(whole));
        due.retain(|(_, claims)| !claims.is_empty());
        due
    }

    /// Whether work that waits has a use of what its claims have, as things are: it would start
    /// with that where it is, or nodes would take its members there as soon as it has quota. Who
    /// has no turn before the work that looks has none.
    fn has_use_of_claims(&mut self, other: WorkloadIdx, before: WorkloadIdx) -> bool {
        if !self.waiting.contains(other) {
            return !self.lacks_nodes(other);
        }
        if self.waiting.contains(before) && self.waits_behind(other, before) {
            return false;
        }
        let entry = self.nominate_afresh(other);
        match entry.verdict {
            Verdict::Fit | Verdict::Preempt(_) => true,
            Verdict::Blocked | Verdict::NoFit => {
                let quota = entry.choice.reason.is_some_and(|reason| reason.kind() == "quota");
                quota && self.nodes_take_each(other)
            }
        }
    }

    /// Whether each member that needs a place would find one by itself, whatever its flavor.
    fn nodes_take_each(&mut self, workload: WorkloadIdx) -> bool {
        let sets = self.demands(workload);
        let mut txn = Txn::begin(&mut self.state);
        sets.iter().all(|set| {
            let class = txn.class(set.shape, &[], Scoring::default());
            gang::holds(&mut txn, class, 1, TopologyAsk::default())
        })
    }

    /// Whether it is nodes that work lacked when it was looked at last.
    fn lacks_nodes(&self, workload: WorkloadIdx) -> bool {
        let own = self.state.workloads[workload].reason.as_ref();
        let told = self.waiting.why(workload).or(own);
        told.is_some_and(|why| matches!(obstacles::told(why).kind(), "nodes" | "topology"))
    }

    /// Who asks for devices is looked at again if somebody who keeps some has come to lack nodes
    /// since; whether there is such work.
    pub(super) fn wake_by_idle_claims(&mut self) -> bool {
        let Some(all) = &self.idle.named else { return false };
        let (pods, devices) = (&self.state.pods, &self.state.room.devices);
        let idle = all.iter().filter(|(key, _)| !devices.in_use(key));
        let of = idle.flat_map(|(_, by)| by).filter_map(|pod| pods.get(*pod)?.workload);
        let lacks = |of: &WorkloadIdx| self.waits_unpromised(*of) && self.lacks_nodes(*of);
        let in_vain: BTreeSet<WorkloadIdx> = of.filter(lacks).collect();
        let before = std::mem::replace(&mut self.idle.in_vain, in_vain);
        let new: Vec<WorkloadIdx> = self.idle.in_vain.difference(&before).copied().collect();
        if new.is_empty() {
            return false;
        }
        let (room, workloads) = (&self.state.room, &self.state.workloads);
        let is_of = |of: &WorkloadIdx, shape: ShapeIdx| {
            workloads[*of].sets.iter().any(|set| set.shape == shape)
        };
        let concerned = |shape: ShapeIdx| {
            let asks = !room.shape(shape).facts.claims.is_empty();
            asks && !new.iter().all(|of| is_of(of, shape))
        };
        self.waiting.wake_shapes(concerned);
        let grows =
            |gang: &WorkloadIdx| workloads[*gang].sets.iter().any(|set| concerned(set.shape));
        self.growth.extend(self.growth_parked.extract_if(.., grows));
        true
    }
}

/// Who gives which of these claims back.
fn due_of(own: Vec<Due>, others: &[Withheld], freed: &BTreeSet<&ResourceClaimKey>) -> Vec<Due> {
    let mut due = own;
    for (_, claims) in &mut due {
        claims.retain(|claim| freed.contains(&claim.key));
    }
    due.retain(|(_, claims)| !claims.is_empty());
    for other in others.iter().filter(|other| freed.contains(&other.claim.key)) {
        for giver in &other.givers {
            match due.iter_mut().find(|(pod, _)| pod == giver) {
                Some((_, claims)) => claims.push(other.claim.clone()),
                None => due.push((*giver, vec![other.claim.clone()])),
            }
        }
    }
    due
}

/// Positions of as few as do of so many of which all do, and none does not: each of them is needed,
/// and those that come first are rather chosen. More, where that takes too many tries.
fn fewest(count: usize, mut do_these: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let (mut needed, mut open, mut tries): (Vec<usize>, _, _) = (Vec::new(), count, 0);
    loop {
        // All before `most` would do beside those that are needed; of fewer than `least` not.
        let (mut least, mut most) = (usize::from(needed.is_empty()), open);
        while least < most {
            if tries == TRIES_MAX {
                needed.extend(0..most);
                return needed;
            }
            tries += 1;
            let middle = least.midpoint(most);
            let those: Vec<usize> = (0..middle).chain(needed.iter().copied()).collect();
            match do_these(&those) {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        let Some(last) = most.checked_sub(1) else { return needed };
        needed.push(last);
        open = last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_as_do_are_chosen_and_the_first_of_those_that_would() {
        assert_eq!(fewest(1, |_| unreachable!("it is all that there is")), [0]);
        assert_eq!(fewest(8, |those| those.contains(&5)), [5]);
        assert_eq!(fewest(8, |those| !those.is_empty()), [0], "any would do");
        assert_eq!(fewest(8, |those| those.contains(&3) && those.contains(&6)), [6, 3]);
        let either = |those: &[usize]| those.contains(&1) || those.contains(&2);
        assert_eq!(fewest(4, |those| either(those) && those.contains(&3)), [3, 1]);
        assert_eq!(fewest(3, |those| those.len() == 3), [2, 1, 0]);
    }

    #[test]
    fn what_takes_too_many_tries_is_not_looked_for_any_further() {
        let (count, mut tries) = (1_000, 0);
        let found = fewest(count, |those| {
            tries += 1;
            // Every second is needed.
            (0..count).step_by(2).all(|at| those.contains(&at))
        });
        assert_eq!(tries, TRIES_MAX);
        let all: BTreeSet<usize> = found.iter().copied().collect();
        assert_eq!(all.len(), found.len(), "each once");
        assert!((0..count).step_by(2).all(|at| all.contains(&at)), "{found:?}");
    }
}
