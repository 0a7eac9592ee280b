//! Work that waits, per queue, in order.
//!
//! Equal work (same priority, shapes, sizes, roles and wishes) forms one group: when its first
//! member does not fit, the whole group is parked without looking at the others, and what wakes it
//! wakes it whole. So a round costs the number of different shapes that wait, not the number of
//! workloads. Where priorities are equal who is older may stop who is newer: whoever joins a parked
//! group and is older than the one that was looked at wakes it. Who had so many turns that it
//! stops nobody to borrow is equal only to those who rest until the same time. Order: higher
//! priority, then earlier in the queue, then uid. A group outlives its members; [`Waiting::sweep`]
//! forgets those without any. Where a member waits only because it would run too long, those that
//! end sooner are looked at all the same, and the group itself in turn ([`in_turn`]).

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasherDefault;

use capstan_topology::Interner;
use priority_queue::PriorityQueue;

use crate::engine::reservations::Stood;
use crate::explain::reason::Reason;
use crate::model::ids::{FlavorIdx, QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{Text, TopologyWish};
use crate::model::roles::RoleKinds;
use crate::model::workload::Workload;
use crate::quota::history::QueueName;
use crate::time::{Span, Time};
use crate::victims::turns::Rest;
use in_turn::{InTurn, Invited, Stir, Turn};

mod by_flavor;
mod equals;
pub(crate) mod in_turn;
mod out_of_quota;

/// Fixed seed: two engines with the same inputs behave the same.
type FixedHasher = BuildHasherDefault<crate::model::lookup::Mixer>;

/// Position in a queue; greater goes first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadKey {
    /// Priority.
    pub priority: i32,
    /// Earlier first.
    pub at: Reverse<Time>,
    /// Last tie.
    pub uid: Reverse<Text>,
}

/// What makes two waiting workloads equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    priority: i32,
    /// Which nominated pods it goes before.
    lowest_priority: i32,
    sets: Vec<(ShapeIdx, u32)>,
    min_member: u32,
    never_preempts: bool,
    topology: TopologyWish,
    /// Which members may begin in the stead of which.
    roles: Option<Box<RoleKinds>>,
    local: Option<QueueName>,
    /// Until then it stops nobody to borrow.
    rests: Option<Rest>,
}

/// What wakes a parked group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Room on nodes came free, or nodes changed.
    pub room: bool,
    /// Quota came free in its queue's tree.
    pub quota: bool,
    /// Heads keep other amounts back than before.
    pub held: bool,
}

/// How long work says that it runs, in whole seconds, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunTime(u32);

impl RunTime {
    /// Nobody says.
    pub const UNKNOWN: RunTime = RunTime(u32::MAX);

    /// A run time that was declared or learned.
    pub fn of(span: Span) -> RunTime {
        let seconds = span.0.max(0).div_euclid(1_000) + i64::from(span.0.rem_euclid(1_000) > 0);
        RunTime(u32::try_from(seconds).unwrap_or(u32::MAX))
    }
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<Reverse<HeadKey>, (WorkloadIdx, RunTime)>,
    /// The first of the members that may be looked at.
    first: Option<WorkloadIdx>,
    parked: Option<Parked>,
    /// It was parked, and it is its turn.
    invited: Invited,
    /// The LocalQueue that it is ranked by.
    local: Option<QueueName>,
}

/// A group that is not looked at for now.
#[derive(Debug)]
struct Parked {
    wake: Wake,
    /// What the member that was looked at met. It stands for all, whoever comes or goes.
    why: Reason,
    /// When that one took its place.
    at: Time,
    /// Only members that run longer than a limit are parked; the others.
    others: Option<(RunTime, BTreeMap<Reverse<HeadKey>, WorkloadIdx>)>,
    turn: Turn,
    /// It waits for nodes of these flavors, and had quota of them (`out_of_quota`).
    nodes_of: Option<Vec<FlavorIdx>>,
    /// Where the one that was looked at stood when it was held.
    stood: Option<Box<Stood>>,
}

/// Waiting work of one queue.
#[derive(Debug, Default)]
struct Line {
    groups: Vec<Group>,
    known: Interner<GroupKey>,
    heads: PriorityQueue<usize, HeadKey, FixedHasher>,
    /// It stands among those with something to look at.
    active: bool,
}

