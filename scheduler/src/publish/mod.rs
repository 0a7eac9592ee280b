//! Writes what people look at: Workload objects, statuses of queues, conditions of pods, events.
//!
//! Problem: say everything that people need without slowing what matters.
//!
//! Wanted: for one object only the newest text is ever written, and only if it differs from what
//! the API shows; at most one write a second for an object (the first at once), and a bounded
//! rate in all, beside binds and other effects later and a small part of it; a burst drops events
//! first, and counts what it drops; nothing here is needed for a decision or a restart.
//!
//! Cost: the write budget of the design: for a gang (or work with an owner) one Workload create
//! and one status patch until it is bound; a waiting member one patch for each change of reason;
//! later patches merged; for a ClusterQueue one patch of its finalizer when it is first seen, and
//! one when it goes (`in_use`).
//!
//! ```text
//! engine's thread: effects, views --> Publisher --> Plan (what differs, what is due)
//!                                                    ^ |
//!                      answers: what the API shows --+ +--> task: requests, only while we lead
//! ```
//!
//! Start: Workloads are listed before the first is written, and again when our kinds come back.
//! What the API shows and the engine does not know (what was spent, `spec.active`, conditions of
//! others) is kept, and pods that say already why they wait are told nothing again. Patches of
//! pods, and of Workloads themselves, name the uid that they mean; those of our own kinds' statuses
//! do not, because the API server overlooks it there. What says that it is ours (`whose`) and no
//! gang stands for is deleted when the engine has seen everything ([`Publisher::standing`]); so is
//! what is of an owner before, whose name another has by now: that one gets an object of its own.

mod accrued;
mod budget;
mod conditions;
mod diff;
mod entry;
mod events;
mod finished;
mod follow;
mod groups;
mod in_use;
mod observed;
mod places;
mod plan;
mod podless;
mod pods;
mod queues;
mod rates;
mod requests;
mod requeued;
mod shown;
mod stopped;
mod task;
#[cfg(test)]
mod tests;
mod untaken;
mod waiting;
mod whose;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::Engine;
use capstan_core::explain::view::{CohortView, LocalQueueView, QueueView, WorkloadDetails};
use capstan_core::model::input::Text;
use capstan_core::plan::{Action, Effect, PodRef};
use capstan_core::time::{Span, Time};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use follow::follow;
pub use places::Standing;
pub use plan::Name;
pub use rates::{Limits, What};
pub use task::{Reporter, run};
pub use workload::{is_bare, lets_go};

use entry::Key;
use events::Told;
use plan::Plan;

use crate::clock::Clock;
use crate::live::Live;
use crate::read::kinds::Queueing;

/// Takes what is to be shown; never waits, so that the engine's thread may call it. Clones share
/// one plan; [`run`] carries it out.
#[derive(Clone, Debug)]
pub struct Publisher {
    plan: Arc<Mutex<Plan>>,
    bell: Arc<Notify>,
    clock: Clock,
}

impl Publisher {
    /// Nothing to show yet, of the work of the scheduler of this name.
    pub fn new(limits: Limits, clock: Clock, scheduler: Text) -> Publisher {
        let plan = Arc::new(Mutex::new(Plan::new(limits, scheduler)));
        Publisher { plan, bell: Arc::default(), clock }
    }

    /// Effects began or ended: for a moment less is written beside them. These pods were bound:
    /// events say so.
    pub fn acts(&self, bound: impl IntoIterator<Item = (PodRef, Text)>) {
        self.with(|plan, now| {
            plan.acts(now);
            bound.into_iter().for_each(|(pod, node)| plan.notes.scheduled(now, &pod, &node));
        });
    }

    /// Takes a `Status` or `Event` effect; what it is about is asked of the engine, and its
    /// PodGroup of the cluster. Other effects are not for here and are passed over.
    pub fn publish(&self, effect: &Effect, engine: &Engine, live: &Live) {
        match &effect.action {
            Action::Status(status) => {
                if let Some(details) = engine.details(&status.namespace, &status.name) {
                    self.workloads([details], live);
                }
            }
            Action::Event { about, reason, message } => {
                let Some((namespace, name)) = about.split_once('/') else { return };
                let details = engine.details(&namespace.into(), &name.into());
                let Some(regarding) = details.as_ref().and_then(events::about) else { return };
                let told = Told {
                    regarding,
                    warning: true,
                    reason: reason.to_string(),
                    action: "Reading",
                    note: message.to_string(),
                };
                self.with(|plan, now| plan.notes.tell(now, told));
            }
            _ => {}
        }
    }

    /// Workloads as they are now: news, or a page of all of them; and their PodGroups.
    pub fn workloads(&self, all: impl IntoIterator<Item = WorkloadDetails>, live: &Live) {
        let around = |details: WorkloadDetails| {
            (groups::of_workload(&details, live), stopped::of_owner(&details, live), details)
        };
        let all: Vec<_> = all.into_iter().map(around).collect();
        self.with(|plan, now| {
            for (group, stopped, details) in all {
                let view = &details.view;
                let name = (view.namespace.clone(), view.name.clone());
                if let Some(group) = group {
                    plan.group(now, Some(name.clone()), group);
                }
                let shows = |uid: &Text| (live.unscheduled(uid), live.generation(uid));
                plan.pods_show(now, &details, shows);
                plan.workload(now, details);
                plan.stopped(name, stopped);
            }
        });
    }

