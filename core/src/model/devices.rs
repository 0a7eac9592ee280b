//! Devices and claims of a room: facts into them, and whose numbers those change.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_topology::NodeIdx;

use crate::gpus;
use crate::model::apply::Changes;
use crate::model::claim::Places;
use crate::model::ids::{Arena, PodIdx, ShapeIdx, WorkloadIdx};
use crate::model::input::{
    Allocation, Input, Labels, NodeFacts, PodClaim, PodShape, ResourceClaimFacts, ResourceClaimKey,
    Text,
};
use crate::model::lookup::Lookup;
use crate::model::pod::{Binding, Pod};
use crate::model::room::Room;
use crate::model::state::ClusterState;
use crate::rules::dynamic_resources::ways::DeviceWay;
use crate::rules::dynamic_resources::{self, Concerns, PodHold, Reserver};

impl ClusterState {
    /// Notes whether a pod of ours that is not bound has a claim for extended resources from an
    /// earlier try.
    pub(super) fn note_left_claim(&mut self, index: PodIdx) {
        let pod = &self.pods[index];
        let claims = &self.room.shape(pod.shape).facts.claims;
        let left = |claim: &PodClaim| matches!(claim, PodClaim::Extended { left: true, .. });
        let open = pod.ours && pod.active() && pod.binding != Binding::Bound;
        match open && claims.iter().any(left) {
            true => _ = self.left_claims.insert(index),
            false => _ = self.left_claims.remove(&index),
        }
    }
}

impl ClusterState {
    /// Stores a fact of devices or claims. It makes room for those alone who ask for devices, and
    /// where a claim merely has them now, for those alone who share it.
    pub(super) fn apply_devices(&mut self, fact: Input, changes: &mut Changes) {
        self.look_at_devices_of(&fact);
        let takes = match &fact {
            Input::ResourceClaim(claim) => {
                self.room.devices.only_takes(claim).then(|| claim.key.clone())
            }
            _ => None,
        };
        let of_claim = match &fact {
            Input::ResourceClaim(claim) => Some(claim.key.clone()),
            Input::ResourceClaimGone(key) => Some(key.clone()),
            _ => None,
        };
        let mut may_fit = self.room.apply_devices(fact);
        if let Some(key) = of_claim {
            may_fit |= self.note_reserved(&key);
        }
        match takes {
            Some(claim) if may_fit => _ = changes.allocated.insert(claim),
            Some(_) => {}
            None => changes.devices_free |= may_fit,
        }
        (changes.facts, changes.devices) = (true, true);
    }

    /// Notes who has reserved a claim; whether somebody no longer has who stood in others' way.
    fn note_reserved(&mut self, key: &ResourceClaimKey) -> bool {
        let (pods, by_uid) = (&self.pods, &self.pod_by_uid);
        self.room.devices.note_reserved(key, |uid| whom(pods, by_uid, uid))
    }

    /// A pod is there, or has ended: what it has reserved may stand in others' way no more.
    pub(super) fn note_reserver(&mut self, index: PodIdx, ended: bool, changes: &mut Changes) {
        let uid = &self.pods[index].uid;
        changes.devices_free |= self.room.devices.note_reserver(index, uid, ended);
    }

    /// Compares who has reserved claims with what facts say.
    pub(super) fn recount_reserved(&self) {
        let (pods, by_uid) = (&self.pods, &self.pod_by_uid);
        self.room.devices.recount_reserved(|uid| whom(pods, by_uid, uid));
    }

    /// The time of claims whose devices are not ready may be over now, and they are of no use then:
    /// work that waits is looked at again.
    pub(crate) fn let_claims_lapse(&mut self, changes: &mut Changes) {
        let (now, timeout) = (self.now, self.policy.device_timeout);
        if self.room.devices.let_lapse(now, timeout) {
            self.room.touch_all();
            (changes.devices_free, changes.facts) = (true, true);
        }
    }
}

/// Whom a uid names.
fn whom(pods: &Arena<Pod>, by_uid: &Lookup<Text, PodIdx>, uid: &Text) -> Reserver {
    match by_uid.get(uid) {
        None => Reserver::Unknown,
        Some(pod) if pods[*pod].active() => Reserver::Pod(*pod),
        Some(_) => Reserver::Ended,
    }
}

