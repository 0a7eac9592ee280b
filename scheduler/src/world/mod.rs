//! The virtual cluster behind `simulate`: an API server of facts, its controllers, and a clock.
//!
//! **Problem.** `simulate` has to show what the engine would really do, so the engine must not
//! know that no cluster is there. It gets facts as [`Input`]s, gives effects, and somebody has to
//! carry them out, answer each, and show what a cluster would show afterwards: a bound pod runs,
//! a suspended Job loses its pods, a resumed one gets new ones, work arrives and ends.
//!
//! **Properties.**
//! - The world decides nothing about scheduling. It never looks at quota, nodes or priorities.
//! - What it shows is a set of facts by identity ([`World::facts`]): nothing else survives a
//!   restart of the engine, so a new engine fed with that set must plan the same.
//! - Every changed fact reaches the engine once, with its next step, and every effect is
//!   answered by exactly one [`Input::Outcome`].
//! - Deterministic: time is an argument, events are ordered by (time, sequence), every walk is
//!   over a sorted map. The same inputs give the same run.
//! - Effects are carried out like the API server would: a pod that is gone answers `Gone`, one
//!   that somebody bound elsewhere answers `Conflict`, and doing a thing twice is `Done`.
//!
//! **Phases** of one round, see [`run`]: events that are due change facts (arrivals, ends); the
//! engine steps with all that changed; its effects are carried out in order; what is leaving
//! leaves, with no grace, and so do queues that are being deleted and that nobody uses; the Job
//! controller makes the pods that are missing.
//!
//! **Time.** With [`Mode::Cycles`] and [`Mode::UntilStable`] time stands still at the latest
//! timestamp of the input and everything is there. With [`Mode::Until`] objects appear at their
//! creation (bound pods at their binding), and a member of a running gang ends once its declared
//! run time has passed since it was bound; queues are deleted at their `deletionTimestamp`.
//!
//! **Restart.** Events to come (arrivals, ends) are the world's own and outlive any engine; they
//! are derived from facts only.
//!
//! **Cost.** A round costs what changed in it. Pods of one template share their shape and wishes;
//! members are counted by gang, and by owner, so that no effect scans the cluster.

mod agenda;
mod claims;
mod effects;
mod gangs;
mod owners;
mod queues;
mod run;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    GangKey, Input, OwnerFacts, PodFacts, PodPhase, PodShape, ResourceClaimKey, StorageId, Text,
    Toleration,
};
use capstan_core::plan::WorkloadStatus;
use capstan_core::policy::Policy;
use capstan_core::time::Time;

use agenda::{Agenda, Event};
use gangs::Gangs;

pub use effects::Carried;
pub use run::{
    Deadline, Ending, Mode, Moment, ROUNDS_AT_ONCE_MAX, ROUNDS_MAX, Run, STOPS_AT_ONCE_MAX,
    Scenario, StartTimes, Totals, WAKES_IDLE_MAX, What, run, run_watched,
};

/// The virtual cluster: what its API shows, and what is still to come.
#[derive(Debug)]
pub struct World {
    policy: Arc<Policy>,
    /// Everything but pods and owners.
    objects: BTreeMap<Identity, Input>,
    pods: BTreeMap<Text, PodFacts>,
    owners: BTreeMap<Text, OwnerFacts>,
    /// Pods that exist, terminal ones included, by the uid of their owner.
    members: BTreeMap<Text, BTreeSet<Text>>,
    /// The index that the next pod made for an owner gets.
    next_index: BTreeMap<Text, u32>,
    /// Minimums of owners before members of their present run ended.
    minimums: BTreeMap<Text, u32>,
    /// Pods of the input that have not arrived, by the uid of their owner.
    announced: BTreeMap<Text, u32>,
    /// Those of them that ended well, by uid: of which run, and what each is like.
    ended_later: BTreeMap<Text, BTreeMap<Text, (u32, Arc<PodShape>)>>,
    /// Uids of pods that have not arrived, so that no pod that is made takes one.
    reserved: BTreeSet<Text>,
    gangs: Gangs,
    /// Owners of ours that are suspended and not finished.
    waiting_owners: u32,
    /// What time will bring; `None`: time stands still.
    agenda: Option<Agenda>,
    /// Terminating pods: they go after the next step, the first that sees them leave.
    leaving: Vec<Text>,
    /// Owners whose pods have to be counted again.
    disturbed: BTreeSet<Text>,
    changes: Vec<Input>,
    /// `changes` holds more than answers to reports.
    stirred: bool,
    moments: Vec<Moment>,
    statuses: BTreeMap<Text, WorkloadStatus>,
    /// Events that were emitted, with the workloads that each is about.
    events: Events,
    carried: Carried,
    /// The shape made last by adding tolerations: members of a gang keep sharing one.
    tolerated: Option<Tolerated>,
}

