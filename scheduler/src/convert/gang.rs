//! Owners of other projects whose pods start together, as far as they can be understood alone.
//!
//! Decides which of its runs the next one is, and how many pods its roles make; what a kind says
//! of its roles is read in [`crate::gangs`], one file for each kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_core::model::input::{
    BindingNote, EvictionNote, GangKey, GangRef, GangSource, OwnerEnd, PodShape, RequeueNote,
    SetLevels, Text, TopologyWish, Wishes,
};
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::devices::PodClaimDraft;
use super::directory::{Owner, OwnerKey};
use super::facts::Facts;
use super::job::is_older;
use super::marks::{self, Marks, OwnerName};
use super::pod::{self, PodDraft};
use super::ranges::Contents;
use super::ranks::Ranked;
use super::runtime::Runtime;
use super::sharing::{Pairs, Shared};
use super::storage::Holder;
use super::{Refusal, devices, neighbours, note, requests, selector, storage, time};
use crate::api::keys;
use crate::api::meta::SlimMeta;
use crate::api::pod::{PodStatus, PodTemplate};
use crate::gangs;
use crate::gangs::fields::{Fields, Part};
use crate::gangs::kinds::Kind;
use crate::gangs::owner::Gang;
use crate::gangs::wishes;
use crate::gangs::workers::Workers;
use crate::read::decode;

/// An owner that waits for its own owners and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct GangDraft {
    /// Kind.
    pub kind: Kind,
    /// Unique id.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Creation time, if given.
    pub created: Option<Time>,
    /// Our labels and annotations on it.
    pub marks: Arc<Marks>,
    /// Who owns it.
    pub owner: Option<OwnerName>,
    /// Who makes its pods, if that is not the controller of its kind.
    pub elsewhere: Option<Text>,
    /// How often we suspended it.
    pub incarnation: u32,
    /// It carries our mark of suspension; not where somebody suspended it after we resumed it.
    pub marked: bool,
    /// What it was resumed with.
    pub admitted: Option<BindingNote>,
    /// Who wants its room, while it still has pods.
    pub eviction: Option<EvictionNote>,
    /// What it bears of the runs that we stopped.
    pub requeued: Option<Box<RequeueNote>>,
    /// What its kind says.
    pub says: Says,
    /// Values of ours that could not be read.
    pub ignored: Vec<Text>,
}

/// What an owner says of its pods and of how far it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Says {
    /// Roles, in its own order.
    pub roles: Vec<Role>,
    /// Members that must run together, where it says so itself.
    pub min: Option<u32>,
    /// How many of each role must, where that is no matter of their number alone.
    pub minimums: Option<Arc<BTreeMap<Text, u32>>>,
    /// Who schedules its pods, where it says so for all of them.
    pub scheduler: Option<Text>,
    /// Pods of one group of which it makes several.
    pub size: u32,
    /// The workers of a group are made once its leader is ready.
    pub leader_first: bool,
    /// Who schedules the leader of a group and who its workers, where that is not the same.
    pub parted: Option<(Text, Text)>,
    /// Who schedules the workers of a group, as their template says.
    pub workers: Option<Text>,
    /// What the workers of a group are made of.
    pub worker: Option<Box<Workers>>,
    /// The gangs that are named for the leader of a group and for its workers, where that is not
    /// the same.
    pub gangs: Option<Box<[Option<OwnerKey>; 2]>>,
    /// Tasks whose pods are made in some order, where its pods are members of a group; none: all
    /// are made at once.
    pub tasks: Vec<Task>,
    /// Queue, by the name of a LocalQueue.
    pub queue: Option<Text>,
    /// PriorityClass of the whole gang.
    pub class: Option<Text>,
    /// No pods while this is set.
    pub suspended: bool,
    /// How often it began anew by itself.
    pub restarts: u32,
    /// How its work ended, once it has.
    pub finished: Option<OwnerEnd>,
    /// It says that it has pods.
    pub active: bool,
    /// Members that ended well, as far as it counts them.
    pub ended: u32,
}

