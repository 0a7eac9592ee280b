//! Members above the minimum, beside a gang that runs.
//!
//! Problem: extra members take what is idle, after everybody else. What they take is free now, but
//! a gang is stopped whole: with extras its queue may borrow, and a head that waits, and could take
//! nothing of this gang before, may then stop all of it. An hour of work would go for one member.
//! Work that starts by itself gives back what it took, and all of it.
//!
//! Wanted: as many extras as fit and put no work within reach of a head that waits already; the
//! others wait, and say for whom. Heads that come later find what runs, as always.
//!
//! Phases: place one after the other, each on top of those before it, in transactions that are set
//! aside -> if the queue then borrows, nominate each head that may reclaim from it, on top of all
//! of them -> if one of them would stop work there, look for the most extras with which none would
//! -> keep those. What is set aside is a transaction like any other: nothing is kept before.
//!
//! Restart: reads facts only. Cost: where the queue ends within its quota, or no head may reclaim
//! from it, nothing; else a nomination for each kind of work that waits there, the first
//! [`HEADS_MAX`], times the logarithm of the extras.

use std::collections::BTreeSet;

use crate::cycle::{Round, Verdict};
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::{QueueingStrategy, Text};
use crate::model::state::ClusterState;
use crate::model::txn::{SetAside, Txn};
use crate::time::Time;
use crate::victims::{Victim, candidates};

/// Heads that are asked whether they would stop work, in the order of queues: one for each kind of
/// work that waits. Beyond, nobody is asked.
const HEADS_MAX: usize = 64;

/// Why no further extras join, if it is because of whom they would expose.
type Exposure = Option<Reason>;

impl Engine {
    /// Extra members of elastic gangs, after everybody else.
    pub(crate) fn place_extras(&mut self, now: Time, round: &mut Round) {
        for workload in self.growing(false) {
            match self.holds_extras(workload) {
                None => self.grow(now, workload, round),
                why => {
                    let waiting = self.needy(workload);
                    self.extras_wait(workload, waiting.len() as u32, why);
                }
            }
        }
    }

    /// Places as many members as fit and expose nobody, one by one; how many did.
    pub(super) fn place_some(&mut self, workload: WorkloadIdx, groups: &[Vec<PodIdx>]) -> usize {
        self.try_some(workload, groups, true).0
    }

    /// Whom one more member would expose; `None`: nobody, or it has no place anyway.
    pub(super) fn exposes(&mut self, workload: WorkloadIdx, member: PodIdx) -> Exposure {
        self.try_some(workload, &[vec![member]], false).1
    }

    fn try_some(
        &mut self,
        workload: WorkloadIdx,
        groups: &[Vec<PodIdx>],
        keep: bool,
    ) -> (usize, Exposure) {
        let mut tried = Tried::default();
        for group in groups {
            for &pod in group {
                // Where one does not fit, no other of its shape does.
                if !self.try_next(workload, pod, &mut tried) {
                    break;
                }
                tried.members.push(pod);
            }
        }
        let why = self.cut(workload, &mut tried);
        let placed = tried.open.len();
        while let Some(aside) = tried.open.pop() {
            let txn = Txn::take_up(&mut self.state, aside);
            if keep {
                txn.commit();
            }
        }
        (placed, why)
    }

    /// Places a member on top of those before it; whether it fits.
    fn try_next(&mut self, workload: WorkloadIdx, pod: PodIdx, tried: &mut Tried) -> bool {
        let placed = self.put_beside(workload, &[pod]).map(Txn::set_aside);
        let fits = placed.is_some();
        tried.open.extend(placed);
        fits
    }

    /// Takes the last of those that were placed back until nobody is exposed, and no more.
    fn cut(&mut self, workload: WorkloadIdx, tried: &mut Tried) -> Exposure {
        let (mut safe, mut exposes) = (0, tried.open.len());
        let mut why = (exposes > 0).then(|| self.exposed(workload)).flatten();
        why.as_ref()?;
        while safe + 1 < exposes {
            let middle = safe + (exposes - safe) / 2;
            self.go_to(workload, tried, middle);
            match self.exposed(workload) {
                None => safe = middle,
                found => (exposes, why) = (middle, found),
            }
        }
        self.go_to(workload, tried, safe);
        why
    }

    /// So many of the members are placed, no more and no fewer.
    fn go_to(&mut self, workload: WorkloadIdx, tried: &mut Tried, count: usize) {
        while tried.open.len() > count {
            let last = tried.open.pop().expect("longer than that");
            drop(Txn::take_up(&mut self.state, last));
        }
        while tried.open.len() < count {
            let pod = tried.members[tried.open.len()];
            assert!(self.try_next(workload, pod, tried), "it was placed there before");
        }
    }