/// Events by reason and message, with the workloads that each is about.
#[derive(Debug, Default)]
pub struct Events(pub BTreeMap<(Text, Text), BTreeSet<Text>>);

impl Events {
    /// Those about one workload, as if it were the only one.
    pub fn about(&self, workload: &str) -> Events {
        let of = |(said, about): (&(Text, Text), &BTreeSet<Text>)| {
            let workload = about.get(workload)?.clone();
            Some((said.clone(), [workload].into()))
        };
        Events(self.0.iter().filter_map(of).collect())
    }

    /// Keeps an event that is about a workload.
    pub fn add(&mut self, about: Text, reason: Text, message: Text) {
        self.0.entry((reason, message)).or_default().insert(about);
    }
}

/// One shape, what was added to it, and the shape that this made.
type Tolerated = (Arc<PodShape>, Vec<Toleration>, Arc<PodShape>);

/// What tells one object from another, pods and owners apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Flavor(Text),
    Topology(Text),
    PriorityClass(Text),
    Namespace(Text),
    Cohort(Text),
    ClusterQueue(Text),
    LocalQueue(Text, Text),
    LocalQueueUsed(Text, Text),
    Spent(Text),
    Deactivated(Text, Text),
    Budget(Text, Text),
    Node(Text),
    Storage(StorageId),
    Slice(Text),
    Answers(Text, Text),
    ResourceClaim(Text, Text),
    BackedResources,
}

impl World {
    /// A world in which time stands still: everything is there from the start.
    pub fn still(inputs: Vec<Input>, policy: Policy) -> World {
        let mut world = World::empty(policy, None);
        let (pods, owners) = world.load(inputs);
        for pod in pods.into_values() {
            world.put_pod(pod);
        }
        for owner in owners.into_values() {
            world.appear(owner);
        }
        world
    }

    /// A world that plays from `start`: objects appear at their time, see [`World::advance`].
    pub fn playing(inputs: Vec<Input>, policy: Policy, start: Time) -> World {
        let mut world = World::empty(policy, Some(Agenda::new(start)));
        let (pods, owners) = world.load(inputs);
        for pod in pods.into_values() {
            world.expect_pod(pod);
        }
        for owner in owners.into_values() {
            match known(owner.created) {
                Some(at) => world.plan(at, Event::Owner(Box::new(owner))),
                None => world.appear(owner),
            }
        }
        world
    }

    /// Everything that the API shows now, in a stable order: feeding it to a new engine is what
    /// a restart does.
    pub fn facts(&self) -> Vec<Input> {
        let mut facts = vec![Input::Policy(self.policy.clone())];
        facts.extend(self.objects.values().cloned());
        facts.extend(self.owners.values().cloned().map(Input::Owner));
        facts.extend(self.pods.values().cloned().map(Input::Pod));
        facts
    }

    /// Changes a fact from outside (a node lost, a queue edited), as another client would.
    pub fn change(&mut self, input: Input) {
        match input {
            Input::Pod(pod) => self.put_pod(pod),
            Input::PodGone(uid) | Input::PodEnded { pod: uid, .. } => self.drop_pod(&uid),
            Input::Owner(owner) => {
                self.disturbed.insert(owner.uid.clone());
                self.put_owner(owner);
            }
            Input::OwnerGone(uid) => self.drop_owner(&uid),
            Input::Policy(policy) => {
                self.policy = one_round((*policy).clone());
                self.tell(Input::Policy(self.policy.clone()));
            }
            // Answers are the world's own to give.
            Input::Outcome { .. } => {}
            object => self.put_object(object),
        }
    }

    /// What changed since the last call, for the engine's next step.
    pub fn take_changes(&mut self) -> Vec<Input> {
        self.stirred = false;
        std::mem::take(&mut self.changes)
    }

    /// Whether something changed that the engine has not seen, answers to reports apart.
    pub fn stirred(&self) -> bool {
        self.stirred
    }

