//! Claims: room and quota kept for work whose victims are still leaving.
//!
//! A reserved workload holds a claim, not usage. On nodes, what counts against others is what it
//! wants less what its victims still hold of it, per node and resource: a victim's end moves its
//! room to the claim. Quota counts where it will be used: all that the claimant wants counts in
//! its own queue, and as much of it as the victims still hold counts no more in theirs, so that
//! limits of queues and cohorts on either side see what is to come. The amounts that count are
//! kept in ledger and quota tree.
//!
//! That is what will be. What is, until the victims have left, is usage without claims, and no
//! limit may be exceeded meanwhile either: whoever is to start must fit both.
//!
//! Several claims may name one victim. What it holds goes to each of them once, and to nobody
//! twice: claims draw in the order in which they are redeemed, each from the victims that fewest
//! others name first. Claims that share victims, directly or through others, therefore count
//! together ([`draw`]). What they count while a transaction takes victims or claimants away is told
//! in [`gone`]. Cost: what these claims want and their victims hold, at each change; for a victim
//! that a transaction removes, what there is on its nodes.
//!
//! By who they are, members of a claim keep others away from their nodes as pods do that are
//! nominated ([`Tenancy::Nominated`]): else somebody whom they mind, or who minds them, would come
//! before the victims have left, and those would have left for nothing. Not work of higher
//! priority, as in kube-scheduler: while that is decided on they are passed over
//! ([`ClusterState::pass_claims`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::model::claim::draw::{Left, Together};
use crate::model::ids::{FrIdx, HandleSet, PodIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{AllocatedDevice, HostPort, PodShape, ResourceClaimKey};
use crate::model::room::Room;
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, Workload};
use crate::quota::money::Costs;
use crate::resources;
use crate::rules::neighbours::Tenancy;

mod draw;
mod gone;

/// What a claim counts: in the quota tree, and in the ledger.
type Amounts = (Vec<(QueueIdx, FrIdx, i64)>, Vec<(NodeIdx, ResourceIdx, i64)>);

/// All claims, by the workload that claims.
#[derive(Debug, Default)]
pub struct Claims {
    by_workload: BTreeMap<WorkloadIdx, Claim>,
    /// Who they are: whoever changes, or is looked at, is asked whether it claims anything.
    claiming: HandleSet<Workload>,
    /// Who claims, by the queue of which it will hold quota.
    by_queue: BTreeSet<(Option<QueueIdx>, WorkloadIdx)>,
    /// Victims that claims name, each with who names it.
    by_victim: BTreeSet<(WorkloadIdx, WorkloadIdx)>,
    /// Victims that are named: every search for more asks that of each whom it looks at.
    named: HandleSet<Workload>,
    /// Victims that leave nothing which was not promised: another claim gains nothing by them.
    spent: HandleSet<Workload>,
    /// Victims that leave no quota which was not promised.
    quota_spent: HandleSet<Workload>,
    /// Victims that leave something which was not promised.
    unspent: BTreeSet<WorkloadIdx>,
    /// Victims that have left in a transaction: nothing is drawn from them any more, wherever they
    /// begin again in it.
    left: BTreeSet<WorkloadIdx>,
    /// Who has run and ended in a transaction: what it claims counts no more.
    released: BTreeSet<WorkloadIdx>,
    /// Whose members keep others away by who they are: every head asks for those before it.
    keeping: BTreeSet<WorkloadIdx>,
    /// Of these, those that keep nobody away while somebody is decided on.
    passed: BTreeSet<WorkloadIdx>,
}

/// Where all members of a workload go once its victims have left, and with what.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Which member goes where.
    pub members: Vec<(PodIdx, NodeIdx)>,
    /// What each of them is to be charged of money, in their order; none: nothing is.
    pub prices: Box<[i64]>,
    /// Devices that its members get.
    pub devices: Arc<[AllocatedDevice]>,
    /// Claims on devices that nobody uses any more then: their devices come free after that.
    pub frees: Vec<ResourceClaimKey>,
    /// Of these, those that its members use then, with other devices.
    pub takes: Vec<ResourceClaimKey>,
}

