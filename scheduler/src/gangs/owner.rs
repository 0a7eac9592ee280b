//! Pods of owners that start all their pods together: JobSets, TrainJobs, Kubeflow's jobs, Ray.
//!
//! Decides which owner is the gang: the topmost of those kinds, which is what people made and what
//! can be stopped and started; and how many of its pods must run together. Pods that are in another
//! gang, as their template says or as [`super::grouped`] has seen, are not waited for: they will
//! never be members of this one. While it is suspended nothing is seen of its pods, and all count.

use std::collections::{BTreeMap, BTreeSet};

use capstan_core::model::input::{
    GangKey, GangRef, GangSource, Held, SetLevels, Text, TopologyWish,
};

use super::kinds::Kind;
use super::wishes::{self, Asked};
use super::{Member, count, jobset, late, names, ray, train};
use crate::api::keys;
use crate::convert::directory::{Directory, Owner, OwnerKey};
use crate::convert::gang::{GangDraft, Quorum, Role};
use crate::convert::job::JobDraft;
use crate::convert::marks::{self, Marks, OwnerName};

/// An owner that is a gang.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// What is stopped and started, and what people know.
    pub top: &'a GangDraft,
    /// What says of which roles it is.
    pub of: &'a GangDraft,
    /// Roles of which pods are there that are in another gang.
    grouped: Option<&'a BTreeMap<Text, u32>>,
}

/// What the pod sets of a gang ask of levels and slices, each by itself.
#[derive(Debug, Default)]
pub struct Sets {
    /// Some ask for others than the first template, and nothing is asked of the whole gang.
    pub differ: bool,
    /// What holds for sets that have a name together, where any of those asks for something.
    named: BTreeMap<Text, SetLevels>,
}