/// Waiting work of all queues; `None` is the implicit queue of work without one.
#[derive(Debug, Default)]
pub struct Waiting {
    lines: BTreeMap<Option<QueueIdx>, Line>,
    /// Of queues whose LocalQueues take turns: the place of each, the first is 0.
    pub(super) ranks: BTreeMap<QueueIdx, BTreeMap<QueueName, usize>>,
    /// Queues with something to look at.
    active: BTreeSet<Option<QueueIdx>>,
    filed: Filed,
    /// Something came free, or changed, since this was last asked.
    woken: bool,
    /// Groups of all lines, those without members included.
    groups: usize,
    in_turn: InTurn,
}

/// Where each workload is filed, by its slot: one look where a map would take four.
#[derive(Debug, Default)]
struct Filed {
    slots: Vec<Option<(WorkloadIdx, Place)>>,
}

/// Queue, group and position.
type Place = (Option<QueueIdx>, usize, HeadKey);

impl Filed {
    fn get(&self, index: WorkloadIdx) -> Option<&Place> {
        let (filed, place) = self.slots.get(index.slot())?.as_ref()?;
        (*filed == index).then_some(place)
    }

    fn insert(&mut self, index: WorkloadIdx, place: Place) {
        if self.slots.len() <= index.slot() {
            self.slots.resize_with(index.slot() + 1, || None);
        }
        let old = self.slots[index.slot()].replace((index, place));
        assert!(old.is_none(), "a workload is filed once, and taken out before it is gone");
    }

    fn remove(&mut self, index: WorkloadIdx) -> Option<Place> {
        self.get(index)?;
        self.slots[index.slot()].take().map(|(_, place)| place)
    }
}

impl Waiting {
    /// Files a workload under its queue, by when it took its place there; `local`: the LocalQueue
    /// that it is ranked by, if it is; `rests`: until when it stops nobody to borrow; `roles`: if
    /// they have minimums. A group that is parked stays parked, unless this one is older than the
    /// one that was looked at.
    pub fn insert(
        &mut self,
        queue: Option<QueueIdx>,
        index: WorkloadIdx,
        (workload, at, runs): (&Workload, Time, RunTime),
        (local, rests, roles): (Option<QueueName>, Option<Rest>, Option<Box<RoleKinds>>),
    ) {
        self.remove(index);
        let (priority, uid) = (workload.priority, Reverse(workload.uid.clone()));
        let key = HeadKey { priority, at: Reverse(at), uid };
        let group = GroupKey {
            priority,
            lowest_priority: workload.lowest_priority,
            sets: workload.sets.iter().map(|set| (set.shape, set.ready)).collect(),
            min_member: workload.min_member,
            never_preempts: workload.never_preempts,
            topology: workload.topology().clone(),
            roles,
            local: local.clone(),
            rests,
        };
        let line = self.lines.entry(queue).or_default();
        let group = line.known.find(&group).unwrap_or_else(|| {
            self.groups += 1;
            line.known.add(group)
        });
        let group = group as usize;
        line.groups.resize_with(line.known.slots(), Group::default);
        line.groups[group].local = local;
        line.groups[group].parked.take_if(|parked| at < parked.at);
        line.groups[group].add(key.clone(), (index, runs));
        line.refresh(group);
        line.note_active(queue, &mut self.active);
        self.filed.insert(index, (queue, group, key));
    }

    /// Takes a workload out.
    pub fn remove(&mut self, index: WorkloadIdx) {
        let Some((queue, group, key)) = self.filed.remove(index) else { return };
        let line = self.lines.get_mut(&queue).expect("filed under a line");
        line.groups[group].take(key);
        line.refresh(group);
        line.note_active(queue, &mut self.active);
    }

