//! Victims: whom to stop so that a workload fits, and nobody more.
//!
//! Problem: free quota and nodes for one preemptor, taking what is borrowed and of lowest
//! priority first, whole gangs only, and nothing at all unless the whole preemptor then fits, on
//! nodes too.
//!
//! Phases: [`candidates`] lists who may go, `order` in which order (classical preemption of Kueue);
//! the search takes them one by one inside a transaction until quota fits, then until nodes fit
//! (`in_order`), and finally gives back, last first, everyone who turns out not to be needed.
//! Candidates that are already leaving come first, whatever the order of the others: taking them
//! costs nothing more, and giving them back would save nothing. PodDisruptionBudgets are a
//! preference among those of one kind (`guarded`). Work without a queue is taken only for room on
//! nodes, before anyone in a queue. While fair sharing is on, shares decide who comes next and who
//! may be taken at all: `fair`, `targets`; who takes too many turns takes only what it owns, with
//! or without shares: `turns`. Nobody is stopped by a share on a start that others waited for:
//! `lasting`. Who could not help stays out of it: `frees`.
//!
//! Victims are whole workloads here. Which of them run with more members than they need, and may
//! lose some and go on, is found out once they are certain (`cycle/parts.rs`), and whether others
//! of that kind lose some in their stead (`cycle/instead.rs`).
//!
//! Who leaves is not always what matters, but from where. A pod that is alone and in no queue
//! clears one node, as with kube-scheduler: `stands` says who could leave each node and what that
//! would cost at least, `focus` which node it is. For others that is what comes after the usual
//! order, where what they may take is a budget that must not be spent on nodes that hold nobody
//! even then. And whoever wants others near, or spreads among them, may find no node any more once
//! those have left: then they stay, and the others are tried; where some of them must leave after
//! all the rest stay in turn (`near`).
//!
//! Cost: one removal and one check per candidate; a check reads the quota path and one index. Where
//! nodes have room anyway, as under quotas that are smaller than the cluster, a removal is one of
//! what the candidate is charged, and nodes are not looked at again.

use capstan_topology::{DomainIdx, NodeIdx, ResourceIdx};

use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, FrIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::PreemptReclaim;
use crate::model::state::ClusterState;
use crate::model::txn::Txn;
use crate::model::workload::QueueRef;
use crate::place::coupled;
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::plan::PreemptionReason;
use crate::quota::share::Share;
use crate::time::Time;
use crate::victims::candidates::{Candidate, Kind};
use crate::victims::fair::Sharing;
use crate::victims::removed::{Extent, Removed, Taken};

mod all_gone;
mod by_quota;
pub mod candidates;
mod fair;
mod fits;
mod focus;
mod frees;
mod guarded;
mod in_order;
pub mod lasting;
mod near;
mod order;
mod own_first;
mod recall;
mod removed;
mod stands;
mod targets;
mod trial;
pub mod turns;
mod within;

pub use all_gone::{once_all_left, once_anybody_left};
pub(crate) use order::refused_of_late;
pub(crate) use recall::Searched;

/// What must fit once the victims are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// What the preemptor will charge.
    pub usage: Vec<(FrIdx, i64)>,
    /// Flavors and resources that are short: victims for quota must hold one of them. None: all
    /// of it fits by quota.
    pub contested: Vec<FrIdx>,
    /// Members per class that must find nodes.
    pub asks: Vec<(ClassIdx, u32)>,
    /// Shapes of all members that come together, if what some find may depend on others.
    pub together: Vec<ShapeIdx>,
    /// Topology asked.
    pub topology: TopologyAsk,
    /// Members of the preemptor that run, shape and node, where levels or slices keep those that
    /// are asked for beside them.
    pub peers: Vec<(ShapeIdx, NodeIdx)>,
    /// Where all that are asked for must go for their sake, if that is one domain.
    pub home: Option<DomainIdx>,
}

impl Need {
    /// Whether a member may go to a node as far as those are concerned that run.
    fn is_home(&self, state: &ClusterState, node: NodeIdx) -> bool {
        let tree = &state.room.tree;
        let Some(domain) = self.home.map(|home| tree.domain(home)) else { return true };
        tree.position(node).is_some_and(|at| (domain.start..domain.end).contains(&at))
    }

    /// Resources that members count against quota, `pods` apart.
    fn asked(&self, state: &ClusterState) -> Vec<ResourceIdx> {
        let shapes = self.asks.iter().map(|(class, _)| state.classes.class(*class).key.shape);
        let mut asked: Vec<ResourceIdx> = shapes.flat_map(|shape| state.asked(shape)).collect();
        asked.retain(|resource| *resource != crate::resources::PODS);
        let pays = self.usage.iter().any(|(fr, _)| state.quota.is_money(*fr));
        asked.extend(pays.then_some(crate::resources::USD));
        asked.sort_unstable();
        asked.dedup();
        asked
    }
}