/// GPUs that a pod may ask for: so many of all pods together still have a sum, from which each can
/// be taken again.
const MILLI_GPUS_MAX: i64 = 1_000_000_000 * gpus::MILLI;

impl ClusterState {
    /// Thousandths of GPUs that a placed pod has: those that it requests, each as its node says
    /// what it is, and those that its claims have. What it uses with others counts once for all of
    /// whom `seen` is kept. More than a billion are as many.
    pub(crate) fn milli_gpus(&self, pod: PodIdx, seen: &mut BTreeSet<ResourceClaimKey>) -> i64 {
        let (room, entry) = (&self.room, &self.pods[pod]);
        let (facts, none) = (entry.place.and_then(|node| room.facts(node)), Labels::new());
        let labels = facts.map_or(&none, |facts| &facts.labels);
        let names = entry.claims.as_ref().map(|names| (&entry.namespace, &names[..]));
        let shape = &room.shape(entry.shape).facts;
        let of_devices = room.devices.milli_gpus((pod, names), shape, seen);
        let asked = room.ledger.request(entry.holds).entries();
        let asked = asked.iter().filter(|(resource, _)| room.resources.is_gpu(*resource));
        let all = asked.fold(of_devices, |sum, (resource, amount)| {
            let share = gpus::share(room.resources.name(*resource), labels);
            sum.saturating_add(share.map_or(0, |share| share.milli(*amount)))
        });
        all.min(MILLI_GPUS_MAX)
    }

    /// A node is about to be said to be another, or gone: if that tells something else of its GPUs,
    /// what they count for budgets is looked at.
    pub(super) fn look_at_gpus(&mut self, name: &Text, facts: Option<&NodeFacts>) {
        let none = Labels::new();
        let known = self.room.find_node(name).and_then(|node| self.room.facts(node));
        let known = known.map_or(&none, |facts| &facts.labels);
        if !gpus::tell_the_same(known, facts.map_or(&none, |facts| &facts.labels)) {
            self.spending.touch_counted();
        }
    }

    /// The same of devices, or of a claim on them.
    pub(super) fn look_at_devices_of(&mut self, input: &Input) {
        let key = match input {
            Input::ResourceClaim(claim) => &claim.key,
            Input::ResourceClaimGone(key) => key,
            Input::Slice(_) | Input::SliceGone(_) => return self.spending.touch_counted(),
            _ => return,
        };
        if self.spending.is_empty() {
            return;
        }
        let news = match input {
            Input::ResourceClaim(claim) => claim.allocation.as_ref(),
            _ => None,
        };
        let known = self.room.devices.claim(key).and_then(|claim| claim.allocation.as_ref());
        let reserved = known.into_iter().chain(news).flat_map(|has| &has.reserved);
        let mut pods = self.room.devices.pods_with(key);
        pods.extend(reserved.filter_map(|uid| self.pod_by_uid.get(uid)));
        for pod in pods {
            if let Some(workload) = self.pods.get(pod).and_then(|pod| pod.workload) {
                self.spending.touch(workload);
            }
        }
    }
}

impl Room {
    /// Stores a fact of devices or claims. Returns whether more may fit now.
    pub(super) fn apply_devices(&mut self, input: Input) -> bool {
        let concerns = match input {
            Input::Slice(slice) => self.devices.put_slice(slice),
            Input::SliceGone(name) => self.devices.remove_slice(&name),
            Input::Answers { query, slice, answers } => {
                self.devices.put_answers(query, slice, answers)
            }
            Input::QueryGone(query) => {
                self.devices.remove_query(&query);
                Concerns::Nobody
            }
            Input::ResourceClaim(claim) => {
                let key = claim.key.clone();
                if self.devices.reserves_only(&claim) {
                    return self.devices.put_reserved(claim);
                }
                let before = self.devices.claim_concerns(&key);
                match self.devices.put_claim(claim) {
                    true => before.and(self.devices.claim_concerns(&key)),
                    false => Concerns::Nobody,
                }
            }
            Input::ResourceClaimGone(key) => {
                let concerns = self.devices.claim_concerns(&key);
                self.devices.remove_claim(&key);
                concerns
            }
            _ => unreachable!("the caller sends facts of devices only"),
        };
        self.touch_concerned(&concerns);
        concerns != Concerns::Nobody
    }