impl<'a> Gang<'a> {
    /// The gang that an owner is, with all its roles.
    pub fn of(top: &'a GangDraft, directory: &'a Directory) -> Option<Gang<'a>> {
        let of = match top.kind {
            Kind::TrainJob => train::job_set(top, directory)?,
            _ => top,
        };
        let grouped = directory.grouped.roles(&top.uid);
        (!of.says.roles.is_empty()).then_some(Gang { top, of, grouped })
    }

    /// The gang that a pod is in whose owners these are, the nearest first.
    pub fn above(owners: &[&'a Owner], directory: &'a Directory) -> Option<Gang<'a>> {
        let first = owners.iter().position(|owner| owner.gang().is_some())?;
        let gangs = owners[first..].iter().map_while(|owner| owner.gang());
        let top = gangs.last().expect("the first is one");
        match owners[..first].last() {
            Some(below) => Gang::of_job(top, &below.key().2, directory),
            None => Gang::of(top, directory),
        }
    }

    /// The gang that the pods of a Job of this name are in whose owners these are.
    pub fn above_job(
        owners: &[&'a Owner],
        job: &Text,
        directory: &'a Directory,
    ) -> Option<Gang<'a>> {
        let top = owners.iter().map_while(|owner| owner.gang()).last()?;
        Gang::of_job(top, job, directory)
    }

    /// The gang that the pods of a Job are in which an owner made: of Jobs of a RayJob only the one
    /// that submits it is a part of it.
    fn of_job(top: &'a GangDraft, job: &Text, directory: &'a Directory) -> Option<Gang<'a>> {
        let gang = Gang::of(top, directory)?;
        let ray = matches!(top.kind, Kind::RayJob | Kind::RayCluster);
        (!ray || ray::submits(top, job)).then_some(gang)
    }

    /// Whether all its pods are one gang, so that it can be stopped and started as one. Where its
    /// pods are made step by step it is one if it is started as one.
    pub fn whole(&self) -> bool {
        self.of.whole() || self.as_one()
    }

    /// Whether it starts, or was started, as one, though its pods are made step by step: who
    /// suspends it asks for all of them at once.
    fn as_one(&self) -> bool {
        self.top.as_one()
    }

    /// Whether the pods of a role are only made once others run or have ended, in its own gang.
    pub fn is_late(&self, role: &Role) -> bool {
        match role.quorum {
            Quorum::Together => false,
            Quorum::Late => true,
            Quorum::Apart => self.as_one() && !role.after.is_empty(),
        }
    }

    /// Whether the pods of a role are members of another gang than its own: their template names
    /// one, or such pods are there.
    pub fn is_elsewhere(&self, role: &Role) -> bool {
        let there = |roles: &BTreeMap<Text, u32>| roles.contains_key(&role.name);
        role.grouped || self.grouped.is_some_and(there)
    }

    /// Roles whose pods are, or will be, members of its own gang; all of them while it is
    /// suspended, and where no role that has pods is left.
    fn here(&self) -> Vec<&'a Role> {
        let roles = &self.of.says.roles;
        let suspended = self.top.says.suspended;
        let own = roles.iter().filter(|role| suspended || !self.is_elsewhere(role));
        let own: Vec<&Role> = own.collect();
        if own.iter().any(|role| role.count() > 0) { own } else { roles.iter().collect() }
    }

    /// Whether some of its roles are in another gang and some in its own, as far as it has pods.
    pub fn is_parted(&self) -> bool {
        self.here().len() < self.of.says.roles.len()
    }

    /// Labels and annotations that count for it: its first template's, its own, then its owners'.
    pub fn chain(&self, above: &[&'a Owner]) -> Vec<&'a Marks> {
        let mut chain = vec![&*self.of.says.roles[0].template];
        if !std::ptr::eq(self.of, self.top) {
            chain.push(&*self.of.marks);
        }
        chain.push(&*self.top.marks);
        chain.extend(above.iter().map(|owner| owner.marks()));
        chain
    }

    /// What people asked of it, by what counts for it.
    pub fn asked(&self, chain: &[&Marks], ignored: &mut Vec<Text>) -> Asked {
        let (mut asked, owners) = (wishes::read(chain, ignored), &chain[1..]);
        let roles = &self.of.says.roles;
        let set = |role: &'a Role| (&role.name, role.count(), &*role.template);
        let sets: Vec<(&Text, u32, &Marks)> = roles.iter().map(set).collect();
        ignored.extend(wishes::unlike(&sets, owners));
        if self.sets(owners).differ {
            asked.wishes.topology = wishes::each_its_own();
            let mut odd = Vec::new();
            roles.iter().for_each(|role| _ = wishes::of_set(&with(role, owners), &mut odd));
            let mut known: BTreeSet<Text> = ignored.iter().cloned().collect();
            ignored.extend(odd.into_iter().filter(|said| known.insert(said.clone())));
        }
        asked
    }

    /// What counts for its pods after their templates, where these are owners of one of them, the
    /// nearest first.
    pub fn marks_above(&self, owners: &[&'a Owner]) -> Vec<&'a Marks> {
        let own = owners.iter().position(|owner| *owner.uid() == self.top.uid);
        self.chain(own.map_or(&[][..], |own| &owners[own + 1..])).split_off(1)
    }

    /// Levels and slices that the shape of a role's pods bears, below these `owners`: where pod
    /// sets ([`Gang::sets`]) ask for different ones, or may do so, being a part of a group with
    /// others; unless something is asked of the whole gang.
    pub fn own_levels(
        &self,
        role: &Role,
        (owners, sets): (&[&Marks], &Sets),
        in_group: bool,
    ) -> Option<SetLevels> {
        let whole = || wishes::is_of_whole(&topology(role, owners));
        let own = sets.differ || in_group && !whole();
        own.then(|| sets.levels(role, owners)).filter(|levels| *levels != SetLevels::default())
    }

    /// What its pod sets ask for below these `owners`, all at once: an owner may have tens of
    /// thousands of them.
    pub fn sets(&self, owners: &[&Marks]) -> Sets {
        let (roles, mut sets) = (&self.of.says.roles, Sets::default());
        if roles.len() < 2 || !roles.iter().any(|role| wishes::says_of_set(&role.template)) {
            return sets;
        }
        let mut most: BTreeMap<Text, (u32, SetLevels)> = BTreeMap::new();
        for role in roles {
            let (pods, marks) = (role.count(), with(role, owners));
            let Some(name) = wishes::set_group(&marks) else { continue };
            let levels = wishes::of_set(&marks, &mut Vec::new());
            let more = most.get(&name).is_none_or(|(of_others, _)| *of_others < pods);
            if more && levels != SetLevels::default() {
                most.insert(name, (pods, levels));
            }
        }
        sets.named = most.into_iter().map(|(name, (_, levels))| (name, levels)).collect();
        let first = wishes::of_set(&with(&roles[0], owners), &mut Vec::new());
        sets.differ = roles.iter().any(|role| sets.levels(role, owners) != first)
            && !wishes::is_of_whole(&topology(&roles[0], owners));
        sets
    }

    /// Owners of its pods, as far as those are owners of all of them: itself, then its owners.
    pub fn owners(&self, above: &[&'a Owner], directory: &'a Directory) -> Vec<&'a Owner> {
        let (namespace, name) = (self.top.namespace.clone(), self.top.name.clone());
        let itself = directory.owners.get(&(self.top.kind.row().key.into(), namespace, name));
        itself.into_iter().chain(above.iter().copied()).collect()
    }

    /// Members that must run together, of those that start with each other. What is asked in words
    /// never means pods that are only made once these run.
    pub fn least(&self, chain: &[&Marks], ended: u32, ignored: &mut Vec<Text>) -> u32 {
        let together = self.together();
        let pods = sum(&together, Role::count);
        let left = pods.saturating_sub(ended);
        let asked = count(chain, keys::MIN_MEMBER, ignored).or(self.of.says.min);
        // What is suspended has no pods yet: it starts once there is room for all of them.
        let of =
            |role: &Role| if self.top.says.suspended { role.least } else { role.starts_with() };
        // What is asked counts those that are in another gang as well.
        let exist = self.exist(None, false).unwrap_or(u32::MAX);
        let exist = if self.is_parted() { exist.min(pods) } else { exist };
        let least = asked.map_or_else(|| sum(&together, of), |asked| asked.min(exist));
        // Near its end an owner has fewer pods than it began with: those are all there will be.
        if ended > 0 { least.min(left) } else { least }
    }

    /// The same once the first pods of all Jobs have nodes, where the others are made after those:
    /// they wait for each other.
    fn least_of_followed(&self, chain: &[&Marks]) -> u32 {
        let together = self.together();
        let asked = count(chain, keys::MIN_MEMBER, &mut Vec::new()).or(self.of.says.min);
        let all = || sum(&together, |role| role.least);
        asked.map_or_else(all, |asked| asked.min(sum(&together, Role::count)))
    }

    /// Whether a pod is made once the first one of its Job has a node; and with whom it starts.
    fn follows(&self, (own, follows): (Option<&str>, bool)) -> Option<Quorum> {
        let mut roles = self.of.says.roles.iter().filter(|role| follows && role.firsts);
        roles.find(|role| own == Some(&*role.name)).map(|role| role.quorum)
    }

    /// Members that must run together, those among them that are made once others run: places are
    /// kept for those from the start. What is asked in words means all of them, and them first.
    pub fn least_of_all(&self, chain: &[&Marks], ended: u32, ignored: &mut Vec<Text>) -> u32 {
        if self.members().all(|role| role.quorum == Quorum::Together) {
            return self.least(chain, ended, ignored);
        }
        let (late, others): (Vec<&Role>, Vec<&Role>) =
            self.members_here().into_iter().partition(|role| self.is_late(role));
        let of =
            |role: &Role| if self.top.says.suspended { role.least } else { role.starts_with() };
        let late = sum(&late, |role| role.least);
        let all = late.saturating_add(sum(&others, of));
        let asked = count(chain, keys::MIN_MEMBER, ignored).or(self.of.says.min);
        let most = self.left(0);
        let least = asked.map_or(all, |asked| asked.max(late.saturating_add(1)).min(most));
        if ended > 0 { least.min(self.left(ended)) } else { least }
    }

    /// Pods of it in its own gang, with those that are made once others run, of which so many are
    /// over.
    pub fn left(&self, over: u32) -> u32 {
        sum(&self.members_here(), Role::count).saturating_sub(over)
    }

    /// Roles of its gang whose pods are in no other one.
    fn members_here(&self) -> Vec<&'a Role> {
        let as_one = self.as_one();
        let mut here = self.here();
        here.retain(|role| as_one || role.quorum != Quorum::Apart);
        here
    }

    /// Pods that can exist once one of this role does, which `follows` the first of its Job or not;
    /// `None`: all of them can.
    pub fn exist(&self, own: Option<&str>, follows: bool) -> Option<u32> {
        let exist = || self.exist_of_roles(own, follows).into_iter().map(|(_, pods)| pods);
        self.joined_later().then(|| exist().fold(0_u32, u32::saturating_add).max(1))
    }

    /// Pods of each role that can exist once one of this role does. Where that one comes after
    /// others, those that ended are no more.
    pub fn exist_of_roles(&self, own: Option<&str>, follows: bool) -> Vec<(&'a Role, u32)> {
        let roles = &self.of.says.roles;
        let followed = self.follows((own, follows));
        let is_own = |role: &Role| role.quorum == Quorum::Apart && own == Some(&*role.name);
        let own = roles.iter().rposition(is_own);
        let mut before: BTreeSet<&str> = BTreeSet::new();
        let mut exist = Vec::new();
        for (at, role) in roles.iter().enumerate().rev() {
            let (ahead, is_own) = (before.contains(&*role.name), own == Some(at));
            if ahead || is_own {
                before.extend(role.after.iter().map(|name| &**name));
            }
            // Who starts with the first of some Job has a node by then.
            let all = followed == Some(role.quorum);
            let started = if all { role.count() } else { role.first() };
            let pods = match role.quorum {
                _ if ahead => role.count(),
                Quorum::Together => started,
                Quorum::Apart if is_own => started,
                Quorum::Apart | Quorum::Late => 0,
            };
            let ended = if own.is_some() { role.done } else { 0 };
            exist.push((role, pods.saturating_sub(ended)));
        }
        exist
    }

    /// Whether pods of it are only made once others run.
    pub fn joined_later(&self) -> bool {
        let later = |role: &Role| role.quorum != Quorum::Together || role.firsts;
        self.of.says.roles.iter().any(later)
    }

    /// Pods of it, those among them that are made once others run.
    pub fn count(&self) -> u32 {
        self.members().fold(0, |sum, role| sum.saturating_add(role.count()))
    }

    /// Whether some of its roles that have pods are for this scheduler and some for another.
    pub fn mixed(&self, scheduler: &str) -> bool {
        let mut roles = self.of.says.roles.iter().filter(|role| role.count() > 0);
        let ours = |role: &Role| role.scheduler.as_deref() == Some(scheduler);
        roles.any(ours) && self.held(scheduler).is_some()
    }

    /// Whether it is work of this scheduler: its roles name it; or none of them names anybody, and
    /// we suspended it, whose pods were ours: what gave them their scheduler will do so again.
    pub fn is_work_of(&self, scheduler: &str) -> bool {
        let nobody = |role: &Role| marks::names_nobody(role.scheduler.as_deref());
        self.of.ours(scheduler) || self.top.marked && self.of.says.roles.iter().all(nobody)
    }

    /// Why nobody here resumes it: another scheduler is named by some of its roles, ours by none.
    pub fn of_another(&self, scheduler: &str) -> Option<Held> {
        let mut roles = self.of.says.roles.iter().filter(|role| role.count() > 0);
        let another = |role: &Role| !marks::names_nobody(role.scheduler.as_deref());
        let whole = !self.mixed(scheduler) && !self.of.ours(scheduler) && roles.any(another);
        whole.then(|| Held::ForeignMembers(self.count()))
    }

    /// Why it waits: some of its roles are for another scheduler, which knows nothing of the rest.
    pub fn held(&self, scheduler: &str) -> Option<Held> {
        let others = self.of.says.roles.iter();
        let others = others.filter(|role| role.scheduler.as_deref() != Some(scheduler));
        let pods = others.fold(0_u32, |sum, role| sum.saturating_add(role.count()));
        (pods > 0).then_some(Held::ForeignMembers(pods))
    }

    /// Roles of its gang: all but those that are gangs of their own.
    pub fn members(&self) -> impl Iterator<Item = &'a Role> {
        let as_one = self.as_one();
        let roles = self.of.says.roles.iter();
        roles.filter(move |role| as_one || role.quorum != Quorum::Apart)
    }

    /// The role of a pod that has these labels, and is or is not made by a Job.
    pub fn role_of(&self, labels: &[(Text, Text)], of_job: bool) -> Option<&'a Role> {
        let roles = &self.of.says.roles;
        let value = |of: &str| labels.iter().find(|(key, _)| **key == *of).map(|(_, value)| value);
        let named = |name: &Text| roles.iter().find(|role| role.name.eq_ignore_ascii_case(name));
        let labelled = keys::ROLES.iter().find_map(|key| value(key).and_then(named));
        let last = || roles.iter().find(|role| role.quorum == Quorum::Late && of_job);
        labelled.or_else(last)
    }

    /// Whether some of its pods are made once others run or have ended.
    pub fn comes_late(&self) -> bool {
        self.members().any(|role| self.is_late(role))
    }

    /// Pods that are made late and are not waited for any more, as their Job says: what submitted a
    /// RayJob, or is placed by another scheduler, though no template of its own said so.
    pub fn submitted(&self, directory: &Directory) -> u32 {
        let submits = self.top.kind == Kind::RayJob && self.comes_late();
        let key: OwnerKey = ("Job".into(), self.top.namespace.clone(), self.top.name.clone());
        let job = directory.owners.get(&key).and_then(|owner| owner.job()).filter(|_| submits);
        let own = |owner: &OwnerName| owner.means(&self.top.uid);
        let job = job.filter(|job| job.owner.as_ref().is_some_and(own));
        let over = |job: &JobDraft| job.succeeded > 0 || !job.ours(&directory.scheduler);
        u32::from(job.is_some_and(over))
    }

    /// Roles that start together, and whose pods are in no other gang.
    pub fn together(&self) -> Vec<&'a Role> {
        let mut here = self.here();
        here.retain(|role| role.quorum == Quorum::Together);
        here
    }

    /// Members that ended well: its Jobs know best, where they are there.
    pub fn ended(&self, directory: &Directory) -> u32 {
        self.of_jobs(directory, |_, job| job.succeeded)
    }

    /// Members that are over and that none stands in for: a Job that is to bring more of them to a
    /// good end than run at a time makes another for each, but for the last.
    pub fn over(&self, directory: &Directory) -> u32 {
        self.of_jobs(directory, |role, job| match job.left {
            Some(left) => role.pods.saturating_sub(left),
            None => job.succeeded,
        })
    }

    /// What its Jobs say of how far they are, else what it says itself.
    fn of_jobs(&self, directory: &Directory, of: impl Fn(&Role, &JobDraft) -> u32) -> u32 {
        let sum = |role: &Role| sum_of(self.of, role, directory, |job| of(role, job));
        let of_jobs = self.here().into_iter().filter_map(sum);
        match self.of.kind {
            Kind::JobSet => of_jobs
                .fold(None, |sum: Option<u32>, ended| Some(sum.unwrap_or(0).saturating_add(ended))),
            _ => None,
        }
        .unwrap_or(self.of.says.ended)
    }
}

