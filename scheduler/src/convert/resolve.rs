//! Settles what one object alone could not say.
//!
//! Decides priorities (a PriorityClass may stand after its pods), which owner's labels count,
//! which gang a pod is in, which namespaces exist, and what becomes of queue objects that stand
//! in both API groups. The result does not depend on the order in which objects were read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Input;
use capstan_core::model::input::{
    CapacityType, GangRef, Labels, OwnerFacts, OwnerPodSet, PodFacts, PodShape, Text, Wishes,
};
use capstan_core::time::Time;

use super::gathered::{Gathered, OwnerDraft, PriorityClassDraft};
use super::job::JobDraft;
use super::marks::{Marks, OwnerName};
use super::pod::{PodDraft, Ranked};
use super::quota;
use super::remarks::{Known, Remarks};
use super::sharing::Shared;
use crate::api::keys;
use crate::gangs::wishes;
use crate::gangs::{self, Member};
use crate::read::error::Notice;

/// Priorities of the classes that every cluster has.
const SYSTEM_CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Owners looked at above a pod: ReplicaSet and Deployment, with room to spare.
const OWNERS_MAX: usize = 4;

/// Facts for the engine, and what is worth knowing about them.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Facts: what others refer to first.
    pub inputs: Vec<Input>,
    /// What is worth knowing.
    pub notices: Vec<Notice>,
}

/// Settles everything; `start` stands for creation times that nobody gave.
pub fn resolve(gathered: Gathered, start: Time) -> Resolved {
    let mut resolved = Resolved::default();
    let Gathered { mut shared, nodes, namespaces, pods, jobs, owners, priority_classes, .. } =
        gathered;
    let mut remarks = Remarks::default();
    let local = gathered.local_queues.iter().map(|(_, queue)| queue);
    let named: BTreeSet<Text> = pods
        .iter()
        .map(|pod| &pod.namespace)
        .chain(jobs.iter().map(|job| &job.namespace))
        .chain(local.clone().map(|queue| &queue.namespace))
        .cloned()
        .chain([Text::from("default")])
        .collect();
    let defaults = local.filter(|queue| &*queue.name == "default");
    let default_queues: BTreeSet<Text> = defaults.map(|queue| queue.namespace.clone()).collect();
    namespace_inputs(namespaces, named, &mut resolved.inputs);
    quota::inputs(
        quota::Objects {
            cluster_queues: gathered.cluster_queues,
            local_queues: gathered.local_queues,
            cohorts: gathered.cohorts,
            flavors: gathered.flavors,
            workload_priority_classes: gathered.workload_priority_classes,
            topologies: gathered.topologies,
        },
        &mut resolved,
    );
    resolved.inputs.extend(nodes.into_iter().map(Input::Node));
    let directory = Directory::new(&jobs, &owners, default_queues);
    let mut ranks = Ranks { classes: priority_classes, missing: BTreeMap::new() };
    for job in &jobs {
        let facts = job_facts(job, &directory, &mut ranks, &mut shared, start);
        let above = directory.above(&job.namespace, job.owner.as_ref());
        remarks.on_job(job, &facts, above.iter().map(|owner| owner.known()));
        resolved.inputs.push(Input::Owner(facts));
    }
    for owner in &owners {
        let above = directory.above(&owner.namespace, owner.owner.as_ref());
        let above = above.iter().map(|owner| owner.known());
        remarks.on_owner(Owner::Other(owner).known(), &owner.namespace, above);
    }
    for pod in pods {
        let (marks, owner) = (pod.marks.clone(), pod.owner.clone());
        let facts = pod_facts(pod, &directory, &mut ranks, &mut shared, start);
        let owner = owner.as_ref().filter(|_| !facts.wishes.ignored.is_empty());
        let above = directory.above(&facts.namespace, owner);
        remarks.on_pod(&facts, &marks, above.iter().map(|owner| owner.known()));
        resolved.inputs.push(Input::Pod(facts));
    }
    resolved.notices.extend(remarks.notices(&gathered.places));
    resolved.notices.extend(ranks.notices());
    resolved
}

/// Namespaces given, and those that others name; each has the label that all have.
fn namespace_inputs(
    mut given: BTreeMap<Text, Labels>,
    named: BTreeSet<Text>,
    inputs: &mut Vec<Input>,
) {
    for name in named {
        given.entry(name).or_default();
    }
    for (name, mut labels) in given {
        labels.insert(keys::NAMESPACE_NAME.into(), name.clone());
        inputs.push(Input::Namespace { name, labels });
    }
}

