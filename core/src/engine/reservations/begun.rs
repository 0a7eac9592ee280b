//! What starts at last, and who waited for that.
//!
//! Problem: while shares are compared others are held for reserved starts that they might stop by
//! their shares once those have come; which starts last all the same is told by
//! [`lasting`](crate::victims::lasting).
//!
//! Decides: somebody is held for a head if that is the first that it would make late. It is noted
//! where both are in queues of one tree, and the policy of the one that is held lets it take back
//! from the other. When a head starts, at its time, sooner or with victims, it is known whether
//! that is later than it was promised first, whether somebody is noted who waited, and when it
//! should have ended: as it says, or as others did from whom that was learned, and as long after
//! that as ends are believed. When that has passed those are looked at who may stop it then.
//!
//! Restart: forgotten. Cost: a note for each head that others are held for.

use std::collections::BTreeSet;

use super::run_times::believed_until;
use crate::cycle::Entry;
use crate::engine::Engine;
use crate::model::ids::{QueueIdx, WorkloadIdx};
use crate::model::input::Text;
use crate::time::Time;
use crate::victims::candidates;
use crate::victims::lasting::{Start, UNKNOWN, rest_after};

impl Engine {
    /// Somebody is held for the reserved start of another.
    pub(crate) fn note_waits_for(&mut self, entry: &Entry, head: WorkloadIdx) {
        let (state, reservations) = (&self.state, &self.reservations);
        let of = reservations.slot_of(head).and_then(|slot| slot.queue);
        let Some((own, of)) = entry.queue.zip(of) else { return };
        let who = &state.workloads[entry.workload];
        let near = own != of && state.quota.root(own) == state.quota.root(of);
        if near
            && state.quota.shares_fairly()
            && !who.never_preempts
            && candidates::may_take_back(state, (own, who.priority), head)
        {
            self.reservations.waited_for.insert(head);
        }
    }

    /// A workload starts: nothing is kept for it any more, and perhaps no share stops it.
    pub(crate) fn begin_reserved(&mut self, now: Time, workload: WorkloadIdx) {
        let promised = self.reservations.promised.get(&workload).copied();
        let waited = self.reservations.waited_for.contains(&workload);
        self.end_reservation(workload);
        let name = &self.state.workloads[workload].full_name;
        let owed = self.state.lasting.owed(name).is_some();
        if promised.is_none() && !waited && !owed {
            // Most start without.
            return self.state.lasting.forget(workload);
        }
        let name = name.clone();
        let quota = &self.state.quota;
        let held = self.state.workloads[workload].assignment.as_ref();
        let queue = held.and_then(|held| held.queue).filter(|_| quota.shares_fairly());
        let Some(queue) = queue.filter(|queue| !quota.weightless(*queue)) else {
            self.state.lasting.forget(workload);
            return self.state.lasting.owes_no_more(&name);
        };
        let runs = self.run_time(workload);
        let until = runs.map_or(now.plus(UNKNOWN), |runs| believed_until(now, runs));
        let rests = rest_after(now, runs.unwrap_or(UNKNOWN), self.weights_beside(queue));
        let start = Start { at: now, promised, waited, until, rests };
        let queue = self.state.quota.queue(queue).name.clone();
        self.state.lasting.begin((workload, &name, &queue), start);
    }

    /// The weights of all other queues of a tree in which work waits, in sum, and its own.
    fn weights_beside(&self, queue: QueueIdx) -> (u128, u64) {
        let quota = &self.state.quota;
        let weight =
            |queue: QueueIdx| quota.queue(queue).facts.as_ref().map_or(0, |it| it.weight.0);
        let near = |other: &QueueIdx| *other != queue && quota.root(*other) == quota.root(queue);
        let others = self.waiting.queues().filter(near);
        (others.map(|other| u128::from(weight(other))).sum(), weight(queue))
    }

    /// Work of a name is gone: nothing is owed to it, unless another run of it bears the name.
    pub(in crate::engine) fn forget_owed(&mut self, namespace: &Text, name: &Text) {
        if self.state.lasting.names().len() == 0 {
            return;
        }
        let named = self.state.workload_by_name.get_pair(namespace, name);
        if named.is_none_or(|named| self.state.workloads.get(*named).is_none()) {
            let name: Text = [&**namespace, "/", &**name].concat().into();
            self.state.lasting.owes_no_more(&name);
        }
    }

    /// Starts last no longer of work that should have ended: whom shares let stop it is woken.
    pub(in crate::engine) fn expose_overrun(&mut self, now: Time) {
        let over = self.state.lasting.expire(now);
        let queue = |workload: WorkloadIdx| {
            let held = self.state.workloads.get(workload)?.assignment.as_ref()?;
            held.queue
        };
        let queues: BTreeSet<QueueIdx> = over.into_iter().filter_map(queue).collect();
        self.note_exposed(&queues);
    }
}
