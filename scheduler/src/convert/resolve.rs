//! Settles what one object alone could not say.
//!
//! Decides in which order facts come (what others refer to first) and which namespaces exist.
//! The facts of a Job or pod are made in [`super::facts`], those of queues in [`super::quota`].
//! The result does not depend on the order in which objects were read.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::Input;
use capstan_core::model::input::{Labels, OwnerFacts, PodFacts, PodPhase, Text};
use capstan_core::time::Time;

use super::budget::BudgetDraft;
use super::directory::{Directory, Owner};
use super::facts::{Facts, Missing};
use super::gathered::Gathered;
use super::pod::PodDraft;
use super::remarks::Remarks;
use super::{crowd, quota};
use crate::api::keys;
use crate::gangs;
use crate::read::error::Notice;

/// Facts for the engine, and what is worth knowing about them.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Facts: what others refer to first.
    pub inputs: Vec<Input>,
    /// What is worth knowing.
    pub notices: Vec<Notice>,
    /// Members of groups, each with the owner that made it, by uid.
    pub made_by: BTreeMap<Text, Text>,
}

/// Facts for who plays owners' controllers: these make the pods that are missing, and a pod that an
/// operator put into a group is none of those, though it is no member of its owner's gang; nor is
/// one that ended well and that nobody follows. What is played are the pods of one time: in place
/// of those that end then no others are made.
pub fn to_be_played(mut inputs: Vec<Input>, made_by: &BTreeMap<Text, Text>) -> Vec<Input> {
    let mut made: BTreeMap<&Text, Vec<PodFacts>> = BTreeMap::new();
    let mut ended: BTreeMap<Text, u32> = BTreeMap::new();
    for input in &inputs {
        if let Input::Pod(pod) = input
            && let Some(owner) = made_by.get(&pod.uid)
        {
            made.entry(owner).or_default().push(pod.clone());
            let job = pod.of_job.as_ref().filter(|_| pod.phase == PodPhase::Succeeded);
            job.into_iter().for_each(|job| *ended.entry(job.clone()).or_default() += 1);
        }
    }
    for input in &mut inputs {
        if let Input::Owner(owner) = input {
            count_in(owner, made.get(&owner.uid).map_or(&[][..], Vec::as_slice));
            if owner.member_of.is_some() {
                let seen = ended.get(&owner.uid).copied().unwrap_or(0);
                let deleted = owner.ended.saturating_sub(seen);
                owner.replaces = owner.replaces.saturating_sub(deleted).min(seen);
                owner.ended = seen;
            }
        }
    }
    inputs
}