    /// PodGroups whose pods nobody makes before they are let in.
    pub fn open_groups(&self, live: &Live) {
        let shut: Vec<_> = live.shut_groups().map(groups::opened).collect();
        if !shut.is_empty() {
            self.with(|plan, now| shut.into_iter().for_each(|it| plan.group(now, None, it)));
        }
    }

    /// PodGroups that are not there any more are forgotten.
    pub fn groups_there(&self, live: &Live) {
        let there = |key: &groups::GroupKey| {
            let group = live.group(key.kind, &key.name.0, &key.name.1);
            group.is_some_and(|group| groups::key(group) == *key)
        };
        self.with(|plan, _| plan.groups_there(there));
    }

    /// Our kinds were listed: they may have been away, and every Workload with them.
    pub fn doubt(&self) {
        self.with(|plan, _| plan.doubt());
    }

    /// Workloads that are gone and whose name nobody bears.
    pub fn gone(&self, names: &[Name]) {
        self.with(|plan, now| names.iter().for_each(|name| plan.gone(now, name)));
    }

    /// Workloads that have no pods left, and whose owner goes on.
    pub fn podless(&self, names: &[Name]) {
        self.with(|plan, now| names.iter().for_each(|name| plan.podless(now, name)));
    }

    /// All workloads that stand, once the engine has seen everything: what the API shows of ours
    /// beyond them is deleted.
    pub fn standing(&self, names: impl IntoIterator<Item = Name>) {
        let names: std::collections::BTreeSet<Name> = names.into_iter().collect();
        self.with(|plan, now| plan.standing(now, names));
    }

    /// ClusterQueues of our own group as they are now.
    pub fn queues(&self, views: Vec<QueueView>) {
        self.with(|plan, now| plan.cluster_queues(now, views));
    }

    /// LocalQueues of our own group as they are now.
    pub fn local_queues(&self, views: Vec<LocalQueueView>) {
        self.with(|plan, now| plan.local_queues(now, views));
    }

    /// Cohorts of our own group as they are now.
    pub fn cohorts(&self, views: Vec<CohortView>) {
        self.with(|plan, now| plan.cohorts(now, views));
    }

    /// Queue objects of our own group that came or went.
    pub fn queues_anew(&self, names: impl IntoIterator<Item = (Queueing, Name)>) {
        self.with(|plan, _| {
            let keys = names.into_iter().filter_map(|(kind, name)| key_of(kind, &name));
            keys.for_each(|key| plan.anew(&key));
        });
    }

    /// Of which version of each queue object of our own group that is what was told.
    pub fn observed<'a>(&self, all: impl Iterator<Item = (Queueing, &'a Name, i64)>) {
        self.with(|plan, _| {
            for (kind, name, generation) in all {
                if let Some(key) = key_of(kind, name) {
                    plan.observed(&key, generation);
                }
            }
        });
    }

    /// Where the first of every queue stand, and nobody else; who stands elsewhere than before is
    /// to be told of.
    pub fn standings(&self, all: BTreeMap<Name, Standing>) -> Vec<Name> {
        self.plan.lock().stand(all)
    }

    /// Whether the Workload of this name is known to be another scheduler's.
    pub fn is_anothers(&self, namespace: &Text, name: &Text) -> bool {
        self.plan.lock().is_anothers(&(namespace.clone(), name.clone()))
    }

    /// A Workload of this uid was deleted.
    pub fn workload_vanished(&self, name: Name, uid: &str) {
        self.with(|plan, now| plan.workload_vanished(now, name, uid));
    }

    /// Objects and events that are not written yet: zero once the API shows everything.
    pub fn backlog(&self) -> usize {
        self.owes_by(Time(i64::MAX))
    }

    /// Those of them that are due within so long: others are put off for longer than that.
    pub fn owes_within(&self, long: Duration) -> usize {
        let span = Span(i64::try_from(long.as_millis()).unwrap_or(i64::MAX));
        self.owes_by(self.clock.now().plus(span))
    }

    fn owes_by(&self, by: Time) -> usize {
        let plan = self.plan.lock();
        plan.backlog(by) + plan.notes.waiting()
    }

    fn with(&self, change: impl FnOnce(&mut Plan, Time)) {
        change(&mut self.plan.lock(), self.clock.now());
        self.bell.notify_one();
    }
}

/// The entry of a queue object whose status we write.
fn key_of(kind: Queueing, name: &Name) -> Option<Key> {
    match kind {
        Queueing::ClusterQueue => Some(Key::ClusterQueue(name.1.clone())),
        Queueing::LocalQueue => Some(Key::LocalQueue(name.clone())),
        Queueing::Cohort => Some(Key::Cohort(name.1.clone())),
        _ => None,
    }
}
