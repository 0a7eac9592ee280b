//! The Workload object that holds a group without an owner outlives the pods of that: it lets go
//! of them before they are stopped.
//!
//! Problem: such an object names pods as its owners. The garbage collector deletes it within
//! milliseconds of the last of them, and with it goes what it says: the work would start again
//! with whoever is made in their stead.
//!
//! Wanted: the first eviction of such a group takes all owners off the object; the others wait for
//! that, without a slot ([`super::queue`]). They go on once it is done, or was before, or there is
//! no such object (any more). So they do where the API server refuses it for good, which the log
//! says: what may not run is stopped all the same. Where it could not be done in the time of an
//! eviction, none of them is sent: all are refused, and whoever decided them asks again.
//!
//! What is asked for again, here or by another leader, reads that it is done. A write without an
//! answer is not pursued: whenever it is carried out, it changes what is meant, or nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use capstan_core::model::input::Text;
use capstan_core::plan::EffectResult;
use kube::Resource;
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde_json::json;
use tokio::time::Instant;

use super::flight::{Flight, Progress, Stop, too_late};
use super::line::{Line, refused};
use super::queue::Shared;
use crate::api::workload::Workload;

/// What the first eviction of a group has to see to, and others of it wait for. Who drops it lets
/// them go on.
pub(super) struct Gate {
    /// `None`: nobody waits here any more.
    shared: Option<Arc<Shared>>,
    /// The group, `namespace/name`.
    workload: Text,
    /// What is left of the time for it.
    left: Duration,
}

impl Gate {
    /// One before this eviction.
    pub(super) fn before(shared: &Arc<Shared>, flight: &Flight) -> Gate {
        let (workload, left) = (flight.effect.workload.clone(), flight.patience());
        Gate { shared: Some(shared.clone()), workload, left }
    }

    /// Some of its time is gone.
    fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// Nobody goes on; who waited for it.
    fn shut(mut self) -> VecDeque<Flight> {
        let shared = self.shared.take();
        shared.map(|shared| shared.waiting_at(&self.workload)).unwrap_or_default()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.let_out(&self.workload);
        }
    }
}

/// An effect of which nothing has to come about before it (any more). `None`: it is tried again
/// later, or was answered.
pub(super) async fn pass(shared: &Arc<Shared>, mut flight: Flight) -> Option<Flight> {
    let Some(mut gate) = flight.gate.take() else { return Some(flight) };
    let begun = Instant::now();
    let line = Line::new(shared, false, gate.left);
    let tried = let_go(&line, &gate.workload).await;
    gate.spend(begun.elapsed().saturating_sub(line.waited()));
    match tried {
        Ok(()) => Some(flight),
        Err(Stop::Answer(why)) => {
            let workload = &gate.workload;
            tracing::warn!(
                %workload, ?why,
                "its Workload does not let go of its pods, which may not run and are stopped: it \
                 may go with them, and the work start again with others"
            );
            Some(flight)
        }
        Err(Stop::GiveUp) => {
            flight.answer(EffectResult::TimedOut);
            None
        }
        Err(Stop::Again { why, after }) => {
            let pause = flight.failed(shared, (&why, after));
            gate.spend(pause);
            if gate.left.is_zero() {
                gate.shut().into_iter().for_each(|waiting| waiting.answer(too_late(&why)));
                flight.answer(too_late(&why));
            } else {
                flight.gate = Some(gate);
                shared.pause(flight, pause);
            }
            None
        }
    }
}

/// One try to have the object of a group name none of its pods.
async fn let_go(line: &Line<'_>, workload: &Text) -> Result<(), Stop> {
    let Some((namespace, name)) = workload.split_once('/') else { return Ok(()) };
    let (namespace, name) = (Text::from(namespace), Text::from(name));
    let Some(found) = read(line, &namespace, &name).await? else { return Ok(()) };
    if !found.owner_references.iter().flatten().any(|owner| owner.kind == "Pod") {
        return Ok(());
    }
    let body = json!({ "metadata": { "uid": &found.uid, "ownerReferences": null } });
    let (params, body) = (PatchParams::default(), Patch::Merge(&body));
    let request = kube::core::Request::new(Workload::url_path(&(), Some(&namespace)));
    let request = request.patch(&name, &params, &body);
    let reply = line.write(&mut Progress::default(), request).await?;
    match reply.code {
        200..=299 | 404 => Ok(()),
        409 => Err(Stop::again(reply.says())),
        // Another uid is an invalid change of it.
        422 => {
            let now = read(line, &namespace, &name).await?;
            let same = now.is_some_and(|now| now.uid == found.uid);
            Err(if same { refused(reply.says()) } else { Stop::again(reply.says()) })
        }
        _ => Err(refused(reply.says())),
    }
}

/// What the object of a group says of itself; `None`: there is none.
async fn read(line: &Line<'_>, namespace: &Text, name: &Text) -> Result<Option<ObjectMeta>, Stop> {
    let found: Option<PartialObjectMeta<Workload>> = line.read_named(Some(namespace), name).await?;
    Ok(found.map(|found| found.metadata))
}
