//! Turns: groups that wait only because they would delay a reserved start.
//!
//! To look at one of them again is dear, and there may be thousands of different shapes. So what
//! wakes others only stirs them. If there may be more for them than there was they stand in line,
//! those that go first in their queues first, and a few of them are looked at in each step; who was
//! looked at goes to the back when they line up again. So nobody waits for ever, however often they
//! are stirred. Who comes forward, before the start that it is held for, stands in no line. Who is
//! parked keeps its reason until it is its turn.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use crate::engine::reservations::Stood;
use crate::engine::waiting::{HeadKey, Waiting};
use crate::explain::reason::Reason;
use crate::model::ids::{QueueIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::time::Time;

/// How a parked group comes to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What it waits for wakes it.
    None,
    /// It lines up if it is stirred.
    Waits,
    /// It stands in line.
    InLine,
}

/// How those who wait for their turn were stirred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stir {
    /// Amounts came free: it is to be found out whether that is more than there was.
    Perhaps,
    /// Something else changed: all of them are looked at.
    Surely,
}

/// Whether a group that was parked is looked at because it is its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Invited {
    /// It is not, or for another reason.
    #[default]
    No,
    /// It stood in line.
    InTurn,
    /// It came forward.
    Forward,
}

/// The line.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    /// Queue and group of each; some have left it since.
    line: VecDeque<(Option<QueueIdx>, usize)>,
    /// Those that came forward; some were looked at since.
    forward: BTreeSet<(Option<QueueIdx>, usize)>,
    stirred: Option<Stir>,
}

impl InTurn {
    /// Those who wait are to be looked at again.
    pub fn stir(&mut self, how: Stir) {
        self.stirred = self.stirred.max(Some(how));
    }

    /// A group stands in line, last.
    pub fn stand(&mut self, queue: Option<QueueIdx>, group: usize) {
        self.line.push_back((queue, group));
    }
}

impl Waiting {
    /// How those who wait for their turn were stirred since this was last asked.
    pub fn take_stir(&mut self) -> Option<Stir> {
        self.in_turn.stirred.take()
    }

    /// Whether anybody stands in line, or was stirred and does not yet.
    pub fn has_line(&self) -> bool {
        !self.in_turn.line.is_empty() || self.in_turn.stirred.is_some()
    }

