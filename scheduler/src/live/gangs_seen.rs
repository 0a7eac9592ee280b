//! Owners and PodGroups of other projects, and what their changes mean for others.
//!
//! Decides who is told again: members of a group hear of it by its name, before it is there and
//! after it is gone; who is stopped and started hears of what stands between it and its pods, and
//! of which roles of it pods are in another gang.

use capstan_core::model::input::Text;
use serde_json::Value;

use super::Kind;
use super::cluster::Live;
use super::notes::Fault;
use crate::convert::directory::{Owner, OwnerKey};
use crate::convert::gang::{self, GangDraft};
use crate::convert::group::GroupDraft;
use crate::convert::marks::OwnerName;
use crate::convert::pod::PodDraft;
use crate::gangs::{counts_in_its_gang, gang_of, gang_of_owner, named_by, own_gang_of};
use crate::gangs::{grouped, kinds};

impl Live {
    /// An owner or a PodGroup as the API shows it.
    pub(super) fn put_gang(&mut self, kind: kinds::Kind, value: &Value) {
        let at = Kind::Gang(kind);
        let (owner, odd) = if kind.is_group() {
            let (draft, odd) = GroupDraft::of(kind, value, &mut self.shared);
            (Owner::Group(Box::new(draft)), odd)
        } else {
            match GangDraft::of(kind, value, &mut self.shared) {
                Ok((draft, odd)) => (Owner::Gang(Box::new(draft)), odd),
                Err(refusals) => return self.refuse(at, &gang::meta(value), refusals),
            }
        };
        let fault = |odd: crate::convert::Refusal| -> Fault { (Some(odd.path), odd.problem) };
        self.put_owner_with(at, owner, odd.into_iter().map(fault));
    }

    /// A pod is there: what it names beside its owner has a say in it, and it in its group.
    pub(super) fn join_group(&mut self, pod: &PodDraft) {
        for named in named_by(pod) {
            self.below.add_named(named, &pod.uid);
        }
        self.count_in(pod);
    }

    /// A pod hears of the gang that it names, or that its owners name, and counts in it.
    fn count_in(&mut self, pod: &PodDraft) {
        let Some(gang) = gang_of(pod, &self.directory) else { return };
        if own_gang_of(pod).as_ref() != Some(&gang) {
            self.below.add_named(gang.clone(), &pod.uid);
            self.directory.named_above.insert(pod.uid.clone(), gang.clone());
        }
        if counts_in_its_gang(pod) && self.directory.enlist(&gang, pod) {
            self.disturb(&gang);
        }
        if let Some(part) = grouped::part_of(pod, &gang, &self.directory) {
            let concerned = self.directory.grouped.add(&pod.uid, part);
            self.disturb_owner(concerned);
        }
    }

    /// Others wait for pods of a role of an owner now, or wait no more.
    fn disturb_owner(&mut self, owner: Option<OwnerKey>) {
        let Some(key) = owner else { return };
        self.disturb(&key);
        if self.directory.owners.contains_key(&key) {
            self.dirty.owners.insert(key);
        }
    }

    /// It does so no more.
    fn count_out(&mut self, pod: &PodDraft) {
        let concerned = self.directory.grouped.remove(&pod.uid);
        self.disturb_owner(concerned);
        let above = self.directory.named_above.remove(&pod.uid);
        if let Some(gang) = &above {
            self.below.remove_named(gang, &pod.uid);
        }
        if let Some(gang) = above.or_else(|| own_gang_of(pod))
            && counts_in_its_gang(pod)
            && self.directory.dismiss(&gang, pod)
        {
            self.disturb(&gang);
        }
    }