/// Pods of one task of an owner that makes them in some order.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name.
    pub name: Text,
    /// Pods.
    pub pods: u32,
    /// Tasks whose pods are there before.
    pub after: Vec<Text>,
    /// Any one of those will do.
    pub any: bool,
    /// What its pods are made of, where others are there before.
    pub role: Option<Arc<Role>>,
}

/// Pods that an owner makes from one template.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Name.
    pub name: Text,
    /// Jobs, or groups of pods, that it makes.
    pub jobs: u32,
    /// Pods of each.
    pub pods: u32,
    /// Pods in all that must run together with the others.
    pub least: u32,
    /// The first pod of each Job is made before the others of it, which wait until it has a node.
    pub firsts: bool,
    /// Roles that run, or have ended, before it is made, by name.
    pub after: Vec<Text>,
    /// Pods that ended well, as far as it counts them.
    pub done: u32,
    /// With whom it starts.
    pub quorum: Quorum,
    /// Labels of its pods.
    pub labels: Pairs,
    /// The pods of each of its Jobs, where these differ in more than their names; else none.
    pub apart: Vec<OfJob>,
    /// Our labels and annotations on its template.
    pub template: Arc<Marks>,
    /// Its template puts its pods into a gang that it names.
    pub grouped: bool,
    /// Who schedules its pods.
    pub scheduler: Option<Text>,
    /// Shape of its pods, without the capacity types that an owner may add.
    pub shape: Arc<PodShape>,
    /// The RuntimeClass of its pods.
    pub runtime: Option<Box<Runtime>>,
    /// What their containers state, of which LimitRanges have a say.
    pub contents: Arc<Contents>,
    /// Claims of its pods on devices, if they have any.
    pub claims: Option<Arc<Vec<PodClaimDraft>>>,
    /// How its pods are ranked.
    pub ranked: Ranked,
}

/// Pods of one Job of a role, some term of which reads what tells its Jobs apart.
#[derive(Clone, Debug, PartialEq)]
pub struct OfJob {
    /// Their labels.
    pub labels: Pairs,
    /// Their shape.
    pub shape: Arc<PodShape>,
}

/// Pods of a role that are of one kind.
#[derive(Clone, Debug)]
pub struct Alike<'a> {
    /// What they are called together.
    pub name: Text,
    /// Their labels.
    pub labels: &'a Pairs,
    /// Their shape.
    pub shape: &'a Arc<PodShape>,
    /// Pods of the role before them.
    pub before: u32,
    /// How many they are.
    pub count: u32,
}

/// With whom the pods of a role start. Pods that are only made once others run must not be waited
/// for by those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quorum {
    /// With all others of this kind.
    Together,
    /// They join those once those run.
    Late,
    /// By themselves: a gang of their own. Of an owner that starts as one they join it once others
    /// run.
    Apart,
}

impl GangDraft {
    /// The draft of an owner, and what was odd about it.
    pub fn of(
        kind: Kind,
        value: &Value,
        shared: &mut Shared,
    ) -> Result<(GangDraft, Vec<Refusal>), Vec<Refusal>> {
        let meta = meta(value);
        let namespace = shared.texts.text(marks::namespace(&meta));
        let mut fields = Fields { namespace: namespace.clone(), odd: Vec::new() };
        let says = gangs::read(kind, Part::whole(value), &mut fields, shared)?;
        let marks = shared.marks_of(&meta);
        let mut ignored = Vec::new();
        let times = marks.annotations.get(keys::SUSPENDED);
        let counted = times.and_then(|text| text.parse::<u32>().ok());
        if let Some(text) = times.filter(|_| counted.is_none()) {
            ignored.push(note::malformed(keys::SUSPENDED, text, "a count"));
        }
        let resumed = says.suspended && marks.annotations.contains_key(keys::ADMITTED);
        let leaving = says.suspended && says.active;
        let by = |path: &str| Part::whole(value).at(path).as_str();
        let by = by("spec.managedBy").or_else(|| by("spec.runPolicy.managedBy"));
        let elsewhere = gangs::made_elsewhere(Some(kind), by);
        let deleted = meta.deletion_timestamp.is_some().then_some(OwnerEnd::Deleted);
        let draft = GangDraft {
            kind,
            uid: marks::uid(&meta, &kind.row().name.to_lowercase()),
            namespace,
            name: marks::name(&meta).into(),
            created: meta.creation_timestamp.as_ref().map(time),
            owner: marks::owner(&meta, shared),
            elsewhere: elsewhere.map(|by| shared.texts.text(by)),
            incarnation: counted.unwrap_or(0),
            marked: counted.is_some_and(|count| count > 0) && !resumed,
            admitted: note::admitted(&marks.annotations, shared, &mut ignored),
            eviction: if leaving { note::eviction(&marks, &mut ignored) } else { None },
            requeued: note::requeued(&marks.annotations, &mut ignored).map(Box::new),
            says: Says { finished: says.finished.or(deleted), ..says },
            marks,
            ignored,
        };
        Ok((draft, fields.odd))
    }

