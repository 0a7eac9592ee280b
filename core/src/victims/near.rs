//! Victims where some of those whom members want near must leave, and some must stay.
//!
//! Problem: a member may go beside some of those who hold the quota or the room that it lacks, and
//! only there. In the usual order these leave as any others, be it the ones beside whom there is
//! room; if none of them leaves there is too little. Who leaves which node (`focus`) tells nothing
//! of quota, as a node that a member would fit on comes to hold no more, and little where one
//! member takes the room of another, as it looks at one kind of members after the other.
//!
//! Wanted: who must leave leaves where no member would go. So some of them stay in turn, and the
//! others are taken in the usual order: for each node with one of them all who are near there, as
//! far as the terms of the members go; and then each of them alone. Where a member fits as things
//! are comes first, and then whom the order would take last.
//!
//! Cost: at most [`TRIES_MAX`] attempts, where nothing else does; where it is not quota that is
//! short at most [`FOR_ROOM_MAX`], which take [`TAKEN_MAX`] candidates in all, and end once
//! searches have spent what they may. Nothing survives a search.

use std::collections::{BTreeMap, BTreeSet};

use capstan_topology::NodeIdx;

use super::candidates::Candidate;
use super::focus::slots_of;
use super::{Attempt, Removed, Search};
use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::place::budget;
use crate::rules::neighbours::keys::KeyIdx;

/// Sets of those who stay that are tried, at most.
const TRIES_MAX: usize = 16;

/// The same where it is not quota that is short.
const FOR_ROOM_MAX: usize = 64;

/// Candidates that are taken in all attempts but the first, at most, if there is quota.
const TAKEN_MAX: usize = 4_096;

/// Of these, sets of those who are near one node, at most.
const NEAR_ONE_MAX: usize = 8;

/// Nodes that are looked at for that, at most.
const NODES_MAX: usize = 256;

/// A domain of a key.
type Domain = (KeyIdx, usize);