/// A victim and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// The workload.
    pub workload: WorkloadIdx,
    /// Why.
    pub reason: PreemptionReason,
}

/// Candidates that one search looks at, at most. Far above any real reclaim; it bounds a round on
/// a cluster full of tiny lower-priority work.
pub const CANDIDATES_MAX: usize = 20_000;

/// Who leaves so that the need fits; `Err`: nothing allowed would do, for lack of this. In the
/// transaction quota is free of them then, and of nodes nothing is said; the caller rolls back.
pub fn search_in(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
) -> Result<Vec<Victim>, Lack> {
    search(txn, preemptor, need, (&[], Extent::Quota))
}

/// Like [`search_in`] for several shapes: `members` must all find nodes together.
pub fn search_for(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    members: &[Ask],
) -> Result<Vec<Victim>, Lack> {
    search(txn, preemptor, need, (members, Extent::Quota))
}

/// Like [`search_for`]; victims are removed from their nodes too inside the transaction.
pub fn search_exact(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    members: &[Ask],
) -> Result<Vec<Victim>, Lack> {
    search(txn, preemptor, need, (members, Extent::Whole))
}

fn search(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    (members, extent): (&[Ask], Extent),
) -> Result<Vec<Victim>, Lack> {
    if txn.state().workloads[preemptor].never_preempts {
        return Err(Lack::Quota);
    }
    if let Some(found) = recall::found_before(txn, preemptor, need, (members, extent)) {
        return found;
    }
    let untouched = txn.untouched();
    let found = search_anew(txn, preemptor, need, (members, extent));
    if untouched && members.is_empty() {
        recall::remember(txn, preemptor, need, &found);
    }
    found
}

fn search_anew(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    (members, extent): (&[Ask], Extent),
) -> Result<Vec<Victim>, Lack> {
    let mut search = Search::new(txn, preemptor, need, members);
    search.extent = extent;
    let room = txn.state().claims.is_empty() || !search.wants_quota_alone(txn);
    let wanted = (need, &search.asked[..], room);
    let mut list = candidates::collect(txn.state(), preemptor, search.queue, wanted);
    if search.alone {
        list.keep_all();
    }
    let attempts = search.attempts(txn, list.any_order());
    let tried = if search.in_vain(txn, list.any_order()) { &[] } else { attempts };
    let mut room = false;
    for attempt in tried {
        match search.attempt_first(txn, &mut list, *attempt) {
            Ok(victims) => return Ok(victims),
            Err(lack) => room |= lack == For::Room,
        }
    }
    if !room {
        if let Some((workload, until)) = search.lasting(txn) {
            return Err(Lack::Lasts { workload, until });
        }
        let list = list.any_order();
        if let Some((queue, own, most)) = search.largest_share(txn, list) {
            return Err(Lack::Share { queue, own, most });
        }
        if let Some(times) = search.stopped {
            return Err(Lack::Turns(times));
        }
        if search.sharing.is_some() {
            return Err(Lack::Quota);
        }
        let reclaimed = list.iter().any(|c| c.kind.elsewhere() && c.quota);
        let borrowed = search.borrowed(txn).filter(|_| reclaimed && !search.may_borrow(txn));
        return Err(borrowed.map_or(Lack::Quota, Lack::WouldBorrow));
    }
    if list.were_cut() {
        txn.note_end(&need.asks, SearchBound::Victims(CANDIDATES_MAX as u32));
    }
    let list = list.ordered(txn.state(), need);
    // Borrowers leave only for one that borrows nothing. Where nodes are what is short, the own
    // queue may have to make place within its quota for that.
    let has = |wanted: fn(Kind) -> bool| list.iter().any(|c| c.room && wanted(c.kind));
    // By shares own work leaves for that in its turn.
    let turns = search.sharing.is_some();
    search.own_too = !turns && has(Kind::elsewhere) && has(|kind| kind == Kind::WithinQueue);
    let last = attempts.iter().rfind(|attempt| **attempt != Attempt::Borrowing);
    let last = last.copied().unwrap_or(Attempt::RoomOnly);
    let found = search.own_too.then(|| search.attempt(txn, list, last).ok()).flatten();
    let found = found.or_else(|| search.attempt_whatever_budgets(txn, list, tried));
    found.ok_or(Lack::Room)
}

