//! What pods that wait say of that themselves, and which version of them is seen, for whoever tells
//! people of it.
//!
//! Decides that only a condition counts which says that a pod of ours has no node, whoever wrote
//! it. Nothing of it is a fact: we write most of it ourselves, and nobody is told that it changed.
//!
//! Cost: for a pod that says so a few shared texts, until it has a node.

use capstan_core::model::input::Text;

use super::cluster::Live;
use crate::api::pod::Pod;
use crate::convert::pod::PodDraft;

/// What the API shows of a pod that says that it has no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscheduled {
    /// One word.
    pub reason: Text,
    /// For people.
    pub message: Text,
    /// Where room is made for it.
    pub node: Option<Text>,
}

impl Live {
    /// Why a pod waits, as the API shows it; `None`: it says nothing of that.
    pub fn unscheduled(&self, uid: &Text) -> Option<&Unscheduled> {
        self.unscheduled.get(uid)
    }

    /// Which version of its spec a pod has that waits, where the API server counts them.
    pub fn generation(&self, uid: &Text) -> Option<i64> {
        self.pods.get(uid)?.generation.map(|it| i64::from(it.get()))
    }

    pub(super) fn note_unscheduled(&mut self, pod: &Pod, draft: &PodDraft) {
        let waits = draft.node.is_none() && draft.ours(&self.directory.scheduler);
        let mut conditions = pod.status.conditions.iter().filter(|_| waits);
        let says = conditions.find(|it| it.kind == "PodScheduled" && it.status == "False");
        let Some(says) = says else {
            self.unscheduled.remove(&draft.uid);
            return;
        };
        let texts = &mut self.shared.texts;
        let node = pod.status.nominated_node_name.as_deref().filter(|name| !name.is_empty());
        let (reason, message) = (texts.text(&says.reason), texts.text(&says.message));
        let shown = Unscheduled { reason, message, node: node.map(|name| texts.text(name)) };
        self.unscheduled.insert(draft.uid.clone(), shown);
    }
}
