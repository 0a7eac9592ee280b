//! Claims: room and quota kept for work whose victims are still leaving.
//!
//! A reserved workload holds a claim, not usage. On nodes, what counts against others is what it
//! wants less what its victims still hold of it, per node and resource, never below zero: a
//! victim's end moves its room to the claim. Quota counts where it will be used: all that the
//! claimant wants counts in its own queue, and as much of it as the victims still hold counts no
//! more in theirs, so that limits of queues and cohorts on either side see what is to come. The
//! amounts that count are kept in ledger and quota tree.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::model::ids::{FrIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::Assignment;

/// What a claim counts: in the quota tree, and in the ledger.
type Amounts = (Vec<(QueueIdx, FrIdx, i64)>, Vec<(NodeIdx, ResourceIdx, i64)>);

/// All claims, by the workload that claims.
#[derive(Debug, Default)]
pub struct Claims {
    by_workload: BTreeMap<WorkloadIdx, Claim>,
    /// Victims that claims name, each with who names it.
    by_victim: BTreeSet<(WorkloadIdx, WorkloadIdx)>,
}

/// One claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What it will hold quota with.
    pub assignment: std::sync::Arc<Assignment>,
    /// Which member goes where.
    pub places: Vec<(PodIdx, NodeIdx)>,
    /// Victims that have not left.
    pub victims: Vec<WorkloadIdx>,
    /// What counts now, in the quota tree.
    quota: Vec<(QueueIdx, FrIdx, i64)>,
    /// What counts now, in the ledger.
    room: Vec<(NodeIdx, ResourceIdx, i64)>,
}

impl Claims {
    /// The claim of a workload.
    pub fn get(&self, workload: WorkloadIdx) -> Option<&Claim> {
        self.by_workload.get(&workload)
    }

    /// Workloads that claim.
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadIdx> + '_ {
        self.by_workload.keys().copied()
    }

    /// All claims.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.by_workload.values()
    }

    /// Workloads whose claim names a victim.
    pub fn naming(&self, victim: WorkloadIdx) -> Vec<WorkloadIdx> {
        let from = self.by_victim.range((victim, WorkloadIdx::FIRST)..);
        from.take_while(|(named, _)| *named == victim).map(|(_, claimant)| *claimant).collect()
    }

    fn insert(&mut self, workload: WorkloadIdx, claim: Claim) {
        self.by_victim.extend(claim.victims.iter().map(|victim| (*victim, workload)));
        let old = self.by_workload.insert(workload, claim);
        assert!(old.is_none(), "one claim per workload");
    }

    fn remove(&mut self, workload: WorkloadIdx) -> Option<Claim> {
        let claim = self.by_workload.remove(&workload)?;
        for victim in &claim.victims {
            self.by_victim.remove(&(*victim, workload));
        }
        Some(claim)
    }

    /// Amounts that count in the quota tree now.
    pub fn quota(&self) -> impl Iterator<Item = (QueueIdx, FrIdx, i64)> + '_ {
        self.by_workload.values().flat_map(|claim| claim.quota.iter().copied())
    }

    /// Amounts that count in the ledger now.
    pub fn room(&self) -> impl Iterator<Item = (NodeIdx, ResourceIdx, i64)> + '_ {
        self.by_workload.values().flat_map(|claim| claim.room.iter().copied())
    }

    /// What a queue's claims add to its usage of a flavor and resource.
    pub fn claimed(&self, queue: QueueIdx, fr: FrIdx) -> i64 {
        let of = |entry: &(QueueIdx, FrIdx, i64)| (entry.0, entry.1) == (queue, fr);
        self.quota().filter(of).map(|entry| entry.2).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_workload.is_empty()
    }
}

impl ClusterState {
    /// Takes a claim for a workload.
    pub fn add_claim(
        &mut self,
        workload: WorkloadIdx,
        assignment: std::sync::Arc<Assignment>,
        places: Vec<(PodIdx, NodeIdx)>,
        victims: Vec<WorkloadIdx>,
    ) {
        let mut claim = Claim { assignment, places, victims, quota: Vec::new(), room: Vec::new() };
        self.count_claim(&mut claim);
        self.claims.insert(workload, claim);
    }

    /// Gives a claim up.
    pub fn drop_claim(&mut self, workload: WorkloadIdx) -> Option<Claim> {
        let mut claim = self.claims.remove(workload)?;
        self.uncount_claim(&mut claim);
        Some(claim)
    }

    /// A victim holds less, or left: claims that name it count anew.
    pub fn recount_claims_on(&mut self, victim: WorkloadIdx, left: bool) {
        for workload in self.claims.naming(victim) {
            let mut claim = self.claims.remove(workload).expect("was just listed");
            self.uncount_claim(&mut claim);
            if left {
                claim.victims.retain(|named| *named != victim);
            }
            self.count_claim(&mut claim);
            self.claims.insert(workload, claim);
        }
    }