    /// Who would stop work in the branch of a gang's queue as things are.
    fn exposed(&mut self, workload: WorkloadIdx) -> Exposure {
        let queue = self.state.workloads[workload].assignment.as_ref()?.queue?;
        let (flavor, resource, borrowed) = self.borrowed_by(workload, queue)?;
        for (of, head) in self.reclaiming(workload, queue) {
            let Verdict::Preempt(victims) = self.nominate_afresh(head).verdict else { continue };
            let branch = branch(&self.state, queue, of);
            let hit = victims.iter().find(|victim| stands_in(&self.state, victim, &branch));
            let Some(hit) = hit else { continue };
            let name = |of: WorkloadIdx| self.state.workloads[of].full_name.clone();
            let queue_name = |of: QueueIdx| self.state.quota.queue(of).name.clone();
            return Some(Reason::Exposes {
                head: name(head),
                head_queue: queue_name(of),
                victim: name(hit.workload),
                cluster_queue: queue_name(queue),
                flavor,
                resource,
                borrowed,
            });
        }
        None
    }

    /// What of a gang's charges its queue borrows: flavor, resource, and how much.
    fn borrowed_by(&self, workload: WorkloadIdx, queue: QueueIdx) -> Option<(Text, Text, i64)> {
        let quota = &self.state.quota;
        let node = quota.queue(queue).node?;
        let mut charges = candidates::charges(&self.state, workload);
        let fr = charges.find(|fr| quota.tree.borrows(node, *fr, 0))?;
        let (flavor, resource) = quota.fr(fr);
        let borrowed = quota.tree.usage(node, fr).saturating_sub(quota.tree.nominal(node, fr));
        let resource = self.state.room.resources.name(resource).clone();
        Some((quota.flavor_name(flavor).clone(), resource, borrowed))
    }

    /// The first of each kind of work that waits in another queue and may reclaim from a gang: of a
    /// strict queue its head only.
    fn reclaiming(&self, workload: WorkloadIdx, queue: QueueIdx) -> Vec<(QueueIdx, WorkloadIdx)> {
        let mut found: Vec<(QueueIdx, WorkloadIdx)> = Vec::new();
        for (of, mut firsts) in self.waiting.firsts() {
            if of == queue {
                continue;
            }
            let slot = self.state.quota.queue(of);
            let Some(facts) = slot.facts.as_ref().filter(|_| slot.inactive.is_none()) else {
                continue;
            };
            self.state.in_queue_order(&mut firsts);
            if facts.strategy == QueueingStrategy::StrictFifo {
                firsts.truncate(1);
            }
            let may = |head: &_| candidates::could_take(&self.state, *head, Some(of), workload);
            found.extend(firsts.into_iter().filter(may).map(|head| (of, head)));
        }
        let order = |head: &(QueueIdx, WorkloadIdx)| self.state.queue_order(head.1);
        found.sort_by(|a, b| order(a).cmp(&order(b)));
        found.truncate(HEADS_MAX);
        found
    }
}

/// Members that were placed one on top of the other, in transactions that are set aside.
#[derive(Default)]
struct Tried {
    /// Members that fit, in order.
    members: Vec<PodIdx>,
    /// The way back from each of those that are placed.
    open: Vec<SetAside>,
}

/// A queue and the cohorts above it that another queue does not share.
fn branch(state: &ClusterState, queue: QueueIdx, other: QueueIdx) -> BTreeSet<QuotaIdx> {
    let up = |queue: QueueIdx| {
        let node = state.quota.queue(queue).node;
        std::iter::successors(node, |node| state.quota.tree.parent(*node))
    };
    let shared: BTreeSet<QuotaIdx> = up(other).collect();
    up(queue).filter(|node| !shared.contains(node)).collect()
}

/// Whether a victim that still runs holds quota in a branch.
fn stands_in(state: &ClusterState, victim: &Victim, branch: &BTreeSet<QuotaIdx>) -> bool {
    let assignment = state.workloads[victim.workload].assignment.as_ref();
    let queue = assignment.and_then(|assignment| assignment.queue);
    let node = queue.and_then(|queue| state.quota.queue(queue).node);
    let mut up = std::iter::successors(node, |node| state.quota.tree.parent(*node));
    !state.leaving(victim.workload) && up.any(|node| branch.contains(&node))
}