impl Sets {
    /// Levels and slices of a role's pod set by itself: of sets that have a name together, and ask
    /// for any, those of the one with most pods, as in Kueue; the first of equals.
    fn levels(&self, role: &Role, owners: &[&Marks]) -> SetLevels {
        let marks = with(role, owners);
        let together = wishes::set_group(&marks).and_then(|name| self.named.get(&name).cloned());
        together.unwrap_or_else(|| wishes::of_set(&marks, &mut Vec::new()))
    }
}

/// What roles say in all.
fn sum(roles: &[&Role], of: impl Fn(&Role) -> u32) -> u32 {
    roles.iter().copied().map(of).fold(0_u32, u32::saturating_add)
}

/// Labels and annotations that count for pods of a role, below these `owners`.
fn with<'a>(role: &'a Role, owners: &[&'a Marks]) -> Vec<&'a Marks> {
    [&[&*role.template][..], owners].concat()
}

fn topology(role: &Role, owners: &[&Marks]) -> TopologyWish {
    wishes::topology(&with(role, owners), &mut Vec::new())
}

/// Pods of roles that say that another scheduler places them, and that are in a gang which their
/// template names, or their owner for all: also those that are still to be made.
pub(super) fn foreign_in(member: &Member<'_>, gang: &OwnerKey) -> u32 {
    let Some(above) = Gang::above(member.above, member.directory) else { return 0 };
    let joins = in_gang(member, gang);
    let other = |role: &&Role| {
        let scheduler = role.scheduler.as_deref();
        scheduler.is_some_and(|name| *name != *member.directory.scheduler)
    };
    let roles = above.of.says.roles.iter().filter(other);
    let roles = roles.filter(|role| joins(role));
    roles.fold(0_u32, |sum, role| sum.saturating_add(role.count().saturating_sub(role.done)))
}

/// Whether pods of a role of a member's owner are in a gang: their template names it, or their
/// owner does for all, or its group is their owner's.
pub(super) fn in_gang(member: &Member<'_>, gang: &OwnerKey) -> impl Fn(&Role) -> bool {
    let names = move |marks: &Marks| names(marks, member.namespace, gang);
    let group = member.directory.group(gang).and_then(|group| group.owner.as_ref());
    let own = group.map(|owner| owner.key(member.namespace));
    let mut owners = member.above.iter();
    let all = owners.any(|owner| names(owner.marks()) || own.as_ref() == Some(&owner.key()));
    move |role: &Role| all || names(&role.template)
}

/// What the Jobs of a role of a JobSet say, in all; `None`: none of them is there.
fn sum_of(
    set: &GangDraft,
    role: &Role,
    directory: &Directory,
    of: impl Fn(&JobDraft) -> u32,
) -> Option<u32> {
    let job = |number: u32| {
        let name = format!("{}-{}-{number}", set.name, role.name);
        let owner = directory.owners.get(&("Job".into(), set.namespace.clone(), name.into()))?;
        // One of that name may be somebody else's.
        let above = directory.above(&set.namespace, owner.owner());
        let own = above.iter().any(|above| *above.uid() == set.uid);
        owner.job().filter(|_| own).map(&of)
    };
    let jobs = (0..role.jobs.min(JOBS_MAX)).filter_map(job);
    jobs.fold(None, |sum: Option<u32>, said| Some(sum.unwrap_or(0).saturating_add(said)))
}

/// Jobs of one role that are looked at; a number that was meant otherwise must not cost its time.
const JOBS_MAX: u32 = 10_000;

/// The gang of a pod that such an owner made.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let gang = Gang::above(member.above, member.directory)?;
    let Gang { top, of, .. } = gang;
    let attempt = jobset::attempt(member).unwrap_or(of.says.restarts);
    let run = top.incarnation_of(member.terminating, member.created).saturating_add(attempt);
    let apart = || {
        if gang.as_one() {
            return None;
        }
        let role = jobset::role_of(member)?;
        of.says.roles.iter().find(|one| one.name == *role && one.quorum == Quorum::Apart)
    };
    // What is known of more members by who is made once others of these have nodes.
    let own = (jobset::role_of(member).map(|role| &**role), member.follows);
    let followed = gang.follows(own).is_some();
    let (uid, name, least, all): (Text, Text, u32, u32) = match apart() {
        Some(role) => {
            let left = |all: u32| all.saturating_sub(role.done).max(1);
            let uid = format!("{}/{}", top.uid, role.name);
            let name = format!("{}-{}", top.name, role.name);
            (uid.into(), name.into(), left(role.starts_with()), left(role.least))
        }
        None => {
            let least = gang.least(member.chain, 0, ignored).max(1);
            let all = if followed { gang.least_of_followed(member.chain) } else { 0 };
            (top.uid.clone(), top.name.clone(), least, all)
        }
    };
    // Where no template names us, pods are made otherwise than those say, as this one shows.
    let scheduler = &member.directory.scheduler;
    let held = gang.held(scheduler).filter(|_| gang.mixed(scheduler));
    let roles = if held.is_none() { ray::roles_of(member, &gang, least) } else { None };
    Some(GangRef {
        key: GangKey::Owner(uid, run),
        name,
        source: GangSource::Owner,
        // Those of others will never be members here: it is not they who are waited for.
        min_member: Some(if held.is_some() { 1 } else { least }),
        total: (followed && held.is_none() && all > least).then_some(all),
        roles,
        by_itself: late::joins_last(member),
        singly: false,
        unknown_owner: None,
        held,
        to_come: None,
    })
}
