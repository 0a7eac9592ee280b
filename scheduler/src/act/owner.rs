//! Suspends and resumes owners: one patch each, with the annotations that a restart reads.
//!
//! Suspending counts runs, so it reads first and its patch holds only for the version that was
//! read. Resuming writes what does not depend on what is there; it reads only when in doubt.

use capstan_core::model::input::BindingNote;
use capstan_core::plan::{EffectResult, OwnerRef, Preemption};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, gone, refused};
use crate::api::job::Job;
use crate::api::keys;
use crate::api::pod::is_true;
use crate::client::call::Reply;
use crate::convert::note;

/// One try to suspend.
pub(super) async fn suspend(
    line: &Line<'_>,
    progress: &mut Progress,
    owner: &OwnerRef,
    preemption: &Preemption,
) -> Try {
    let named = job(owner)?;
    let found: Job = line.read(&named).await?.ok_or_else(gone)?;
    unfinished(&found)?;
    if found.spec.suspend {
        return Ok(EffectResult::Done);
    }
    let suspended = annotation(&found, keys::SUSPENDED).and_then(|text| text.parse::<u32>().ok());
    let run = suspended.unwrap_or(0).saturating_add(1);
    // One that is stopped for no other's sake bears nobody's name.
    let others = preemption.for_another();
    let by = others.then_some(&*preemption.preemptor);
    let reason = others.then(|| preemption.reason.as_str());
    let body = json!({
        "metadata": {
            "uid": &*owner.uid,
            "resourceVersion": found.metadata.resource_version,
            "annotations": {
                keys::SUSPENDED: run.to_string(),
                keys::ADMITTED: null,
                keys::PREEMPTED_BY: by,
                keys::PREEMPTION_REASON: reason,
            },
        },
        "spec": { "suspend": true },
    });
    let reply = patch(line, progress, &named, &body).await?;
    match reply.code {
        200..=299 => Ok(EffectResult::Done),
        404 => Err(gone()),
        // The next try reads again, and finds out whether it is still the same Job.
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}

/// One try to resume.
pub(super) async fn resume(
    line: &Line<'_>,
    progress: &mut Progress,
    owner: &OwnerRef,
    binding: &BindingNote,
) -> Try {
    let named = job(owner)?;
    let value = note::admitted_value(binding);
    if progress.doubt {
        look(line, &named, &value).await?;
    }
    let body = json!({
        "metadata": {
            "uid": &*owner.uid,
            "annotations": {
                keys::ADMITTED: &value,
                keys::PREEMPTED_BY: null,
                keys::PREEMPTION_REASON: null,
            },
        },
        "spec": { "suspend": false },
    });
    let reply = patch(line, progress, &named, &body).await?;
    match reply.code {
        200..=299 => {
            // Unreadable or not: it was done. One that has finished will not run for it.
            reply.object::<Job>().map_or(Ok(()), |resumed| unfinished(&resumed))?;
            Ok(EffectResult::Done)
        }
        404 => Err(gone()),
        409 | 422 => {
            look(line, &named, &value).await?;
            Err(if reply.code == 409 { Stop::again(reply.says()) } else { refused(reply.says()) })
        }
        _ => Err(refused(reply.says())),
    }
}

/// Reads the Job; goes on only if it can still be resumed.
async fn look(line: &Line<'_>, named: &Named<'_>, value: &str) -> Result<(), Stop> {
    let found: Job = line.read(named).await?.ok_or_else(gone)?;
    unfinished(&found)?;
    if !found.spec.suspend && annotation(&found, keys::ADMITTED) == Some(value) {
        return Err(Stop::Answer(EffectResult::Done));
    }
    Ok(())
}

/// The Job that an owner is; nothing else can be suspended yet.
fn job(owner: &OwnerRef) -> Result<Named<'_>, Stop> {
    if &*owner.kind != "Job" {
        return Err(refused(format!("a {} cannot be suspended or resumed", owner.kind)));
    }
    Ok(Named { namespace: &owner.namespace, name: &owner.name, uid: &owner.uid })
}

fn unfinished(job: &Job) -> Result<(), Stop> {
    if job.metadata.deletion_timestamp.is_some() {
        return Err(conflict("it is being deleted"));
    }
    let ended = |kind: &&str| is_true(&job.status.conditions, kind).is_some();
    match ["Complete", "Failed"].iter().find(|kind| ended(kind)) {
        Some(_) => Err(conflict("it has finished")),
        None => Ok(()),
    }
}

fn annotation<'a>(job: &'a Job, key: &str) -> Option<&'a str> {
    job.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

async fn patch(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
    body: &Value,
) -> Result<Reply, Stop> {
    let (params, body) = (PatchParams::default(), Patch::Merge(body));
    line.write(progress, named.requests::<Job>().patch(named.name, &params, &body)).await
}
