//! Evicts a pod: marks it with who wants its room and why, then deletes it.
//!
//! The mark comes first, so that whoever watches the end (a Job's failure policy, the next
//! engine) learns why. One patch writes both halves of it: pods/status takes annotations too.

use capstan_core::plan::{EffectResult, PodRef, Preemption};
use capstan_core::time::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, gone, refused};
use crate::api::keys;
use crate::api::pod::{Pod, is_true};
use crate::client::call::Reply;
use crate::convert::note;

/// One try.
pub(super) async fn evict(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    (preemption, alone): (&Preemption, bool),
) -> Try {
    let named = Named { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid };
    if progress.doubt {
        look(line, progress, &named, preemption).await?;
        if let Err(stop) = progress.not_done() {
            if matches!(stop, Stop::Answer(_)) {
                take_back(line, progress, &named).await?;
            }
            return Err(stop);
        }
    }
    if !progress.marked {
        let reply = patch(line, progress, &named, &mark(pod, preemption, alone)).await?;
        match reply.code {
            200..=299 => progress.marked = true,
            404 => return Err(gone()),
            // Another uid is an invalid change of it (422); 409 is somebody else's write.
            409 | 422 => return still_there(line, progress, &named, reply).await,
            _ => return Err(refused(reply.says())),
        }
    }
    delete(line, progress, &named).await
}

async fn delete(line: &Line<'_>, progress: &mut Progress, named: &Named<'_>) -> Try {
    let uid = Some(named.uid.to_owned());
    let params =
        DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
    let request = named.requests::<Pod>().delete(named.name, &params);
    progress.deleting = true;
    let reply = line.write(progress, request).await?;
    match reply.code {
        200..=299 | 404 => Ok(EffectResult::Done),
        409 => still_there(line, progress, named, reply).await,
        _ => {
            take_back(line, progress, named).await?;
            Err(refused(reply.says()))
        }
    }
}

/// A mark on a pod that stays would count it as leaving.
async fn take_back(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
) -> Result<(), Stop> {
    if !progress.marked {
        return Ok(());
    }
    let reply = patch(line, progress, named, &unmark(named)).await?;
    let left = match reply.code {
        404 if progress.deleting => Ok(EffectResult::Done),
        404 => Err(gone()),
        409 | 422 => still_there(line, progress, named, reply).await,
        _ => {
            progress.marked = !reply.is_success();
            return Ok(());
        }
    };
    Err(left.map_or_else(|stop| stop, Stop::Answer))
}

/// What an answer means that says "not as it is now": try again only if the pod is there.
async fn still_there(line: &Line<'_>, progress: &Progress, named: &Named<'_>, reply: Reply) -> Try {
    match line.read::<Pod>(named).await? {
        None if progress.deleting => Ok(EffectResult::Done),
        None => Err(gone()),
        Some(_) if reply.code == 409 => Err(Stop::again(reply.says())),
        Some(_) => Err(refused(reply.says())),
    }
}

/// Reads how far an earlier try came.
async fn look(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
    preemption: &Preemption,
) -> Result<(), Stop> {
    let Some(found) = line.read::<Pod>(named).await? else {
        let done = Stop::Answer(EffectResult::Done);
        return Err(if progress.deleting { done } else { gone() });
    };
    let by = found.metadata.annotations.as_ref().and_then(|all| all.get(keys::PREEMPTED_BY));
    let ours = by.map(String::as_str) == for_whom(preemption);
    progress.marked = ours && is_true(&found.status.conditions, "DisruptionTarget").is_some();
    if progress.marked && found.metadata.deletion_timestamp.is_some() {
        return Err(Stop::Answer(EffectResult::Done));
    }
    Ok(())
}

async fn patch(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
    body: &Value,
) -> Result<Reply, Stop> {
    let requests = named.requests::<Pod>();
    let (params, body) = (PatchParams::default(), Patch::Strategic(body));
    line.write(progress, requests.patch_subresource("status", named.name, &params, &body)).await
}

/// For whose sake a pod leaves; one that is stopped for no other's bears nobody's name.
fn for_whom(preemption: &Preemption) -> Option<&str> {
    preemption.for_another().then_some(&*preemption.preemptor)
}

/// The mark: a condition for everybody, annotations for us. What says that a pod leaves by itself
/// stays if it is there: an engine before this one may have begun that.
fn mark(pod: &PodRef, preemption: &Preemption, alone: bool) -> Value {
    let (by, reason) = (for_whom(preemption), preemption.reason.as_str());
    let message = match by {
        Some(by) => format!("preempted to make room for {by} ({reason})"),
        None => format!("stopped: {} ({reason})", preemption.because()),
    };
    // Conditions have whole seconds.
    let now = Time(Timestamp::now().as_second() * 1_000);
    let mut annotations = json!({
        keys::PREEMPTED_BY: by,
        keys::PREEMPTION_REASON: by.map(|_| reason),
    });
    if alone {
        annotations[keys::PREEMPTED_ALONE] = "true".into();
    }
    json!({
        "metadata": { "uid": &*pod.uid, "annotations": annotations },
        "status": { "conditions": [{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": keys::PREEMPTION_BY_SCHEDULER,
            "message": message,
            "lastTransitionTime": note::rfc3339(now),
        }] },
    })
}

fn unmark(named: &Named<'_>) -> Value {
    json!({
        "metadata": {
            "uid": named.uid,
            "annotations": {
                keys::PREEMPTED_BY: null,
                keys::PREEMPTION_REASON: null,
                keys::PREEMPTED_ALONE: null,
            },
        },
        "status": { "conditions": [{ "type": "DisruptionTarget", "$patch": "delete" }] },
    })
}
