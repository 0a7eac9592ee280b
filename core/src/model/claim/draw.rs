//! Draws: how much of what victims still hold goes to which claim.
//!
//! Claims draw in the order in which they are redeemed, each from the victims that fewest name
//! first, then by uid. What is drawn of one key (a resource of a node; a flavor and resource of
//! quota) depends on no other key, so that a transaction that removes a victim looks only at what
//! that victim holds.

use std::collections::BTreeMap;

use capstan_topology::{NodeIdx, ResourceIdx};

use crate::model::claim::{Amounts, Claim};
use crate::model::ids::{FrIdx, PodIdx, QueueIdx, WorkloadIdx};
use crate::model::state::ClusterState;
use crate::model::workload::{Assignment, BY_NODE};
use crate::resources;

/// Claims that share victims with none but each other, and what each has a stake in.
#[derive(Debug)]
pub(super) struct Together {
    /// In the order in which they are redeemed.
    claims: Vec<Drawing>,
    victims: Vec<(WorkloadIdx, Stake)>,
}

/// A claim.
#[derive(Debug)]
struct Drawing {
    workload: WorkloadIdx,
    wants: Stake,
    /// Positions of its victims, in the order in which it draws.
    victims: Vec<usize>,
}

/// What somebody wants or holds; every key once, in order.
#[derive(Clone, Debug, Default)]
struct Stake {
    queue: Option<QueueIdx>,
    room: Vec<((NodeIdx, ResourceIdx), i64)>,
    quota: Vec<(FrIdx, i64)>,
}

/// What a victim leaves that no claim draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// Room on nodes, and no quota.
    Room,
    /// Quota, and room perhaps.
    Quota,
}

/// What all claims together draw.
pub(super) struct Drawn {
    pub room: Vec<((NodeIdx, ResourceIdx), i64)>,
    pub quota: DrawnQuota,
}

/// What they draw of quota, by the queue that it comes from.
pub(super) type DrawnQuota = Vec<((QueueIdx, FrIdx), i64)>;

impl Stake {
    fn into_amounts(self) -> Amounts {
        let Stake { queue, room, quota } = self;
        let quota = quota.into_iter().filter_map(|(fr, amount)| Some((queue?, fr, amount)));
        let room = room.into_iter().map(|((node, resource), amount)| (node, resource, amount));
        (quota.collect(), room.collect())
    }
}

impl Together {
    /// Looks at claims, given in the order in which they are redeemed.
    pub fn of(state: &ClusterState, together: &[WorkloadIdx]) -> Together {
        let claim = |w: &WorkloadIdx| state.claims.get(*w).expect("is one of the claims");
        let mut named: BTreeMap<WorkloadIdx, usize> = BTreeMap::new();
        for victim in together.iter().flat_map(|workload| &claim(workload).victims) {
            *named.entry(*victim).or_default() += 1;
        }
        let mut victims: Vec<WorkloadIdx> = named.keys().copied().collect();
        victims.sort_by_key(|victim| (named[victim], &state.workloads[*victim].uid));
        let at: BTreeMap<WorkloadIdx, usize> = victims.iter().copied().zip(0..).collect();
        let drawing = |workload: &WorkloadIdx| {
            let claim = claim(workload);
            let mut victims: Vec<usize> = claim.victims.iter().map(|victim| at[victim]).collect();
            victims.sort_unstable();
            let wants = match state.claims.released.contains(workload) {
                true => Stake::default(),
                false => state.wants(claim),
            };
            Drawing { workload: *workload, wants, victims }
        };
        Together {
            claims: together.iter().map(drawing).collect(),
            victims: victims.into_iter().map(|victim| (victim, state.holds(victim))).collect(),
        }
    }

    /// What each claim counts, and what is left to draw of each victim.
    pub fn amounts(&self) -> (Vec<Amounts>, Vec<(WorkloadIdx, Left)>) {
        let (counted, left) = self.draw();
        let left = self.victims.iter().zip(left).map(|((victim, _), left)| {
            let left = match () {
                () if left.quota.iter().any(|(_, n)| *n != 0) => Left::Quota,
                () if left.room.iter().any(|(_, n)| *n != 0) => Left::Room,
                () => Left::Nothing,
            };
            (*victim, left)
        });
        (counted, left.collect())
    }