    /// What its pods are made of, as far as that is known: roles, and what is made after others.
    pub fn templates(&self) -> impl Iterator<Item = &Role> {
        let tasks = self.says.tasks.iter().filter_map(|task| task.role.as_deref());
        let workers = self.says.worker.iter().map(|workers| &workers.role);
        self.says.roles.iter().chain(workers).chain(tasks)
    }

    /// Whether all its pods are one gang, so that it can be stopped and started as one.
    pub fn whole(&self) -> bool {
        let apart = |role: &Role| role.quorum == Quorum::Apart;
        !self.says.roles.is_empty() && !self.says.roles.iter().any(apart)
    }

    /// Whether it starts, or was started by us, as one, whatever the order of its pods is.
    pub fn as_one(&self) -> bool {
        self.says.suspended || self.admitted.is_some()
    }

    /// Whether its pods name this scheduler. A role that has none for now says nothing of that,
    /// unless no other has any either.
    pub fn ours(&self, scheduler: &str) -> bool {
        let none = self.says.roles.iter().all(|role| role.count() == 0);
        let mut counting = self.says.roles.iter().filter(|role| none || role.count() > 0);
        counting.all(|role| role.scheduler.as_deref() == Some(scheduler))
    }

    /// Whether it is work of this scheduler before there is any pod of it.
    pub fn waits_for(&self, scheduler: &str) -> bool {
        let ours = |role: &Role| role.scheduler.as_deref() == Some(scheduler);
        let any = self.says.suspended && self.says.roles.iter().any(ours);
        any || (self.whole() || self.as_one()) && self.ours(scheduler)
    }

    /// Whether all its pods are known to name this scheduler, before there is any.
    pub fn names(&self, scheduler: &str) -> bool {
        match &self.says.scheduler {
            Some(name) => **name == *scheduler,
            None => !self.says.roles.is_empty() && self.ours(scheduler),
        }
    }

    /// How often it was suspended before the run of a pod: see
    /// [`super::job::JobDraft::incarnation_of`].
    pub fn incarnation_of(&self, terminating: bool, created: Option<Time>) -> u32 {
        if self.says.suspended || (terminating && is_older(created, self.admitted.as_ref())) {
            return self.incarnation.saturating_sub(1);
        }
        self.incarnation
    }

    /// Whether its pods, and what stands between, would notice no difference if it became the
    /// other: they look at who it is and which of them run together, not at how far it is, but for
    /// those of another scheduler that are still to be made.
    pub fn same_below(&self, other: &GangDraft, scheduler: &str) -> bool {
        let still = |draft: &GangDraft| {
            let mut still = draft.clone();
            (still.eviction, still.ignored) = (None, Vec::new());
            (still.says.finished, still.says.active) = (None, false);
            if still.whole() {
                still.says.ended = 0;
                let ours = |role: &&mut Role| role.scheduler.as_deref() == Some(scheduler);
                still.says.roles.iter_mut().filter(ours).for_each(|role| role.done = 0);
            }
            still
        };
        still(self) == still(other)
    }
}

