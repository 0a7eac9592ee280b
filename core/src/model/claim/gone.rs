//! Who is gone in a transaction, and what claims count then.
//!
//! What all claims count is a function of three things: what claimants want and victims hold, both
//! as they were when the claims were counted last, before the transaction; which victims have
//! *left* since, and hold nothing; and which claims are *released*, and want nothing. Nothing else
//! that a transaction does has a say, such as where members of a victim begin again, nor has the
//! order in which it is done. Both sets change here alone, and the amounts with them:
//!
//! - A victim leaves or comes back: what is drawn of the keys in which it has a stake is told
//!   before and after, and the difference is counted. Draws of one key depend on no other.
//! - A claimant ends: all its victims leave first. From then on it draws nothing, so what it counts
//!   is all that it wants, and no other claim draws more or less without it: that is taken away,
//!   and the claim is released.
//! - A victim leaves that itself claims room for members that join it, or comes back: its claim is
//!   given up with it, while those whom it names are still there. What it wants is taken away, and
//!   what all draw of those is told before and after, since others may draw more now.
//!
//! Both go back by the log, in reverse order. A recount reckons the same function anew, with what
//! victims that have not left hold by then.

use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::model::claim::draw::{Drawn, Together};
use crate::model::claim::{Amounts, keep_around};
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::vacancy::Holding;

impl ClusterState {
    /// Claims draw nothing from a victim that has left, or draw on it again; whether that is new.
    /// On whom no claim draws has no say.
    pub(in crate::model) fn change_left(&mut self, victim: WorkloadIdx, leaves: bool) -> bool {
        let claims = &mut self.claims;
        match leaves {
            true => claims.named.contains(victim) && claims.left.insert(victim),
            false => claims.left.remove(&victim),
        }
    }

    /// Ports and devices of a claim, and who its members are, are not kept any more, or are again.
    pub(in crate::model) fn change_released(&mut self, workload: WorkloadIdx, released: bool) {
        let claim = self.claims.get(workload).expect("is one of the claims");
        let (ports, around) = (claim.ports.clone(), claim.around.clone());
        for (node, shape) in &ports {
            match released {
                true => self.room.ports.remove(*node, &shape.ports),
                false => self.room.ports.place(*node, &shape.ports),
            }
            self.room.touch(*node);
        }
        self.room.keep_devices(workload, &claim.places, !released);
        if !self.claims.passed.contains(&workload) {
            keep_around(&mut self.room, &around, !released);
        }
        match released {
            true => self.claims.released.insert(workload),
            false => self.claims.released.remove(&workload),
        };
    }
}