    /// What each claim counts, and what of each victim's stake, by position, none of them draws.
    fn draw(&self) -> (Vec<Amounts>, Vec<Stake>) {
        let mut left: Vec<Stake> = self.victims.iter().map(|(_, stake)| stake.clone()).collect();
        let mut counted = Vec::with_capacity(self.claims.len());
        for claim in &self.claims {
            let mut places: BTreeMap<_, i64> = claim.wants.room.iter().copied().collect();
            let mut wanted: BTreeMap<_, i64> = claim.wants.quota.iter().copied().collect();
            let mut charges: BTreeMap<(QueueIdx, FrIdx), i64> = BTreeMap::new();
            if let Some(queue) = claim.wants.queue {
                charges.extend(wanted.iter().map(|(fr, amount)| ((queue, *fr), *amount)));
            }
            for &victim in &claim.victims {
                let Stake { queue, room, quota } = &mut left[victim];
                take(&mut places, room, |_, _| ());
                let Some(queue) = *queue else { continue };
                take(&mut wanted, quota, |fr, given| {
                    resources::add(charges.entry((queue, fr)).or_default(), -given);
                });
            }
            let charges = charges.into_iter().filter(|(_, amount)| *amount != 0);
            let places = places.into_iter().filter(|(_, amount)| *amount > 0);
            counted.push((
                charges.map(|((queue, fr), amount)| (queue, fr, amount)).collect(),
                places.map(|((node, resource), amount)| (node, resource, amount)).collect(),
            ));
        }
        (counted, left)
    }

    /// What all claims draw, as things are in a transaction, of everything that some victims hold
    /// or held: from them and from the others.
    pub fn drawn_with(&self, state: &ClusterState, victims: &[WorkloadIdx]) -> Drawn {
        let room = self.keys(victims, |stake| &stake.room).into_iter().map(|key| {
            let mut drawn = 0;
            let add = |_, amount| resources::add(&mut drawn, amount);
            self.drawn(state, key, |stake| &stake.room, add);
            (key, drawn)
        });
        Drawn { room: room.collect(), quota: self.quota_drawn_with(state, victims) }
    }

    /// The same of quota alone.
    pub fn quota_drawn_with(&self, state: &ClusterState, victims: &[WorkloadIdx]) -> DrawnQuota {
        let mut quota = DrawnQuota::new();
        for fr in self.keys(victims, |stake| &stake.quota) {
            self.drawn(
                state,
                fr,
                |stake| if stake.queue.is_some() { &stake.quota } else { &[] },
                |from, amount| {
                    let Some(queue) = from else { return };
                    match quota.iter_mut().find(|(key, _)| *key == (queue, fr)) {
                        Some((_, drawn)) => resources::add(drawn, amount),
                        None => quota.push(((queue, fr), amount)),
                    }
                },
            );
        }
        quota
    }

    /// What these victims have a stake in, each key once, in order.
    fn keys<K: Copy + Ord>(
        &self,
        victims: &[WorkloadIdx],
        of: impl Fn(&Stake) -> &[(K, i64)],
    ) -> Vec<K> {
        let stakes = victims.iter().flat_map(|victim| of(self.stake_of(*victim)));
        let mut keys: Vec<K> = stakes.map(|(key, _)| *key).collect();
        if victims.len() > 1 {
            keys.sort_unstable();
            keys.dedup();
        }
        keys
    }

    fn stake_of(&self, victim: WorkloadIdx) -> &Stake {
        let mut of = self.victims.iter().filter(|(named, _)| *named == victim);
        let (_, stake) = of.next().expect("is one of the victims");
        stake
    }