    /// Whether there is anything at all that the engine has not seen.
    pub fn changed(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Pods that exist, by uid.
    pub fn pods(&self) -> impl Iterator<Item = &PodFacts> {
        self.pods.values()
    }

    /// Owners that exist, by uid.
    pub fn owners(&self) -> impl Iterator<Item = &OwnerFacts> {
        self.owners.values()
    }

    /// The status last written for a workload, `namespace/name`.
    pub fn status(&self, workload: &str) -> Option<&WorkloadStatus> {
        self.statuses.get(workload)
    }

    /// Events that were emitted.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// How many effects of each kind were carried out.
    pub fn carried(&self) -> &Carried {
        &self.carried
    }

    /// Workloads of ours that hold no node: gangs, and owners without pods.
    pub fn pending(&self) -> u32 {
        self.gangs.pending().saturating_add(self.waiting_owners)
    }

    /// When the next event is due; ends of pods that are gone are forgotten on the way.
    pub fn next_event(&mut self) -> Option<Time> {
        let (agenda, pods) = (self.agenda.as_mut()?, &self.pods);
        agenda.next(|uid| pods.get(uid).is_some_and(|pod| !pod.phase.terminal()))
    }

    /// Lets all that is due by `now` happen: arrivals and ends, in order of time.
    pub fn advance(&mut self, now: Time) {
        while let Some((at, event)) = self.agenda.as_mut().and_then(|agenda| agenda.due(now)) {
            match event {
                Event::Pod(pod) => self.arrive_pod(at, *pod),
                Event::Owner(owner) => {
                    // Where a member came before its owner, the workload has arrived already.
                    if owner.ours && !self.members.contains_key(&owner.uid) {
                        let workload = named(&owner.namespace, &owner.name);
                        self.moments.push(Moment { at, workload, what: What::Arrived });
                    }
                    self.appear(*owner);
                }
                Event::End(uid) => self.end_pod(at, &uid),
                Event::QueueDeleted(name) => self.delete_queue(at, name),
            }
            if self.agenda.as_ref().is_some_and(|agenda| agenda.first() != Some(at)) {
                self.start_whole(at);
            }
        }
    }

    fn start_whole(&mut self, now: Time) {
        if let Some(agenda) = self.agenda.as_mut() {
            self.gangs.start_whole(now, agenda);
        }
    }

    /// After a step's effects: what the step saw leaving goes, and owners get missing pods.
    pub fn settle(&mut self, now: Time) {
        for uid in std::mem::take(&mut self.leaving) {
            self.drop_pod(&uid);
        }
        for uid in std::mem::take(&mut self.disturbed) {
            self.stop_or_make(&uid, now);
        }
        self.start_whole(now);
    }

    fn empty(policy: Policy, agenda: Option<Agenda>) -> World {
        let policy = one_round(policy);
        World {
            policy: policy.clone(),
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            owners: BTreeMap::new(),
            members: BTreeMap::new(),
            next_index: BTreeMap::new(),
            minimums: BTreeMap::new(),
            announced: BTreeMap::new(),
            ended_later: BTreeMap::new(),
            reserved: BTreeSet::new(),
            gangs: Gangs::default(),
            waiting_owners: 0,
            agenda,
            leaving: Vec::new(),
            disturbed: BTreeSet::new(),
            changes: vec![Input::Policy(policy)],
            stirred: true,
            moments: Vec::new(),
            statuses: BTreeMap::new(),
            events: Events::default(),
            carried: Carried::default(),
            tolerated: None,
        }
    }

    /// Takes in the objects that are there from the start; pods and owners come back by uid.
    fn load(
        &mut self,
        inputs: Vec<Input>,
    ) -> (BTreeMap<Text, PodFacts>, BTreeMap<Text, OwnerFacts>) {
        let (mut pods, mut owners) = (BTreeMap::new(), BTreeMap::new());
        for input in inputs {
            match input {
                Input::Pod(pod) => {
                    pods.insert(pod.uid.clone(), pod);
                }
                Input::PodGone(uid) | Input::PodEnded { pod: uid, .. } => {
                    pods.remove(&uid);
                }
                Input::Owner(owner) => {
                    owners.insert(owner.uid.clone(), owner);
                }
                Input::OwnerGone(uid) => {
                    owners.remove(&uid);
                }
                // The caller's policy holds; answers belong to effects of this run.
                Input::Policy(_) | Input::Outcome { .. } => {}
                Input::ClusterQueue(queue) => self.expect_queue(queue),
                object => self.put_object(object),
            }
        }
        (pods, owners)
    }

    fn expect_pod(&mut self, pod: PodFacts) {
        let at = match (&pod.node, pod.bound_at) {
            (Some(_), Some(bound)) => known(bound),
            _ => known(pod.created),
        };
        let Some(at) = at else {
            let (uid, bound) = (pod.uid.clone(), pod.node.is_some());
            self.put_pod(pod);
            if bound {
                self.run_pod(&uid);
            }
            return;
        };
        self.announce(&pod);
        self.plan(at, Event::Pod(Box::new(pod)));
    }

    fn arrive_pod(&mut self, at: Time, pod: PodFacts) {
        self.has_come(&pod);
        let mut owned = false;
        if let GangKey::Owner(owner, incarnation) = &pod.gang.key
            && let Some(owner) = self.owners.get(owner)
        {
            // Its owner was stopped before it came: it belongs to a run that is over.
            if owner.incarnation > *incarnation {
                return;
            }
            owned = true;
        }
        if pod.ours && !owned && !self.gangs.knows(&pod) {
            let workload = named(&pod.namespace, &pod.gang.name);
            self.moments.push(Moment { at, workload, what: What::Arrived });
        }
        let (uid, bound) = (pod.uid.clone(), pod.node.is_some());
        self.put_pod(pod);
        if bound {
            self.run_pod(&uid);
        }
    }

    /// Counts a pod's run time from when it was bound, once its gang runs.
    fn run_pod(&mut self, uid: &Text) {
        let (Some(pod), Some(agenda)) = (self.pods.get(uid), self.agenda.as_mut()) else {
            return;
        };
        if let Some(span) = pod.wishes.expected_runtime
            && !pod.phase.terminal()
        {
            let begun = pod.bound_at.and_then(known).or(known(pod.created));
            self.gangs.will_end(pod, begun.unwrap_or(agenda.start()), span);
        }
        self.gangs.changes(pod);
    }

    fn end_pod(&mut self, at: Time, uid: &Text) {
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.phase.terminal()) else {
            return;
        };
        let mut ended = pod.clone();
        (ended.phase, ended.ended_at) = (PodPhase::Succeeded, Some(at));
        let (key, ours) = (ended.gang.key.clone(), ended.ours);
        let rest = self.gangs.alive(&ended).saturating_sub(1);
        let workload = self.gangs.workload(&ended);
        self.put_pod(ended);
        if rest > 0 {
            if let GangKey::Owner(owner, _) = &key {
                self.near_the_end(owner, rest);
            }
            return;
        }
        if let GangKey::Owner(owner, _) = &key
            && self.owners.contains_key(owner)
        {
            self.finish_owner(at, owner, workload);
        } else if ours {
            self.moments.push(Moment { at, workload, what: What::Finished });
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.agenda.as_mut().expect("only a world that plays plans events").plan(at, event);
    }

    fn put_pod(&mut self, pod: PodFacts) {
        self.gangs.replace(self.pods.get(&pod.uid), &pod);
        if let GangKey::Owner(owner, _) = &pod.gang.key {
            self.members.entry(owner.clone()).or_default().insert(pod.uid.clone());
        }
        if pod.terminating {
            self.leaving.push(pod.uid.clone());
        }
        self.tell(Input::Pod(pod.clone()));
        let (uid, ended) = (pod.uid.clone(), pod.phase.terminal());
        self.pods.insert(uid.clone(), pod);
        if ended {
            let pod = self.pods[&uid].clone();
            self.end_claims(&pod);
        }
    }

    fn drop_pod(&mut self, uid: &Text) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.gangs.remove(&pod);
        if self.agenda.is_some() {
            self.gangs.changes(&pod);
        }
        if let Some(owner) = owner_of(&pod) {
            if let Some(members) = self.members.get_mut(owner) {
                members.remove(uid);
            }
            self.disturbed.insert(owner.clone());
        }
        self.tell(Input::PodGone(uid.clone()));
        self.end_claims(&pod);
    }

