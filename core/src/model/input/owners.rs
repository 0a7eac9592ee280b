//! What makes pods, as the API shows it.

use std::sync::Arc;

use super::{
    BindingNote, EvictionNote, GangRef, GangSource, Held, OwnerEnd, OwnerPodSet, RequeueNote, Text,
    Wishes,
};
use crate::time::Time;

/// An owner that runs as a gang and can be suspended and resumed.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// Unique id; the identity.
    pub uid: Text,
    /// `Job`, `JobSet`, ...
    pub kind: Text,
    /// What its pods say of where their gang is from: [`GangSource::Job`], or another owner.
    pub source: GangSource,
    /// Namespace.
    pub namespace: Text,
    /// Name, which is the workload's name.
    pub name: Text,
    /// Creation time.
    pub created: Time,
    /// Its pods name our scheduler, and it has a queue or our own mark.
    pub ours: bool,
    /// `spec.suspend`.
    pub suspended: bool,
    /// How often we suspended it: the incarnation of its next gang.
    pub incarnation: u32,
    /// How its work ended, once it has.
    pub finished: Option<OwnerEnd>,
    /// `spec.priority` of its template.
    pub priority: i32,
    /// `preemptionPolicy: Never` of its template.
    pub never_preempts: bool,
    /// What people asked.
    pub wishes: Arc<Wishes>,
    /// Pod sets that its templates make.
    pub pod_sets: Vec<OwnerPodSet>,
    /// Members that must run together.
    pub min_member: u32,
    /// Of a Job: people state that number itself, and it stays if the Job makes fewer pods.
    pub min_stated: bool,
    /// Members that ended well, as far as it has counted them: [`OwnerFacts::min_member`] is
    /// without those that nobody stands in for any more.
    pub ended: u32,
    /// Members that it has still to bring to a good end, those that run included; `None`: it makes
    /// no more once one has ended well.
    pub left: Option<u32>,
    /// In place of how many of its pods that end well it makes others, over all its life: those
    /// that end after them are the last of their kind.
    pub replaces: u32,
    /// The group that its template names: its pods are members of that, and the owner is no
    /// gang of its own.
    pub member_of: Option<GangRef>,
    /// Set by the patch that resumed it: quota is held although no pod exists yet.
    pub admitted: Option<BindingNote>,
    /// Set while a run of it is being stopped by us: the one before [`OwnerFacts::incarnation`].
    pub eviction: Option<EvictionNote>,
    /// Set by the patch that suspended it last, if we did.
    pub requeued: Option<Box<RequeueNote>>,
    /// Why it is not resumed, whatever else there is.
    pub held: Option<Held>,
}

impl OwnerFacts {
    /// Whether it counts by itself who of its pods ended, a while after they did: a Job does.
    /// Others say how many they still have by what their own Jobs have counted.
    pub fn counts_late(&self) -> bool {
        self.source == GangSource::Job
    }

    /// Whether it is suspended where its work is stopped; else its pods are: nobody here would
    /// resume one whose templates name another scheduler, whatever its pods say.
    pub fn may_be_suspended(&self) -> bool {
        self.ours || self.held.is_none()
    }

    /// Pods that it makes at once.
    pub fn pods(&self) -> u32 {
        self.pod_sets.iter().fold(0, |sum: u32, set| sum.saturating_add(set.count))
    }

    /// Of the pods that its sets count, how many it makes no more, where so many of its present run
    /// are seen that ended well: those that it has not counted yet, unless it makes others in their
    /// place; and, of an owner whose sets count all that it began with, those that it has.
    pub fn over(&self, ended: u32) -> u32 {
        let pods = self.pods();
        let Some(left) = self.left else { return if ended > 0 { pods } else { 0 } };
        let follow = if self.replaces > 0 { left.saturating_sub(pods) } else { 0 };
        let uncounted = ended.saturating_sub(self.ended).saturating_sub(follow);
        pods.saturating_sub(left).saturating_add(uncounted)
    }
}
