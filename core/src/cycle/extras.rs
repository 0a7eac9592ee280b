//! Members above the minimum, beside a gang that runs.
//!
//! Problem: extra members take what is idle, after everybody else. What they take is free now, but
//! a gang is stopped whole: for a member that its queue borrows for, all of it may be taken back,
//! and with it what has less priority in the queue. Somebody who waits for room may not gain enough
//! by that today, and do so when the next job ends. Work that starts by itself gives back what it
//! took, and no more.
//!
//! Wanted: extras never take what the head of a strict queue keeps back, and their queue borrows
//! nothing for them while work waits elsewhere that owns what it asks, could take back what is
//! lent, and would fit into the cluster if it were empty; nor while such work is being stopped for
//! others, whose owner is suspended: it queues again; nor while members of another gang that runs
//! would stop some of it for that ([`reclaimers`](super::reclaimers)). What has no queue takes
//! nothing for which it would be stopped once those have left who are leaving for others
//! ([`once_gone`](super::once_gone)). The others join; those that wait say for whom. In their own
//! queue they pass heads like any smaller work does. They stop nobody, but for those that are work
//! of their own ([`joining`](super::joining)).
//!
//! Members that are of use only together ([`replicas`](crate::model)) join together.
//!
//! Phases: strict heads keep back what they kept in this round -> each member, or replica, is
//! placed in a transaction of its own -> if the queue borrows what it charges, the first who could
//! reclaim is looked for -> nobody: kept; else rolled back.
//!
//! Restart: reads facts only. Cost: where the queue ends within its quota nothing; else once for
//! each gang a look at the kinds of work that wait or are being stopped, as far as the first that
//! could reclaim, and for those that own what they ask at nodes, until enough hold it. What has no
//! queue is in [`once_gone`](super::once_gone).

use std::collections::BTreeSet;

use capstan_topology::ResourceIdx;

use crate::cycle::{Head, Round, beside};
use crate::engine::Engine;
use crate::explain::reason::{Reason, Waits};
use crate::model::held::Held;
use crate::model::ids::{FlavorIdx, FrIdx, PodIdx, QueueIdx, QuotaIdx, WorkloadIdx};
use crate::model::input::QueueingStrategy;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;
use crate::place::classes::Scoring;
use crate::plan::State;
use crate::quota::build::Group;
use crate::quota::flavors::SetDemand;
use crate::resources;
use crate::time::Time;
use crate::victims::candidates;

/// Who could stop a gang because of its extra members, once looked for: what its queue borrows for
/// them could be reclaimed, or it has none.
#[derive(Default)]
struct Owners {
    /// The first that waits.
    waits: Option<Option<(QueueIdx, WorkloadIdx)>>,
    /// Gangs that run, for members of theirs.
    run: Option<Vec<(QueueIdx, WorkloadIdx)>>,
    /// Whoever goes before a gang without a queue, and may stop it once others have left.
    once_gone: Option<Vec<Head>>,
}

impl Engine {
    /// Extra members of elastic gangs, after everybody else.
    pub(crate) fn place_extras(&mut self, now: Time, round: &mut Round) {
        let growing = self.growing(false);
        if growing.is_empty() {
            return;
        }
        self.reclaimers.forget();
        self.keep_back_strict();
        for workload in growing {
            match self.holds_extras(workload) {
                // It was stopped meanwhile for members of another one.
                _ if !self.growth.contains(&workload) => {}
                None => self.grow(now, workload, round),
                why => {
                    let waiting = self.needy(workload);
                    self.extras_wait(workload, waiting.len() as u32, why);
                }
            }
        }
        self.state.let_go();
    }

    /// Heads of strict queues keep back what they kept in this round. Those of others do so for one
    /// round only: what comes later passes them.
    pub(super) fn keep_back_strict(&mut self) {
        let quota = &self.state.quota;
        let strict = |held: &Held| {
            let facts = quota.queue(held.queue).facts.as_ref();
            facts.is_some_and(|facts| facts.strategy == QueueingStrategy::StrictFifo)
        };
        let kept: Vec<Held> = self.standing(None).filter(strict).collect();
        kept.into_iter().for_each(|held| self.state.hold(held));
    }