/// What `tell` says once all have left, in number, who may be stopped for a need that quota would
/// do for then ([`Lack::Room`]), as far as quota allows; nothing stays removed.
pub fn with_all_gone<R>(
    txn: &mut Txn<'_>,
    preemptor: WorkloadIdx,
    need: &Need,
    members: &[Ask],
    mut tell: impl FnMut(&mut Txn<'_>, u32) -> R,
) -> Option<R> {
    let search = Search::new(txn, preemptor, need, members);
    let wanted = (need, &search.asked[..], true);
    let mut list = candidates::collect(txn.state(), preemptor, search.queue, wanted);
    let list = list.ordered(txn.state(), need);
    let start = txn.checkpoint();
    let mut told = None;
    for attempt in search.attempts(txn, list) {
        let mut removed = Removed::default();
        search.charge(txn, *attempt, true);
        if search.take_for_quota(txn, list, *attempt, &mut removed) {
            search.make_room(txn, list, *attempt, &mut removed);
            told = Some(tell(txn, removed.taken.len() as u32));
        }
        txn.rollback_to(start);
        if told.is_some() {
            break;
        }
    }
    told
}

struct Search<'a> {
    queue: Option<QueueIdx>,
    /// Of the preemptor.
    priority: i32,
    need: &'a Need,
    members: &'a [Ask],
    /// Resources that members ask of nodes.
    asked: Vec<ResourceIdx>,
    /// Where members go depends on each other, and may on who stays: fewer that are there need not
    /// make more room.
    coupled: bool,
    /// Members that are charged money, which depends on where they go.
    payers: Vec<Ask>,
    /// Some look at who is around them, so who goes back may make the last one's leaving needless.
    looks: bool,
    /// Kinds of members for which others may open nodes.
    open: Vec<ClassIdx>,
    /// Own work may leave for quota whatever of it is short.
    own_too: bool,
    /// How shares decide; `None`: classical preemption.
    sharing: Option<Sharing>,
    /// It had so many turns of late that it stops others only within its own quota.
    stopped: Option<u32>,
    /// What of victims must be gone in the end.
    extent: Extent,
    /// It is one pod in no queue, which any node will do for: it clears one node.
    alone: bool,
}

/// What is short although all who may be stopped would leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Quota.
    Quota,
    /// Quota; others hold some of it who may be stopped only for one that borrows nothing, and it
    /// would borrow this.
    WouldBorrow(FrIdx),
    /// Quota; nobody who holds some of it has a larger share than the preemptor would have.
    Share {
        /// The queue whose side has the largest.
        queue: QueueIdx,
        /// Share of the preemptor's side, as if it ran.
        own: Share,
        /// That of the other side.
        most: Share,
    },
    /// Quota; somebody who holds some of it has a larger share, and no share stops it for now.
    Lasts {
        /// Who that is.
        workload: WorkloadIdx,
        /// Until when.
        until: Time,
    },
    /// Quota; it had so many turns of late that it stops others only within its own quota.
    Turns(u32),
    /// Room on nodes, in one domain if that is asked.
    Room,
}

/// What a candidate is taken for, or what is still short.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// Quota.
    Quota,
    /// Room on nodes, in one domain if that is asked.
    Room,
}

/// What an attempt allows. Borrowers of other queues that may be stopped only for one that borrows
/// nothing ([`Kind::WithoutBorrowing`]) are the ones that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// It may borrow itself; then they stay.
    Borrowing,
    /// It borrows nothing; they leave for quota and for room.
    Within,
    /// It borrows nothing; they leave for room on nodes alone. So for one that may not take quota
    /// back: it holds as much as it owns already, and pays for quota with its own work. By shares
    /// nobody else leaves for one that rests and pays with that.
    RoomOnly,
    /// It may borrow itself, its usage is charged, and shares decide who leaves.
    Sharing,
}

impl Attempt {
    /// Whether someone of this kind may leave for it.
    fn takes(self, kind: Kind, what: For) -> bool {
        match (kind, self) {
            (Kind::Sharing, _) => self == Attempt::Sharing,
            (Kind::WithoutBorrowing, Attempt::Borrowing | Attempt::Sharing) => false,
            (Kind::WithoutBorrowing, Attempt::RoomOnly) => what == For::Room,
            _ => true,
        }
    }

    /// Whether someone's turn comes in the order of the list: where shares decide, not that of
    /// those whom they choose.
    fn goes_by_order(self, candidate: &Candidate) -> bool {
        self != Attempt::Sharing || !candidate.kind.by_share()
    }
}

