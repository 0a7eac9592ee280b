//! Pods that wait: which of them say why, and what each of them says.
//!
//! That room is being made by preemption is mostly over within seconds, and of hundreds of members
//! at once. Those writes would slow the API server while victims are stopped and binds follow, and
//! for nothing: kube-scheduler looks at no nomination of a pod that is not its own, autoscalers
//! build nodes for nobody who has not asked for some, a new engine learns from its victims for whom
//! they leave, and the Workload says it at once. So members of a gang say it only once it has been
//! so for [`ROOM_PATIENCE`](super::plan::ROOM_PATIENCE). Nobody waits for that whose condition says
//! by then what others act on: that it asks for nodes, or names another one. Nor does a pod that is
//! no gang: it has nobody beside it, and is tried first where its status nominates it.
//!
//! A leader that has written nothing of a pod yet goes by what the watch shows of it: most of that
//! is what the leader before wrote, and as true as it was. What we wrote ourselves the answer says,
//! which no watch is ahead of.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::explain::view::WorkloadDetails;
use capstan_core::model::input::Text;
use capstan_core::plan::{PodRef, State};
use capstan_core::time::Time;

use super::entry::{Key, Shown, Wanted};
use super::plan::{Name, PATIENCE, Plan};
use super::pods::{self, PodCondition};
use crate::live::Unscheduled;

impl Plan {
    /// What the API shows of those pods of a workload that wait, for who has written nothing of
    /// them, and which version of them; what they are to say is told next.
    pub(super) fn pods_show<'a>(
        &mut self,
        now: Time,
        details: &WorkloadDetails,
        shows: impl Fn(&Text) -> (Option<&'a Unscheduled>, Option<i64>),
    ) {
        // Its pods are not told of now.
        if details.stop_asked {
            return;
        }
        for pod in &details.waiting {
            let (key, (found, generation)) = (Key::Pod(pod.clone()), shows(&pod.uid));
            let is_new = !self.entries.contains_key(&key);
            let entry = self.entries.entry(key).or_default();
            entry.generation = generation;
            if entry.flying || entry.written_at != Time::default() {
                continue;
            }
            if is_new {
                entry.next_at = now.plus(PATIENCE);
            }
            let same = match (&entry.shown, found) {
                (Some(Shown::Pod(shown)), Some(found)) => shown.is(found),
                (shown, None) => shown.is_none(),
                _ => false,
            };
            if !same {
                let shown = found.map(|found| Shown::Pod(Arc::new(PodCondition::found(found))));
                (entry.shown, entry.seen_at) = (shown, now);
            }
        }
    }

    /// What those pods of a workload are to say that wait; the others of it say nothing more.
    pub(super) fn pods_wait(&mut self, now: Time, name: &Name, details: &WorkloadDetails) {
        let state = details.view.state;
        // While it gathers nothing was decided: no condition is written, unless a member would go
        // on naming a node where no room is made for it any more, or asking for nodes.
        let misleads = details.waiting.iter().any(|pod| self.misleads(pod, state));
        let waits =
            matches!(state, State::Queued | State::Reserved | State::Binding | State::Running);
        let condition = match details.view.reason.as_ref().filter(|_| waits || misleads) {
            Some(why) => Some(Arc::new(pods::condition(why))),
            None => misleads.then(|| Arc::new(pods::undecided())),
        };
        let waiting = match condition.is_some() {
            true => details.waiting.clone(),
            false => Vec::new(),
        };
        let before = self.waiting.remove(name).unwrap_or_default();
        let still: BTreeSet<&PodRef> = waiting.iter().collect();
        let known = before.iter().chain(&details.waiting);
        for pod in known.filter(|pod| !still.contains(pod)) {
            self.forget(&Key::Pod(pod.clone()));
        }
        if let Some(condition) = condition {
            for pod in &waiting {
                self.pod_waits(now, pod, &condition, details);
            }
        }
        if !waiting.is_empty() {
            self.waiting.insert(name.clone(), waiting);
        }
    }

    fn pod_waits(
        &mut self,
        now: Time,
        pod: &PodRef,
        condition: &Arc<PodCondition>,
        details: &WorkloadDetails,
    ) {
        let node = details.planned.get(&pod.uid);
        let said = match node {
            Some(node) => {
                let node = Some(node.clone());
                Arc::new(PodCondition { node, ..PodCondition::clone(condition) })
            }
            None => condition.clone(),
        };
        let gang = details.members > 1 || details.needed > 1;
        let room = gang && (node.is_some() || details.view.state == State::Reserved);
        let key = Key::Pod(pod.clone());
        let entry = self.entries.entry(key.clone()).or_default();
        entry.room_since = room.then(|| entry.room_since.unwrap_or(now));
        self.want(now, key, Wanted::Pod(said));
    }

    /// Whether the API shows of a pod what is not so where its workload is in this state.
    fn misleads(&self, pod: &PodRef, state: State) -> bool {
        let Some(entry) = self.entries.get(&Key::Pod(pod.clone())) else { return false };
        // A write that is on its way was wanted, and counts as shown.
        let wanted = matches!(&entry.wanted, Some(Wanted::Pod(said)) if said.misleads(state));
        wanted && entry.flying
            || matches!(&entry.shown, Some(Shown::Pod(said)) if said.misleads(state))
    }
}