/// Owners by kind, namespace and name.
struct Directory<'a> {
    owners: BTreeMap<(&'a str, &'a str, &'a str), Owner<'a>>,
    default_queues: BTreeSet<Text>,
}

#[derive(Clone, Copy)]
enum Owner<'a> {
    Job(&'a JobDraft),
    Other(&'a OwnerDraft),
}

impl<'a> Owner<'a> {
    fn uid(self) -> &'a Text {
        match self {
            Owner::Job(job) => &job.uid,
            Owner::Other(owner) => &owner.uid,
        }
    }

    fn marks(self) -> &'a Marks {
        match self {
            Owner::Job(job) => &job.marks,
            Owner::Other(owner) => &owner.marks,
        }
    }

    fn known(self) -> Known<'a> {
        match self {
            Owner::Job(job) => {
                let marks = [Some(&*job.template), Some(&*job.marks)];
                Known { kind: "Job", name: &job.name, marks }
            }
            Owner::Other(other) => {
                let marks = [Some(&*other.template), Some(&*other.marks)];
                Known { kind: &other.kind, name: &other.name, marks }
            }
        }
    }

    fn owner(self) -> Option<&'a OwnerName> {
        match self {
            Owner::Job(job) => job.owner.as_ref(),
            Owner::Other(owner) => owner.owner.as_ref(),
        }
    }
}

impl<'a> Directory<'a> {
    fn new(
        jobs: &'a [JobDraft],
        owners: &'a [OwnerDraft],
        default_queues: BTreeSet<Text>,
    ) -> Directory<'a> {
        let jobs = jobs.iter().map(|job| (("Job", &*job.namespace, &*job.name), Owner::Job(job)));
        let owners = owners
            .iter()
            .map(|owner| ((&*owner.kind, &*owner.namespace, &*owner.name), Owner::Other(owner)));
        Directory { owners: jobs.chain(owners).collect(), default_queues }
    }

    /// The owner that is meant: same name and, where both say it, same uid.
    fn find(&self, namespace: &str, name: &OwnerName) -> Option<Owner<'a>> {
        let owner = *self.owners.get(&(&*name.kind, namespace, &*name.name))?;
        let same = name.uid.is_empty() || name.uid == *owner.uid() || made_up(owner.uid());
        same.then_some(owner)
    }

    /// Owners from the nearest up.
    fn above(&self, namespace: &str, first: Option<&OwnerName>) -> Vec<Owner<'a>> {
        let mut chain = Vec::new();
        let mut next = first.and_then(|name| self.find(namespace, name));
        while let Some(owner) = next {
            chain.push(owner);
            if chain.len() == OWNERS_MAX {
                break;
            }
            next = owner.owner().and_then(|name| self.find(namespace, name));
        }
        chain
    }
}

/// Whether we made the uid up, so that a reference cannot know it.
fn made_up(uid: &str) -> bool {
    uid.contains('/')
}

/// Priorities, and the classes that were named in vain.
struct Ranks {
    classes: BTreeMap<Text, PriorityClassDraft>,
    missing: BTreeMap<Text, u32>,
}

impl Ranks {
    /// Priority, and whether it never preempts.
    fn of(&mut self, ranked: &Ranked) -> (i32, bool) {
        let class = match &ranked.class {
            Some(name) => self.named(name, ranked.priority.is_some()),
            // Of several defaults the API server takes the lowest.
            None => self
                .classes
                .values()
                .filter(|one| one.global_default)
                .min_by_key(|c| c.value)
                .copied(),
        };
        let priority = ranked.priority.or(class.map(|class| class.value)).unwrap_or(0);
        let never = class.is_some_and(|class| class.never_preempts);
        (priority, ranked.never_preempts.unwrap_or(never))
    }

    fn named(&mut self, name: &Text, settled: bool) -> Option<PriorityClassDraft> {
        if let Some(class) = self.classes.get(name) {
            return Some(*class);
        }
        let system = SYSTEM_CLASSES.iter().find(|(system, _)| **system == **name);
        if let Some((_, value)) = system {
            let value = *value;
            return Some(PriorityClassDraft {
                value,
                global_default: false,
                never_preempts: false,
            });
        }
        if !settled {
            *self.missing.entry(name.clone()).or_default() += 1;
        }
        None
    }

