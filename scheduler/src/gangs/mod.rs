//! Which gang a pod belongs to, and what people asked of its workload.
//!
//! Decides by an ordered table of sources, one file each: the first that knows the pod wins. A
//! new source is one file and one row. Assumes that labels of owners are already in the chain.

pub mod capstan_gang;
mod digest;
pub mod fields;
pub mod grouped;
pub mod groups;
pub mod job;
pub mod jobset;
pub mod kinds;
pub mod kubeflow;
pub mod kueue_group;
mod late;
pub mod lws;
pub mod owner;
pub mod plugins;
pub mod ray;
pub mod single;
pub mod spark;
pub mod to_come;
pub mod train;
pub mod upstream;
pub mod volcano;
pub mod wishes;
pub mod workers;

use capstan_core::model::input::{GangRef, GangSource, Held, OwnerEnd, Rank, Text};
use capstan_core::time::Time;

use self::fields::{Fields, Part};
use self::kinds::Kind;
use crate::api::keys;
use crate::api::no_equal::MULTIKUEUE;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::gang::Says;
use crate::convert::job::JobDraft;
use crate::convert::marks::{Marks, OwnerName};
use crate::convert::pod::PodDraft;
use crate::convert::sharing::Shared;
use crate::convert::{Refusal, note};
use crate::read::names;

/// A pod that may be in a gang.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Namespace.
    pub namespace: &'a Text,
    /// Name.
    pub name: &'a Text,
    /// Unique id.
    pub uid: &'a Text,
    /// Our labels and annotations: its own first, then its owners' from the nearest up.
    pub chain: &'a [&'a Marks],
    /// It is being deleted.
    pub terminating: bool,
    /// When it was created, if that is known.
    pub created: Option<Time>,
    /// Its owner as it names it.
    pub owner: Option<&'a OwnerName>,
    /// Its owners that are known, from the nearest up.
    pub above: &'a [&'a Owner],
    /// All that has a say.
    pub directory: &'a Directory,
    /// The Job that owns it, where that is known.
    pub job: Option<job::Run<'a>>,
    /// It is one of the pods of a Job, and not the first of them.
    pub follows: bool,
}

