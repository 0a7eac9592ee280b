//! The facts of one Job or pod, given what is around it.
//!
//! Decides which owner's labels count and which gang a pod is in. Nothing is remembered from one
//! object to the next but which classes were named in vain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    GangKey, GangRef, GangSource, Held, OwnerFacts, OwnerPodSet, PodFacts, PodShape, Text, Wishes,
};
use capstan_core::time::Time;

use super::devices::{Claimant, PodClaimDraft};
use super::directory::{Directory, Owner};
use super::gang::{Alike, GangDraft, Role, is_group};
use super::group::GroupDraft;
use super::job::JobDraft;
use super::marks::Marks;
use super::pod::PodDraft;
use super::ranges::Contents;
use super::remarks::Remarks;
use super::runtime::Runtime;
use super::sharing::{Pairs, Shared};
use super::to_come::with_level;
use crate::gangs::owner::Gang;
use crate::gangs::wishes::{self, Asked};
use crate::gangs::{self, Member};
use crate::read::error::Notice;

/// What facts are made with.
pub struct Facts<'a> {
    /// What has a say.
    pub directory: &'a Directory,
    /// What equal parts share.
    pub shared: &'a mut Shared,
    /// PriorityClasses and RuntimeClasses that were named in vain.
    pub missing: &'a mut Missing,
}

/// Classes that pods name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClassKind {
    /// PriorityClass.
    Priority,
    /// RuntimeClass.
    Runtime,
}

/// Classes that were named in vain, and by how many objects.
#[derive(Debug, Default)]
pub struct Missing(pub BTreeMap<(ClassKind, Text), u32>);

impl Missing {
    /// One for each class; `place` says where it was looked for.
    pub fn notices(self, place: &str) -> impl Iterator<Item = Notice> {
        self.0.into_iter().map(move |((kind, name), count)| {
            let (kind, then) = match kind {
                ClassKind::Priority => ("PriorityClass", "priority 0 was taken"),
                ClassKind::Runtime => ("RuntimeClass", "nothing was added for it"),
            };
            let who = if count == 1 {
                "one object names".into()
            } else {
                format!("{count} objects name")
            };
            Notice::overall(format!("{kind} {name} is not in the {place} ({who} it); {then}"))
        })
    }
}

/// Most pods that one Job may run at once: as many as Kubernetes is made for in a whole cluster
/// (https://kubernetes.io/docs/setup/best-practices/cluster-large/). A number that was meant
/// otherwise must not cost the memory of its pods.
pub const MEMBERS_MAX: u32 = 150_000;

