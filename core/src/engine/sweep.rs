//! Forgetting: what keeps a run of years within the memory of what is alive.
//!
//! **Problem.** The engine numbers values so that equal ones are compared by number: pod shapes,
//! requests, classes, groups of waiting work, names of nodes and queues. Where every job has
//! labels, sizes, selectors or a gang name of its own, a table that never forgets grows with every
//! job that ever was. Nothing that people see or that a decision reads may depend on when it
//! forgets.
//!
//! **Choice.** Tables are swept: marked from what holds a handle ([`crate::model::sweep`]), the
//! rest is forgotten, its numbers are given out again. Counting references instead would put a
//! counter behind every handle of every assignment, group and class, in transactions too; a walk
//! over what is alive, as often as tables doubled, costs a few visits for each new entry and
//! nothing while nothing is new. Numbers of what stays do not change. Numbers that are given again
//! come in another order than first come, first numbered; as facts may be fed in any order, no
//! tie may end at such a number (ties end at names, uids and identities). So plans stay the same,
//! which a property checks by sweeping at every step.
//!
//! **When.** At the end of a step, or of facts that are only observed, when no transaction is open
//! and no fact half applied, by counts: if entries grew by as many as the last sweep left (at least
//! [`GROWTH_MIN`], and one for each [`ALIVE_SHARE`] pods and workloads, so that a sweep of a large
//! cluster pays off), or if less than half is alive of what was since. So tables have at most a few
//! times the entries that are in use, and a sweep visits a bounded number of things for each one
//! that came or went.
//!
//! Swept, once nothing holds a handle:
//!
//! | where | grows with |
//! |---|---|
//! | shapes (`Room`), requests (`Ledger`) | kinds of pods ever met |
//! | `Classes`, with their indexes and refusals | shapes, and flavors tried for them |
//! | node slots (`Room`, `Ledger`, `Ports`) | names of nodes, gone or only named by a pod |
//! | groups and lines (`Waiting`) | kinds of work that ever waited |
//! | names of queues and flavors (`QuotaState`) | queue objects ever fed |
//! | `turns`, by name | victims of late, and for whom; who rests, until something changes |
//! | `preemptions`, by name | victims that were not admitted again and are gone |
//! | `lasting`, by name | names that work had to which a start was owed |
//! | members with claims allocated | binds that came to nothing |
//! | effects in flight | answers that never came, about what is gone |
//!
//! Gone by themselves:
//!
//! - pods, owners (with which run of theirs had pods), queue objects, namespaces and priorities go
//!   with their object, and what a LocalQueue used with that; a workload with its last member and
//!   its owner; claims, holders, ends, reservations, starts that last, when runs began, pauses,
//!   deadlines, who waits for victims and was tried without, evictions begun, stops asked for and
//!   when, and look-ups (by uid, identity, name) with those, and what work costs that counts for a
//!   budget;
//! - the quota tree (with what is known of who borrows, and of which LocalQueue leads where), the
//!   topology tree and its indexes are built anew; at most 256 classes keep an index; the log of
//!   changed nodes is bounded by a count;
//! - when pods of resumed owners took their places, after a minute;
//! - who keeps devices in vain, the next time that somebody looks for such;
//! - an image is counted while a node has it;
//! - of runs that ended a bounded number is kept, for a bounded number of kinds and queues;
//! - which groups came forward, before a reserved start, when others do;
//! - sets of one assignment that no member has, see [`SETS_MAX`](crate::model::workload::SETS_MAX).
//!
//! Kept on purpose:
//!
//! - names of resources and the columns of vectors: the vocabulary of a cluster is a few dozen;
//! - slots of the arenas of pods and workloads: as many as were alive at once, reused, because
//!   blocks do not move;
//! - memory of the largest step: its lists and its undo log are used by the next.

use std::collections::BTreeSet;

use crate::engine::Engine;
use crate::engine::inflight::InFlight;
use crate::explain::view::Footprint;
use crate::model::input::Text;
use crate::model::pod::{Binding, Pod};
use crate::plan::EffectId;

/// New entries that are worth a sweep however little there is: a few kilobytes.
const GROWTH_MIN: usize = 64;

/// Pods and workloads visited for one new entry at most. Entries are larger than visits are long:
/// sixteen visits cost less than making the entry did.
const ALIVE_SHARE: usize = 16;

/// When to sweep next.
#[derive(Debug, Default)]
pub(crate) struct Sweeps {
    /// Entries that the last sweep left.
    left: usize,
    /// The most that was alive since.
    most_alive: usize,
    /// Sweeps so far.
    count: u64,
}

