//! Members that join a gang of which so many are being deleted that too few stay.
//!
//! Problem: members that are being deleted hold their places until they have ended, and none of
//! them comes back. While they count, whoever replaces them is an extra member and joins alone;
//! once they have left, less than the minimum runs, holds what it has and does nothing with it.
//!
//! Decides that such a gang takes exactly as many members as it lacks without those that leave,
//! all together, beside them if there is room; else none. Nobody else is stopped for that: they
//! make room themselves; claims that keep members from their places go back as those of any member
//! do. Once all that had places have left, the gang queues like any other. A gang of which enough
//! stay goes on as ever, and so does one that lacks a single member: it joins alone either way.
//! Members that were bound by a leader which died are not leaving, and are completed.
//!
//! Restart: from facts alone. Cost: a look at the members of each gang that grows.

use crate::cycle::Round;
use crate::engine::Engine;
use crate::explain::reason::Reason;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::time::Time;

impl Engine {
    /// How many members a gang lacks once those have left that are leaving, if it may only take so
    /// many together.
    pub(super) fn lacks_anew(&self, workload: WorkloadIdx) -> Option<u32> {
        let stays = |pod: &PodIdx| self.state.pods[*pod].stays();
        let placed = self.state.placed(workload).count();
        let stay = self.state.placed(workload).filter(stays).count();
        let lacks = self.state.workloads[workload].min_member.saturating_sub(stay as u32);
        (stay < placed && lacks > 1).then_some(lacks)
    }

    /// Places what a gang lacks without those that leave, or nothing.
    pub(super) fn grow_anew(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        (groups, lacks): (&[Vec<PodIdx>], u32),
        round: &mut Round,
    ) {
        let waiting = groups.concat();
        let may = waiting.len() >= lacks as usize
            && !self.state.claims_to_join(workload)
            && self.queueless(workload).is_none();
        if may && self.place_missing(workload, groups, lacks, true) {
            return self.joined(now, workload, lacks, round);
        }
        self.growth.remove(&workload);
        self.growth_parked.insert(workload);
        if waiting.is_empty() {
            return;
        }
        if may {
            self.give_back_of_members(now, workload, groups, lacks);
        }
        let told = self.who_leaves(workload);
        let reason = told.unwrap_or_else(|| self.why_not_anew(workload, &waiting, lacks));
        self.waits_on(workload, reason);
        self.give_back_useless(now, workload);
        self.keep_out_while_owed(now, workload);
    }

    /// Why a gang does not take what it lacks without those that leave.
    pub(super) fn why_not_anew(
        &mut self,
        workload: WorkloadIdx,
        waiting: &[PodIdx],
        lacks: u32,
    ) -> Reason {
        let need = self.state.workloads[workload].min_member;
        let have = need.saturating_sub(lacks);
        let (_, gated) = self.state.there(workload);
        let then = match waiting.len() as u32 {
            _ if self.queueless(workload).is_some() => self.queueless(workload),
            there if there < lacks && gated > 0 => Some(Reason::Gated { pods: gated }),
            there if there < lacks => Some(Reason::Gathering { have: have + there, need }),
            _ => self.no_place_for_some(workload, waiting, lacks),
        };
        Reason::Incomplete { have, need, then: then.map(Box::new) }
    }
}
