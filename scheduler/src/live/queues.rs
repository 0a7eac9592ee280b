//! Queue objects: few, so all of them are settled together and only differences are told.
//!
//! Decides nothing about queues: twins in both API groups and broken objects are those of
//! [`quota`].

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::Input;
use capstan_core::model::input::Text;
use capstan_core::time::Time;
use serde_json::Value;

use super::cluster::Live;
use super::roster::Named;
use super::{Group, Kind};
use crate::convert::quota::{self, Draft, Objects};
use crate::convert::resolve::Resolved;
use crate::read::error::Notice;
use crate::read::kinds::{Origin, Queueing};

/// All queue objects, and what was told of them.
#[derive(Debug, Default)]
pub struct Queues {
    objects: BTreeMap<(Kind, Named), (Origin, Draft)>,
    /// Version of the spec that was read of each, where the API counts them.
    generations: BTreeMap<(Kind, Named), i64>,
    /// ClusterQueues of which nothing could ever be read: told as inactive for that, unless they
    /// were being deleted when they were first seen.
    unread: BTreeSet<(Kind, Named)>,
    changed: bool,
    told: BTreeMap<Identity, Input>,
    said: BTreeSet<Notice>,
}

/// What tells one fact about queues from another, in the order in which they refer to each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Flavor(Text),
    Topology(Text),
    PriorityClass(Text),
    Cohort(Text),
    ClusterQueue(Text),
    LocalQueue(Text, Text),
    LocalQueueUsed(Text, Text),
    Spent(Text),
    Deactivated(Text, Text),
}

/// What changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Facts that are no more.
    pub gone: Vec<Input>,
    /// Facts that are new or differ.
    pub facts: Vec<Input>,
    /// What was not said before.
    pub notices: Vec<Notice>,
}

impl Queues {
    /// Notes that an object says what cannot be read, and since when somebody deletes it: what it
    /// said before holds. A ClusterQueue of which nothing could ever be read is inactive for these
    /// faults (`bare`: what an empty one would be); in one that is being deleted no new work
    /// begins.
    pub fn refuse(
        &mut self,
        kind: Kind,
        named: &Named,
        (faults, since): (Vec<Text>, Option<Time>),
        bare: Option<(Origin, Draft)>,
    ) {
        let key = (kind, named.clone());
        match self.objects.get_mut(&key) {
            Some((_, Draft::ClusterQueue(queue, _))) => {
                self.changed |= queue.deleted != since;
                queue.deleted = since;
                if self.unread.contains(&key) && queue.broken != faults {
                    (self.changed, queue.broken) = (true, faults);
                }
            }
            Some(_) => {}
            None => {
                let bare = bare.filter(|_| since.is_none());
                if let Some((origin, Draft::ClusterQueue(mut queue, spent))) = bare {
                    (self.changed, queue.broken) = (true, faults);
                    let draft = Draft::ClusterQueue(queue, spent);
                    self.objects.insert(key.clone(), (origin, draft));
                }
                if matches!(kind, Kind::Queueing(Queueing::ClusterQueue, _)) {
                    self.unread.insert(key);
                }
            }
        }
    }

    /// Puts what was read of an object in its place.
    pub fn put(&mut self, kind: Kind, named: &Named, new: (Origin, Draft), value: &Value) {
        let key = (kind, named.clone());
        self.unread.remove(&key);
        match value["metadata"]["generation"].as_i64() {
            Some(generation) => _ = self.generations.insert(key.clone(), generation),
            None => _ = self.generations.remove(&key),
        }
        let place = self.objects.entry(key);
        match place {
            std::collections::btree_map::Entry::Occupied(mut old) => {
                let new = with_first_use(&old.get().1, new);
                self.changed |= *old.get() != new;
                old.insert(new);
            }
            std::collections::btree_map::Entry::Vacant(place) => {
                self.changed = true;
                place.insert(new);
            }
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, kind: Kind, named: &Named) {
        let key = (kind, named.clone());
        self.unread.remove(&key);
        self.generations.remove(&key);
        self.changed |= self.objects.remove(&key).is_some();
    }

    /// Whether an object changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Other kinds count than before.
    pub fn count_again(&mut self) {
        self.changed = true;
    }

    /// Everything that is there, but for kinds that do not count yet.
    pub fn objects(&self, but: &BTreeSet<Kind>) -> Objects {
        let mut all = Objects::default();
        for ((kind, _), (origin, draft)) in &self.objects {
            if !but.contains(kind) {
                all.take(*origin, draft.clone());
            }
        }
        all
    }

    /// What differs from what was told.
    pub fn settle(&mut self, objects: Objects) -> Changes {
        let mut resolved = Resolved::default();
        quota::inputs(objects, &mut resolved);
        let mut changes = Changes::default();
        let mut before = std::mem::take(&mut self.told);
        for input in resolved.inputs {
            let Some(identity) = identity(&input) else { continue };
            if before.remove(&identity).as_ref() != Some(&input) {
                changes.facts.push(input.clone());
            }
            self.told.insert(identity, input);
        }
        // What others refer to goes last.
        changes.gone = before.into_keys().rev().filter_map(gone).collect();
        let said: BTreeSet<Notice> = resolved.notices.into_iter().collect();
        changes.notices = said.difference(&self.said).cloned().collect();
        self.said = said;
        changes
    }
}

impl Live {
    /// Which version of the spec was read of each queue object of our own group.
    pub fn generations(&self) -> impl Iterator<Item = (Queueing, &(Text, Text), i64)> {
        self.queues.generations.iter().filter_map(|((kind, named), generation)| match kind {
            Kind::Queueing(of, Group::Capstan) => Some((*of, named, *generation)),
            _ => None,
        })
    }