    /// A claim with devices that nobody uses has none, as far as a transaction is concerned, or has
    /// these again; what it had.
    pub(super) fn change_allocation(
        &mut self,
        key: &ResourceClaimKey,
        allocation: Option<Arc<Allocation>>,
    ) -> Option<Arc<Allocation>> {
        let claim = self.devices.claim(key)?.clone();
        let had = claim.allocation.clone();
        self.apply_devices(Input::ResourceClaim(ResourceClaimFacts { allocation, ..claim }));
        had
    }

    /// These claims lose their devices before long, and no others. Returns whether one does not
    /// any more that did before.
    pub(crate) fn set_losing(&mut self, keys: BTreeSet<ResourceClaimKey>) -> bool {
        let old = self.devices.losing();
        let (same, fewer) = (*old == keys, !old.is_subset(&keys));
        if !same {
            self.devices.lose(keys);
            self.touch_all();
        }
        fewer
    }

    /// A pod holds devices.
    pub(super) fn hold_devices(&mut self, pod: PodIdx, hold: PodHold) {
        let concerns = self.devices.hold_concerns(&hold);
        self.devices.hold(pod, hold);
        self.touch_concerned(&concerns);
    }

    /// A pod of a shape that does not exist holds devices on a node; `false`: it needs none.
    pub(super) fn occupy_devices(
        &mut self,
        shape: ShapeIdx,
        node: NodeIdx,
        way: Option<&DeviceWay>,
    ) -> bool {
        let shape = &self.shape(shape).facts;
        let Some(facts) = self.facts(node).filter(|_| !shape.claims.is_empty()) else {
            return false;
        };
        let nowhere = Text::default();
        let names = (&nowhere, None);
        let hold = dynamic_resources::choose(&self.devices, shape, names, facts, way);
        if hold.is_empty() {
            return false;
        }
        let concerns = self.devices.hold_concerns(&hold);
        self.devices.hold_as_another(hold);
        self.touch_concerned(&concerns);
        true
    }

    /// Takes the last [`Room::occupy_devices`] back that was not.
    pub(super) fn leave_devices(&mut self) {
        let hold = self.devices.give_up_last();
        self.touch_concerned(&self.devices.hold_concerns(&hold));
    }

    /// A pod gives up what it holds, which comes back.
    pub(super) fn drop_devices(&mut self, pod: PodIdx) -> PodHold {
        let hold = self.devices.give_up(pod);
        self.touch_concerned(&self.devices.hold_concerns(&hold));
        hold
    }

    /// A pod that has devices goes, or comes back, as far as a transaction is concerned.
    pub(super) fn go(
        &mut self,
        pod: PodIdx,
        claims: impl Iterator<Item = ResourceClaimKey>,
        back: bool,
    ) {
        let concerns = self.devices.go(pod, claims, back);
        self.touch_concerned(&concerns);
    }

    /// A pod to which the API has given no claims yet uses those that its shape names, or does so
    /// no more.
    pub(super) fn use_claims(&mut self, pod: PodIdx, shape: &PodShape, uses: bool) {
        let concerns = match uses {
            true => self.devices.join(pod, shape),
            false => self.devices.leave(pod, shape),
        };
        self.touch_concerned(&concerns);
    }

    /// Devices and claims are kept for whom victims leave, or no longer are.
    pub(super) fn keep_devices(&mut self, workload: WorkloadIdx, places: &Places, keep: bool) {
        match keep {
            true => self.devices.keep(workload, &places.devices),
            false => self.devices.let_go(workload),
        }
        let claims = (&places.frees[..], &places.takes[..]);
        let promised = self.devices.promise(workload, claims, keep);
        let concerns = self.devices.devices_concern(places.devices.iter());
        self.touch_concerned(&concerns.and(promised));
    }

    fn touch_concerned(&mut self, concerns: &Concerns) {
        match concerns {
            Concerns::Nobody => {}
            Concerns::Everybody => self.touch_all(),
            Concerns::Node(name) => {
                self.find_node(name).into_iter().for_each(|node| self.touch(node));
            }
        }
    }
}