    /// Queues with something to look at, the implicit one not among them.
    pub fn active(&self) -> impl Iterator<Item = QueueIdx> + '_ {
        self.active.iter().filter_map(|queue| *queue)
    }

    /// The first workload of a queue that is not parked.
    pub fn head(&self, queue: Option<QueueIdx>) -> Option<WorkloadIdx> {
        let line = self.lines.get(&queue)?;
        let Some(ranks) = queue.and_then(|queue| self.ranks.get(&queue)) else {
            let (group, _) = line.heads.peek()?;
            return line.groups[*group].first;
        };
        let place = |group: usize| Reverse(line.groups[group].rank(ranks));
        let first = line.heads.iter().max_by_key(|(group, key)| (place(**group), *key));
        first.and_then(|(group, _)| line.groups[*group].first)
    }

    /// Places of LocalQueues, of all queues where they take turns.
    pub fn rank(&mut self, ranks: BTreeMap<QueueIdx, BTreeMap<QueueName, usize>>) {
        self.ranks = ranks;
    }

    /// Places of the LocalQueues of one queue.
    pub fn rank_queue(&mut self, queue: QueueIdx, ranks: BTreeMap<QueueName, usize>) {
        self.ranks.insert(queue, ranks);
    }

    /// The queue of a workload that waits there and is not parked, whoever goes before it.
    pub fn to_look_at(&self, index: WorkloadIdx) -> Option<Option<QueueIdx>> {
        let (queue, group, key) = self.filed.get(index)?;
        let group = &self.lines.get(queue)?.groups[*group];
        group.parked_as(key).is_none().then_some(*queue)
    }

    /// Parks a workload together with all that are equal to it, for which its reason stands.
    pub fn park(&mut self, index: WorkloadIdx, wake: Wake, why: Reason) {
        self.park_some(index, (wake, Turn::None), why, None);
    }

    /// Parks a workload together with those of its equals that run longer than a limit, as it does
    /// itself. They are woken by themselves, or looked at in turn.
    pub fn park_longer(
        &mut self,
        index: WorkloadIdx,
        most: RunTime,
        woken: (Wake, Turn),
        why: Reason,
    ) {
        self.park_some(index, woken, why, Some(most));
    }

    fn park_some(
        &mut self,
        index: WorkloadIdx,
        (wake, turn): (Wake, Turn),
        why: Reason,
        most: Option<RunTime>,
    ) {
        let Some((queue, group, key)) = self.filed.get(index) else { return };
        let (queue, group, at) = (*queue, *group, key.at.0);
        let line = self.lines.get_mut(&queue).expect("filed under a line");
        let others = most.map(|most| (most, line.groups[group].within(most)));
        if turn == Turn::InLine {
            self.in_turn.stand(queue, group);
        }
        let (nodes_of, stood) = (None, None);
        line.groups[group].parked = Some(Parked { wake, why, at, others, turn, nodes_of, stood });
        line.groups[group].invited = Invited::No;
        line.refresh(group);
        line.note_active(queue, &mut self.active);
    }

    /// Wakes parked groups of the queues that match.
    pub fn wake(
        &mut self,
        queues: impl Fn(Option<QueueIdx>) -> bool,
        groups: impl Fn(Wake) -> bool,
    ) {
        self.woken = true;
        self.unpark(queues, groups, Stir::Surely);
    }

    /// The same where nothing but amounts of room or quota came free: for who waits in turn there
    /// may be no more than there was.
    pub fn wake_by_amounts(
        &mut self,
        queues: impl Fn(Option<QueueIdx>) -> bool,
        groups: impl Fn(Wake) -> bool,
    ) {
        self.woken = true;
        self.unpark(queues, groups, Stir::Perhaps);
    }

    /// Wakes parked groups with members of such shapes, if they wait for room.
    pub fn wake_shapes(&mut self, concerned: impl Fn(ShapeIdx) -> bool) {
        self.woken = true;
        for (queue, line) in &mut self.lines {
            let of = |key: &GroupKey| key.sets.iter().any(|(shape, _)| concerned(*shape));
            let known = line.known.iter().filter(|(key, _)| of(key));
            let groups: Vec<usize> = known.map(|(_, group)| group as usize).collect();
            for group in groups {
                if let Some(true) = line.wake_group(group, |wake| wake.room) {
                    self.in_turn.stir(Stir::Surely);
                }
            }
            line.note_active(*queue, &mut self.active);
        }
    }

    /// Files all groups of a queue among those to look at.
    pub fn look_again(&mut self, queue: Option<QueueIdx>) {
        self.unpark(|other| other == queue, |_| true, Stir::Surely);
    }

    /// Files groups of some queues that wait for quota among those to look at; whether there are
    /// any.
    pub fn wake_quota(&mut self, queues: impl Fn(Option<QueueIdx>) -> bool) -> bool {
        self.unpark(queues, |wake| wake.quota, Stir::Surely)
    }

    fn unpark(
        &mut self,
        queues: impl Fn(Option<QueueIdx>) -> bool,
        groups: impl Fn(Wake) -> bool,
        stir: Stir,
    ) -> bool {
        let mut any = false;
        for (queue, line) in self.lines.iter_mut().filter(|(queue, _)| queues(**queue)) {
            for group in 0..line.groups.len() {
                match line.wake_group(group, &groups) {
                    Some(true) => self.in_turn.stir(stir),
                    Some(false) => any = true,
                    None => {}
                }
            }
            line.note_active(*queue, &mut self.active);
        }
        any
    }

    /// Whether anything woke since this was last asked; heads of strict queues are never parked,
    /// and look at their flavors anew then.
    pub fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// The head of each queue that has one to look at.
    pub fn heads(&self) -> Vec<WorkloadIdx> {
        self.active.iter().filter_map(|queue| self.head(*queue)).collect()
    }

    /// Whether anything waits in a queue.
    pub fn any(&self, queue: QueueIdx) -> bool {
        let line = self.lines.get(&Some(queue));
        line.is_some_and(|line| line.groups.iter().any(|group| !group.members.is_empty()))
    }

    /// Whether a workload is filed.
    pub fn contains(&self, index: WorkloadIdx) -> bool {
        self.filed.get(index).is_some()
    }

    /// How many of its queue go before a workload.
    pub fn ahead(&self, index: WorkloadIdx) -> Option<usize> {
        let (queue, own, key) = self.filed.get(index)?;
        let line = self.lines.get(queue)?;
        let ranks = queue.and_then(|queue| self.ranks.get(&queue));
        let rank = |group: &Group| ranks.map_or(0, |ranks| group.rank(ranks));
        let own = rank(&line.groups[*own]);
        let before = |group: &Group| match rank(group).cmp(&own) {
            Ordering::Less => group.members.len(),
            Ordering::Equal => group.members.range(..Reverse(key.clone())).count(),
            Ordering::Greater => 0,
        };
        Some(line.groups.iter().map(before).sum())
    }

    /// Queues that something waits in, the implicit one among them, in no order that is told.
    pub fn lines(&self) -> impl Iterator<Item = Option<QueueIdx>> + '_ {
        self.lines.keys().copied()
    }

    /// Why the equals of a workload are parked, itself included: what the one that was looked at
    /// for all of them met.
    pub fn why(&self, index: WorkloadIdx) -> Option<&Reason> {
        let (queue, group, key) = self.filed.get(index)?;
        let group = &self.lines.get(queue)?.groups[*group];
        group.parked_as(key).map(|parked| &parked.why)
    }

    /// Says anew why the equals of a workload are parked.
    pub fn say(&mut self, index: WorkloadIdx, why: Reason) {
        let Some((queue, group, _)) = self.filed.get(index) else { return };
        let line = self.lines.get_mut(queue).expect("filed under a line");
        if let Some(parked) = &mut line.groups[*group].parked {
            parked.why = why;
        }
    }

    /// Members of up to `most` parked groups, each in order, by queue.
    pub fn refused(&self, most: usize) -> Vec<Vec<WorkloadIdx>> {
        let groups = self.lines.values().flat_map(|line| &line.groups);
        let whole = |group: &&Group| group.parked.as_ref().is_some_and(|it| it.others.is_none());
        let all = |group: &Group| group.members.values().map(|(workload, _)| *workload).collect();
        groups.filter(whole).take(most).map(all).collect()
    }

    /// For each queue, the implicit one among them, the first of every group, parked or not, in no
    /// order.
    pub fn firsts(&self) -> impl Iterator<Item = (Option<QueueIdx>, Vec<WorkloadIdx>)> + '_ {
        self.lines.iter().map(|(queue, line)| {
            let first = |group: &Group| Some(group.members.first_key_value()?.1.0);
            (*queue, line.groups.iter().filter_map(first).collect())
        })
    }

    /// Forgets groups without members, and queues without groups.
    pub fn sweep(&mut self) {
        self.groups = 0;
        self.lines.retain(|_, line| {
            line.sweep();
            self.groups += line.known.len();
            !line.known.is_empty()
        });
        let last = self.filed.slots.iter().rposition(Option::is_some);
        self.filed.slots.truncate(last.map_or(0, |last| last + 1));
    }

    /// Number of groups, those without members included.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Shapes that groups were made for.
    pub fn shapes(&self) -> impl Iterator<Item = ShapeIdx> + '_ {
        let groups = self.lines.values().flat_map(|line| line.known.iter());
        groups.flat_map(|(key, _)| key.sets.iter().map(|(shape, _)| *shape))
    }

    /// Queues that work waits in, or did since the last sweep.
    pub fn queues(&self) -> impl Iterator<Item = QueueIdx> + '_ {
        self.lines.keys().filter_map(|queue| *queue)
    }

    /// Counts groups and heads again.
    ///
    /// # Panics
    /// When they differ from what is kept.
    pub fn recount(&self) {
        let groups: usize = self.lines.values().map(|line| line.known.len()).sum();
        assert_eq!(self.groups, groups, "groups of all lines");
        self.recount_turns();
        for line in self.lines.values() {
            line.known.recount();
            let given = line.known.given();
            for (at, group) in line.groups.iter().enumerate() {
                assert!(given[at] || group.members.is_empty(), "members of a forgotten group");
                let others = group.parked.iter().find_map(|it| it.others.as_ref());
                if let Some((most, others)) = others {
                    assert_eq!(*others, group.within(*most), "those of group {at} not parked");
                }
                let key = group.head().map(|(Reverse(key), _)| key);
                assert_eq!(line.heads.get_priority(&at), key, "head of group {at}");
            }
        }
        let heads = self.lines.iter().filter(|(_, line)| !line.heads.is_empty());
        assert!(self.active.iter().eq(heads.map(|(queue, _)| queue)), "lines with heads");
    }
}