    /// Owners and pods whose owners came, went, or name another gang hear of that, and those pods
    /// count in it.
    pub(super) fn count_again(&mut self) {
        for key in &self.dirty.owners {
            let owner = self.directory.owners.get(key);
            let gang = owner.and_then(|owner| gang_of_owner(owner, &self.directory));
            self.below.name(key, gang);
        }
        let moved = |uid: &Text| {
            let pod = self.pods.get(uid)?;
            let above = self.directory.named_above.get(uid).cloned();
            let counted = above.or_else(|| own_gang_of(pod));
            let gang = gang_of(pod, &self.directory);
            let part = gang.as_ref().and_then(|gang| grouped::part_of(pod, gang, &self.directory));
            let same = gang == counted && self.directory.grouped.counts(uid, part.as_ref());
            (!same).then(|| pod.clone())
        };
        let moved: Vec<Box<PodDraft>> = self.dirty.pods.iter().filter_map(moved).collect();
        for pod in moved {
            self.count_out(&pod);
            self.count_in(&pod);
        }
    }

    /// A pod is there no more.
    pub(super) fn leave_group(&mut self, pod: &PodDraft) {
        for named in named_by(pod) {
            self.below.remove_named(&named, &pod.uid);
        }
        self.count_out(pod);
    }

    /// The PodGroup of this kind and name, if it exists.
    pub fn group(&self, kind: kinds::Kind, namespace: &Text, name: &Text) -> Option<&GroupDraft> {
        self.directory.group(&(kind.row().key.into(), namespace.clone(), name.clone()))
    }

    /// Who owns a pod, as far as owners of its kind are read.
    pub fn owner_of(&self, uid: &Text) -> Option<&OwnerName> {
        self.pods.get(uid)?.owner.as_deref()
    }

    /// PodGroups that have no pods yet, but for those that ended in a run before, because their
    /// phase lets nobody make any, and whose owner says that all of them will be ours. Of others
    /// nobody knows whose they are until a pod names its scheduler.
    pub fn shut_groups(&self) -> impl Iterator<Item = &GroupDraft> {
        let key: Text = kinds::Kind::VolcanoGroup.row().key.into();
        let first: OwnerKey = (key.clone(), "".into(), "".into());
        let groups = self.directory.owners.range(first..);
        let groups = groups.take_while(move |(of, _)| of.0 == key);
        let groups = groups.filter_map(|(key, owner)| Some((key, owner.group()?)));
        let shut = groups.filter(move |(key, group)| {
            let above = || self.directory.above(&group.namespace, group.owner.as_ref());
            let ours = |owner: &&Owner| owner.names(&self.directory.scheduler);
            group.shut && !self.has_active(key) && above().iter().any(ours)
        });
        shut.map(|(_, group)| group)
    }

    /// Gangs above an owner count what it has done, and what roles it has.
    pub(super) fn tell_above(&mut self, owner: &Owner) {
        let above = self.directory.above(owner.namespace(), owner.owner());
        let gangs = above.iter().filter(|owner| owner.gang().is_some());
        let keys: Vec<OwnerKey> = gangs.map(|owner| owner.key()).collect();
        self.dirty.owners.extend(keys);
    }

    /// What pods of a TrainJob are its JobSet says: also those that it owns without one between.
    pub(super) fn disturb_train(&mut self, set: &Owner) {
        let is_set = set.gang().is_some_and(|gang| gang.kind == kinds::Kind::JobSet);
        let train = set.owner().filter(|owner| *owner.kind == *kinds::Kind::TrainJob.row().key);
        if let Some(train) = train.filter(|_| is_set) {
            self.disturb(&train.key(set.namespace()));
        }
    }

    /// Templates of these owners mean something else now: so they do for what is made of them, and
    /// for pods that are there, which say what those are that come after them.
    pub(super) fn tell_templates(&mut self, owners: Vec<OwnerKey>) {
        if owners.is_empty() {
            return;
        }
        for key in &owners {
            if self.directory.owners.get(key).is_some_and(|owner| owner.gang().is_some()) {
                self.disturb(key);
            }
        }
        self.dirty.owners.extend(owners);
        self.tell_trains();
    }

    /// What a class changes about a JobSet it changes about the TrainJob that made it.
    pub(super) fn tell_trains(&mut self) {
        let trains = self.directory.owners.iter().filter(|(_, owner)| {
            owner.gang().is_some_and(|gang| gang.kind == kinds::Kind::TrainJob)
        });
        self.dirty.owners.extend(trains.map(|(key, _)| key.clone()));
    }
}