impl Places {
    /// What members are charged of each flavor's money, by what their workload holds quota with.
    pub fn costs(&self, state: &ClusterState, workload: WorkloadIdx) -> Costs {
        let mut costs: BTreeMap<FrIdx, i64> = BTreeMap::new();
        let assignment = state.workloads[workload].assignment.as_ref();
        for ((pod, _), price) in self.members.iter().zip(&self.prices) {
            let set = assignment.and_then(|assignment| assignment.set(state.pods[*pod].shape));
            if let Some(fr) = set.and_then(|set| set.money()) {
                resources::add(costs.entry(fr).or_default(), *price);
            }
        }
        costs.into_iter().collect()
    }
}

/// One claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What it will hold quota with.
    pub assignment: Arc<Assignment>,
    /// What it plans.
    pub places: Places,
    /// Victims that have not left.
    pub victims: Vec<WorkloadIdx>,
    /// What counts now, in the quota tree.
    quota: Vec<(QueueIdx, FrIdx, i64)>,
    /// What counts now, in the ledger.
    room: Vec<(NodeIdx, ResourceIdx, i64)>,
    /// Shapes whose host ports count now. What victims use is counted beside them: a port is
    /// free for others when neither a pod nor a claim has it.
    ports: Vec<(NodeIdx, Arc<PodShape>)>,
    /// Members that count as nominated for their nodes, unless they are passed over.
    around: Vec<(NodeIdx, ShapeIdx)>,
    /// The claims that it was counted with.
    together: Option<Arc<Together>>,
}

impl Claims {
    /// The claim of a workload.
    pub fn get(&self, workload: WorkloadIdx) -> Option<&Claim> {
        if !self.claiming.contains(workload) {
            return None;
        }
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

    /// Workloads that claim quota of a queue, or without one.
    pub fn of_queue(&self, queue: Option<QueueIdx>) -> impl Iterator<Item = WorkloadIdx> + '_ {
        let from = self.by_queue.range((queue, WorkloadIdx::FIRST)..);
        from.take_while(move |(of, _)| *of == queue).map(|(_, claimant)| *claimant)
    }

    /// Workloads whose claim names a victim.
    pub fn naming(&self, victim: WorkloadIdx) -> Vec<WorkloadIdx> {
        if !self.named.contains(victim) {
            return Vec::new();
        }
        let from = self.by_victim.range((victim, WorkloadIdx::FIRST)..);
        from.take_while(|(named, _)| *named == victim).map(|(_, claimant)| *claimant).collect()
    }

    /// Victims that claims name, each once.
    pub fn victims(&self) -> Vec<WorkloadIdx> {
        let mut victims: Vec<WorkloadIdx> =
            self.by_victim.iter().map(|(victim, _)| *victim).collect();
        victims.dedup();
        victims
    }

    /// Whether everything that a workload leaves was promised.
    pub fn spent(&self, victim: WorkloadIdx) -> bool {
        self.spent.contains(victim)
    }

    /// Whether all quota that a workload leaves was promised: with many preemptors at a time most
    /// of those who leave have none for one more, but for room on nodes that nobody wants.
    pub fn quota_spent(&self, victim: WorkloadIdx) -> bool {
        self.quota_spent.contains(victim)
    }