impl Group {
    /// The place of its LocalQueue.
    fn rank(&self, ranks: &BTreeMap<QueueName, usize>) -> usize {
        self.local.as_ref().and_then(|local| ranks.get(local)).copied().unwrap_or(0)
    }

    fn add(&mut self, key: HeadKey, (workload, runs): (WorkloadIdx, RunTime)) {
        if let Some((most, others)) = self.parked.iter_mut().find_map(|it| it.others.as_mut())
            && runs <= *most
        {
            others.insert(Reverse(key.clone()), workload);
        }
        self.members.insert(Reverse(key), (workload, runs));
    }

    fn take(&mut self, key: HeadKey) {
        let key = Reverse(key);
        self.members.remove(&key);
        if let Some((_, others)) = self.parked.iter_mut().find_map(|it| it.others.as_mut()) {
            others.remove(&key);
        }
    }

    /// Members that run no longer than this.
    fn within(&self, most: RunTime) -> BTreeMap<Reverse<HeadKey>, WorkloadIdx> {
        let within = self.members.iter().filter(|(_, (_, runs))| *runs <= most);
        within.map(|(key, (workload, _))| (key.clone(), *workload)).collect()
    }

    /// How a member is parked, if it is.
    fn parked_as(&self, key: &HeadKey) -> Option<&Parked> {
        let looked_at = |parked: &&Parked| {
            let others = parked.others.as_ref();
            others.is_some_and(|(_, others)| others.contains_key(&Reverse(key.clone())))
        };
        self.parked.as_ref().filter(|parked| !looked_at(parked))
    }