    /// Shapes of those who wait for their turn, repeats possible.
    pub fn held_shapes(&self) -> impl Iterator<Item = ShapeIdx> + '_ {
        self.lines.values().flat_map(|line| {
            let held = |group: u32| {
                let parked = line.groups[group as usize].parked.as_ref();
                parked.is_some_and(|parked| parked.turn != Turn::None)
            };
            let groups = line.known.iter().filter(move |(_, group)| held(*group));
            groups.flat_map(|(key, _)| key.sets.iter().map(|(shape, _)| *shape))
        })
    }

    /// The first workload of a queue in the order in which they are looked at, be it parked or not.
    pub fn first(&self, queue: QueueIdx) -> Option<WorkloadIdx> {
        let line = self.lines.get(&Some(queue))?;
        let ranks = self.ranks.get(&queue);
        let firsts = line.groups.iter().filter_map(|group| {
            let (key, (workload, _)) = group.members.first_key_value()?;
            Some((ranks.map_or(0, |ranks| group.rank(ranks)), key, *workload))
        });
        let first = firsts.min_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
        first.map(|(.., workload)| workload)
    }

    /// The first `most` workloads of a queue, in the order in which they are looked at, be they
    /// parked or not.
    pub fn in_order(&self, queue: Option<QueueIdx>, most: usize) -> Vec<WorkloadIdx> {
        let Some(line) = self.lines.get(&queue) else { return Vec::new() };
        let ranks = queue.and_then(|queue| self.ranks.get(&queue));
        let firsts = line.groups.iter().flat_map(|group| {
            let rank = ranks.map_or(0, |ranks| group.rank(ranks));
            let members = group.members.iter().take(most);
            members.map(move |(key, (workload, _))| (rank, key, *workload))
        });
        let mut firsts: Vec<_> = firsts.collect();
        firsts.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        firsts.into_iter().take(most).map(|(.., workload)| workload).collect()
    }

    /// Whether anybody stands in line.
    pub fn anybody_in_line(&self) -> bool {
        !self.in_turn.line.is_empty()
    }

    /// All who wait for their turn and do not stand in line join it, by priority, then earlier.
    pub fn line_up(&mut self) {
        let mut joins: Vec<(Reverse<HeadKey>, Option<QueueIdx>, usize)> = Vec::new();
        for (queue, line) in &mut self.lines {
            for (at, group) in line.groups.iter_mut().enumerate() {
                let Some(parked) = group.parked.as_mut() else { continue };
                let Some((key, _)) = group.members.first_key_value() else { continue };
                if parked.turn == Turn::Waits {
                    parked.turn = Turn::InLine;
                    joins.push((key.clone(), *queue, at));
                }
            }
        }
        joins.sort_unstable();
        self.in_turn.line.extend(joins.into_iter().map(|(_, queue, group)| (queue, group)));
    }

    /// Files up to so many groups from the front of the line among those to look at; how many.
    pub fn invite(&mut self, most: usize) -> usize {
        let mut invited = 0;
        while invited < most
            && let Some((queue, group)) = self.in_turn.line.pop_front()
        {
            let Some(line) = self.lines.get_mut(&queue) else { continue };
            let Some(entry) = line.groups.get_mut(group) else { continue };
            if entry.parked.as_ref().is_none_or(|parked| parked.turn != Turn::InLine) {
                continue;
            }
            (entry.parked, entry.invited) = (None, Invited::InTurn);
            line.refresh(group);
            line.note_active(queue, &mut self.active);
            invited += 1;
        }
        invited
    }

    /// Files groups that wait for what heads keep back among those to look at; whether there are
    /// any.
    pub fn wake_held(&mut self, stir: Stir) -> bool {
        self.unpark(|_| true, |wake| wake.held, stir)
    }

    /// Notes where a workload that is held stands, for its group.
    pub fn note_stood(&mut self, index: WorkloadIdx, stood: Stood) {
        let Some((queue, group, _)) = self.filed.get(index) else { return };
        let line = self.lines.get_mut(queue).expect("filed under a line");
        if let Some(parked) = &mut line.groups[*group].parked {
            parked.stood = Some(Box::new(stood));
        }
    }

    /// The first of each group that is held, and where it stood when it was.
    pub fn stood(&self) -> impl Iterator<Item = (WorkloadIdx, &Stood)> {
        self.lines.values().flat_map(|line| &line.groups).filter_map(|group| {
            let stood = group.parked.as_ref()?.stood.as_deref()?;
            let (first, _) = group.members.values().next()?;
            Some((*first, stood))
        })
    }

    /// Files the groups of some workloads among those to look at, before all that stand in line.
    pub fn bring_forward(&mut self, those: &[WorkloadIdx]) {
        let lines = &self.lines;
        self.in_turn.forward.retain(|(queue, group)| {
            let group = lines.get(queue).and_then(|line| line.groups.get(*group));
            group.is_some_and(|group| group.invited == Invited::Forward)
        });
        for index in those {
            let Some(&(queue, group, _)) = self.filed.get(*index) else { continue };
            let line = self.lines.get_mut(&queue).expect("filed under a line");
            let entry = &mut line.groups[group];
            (entry.parked, entry.invited) = (None, Invited::Forward);
            line.refresh(group);
            line.note_active(queue, &mut self.active);
            self.in_turn.forward.insert((queue, group));
        }
    }

    /// The first of each group that came forward and was not looked at since, with its queue.
    pub fn came_forward(&self) -> impl Iterator<Item = (Option<QueueIdx>, WorkloadIdx)> {
        self.in_turn.forward.iter().filter_map(move |(queue, group)| {
            let group = self.lines.get(queue)?.groups.get(*group)?;
            let first = group.first.filter(|_| group.invited == Invited::Forward)?;
            Some((*queue, first))
        })
    }

    /// Nobody stands in line any more: there is nothing for them. They wait as before.
    pub fn dismiss(&mut self) {
        for (queue, group) in std::mem::take(&mut self.in_turn.line) {
            let line = self.lines.get_mut(&queue);
            let entry = line.and_then(|line| line.groups.get_mut(group));
            let parked = entry.and_then(|entry| entry.parked.as_mut());
            if let Some(parked) = parked.filter(|parked| parked.turn == Turn::InLine) {
                parked.turn = Turn::Waits;
            }
        }
    }

    /// Whether a workload is looked at because it is its turn.
    pub fn is_invited(&self, index: WorkloadIdx) -> bool {
        let Some((queue, group, _)) = self.filed.get(index) else { return false };
        let group = self.lines.get(queue).map(|line| &line.groups[*group]);
        group.is_some_and(|group| group.invited != Invited::No)
    }

    /// A head starts at another time: who waits in turn for its sake says so. The first of each
    /// such group, which stands for all, with its reason.
    pub fn restate(&mut self, of: &Text, to: Time) -> Vec<(WorkloadIdx, Reason)> {
        let mut restated = Vec::new();
        for group in self.lines.values_mut().flat_map(|line| &mut line.groups) {
            let Some(parked) = &mut group.parked else { continue };
            match &mut parked.why {
                Reason::Reserved { head, start, .. } if head == of && *start != to => *start = to,
                _ => continue,
            }
            let others = parked.others.as_ref().map(|(_, others)| others);
            let stays = |key: &Reverse<HeadKey>| others.is_none_or(|it| !it.contains_key(key));
            let mut stay = group.members.iter().filter(|(key, _)| stays(key));
            restated.extend(stay.next().map(|(_, (first, _))| (*first, parked.why.clone())));
        }
        restated
    }

    /// Compares the line with the groups that stand in it.
    ///
    /// # Panics
    /// When one stands there that is not in it.
    pub(super) fn recount_turns(&self) {
        for (queue, line) in &self.lines {
            for (at, group) in line.groups.iter().enumerate() {
                let stands = group.parked.as_ref().is_some_and(|it| it.turn == Turn::InLine);
                assert!(!stands || self.in_turn.line.contains(&(*queue, at)), "it is in line");
                let invited = group.invited != Invited::No;
                assert!(group.parked.is_none() || !invited, "invited, and looked at");
                let forward = group.invited == Invited::Forward;
                assert!(!forward || self.in_turn.forward.contains(&(*queue, at)), "it is known");
            }
        }
    }
}