impl Role {
    /// Tells its Jobs apart by labels that each of them gives to its pods.
    pub fn tell_apart(
        &mut self,
        (template, namespace): (Part<'_>, &Text),
        of_jobs: &[[(&str, String); 4]],
        shared: &mut Shared,
    ) {
        let found: Result<PodTemplate, _> = decode::lenient(template.value);
        let Ok(found) = found else { return };
        for added in of_jobs {
            let mut labels = self.labels.to_vec();
            for (key, value) in added {
                if labels.iter().all(|(known, _)| **known != **key) {
                    labels.push((shared.texts.text(key), shared.texts.text(value)));
                }
            }
            labels.sort();
            let labels = shared.labels.list(&labels);
            let neighbours = neighbours::of(&found.spec, namespace, &labels);
            let shape = PodShape { neighbours, ..PodShape::clone(&self.shape) };
            self.apart.push(OfJob { labels, shape: shared.shapes.of(shape) });
        }
    }

    /// Its pods, those together that are of one kind.
    pub fn kinds(&self) -> Vec<Alike<'_>> {
        if self.apart.is_empty() {
            let (name, count) = (self.name.clone(), self.count());
            let (labels, shape) = (&self.labels, &self.shape);
            return vec![Alike { name, labels, shape, before: 0, count }];
        }
        let jobs = self.apart.iter().zip(0_u32..).map(|(job, at)| Alike {
            name: format!("{}-{at}", self.name).into(),
            labels: &job.labels,
            shape: &job.shape,
            before: at.saturating_mul(self.pods),
            count: self.pods,
        });
        jobs.collect()
    }

    /// Pods in all.
    pub fn count(&self) -> u32 {
        self.jobs.saturating_mul(self.pods)
    }

    /// Pods of it that are made before any of them runs.
    pub fn first(&self) -> u32 {
        if self.firsts { self.count().min(self.jobs) } else { self.count() }
    }

    /// Pods of it that must run together as soon as they can.
    pub fn starts_with(&self) -> u32 {
        self.least.min(self.first())
    }