    /// What all heads but one that wait where they did kept back in the last round.
    pub(crate) fn kept_by_others(&self, except: WorkloadIdx) -> Vec<Held> {
        self.standing(Some(except)).collect()
    }

    /// The same of all of them, or all but one; within a round, of those who had no turn in it yet.
    pub(crate) fn standing(&self, except: Option<WorkloadIdx>) -> impl Iterator<Item = Held> + '_ {
        let workloads = &self.state.workloads;
        let stands = move |held: &Held| {
            let by = workloads.get(held.by).filter(|_| Some(held.by) != except);
            by.is_some_and(|by| {
                by.state == State::Queued && by.queue == QueueRef::Queue(held.queue)
            })
        };
        self.kept_back.standing().filter(stands)
    }

    /// Places as many members as may join, one by one, or replica by replica; whether any did.
    pub(super) fn place_some(&mut self, workload: WorkloadIdx, groups: &[Vec<PodIdx>]) -> bool {
        let (mut grown, mut owners) = (false, Owners::default());
        for lots in self.state.lots(workload, groups) {
            // Where some do not join, no others of their shape do that are no fewer and stand no
            // higher.
            let mut refused: Option<(i32, usize)> = None;
            for lot in lots {
                let priority = self.state.pods[lot[0]].priority;
                if refused.is_some_and(|(most, few)| priority <= most && lot.len() >= few) {
                    continue;
                }
                match self.extras_join(workload, &lot, &mut owners, true) {
                    Ok(true) => grown = true,
                    _ => refused = Some((priority, lot.len())),
                }
            }
        }
        grown
    }

    /// Whether the first who join together in some group would find places beside the others, as
    /// things are.
    pub(super) fn would_join(&mut self, workload: WorkloadIdx, groups: &[Vec<PodIdx>]) -> bool {
        let lots = self.state.lots(workload, groups);
        let mut firsts = lots.iter().filter_map(|lots| lots.first());
        firsts.any(|lot| self.extras_join(workload, lot, &mut Owners::default(), false) == Ok(true))
    }

    /// For whom members that have places wait, told of the first such; `None`: for nobody.
    pub(super) fn exposes(
        &mut self,
        workload: WorkloadIdx,
        lots: &[Vec<PodIdx>],
    ) -> beside::Refusal {
        let (mut owners, mut last) = (Owners::default(), None);
        lots.iter().find_map(|lot| {
            let first = &self.state.pods[lot[0]];
            let alike = (first.shape, first.priority, lot.len());
            if last.replace(alike) == Some(alike) {
                return None;
            }
            self.extras_join(workload, lot, &mut owners, false).err()
        })
    }

    /// Whether members that join together find places and quota beside the others, or why they
    /// take neither though both are there. Kept, or only tried.
    fn extras_join(
        &mut self,
        workload: WorkloadIdx,
        lot: &[PodIdx],
        owners: &mut Owners,
        keep: bool,
    ) -> Result<bool, Reason> {
        let passed = self.state.pass_nominated_for(lot);
        let joins = self.join_now(workload, lot, owners, keep);
        self.state.restore_nominated(passed);
        joins
    }

    fn join_now(
        &mut self,
        workload: WorkloadIdx,
        lot: &[PodIdx],
        owners: &mut Owners,
        keep: bool,
    ) -> Result<bool, Reason> {
        let Some(txn) = self.put_beside(workload, lot) else { return Ok(false) };
        let borrowed = lot.iter().find_map(|pod| borrowed_by(txn.state(), *pod));
        let aside = txn.set_aside();
        let why = borrowed.and_then(|(queue, fr)| {
            let by = self.who_takes_back(queue, owners)?;
            Some(self.exposed_to(by, queue, fr))
        });
        let why = why.or_else(|| self.stopped_once_gone(workload, &mut owners.once_gone));
        let why = why.or_else(|| self.delayed_by_member(workload));
        let txn = Txn::take_up(&mut self.state, aside);
        match why {
            Some(why) => Err(why),
            None => {
                if keep {
                    txn.commit();
                }
                Ok(true)
            }
        }
    }

    /// For whom work of a queue would be stopped that borrows for members that have their places.
    fn who_takes_back(
        &mut self,
        from: QueueIdx,
        owners: &mut Owners,
    ) -> Option<(QueueIdx, WorkloadIdx)> {
        let waits = *owners.waits.get_or_insert_with(|| self.who_may_reclaim(from));
        waits.or_else(|| {
            let run = owners.run.get_or_insert_with(|| self.reclaim_for_members(from));
            run.iter().copied().find(|(_, other)| self.would_stop(*other, from))
        })
    }

    /// Why no member joins, of whom so many of the first shape would together, told apart: what is
    /// not there, or what heads keep back.
    pub(super) fn no_place_or_kept(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        most: u32,
    ) -> beside::Refusal {
        let kept = self.state.let_go();
        let by_itself = self.no_place(workload, waiting, most);
        self.state.hold_again(kept);
        let first = *waiting.first()?;
        by_itself
            .or_else(|| self.kept_from(workload, first, most))
            .or_else(|| self.no_place(workload, waiting, most))
    }

    /// Who keeps back what so many members like this one would charge.
    fn kept_from(&mut self, workload: WorkloadIdx, pod: PodIdx, pods: u32) -> Option<Reason> {
        let assignment = self.with_all_shapes(workload, &[pod]).ok()?;
        let (quota, shape) = (&self.state.quota, self.state.pods[pod].shape);
        let node = quota.queue(assignment.queue?).node?;
        let charge = assignment.set(shape)?.charge.iter();
        let charge = charge.map(|&(fr, each)| (fr, each.saturating_mul(pods.into())));
        let mut lacks = charge.map(|(fr, asked)| (fr, asked, quota.tree.available(node, fr)));
        let (fr, asked, left) = lacks.find(|(_, asked, left)| left < asked)?;
        self.who_keeps_back(fr, (asked, left))
    }

    fn exposed_to(
        &self,
        (head_queue, head): (QueueIdx, WorkloadIdx),
        queue: QueueIdx,
        fr: FrIdx,
    ) -> Reason {
        let quota = &self.state.quota;
        let (flavor, resource) = quota.fr(fr);
        let node = quota.queue(queue).node.expect("it borrows");
        let borrowed = quota.tree.usage(node, fr).saturating_sub(quota.tree.nominal(node, fr));
        Reason::Exposes {
            head: self.state.workloads[head].full_name.clone(),
            head_queue: quota.queue(head_queue).name.clone(),
            cluster_queue: quota.queue(queue).name.clone(),
            flavor: quota.flavor_name(flavor).clone(),
            resource: self.state.room.resources.name(resource).clone(),
            borrowed,
            waits: self.waits_how(head),
        }
    }

    /// What of somebody waits for whose sake others wait.
    pub(super) fn waits_how(&self, head: WorkloadIdx) -> Waits {
        match self.waiting.contains(head) {
            true => Waits::Whole,
            false if self.state.leaving(head) => Waits::OnceStopped,
            false => Waits::Members,
        }
    }

    /// The first in order of all that waits elsewhere, or is being stopped and queues again, owns
    /// what it asks, and could take back what a queue borrows: of each kind of work the first, of
    /// what waits in a strict queue its head only.
    fn who_may_reclaim(&mut self, from: QueueIdx) -> Option<(QueueIdx, WorkloadIdx)> {
        let state = &self.state;
        let mut found: Vec<(QueueIdx, WorkloadIdx)> = Vec::new();
        for (queue, mut firsts) in self.waiting.firsts() {
            let Some(queue) = queue else { continue };
            let slot = state.quota.queue(queue);
            let active = slot.facts.as_ref().filter(|_| slot.inactive.is_none());
            let Some(facts) = active.filter(|_| queue != from) else { continue };
            state.in_queue_order(&mut firsts);
            if facts.strategy == QueueingStrategy::StrictFifo {
                firsts.truncate(1);
            }
            let may = |head: &_| candidates::could_reclaim(state, *head, queue, from);
            found.extend(firsts.into_iter().filter(may).map(|head| (queue, head)));
        }
        found.extend(self.who_queue_again(from));
        found.sort_by(|a, b| state.queue_order(a.1).cmp(&state.queue_order(b.1)));
        found.into_iter().find(|head| {
            let sets = match self.state.leaving(head.1) {
                true => self.least_demands_anew(head.1),
                false => self.least_demands(head.1),
            };
            self.could_own(*head, &sets, from)
        })
    }

    /// Who is being stopped for others and queues again elsewhere, since its owner is suspended,
    /// and could take back what a queue borrows: the first of each kind, in queue order.
    fn who_queue_again(&self, from: QueueIdx) -> Vec<(QueueIdx, WorkloadIdx)> {
        let state = &self.state;
        let mut victims = state.claims.victims();
        state.in_queue_order(&mut victims);
        let (mut kinds, mut found) = (BTreeSet::new(), Vec::new());
        for victim in victims.into_iter().filter(|victim| self.queues_again(*victim)) {
            let entry = &state.workloads[victim];
            let &QueueRef::Queue(queue) = &entry.queue else { continue };
            let slot = state.quota.queue(queue);
            let admits = slot.facts.is_some() && slot.inactive.is_none();
            if queue != from && admits && candidates::could_reclaim(state, victim, queue, from) {
                let asks = self.demands_anew(victim).into_iter().map(|set| (set.shape, set.count));
                if kinds.insert((queue, entry.priority, asks.collect::<Vec<_>>())) {
                    found.push((queue, victim));
                }
            }
        }
        found
    }

    /// Whether what is being stopped queues again: its owner is suspended.
    pub(super) fn queues_again(&self, victim: WorkloadIdx) -> bool {
        let owner = self.state.owner_of(victim);
        self.state.leaving(victim) && owner.is_some_and(|owner| owner.may_be_suspended())
    }

    /// Whether work could run in flavors that its queue, or a cohort around it that does not hold
    /// the other queue, owns, or that it may take back though it borrows; on nodes where nothing
    /// runs. Each set by itself, and all within the sum of the flavors, beside what it holds.
    pub(super) fn could_own(
        &mut self,
        (queue, head): (QueueIdx, WorkloadIdx),
        sets: &[SetDemand],
        other: QueueIdx,
    ) -> bool {
        let own = Own::of(&self.state, (queue, head), other);
        let groups = self.state.quota.queue(queue).groups.clone();
        let in_all = self.asked(sets).into_iter().all(|(resource, amount)| {
            let group = groups.iter().find(|group| group.covered.contains(&resource));
            group.is_none_or(|group| own.sum(&self.state, group, resource) >= amount)
        });
        in_all && sets.iter().all(|set| self.could_own_set(&own, &groups, set))
    }

    fn could_own_set(&mut self, own: &Own, groups: &[Group], set: &SetDemand) -> bool {
        let asked = self.asked(std::slice::from_ref(set));
        let known = |of: &ResourceIdx| groups.iter().any(|group| group.covered.contains(of));
        if asked.iter().any(|(of, _)| !known(of) && *of != resources::PODS) {
            return false;
        }
        groups.iter().all(|group| {
            let covered = |of: &&(ResourceIdx, i64)| group.covered.contains(&of.0);
            let part: Vec<_> = asked.iter().filter(covered).copied().collect();
            let mut flavors = group.flavors.iter();
            part.is_empty()
                || flavors.any(|flavor| {
                    let quota = &self.state.quota;
                    let owned = part.iter().all(|&(of, amount)| {
                        let fr = quota.find_fr(*flavor, of);
                        fr.is_some_and(|fr| own.most(&self.state, fr) >= amount)
                    });
                    owned && self.fits_when_empty(set, *flavor)
                })
        })
    }

    /// What all sets count against quota together.
    fn asked(&self, sets: &[SetDemand]) -> Vec<(ResourceIdx, i64)> {
        let room = &self.state.room;
        let mut asked: Vec<(ResourceIdx, i64)> = Vec::new();
        for set in sets {
            for &(resource, each) in room.counted(set.shape).entries() {
                let amount = each.saturating_mul(set.count.into());
                match asked.iter_mut().find(|(of, _)| *of == resource) {
                    Some((_, sum)) => *sum = sum.saturating_add(amount),
                    None => asked.push((resource, amount)),
                }
            }
        }
        asked
    }

    /// Whether members of a shape would find nodes of a flavor by themselves if nothing ran.
    fn fits_when_empty(&mut self, set: &SetDemand, flavor: FlavorIdx) -> bool {
        let mut txn = Txn::begin(&mut self.state);
        // How well it suits does not matter.
        let class = txn.class(set.shape, &[flavor], Scoring::default());
        let ClusterState { room, classes, .. } = txn.state();
        let request = room.ledger.request(room.shape(set.shape).request);
        let mut left = i64::from(set.count);
        let mut nodes = room.tree.order().iter();
        nodes.any(|node| {
            if classes.accepts(room, class, *node) {
                let holds = request.entries().iter().filter(|(_, each)| *each > 0);
                let holds = holds.map(|(of, each)| room.ledger.allocatable(*node, *of) / each);
                left = left.saturating_sub(holds.min().unwrap_or(left));
            }
            left <= 0
        })
    }
}

