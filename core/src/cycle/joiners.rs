//! With whom of its roles a gang that runs is completed, where others may be than those who stand
//! first.
//!
//! Problem: a gang that lost members of a role may be whole again with any others of the role, and
//! where members want others near, with more of them than it lacks. As things are all choices can
//! be looked at; to look for whom to stop is dearer, and one of the last choices may be the one for
//! which somebody could leave.
//!
//! Wanted: those who stand first wherever they find places; else others for whom nobody leaves;
//! else those for whom others pay least ([`toll`](super::toll)). Where there are more choices than
//! can be looked at for that, those come first whose members would find places if all had left who
//! may be stopped, and none comes whose members nodes could not hold even then. If some stay out
//! all the same, it is told.
//!
//! Cost: nothing for gangs of whose roles all look the same; for others at most [`TRIES_MAX`] tries
//! of places, [`TRIES_HELPED`] more where members help others, and twice [`ROOM_TRIES_MAX`]
//! searches for whom to stop; where there are more choices than that, as many tries of places again
//! with all gone who may be stopped. Nothing survives a restart, nothing needs to.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::cycle::elastic::TRIES_MAX;
use crate::cycle::of_roles::TRIES_HELPED;
use crate::cycle::promised::{asks_with, peers, quota_room};
use crate::cycle::toll::Toll;
use crate::engine::Engine;
use crate::explain::reason::SearchBound;
use crate::model::ids::{ClassIdx, PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::roles::Choices;
use crate::model::txn::Txn;
use crate::model::workload::Assignment;
use crate::place::coupled::{self, Count};
use crate::place::gang::{self, Ask, TopologyAsk};
use crate::quota::flavors::Mode;
use crate::victims;

/// Choices of members that join for which it is looked whether others may leave, and as many with
/// those who help others.
pub(super) const ROOM_TRIES_MAX: u32 = 16;

/// Who else may make up what a gang that runs lacks.
struct Joiners {
    choices: Choices,
    /// The choices, one after the other: how many of each slot.
    counts: Vec<Vec<u32>>,
    /// Those are all that there are.
    all: bool,
}

/// Members that would join together, and with which flavors.
struct Party {
    asks: Vec<Ask>,
    assignment: Arc<Assignment>,
}

/// Whether somebody might leave for a choice of members, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Chance {
    /// They would find places if all left who may be stopped.
    Good,
    /// Nodes would hold as many of each kind.
    Fair,
    /// They would not, whoever left.
    No,
}

impl Engine {
    /// Whether others of its roles than those who stand first, of so many that a gang which runs
    /// lacks, may `join`: the first such choice. Who they are is kept then, if that is wanted.
    pub(super) fn others_join(
        &mut self,
        workload: WorkloadIdx,
        (missing, keep): (u32, bool),
        mut join: impl FnMut(&mut Engine, &[PodIdx]) -> bool,
    ) -> bool {
        let Some(joiners) = self.choices_to_join(workload, missing) else { return false };
        let Joiners { choices, counts, .. } = joiners;
        for counts in counts {
            let before = self.state.begin_without(workload, &choices.others(&counts));
            let joins = join(self, &choices.members(&counts));
            if !joins || !keep {
                self.state.begin_without(workload, &before);
            }
            if joins {
                return true;
            }
        }
        false
    }

    /// What is found for others of its roles than those who stand first, of so many that a gang
    /// which runs lacks: that for which others pay least, and less than for those who stand first,
    /// if anything was found for them. Who they are is kept.
    pub(super) fn cheapest_of_others<T>(
        &mut self,
        workload: WorkloadIdx,
        (missing, mut least): (u32, Option<Toll>),
        mut look: impl FnMut(&mut Engine, &[PodIdx]) -> Option<(Toll, T)>,
    ) -> Option<T> {
        let Joiners { choices, counts: looked_at, .. } =
            self.choices_to_stop_for(workload, missing)?;
        let mut best = None;
        for counts in looked_at {
            let before = self.state.begin_without(workload, &choices.others(&counts));
            let found = look(self, &choices.members(&counts));
            self.state.begin_without(workload, &before);
            let less = |(toll, _): &(Toll, T)| least.is_none_or(|least| *toll < least);
            if let Some((toll, found)) = found.filter(less) {
                (least, best) = (Some(toll), Some((found, counts)));
            }
        }
        let (found, counts) = best?;
        self.state.begin_without(workload, &choices.others(&counts));
        Some(found)
    }