impl Engine {
    /// Sweeps if enough came or went since the last time.
    pub(super) fn sweep_if_due(&mut self) {
        let alive = self.alive();
        self.sweeps.most_alive = self.sweeps.most_alive.max(alive);
        let growth = self.entries().saturating_sub(self.sweeps.left);
        let grown = growth >= GROWTH_MIN.max(self.sweeps.left).max(alive / ALIVE_SHARE);
        let most = self.sweeps.most_alive;
        if grown || (most >= GROWTH_MIN && alive < most / 2) {
            self.sweep();
        }
    }

    /// Forgets all that nothing uses any more. Steps do it whenever it is worth it; it changes
    /// nothing but memory.
    pub fn sweep(&mut self) {
        self.waiting.sweep();
        let mut used = self.state.used();
        self.waiting.shapes().for_each(|shape| used.shape(shape));
        self.waiting.queues().for_each(|queue| used.queue(queue));
        for held in self.kept_back.last() {
            used.queue(held.queue);
            used.fr(held.fr);
        }
        self.state.sweep(used);
        self.kept_back.all_is_new();
        self.sweep_preemptions();
        self.sweep_owed();
        self.sweep_inflight();
        self.forget_allocated();
        let count = self.sweeps.count + 1;
        self.sweeps = Sweeps { left: self.entries(), most_alive: self.alive(), count };
        if cfg!(debug_assertions) && self.state.small() {
            self.recount();
        }
    }

    /// How much the engine keeps of what.
    pub fn footprint(&self) -> Footprint {
        let state = &self.state;
        Footprint {
            pods: state.pods.len(),
            workloads: state.workloads.len(),
            owners: state.owners.len(),
            nodes: state.room.names().len(),
            node_slots: state.room.slots(),
            shapes: state.room.shapes().len(),
            requests: state.room.ledger.requests().len(),
            resources: state.room.resources.len(),
            classes: state.classes.len(),
            indexes: state.classes.indexed(),
            groups: self.waiting.groups(),
            queues: state.quota.queue_names().len(),
            flavors: state.quota.flavor_names().len(),
            flavor_resources: state.quota.frs().len(),
            preemptions: self.preemptions.len(),
            effects_in_flight: self.inflight.len(),
            sweeps: self.sweeps.count,
        }
    }

    /// What the API shows: nothing of this is ours to forget.
    fn alive(&self) -> usize {
        self.state.pods.len() + self.state.workloads.len()
    }

    /// Entries of all tables that are swept. Effects in flight belong to pods and workloads: only
    /// those that are too many for that count.
    fn entries(&self) -> usize {
        let (room, quota) = (&self.state.room, &self.state.quota);
        let of_room = room.shapes().len() + room.ledger.requests().len() + room.names().len();
        let of_quota = quota.queue_names().len() + quota.flavor_names().len() + quota.frs().len();
        let unanswered = self.inflight.len().saturating_sub(self.alive());
        let owed = self.state.lasting.names().len();
        let ours = self.waiting.groups() + self.preemptions.len() + owed + unanswered;
        of_room + of_quota + self.state.classes.len() + ours
    }

    fn sweep_preemptions(&mut self) {
        if self.preemptions.is_empty() {
            return;
        }
        let names = self.state.workloads.iter().map(|(_, workload)| &workload.full_name);
        let known: BTreeSet<Text> =
            names.filter(|name| self.preemptions.contains_key(*name)).cloned().collect();
        self.preemptions.retain(|name, _| known.contains(name));
    }

    fn sweep_owed(&mut self) {
        let lasting = &self.state.lasting;
        if lasting.names().len() == 0 {
            return;
        }
        let owed: BTreeSet<&Text> = lasting.names().collect();
        let names = self.state.workloads.iter().map(|(_, workload)| &workload.full_name);
        let known: BTreeSet<Text> = names.filter(|name| owed.contains(name)).cloned().collect();
        self.state.lasting.keep(&known);
    }

    /// An answer about what is gone, or was answered by the API itself, changes nothing.
    fn sweep_inflight(&mut self) {
        let state = &self.state;
        let flies = |pod: Option<&Pod>, id: &EffectId| {
            pod.is_some_and(|pod| pod.binding == Binding::InFlight(*id))
        };
        self.inflight.retain(|id, kind| match kind {
            InFlight::Bind(pod) => flies(state.pods.get(*pod), id),
            InFlight::Prepare(uid) | InFlight::Allocate(uid) => {
                flies(state.pod_by_uid.get(uid).and_then(|pod| state.pods.get(*pod)), id)
            }
            InFlight::Release(uid) => state.pod_by_uid.contains_key(uid),
            InFlight::Resume(workload, _) | InFlight::Stop(workload) => {
                state.workloads.get(*workload).is_some()
            }
        });
    }
}
