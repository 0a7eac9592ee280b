//! Volumes of a gang, settled before any of it is bound.
//!
//! Problem: a claim that waits for its first consumer is bound by others (the volume controller, a
//! provisioner), once we wrote which volume it gets or which node one is made for. That takes its
//! time, and may fail; a gang of which a part is bound by then would be a gang in part.
//!
//! Phases: what was chosen for the claims of all members is written ([`Action::SelectVolumes`]);
//! each member stays `Preparing` until its claims are seen bound, to volumes that its node can
//! use; then the whole gang is bound. Where a write fails, a provisioner gives a claim back, a
//! volume is lost to another claim or time runs out, the whole gang gives its places up and waits
//! a while. What was written stays as kube-scheduler leaves it: the next try honours it.
//!
//! Restart: claims and volumes show what was written; a gang that was being prepared queues and
//! goes where its claims are. Cost: members that wait for volumes, at every step.

use capstan_topology::NodeIdx;

use crate::engine::Engine;
use crate::explain::reason::StorageRefusal;
use crate::model::apply::Changes;
use crate::model::ids::{PodIdx, WorkloadIdx};
use crate::model::input::{ClaimFacts, NodeFacts, Text};
use crate::model::pod::Binding;
use crate::model::volumes::{Setting, Volumes};
use crate::plan::{Action, EffectId, VolumeSetting};
use crate::time::Time;

use super::inflight::InFlight;

/// A member whose claims are being bound.
#[derive(Debug)]
pub(crate) struct Settling {
    /// Its effect.
    effect: EffectId,
    /// Until when they must be bound.
    until: Time,
    /// What was written, and whether that was seen; none: a claim that is made for it is not there
    /// yet.
    claims: Vec<(Setting, bool)>,
}

/// How far a claim is.
enum Progress {
    Bound,
    /// Whether what was written is there.
    Open(bool),
}

impl Engine {
    /// Writes what was chosen for the claims of a member that are not bound yet; `false`: nothing
    /// is to be written.
    pub(crate) fn select_volumes(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        pod: PodIdx,
    ) -> Result<bool, Text> {
        let Some(wanted) = self.state.volumes_of(pod) else { return Ok(false) };
        let node = self.state.pods[pod].place.expect("only placed pods are bound");
        if self.state.room.facts(node).is_none() {
            return Err(self.node_is_gone(node));
        }
        // One that took over a place that was kept for it has chosen nothing yet.
        match self.state.choose_volumes(&wanted, node) {
            Ok(_) => {}
            Err(StorageRefusal::ClaimMissing { ephemeral: true, .. }) => {
                let nothing = self.effect_id();
                self.settle_volumes(now, pod, nothing, Vec::new());
                return Ok(true);
            }
            Err(refusal) => {
                let node = &self.state.room.node(node).name;
                return Err(format!("on {node}: {refusal}").into());
            }
        }
        let settings = self.state.room.volumes.settings(&wanted);
        if settings.is_empty() {
            return Ok(false);
        }
        let reference = self.state.pods[pod].reference();
        let uid = reference.uid.clone();
        let written = settings.iter().map(|setting| VolumeSetting {
            claim: setting.claim.clone(),
            uid: setting.uid.clone(),
            node: setting.choice.node.clone(),
            volume: setting.choice.volume.clone(),
        });
        let action = Action::SelectVolumes { pod: reference, settings: written.collect() };
        let effect = self.effect(now, workload, Some(uid), action);
        self.settle_volumes(now, pod, effect, settings);
        Ok(true)
    }

    pub(super) fn node_is_gone(&self, node: NodeIdx) -> Text {
        format!("node {} is gone", self.state.room.node(node).name).into()
    }

    fn settle_volumes(&mut self, now: Time, pod: PodIdx, effect: EffectId, claims: Vec<Setting>) {
        self.state.pods[pod].binding = Binding::InFlight(effect);
        let until = now.plus(self.state.policy.volume_timeout);
        let claims = claims.into_iter().map(|setting| (setting, false)).collect();
        self.settling.insert(pod, Settling { effect, until, claims });
    }