/// One source of gangs: the gang of a pod, if this source knows it.
type Source = fn(&Member<'_>, &mut Vec<Text>) -> Option<GangRef>;

/// Sources that name a group on the pod itself, best first.
const GROUPS: &[Source] = &[
    upstream::resolve,
    plugins::resolve,
    volcano::resolve,
    capstan_gang::resolve,
    kueue_group::resolve,
];

/// Sources that read owners, best first; the last one knows every pod.
const OWNERS: &[Source] =
    &[lws::resolve, spark::resolve, owner::resolve, job::resolve, single::resolve];

/// The gang of a pod. Values that cannot be read are ignored and named.
pub fn of(member: &Member<'_>, ignored: &mut Vec<Text>) -> GangRef {
    GROUPS
        .iter()
        .chain(OWNERS)
        .find_map(|source| source(member, ignored))
        .expect("the last source knows every pod")
}

/// The group that the pods of an owner name, if they name one.
pub fn group_of(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let gang = GROUPS.iter().find_map(|source| source(member, ignored))?;
    // It counts those of its pods that are deleted.
    Some(GangRef { singly: false, ..gang })
}

/// Where a pod stands in its gang: by its index in a group of Kueue's, unless the Job that makes it
/// numbers it; else where it stands among its peers.
pub fn rank_in(gang: &GangRef, pod: &PodDraft, job: Option<&JobDraft>) -> Rank {
    let own = rank(&pod.labels, job);
    let numbered = job.is_some() && matches!(own, Rank::Number(_));
    match gang.source {
        GangSource::KueueGroup if !numbered => {
            kueue_group::index(&pod.marks, &pod.labels).map_or(own, Rank::Index)
        }
        _ => own,
    }
}

/// Where a pod stands among its peers, of this Job or of none. An index is a part of its name as
/// well, before what makes that the only one, so that its gang stands in order of names.
fn rank(labels: &[(Text, Text)], job: Option<&JobDraft>) -> Rank {
    let value = |of: &str| labels.iter().find(|(key, _)| **key == *of).map(|(_, value)| value);
    let own = keys::INDEXES.iter().find_map(|key| value(key).filter(|value| !value.is_empty()));
    let Some(own) = own else { return Rank::None };
    let number = || -> Option<u32> {
        let own: u32 = own.parse().ok()?;
        let Some(job) = job else { return Some(own) };
        // Which indexes are made again of a Job that did some of its work is not known.
        let whole = job.parallel_by_index && job.succeeded == 0;
        let before: u32 = match value(keys::JOBSET_JOB) {
            Some(jobs) => jobs.parse().ok()?,
            None => 0,
        };
        before.checked_mul(job.count)?.checked_add(own).filter(|_| whole)
    };
    number().map_or(Rank::Named, Rank::Number)
}

/// Whether a pod with these labels is one of those of a Job, and not the first of them.
pub fn follows(labels: &[(Text, Text)]) -> bool {
    labels.iter().any(|(key, index)| **key == *keys::JOB_INDEX && **index != *"0")
}

/// What an owner of another project says of its pods.
pub fn read(
    kind: Kind,
    part: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Says, Vec<Refusal>> {
    match kind {
        Kind::TrainJob => Ok(train::read(part, fields)),
        Kind::JobSet => jobset::read(part, fields, shared),
        Kind::LeaderWorkerSet => Ok(lws::read(part, fields, shared)),
        Kind::RayJob | Kind::RayCluster => ray::read(kind, part, fields, shared),
        Kind::SparkApplication => Ok(spark::read(part, fields)),
        Kind::VolcanoJob => Ok(volcano::read_job(part, fields, shared)),
        _ => kubeflow::read(kind, part, fields, shared),
    }
}

/// What a pod names itself and what has a say in its gang, beside its owner.
pub fn named_by(pod: &PodDraft) -> impl Iterator<Item = OwnerKey> {
    let set = lws::named_by(&pod.marks, &pod.namespace);
    let application = spark::named_by(&pod.marks, &pod.namespace);
    own_gang_of(pod).into_iter().chain(set).chain(application)
}

/// The gang that a pod names itself, if it does.
pub fn own_gang_of(pod: &PodDraft) -> Option<OwnerKey> {
    gang_with(pod, &[&*pod.marks])
}

/// The gang that a pod names, or an owner for its pods.
pub fn gang_of(pod: &PodDraft, directory: &Directory) -> Option<OwnerKey> {
    let above = directory.above(&pod.namespace, pod.owner.as_deref());
    gang_with(pod, &pod.chain_with(&above, directory))
}

fn gang_with(pod: &PodDraft, chain: &[&Marks]) -> Option<OwnerKey> {
    let of_set = || lws::group_named_by(&pod.marks, &pod.namespace);
    named_in(chain, &pod.namespace).or_else(of_set)
}

/// Whether a pod counts in the gang that is named for it. Who ended is waited for by nobody, and no
/// other scheduler does anything about it any more.
pub fn counts_in_its_gang(pod: &PodDraft) -> bool {
    !pod.phase.terminal()
}

/// Whether a pod that ended is still a member of the gang that it names itself: its share of the
/// work is done, or it failed. Whoever made it says nothing of that gang; a Job says in place of
/// how many it makes others, and who serves is made again whatever its end.
pub fn counts_ended(marks: &Marks, namespace: &Text, owner: Option<&OwnerName>) -> bool {
    let replaced = owner.is_some_and(|owner| groups::REPLACE.contains(&&*owner.kind));
    let named = || named_in(&[marks], namespace);
    groups::named_by(marks, namespace).is_some() || !replaced && named().is_some()
}

/// The gang that the pods of an owner will name, or it or an owner of its for them.
pub fn gang_of_owner(owner: &Owner, directory: &Directory) -> Option<OwnerKey> {
    let chain = match owner {
        Owner::Job(job) => job.chain(directory),
        Owner::Gang(gang) => {
            let above = directory.above(&gang.namespace, gang.owner.as_ref());
            owner::Gang::of(gang, directory)?.chain(&above)
        }
        Owner::Group(_) | Owner::Other(_) => return None,
    };
    named_in(&chain, owner.namespace())
}

/// The gang that is named for who has these marks, its own first: PodGroups only by those.
fn named_in(chain: &[&Marks], namespace: &Text) -> Option<OwnerKey> {
    groups::named_by(chain.first()?, namespace)
        .or_else(|| capstan_gang::named_in(chain, namespace))
        .or_else(|| kueue_group::named_in(chain, namespace))
}

/// Why members of a gang wait that others name as well, for another scheduler; or that others will
/// be in, whom their owner is still to make.
fn held(member: &Member<'_>, gang: &OwnerKey) -> Option<Held> {
    let foreign = member.directory.foreign(gang).max(owner::foreign_in(member, gang));
    (foreign > 0).then_some(Held::ForeignMembers(foreign))
}

/// Whether a template puts the pods that it makes into a gang that it names.
pub fn names_any(template: &Marks, namespace: &Text) -> bool {
    named_in(&[template], namespace).is_some()
}

/// Whether what is said by marks puts a pod that has them into a gang.
fn names(marks: &Marks, namespace: &Text, gang: &OwnerKey) -> bool {
    named_in(&[marks], namespace).is_some_and(|named| named == *gang)
}

/// What the controllers of Kubernetes and of JobSet are called in `managedBy`.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
const JOB_SET_CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";

/// Who makes the pods of an owner, if that is not the controller of its kind (`None`: a Job): that
/// one makes none then, and whoever starts the owner waits for them in vain.
pub fn made_elsewhere(kind: Option<Kind>, managed_by: Option<&str>) -> Option<&str> {
    managed_by.filter(|by| match kind {
        _ if by.is_empty() => false,
        None => *by != JOB_CONTROLLER,
        Some(Kind::JobSet) => *by != JOB_SET_CONTROLLER,
        // Their controllers have names of their own, and leave to others nothing but this.
        Some(_) => *by == MULTIKUEUE,
    })
}

/// How an owner ended, once it has.
pub fn finished(kind: Kind, part: Part<'_>) -> Option<OwnerEnd> {
    let stated = match kind {
        Kind::JobSet => part.at("status.terminalState").as_str(),
        Kind::RayJob => part.at("status.jobDeploymentStatus").as_str(),
        _ => None,
    };
    match (kind, stated) {
        (_, Some("Complete" | "Completed")) => Some(OwnerEnd::Succeeded),
        (_, Some("Failed")) => Some(OwnerEnd::Failed(None)),
        // What is not valid is begun by nobody, unless it was valid and has a cluster.
        (Kind::RayJob, Some(why @ "ValidationFailed")) => {
            let cluster = part.at("status.rayClusterName").as_str().unwrap_or_default();
            cluster.is_empty().then(|| OwnerEnd::Failed(Some(why.into())))
        }
        (Kind::JobSet, _) => ended(part, "Completed", "Failed"),
        (Kind::TrainJob, _) => ended(part, "Complete", "Failed"),
        (Kind::RayJob | Kind::RayCluster, _) => None,
        _ => ended(part, "Succeeded", "Failed"),
    }
}

/// How an owner ended, by the conditions that say so.
fn ended(part: Part<'_>, well: &str, badly: &str) -> Option<OwnerEnd> {
    let conditions = part.at("status.conditions").as_array()?;
    let holds =
        |kind: &str| conditions.iter().find(|it| it["type"] == kind && it["status"] == "True");
    if holds(well).is_some() {
        return Some(OwnerEnd::Succeeded);
    }
    let reason = holds(badly)?["reason"].as_str().filter(|reason| !reason.is_empty());
    Some(OwnerEnd::Failed(reason.map(Text::from)))
}

/// Letters of the name of a workload that comes from a label or annotation: there is room for what
/// is appended where several would have the same.
const NAME_MAX: usize = names::SUBDOMAIN_MAX - 32;

/// The name of the workload of a gang that a label or annotation names: that, with what no object
/// may be named by (`exp_42`) written so that one may (`exp-42`).
pub fn workload_name(group: &Text) -> Text {
    if names::is_object_name(group) && group.len() <= NAME_MAX {
        return group.clone();
    }
    let mut name: String = group
        .chars()
        .map(|letter| match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
            _ => '-',
        })
        .take(NAME_MAX)
        .collect();
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('-')).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    name = parts.join(".");
    if name.is_empty() { "gang".into() } else { name.into() }
}