impl Txn<'_> {
    /// Quota as it is while victims still hold theirs and nobody has what was promised, of the tree
    /// that a queue is in: no other has a say in what that may use. For a look only: to be rolled
    /// back.
    pub fn count_no_claims(&mut self, queue: Option<QueueIdx>) {
        let state = self.state();
        let Some(root) = queue.and_then(|queue| state.quota.root(queue)) else { return };
        let in_tree = |(of, ..): &(QueueIdx, FrIdx, i64)| state.quota.root(*of) == Some(root);
        for (queue, fr, amount) in state.claims.quota().filter(in_tree).collect::<Vec<_>>() {
            self.claim_quota(queue, fr, -amount);
        }
    }

    /// As if a victim were gone: its members leave, claims that name it count its room, and what it
    /// claims for members that join it is free. Returns what it held.
    pub fn remove_workload(&mut self, victim: WorkloadIdx) -> Holding {
        let held = self.take_away(victim);
        Holding { claimed: self.give_up_claim(victim, true, true), ..held }
    }

    /// The same, but for what it claims.
    fn take_away(&mut self, victim: WorkloadIdx) -> Holding {
        let (places, drawn_on) =
            self.keeping_claims(victim, |txn| (txn.take_places(victim), txn.leave(victim, true)));
        Holding { places, vacancies: self.vacate(victim), drawn_on, claimed: false }
    }

    /// Takes [`Txn::remove_workload`] back for one victim among several.
    pub fn return_workload(&mut self, victim: WorkloadIdx, held: &Holding) {
        self.restore_vacancies(victim, &held.vacancies);
        if held.claimed {
            self.give_up_claim(victim, false, true);
        }
        self.keeping_claims(victim, |txn| {
            held.places.iter().for_each(|(pod, node)| txn.place(*pod, *node));
            if held.drawn_on {
                txn.leave(victim, false);
            }
        });
    }

    /// As if a workload had run and ended: its members leave, and what it claims is free, as its
    /// victims left before. Those of them that left already and began again stay where they are.
    /// Never kept.
    pub fn end_workload(&mut self, workload: WorkloadIdx) {
        self.take_away(workload);
        let claims = &self.state().claims;
        let claim = claims.get(workload).filter(|_| !claims.released.contains(&workload));
        let Some(victims) = claim.map(|claim| claim.victims.clone()) else { return };
        for victim in victims {
            if !self.state().claims.left.contains(&victim) {
                self.remove_workload(victim);
            }
        }
        let amounts = self.state().claims_at_last(workload);
        self.count_wants(amounts, -1);
        self.release(workload, true);
        self.check_claims();
    }

    /// What a workload claims for members that join it counts no more, or again (`gives` is false):
    /// of quota, and of nodes too if it is the `whole`. Whether that is new.
    fn give_up_claim(&mut self, workload: WorkloadIdx, gives: bool, whole: bool) -> bool {
        let state = self.state();
        if !state.claims_to_join(workload) || state.claims.released.contains(&workload) == gives {
            return false;
        }
        let claim = state.claims.get(workload).expect("it claims");
        let victims = claim.victims.clone();
        let Some(together) = claim.together.clone() else { return false };
        let amounts = state.claims_at_last(workload);
        match whole {
            true => self.keeping_draws(&together, &victims, |txn| {
                txn.count_wants(amounts, if gives { -1 } else { 1 });
                txn.release(workload, gives);
            }),
            false => self.keeping_quota_draws(&together, &victims, |txn| {
                txn.count_wants((amounts.0, Vec::new()), if gives { -1 } else { 1 });
                txn.release(workload, gives);
            }),
        }
        true
    }

    /// All that a claim is for counts, or does so no more.
    fn count_wants(&mut self, (quota, room): Amounts, sign: i64) {
        for (queue, fr, amount) in quota {
            self.claim_quota(queue, fr, sign * amount);
        }
        for (node, resource, amount) in room {
            self.claim_room(node, resource, sign * amount);
        }
    }

    /// As if all of these were gone, as by [`Txn::remove_workload`]: what claims draw of them is
    /// told once for all that claims draw on together.
    pub fn remove_workloads(&mut self, victims: impl IntoIterator<Item = WorkloadIdx>) {
        let mut drawn_on: Vec<(Arc<Together>, Vec<WorkloadIdx>)> = Vec::new();
        for victim in victims {
            let Some(together) = self.state().claims.drawing_on(victim) else {
                self.remove_workload(victim);
                continue;
            };
            match drawn_on.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &together)) {
                Some((_, named)) => named.push(victim),
                None => drawn_on.push((together, vec![victim])),
            }
        }
        for (together, named) in drawn_on {
            self.keeping_draws(&together, &named, |txn| {
                for victim in &named {
                    txn.take_places(*victim);
                    txn.leave(*victim, true);
                }
            });
            for victim in named {
                self.vacate(victim);
                self.give_up_claim(victim, true, true);
            }
        }
    }

    /// Members of a workload leave the nodes that they are on; where those were.
    fn take_places(&mut self, workload: WorkloadIdx) -> Vec<(PodIdx, NodeIdx)> {
        let place = |pod: &PodIdx| Some((*pod, self.state().pods[*pod].place?));
        let members = self.state().workloads[workload].members.iter();
        let places: Vec<(PodIdx, NodeIdx)> = members.filter_map(place).collect();
        places.iter().for_each(|(pod, _)| self.remove(*pod));
        places
    }

    /// Changes a victim's holdings and lets the claims that depend on it follow: what they count
    /// on the nodes where it is, and of quota.
    fn keeping_claims<T>(&mut self, victim: WorkloadIdx, change: impl FnOnce(&mut Self) -> T) -> T {
        match self.state().claims.drawing_on(victim) {
            Some(together) => self.keeping_draws(&together, &[victim], change),
            None => change(self),
        }
    }

    /// The same for several victims, on whom the same claims draw.
    fn keeping_draws<T>(
        &mut self,
        together: &Together,
        victims: &[WorkloadIdx],
        change: impl FnOnce(&mut Self) -> T,
    ) -> T {
        // What claims draw counts for them no longer, and in the victims' queues for nobody. What
        // was drawn is put back first, so that nothing ever counts less than nothing.
        let before = together.drawn_with(self.state(), victims);
        self.count_drawn(before, 1);
        let changed = change(self);
        let after = together.drawn_with(self.state(), victims);
        self.count_drawn(after, -1);
        self.check_claims();
        changed
    }

    /// What claims draw counts for the victims again, or no longer.
    fn count_drawn(&mut self, drawn: Drawn, sign: i64) {
        for ((node, resource), amount) in drawn.room {
            self.claim_room(node, resource, sign * amount);
        }
        for ((queue, fr), amount) in drawn.quota {
            self.claim_quota(queue, fr, sign * amount);
        }
    }

    /// In debug builds compares what claims count in a small state with what they should.
    fn check_claims(&self) {
        if cfg!(debug_assertions) && self.state().small() {
            self.state().recount_claimed();
        }
    }

    /// As if a victim were gone as far as quota goes: its members charge nothing, claims that name
    /// it draw none from it, and what it claims itself is free. Nodes stay as they are, so whoever
    /// looks at those is misled: only for a look at quota, and never kept. Returns what it held.
    pub fn discharge_workload(&mut self, victim: WorkloadIdx) -> Holding {
        let drawn_on = self.keeping_quota_claims(victim, |txn| {
            txn.charge_members(victim, false);
            txn.leave(victim, true)
        });
        let vacancies = self.vacate(victim);
        let claimed = self.give_up_claim(victim, true, false);
        Holding { places: Vec::new(), vacancies, drawn_on, claimed }
    }

    /// Takes [`Txn::discharge_workload`] back for one victim among several.
    pub fn recharge_workload(&mut self, victim: WorkloadIdx, held: &Holding) {
        self.restore_vacancies(victim, &held.vacancies);
        if held.claimed {
            self.give_up_claim(victim, false, false);
        }
        self.keeping_quota_claims(victim, |txn| {
            txn.charge_members(victim, true);
            if held.drawn_on {
                txn.leave(victim, false);
            }
        });
    }

    fn keeping_quota_claims<T>(
        &mut self,
        victim: WorkloadIdx,
        change: impl FnOnce(&mut Self) -> T,
    ) -> T {
        match self.state().claims.drawing_on(victim) {
            Some(together) => self.keeping_quota_draws(&together, &[victim], change),
            None => change(self),
        }
    }

    /// The same for several victims, on whom the same claims draw.
    fn keeping_quota_draws<T>(
        &mut self,
        together: &Together,
        victims: &[WorkloadIdx],
        change: impl FnOnce(&mut Self) -> T,
    ) -> T {
        for ((queue, fr), amount) in together.quota_drawn_with(self.state(), victims) {
            self.claim_quota(queue, fr, amount);
        }
        let changed = change(self);
        for ((queue, fr), amount) in together.quota_drawn_with(self.state(), victims) {
            self.claim_quota(queue, fr, -amount);
        }
        changed
    }
}