    /// Whether the claims of a member are all bound now. Where one had still to be made for it,
    /// what is chosen is written once it is there.
    fn go_on(&mut self, now: Time, pod: PodIdx) -> Result<bool, Text> {
        if !self.settling[&pod].claims.is_empty() {
            return self.all_bound(pod);
        }
        let wanted = self.state.volumes_of(pod).expect("it has volumes");
        let problem = self.state.room.volumes.demand(&wanted).problem;
        if let Some(StorageRefusal::ClaimMissing { ephemeral: true, .. }) = problem {
            return Ok(false);
        }
        let workload = self.state.pods[pod].workload.expect("ours are in workloads");
        self.select_volumes(now, workload, pod).map(|selects| !selects)
    }

    /// Members whose claims are all bound now; gangs of which some claim will not be go back.
    pub(super) fn look_at_volumes(&mut self, now: Time, changes: &mut Changes) -> Vec<PodIdx> {
        let mut settled = Vec::new();
        let mut failed = Vec::new();
        let mut pods: Vec<PodIdx> = self.settling.keys().copied().collect();
        pods.retain(|pod| self.is_settling(*pod));
        self.in_order(&mut pods, |pod| *pod);
        for pod in pods {
            match self.go_on(now, pod) {
                Ok(true) => {
                    self.settling.remove(&pod);
                    settled.push(pod);
                }
                Ok(false) => {}
                Err(failure) => failed.push((pod, failure)),
            }
        }
        let any_failed = !failed.is_empty();
        for (pod, failure) in failed {
            if self.settling.contains_key(&pod)
                && let Some(workload) = self.state.pods[pod].workload
            {
                self.send_back(now, workload, failure, changes);
            }
        }
        if any_failed {
            self.state.derive(changes);
        }
        settled.retain(|pod| matches!(self.state.pods[*pod].binding, Binding::InFlight(_)));
        settled
    }

    /// Whether a member still waits for its claims; one that is gone, or was sent back, does not.
    fn is_settling(&mut self, pod: PodIdx) -> bool {
        let effect = self.settling[&pod].effect;
        let entry = self.state.pods.get(pod);
        let settles = entry.is_some_and(|pod| pod.binding == Binding::InFlight(effect));
        if !settles {
            self.settling.remove(&pod);
        }
        settles
    }

    /// Slots of pods say nothing: plans are in order of uids.
    fn in_order<T>(&self, list: &mut [T], pod: impl Fn(&T) -> PodIdx) {
        list.sort_by(|a, b| self.state.pods[pod(a)].uid.cmp(&self.state.pods[pod(b)].uid));
    }

    /// Whether all claims of a member are bound; why they will not be.
    fn all_bound(&mut self, pod: PodIdx) -> Result<bool, Text> {
        let place = self.state.pods[pod].place.expect("what is being prepared has a place");
        let room = &self.state.room;
        let Some(node) = room.facts(place) else {
            return Err(self.node_is_gone(place));
        };
        let settling = self.settling.get_mut(&pod).expect("the caller lists those");
        let mut all = true;
        for (setting, seen) in &mut settling.claims {
            let claim = room.volumes.claim(&setting.claim);
            let claim = claim.filter(|claim| claim.uid == setting.uid);
            let Some(claim) = claim else {
                return Err(format!("claim {} is gone", setting.claim.name).into());
            };
            match progress(&room.volumes, claim, setting, node, *seen)? {
                Progress::Bound => {}
                Progress::Open(there) => {
                    *seen |= there;
                    all = false;
                }
            }
        }
        Ok(all)
    }

    /// A gang of which something could not be settled gives up all places that are not bound, and
    /// waits a while.
    pub(super) fn send_back(
        &mut self,
        now: Time,
        workload: WorkloadIdx,
        failure: Text,
        changes: &mut Changes,
    ) {
        let placed: Vec<PodIdx> = self.state.placed(workload).collect();
        for pod in placed {
            let unsent = match self.state.pods[pod].binding {
                Binding::None => true,
                Binding::InFlight(effect) => {
                    !matches!(self.inflight.get(&effect), Some(InFlight::Bind(_)))
                }
                Binding::Kept | Binding::Bound => false,
            };
            if unsent {
                self.settling.remove(&pod);
                self.release_claims(now, pod);
                self.give_up_place(pod, changes);
            }
        }
        // For pods that come once these run nothing is kept without them.
        let placed: Vec<PodIdx> = self.state.placed(workload).collect();
        let late = self.state.workloads[workload].late;
        if late && placed.iter().all(|pod| self.state.pods[*pod].kept()) {
            placed.into_iter().for_each(|pod| self.state.release(pod, changes));
        }
        self.back_off(now, workload, failure, changes);
    }

