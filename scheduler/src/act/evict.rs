//! Evicts a pod: marks it with who wants its room and why, then deletes it.
//!
//! The mark comes first, so that whoever watches the end (a Job's failure policy, the next
//! engine) learns why. One patch writes both halves of it: pods/status takes annotations too.
//!
//! A mark is taken back where the deletion is refused. Where that is refused as well, or fails for
//! [`UNMARK_MAX`], the mark stays and the log says what to do about it: the effect ends all the
//! same, as every other does.

use std::time::Duration;

use capstan_core::plan::{EffectResult, PodRef, Preemption};
use capstan_core::time::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, gone, refused};
use crate::api::keys;
use crate::api::pod::{Pod, is_true};
use crate::client::call::Reply;
use crate::convert::note;

/// For how long a mark is being taken back, at least: as long as what had no answer is pursued.
const UNMARK_MAX: Duration = Duration::from_secs(60);

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
    let since = *progress.unmarking.get_or_insert_with(Instant::now);
    match take_back_once(line, progress, named).await {
        Err(Stop::Again { why, .. }) if since.elapsed() >= UNMARK_MAX => {
            tracing::warn!("{}", stays_marked(named, &why));
            Ok(())
        }
        other => other,
    }
}

async fn take_back_once(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
) -> Result<(), Stop> {
    let reply = patch(line, progress, named, &unmark(named)).await?;
    // Another uid is an invalid change of it.
    let is_gone = match reply.code {
        422 => line.read::<Pod>(named).await?.is_none(),
        code => code == 404,
    };
    let left = match reply.code {
        _ if is_gone && progress.deleting => Ok(EffectResult::Done),
        _ if is_gone => Err(gone()),
        409 => still_there(line, progress, named, reply).await,
        200..=299 => {
            progress.marked = false;
            return Ok(());
        }
        _ => {
            tracing::warn!("{}", stays_marked(named, &reply.says()));
            return Ok(());
        }
    };
    Err(left.map_or_else(|stop| stop, Stop::Answer))
}

/// What is said of a mark that cannot be taken back.
fn stays_marked(named: &Named<'_>, why: &str) -> String {
    let Named { namespace, name, .. } = named;
    let keys = [keys::PREEMPTED_BY, keys::PREEMPTION_REASON, keys::PREEMPTED_ALONE].join(", ");
    format!(
        "pod {namespace}/{name} is not stopped, and what marks it cannot be taken back: {why}; \
         it counts as leaving until somebody removes the condition DisruptionTarget from its \
         status.conditions (kubectl edit pod {name} -n {namespace} --subresource=status) and the \
         annotations {keys}"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_of_a_mark_that_stays_knows_what_to_do() {
        let (namespace, name) = ("a".into(), "p".into());
        let named = Named { namespace: &namespace, name: &name, uid: "u" };
        let said = stays_marked(&named, "no (422)");
        let parts = ["pod a/p", "no (422)", "DisruptionTarget", "status.conditions"];
        let fix = ["kubectl edit pod p -n a --subresource=status", "capstan.sh/preempted-by,"];
        for part in parts.iter().chain(&fix) {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