    fn put_object(&mut self, input: Input) {
        let Some((identity, gone)) = identify(&input) else { return };
        self.tell(input.clone());
        if gone {
            self.objects.remove(&identity);
        } else {
            self.objects.insert(identity, input);
        }
    }

    fn tell(&mut self, input: Input) {
        self.stirred = true;
        self.changes.push(input);
    }
}

/// The owner that a pod was made by.
fn owner_of(pod: &PodFacts) -> Option<&Text> {
    match &pod.gang.key {
        GangKey::Owner(owner, _) => Some(owner),
        GangKey::Group(..) | GangKey::Pod(_) => None,
    }
}

/// `namespace/name`.
fn named(namespace: &str, name: &str) -> Text {
    format!("{namespace}/{name}").into()
}

/// A time that the input really stated: what has none is at the epoch, or before.
fn known(time: Time) -> Option<Time> {
    (time.0 > 0).then_some(time)
}

/// One round a step, so that effects are carried out between rounds.
fn one_round(policy: Policy) -> Arc<Policy> {
    Arc::new(Policy { rounds_max: 1, ..policy })
}

fn claim_identity(key: &ResourceClaimKey) -> Identity {
    Identity::ResourceClaim(key.0.clone(), key.1.clone())
}

/// The identity of an object, and whether the input says that it is gone.
fn identify(input: &Input) -> Option<(Identity, bool)> {
    let found = match input {
        Input::Node(node) => (Identity::Node(node.name.clone()), false),
        Input::NodeGone(name) => (Identity::Node(name.clone()), true),
        Input::ClusterQueue(queue) => (Identity::ClusterQueue(queue.name.clone()), false),
        Input::ClusterQueueGone(name) => (Identity::ClusterQueue(name.clone()), true),
        Input::LocalQueue(queue) => {
            (Identity::LocalQueue(queue.namespace.clone(), queue.name.clone()), false)
        }
        Input::LocalQueueGone { namespace, name } => {
            (Identity::LocalQueue(namespace.clone(), name.clone()), true)
        }
        Input::Cohort(cohort) => (Identity::Cohort(cohort.name.clone()), false),
        Input::CohortGone(name) => (Identity::Cohort(name.clone()), true),
        Input::Flavor(flavor) => (Identity::Flavor(flavor.name.clone()), false),
        Input::FlavorGone(name) => (Identity::Flavor(name.clone()), true),
        Input::WorkloadPriorityClass { name, .. } => (Identity::PriorityClass(name.clone()), false),
        Input::WorkloadPriorityClassGone(name) => (Identity::PriorityClass(name.clone()), true),
        Input::Namespace { name, .. } => (Identity::Namespace(name.clone()), false),
        Input::NamespaceGone(name) => (Identity::Namespace(name.clone()), true),
        Input::LocalQueueUsed(usage) => {
            (Identity::LocalQueueUsed(usage.namespace.clone(), usage.name.clone()), false)
        }
        Input::Spent(spent) => (Identity::Spent(spent.cluster_queue.clone()), false),
        Input::Deactivated(workload) => {
            (Identity::Deactivated(workload.namespace.clone(), workload.name.clone()), false)
        }
        Input::Reactivated(namespace, name) => {
            (Identity::Deactivated(namespace.clone(), name.clone()), true)
        }
        Input::Budget(budget) => {
            (Identity::Budget(budget.namespace.clone(), budget.name.clone()), false)
        }
        Input::BudgetGone { namespace, name } => {
            (Identity::Budget(namespace.clone(), name.clone()), true)
        }
        Input::Topology { name, .. } => (Identity::Topology(name.clone()), false),
        Input::TopologyGone(name) => (Identity::Topology(name.clone()), true),
        Input::Storage(fact) => {
            let (id, gone) = fact.about();
            (Identity::Storage(id), gone)
        }
        Input::Slice(slice) => (Identity::Slice(slice.name.clone()), false),
        Input::SliceGone(name) => (Identity::Slice(name.clone()), true),
        Input::Answers { query, slice, .. } => {
            (Identity::Answers(query.clone(), slice.clone()), false)
        }
        Input::ResourceClaim(claim) => (claim_identity(&claim.key), false),
        Input::ResourceClaimGone(key) => (claim_identity(key), true),
        Input::BackedResources(_) => (Identity::BackedResources, false),
        Input::Pod(_)
        | Input::QueryGone(_)
        | Input::PodGone(_)
        | Input::PodEnded { .. }
        | Input::Owner(_)
        | Input::OwnerGone(_)
        | Input::Policy(_)
        | Input::Outcome { .. } => return None,
    };
    Some(found)
}