/// Settles everything; `start` stands for creation times that nobody gave.
pub fn resolve(gathered: Gathered, start: Time) -> Resolved {
    let mut resolved = Resolved::default();
    let Gathered { mut shared, nodes, namespaces, pods, jobs, owners, queueing, storage, .. } =
        gathered;
    let Gathered { gangs, groups, budgets, mut devices, .. } = gathered;
    devices.settle(&mut shared);
    devices.evaluate();
    let device_facts = devices.everything();
    let local = queueing.local_queues.iter().map(|(_, queue)| &queue.namespace);
    let of_jobs = jobs.iter().map(|job| &job.namespace);
    let named = pods.iter().map(|pod| &pod.namespace).chain(of_jobs).chain(local);
    let named = named.chain(gangs.iter().map(|gang| &gang.namespace)).cloned();
    let named: BTreeSet<Text> = named.chain([Text::from(DEFAULT_NAMESPACE)]).collect();
    namespace_inputs(namespaces, named, &mut resolved.inputs);
    let mut directory = Directory {
        scheduler: gathered.scheduler,
        default_queues: queueing.default_queues(),
        classes: gathered.priority_classes,
        runtimes: gathered.runtime_classes,
        ranges: gathered.limit_ranges,
        devices,
        ..Directory::default()
    };
    quota::inputs(queueing, &mut resolved);
    resolved.inputs.extend(nodes.into_iter().map(|it| Input::Node(it.into())));
    resolved.inputs.extend(gathered.default_class.complete(storage).map(Input::Storage));
    resolved.inputs.extend(device_facts);
    let jobs = jobs.into_iter().map(|job| Owner::Job(Box::new(job)));
    let others = owners.into_iter().map(|owner| Owner::Other(Box::new(owner)));
    let gangs = gangs.into_iter().map(|gang| Owner::Gang(Box::new(gang)));
    let groups = groups.into_iter().map(|group| Owner::Group(Box::new(group)));
    let mut order = Vec::new();
    for owner in jobs.chain(gangs).chain(others).chain(groups) {
        order.push(owner.key());
        for (shape, scheduler) in owner.shapes() {
            directory.meet(shape, scheduler);
        }
        directory.put(owner);
    }
    for pod in &pods {
        directory.meet_pod(pod);
        enlist(pod, &mut directory);
    }
    for BudgetDraft { facts, labels } in budgets {
        directory.guards.put(&facts.namespace, &facts.name, labels);
        resolved.inputs.push(Input::Budget(facts));
    }
    let (mut remarks, mut missing) = <(Remarks, Missing)>::default();
    let mut facts = Facts { directory: &directory, shared: &mut shared, missing: &mut missing };
    for owner in order.iter().filter_map(|key| directory.owners.get(key)) {
        let made = facts.of_owner(owner, start);
        facts.remark(owner, made.as_ref(), &mut remarks);
        resolved.inputs.extend(made.map(Input::Owner));
    }
    crowd::limit_all(&mut resolved.inputs);
    let mut present = BTreeSet::new();
    for pod in pods {
        let made = facts.of_pod(&pod, start);
        facts.remark_pod(&pod, &made, &mut remarks);
        present.extend(facts.gangs_of(&pod));
        resolved.made_by.extend(facts.maker(&pod, &made.gang.key));
        resolved.inputs.push(Input::Pod(made));
    }
    facts.remark_unplayed(&present, &mut remarks);
    resolved.notices.extend(remarks.notices(&gathered.places));
    resolved.notices.extend(missing.notices("input"));
    resolved
}

/// A pod counts in the gang that it names, or that its owners name, and not in its owner's own.
fn enlist(pod: &PodDraft, directory: &mut Directory) {
    let Some(gang) = gangs::gang_of(pod, directory) else { return };
    if let Some(part) = gangs::grouped::part_of(pod, &gang, directory) {
        directory.grouped.add(&pod.uid, part);
    }
    if gangs::counts_in_its_gang(pod) {
        directory.enlist(&gang, pod);
    }
}

/// Counts members of groups among the pods that their owner has made; those that are missing come
/// into the same group.
fn count_in(owner: &mut OwnerFacts, pods: &[PodFacts]) {
    let well = |pod: &&PodFacts| pod.phase == PodPhase::Succeeded;
    let ended = u32::try_from(pods.iter().filter(well).count()).unwrap_or(u32::MAX);
    // Who is suspended makes all of them anew.
    let over = if owner.suspended { 0 } else { owner.over(ended) };
    let goes_on = |pod: &&PodFacts| !pod.phase.terminal();
    if let Some(pod) = pods.iter().find(goes_on) {
        owner.member_of.get_or_insert_with(|| pod.gang.clone());
    }
    let sets = &mut owner.pod_sets;
    for pod in pods.iter().filter(goes_on).chain(pods.iter().filter(well).take(over as usize)) {
        let alike = sets.iter().position(|set| set.count > 0 && set.shape == pod.shape);
        if let Some(at) = alike.or_else(|| sets.iter().position(|set| set.count > 0)) {
            sets[at].count -= 1;
        }
    }
}

/// The namespace that every cluster has.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Namespaces given, and those that others name.
fn namespace_inputs(
    mut given: BTreeMap<Text, Labels>,
    named: BTreeSet<Text>,
    inputs: &mut Vec<Input>,
) {
    for name in named {
        given.entry(name).or_default();
    }
    inputs.extend(given.into_iter().map(|(name, labels)| namespace_input(name, labels)));
}

/// A namespace; each has the label that all have.
pub fn namespace_input(name: Text, mut labels: Labels) -> Input {
    labels.insert(keys::NAMESPACE_NAME.into(), name.clone());
    Input::Namespace { name, labels }
}