    fn count_claim(&mut self, claim: &mut Claim) {
        let (quota, room) = self.claim_amounts(claim, |_| true);
        for &(queue, fr, amount) in &quota {
            self.quota.change(queue, fr, amount);
        }
        for &(node, resource, amount) in &room {
            self.room.ledger.claim(node, resource, amount);
            self.room.touch(node);
        }
        (claim.quota, claim.room) = (quota, room);
    }

    fn uncount_claim(&mut self, claim: &mut Claim) {
        for (queue, fr, amount) in claim.quota.drain(..) {
            self.quota.change(queue, fr, -amount);
        }
        for (node, resource, amount) in claim.room.drain(..) {
            self.room.ledger.claim(node, resource, -amount);
            self.room.touch(node);
        }
    }

    /// What a claim counts; of room only what is on nodes that matter to the caller.
    fn claim_amounts(&self, claim: &Claim, on: impl Fn(NodeIdx) -> bool) -> Amounts {
        let mut wanted: BTreeMap<FrIdx, i64> = BTreeMap::new();
        let mut room: BTreeMap<(NodeIdx, ResourceIdx), i64> = BTreeMap::new();
        for &(pod, node) in &claim.places {
            let Some(pod) = self.pods.get(pod) else { continue };
            let request = self.room.ledger.request(pod.holds).entries();
            for &(resource, amount) in request.iter().filter(|_| on(node)) {
                *room.entry((node, resource)).or_default() += amount;
            }
            for &(fr, amount) in claim.assignment.set(pod.shape).map_or(&[][..], |s| &s.charge) {
                *wanted.entry(fr).or_default() += amount;
            }
        }
        let of_queue =
            |(fr, amount): (&FrIdx, &i64)| Some(((claim.assignment.queue?, *fr), *amount));
        let mut quota: BTreeMap<(QueueIdx, FrIdx), i64> =
            wanted.iter().filter_map(of_queue).collect();
        for &victim in &claim.victims {
            for pod in self.placed(victim) {
                let pod = &self.pods[pod];
                let node = pod.place.expect("only placed members are listed");
                let request = self.room.ledger.request(pod.holds).entries();
                for &(resource, amount) in request.iter().filter(|_| on(node)) {
                    room.entry((node, resource)).and_modify(|want| *want -= amount);
                }
                let Some(held) = self.workloads[victim].assignment.as_ref() else { continue };
                let Some(queue) = held.queue else { continue };
                for &(fr, amount) in held.set(pod.shape).map_or(&[][..], |set| &set.charge) {
                    let Some(want) = wanted.get_mut(&fr) else { continue };
                    let given = amount.min(*want);
                    *want -= given;
                    *quota.entry((queue, fr)).or_default() -= given;
                }
            }
        }
        let quota = quota.into_iter().filter(|(_, amount)| *amount != 0);
        let room = room.into_iter().filter(|(_, amount)| *amount > 0);
        (
            quota.map(|((queue, fr), amount)| (queue, fr, amount)).collect(),
            room.map(|((node, resource), amount)| (node, resource, amount)).collect(),
        )
    }
}

impl Txn<'_> {
    /// As if a victim were gone: its members leave, and claims that name it count its room.
    /// Returns where its members were.
    pub fn remove_workload(&mut self, victim: WorkloadIdx) -> Vec<(PodIdx, NodeIdx)> {
        let place = |pod: PodIdx| Some((pod, self.state().pods[pod].place?));
        let members = self.state().workloads[victim].members.iter();
        let placed: Vec<(PodIdx, NodeIdx)> = members.filter_map(|pod| place(*pod)).collect();
        self.keeping_claims(victim, &placed, |txn| {
            placed.iter().for_each(|(pod, _)| txn.remove(*pod));
        });
        placed
    }

    /// Takes [`Txn::remove_workload`] back for one victim among several.
    pub fn return_workload(&mut self, victim: WorkloadIdx, placed: &[(PodIdx, NodeIdx)]) {
        self.keeping_claims(victim, placed, |txn| {
            placed.iter().for_each(|(pod, node)| txn.place(*pod, *node));
        });
    }

    /// Changes a victim's holdings and lets the claims that name it follow: what they count on
    /// the nodes where it is, and of quota.
    fn keeping_claims(
        &mut self,
        victim: WorkloadIdx,
        placed: &[(PodIdx, NodeIdx)],
        change: impl FnOnce(&mut Self),
    ) {
        let claimants = self.state().claims.naming(victim);
        let there = |node| placed.iter().any(|(_, at)| *at == node);
        let amounts = |txn: &Self| -> Vec<Amounts> {
            let claim = |w: &WorkloadIdx| txn.state().claims.get(*w).expect("was just listed");
            claimants.iter().map(|w| txn.state().claim_amounts(claim(w), there)).collect()
        };
        let before = amounts(self);
        change(self);
        let after = amounts(self);
        for (sign, counted) in [(1, after), (-1, before)] {
            for (quota, room) in counted {
                for (queue, fr, amount) in quota {
                    self.claim_quota(queue, fr, sign * amount);
                }
                for (node, resource, amount) in room {
                    self.claim_room(node, resource, sign * amount);
                }
            }
        }
    }
}