impl<'a> Search<'a> {
    fn new(
        txn: &mut Txn<'_>,
        preemptor: WorkloadIdx,
        need: &'a Need,
        members: &'a [Ask],
    ) -> Search<'a> {
        let queue = match txn.state().workloads[preemptor].queue {
            QueueRef::Queue(queue) => Some(queue),
            _ => None,
        };
        let asked = need.asked(txn.state());
        let mut open: Vec<ClassIdx> = need.asks.iter().map(|(class, _)| *class).collect();
        open.retain(|class| coupled::waits_for(txn, *class, &need.together));
        let coupled = gang::are_coupled(txn, members);
        let state = txn.state();
        let mut shapes = need.asks.iter().map(|(class, _)| state.classes.class(*class).key.shape);
        let looks = shapes.any(|it| state.room.shape(it).facts.neighbours.is_some());
        let stopped = state.turns.spent(&state.workloads[preemptor].full_name, state.now);
        let stopped = stopped.filter(|_| queue.is_some());
        let sharing = queue.and_then(|queue| Sharing::of(state, queue, need, stopped));
        let payers = fits::payers(state, preemptor, need);
        let priority = txn.state().workloads[preemptor].priority;
        let (first, state) = (need.asks.first(), txn.state());
        let topology = first.map(|(class, _)| need.topology.of_class(state, *class));
        let TopologyAsk { required, slices, .. } = topology.unwrap_or(need.topology);
        let anywhere = required.is_none() && slices.is_none();
        let alone = queue.is_none() && anywhere && matches!(need.asks[..], [(_, 1)]);
        Search {
            queue,
            priority,
            need,
            members,
            asked,
            coupled,
            payers,
            looks,
            open,
            own_too: false,
            sharing,
            stopped,
            extent: Extent::Whole,
            alone,
        }
    }

    /// Whether it may stop others elsewhere while it borrows itself.
    fn may_borrow(&self, txn: &Txn<'_>) -> bool {
        self.queue.is_none_or(|queue| {
            let facts = txn.state().quota.queue(queue).facts.as_ref();
            let policy = facts.expect("only existing queues have heads").preemption;
            policy.while_borrowing.is_some()
        })
    }

    /// What it would borrow.
    fn borrowed(&self, txn: &Txn<'_>) -> Option<FrIdx> {
        let quota = &txn.state().quota;
        let node = quota.queue(self.queue?).node.expect("the queue exists");
        let borrows = |(fr, amount): &&(FrIdx, i64)| quota.tree.borrows(node, *fr, *amount);
        self.need.usage.iter().find(borrows).map(|(fr, _)| *fr)
    }

    /// Whether to try with borrowing, without, or both, and in which order.
    fn attempts(&self, txn: &Txn<'_>, list: &[Candidate]) -> &'static [Attempt] {
        if self.sharing.is_some() {
            // Who rests has the place of who stands behind it in its queue, within its own quota.
            return match self.stopped {
                None => &[Attempt::Sharing],
                Some(_) => &[Attempt::Sharing, Attempt::RoomOnly],
            };
        }
        let Some(queue) = self.queue else { return &[Attempt::Borrowing] };
        let borrow = self.may_borrow(txn);
        let others = list.iter().any(|c| c.kind.elsewhere() && c.quota);
        let hierarchical = list.iter().any(|c| c.kind == Kind::Hierarchical && c.quota);
        let under = self.need.contested.iter().all(|fr| {
            let node = txn.state().quota.queue(queue).node.expect("the queue exists");
            let tree = &txn.state().quota.tree;
            tree.usage(node, *fr) < tree.nominal(node, *fr)
        });
        if self.stopped.is_some() {
            // To borrow it stops nobody for now.
            let owner = others && (borrow || under);
            return if owner { &[Attempt::Within] } else { &[Attempt::RoomOnly] };
        }
        if !others || (!borrow && !under) {
            // Who leaves for room alone may be reclaimed by one that borrows nothing itself.
            let room = list.iter().any(|c| c.kind.elsewhere() && c.room);
            if room { &[Attempt::Borrowing, Attempt::RoomOnly] } else { &[Attempt::Borrowing] }
        } else if !borrow && !hierarchical && !self.amounts_fit(txn, Attempt::Borrowing) {
            &[Attempt::Within, Attempt::Borrowing]
        } else {
            &[Attempt::Borrowing, Attempt::Within]
        }
    }

    fn attempt(
        &self,
        txn: &mut Txn<'_>,
        list: &[Candidate],
        attempt: Attempt,
    ) -> Result<Vec<Victim>, For> {
        match attempt {
            Attempt::Sharing => self.attempt_by_share(txn, list),
            _ => Ok(self.victims(&self.attempt_as_charged(txn, list, attempt)?)),
        }
    }

    /// Who was removed, and why.
    fn victims(&self, removed: &Removed<'_>) -> Vec<Victim> {
        let victim = |taken: &Taken<'_>| Victim {
            workload: taken.candidate.workload,
            reason: self.reason(taken.candidate),
        };
        removed.taken.iter().map(victim).collect()
    }
}

/// Whether a queue's blocked head keeps what it could use, so that others of its round do not
/// borrow it: not when it may reclaim from anyone later.
pub fn holds_back(policy: PreemptReclaim) -> bool {
    policy != PreemptReclaim::Any
}