    /// Who else may make up what a gang that runs lacks, if it lacks exactly so many: choices of so
    /// many, then some with more members, of whom others may find places near.
    fn choices_to_join(&mut self, workload: WorkloadIdx, missing: u32) -> Option<Joiners> {
        let mut choices = self.state.choices(workload).filter(|choices| choices.all == missing)?;
        let keeps = self.state.workloads[workload].keeps();
        let mut members = choices.slots.iter().flat_map(|slot| &slot.members);
        // Those that an owner has still to make have places of their own.
        if !keeps && members.any(|pod| self.state.pods[*pod].kept()) {
            return None;
        }
        let (mut counts, mut all) = choices.first(TRIES_MAX as usize, None);
        let shapes: Vec<ShapeIdx> = choices.slots.iter().map(|slot| slot.shape).collect();
        let helped = (self.helpers(&shapes), missing);
        let most = choices.most_with(&helped.0);
        let mut left = TRIES_HELPED as usize;
        while choices.all < most && left > 0 {
            choices.all += 1;
            let (more, whole) = choices.first(left, Some(&helped));
            left -= more.len();
            all &= whole;
            counts.extend(more);
        }
        all &= choices.all >= most;
        Some(Joiners { choices, counts, all })
    }

    /// Those of them for whom it is looked whom to stop. Not all: of those who might be helped by
    /// that some are not looked at.
    fn choices_to_stop_for(&mut self, workload: WorkloadIdx, missing: u32) -> Option<Joiners> {
        let Joiners { choices, counts, .. } = self.choices_to_join(workload, missing)?;
        let most = ROOM_TRIES_MAX as usize;
        let exactly = counts.partition_point(|counts| counts.iter().sum::<u32>() == missing);
        if exactly.max(counts.len() - exactly) <= most {
            return Some(Joiners { choices, counts, all: true });
        }
        let chances = self.chances(workload, &choices, &counts);
        let mut ranked: Vec<(Chance, Vec<u32>)> = chances.into_iter().zip(counts).collect();
        let with_more = ranked.split_off(exactly);
        let (mut counts, mut all) = (Vec::new(), true);
        for mut part in [ranked, with_more] {
            part.retain(|(chance, _)| *chance != Chance::No);
            part.sort_by_key(|(chance, _)| *chance);
            all &= part.len() <= most;
            counts.extend(part.into_iter().take(most).map(|(_, counts)| counts));
        }
        Some(Joiners { choices, counts, all })
    }

    /// For each choice of members whether somebody might leave for it.
    fn chances(
        &mut self,
        workload: WorkloadIdx,
        choices: &Choices,
        counts: &[Vec<u32>],
    ) -> Vec<Chance> {
        let nobody = vec![Chance::No; counts.len()];
        let Some(queue) = self.stops_others_in(workload) else { return nobody };
        let Ok(topology) = self.topology_ask(queue, workload) else { return nobody };
        let profile = self.profile(queue);
        let mut with_flavors = Vec::new();
        for counts in counts {
            with_flavors.push(self.with_flavors(workload, choices, counts));
        }
        // No choice passes more of those who are nominated than that of its highest member.
        let members = choices.slots.iter().flat_map(|slot| &slot.members).copied();
        let highest = members.max_by_key(|pod| self.state.pods[*pod].priority);
        let passed = self.state.pass_nominated_for(highest.as_slice());
        let mut txn = Txn::begin(&mut self.state);
        txn.vacate(workload);
        let mut parties: Vec<Option<Party>> = Vec::new();
        for (members, assignment) in with_flavors {
            parties.push(assignment.and_then(|assignment| {
                let asks = asks_with(&mut txn, &assignment, members.into_iter(), profile)?;
                Some(Party { asks, assignment })
            }));
        }
        let asks = asks_of_any(&parties);
        let near = peers(txn.state(), workload);
        let chances = victims::once_anybody_left(&mut txn, workload, &asks, |txn| {
            let free = free_for(txn, &asks);
            let mut chances = Vec::new();
            for party in &parties {
                chances.push(match party {
                    Some(party) if party.may_go(&free) => {
                        party.chance(txn, workload, topology, &near)
                    }
                    _ => Chance::No,
                });
            }
            chances
        });
        drop(txn);
        self.state.restore_nominated(passed);
        chances.unwrap_or(nobody)
    }