    /// Tells what is drawn of one key, with the queue of the victim that it comes from.
    fn drawn<K: Ord>(
        &self,
        state: &ClusterState,
        key: K,
        of: impl Fn(&Stake) -> &[(K, i64)],
        mut tell: impl FnMut(Option<QueueIdx>, i64),
    ) {
        let amount_of = |stake: &Stake| -> i64 {
            let entries = of(stake);
            entries.binary_search_by(|(k, _)| k.cmp(&key)).map_or(0, |at| entries[at].1)
        };
        // By position of victims that gave something; few on one node.
        let mut given: Vec<(usize, i64)> = Vec::new();
        let counts = |claim: &&Drawing| !state.claims.released.contains(&claim.workload);
        for claim in self.claims.iter().filter(counts) {
            let mut want = amount_of(&claim.wants);
            for &victim in &claim.victims {
                if want <= 0 {
                    break;
                }
                let (workload, stake) = &self.victims[victim];
                let held = amount_of(stake);
                if held == 0 || state.claims.left.contains(workload) {
                    continue;
                }
                let before = given.iter_mut().find(|(giver, _)| *giver == victim);
                let amount = (held - before.as_ref().map_or(0, |(_, amount)| *amount)).min(want);
                match before {
                    Some((_, before)) => *before += amount,
                    None => given.push((victim, amount)),
                }
                want -= amount;
                tell(stake.queue, amount);
            }
        }
    }
}

impl ClusterState {
    /// What a claim is for.
    fn wants(&self, claim: &Claim) -> Stake {
        let prices = claim.places.prices.iter().copied().chain(std::iter::repeat(0));
        let members = claim.places.members.iter().copied().zip(prices);
        let there = members.filter(|((pod, _), _)| self.pods.get(*pod).is_some());
        self.stake(Some(&claim.assignment), there)
    }

    /// What a workload claims, all of which counts once its victims have left.
    pub(crate) fn claims_at_last(&self, workload: WorkloadIdx) -> Amounts {
        let claim = self.claims.get(workload);
        claim.map_or_else(Amounts::default, |claim| self.wants(claim).into_amounts())
    }

    /// Of each victim that has not left, what no claim draws: that comes free when it leaves.
    pub(crate) fn undrawn(&self) -> BTreeMap<WorkloadIdx, Amounts> {
        let mut all: Vec<WorkloadIdx> = self.claims.workloads().collect();
        self.in_queue_order(&mut all);
        let together = Together::of(self, &all);
        let (_, left) = together.draw();
        let left = together.victims.iter().map(|(victim, _)| *victim).zip(left);
        let stays = |(victim, _): &(WorkloadIdx, Stake)| !self.claims.left.contains(victim);
        left.filter(stays).map(|(victim, left)| (victim, left.into_amounts())).collect()
    }

    /// What a victim holds that claims may draw.
    fn holds(&self, victim: WorkloadIdx) -> Stake {
        if self.claims.left.contains(&victim) {
            return Stake::default();
        }
        let place = |pod: PodIdx| self.pods[pod].place.expect("only placed members are listed");
        let placed = self.placed(victim).map(|pod| ((pod, place(pod)), self.bills.amount(pod)));
        self.stake(self.workloads[victim].assignment.as_deref(), placed)
    }

    fn stake(
        &self,
        assignment: Option<&Assignment>,
        places: impl Iterator<Item = ((PodIdx, NodeIdx), i64)>,
    ) -> Stake {
        let mut room: BTreeMap<(NodeIdx, ResourceIdx), i64> = BTreeMap::new();
        let mut quota: BTreeMap<FrIdx, i64> = BTreeMap::new();
        for ((pod, node), price) in places {
            let pod = &self.pods[pod];
            for &(resource, amount) in self.room.ledger.request(pod.holds).entries() {
                resources::add(room.entry((node, resource)).or_default(), amount);
            }
            let set = assignment.and_then(|assignment| assignment.set(pod.shape));
            for &(fr, amount) in set.map_or(&[][..], |set| &set.charge) {
                let amount = if amount == BY_NODE { price } else { amount };
                resources::add(quota.entry(fr).or_default(), amount);
            }
        }
        Stake {
            queue: assignment.and_then(|assignment| assignment.queue),
            room: room.into_iter().collect(),
            quota: quota.into_iter().collect(),
        }
    }
}

/// Moves as much as there is from what is held to what is wanted, and tells of each.
fn take<K: Ord + Copy>(
    wanted: &mut BTreeMap<K, i64>,
    held: &mut [(K, i64)],
    mut given: impl FnMut(K, i64),
) {
    for (key, held) in held {
        let Some(want) = wanted.get_mut(key) else { continue };
        let amount = (*held).min(*want).max(0);
        *held -= amount;
        *want -= amount;
        given(*key, amount);
    }
}