impl Facts<'_> {
    /// The facts of an owner, if it has any of its own.
    pub fn of_owner(&mut self, owner: &Owner, start: Time) -> Option<OwnerFacts> {
        match owner {
            Owner::Job(job) => Some(self.of_job(job, start)),
            Owner::Gang(gang) => self.of_gang(gang, start),
            Owner::Group(_) | Owner::Other(_) => None,
        }
    }

    /// What is to be said of an owner with these facts, if it has any.
    pub fn remark(&self, owner: &Owner, facts: Option<&OwnerFacts>, remarks: &mut Remarks) {
        match (owner, facts) {
            (Owner::Job(job), Some(facts)) => self.remark_job(job, facts, remarks),
            (Owner::Gang(_), Some(facts)) => self.remark_gang(owner, facts, remarks),
            _ => self.remark_owner(owner, remarks),
        }
    }

    /// The facts of a Job; `start` stands for a creation time that nobody gave.
    pub fn of_job(&mut self, job: &JobDraft, start: Time) -> OwnerFacts {
        let (chain, mut ignored) = (job.chain(self.directory), job.ignored.clone());
        let asked = wishes::read(&chain, &mut ignored);
        let shape = self.with_ranges(&job.shape, (&job.namespace, false), Some(&job.contents));
        let shape = self.with_runtime(&shape, job.runtime.as_deref());
        let shape = with_asked(&shape, &asked, self.shared);
        let ours = job.is_work_of(&self.directory.scheduler);
        let shape = self.seen_by_others(&shape, (&job.namespace, &job.labels), ours);
        let shape = self.with_template_claims(shape, &job.claims, &job.namespace);
        let (priority, never_preempts) = self.rank(&job.ranked);
        let in_queue = self.in_queue(&asked.wishes, &job.namespace);
        let min_member = gangs::job::min_member(job, &chain, in_queue, &mut ignored);
        let above = self.directory.above(&job.namespace, job.owner.as_ref());
        let member = Member {
            namespace: &job.namespace,
            name: &job.name,
            uid: &job.uid,
            chain: &chain,
            terminating: false,
            created: None,
            owner: None,
            above: &above,
            directory: self.directory,
            job: None,
            follows: false,
        };
        let part = Gang::above_job(&above, &job.name, self.directory).is_some();
        let group = gangs::group_of(&member, &mut ignored).or_else(|| match part {
            true => gangs::owner::resolve(&member, &mut ignored),
            false => None,
        });
        let mut wishes = asked.wishes;
        let shape = self.in_its_group(shape, group.as_ref(), &mut wishes);
        let (here, queued) = (job.elsewhere.is_none(), wishes.queue.is_some() || job.marked);
        // The owner that is the gang makes these pods, as far as anybody plays that here.
        let count = if here && job.count <= MEMBERS_MAX && !part { job.count } else { 0 };
        wishes.ignored = ignored;
        let name = self.shared.texts.text("main");
        let set = OwnerPodSet { name, count, before: 0, shape, roles: None, late: None };
        OwnerFacts {
            uid: job.uid.clone(),
            kind: self.shared.texts.text("Job"),
            source: GangSource::Job,
            namespace: job.namespace.clone(),
            name: job.name.clone(),
            created: job.created.unwrap_or(start),
            ours: ours && here && (!job.suspended || queued) && job.count <= MEMBERS_MAX,
            suspended: job.suspended,
            incarnation: job.incarnation,
            finished: job.finished.clone(),
            priority,
            never_preempts,
            wishes: self.of_template(wishes, &job.ranked),
            pod_sets: vec![set],
            min_member,
            min_stated: gangs::job::states_minimum(job, &chain),
            ended: job.succeeded,
            left: job.left,
            replaces: job.replaces,
            member_of: group,
            admitted: job.admitted.clone(),
            eviction: job.eviction.clone(),
            requeued: job.requeued.clone(),
            held: job.held(&self.directory.scheduler),
        }
    }

    /// The facts of an owner of another project, if it is stopped and started as one gang.
    pub fn of_gang(&mut self, owner: &GangDraft, start: Time) -> Option<OwnerFacts> {
        owner.kind.row().suspend?;
        let above = self.directory.above(&owner.namespace, owner.owner.as_ref());
        let topmost = above.first().is_none_or(|owner| owner.gang().is_none());
        let gang = Gang::of(owner, self.directory).filter(|gang| topmost && gang.whole())?;
        // Who places a part of it only must not stop the rest, nor start it.
        let (directory, scheduler) = (self.directory, &self.directory.scheduler);
        let held = gang.held(scheduler).filter(|_| gang.mixed(scheduler));
        if held.is_some() && !owner.says.suspended {
            return None;
        }
        let (chain, mut ignored) = (gang.chain(&above), owner.ignored.clone());
        let mut asked = gang.asked(&chain, &mut ignored);
        let (submitted, count) = (gang.submitted(directory), gang.count());
        let over = gang.over(directory).saturating_add(submitted);
        let made = owner.elsewhere.is_none() && count <= MEMBERS_MAX;
        let owners = gang.owners(&above, directory);
        let member = Member {
            namespace: &owner.namespace,
            name: &owner.name,
            uid: &owner.uid,
            chain: &chain,
            terminating: false,
            created: None,
            owner: None,
            above: &owners,
            directory: self.directory,
            job: None,
            follows: false,
        };
        let member_of = gangs::group_of(&member, &mut ignored);
        let min_member = match made && member_of.is_none() {
            // Those of others will never be members here.
            _ if held.is_some() => 1,
            true => gang.least_of_all(&chain, over, &mut ignored),
            // Nothing is kept for pods of it that come late.
            false => gang.least(&chain, over, &mut ignored),
        };
        let of = (over, made, member_of.as_ref().is_some_and(is_group));
        let (pod_sets, priority, never_preempts) = self.roles(&gang, of, (&chain, &mut asked));
        let queue = asked.wishes.queue.or_else(|| gang.of.says.queue.clone());
        let wishes = Wishes { queue, ignored, ..asked.wishes };
        let (suspended, queued) = (owner.says.suspended, wishes.queue.is_some() || owner.marked);
        Some(OwnerFacts {
            uid: owner.uid.clone(),
            kind: self.shared.texts.text(owner.kind.row().name),
            source: GangSource::Owner,
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            created: owner.created.unwrap_or(start),
            ours: (gang.is_work_of(scheduler) || held.is_some()) && made && (!suspended || queued),
            suspended,
            incarnation: owner.incarnation.saturating_add(gang.of.says.restarts),
            finished: owner.says.finished.clone(),
            priority,
            never_preempts,
            wishes: self.shared.wishes.of(wishes),
            pod_sets,
            min_member: min_member.max(1),
            min_stated: false,
            ended: gang.ended(directory).saturating_add(submitted),
            left: Some(gang.left(over)),
            replaces: 0,
            member_of,
            admitted: owner.admitted.clone(),
            eviction: owner.eviction.clone(),
            requeued: owner.requeued.clone(),
            held: held.or_else(|| gang.of_another(scheduler)),
        })
    }

    /// Pod sets of a gang of which so many members are over, those that come late behind the
    /// others, its priority, and whether it never preempts. Levels that sets have by themselves are
    /// no wish of all.
    fn roles(
        &mut self,
        gang: &Gang<'_>,
        (over, made, in_group): (u32, bool, bool),
        (chain, asked): (&[&Marks], &mut Asked),
    ) -> (Vec<OwnerPodSet>, i32, bool) {
        let (mut sets, mut priority, mut never) = (Vec::new(), i32::MIN, false);
        let namespace = &gang.of.namespace;
        let (owners, submitted) = (&chain[1..], gang.submitted(self.directory));
        let least = gang.least(chain, over.saturating_sub(submitted), &mut Vec::new());
        let (comes_late, parted) = (gang.comes_late(), gang.is_parted());
        let has_pods = gang.count() > 0;
        let asked_of_sets = gang.sets(owners);
        let mut roles: Vec<&Role> = gang.members().collect();
        roles.sort_by_key(|role| gang.is_late(role));
        if gang.mixed(&self.directory.scheduler) {
            roles.retain(|role| role.scheduler.as_deref() == Some(&*self.directory.scheduler));
        }
        for role in roles {
            let marks: Vec<&Marks> = [&[&*role.template][..], owners].concat();
            let of_role = Asked { set_group: wishes::set_group(&marks), ..asked.clone() };
            let ours = role.scheduler.as_deref() == Some(&*self.directory.scheduler);
            let named = comes_late || wishes::per_pod_set(&marks);
            let levels = gang.own_levels(role, (owners, &asked_of_sets), in_group);
            let done = gang.is_late(role).then(|| role.done.saturating_add(submitted));
            // Nothing is kept for who comes late into another gang.
            let apart = done.is_some() && parted && gang.is_elsewhere(role);
            let roles = gangs::ray::in_role(gang, least, (role.name.clone(), None));
            for Alike { name, labels, shape, before, count } in role.kinds() {
                let shape = self.shape_of((role, shape, labels), (&of_role, namespace, ours));
                let shape = self.in_set(shape, named.then_some(&role.name), levels.clone());
                let count = if made && !apart { count } else { 0 };
                // Pods of the sets before end first.
                let late = done.map(|done| done.saturating_sub(before));
                let roles = roles.clone();
                sets.push(OwnerPodSet { name, count, before, shape, roles, late });
            }
            let (of_role, never_preempts) = self.rank(&role.ranked);
            if role.count() > 0 || !has_pods {
                if of_role > priority {
                    asked.wishes.pod_class = self.class_of_template(&role.ranked);
                }
                priority = priority.max(of_role);
                never |= never_preempts;
            }
            if levels.is_some() {
                asked.wishes.topology = wishes::each_its_own();
            }
        }
        let class = gang.of.says.class.as_ref().and_then(|class| self.class(class, false));
        if class.is_some() {
            asked.wishes.pod_class = gang.of.says.class.clone();
        }
        (sets, class.map_or(priority, |class| class.value), never)
    }

    /// The facts of a pod; `start` stands for a creation time that nobody gave.
    pub fn of_pod(&mut self, pod: &PodDraft, start: Time) -> PodFacts {
        let above = self.directory.above(&pod.namespace, pod.owner.as_deref());
        let chain = pod.chain_with(&above, self.directory);
        let mut ignored = pod.ignored().to_vec();
        let asked = wishes::read(&chain, &mut ignored);
        let shape = with_asked(&self.completed(pod), &asked, self.shared);
        let ours = pod.ours(&self.directory.scheduler);
        let shape = self.seen_by_others(&shape, (&pod.namespace, &pod.labels), ours);
        let (shape, claims) = self.with_claims(shape, pod);
        let (priority, never_preempts) = self.rank(&pod.ranked);
        let group = gangs::groups::of(&pod.marks, &pod.namespace, self.directory);
        let of_group = group.and_then(|group| self.rank_of_group(group));
        let job = above.first().and_then(|owner| owner.job()).map(|job| gangs::job::Run {
            job,
            incarnation: job.incarnation_of(pod.terminating, pod.created),
            in_queue: self.in_queue(&asked.wishes, &pod.namespace),
        });
        let member = Member {
            namespace: &pod.namespace,
            name: &pod.name,
            uid: &pod.uid,
            chain: &chain,
            terminating: pod.terminating,
            created: pod.created,
            owner: pod.owner.as_deref(),
            above: &above,
            directory: self.directory,
            job,
            follows: gangs::follows(&pod.labels),
        };
        let mut gang: GangRef = gangs::of(&member, &mut ignored);
        gang.unknown_owner = self.unknown_owner(pod, &above).or(gang.unknown_owner);
        gang.held = gang.held.or_else(|| self.unlike(pod, group?, of_group));
        gang.to_come = self.who_comes((pod, &member), (&shape, &asked), &gang);
        let mut wishes = with_level(asked.wishes, &gang);
        let of_owner = || Gang::above(&above, self.directory)?.of.says.queue.clone();
        match (group, gang.source) {
            (Some(group), _) => group.says.add_to(&mut wishes),
            (None, GangSource::Owner) => wishes.queue = wishes.queue.or_else(of_owner),
            _ => {}
        }
        wishes.ignored = ignored;
        PodFacts {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            shape: self.in_its_set(shape, pod, (&above, &gang), &mut wishes),
            holds: pod.holds.clone(),
            stays: pod.stays(),
            ours,
            node: pod.stands_on(&self.directory.scheduler).cloned(),
            nominated: pod.is_nominated(&self.directory.scheduler),
            goes_to: pod.nominated().filter(|_| ours).cloned(),
            phase: pod.phase,
            terminating: pod.terminating,
            gated: pod.gated,
            rank: gangs::rank_in(&gang, pod, member.job.map(|run| run.job)),
            created: pod.created.unwrap_or(start),
            bound_at: pod.bound_at,
            ended_at: pod.ended_at(),
            priority: of_group.unwrap_or(priority),
            never_preempts,
            of_job: gangs::job::maker(&gang, member.job),
            gang: gangs::single::as_it_leaves(pod, gang),
            wishes: self.of_class(wishes, &pod.ranked, group),
            binding: pod.binding.clone(),
            eviction: pod.eviction.as_deref().cloned(),
            claims,
        }
    }

    /// Why a pod waits that is not as its PodGroup is, which has this priority.
    fn unlike(&mut self, pod: &PodDraft, group: &GroupDraft, rank: Option<i32>) -> Option<Held> {
        let class = pod.ranked.class.as_ref().and_then(|name| self.class(name, true));
        let own = pod.ranked.priority.or(class.map(|class| class.value));
        gangs::upstream::unlike(pod, (own, rank), group, self.directory)
    }

    /// The owner of a pod that nobody knows, as people name it.
    fn unknown_owner(&self, pod: &PodDraft, above: &[&Owner]) -> Option<Text> {
        let unknown = self.directory.unknown(pod.owner.as_deref(), above)?;
        Some(format!("{} {}", unknown.kind, unknown.name).into())
    }

    /// A member of a group, and the owner that made it and makes it again, by uid.
    pub fn maker(&self, pod: &PodDraft, gang: &GangKey) -> Option<(Text, Text)> {
        if !matches!(gang, GangKey::Group(..)) {
            return None;
        }
        let above = self.directory.above(&pod.namespace, pod.owner.as_deref());
        let maker = match (Gang::above(&above, self.directory), above.first()?) {
            (Some(gang), _) => &gang.top.uid,
            (None, Owner::Job(job)) => &job.uid,
            (None, _) => return None,
        };
        Some((pod.uid.clone(), maker.clone()))
    }

    /// What is to be said of a Job with these facts.
    fn remark_job(&self, job: &JobDraft, facts: &OwnerFacts, remarks: &mut Remarks) {
        let above = self.directory.above(&job.namespace, job.owner.as_ref());
        let ours = job.ours(&self.directory.scheduler);
        if let Some(by) = job.elsewhere.as_ref().filter(|_| ours) {
            remarks.on_elsewhere("Job", by, facts);
        }
        let ours = ours && job.elsewhere.is_none();
        remarks.on_job(job, ours, facts, above.iter().map(|owner| owner.known()));
        if above.iter().all(|owner| owner.gang().is_none()) {
            remarks.on_sleeping_member("Job", facts);
        }
    }

    /// What is to be said of an owner of another project with these facts.
    fn remark_gang(&self, owner: &Owner, facts: &OwnerFacts, remarks: &mut Remarks) {
        let above = self.directory.above(owner.namespace(), owner.owner());
        let scheduler = &self.directory.scheduler;
        let ours = owner.gang().is_some_and(|gang| {
            let gang = Gang::of(gang, self.directory);
            gang.is_some_and(|gang| gang.of.ours(scheduler) || gang.mixed(scheduler))
        });
        let (own, elsewhere) = (owner.known(), owner.gang().and_then(|it| it.elsewhere.as_ref()));
        if let Some(by) = elsewhere.filter(|_| ours) {
            remarks.on_elsewhere(own.kind, by, facts);
        }
        let ours = ours && elsewhere.is_none();
        remarks.on_gang(own, ours, facts, above.iter().map(|owner| owner.known()));
        remarks.on_sleeping_member(own.kind, facts);
    }

    /// What is to be said of an owner that only passes its labels on; Jobs have facts.
    fn remark_owner(&self, owner: &Owner, remarks: &mut Remarks) {
        let above = self.directory.above(owner.namespace(), owner.owner());
        let above = above.iter().map(|owner| owner.known());
        remarks.on_owner(owner.known(), owner.namespace(), above);
    }

    /// Owners of other projects whose pods a pod is one of, by what owns it and by what it names.
    pub fn gangs_of(&self, pod: &PodDraft) -> Vec<Text> {
        let above = self.directory.above(&pod.namespace, pod.owner.as_deref());
        let named = gangs::lws::named_by(&pod.marks, &pod.namespace);
        let named = named.and_then(|key| self.directory.owners.get(&key));
        let gangs = above.into_iter().chain(named).filter_map(|owner| owner.gang());
        gangs.map(|gang| gang.uid.clone()).collect()
    }

    /// What is to be said of owners whose pods would be ours, that nobody plays, and none of whose
    /// pods are there.
    pub fn remark_unplayed(&self, present: &BTreeSet<Text>, remarks: &mut Remarks) {
        for gang in self.directory.owners.values().filter_map(|owner| owner.gang()) {
            let above = self.directory.above(&gang.namespace, gang.owner.as_ref());
            let below = above.first().is_some_and(|owner| owner.gang().is_some());
            let over = gang.says.suspended || gang.says.finished.is_some();
            let of = Gang::of(gang, self.directory).map_or(gang, |gang| gang.of);
            let whole = of.whole() || gang.as_one();
            let played = gang.kind.row().suspend.is_some() && whole;
            if !below && !over && !played && !present.contains(&gang.uid) {
                remarks.on_unplayed(gang, of, &self.directory.scheduler);
            }
            if gangs::train::unmade(gang, self.directory) {
                remarks.on_unmade(gang);
            }
        }
    }

    /// What is to be said of a pod with these facts.
    pub fn remark_pod(&self, pod: &PodDraft, facts: &PodFacts, remarks: &mut Remarks) {
        let owner = pod.owner.as_deref().filter(|_| !facts.wishes.ignored.is_empty());
        let above = self.directory.above(&pod.namespace, owner);
        remarks.on_pod(facts, &pod.marks, above.iter().map(|owner| owner.known()));
        if facts.gang.held.is_some()
            && let Some(gang) = gangs::gang_of(pod, self.directory)
        {
            remarks.on_strangers(facts, self.directory.ours_in(&gang));
        }
    }

    /// The shape of a pod with what an API server adds, as far as none did.
    fn completed(&mut self, pod: &PodDraft) -> Arc<PodShape> {
        let of = (&pod.namespace, pod.node.is_some());
        let shape = self.with_ranges(&pod.shape, of, pod.contents.as_deref());
        self.with_runtime(&shape, pod.runtime.as_deref())
    }

    /// The shape of pods of a role, or of one kind of those, with all that is added to it.
    pub(super) fn shape_of(
        &mut self,
        (role, shape, labels): (&Role, &Arc<PodShape>, &Pairs),
        (asked, namespace, ours): (&Asked, &Text, bool),
    ) -> Arc<PodShape> {
        let shape = self.with_ranges(shape, (namespace, false), Some(&role.contents));
        let shape = self.with_runtime(&shape, role.runtime.as_deref());
        let shape = with_asked(&shape, asked, self.shared);
        let shape = self.seen_by_others(&shape, (namespace, labels), ours);
        self.with_template_claims(shape, &role.claims, namespace)
    }

    /// A shape with what LimitRanges of its namespace fill in; unless it is bound already, also
    /// with what they do not allow.
    fn with_ranges(
        &mut self,
        shape: &Arc<PodShape>,
        (namespace, bound): (&Text, bool),
        contents: Option<&Contents>,
    ) -> Arc<PodShape> {
        let ranges = &self.directory.ranges;
        let changed = contents.and_then(|contents| ranges.on(shape, namespace, contents));
        let Some(mut changed) = changed else { return shape.clone() };
        changed.out_of_range = changed.out_of_range.filter(|_| !bound);
        self.shared.shapes.of(changed)
    }

    /// A shape with what its RuntimeClass adds.
    fn with_runtime(&mut self, shape: &Arc<PodShape>, runtime: Option<&Runtime>) -> Arc<PodShape> {
        let Some(runtime) = runtime else { return shape.clone() };
        let Some(class) = self.directory.runtimes.get(&runtime.class) else {
            let named = (ClassKind::Runtime, runtime.class.clone());
            *self.missing.0.entry(named).or_default() += 1;
            return shape.clone();
        };
        self.shared.shapes.of(class.on(shape, runtime))
    }

    /// A shape with what it is to pods that want something of those around them, and to budgets.
    fn seen_by_others(
        &mut self,
        shape: &Arc<PodShape>,
        named: (&Text, &Pairs),
        ours: bool,
    ) -> Arc<PodShape> {
        let shape = self.directory.relevance.applied(shape, named, ours, self.shared);
        self.directory.guards.applied(shape, named, ours, self.shared)
    }

    /// A shape with a pod's claims on devices, and the names of those.
    fn with_claims(
        &mut self,
        shape: Arc<PodShape>,
        pod: &PodDraft,
    ) -> (Arc<PodShape>, Option<Arc<Vec<Text>>>) {
        let devices = &self.directory.devices;
        let drafts = pod.claims.as_ref();
        let Some(drafts) = drafts.filter(|all| devices.has_claims(all, Some(&pod.uid))) else {
            return (shape, None);
        };
        let (namespace, name, uid) = (&pod.namespace, &pod.name, &pod.uid);
        let (group, bound) = (pod.marks.scheduling_group.as_ref(), pod.node.is_some());
        let claimant = Claimant { namespace, name, uid, group, bound };
        let (claims, names) = devices.of_pod(drafts, &claimant, self.shared);
        if claims.is_empty() {
            return (shape, None);
        }
        let shape = PodShape { claims, ..PodShape::clone(&shape) };
        (self.shared.shapes.of(shape), Some(Arc::new(names)))
    }

    /// A shape with the claims that pods of a template will have.
    fn with_template_claims(
        &mut self,
        shape: Arc<PodShape>,
        drafts: &Option<Arc<Vec<PodClaimDraft>>>,
        namespace: &Text,
    ) -> Arc<PodShape> {
        let devices = &self.directory.devices;
        let Some(drafts) = drafts.as_ref().filter(|all| devices.has_claims(all, None)) else {
            return shape;
        };
        let claims = devices.of_template(drafts, namespace, self.shared);
        self.shared.shapes.of(PodShape { claims, ..PodShape::clone(&shape) })
    }

    /// Whether a workload queues: it names a queue, or its namespace has a default one.
    fn in_queue(&self, wishes: &Wishes, namespace: &Text) -> bool {
        wishes.queue.is_some() || self.directory.default_queues.contains(namespace)
    }
}

impl PodDraft {
    /// Labels and annotations that count for it: its own, then its owners'.
    pub fn chain<'a>(&'a self, directory: &'a Directory) -> Vec<&'a Marks> {
        self.chain_with(&directory.above(&self.namespace, self.owner.as_deref()), directory)
    }

    /// The same, where its owners are known.
    pub fn chain_with<'a>(
        &'a self,
        above: &[&'a Owner],
        directory: &'a Directory,
    ) -> Vec<&'a Marks> {
        let mut chain = vec![&*self.marks];
        chain.extend(above.iter().map(|owner| owner.marks()));
        chain.extend(gangs::lws::marks_of(&self.marks, &self.namespace, above, directory));
        chain
    }
}

/// A shape with what people asked for it beside its spec.
fn with_asked(shape: &Arc<PodShape>, asked: &Asked, shared: &mut Shared) -> Arc<PodShape> {
    if asked.capacity_types.is_empty() && asked.set_group.is_none() {
        return shape.clone();
    }
    let mut own = PodShape::clone(shape);
    own.capacity_types = asked.capacity_types.clone();
    own.set_group = asked.set_group.clone();
    shared.shapes.of(own)
}