/// What a queue may claim as its own from another one.
struct Own {
    queue: QuotaIdx,
    /// The queue, and the cohorts around it that do not hold the other one.
    branch: Vec<QuotaIdx>,
    /// It may also take back while it borrows.
    borrows: bool,
    /// What its members charge that run and are not being stopped.
    held: Vec<(FrIdx, i64)>,
}

impl Own {
    fn of(state: &ClusterState, (queue, head): (QueueIdx, WorkloadIdx), other: QueueIdx) -> Own {
        let tree = &state.quota.tree;
        let up = |queue: QueueIdx| {
            std::iter::successors(state.quota.queue(queue).node, |node| tree.parent(*node))
        };
        let shared: Vec<QuotaIdx> = up(other).collect();
        // Who is being stopped gives all of that back before it comes.
        let runs = state.placed(head).filter(|_| !state.leaving(head));
        let charges = runs.flat_map(|pod| state.charges_of(pod));
        Own {
            queue: state.quota.queue(queue).node.expect("it shares a tree"),
            branch: up(queue).take_while(|node| !shared.contains(node)).collect(),
            borrows: candidates::could_reclaim_while_borrowing(state, head, queue, other),
            held: charges.map(|(_, fr, amount)| (fr, amount)).collect(),
        }
    }

    /// How much more of a flavor and resource may be its own, whichever others use it now.
    fn most(&self, state: &ClusterState, fr: FrIdx) -> i64 {
        let tree = &state.quota.tree;
        let potential = tree.potential(self.queue, fr);
        // What is below a cohort may use all that the cohort owns, and beside it what it lends to
        // nobody.
        let (mut owned, mut unlent) = (0, 0_i64);
        for &node in &self.branch {
            owned = owned.max(tree.owned(node, fr).saturating_add(unlent));
            unlent = unlent.saturating_add(tree.unlent(node, fr));
        }
        let all = if self.borrows { potential } else { potential.min(owned) };
        let held = self.held.iter().filter(|(of, _)| *of == fr).map(|(_, amount)| *amount);
        all.saturating_sub(resources::total(held)).max(0)
    }

    /// How much of a resource in all flavors of a group.
    fn sum(&self, state: &ClusterState, group: &Group, resource: ResourceIdx) -> i64 {
        let frs = group.flavors.iter().filter_map(|f| state.quota.find_fr(*f, resource));
        resources::total(frs.map(|fr| self.most(state, fr)))
    }
}

/// The queue that a placed member charges, if it borrows something that the member charges.
fn borrowed_by(state: &ClusterState, pod: PodIdx) -> Option<(QueueIdx, FrIdx)> {
    let mut charges = state.charges_of(pod);
    charges.find_map(|(queue, fr, _)| {
        let node = state.quota.queue(queue).node?;
        state.quota.tree.borrows(node, fr, 0).then_some((queue, fr))
    })
}