    /// Victims that leave something which was not promised.
    pub fn unspent(&self) -> impl Iterator<Item = WorkloadIdx> + '_ {
        self.unspent.iter().copied()
    }

    /// Claims that depend on a victim.
    fn drawing_on(&self, victim: WorkloadIdx) -> Option<Arc<Together>> {
        if !self.named.contains(victim) {
            return None;
        }
        let mut from = self.by_victim.range((victim, WorkloadIdx::FIRST)..);
        let (_, claimant) = from.next().filter(|(named, _)| *named == victim)?;
        self.by_workload[claimant].together.clone()
    }

    fn insert(&mut self, workload: WorkloadIdx, claim: Claim) {
        self.by_victim.extend(claim.victims.iter().map(|victim| (*victim, workload)));
        claim.victims.iter().for_each(|victim| self.named.insert(*victim));
        self.by_queue.insert((claim.assignment.queue, workload));
        self.claiming.insert(workload);
        let old = self.by_workload.insert(workload, claim);
        assert!(old.is_none(), "one claim per workload");
    }

    fn remove(&mut self, workload: WorkloadIdx) -> Option<Claim> {
        let claim = self.by_workload.remove(&workload)?;
        self.claiming.remove(workload);
        self.by_queue.remove(&(claim.assignment.queue, workload));
        for victim in &claim.victims {
            self.by_victim.remove(&(*victim, workload));
            if self.naming(*victim).is_empty() {
                self.named.remove(*victim);
            }
            self.spent.remove(*victim);
            self.quota_spent.remove(*victim);
            self.unspent.remove(victim);
        }
        Some(claim)
    }

    /// What a claimant will hold quota with changed; what it counts follows when it is counted.
    pub(super) fn promise(&mut self, workload: WorkloadIdx, assignment: Arc<Assignment>) {
        if let Some(claim) = self.by_workload.get_mut(&workload) {
            self.by_queue.remove(&(claim.assignment.queue, workload));
            self.by_queue.insert((assignment.queue, workload));
            claim.assignment = assignment;
        }
    }

    /// Amounts that count in the quota tree now.
    pub fn quota(&self) -> impl Iterator<Item = (QueueIdx, FrIdx, i64)> + '_ {
        self.by_workload.values().flat_map(|claim| claim.quota.iter().copied())
    }

    /// What the claim of a workload counts in the quota tree now.
    pub fn quota_of(&self, workload: WorkloadIdx) -> &[(QueueIdx, FrIdx, i64)] {
        self.get(workload).map_or(&[][..], |claim| &claim.quota)
    }

    /// Host ports that count, each with its node.
    pub fn ports(&self) -> impl Iterator<Item = (NodeIdx, &[HostPort])> {
        let all = self.by_workload.values().flat_map(|claim| &claim.ports);
        all.map(|(node, shape)| (*node, &*shape.ports))
    }

    /// Members that count as nominated now, each with its node.
    pub fn around(&self) -> impl Iterator<Item = (NodeIdx, ShapeIdx, Tenancy)> + '_ {
        let claims = self.by_workload.iter().filter(|(of, _)| !self.passed.contains(*of));
        let all = claims.flat_map(|(_, claim)| &claim.around);
        all.map(|&(node, shape)| (node, shape, Tenancy::Nominated))
    }

    /// What a queue's claims add to its usage of a flavor and resource.
    pub fn claimed(&self, queue: QueueIdx, fr: FrIdx) -> i64 {
        let of = |entry: &(QueueIdx, FrIdx, i64)| (entry.0, entry.1) == (queue, fr);
        resources::total(self.quota().filter(of).map(|entry| entry.2))
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
        assignment: Arc<Assignment>,
        places: Places,
        victims: Vec<WorkloadIdx>,
    ) {
        let (quota, room) = Amounts::default();
        let (ports, around, together) = (Vec::new(), Vec::new(), None);
        let claim = Claim { assignment, places, victims, quota, room, ports, around, together };
        self.claims.insert(workload, claim);
        self.count_claims(&self.claims_beside(workload));
    }

    /// Whether a workload claims room for members that join others of it, which run.
    pub fn claims_to_join(&self, workload: WorkloadIdx) -> bool {
        self.claims.get(workload).is_some() && self.workloads[workload].assignment.is_some()
    }

    /// Gives a claim up; what its victims hold is for those that name them too.
    pub fn drop_claim(&mut self, workload: WorkloadIdx) -> Option<Claim> {
        self.claims.get(workload)?;
        let mut beside = self.claims_beside(workload);
        self.uncount_claim(workload);
        let claim = self.claims.remove(workload);
        beside.retain(|other| *other != workload);
        self.count_claims(&beside);
        claim
    }

    /// What a workload holds or wants changed: claims that depend on it are to be counted anew. A
    /// victim that holds no place any more has left.
    pub(super) fn note_claims_on(
        &mut self,
        workload: WorkloadIdx,
        changed: &mut BTreeSet<WorkloadIdx>,
    ) {
        if self.claims.get(workload).is_some() {
            changed.insert(workload);
        }
        let naming = self.claims.naming(workload);
        if !naming.is_empty() && self.placed(workload).next().is_none() {
            for claimant in &naming {
                let mut claim = self.claims.remove(*claimant).expect("was just listed");
                claim.victims.retain(|named| *named != workload);
                self.claims.insert(*claimant, claim);
            }
        }
        changed.extend(naming);
    }

    /// Counts anew claims that have changed, once each, with those that share victims with them.
    pub(super) fn count_claims_anew(&mut self, mut changed: BTreeSet<WorkloadIdx>) {
        while let Some(claimant) = changed.pop_first() {
            // It may have been given up since.
            if self.claims.get(claimant).is_none() {
                continue;
            }
            let together = self.claims_beside(claimant);
            together.iter().for_each(|other| _ = changed.remove(other));
            self.count_claims(&together);
        }
    }

    /// Compares what every claim counts with what it should.
    ///
    /// # Panics
    /// When they differ: that is our own error.
    pub fn recount_claims(&self) {
        let as_is = self.claims.left.is_empty() && self.claims.released.is_empty();
        assert!(as_is, "what only a transaction says of claims is kept");
        for (workload, (quota, room)) in self.claims_anew() {
            let name = &self.workloads[workload].full_name;
            let claim = self.claims.get(workload).expect("was just listed");
            assert_eq!(claim.quota, quota, "quota that {name} claims");
            assert_eq!(claim.room, room, "room that {name} claims");
            assert_eq!(claim.ports, self.ports_of(claim), "host ports that {name} claims");
            assert_eq!(claim.around, self.around_of(claim), "members of {name} around others");
        }
        let all = self.claims.by_workload.iter();
        let by_queue = all.map(|(workload, claim)| (claim.assignment.queue, *workload)).collect();
        assert_eq!(self.claims.by_queue, by_queue, "claims by queue");
        let named: BTreeSet<_> = self.claims.by_victim.iter().map(|(victim, _)| *victim).collect();
        for (index, workload) in self.workloads.iter() {
            let known = self.claims.named.contains(index);
            assert_eq!(known, named.contains(&index), "{} as a victim", workload.full_name);
            let claims = self.claims.by_workload.contains_key(&index);
            let listed = self.claims.claiming.contains(index);
            assert_eq!(listed, claims, "{} as a claimant", workload.full_name);
            let unspent = known && !self.claims.spent.contains(index);
            let listed = self.claims.unspent.contains(&index);
            assert_eq!(listed, unspent, "what {} leaves", workload.full_name);
        }
    }

    /// What every claim should count as things are.
    pub(super) fn claims_anew(&self) -> Vec<(WorkloadIdx, Amounts)> {
        let mut all: Vec<WorkloadIdx> = self.claims.workloads().collect();
        self.in_queue_order(&mut all);
        let (amounts, _) = Together::of(self, &all).amounts();
        all.into_iter().zip(amounts).collect()
    }

    /// A claim and those that share victims with it, directly or through others, in the order
    /// in which they are redeemed.
    fn claims_beside(&self, workload: WorkloadIdx) -> Vec<WorkloadIdx> {
        let claim = self.claims.get(workload);
        let mut beside = self.claims_on(claim.iter().flat_map(|claim| claim.victims.clone()));
        if claim.is_some() && !beside.contains(&workload) {
            beside.push(workload);
        }
        beside
    }

    /// Claims that name one of these victims, or share others with such a claim, in the order in
    /// which they are redeemed.
    fn claims_on(&self, victims: impl IntoIterator<Item = WorkloadIdx>) -> Vec<WorkloadIdx> {
        let mut open: Vec<WorkloadIdx> = victims.into_iter().collect();
        let mut seen: BTreeSet<WorkloadIdx> = open.iter().copied().collect();
        let mut found: BTreeSet<WorkloadIdx> = BTreeSet::new();
        while let Some(victim) = open.pop() {
            for claimant in self.claims.naming(victim) {
                if found.insert(claimant) {
                    let claim = self.claims.get(claimant).expect("was just listed");
                    open.extend(claim.victims.iter().filter(|named| seen.insert(**named)));
                }
            }
        }
        let mut found: Vec<WorkloadIdx> = found.into_iter().collect();
        self.in_queue_order(&mut found);
        found
    }

    /// Orders workloads as they go one before the other.
    pub fn in_queue_order(&self, workloads: &mut [WorkloadIdx]) {
        workloads.sort_by(|a, b| self.queue_order(*a).cmp(&self.queue_order(*b)));
    }

    /// Counts claims that share victims with none but each other, given as they are redeemed.
    fn count_claims(&mut self, together: &[WorkloadIdx]) {
        if together.is_empty() {
            return;
        }
        for &workload in together {
            self.uncount_claim(workload);
        }
        let drawing = Arc::new(Together::of(self, together));
        let (amounts, left) = drawing.amounts();
        for (victim, left) in left {
            let claims = &mut self.claims;
            match left == Left::Nothing {
                true => claims.unspent.remove(&victim),
                false => claims.unspent.insert(victim),
            };
            for (set, spent) in [
                (&mut claims.spent, left == Left::Nothing),
                (&mut claims.quota_spent, left != Left::Quota),
            ] {
                match spent {
                    true => set.insert(victim),
                    false => set.remove(victim),
                }
            }
        }
        for (&workload, (quota, room)) in together.iter().zip(amounts) {
            for &(queue, fr, amount) in &quota {
                self.quota.change(queue, fr, amount);
            }
            for &(node, resource, amount) in &room {
                self.room.ledger.claim(node, resource, amount);
                self.room.touch(node);
            }
            let claim = self.claims.by_workload.get(&workload).expect("is one of the claims");
            let (ports, around) = (self.ports_of(claim), self.around_of(claim));
            for (node, shape) in &ports {
                self.room.ports.place(*node, &shape.ports);
                self.room.touch(*node);
            }
            self.room.keep_devices(workload, &claim.places, true);
            if !around.is_empty() {
                self.claims.keeping.insert(workload);
            }
            if !self.claims.passed.contains(&workload) {
                keep_around(&mut self.room, &around, true);
            }
            let claim = self.claims.by_workload.get_mut(&workload).expect("is one of the claims");
            (claim.quota, claim.room, claim.ports) = (quota, room, ports);
            claim.around = around;
            claim.together = Some(drawing.clone());
        }
    }

    /// Members that a claim is for and that use host ports, with where they will.
    fn ports_of(&self, claim: &Claim) -> Vec<(NodeIdx, Arc<PodShape>)> {
        let using = |&(pod, node): &(PodIdx, NodeIdx)| {
            let shape = &self.room.shape(self.pods.get(pod)?.shape).facts;
            (!shape.ports.is_empty()).then(|| (node, shape.clone()))
        };
        claim.places.members.iter().filter_map(using).collect()
    }

    fn uncount_claim(&mut self, workload: WorkloadIdx) {
        let claim = self.claims.by_workload.get_mut(&workload).expect("is one of the claims");
        for (queue, fr, amount) in claim.quota.drain(..) {
            self.quota.change(queue, fr, -amount);
        }
        for (node, resource, amount) in claim.room.drain(..) {
            self.room.ledger.claim(node, resource, -amount);
            self.room.touch(node);
        }
        for (node, shape) in claim.ports.drain(..) {
            self.room.ports.remove(node, &shape.ports);
            self.room.touch(node);
        }
        self.room.keep_devices(workload, &claim.places, false);
        let around = std::mem::take(&mut claim.around);
        self.claims.keeping.remove(&workload);
        if !self.claims.passed.contains(&workload) {
            keep_around(&mut self.room, &around, false);
        }
    }

    /// Members that a claim is for and whom others may mind or want near, with where they will be.
    fn around_of(&self, claim: &Claim) -> Vec<(NodeIdx, ShapeIdx)> {
        let among = |&(pod, node): &(PodIdx, NodeIdx)| {
            let shape = self.pods.get(pod)?.shape;
            self.room.shape(shape).facts.kin.as_ref().map(|_| (node, shape))
        };
        claim.places.members.iter().filter_map(among).collect()
    }

    /// Members that work of lower priority claims for, and those of its `own` claim, keep nobody
    /// away by who they are until [`ClusterState::restore_claims`]. Whose claims.
    pub(super) fn pass_claims(
        &mut self,
        priority: i32,
        own: Option<WorkloadIdx>,
    ) -> Vec<WorkloadIdx> {
        let mut below = Vec::new();
        for &workload in &self.claims.keeping {
            let passes = own == Some(workload) || self.workloads[workload].priority < priority;
            let counts = !self.claims.released.contains(&workload);
            if passes && counts && self.claims.passed.insert(workload) {
                keep_around(&mut self.room, &self.claims.by_workload[&workload].around, false);
                below.push(workload);
            }
        }
        below
    }

    /// They keep others away again, as far as they still claim.
    pub(super) fn restore_claims(&mut self, passed: Vec<WorkloadIdx>) {
        for workload in passed {
            self.claims.passed.remove(&workload);
            if let Some(claim) = self.claims.by_workload.get(&workload) {
                keep_around(&mut self.room, &claim.around, true);
            }
        }
    }
}

/// Members of a claim count as nominated for their nodes, or do so no more.
fn keep_around(room: &mut Room, around: &[(NodeIdx, ShapeIdx)], kept: bool) {
    for &(node, shape) in around {
        match kept {
            true => room.neighbourhood.place(node, shape, Tenancy::Nominated),
            false => room.neighbourhood.remove(node, shape, Tenancy::Nominated),
        }
        room.touch(node);
    }
}