    fn notices(self) -> impl Iterator<Item = Notice> {
        self.missing.into_iter().map(|(name, count)| {
            let who = if count == 1 {
                "one object names".into()
            } else {
                format!("{count} objects name")
            };
            Notice::overall(format!(
                "PriorityClass {name} is not in the input ({who} it); priority 0 was taken"
            ))
        })
    }
}

fn job_facts(
    job: &JobDraft,
    directory: &Directory<'_>,
    ranks: &mut Ranks,
    shared: &mut Shared,
    start: Time,
) -> OwnerFacts {
    let above = directory.above(&job.namespace, job.owner.as_ref());
    let mut chain = vec![&*job.template, &*job.marks];
    chain.extend(above.iter().map(|owner| owner.marks()));
    let mut ignored = job.ignored.clone();
    let asked = wishes::read(&chain, &mut ignored);
    let shape = with_capacity_types(&job.shape, &asked.capacity_types, shared);
    let (priority, never_preempts) = ranks.of(&job.ranked);
    let in_queue = in_queue(&asked.wishes, &job.namespace, directory);
    let min_member = gangs::job::min_member(job, &chain, in_queue, &mut ignored);
    let member = Member {
        namespace: &job.namespace,
        name: &job.name,
        uid: &job.uid,
        chain: &chain,
        owner: None,
        job: None,
    };
    let group = gangs::group_of(&member, &mut ignored);
    let mut wishes = asked.wishes;
    let queued = wishes.queue.is_some() || job.marked;
    wishes.ignored = ignored;
    OwnerFacts {
        uid: job.uid.clone(),
        kind: "Job".into(),
        namespace: job.namespace.clone(),
        name: job.name.clone(),
        created: job.created.unwrap_or(start),
        ours: job.ours && (!job.suspended || queued),
        suspended: job.suspended,
        incarnation: job.incarnation,
        finished: job.finished,
        priority,
        never_preempts,
        wishes: shared.wishes.of(wishes),
        pod_sets: vec![OwnerPodSet { name: "main".into(), count: job.count, shape }],
        min_member,
        member_of: group,
        admitted: job.admitted.clone(),
        eviction: job.eviction.clone(),
    }
}

fn pod_facts(
    pod: PodDraft,
    directory: &Directory<'_>,
    ranks: &mut Ranks,
    shared: &mut Shared,
    start: Time,
) -> PodFacts {
    let above = directory.above(&pod.namespace, pod.owner.as_ref());
    let mut chain = vec![&*pod.marks];
    chain.extend(above.iter().map(|owner| owner.marks()));
    let mut ignored = pod.ignored;
    let asked = wishes::read(&chain, &mut ignored);
    let shape = with_capacity_types(&pod.shape, &asked.capacity_types, shared);
    let (priority, never_preempts) = ranks.of(&pod.ranked);
    let job = above.first().and_then(|owner| match owner {
        Owner::Job(job) => Some(gangs::job::Run {
            job,
            incarnation: job.incarnation_of(pod.terminating, pod.created),
            in_queue: in_queue(&asked.wishes, &pod.namespace, directory),
        }),
        Owner::Other(_) => None,
    });
    let member = Member {
        namespace: &pod.namespace,
        name: &pod.name,
        uid: &pod.uid,
        chain: &chain,
        owner: pod.owner.as_ref(),
        job,
    };
    let gang: GangRef = gangs::of(&member, &mut ignored);
    let mut wishes = asked.wishes;
    wishes.ignored = ignored;
    PodFacts {
        uid: pod.uid,
        namespace: pod.namespace,
        name: pod.name,
        shape,
        holds: pod.holds,
        ours: pod.ours,
        node: pod.node,
        phase: pod.phase,
        terminating: pod.terminating,
        gated: pod.gated,
        created: pod.created.unwrap_or(start),
        bound_at: pod.bound_at,
        priority,
        never_preempts,
        gang,
        wishes: shared.wishes.of(wishes),
        binding: pod.binding,
        eviction: pod.eviction,
    }
}

/// Whether a workload queues: it names a queue, or its namespace has a default one.
fn in_queue(wishes: &Wishes, namespace: &Text, directory: &Directory<'_>) -> bool {
    wishes.queue.is_some() || directory.default_queues.contains(namespace)
}

fn with_capacity_types(
    shape: &Arc<PodShape>,
    types: &[CapacityType],
    shared: &mut Shared,
) -> Arc<PodShape> {
    if types.is_empty() {
        return shape.clone();
    }
    let mut own = PodShape::clone(shape);
    own.capacity_types = types.to_vec();
    shared.shapes.of(own)
}
