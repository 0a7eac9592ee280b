//! Members that gangs which run lack, where rounds to come are played.
//!
//! Problem: a round completes gangs that run below their minimum before any head has its turn. A
//! start that counts on what somebody leaves does not come where such members take that first.
//!
//! Decides who goes first: whoever could not be stopped by one of those that are played once it is
//! whole, or was admitted a moment ago; and nobody any more by when it would have been stopped for
//! staying in part. Its members are placed as a round would that finds room for them, as soon as
//! something has ended that leaves it; whether it then ends is known from its run time.
//!
//! Not foreseen: other choices of members than those that stand first, in the orders in which
//! shapes are filled; that others leave for them; and what pods of other schedulers are nominated
//! for counts against them, whatever the priority.
//!
//! Restart: reads facts only. Cost: nothing where no gang is in part; else at most [`GANGS_MAX`] of
//! them are looked at, and [`TRIES_MAX`] times in one play.

use crate::cycle::left_out::members_of;
use crate::cycle::{Head, elastic};
use crate::engine::Engine;
use crate::model::ids::{ShapeIdx, WorkloadIdx};
use crate::model::txn::{SetAside, Txn};
use crate::plan::State;
use crate::time::Time;
use crate::victims::candidates;

/// Gangs that are looked at, the first in queue order.
const GANGS_MAX: usize = 8;

/// Looks at gangs in one play.
const TRIES_MAX: u32 = 32;

/// Gangs that lack members and go before those who are played.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lacking {
    /// In queue order, each until when it goes first; `None`: always.
    gangs: Vec<(WorkloadIdx, Option<Time>)>,
    /// Looks left.
    tries: u32,
}

impl Lacking {
    /// Whether there are none, or none that may be looked at.
    pub(crate) fn is_empty(&self) -> bool {
        self.gangs.is_empty() || self.tries == 0
    }

    /// Those that go first at a time, in order.
    pub(crate) fn first_at(&self, time: Time) -> Vec<WorkloadIdx> {
        let first = self.gangs.iter().filter(|(_, until)| until.is_none_or(|until| time < until));
        first.map(|(gang, _)| *gang).collect()
    }
}

impl Engine {
    /// Gangs that lack members and go before all of these heads.
    pub(crate) fn lacking(&self, heads: impl Iterator<Item = Head> + Clone) -> Lacking {
        if self.state.in_part.is_empty() {
            return Lacking::default();
        }
        let gangs = self.in_part_and_wait().into_iter();
        let gangs = gangs.map(|gang| (gang, self.goes_first_until(gang, heads.clone())));
        Lacking { gangs: gangs.collect(), tries: TRIES_MAX }
    }

    /// Gangs that run below their minimum and of which members wait, in queue order.
    fn in_part_and_wait(&self) -> Vec<WorkloadIdx> {
        let waits = |gang: &WorkloadIdx| {
            let state = self.state.workloads[*gang].state;
            let grows = self.growth.contains(gang) || self.growth_parked.contains(gang);
            grows
                && matches!(state, State::Running | State::Binding)
                && !self.state.claims_to_join(*gang)
                && self.queueless(*gang).is_none()
        };
        let mut gangs: Vec<WorkloadIdx> =
            self.state.in_part.keys().copied().filter(waits).collect();
        self.state.in_queue_order(&mut gangs);
        gangs.truncate(GANGS_MAX);
        gangs
    }

    /// Until when a gang goes before heads of which some could stop it once it is whole, and is not
    /// stopped itself for staying in part; `None`: always.
    fn goes_first_until(
        &self,
        gang: WorkloadIdx,
        mut heads: impl Iterator<Item = Head>,
    ) -> Option<Time> {
        let state = &self.state;
        let could_stop = |(queue, head): Head| {
            let exists = |queue| state.quota.queue(queue).facts.is_some();
            queue.is_none_or(exists) && candidates::could_take(state, head, queue, gang)
        };
        let held = state.workloads[gang].assignment.as_ref();
        let young = held.map(|it| it.at.plus(state.policy.resume_timeout));
        let young = young.filter(|_| heads.any(could_stop));
        let stopped = state.in_part_since(gang).zip(state.policy.recovery_timeout);
        let stopped = stopped.map(|(since, timeout)| since.plus(timeout));
        young.into_iter().chain(stopped).min()
    }

    /// Gangs that go first at a time have what they lack where there is room for it, in a
    /// transaction that is set aside; and when those end then, where that is known.
    pub(crate) fn complete_first(
        &mut self,
        mut aside: SetAside,
        lacking: &mut Lacking,
        time: Time,
    ) -> (SetAside, Vec<(Time, WorkloadIdx)>) {
        let mut ends = Vec::new();
        for gang in lacking.first_at(time) {
            if lacking.tries == 0 {
                break;
            }
            lacking.tries -= 1;
            if let Some(joined) = self.put_lacking(gang) {
                aside = aside.and(joined);
                lacking.gangs.retain(|(other, _)| *other != gang);
                ends.extend(self.run_time(gang).map(|runs| (time.plus(runs), gang)));
            }
        }
        (aside, ends)
    }

    /// Members that a gang lacks have places beside the others, in a transaction that is set aside;
    /// `None`: there is no room, or it lacks none, or has ended in what is played.
    pub(crate) fn put_lacking(&mut self, gang: WorkloadIdx) -> Option<SetAside> {
        self.state.placed(gang).next()?;
        let missing = self.missing(gang);
        let wanted = self.lacks_anew(gang).unwrap_or(missing);
        let groups = self.needy_by_shape(gang);
        let limits: Vec<u32> = groups.iter().map(|group| group.len() as u32).collect();
        let waiting: u32 = limits.iter().sum();
        if missing == 0 || waiting < wanted {
            return None;
        }
        if waiting == wanted {
            return self.put_beside(gang, &groups.concat()).map(Txn::set_aside);
        }
        let shapes: Vec<ShapeIdx> =
            groups.iter().map(|group| self.state.pods[group[0]].shape).collect();
        let mut tries = elastic::TRIES_MAX;
        for order in self.orders(&shapes) {
            let exactly = (wanted, wanted);
            let counts = elastic::fill(&limits, &order, exactly, &mut tries, |counts| {
                self.put_beside(gang, &members_of(&groups, counts)).is_some()
            });
            if let Some(counts) = counts {
                return self.put_beside(gang, &members_of(&groups, &counts)).map(Txn::set_aside);
            }
        }
        None
    }

    /// When gangs that lack members may end if they are completed when something else ends.
    pub(crate) fn ends_once_whole(&self, ends: &[(Time, WorkloadIdx)]) -> Vec<Time> {
        if self.state.in_part.is_empty() {
            return Vec::new();
        }
        let gangs = self.in_part_and_wait().into_iter();
        let runs = gangs.filter_map(|gang| self.run_time(gang));
        runs.flat_map(|runs| ends.iter().map(move |(end, _)| end.plus(runs))).collect()
    }
}