    /// ClusterQueues of our own group that are being deleted and of which nothing could ever be
    /// read: the engine knows none of them.
    pub fn unread_queues(&self) -> impl Iterator<Item = &Text> {
        let own = Kind::Queueing(Queueing::ClusterQueue, Group::Capstan);
        let unread = self.queues.unread.iter().filter(move |(kind, _)| *kind == own);
        let untold = unread.filter(|key| !self.queues.objects.contains_key(key));
        untold.map(|(_, (_, name))| name)
    }

    /// ClusterQueues of our own group that are being deleted while another group has one of that
    /// name that stays: all that their quota was charged with is charged to that one.
    pub fn replaced_queues(&self) -> impl Iterator<Item = &Text> {
        let own = Kind::Queueing(Queueing::ClusterQueue, Group::Capstan);
        let stays = move |name: &Text| {
            self.queues.objects.iter().any(|((kind, named), (_, draft))| {
                matches!(kind, Kind::Queueing(Queueing::ClusterQueue, _))
                    && *kind != own
                    && named.1 == *name
                    && !is_deleted(draft)
                    && !self.joining.contains(kind)
            })
        };
        let all = self.queues.objects.iter().filter(move |((kind, _), _)| *kind == own);
        let gone = all.filter(move |(_, (_, draft))| is_deleted(draft));
        gone.map(|((_, (_, name)), _)| name).filter(move |name| stays(name))
    }
}

/// Whether it is of a ClusterQueue that is being deleted.
fn is_deleted(draft: &Draft) -> bool {
    matches!(draft, Draft::ClusterQueue(queue, _) if queue.deleted.is_some())
}

/// While Kueue runs it goes on to write into its LocalQueues what its own work used, later than we
/// reckon and without ours: only what was found first is where we begin.
fn with_first_use(old: &Draft, (origin, mut new): (Origin, Draft)) -> (Origin, Draft) {
    if origin.is_kueue()
        && let (Draft::LocalQueue(_, known), Draft::LocalQueue(_, used)) = (old, &mut new)
    {
        used.clone_from(known);
    }
    (origin, new)
}

fn identity(input: &Input) -> Option<Identity> {
    Some(match input {
        Input::Flavor(flavor) => Identity::Flavor(flavor.name.clone()),
        Input::Topology { name, .. } => Identity::Topology(name.clone()),
        Input::WorkloadPriorityClass { name, .. } => Identity::PriorityClass(name.clone()),
        Input::Cohort(cohort) => Identity::Cohort(cohort.name.clone()),
        Input::ClusterQueue(queue) => Identity::ClusterQueue(queue.name.clone()),
        Input::LocalQueue(queue) => {
            Identity::LocalQueue(queue.namespace.clone(), queue.name.clone())
        }
        Input::LocalQueueUsed(usage) => {
            Identity::LocalQueueUsed(usage.namespace.clone(), usage.name.clone())
        }
        Input::Spent(spent) => Identity::Spent(spent.cluster_queue.clone()),
        Input::Deactivated(workload) => {
            Identity::Deactivated(workload.namespace.clone(), workload.name.clone())
        }
        _ => return None,
    })
}

fn gone(identity: Identity) -> Option<Input> {
    Some(match identity {
        Identity::Flavor(name) => Input::FlavorGone(name),
        Identity::Topology(name) => Input::TopologyGone(name),
        Identity::PriorityClass(name) => Input::WorkloadPriorityClassGone(name),
        Identity::Cohort(name) => Input::CohortGone(name),
        Identity::ClusterQueue(name) => Input::ClusterQueueGone(name),
        Identity::LocalQueue(namespace, name) => Input::LocalQueueGone { namespace, name },
        // What is known stays known for as long as the queue is there.
        Identity::LocalQueueUsed(..) | Identity::Spent(_) => return None,
        Identity::Deactivated(namespace, name) => Input::Reactivated(namespace, name),
    })
}