    /// Who is chosen, and with which flavors they may join, whoever has to leave for that.
    fn with_flavors(
        &mut self,
        workload: WorkloadIdx,
        choices: &Choices,
        counts: &[u32],
    ) -> (Vec<PodIdx>, Option<Arc<Assignment>>) {
        let members = choices.members(counts);
        let before = self.state.begin_without(workload, &choices.others(counts));
        let passed = self.state.pass_nominated_for(&members);
        let assignment = self.with_shapes(workload, &members, Mode::Preempt).ok();
        self.state.restore_nominated(passed);
        self.state.begin_without(workload, &before);
        (members, assignment)
    }

    /// After how many choices of others of its roles than those who stand first a gang which runs
    /// is not looked at any more for so many that it lacks; `None`: all are looked at.
    pub(super) fn choices_ended(
        &mut self,
        workload: WorkloadIdx,
        missing: u32,
    ) -> Option<SearchBound> {
        let joiners = self.choices_to_join(workload, missing)?;
        (!joiners.all).then_some(SearchBound::Choices(joiners.counts.len() as u32))
    }

    /// Where it is not looked any further for whom to stop for so many that a gang which runs
    /// lacks, though others of its members may be had; `None`: all are looked at, or nobody may be
    /// stopped.
    pub(super) fn stops_ended(
        &mut self,
        workload: WorkloadIdx,
        missing: u32,
    ) -> Option<SearchBound> {
        self.stops_others_in(workload)?;
        if self.gives_back(workload) {
            return None;
        }
        let groups = self.needy_by_shape(workload);
        let waiting: usize = groups.iter().map(Vec::len).sum();
        if waiting > missing as usize {
            return self.ways_once_left(workload, &groups, (missing as usize, None)).1;
        }
        let joiners = self.choices_to_stop_for(workload, missing)?;
        (!joiners.all).then_some(SearchBound::Choices(joiners.counts.len() as u32))
    }
}

impl Party {
    /// Whether nodes hold as many of each kind, of which so many find what they ask.
    fn may_go(&self, free: &BTreeMap<ClassIdx, u64>) -> bool {
        let holds = |ask: &Ask| free.get(&ask.class).is_some_and(|it| *it >= ask.pods.len() as u64);
        self.asks.iter().all(holds)
    }

    /// Whether somebody might leave for these, with all gone who may; the transaction is left as it
    /// was.
    fn chance(
        &self,
        txn: &mut Txn<'_>,
        workload: WorkloadIdx,
        topology: TopologyAsk,
        near: &[(ShapeIdx, NodeIdx)],
    ) -> Chance {
        let start = txn.checkpoint();
        txn.assign(workload, Some(self.assignment.clone()));
        let room = quota_room(txn, self.assignment.queue, false);
        let placed = gang::place_beside(txn, &self.asks, topology, near);
        let tree = &txn.state().quota.tree;
        let within = room.iter().all(|(node, fr, most)| tree.usage(*node, *fr) <= *most);
        txn.rollback_to(start);
        if placed && within { Chance::Good } else { Chance::Fair }
    }
}

/// The most of each class that any of these ask.
fn asks_of_any(parties: &[Option<Party>]) -> Vec<Count> {
    let mut most: BTreeMap<ClassIdx, u32> = BTreeMap::new();
    for ask in parties.iter().flatten().flat_map(|party| &party.asks) {
        let most = most.entry(ask.class).or_default();
        *most = (*most).max(ask.pods.len() as u32);
    }
    most.into_iter().collect()
}

/// How many of each class find what they ask free on nodes.
fn free_for(txn: &Txn<'_>, asks: &[Count]) -> BTreeMap<ClassIdx, u64> {
    let state = txn.state();
    let free = |class| coupled::free_in(state, class, 0..state.room.tree.order().len());
    asks.iter().map(|(class, _)| (*class, free(*class))).collect()
}