impl Search<'_> {
    /// Takes victims in the usual order while some of those stay whom members want near; `Err`:
    /// that leads nowhere either, and nobody was taken; it may be because the search ended at its
    /// bound.
    pub(super) fn attempt_beside_some<'c>(
        &self,
        txn: &mut Txn<'_>,
        list: &'c [Candidate],
        attempt: Attempt,
        near: &BTreeSet<WorkloadIdx>,
    ) -> Result<Removed<'c>, Option<SearchBound>> {
        // None and all of them stayed already.
        if near.len() < 2 {
            return Err(None);
        }
        let for_room = self.quota_fits(txn, attempt);
        // For who is alone each node was looked at, where those could leave who stand there: that
        // says all, unless it is somebody elsewhere who must leave.
        if for_room && self.alone && !self.some_free_elsewhere(txn, list) {
            return Err(None);
        }
        let each = list.iter().filter(|candidate| candidate.room).count().max(1);
        let most = if for_room { (TAKEN_MAX / each).clamp(1, FOR_ROOM_MAX) } else { TRIES_MAX };
        let last_first = list.iter().rev().map(|candidate| candidate.workload);
        let wanted: Vec<WorkloadIdx> = last_first.filter(|it| near.contains(it)).collect();
        let sets = self.sets_near(txn, &wanted, most);
        let cut = (sets.len() > most).then_some(SearchBound::Victims(most as u32));
        for (stay, tried) in sets.into_iter().zip(0..).take(most) {
            if for_room && budget::is_spent(txn) {
                return Err(Some(SearchBound::Victims(tried)));
            }
            let sparing = Removed::sparing(stay);
            if let Ok(found) = self.take_in_order(txn, list, attempt, sparing) {
                return Ok(found);
            }
        }
        Err(cut)
    }

    /// Whether anybody could leave and make room on other nodes than its own.
    fn some_free_elsewhere(&self, txn: &mut Txn<'_>, list: &[Candidate]) -> bool {
        self.need.look_around(txn);
        let frees = |it: &Candidate| self.need.could_free_elsewhere(txn.state(), it.workload);
        list.iter().any(|candidate| candidate.room && frees(candidate))
    }

    /// Sets of those who are wanted near (the most important first), in the order in which they are
    /// tried: one more than may be, if there are more.
    fn sets_near(
        &self,
        txn: &mut Txn<'_>,
        wanted: &[WorkloadIdx],
        most: usize,
    ) -> Vec<BTreeSet<WorkloadIdx>> {
        self.need.asks.iter().for_each(|(class, _)| txn.fresh(*class));
        let around = self.domains_near(txn.state(), wanted);
        let mut sets: Vec<BTreeSet<WorkloadIdx>> = Vec::new();
        for domains in self.near_one(txn, wanted, &around) {
            let near = domains.iter().flat_map(|domain| &around[domain]);
            let near: BTreeSet<WorkloadIdx> = near.copied().collect();
            if !sets.contains(&near) {
                sets.push(near);
            }
        }
        let mut known = BTreeSet::new();
        let by_set = |set: &BTreeSet<WorkloadIdx>| -> Vec<WorkloadIdx> {
            wanted.iter().copied().filter(|it| set.contains(it)).collect()
        };
        let each = sets.iter().flat_map(by_set).chain(wanted.iter().copied());
        let each = each.filter(|it| known.insert(*it)).take(most + 1);
        let each: Vec<WorkloadIdx> = each.collect();
        for one in each {
            let alone = BTreeSet::from([one]);
            if !sets.contains(&alone) {
                sets.push(alone);
            }
        }
        sets.retain(|set| !set.is_empty() && set.len() < wanted.len());
        sets
    }

    /// Domains in which some of these are near, as far as members want it, and who.
    fn domains_near(
        &self,
        state: &ClusterState,
        wanted: &[WorkloadIdx],
    ) -> BTreeMap<Domain, BTreeSet<WorkloadIdx>> {
        let keys = &state.room.neighbourhood.keys;
        let mut around: BTreeMap<Domain, BTreeSet<WorkloadIdx>> = BTreeMap::new();
        for &workload in wanted {
            for pod in state.placed(workload).map(|pod| &state.pods[pod]) {
                let Some(node) = pod.place else { continue };
                for (class, _) in &self.need.asks {
                    let key = state.classes.class(*class).outlook().wants_near(pod.shape);
                    let domain = key.and_then(|key| Some((key, keys.table(key).domain(node)?)));
                    if let Some(domain) = domain {
                        around.entry(domain).or_default().insert(workload);
                    }
                }
            }
        }
        around
    }

    /// For nodes on which one of these stands the domains around it, each combination once: those
    /// first where a member fits now.
    fn near_one(
        &self,
        txn: &mut Txn<'_>,
        wanted: &[WorkloadIdx],
        around: &BTreeMap<Domain, BTreeSet<WorkloadIdx>>,
    ) -> Vec<Vec<Domain>> {
        let state = txn.state();
        let mut known = BTreeSet::new();
        let pods = wanted.iter().flat_map(|workload| state.placed(*workload));
        let nodes = pods.filter_map(|pod| state.pods[pod].place);
        let nodes = nodes.filter(|node| known.insert(*node)).take(NODES_MAX);
        let nodes: Vec<NodeIdx> = nodes.collect();
        let keys: BTreeSet<KeyIdx> = around.keys().map(|(key, _)| *key).collect();
        let classes: Vec<ClassIdx> = self.need.asks.iter().map(|(class, _)| *class).collect();
        let mut ranks: BTreeMap<Vec<Domain>, (bool, usize)> = BTreeMap::new();
        for (at, node) in nodes.into_iter().enumerate() {
            let state = txn.state();
            let tables = &state.room.neighbourhood.keys;
            let here = keys.iter().filter_map(|key| Some((*key, tables.table(*key).domain(node)?)));
            let here: Vec<Domain> = here.filter(|domain| around.contains_key(domain)).collect();
            let Some(position) = state.room.tree.position(node) else { continue };
            let full = slots_of(txn, self, &classes, position) == 0;
            ranks.entry(here).or_insert((full, at)).0 &= full;
        }
        let mut in_order: Vec<(Vec<Domain>, (bool, usize))> = ranks.into_iter().collect();
        in_order.sort_by_key(|(_, rank)| *rank);
        in_order.into_iter().map(|(here, _)| here).take(NEAR_ONE_MAX).collect()
    }
}