    /// A role with one group of so many pods, all of which must run. Its controller adds labels to
    /// those of its template: none of these is known where its value is empty.
    pub fn of(
        name: &str,
        (template, namespace, added): (Part<'_>, &Text, &[(&str, &str)]),
        count: u32,
        shared: &mut Shared,
    ) -> Result<Role, Vec<Refusal>> {
        let within = |path: &str| match path {
            "" => template.path.to_owned(),
            path => template.path_of(path),
        };
        let found: PodTemplate = decode::lenient(template.value).map_err(|findings| {
            let one = |finding: crate::read::schema::Finding| Refusal {
                path: within(&finding.path),
                problem: finding.problem,
            };
            findings.into_iter().map(one).collect::<Vec<Refusal>>()
        })?;
        pod::refuse(&found.spec, &template.path_of("spec"))?;
        let mut shape = pod::shape(&found.spec);
        shape.requests = requests::of_pod(&found.spec, &PodStatus::default()).effective();
        selector::add_default_tolerations(&mut shape.tolerations);
        let mut labels = found.metadata.labels.clone().unwrap_or_default();
        for (key, value) in added.iter().filter(|(_, value)| !value.is_empty()) {
            labels.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
        }
        let labels = shared.labels_of(Some(&labels));
        shape.neighbours = neighbours::of(&found.spec, namespace, &labels);
        let holder = Holder { namespace, pod: None };
        shape.volumes = storage::of_pod(&found.spec.volumes, &holder, shared);
        let node_name = found.spec.node_name.as_deref().filter(|name| !name.is_empty());
        shape.node_name = node_name.map(|name| shared.texts.text(name));
        let marks = shared.marks_of_pod(&found.metadata, &found.spec);
        Ok(Role {
            name: shared.texts.text(name),
            jobs: 1,
            pods: count,
            least: count,
            firsts: false,
            after: Vec::new(),
            done: 0,
            quorum: Quorum::Together,
            labels,
            apart: Vec::new(),
            grouped: gangs::names_any(&marks, namespace),
            template: marks,
            scheduler: found.spec.scheduler_name.as_deref().map(|name| shared.texts.text(name)),
            shape: shared.shapes.of(shape),
            runtime: Runtime::of(&found.spec, shared),
            contents: Contents::of(&found.spec, false, shared),
            claims: devices::of_pod(&found.spec, None, shared),
            ranked: Ranked::of(&found.spec, shared),
        })
    }
}

impl Facts<'_> {
    /// The shape of a pod with the name of its pod set, where those of its owner are told apart,
    /// and with its levels, where sets of its gang may ask for different ones: those are no wish of
    /// its gang then.
    pub(super) fn in_its_set(
        &mut self,
        shape: Arc<PodShape>,
        pod: &PodDraft,
        (above, gang): (&[&Owner], &GangRef),
        wishes: &mut Wishes,
    ) -> Arc<PodShape> {
        let of = Gang::above(above, self.directory);
        let of_job = pod.owner.as_deref().is_some_and(|owner| &*owner.kind == "Job");
        let role = of.and_then(|of| of.role_of(&pod.labels, of_job));
        let named = of.is_some_and(|of| of.comes_late() || wishes.topology.per_pod_set);
        let owners = of.map(|of| of.marks_above(above)).unwrap_or_default();
        let sets = of.map(|of| of.sets(&owners)).unwrap_or_default();
        let levels = match (of, role) {
            (Some(of), Some(role)) => of.own_levels(role, (&owners, &sets), is_group(gang)),
            (Some(_), None) if !sets.differ && !is_group(gang) => None,
            _ => levels_of_part(gang, &wishes.topology),
        };
        if sets.differ || levels.is_some() {
            wishes.topology = wishes::each_its_own();
        }
        self.in_set(shape, role.filter(|_| named).map(|role| &role.name), levels)
    }

    /// The shape of a Job's pods with their levels, if they are members of a group.
    pub(super) fn in_its_group(
        &mut self,
        shape: Arc<PodShape>,
        group: Option<&GangRef>,
        wishes: &mut Wishes,
    ) -> Arc<PodShape> {
        let group = group.filter(|group| is_group(group));
        let levels = group.and_then(|group| levels_of_part(group, &wishes.topology));
        if levels.is_some() {
            wishes.topology = wishes::each_its_own();
        }
        self.in_set(shape, None, levels)
    }

    /// A shape with the name and the levels of a pod set.
    pub(super) fn in_set(
        &mut self,
        shape: Arc<PodShape>,
        set: Option<&Text>,
        levels: Option<SetLevels>,
    ) -> Arc<PodShape> {
        if set.is_none() && levels.is_none() {
            return shape;
        }
        let (pod_set, levels) = (set.cloned(), levels.map(Arc::new));
        self.shared.shapes.of(PodShape { pod_set, levels, ..PodShape::clone(&shape) })
    }
}

/// Whether a gang has members that several owners may make.
pub(super) fn is_group(gang: &GangRef) -> bool {
    matches!(gang.key, GangKey::Group(..))
}

/// Levels of the pod set of which a part of a gang is, which asks this by itself: other members may
/// ask for others.
pub(super) fn levels_of_part(gang: &GangRef, asked: &TopologyWish) -> Option<SetLevels> {
    let parts = is_group(gang) || gang.source == GangSource::Owner;
    let TopologyWish { required, preferred, slices, per_pod_set } = asked.clone();
    (parts && per_pod_set).then_some(SetLevels { required, preferred, slices })
}

/// The metadata of an object; what cannot be read of it is left out.
pub fn meta(value: &Value) -> ObjectMeta {
    use serde::Deserialize;
    SlimMeta::deserialize(&value["metadata"]).unwrap_or_default().into()
}
