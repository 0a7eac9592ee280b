//! Pods, and which of those that ended are there still.
//!
//! Problem: a cluster keeps pods that ended, by default 12,500 of them, and they hold nothing. An
//! owner whose pods are a gang says itself how much of its work is done; of a gang that pods name,
//! whoever made them, only those that ended tell it: without them what goes on would seem to have
//! lost a part.
//!
//! Decides that a pod is gone once it has ended, but for one of ours that counts in the gang which
//! it names itself ([`gangs::counts_ended`]). That one goes with its object, and when it is being
//! deleted: who is stopped has mostly failed for a moment, and did not end by itself. A list shows
//! the same, so that a new leader counts the same. Another name of ours makes those that ended
//! before nobody's; those that bear it count from the next list on.
//!
//! Of a pod that its owner counts it is told, as it goes, whether it ended well: the owner counts
//! it a while later, and may make another in its stead.
//!
//! Cost: of who is gone a look at the phase and at what is written on it, and nothing is kept.

use super::Kind;
use super::cluster::Live;
use super::objects::identity;
use super::roster::Named;
use crate::api::pod::Pod;
use crate::convert::directory::OwnerKey;
use crate::convert::{marks, pod};
use crate::gangs;
use capstan_core::model::input::{PodPhase, Text};

impl Live {
    /// A pod as the API shows it.
    pub(super) fn put_pod(&mut self, pod: &Pod) {
        if pod::has_ended(pod) && !self.counts_ended(pod) {
            return self.end_pod(pod);
        }
        let mut draft = match pod::draft(pod, &mut self.shared) {
            Ok(draft) => draft,
            Err(refusals) => return self.refuse(Kind::Pod, &pod.metadata, refusals),
        };
        let named = (draft.namespace.clone(), draft.name.clone());
        self.enter_as(Kind::Pod, &named, &draft.uid);
        self.notes.faults(Kind::Pod, &named, []);
        self.note_unscheduled(pod, &draft);
        if let Some(old) = self.pods.get(&draft.uid) {
            if **old == draft {
                return;
            }
            // Equal texts stay one.
            (draft.uid, draft.name) = (old.uid.clone(), old.name.clone());
            self.remove_pod(&draft.uid.clone());
        }
        if self.directory.meet_pod(&draft) {
            self.see_all_again();
        }
        let uid = draft.uid.clone();
        self.below.add_pod(&draft.namespace, draft.owner.as_deref(), &uid);
        self.join_group(&draft);
        self.inhabit(&draft.namespace);
        if draft.ranked.open() {
            self.unranked.insert(uid.clone());
        }
        self.dirty.pods.insert(uid.clone());
        self.claimants.add(&draft);
        self.pods.insert(uid, Box::new(draft));
    }

    /// Whether a pod that has ended is there still.
    fn counts_ended(&mut self, pod: &Pod) -> bool {
        let (meta, spec) = (&pod.metadata, &pod.spec);
        let ours = spec.scheduler_name.as_deref() == Some(&*self.directory.scheduler);
        if !ours || meta.deletion_timestamp.is_some() {
            return false;
        }
        let namespace = self.shared.texts.text(marks::namespace(meta));
        let owner = marks::owner(meta, &mut self.shared);
        let marks = self.shared.marks_of_pod(meta, spec);
        gangs::counts_ended(&marks, &namespace, owner.as_ref())
    }

    /// A pod has ended, and is of no use to anybody. Of one that somebody made, and that nobody
    /// deletes, it is told how: its owner may make another, and counts it later than this.
    fn end_pod(&mut self, pod: &Pod) {
        let (named, uid) = identity(Kind::Pod, &pod.metadata);
        if !self.roster.holds(Kind::Pod, &named) {
            return;
        }
        self.enter_as(Kind::Pod, &named, &uid);
        let known = self.pods.get(&uid).filter(|_| pod.metadata.deletion_timestamp.is_none());
        let made = known.is_some_and(|draft| draft.owner.is_some());
        if made {
            self.dirty.ended.insert(uid.clone(), pod::has_ended_well(pod));
        }
        self.roster.gone(Kind::Pod, &named, &uid);
        self.remove(Kind::Pod, &named, &uid);
    }

    /// Pods that ended and are not ours any more are of no use.
    pub(super) fn drop_ended_of_others(&mut self) {
        let ours = &self.directory.scheduler;
        let others = self.pods.values().filter(|pod| pod.phase.terminal() && !pod.ours(ours));
        let named = others.map(|pod| (pod.namespace.clone(), pod.name.clone(), pod.uid.clone()));
        let named: Vec<(Text, Text, Text)> = named.collect();
        for (namespace, name, uid) in named {
            let named: Named = (namespace, name);
            self.roster.gone(Kind::Pod, &named, &uid);
            self.remove(Kind::Pod, &named, &uid);
        }
    }

    /// A pod is there no more.
    pub(super) fn remove_pod(&mut self, uid: &Text) {
        let Some(old) = self.pods.remove(uid) else { return };
        self.below.remove_pod(&old.namespace, old.owner.as_deref(), uid);
        self.leave_group(&old);
        self.leave(&old.namespace);
        self.unranked.remove(uid);
        self.claimants.remove(&old);
        self.dirty.pods.insert(old.uid);
    }

    /// Whether a gang that pods name themselves has one that has not ended.
    pub(super) fn has_active(&self, gang: &OwnerKey) -> bool {
        self.phases_in(gang).any(|phase| !phase.terminal())
    }

    /// How many of those who name a gang themselves ended well, and how many badly, as far as they
    /// are there still.
    pub fn ended_in(&self, gang: &OwnerKey) -> (u32, u32) {
        self.phases_in(gang).fold((0, 0), |(well, badly), phase| match phase {
            PodPhase::Succeeded => (well + 1, badly),
            PodPhase::Failed => (well, badly + 1),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unready => (well, badly),
        })
    }

    fn phases_in(&self, gang: &OwnerKey) -> impl Iterator<Item = PodPhase> {
        let pods = self.below.of(gang).into_iter().flat_map(|owned| &owned.pods);
        pods.filter_map(move |uid| Some(self.pods.get(uid)?.phase))
    }
}
