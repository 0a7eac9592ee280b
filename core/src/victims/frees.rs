//! Whether anything would come free for a preemptor if somebody left.
//!
//! Problem: most who may be stopped are where no member may go, and who leaves there leaves for
//! nothing. Not always: somebody may keep members away from other nodes than its own, and what it
//! has may be of use there. A volume for one pod only is one pod's wherever that is, and a device
//! on the network is in reach of many nodes.
//!
//! Wanted: nobody is left out without whom a member might fit; who could not help after all goes
//! back later. Cost: a look at each pod for each kind of members; at what it has only where they
//! want volumes or devices.

use super::Need;
use crate::model::ids::{ClassIdx, PodIdx, WorkloadIdx};
use crate::model::input::{ClaimFacts, PodShape};
use crate::model::state::ClusterState;
use crate::model::txn::Txn;

impl Need {
    /// Makes sure that it is known what members make of those around them: what was made while
    /// somebody was gone, who has come back since, may know nothing of that one.
    pub(super) fn look_around(&self, txn: &mut Txn<'_>) {
        for (class, _) in &self.asks {
            let state = txn.state();
            let shape = state.classes.class(*class).key.shape;
            if state.room.shape(shape).facts.kin.is_some() {
                txn.fresh(*class);
            }
        }
    }

    /// Whether any member of a workload is on a node that some wanted class may use at all, where
    /// its peers are if those keep it there; keeps it away from others, or has something that it
    /// could use on others.
    pub(super) fn could_free(&self, state: &ClusterState, workload: WorkloadIdx) -> bool {
        state.placed(workload).any(|pod| {
            let Some(node) = state.pods[pod].place else { return false };
            let home = self.is_home(state, node);
            self.asks.iter().any(|(class, _)| {
                home && state.classes.accepts(&state.room, *class, node)
                    || frees_elsewhere(state, pod, *class)
            })
        })
    }

    /// Whether that may be on other nodes than those where its members are.
    pub(super) fn could_free_elsewhere(&self, state: &ClusterState, workload: WorkloadIdx) -> bool {
        let frees = |pod| self.asks.iter().any(|(class, _)| frees_elsewhere(state, pod, *class));
        state.placed(workload).any(frees)
    }
}

/// Whether a pod keeps members of a class away from other nodes than its own, or has something that
/// they could use there.
fn frees_elsewhere(state: &ClusterState, pod: PodIdx, class: ClassIdx) -> bool {
    let wanted = state.classes.class(class);
    wanted.outlook().minds(state.pods[pod].shape)
        || has_of_use(state, pod, &state.room.shape(wanted.key.shape).facts)
}

/// Whether a pod has something that members of a shape could use on other nodes than its own.
fn has_of_use(state: &ClusterState, pod: PodIdx, wanted: &PodShape) -> bool {
    has_volume(state, pod, wanted) || has_device(state, pod, wanted)
}

/// Whether a pod has a claim that they want, which is for one pod only or takes them where the pod
/// is; or a volume that it would leave to another claim.
fn has_volume(state: &ClusterState, pod: PodIdx, wanted: &PodShape) -> bool {
    let has = state.room.shape(state.pods[pod].shape).facts.volumes.as_deref();
    let (Some(has), Some(wanted)) = (has, wanted.volumes.as_deref()) else { return false };
    let volumes = &state.room.volumes;
    has.claims.iter().any(|using| {
        let shared = wanted.claims.iter().any(|it| it.claim == using.claim);
        let facts = volumes.claim(&using.claim);
        let bound = facts.is_some_and(ClaimFacts::fully_bound);
        let choice = volumes.choice(&using.claim).filter(|_| !bound);
        (shared && facts.is_some_and(ClaimFacts::one_pod))
            || choice.is_some_and(|choice| shared || choice.volume.is_some())
    })
}

/// Whether a pod has a claim on devices that they want, or a device that is in reach of several
/// nodes.
fn has_device(state: &ClusterState, pod: PodIdx, wanted: &PodShape) -> bool {
    if wanted.claims.is_empty() {
        return false;
    }
    let entry = &state.pods[pod];
    let names = entry.claims.iter().flat_map(|names| names.iter());
    let named = names.filter(|name| !name.is_empty());
    let keys = named.map(|name| (entry.namespace.clone(), name.clone()));
    state.room.devices.holds_for_many(pod, keys, wanted)
}