/// Names that a workload may have that people call by this one.
pub fn names_of(asked: &str) -> impl Iterator<Item = Text> {
    let asked = Text::from(asked);
    let made = workload_name(&asked);
    let other = (made != asked).then_some(made);
    std::iter::once(asked).chain(other)
}

/// The first annotation of this key, from the nearest object up.
fn annotation<'a>(chain: &[&'a Marks], key: &str) -> Option<&'a Text> {
    chain.iter().find_map(|marks| marks.annotations.get(key))
}

/// A count above zero from an annotation; anything else is ignored and named.
fn count(chain: &[&Marks], key: &str, ignored: &mut Vec<Text>) -> Option<u32> {
    let text = annotation(chain, key)?;
    let count = text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    if count.is_none() {
        ignored.push(note::malformed(key, text, "a count above zero"));
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_an_index_says_so_by_a_label() {
        let of = |key: &str, value: &str| {
            rank(&[("app".into(), "x".into()), (key.into(), value.into())], None)
        };
        assert_eq!(of("batch.kubernetes.io/job-completion-index", "3"), Rank::Number(3));
        assert_eq!(of("apps.kubernetes.io/pod-index", "0"), Rank::Number(0));
        assert_eq!(of("apps.kubernetes.io/pod-index", "x"), Rank::Named);
        assert_eq!(of("apps.kubernetes.io/pod-index", ""), Rank::None);
        assert_eq!([of("index", "3"), rank(&[], None)], [Rank::None; 2]);
    }

    #[test]
    fn the_first_pod_of_a_job_follows_nobody() {
        let of = |key: &str, index: &str| follows(&[(key.into(), index.into())]);
        assert!(of("batch.kubernetes.io/job-completion-index", "1"));
        assert!(!of("batch.kubernetes.io/job-completion-index", "0"));
        assert!(!of("apps.kubernetes.io/pod-index", "1") && !follows(&[]));
    }

    #[test]
    fn a_workload_is_named_as_an_object_may_be() {
        let long = "x".repeat(300);
        for (group, name) in [
            ("train", "train"),
            ("a.b-1", "a.b-1"),
            ("exp_42", "exp-42"),
            ("Wait_Q", "wait-q"),
            ("_x_", "x"),
            ("a._.b", "a.b"),
            ("größe/8", "gr--e-8"),
            ("___", "gang"),
            (&long, &long[..NAME_MAX]),
        ] {
            assert_eq!(&*workload_name(&group.into()), name);
            assert!(names::is_object_name(name), "{name}");
        }
        assert_eq!(names_of("exp_42").collect::<Vec<_>>(), ["exp_42".into(), "exp-42".into()]);
        assert_eq!(names_of("train").collect::<Vec<_>>(), ["train".into()]);
    }
}