    /// The same outside of a batch of facts.
    pub(crate) fn send_back_at_once(&mut self, now: Time, workload: WorkloadIdx, failure: Text) {
        let mut changes = Changes::default();
        self.send_back(now, workload, failure, &mut changes);
        self.take_in_changes(now, changes);
    }

    /// Gangs whose claims were not bound in time go back.
    pub(super) fn give_up_on_volumes(&mut self, now: Time, changes: &mut Changes) {
        let due = self.settling.iter().filter(|(_, settling)| settling.until <= now);
        let mut due: Vec<PodIdx> = due.map(|(pod, _)| *pod).collect();
        due.retain(|pod| self.state.pods.get(*pod).is_some());
        self.in_order(&mut due, |pod| *pod);
        for pod in due {
            let Some(settling) = self.settling.get(&pod) else { continue };
            let claims = settling.claims.iter().map(|(setting, _)| &*setting.claim.name);
            let claims: Vec<&str> = claims.collect();
            let failure = match claims.is_empty() {
                true => "its claims were not made in time".to_owned(),
                false => format!("not bound in time: {}", claims.join(", ")),
            };
            if let Some(workload) = self.state.pods[pod].workload {
                self.send_back(now, workload, failure.into(), changes);
            }
        }
    }

    /// The first claim of a member that is not bound yet, while that is waited for.
    pub(super) fn unbound_claim(&self, pod: PodIdx) -> Option<Text> {
        let settling = self.settling.get(&pod)?;
        let node = self.state.room.facts(self.state.pods[pod].place?)?;
        let volumes = &self.state.room.volumes;
        let open = |setting: &Setting| {
            let claim = volumes.claim(&setting.claim).filter(|claim| claim.uid == setting.uid);
            let of = |claim| progress(volumes, claim, setting, node, true);
            !matches!(claim.map(of), Some(Ok(Progress::Bound)))
        };
        let open = settling.claims.iter().find(|(setting, _)| open(setting));
        match open {
            Some((setting, _)) => Some(setting.claim.name.clone()),
            // It is still to be made for this pod.
            None if settling.claims.is_empty() => {
                Some(format!("of pod {}", self.state.pods[pod].name).into())
            }
            None => None,
        }
    }

    /// When the first claims must be bound.
    pub(super) fn volumes_due(&self) -> Option<Time> {
        self.settling.values().map(|settling| settling.until).min()
    }
}

/// How far a claim is that was written; why it will not be bound for this node.
fn progress(
    volumes: &Volumes,
    claim: &ClaimFacts,
    setting: &Setting,
    node: &NodeFacts,
    seen: bool,
) -> Result<Progress, Text> {
    let name = &claim.key.name;
    if claim.lost {
        return Err(format!("claim {name} has lost its volume").into());
    }
    if claim.fully_bound() {
        let bound = claim.volume.as_ref().and_then(|volume| volumes.volume(volume));
        return match bound {
            // The claim was seen before its volume.
            None => Ok(Progress::Open(seen)),
            Some(volume) if volumes.reaches_bound(node, volume) => Ok(Progress::Bound),
            Some(volume) => {
                let (volume, node) = (&volume.name, &node.name);
                Err(format!("claim {name} got volume {volume}, which {node} cannot use").into())
            }
        };
    }
    let there = match &setting.choice.volume {
        Some(volume) => volumes.volume(volume).is_some_and(|volume| volume.is_for(claim)),
        None => claim.selected_node.as_ref() == Some(&setting.choice.node),
    };
    match (&setting.choice.volume, seen && !there) {
        (_, false) => Ok(Progress::Open(there)),
        (Some(volume), true) => {
            Err(format!("volume {volume} is no more kept for claim {name}").into())
        }
        (None, true) => Err(format!("no volume could be made for claim {name}").into()),
    }
}