    /// The first member to look at.
    fn head(&self) -> Option<(&Reverse<HeadKey>, WorkloadIdx)> {
        match &self.parked {
            None => self.members.first_key_value().map(|(key, (workload, _))| (key, *workload)),
            Some(Parked { others: Some((_, others)), .. }) => {
                others.first_key_value().map(|(key, workload)| (key, *workload))
            }
            Some(_) => None,
        }
    }
}

impl Line {
    fn sweep(&mut self) {
        let used: Vec<bool> = self.groups.iter().map(|group| !group.members.is_empty()).collect();
        self.known.sweep(&used, &mut self.groups, |group| *group = Group::default());
        if self.heads.capacity() / 4 > self.heads.len() {
            self.heads.shrink_to_fit();
        }
    }

    /// Wakes a parked group that something like this wakes; whether it waits for its turn, and is
    /// left. `None`: it was not parked, or waits for something else.
    fn wake_group(&mut self, group: usize, wakes: impl Fn(Wake) -> bool) -> Option<bool> {
        let parked = self.groups[group].parked.as_ref().filter(|parked| wakes(parked.wake))?;
        if parked.turn != Turn::None {
            return Some(true);
        }
        self.groups[group].parked = None;
        self.refresh(group);
        Some(false)
    }

    /// Keeps a group's place among the heads: its first member's, unless it is parked or empty.
    fn refresh(&mut self, group: usize) {
        let entry = &mut self.groups[group];
        if entry.members.is_empty() {
            (entry.parked, entry.invited) = (None, Invited::No);
        }
        let first = entry.head().map(|(_, workload)| workload);
        // Who is first still stands where it did: to stand elsewhere it is taken out and added.
        if std::mem::replace(&mut entry.first, first) == first {
            return;
        }
        match self.groups[group].head().map(|(Reverse(key), _)| key.clone()) {
            Some(key) => _ = self.heads.push(group, key),
            None => _ = self.heads.remove(&group),
        }
    }

    /// Keeps its queue among those with something to look at, or not.
    fn note_active(&mut self, queue: Option<QueueIdx>, active: &mut BTreeSet<Option<QueueIdx>>) {
        let any = !self.heads.is_empty();
        if std::mem::replace(&mut self.active, any) != any {
            match any {
                true => active.insert(queue),
                false => active.remove(&queue),
            };
        }
    }
}
