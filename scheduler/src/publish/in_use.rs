//! Keeps a ClusterQueue that somebody deletes there for as long as work holds quota in it.
//!
//! Problem: with the object its quota goes, and what it admitted would run on without a charge:
//! its cohort lends the same devices again. So each queue of our own group bears a finalizer, as
//! Kueue's do: who is deleted with it is only marked, admits nothing any more, and is charged on.
//!
//! Wanted: a queue gets the finalizer while nobody deletes it, and loses it once it is being
//! deleted and the engine, which has seen that, says that nobody holds quota there. Finalizers of
//! others are never touched: a patch names the uid and the version that it read, and where another
//! writer was faster it is made anew of what is there.
//!
//! One that is deleted and of which nothing could ever be read is charged nothing: it goes once
//! nothing runs any more that it admitted, whatever its status looks like.

use capstan_core::explain::reason::{Inactive, Reason};
use capstan_core::explain::view::QueueView;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::api::cluster_queue::ClusterQueueStatus;
use crate::api::keys;

/// A ClusterQueue as the API shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownQueue {
    /// Its status.
    pub status: ClusterQueueStatus,
    uid: String,
    version: String,
    finalizers: Vec<String>,
    deleting: bool,
}

/// What is to be done about the finalizer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Due {
    Nothing,
    /// Read the object: what is known of it is of before its deletion.
    Look,
    /// Merge-patch the object.
    Patch(Value),
}

impl ShownQueue {
    /// What an object shows; of the rest of it nothing is decoded.
    pub fn of(mut object: DynamicObject) -> Result<ShownQueue, serde_json::Error> {
        let meta = object.metadata;
        let status = match object.data.get_mut("status").map(Value::take) {
            None | Some(Value::Null) => Ok(ClusterQueueStatus::default()),
            Some(status) => serde_json::from_value(status),
        };
        let status = match status {
            Err(_) if meta.deletion_timestamp.is_some() => ClusterQueueStatus::default(),
            status => status?,
        };
        Ok(ShownQueue {
            status,
            uid: meta.uid.unwrap_or_default(),
            version: meta.resource_version.unwrap_or_default(),
            finalizers: meta.finalizers.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        })
    }

    /// Nothing keeps it any more.
    pub fn gone(&self) -> bool {
        self.deleting && self.finalizers.is_empty()
    }

    /// Whether it shows the finalizers that a patch asked for.
    pub fn took(&self, patch: &Value) -> bool {
        json!(self.finalizers) == patch["metadata"]["finalizers"]
    }

    fn kept(&self) -> bool {
        self.finalizers.iter().any(|one| one == keys::IN_USE)
    }

    fn patch(&self, keep: bool) -> Due {
        let others = self.finalizers.iter().filter(|one| *one != keys::IN_USE);
        let ours = keep.then(|| keys::IN_USE.to_owned());
        let all: Vec<String> = others.cloned().chain(ours).collect();
        let meta = json!({ "uid": self.uid, "resourceVersion": self.version, "finalizers": all });
        Due::Patch(json!({ "metadata": meta }))
    }
}

/// What brings the finalizer of a queue to what the engine says of it.
pub(super) fn due(shown: &ShownQueue, view: &QueueView) -> Due {
    let terminating =
        matches!(view.inactive, Some(Reason::Inactive { why: Inactive::Terminating, .. }));
    let unused = terminating && view.admitted == 0;
    match (shown.deleting, shown.kept()) {
        (false, false) if !terminating => shown.patch(true),
        (false, true) if unused => Due::Look,
        (true, true) if unused => shown.patch(false),
        _ => Due::Nothing,
    }
}
