//! Members of a gang that are of use only together: its replicas.
//!
//! Problem: what a source calls one replica may be several pods (a group of Ray workers with
//! `numOfHosts`, which is one slice of accelerators). Half of one holds devices and does nothing.
//!
//! Decides who is in one replica: members that say the same name; where they say none, all of a
//! role are as good as each other, and any so many of them are one. A gang begins with whole
//! replicas, and members above its minimum join replica by replica; those of one that is not whole
//! wait. Where members of a replica died, those that stand in for them join by themselves, once all
//! of them are there.
//!
//! Cost: gangs without replicas a look at members that wait; others a look at each member.

use std::collections::BTreeMap;

use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::model::pod::Pod;
use crate::model::state::ClusterState;

/// A role, and what a replica of it is called.
type Key<'a> = (Option<&'a Text>, Option<&'a Text>);

/// Members of one replica; or of a role, for those that say no name.
struct Pool {
    /// It is one replica.
    one: bool,
    /// Members of a replica.
    size: u32,
    /// Members that have a place, those apart that are being deleted.
    placed: u32,
    /// Members that could have one.
    free: Vec<PodIdx>,
}

impl Pool {
    /// Members that its replica, or the one of its replicas that is begun, lacks to be whole.
    fn lacks(&self) -> u32 {
        match self.one {
            true => self.size.saturating_sub(self.placed),
            false => self.size - self.placed % self.size,
        }
    }

    /// Whether enough members could have a place for a replica to be whole.
    fn whole(&self) -> bool {
        !self.free.is_empty() && self.free.len() >= self.lacks() as usize
    }

    /// Those of its members that join together.
    fn lots(&self) -> Vec<Vec<PodIdx>> {
        if !self.whole() {
            return Vec::new();
        }
        if self.one {
            return vec![self.free.clone()];
        }
        let (begun, others) = self.free.split_at(self.lacks() as usize);
        let others = others.chunks_exact(self.size as usize);
        std::iter::once(begun).chain(others).map(<[PodIdx]>::to_vec).collect()
    }
}

impl ClusterState {
    /// Who of those that wait join together, in their groups: who is in no replica alone; with the
    /// first of a replica all that it lacks; of a replica that is not whole nobody.
    pub(crate) fn lots(
        &self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
    ) -> Vec<Vec<Vec<PodIdx>>> {
        let pools = self.pools(workload, groups.iter().flatten().copied());
        let lots = pools.values().flat_map(Pool::lots);
        let mut by_first: BTreeMap<PodIdx, Vec<PodIdx>> =
            lots.map(|lot: Vec<PodIdx>| (lot[0], lot)).collect();
        let mut joining = Vec::with_capacity(groups.len());
        for group in groups {
            let lot = |pod: &PodIdx| match replica_of(&self.pods[*pod]) {
                None => Some(vec![*pod]),
                Some(_) => by_first.remove(pod),
            };
            joining.push(group.iter().filter_map(lot).collect());
        }
        joining
    }

    /// Why the first of members that wait does, whose replica is not whole.
    pub(crate) fn not_whole(&self, workload: WorkloadIdx, waiting: &[PodIdx]) -> Option<Reason> {
        let (key, _) = replica_of(&self.pods[*waiting.first()?])?;
        let pools = self.pools(workload, waiting.iter().copied());
        let pool = pools.get(&key)?;
        let need = pool.placed.saturating_add(pool.lacks());
        let have = pool.placed.saturating_add(pool.free.len() as u32);
        Some(Reason::RoleGathering { role: key.1.or(key.0)?.clone(), have, need })
    }

    /// Members without a place in the order in which a gang begins with them: first those that
    /// make a replica whole of which some have one, then those of whole replicas, who is in none
    /// where it stands, at last those of replicas that are not whole.
    pub(super) fn whole_replicas_first(
        &self,
        workload: WorkloadIdx,
        mut free: Vec<PodIdx>,
    ) -> Vec<PodIdx> {
        let pools = self.pools(workload, free.iter().copied());
        if !pools.values().any(|pool| pool.one) {
            return free;
        }
        let numbered = free.iter().enumerate().map(|(at, pod)| (*pod, at));
        let at: BTreeMap<PodIdx, usize> = numbered.collect();
        free.sort_by_cached_key(|pod| {
            let pool = replica_of(&self.pods[*pod]).and_then(|(key, _)| pools.get(&key));
            let Some(pool) = pool.filter(|pool| pool.one) else { return (1, at[pod], at[pod]) };
            let rank = match (pool.whole(), pool.placed) {
                (true, 0) => 1,
                (true, _) => 0,
                (false, _) => 2,
            };
            (rank, at[&pool.free[0]], at[pod])
        });
        free
    }

    /// The first replica that a gang would begin with though it is not whole: fewer members exist,
    /// or some have gates.
    pub(super) fn lacking_replica(&self, workload: WorkloadIdx) -> Option<Reason> {
        let members = &self.workloads[workload].members;
        let free = members.iter().copied().filter(|pod| self.pods[*pod].free());
        let pools = self.pools(workload, free);
        let pods = || members.iter().map(|pod| &self.pods[*pod]);
        let mut begun = pods().filter(|pod| pod.needs_place()).filter_map(replica_of);
        let part = |pool: &Pool| pool.one && !pool.whole();
        let (key, size) = begun.find(|(key, _)| pools.get(key).is_some_and(part))?;
        let of_replica = |pod: &&Pod| replica_of(pod).is_some_and(|(of, _)| of == key);
        let all: Vec<&Pod> = pods().filter(|pod| pod.counts_itself()).filter(of_replica).collect();
        let gated = all.iter().filter(|pod| pod.gated).count() as u32;
        match all.len() as u32 {
            have if have < size => {
                Some(Reason::RoleGathering { role: key.1?.clone(), have, need: size })
            }
            _ => Some(Reason::Gated { pods: gated }),
        }
    }

    /// Replicas of a workload, with those of these members that are in them.
    fn pools(
        &self,
        workload: WorkloadIdx,
        free: impl Iterator<Item = PodIdx>,
    ) -> BTreeMap<Key<'_>, Pool> {
        let mut pools: BTreeMap<Key<'_>, Pool> = BTreeMap::new();
        for pod in free {
            if let Some((key, size)) = replica_of(&self.pods[pod]) {
                pool_of(&mut pools, key, size).free.push(pod);
            }
        }
        if pools.is_empty() {
            return pools;
        }
        let placed = self.placed(workload).map(|pod| &self.pods[pod]);
        for (key, size) in placed.filter(|pod| pod.stays()).filter_map(replica_of) {
            pool_of(&mut pools, key, size).placed += 1;
            // A pod with a name takes the place that was kept for one without.
            if key.1.is_some() {
                pool_of(&mut pools, (key.0, None), size).placed += 1;
            }
        }
        pools
    }
}

fn pool_of<'p, 'k>(
    pools: &'p mut BTreeMap<Key<'k>, Pool>,
    key: Key<'k>,
    size: u32,
) -> &'p mut Pool {
    let one = key.1.is_some();
    pools.entry(key).or_insert_with(|| Pool { one, size, placed: 0, free: Vec::new() })
}

/// The replica of a member, and how many are in it.
fn replica_of(pod: &Pod) -> Option<(Key<'_>, u32)> {
    let roles = pod.gang.roles.as_ref()?;
    let replica = roles.replica.as_ref()?;
    Some(((roles.own.as_ref(), replica.name.as_ref()), replica.size.max(1)))
}
