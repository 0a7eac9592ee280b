//! When work was admitted, as far as what is written on it is believed.
//!
//! Problem: the patch that resumes an owner says when that was, and the bind of a pod too, so that
//! an engine that begins keeps places for pods which are still to come, and knows how long others
//! have run. Whoever may edit work of a namespace can write it as well, with any time: nodes would
//! be kept for years.
//!
//! Decides: what lies more than `resume_timeout` ahead nobody of ours has written, and it says
//! nothing; that it does not change as long as it stands there, whatever time it becomes. What lies
//! less far ahead may be of a clock that was ahead: places are kept for `resume_timeout` from when
//! it was seen first, and not anew after that.
//!
//! Restart: who begins sees it for the first time. Cost: an entry for each owner whose time of
//! admission lay ahead when it was seen.

use crate::model::ids::WorkloadIdx;
use crate::model::input::OwnerFacts;
use crate::model::state::ClusterState;
use crate::time::{Span, Time};

impl ClusterState {
    /// Remembers when it was seen first of an owner that it was admitted later than that.
    pub(super) fn note_admission(&mut self, owner: &OwnerFacts) {
        let says = owner.admitted.as_ref().and_then(|note| note.admitted_at);
        let ahead = says.filter(|at| *at > self.now);
        if ahead.is_none() && self.ahead.is_empty() {
            return;
        }
        let known = self.ahead.get(&owner.uid).map(|(known, _)| *known);
        if known.is_some() && known == says {
            return;
        }
        self.ahead.remove(&owner.uid);
        if let Some(at) = ahead {
            self.ahead.insert(owner.uid.clone(), (at, self.now));
        }
    }

    /// Whether somebody of ours may have written a time of admission that was seen then.
    pub(super) fn may_be_ours(&self, admitted: Time, seen: Time) -> bool {
        admitted <= seen.plus(self.policy.resume_timeout)
    }

    /// How long the pods of a resumed owner may take to appear: queued work as long as it has to
    /// start, where that is longer.
    pub(crate) fn time_to_appear(&self, workload: WorkloadIdx) -> Span {
        let held = self.workloads[workload].assignment.as_ref();
        self.time_for(held.is_some_and(|held| held.queue.is_some()))
    }

    fn time_for(&self, queued: bool) -> Span {
        let ready = self.policy.pods_ready.filter(|_| queued);
        let resume = self.policy.resume_timeout;
        ready.map_or(resume, |ready| ready.timeout.max(resume))
    }

    /// Until when the pods of an owner must have appeared that was resumed a moment ago, by what
    /// was written on it then; `None` where some of them have: those that are missing by now were
    /// there, and may have done their work.
    pub(super) fn comes_up(&self, owner: &OwnerFacts) -> Option<Time> {
        let admitted = owner.admitted.as_ref().filter(|_| !owner.suspended)?;
        let at = admitted.admitted_at?;
        let begin = match self.ahead.get(&owner.uid) {
            Some((_, seen)) if !self.may_be_ours(at, *seen) => return None,
            Some((_, seen)) => *seen,
            None => at,
        };
        let until = begin.plus(self.time_for(owner.wishes.queue.is_some()));
        let came = self.came.get(&owner.uid) == Some(&owner.incarnation);
        (until > self.now && !came).then_some(until)
    }

    /// Whether somebody suspended an owner again after it was resumed with what its workload holds,
    /// or while places are kept for who follows others.
    pub(super) fn stopped_by_somebody(&self, workload: WorkloadIdx, owner: &OwnerFacts) -> bool {
        let held = self.workloads[workload].assignment.as_ref().map(|held| held.at);
        let admitted = owner.admitted.as_ref().and_then(|note| note.admitted_at);
        let between = self.workloads[workload].between;
        owner.suspended && (between || held.is_some() && admitted == held)
    }
}
