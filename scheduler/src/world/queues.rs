//! ClusterQueues that are deleted: they stay, marked, for as long as work holds their quota, as
//! the finalizer keeps them in a cluster.

use capstan_core::model::input::{ClusterQueueFacts, Input, Text};
use capstan_core::time::Time;

use super::agenda::Event;
use super::{Identity, World};

impl World {
    /// A queue of the input. Where time is played, one that is deleted later is not yet.
    pub(super) fn expect_queue(&mut self, queue: ClusterQueueFacts) {
        let start = self.agenda.as_ref().map(|agenda| agenda.start());
        let later = queue.deleted.filter(|at| start.is_some_and(|start| start < *at));
        let Some(at) = later else { return self.put_object(Input::ClusterQueue(queue)) };
        self.plan(at, Event::QueueDeleted(queue.name.clone()));
        self.put_object(Input::ClusterQueue(ClusterQueueFacts { deleted: None, ..queue }));
    }

    /// Somebody deletes a queue.
    pub(super) fn delete_queue(&mut self, at: Time, name: Text) {
        let Some(Input::ClusterQueue(queue)) = self.objects.get(&Identity::ClusterQueue(name))
        else {
            return;
        };
        let queue = ClusterQueueFacts { deleted: Some(at), ..queue.clone() };
        self.put_object(Input::ClusterQueue(queue));
    }

    /// Nobody holds quota in these queues, which are being deleted.
    pub(super) fn let_go(&mut self, unused: &[Text]) {
        for name in unused {
            if self.objects.contains_key(&Identity::ClusterQueue(name.clone())) {
                self.put_object(Input::ClusterQueueGone(name.clone()));
            }
        }
    }
}
