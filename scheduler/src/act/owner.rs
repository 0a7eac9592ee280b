//! Suspends and resumes owners: one patch each, with the annotations that a restart reads.
//!
//! Suspending counts runs, so it reads first and its patch holds only for the version that was
//! read. Resuming writes what does not depend on what is there; it reads only when in doubt.
//! What is in doubt was meant for one run: an owner that has moved on since is let be.

use capstan_core::model::input::{BindingNote, RequeueNote};
use capstan_core::plan::{EffectResult, OwnerRef, Preemption};
use capstan_core::time::Time;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, gone, refused};
use crate::api::job::Job;
use crate::api::keys;
use crate::client::call::Reply;
use crate::convert::note;
use crate::gangs;
use crate::gangs::fields::Part;
use crate::gangs::kinds::Kind;

/// A kind of owner that can be stopped and started.
struct Stoppable<'a> {
    owner: Named<'a>,
    /// Its kind, where that is not a Job.
    gang: Option<Kind>,
    /// The field that stops it.
    field: &'static str,
    /// Where it may be in the API: a kind may be served in one of several versions.
    paths: Vec<String>,
}

/// One try to suspend.
pub(super) async fn suspend(
    line: &Line<'_>,
    progress: &mut Progress,
    owner: &OwnerRef,
    preemption: &Preemption,
    requeue: &RequeueNote,
) -> Try {
    let of = stoppable(owner)?;
    let (path, found) = of.read(line).await?.ok_or_else(gone)?;
    of.unfinished(&found)?;
    if of.suspended(&found) {
        return Ok(EffectResult::Done);
    }
    let suspended = annotation(&found, keys::SUSPENDED).and_then(|text| text.parse::<u32>().ok());
    // That run was stopped, and what is there is the next one.
    if progress.doubt && progress.counted.is_some_and(|run| suspended >= Some(run)) {
        return Ok(EffectResult::Done);
    }
    progress.not_done()?;
    let run = suspended.unwrap_or(0).saturating_add(1);
    progress.counted = Some(run);
    // One that is stopped for no other's sake bears nobody's name.
    let others = preemption.for_another();
    let by = others.then_some(&*preemption.preemptor);
    let reason = others.then(|| preemption.reason.as_str());
    let meta = json!({
        "uid": &*owner.uid,
        "resourceVersion": found["metadata"]["resourceVersion"],
        "annotations": {
            keys::SUSPENDED: run.to_string(),
            keys::ADMITTED: null,
            keys::PREEMPTED_BY: by,
            keys::PREEMPTION_REASON: reason,
            keys::REQUEUED: note::requeued_value(requeue),
        },
    });
    let reply = of.patch(line, progress, path, &of.body(meta, true)).await?;
    match reply.code {
        200..=299 => Ok(EffectResult::Done),
        404 => Err(gone()),
        // The next try reads again, and finds out whether it is still the same owner.
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
    let of = stoppable(owner)?;
    let value = note::admitted_value(binding);
    let mut meta = json!({
        "uid": &*owner.uid,
        "annotations": {
            keys::ADMITTED: &value,
            keys::PREEMPTED_BY: null,
            keys::PREEMPTION_REASON: null,
        },
    });
    if progress.doubt {
        let found = of.look(line, &value, binding).await?;
        progress.not_done()?;
        meta["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
    }
    let body = of.body(meta, false);
    for path in &of.paths {
        let reply = of.patch(line, progress, path, &body).await?;
        match reply.code {
            200..=299 => {
                // Unreadable or not: it was done. One that has finished will not run for it.
                reply.object::<Value>().map_or(Ok(()), |resumed| of.unfinished(&resumed))?;
                return Ok(EffectResult::Done);
            }
            404 => {}
            409 | 422 => {
                of.look(line, &value, binding).await?;
                let again = reply.code == 409;
                let stop = if again { Stop::again } else { refused };
                return Err(stop(reply.says()));
            }
            _ => return Err(refused(reply.says())),
        }
    }
    Err(gone())
}

/// What an owner is, if it is of a kind that can be suspended.
fn stoppable(owner: &OwnerRef) -> Result<Stoppable<'_>, Stop> {
    let named = Named { namespace: &owner.namespace, name: &owner.name, uid: &owner.uid };
    if &*owner.kind == "Job" {
        let paths = vec![Job::url_path(&(), Some(&owner.namespace))];
        return Ok(Stoppable { owner: named, gang: None, field: "spec.suspend", paths });
    }
    let kind = Kind::of_key(&owner.kind);
    let field = kind.and_then(|kind| kind.row().suspend);
    let (Some(kind), Some(field)) = (kind, field) else {
        return Err(refused(format!("a {} cannot be suspended or resumed", owner.kind)));
    };
    let row = kind.row();
    let path = |version: &&str| {
        let (group, namespace) = (row.group, &owner.namespace);
        format!("/apis/{group}/{version}/namespaces/{namespace}/{}", row.plural)
    };
    let paths = row.versions.iter().map(path).collect();
    Ok(Stoppable { owner: named, gang: Some(kind), field, paths })
}

impl Stoppable<'_> {
    /// The owner, and the path where it is.
    async fn read(&self, line: &Line<'_>) -> Result<Option<(&str, Value)>, Stop> {
        for path in &self.paths {
            if let Some(found) = line.read_at(path, &self.owner).await? {
                return Ok(Some((path, found)));
            }
        }
        Ok(None)
    }

    /// Reads the owner; goes on only if it can still be resumed, for the run that was meant.
    async fn look(
        &self,
        line: &Line<'_>,
        value: &str,
        binding: &BindingNote,
    ) -> Result<Value, Stop> {
        let (_, found) = self.read(line).await?.ok_or_else(gone)?;
        self.unfinished(&found)?;
        let resumed = annotation(&found, keys::ADMITTED) == Some(value);
        let stopped = stopped_after(&found, binding.admitted_at);
        match self.suspended(&found) {
            false if resumed => Err(Stop::Answer(EffectResult::Done)),
            true if resumed => Err(conflict("it was suspended since")),
            _ if stopped => Err(conflict("it was stopped since")),
            _ => Ok(found),
        }
    }

    fn suspended(&self, found: &Value) -> bool {
        *Part::whole(found).at(self.field) == true
    }

    fn unfinished(&self, found: &Value) -> Result<(), Stop> {
        if !found["metadata"]["deletionTimestamp"].is_null() {
            return Err(conflict("it is being deleted"));
        }
        let ended = match self.gang {
            Some(kind) => gangs::finished(kind, Part::whole(found)).is_some(),
            None => {
                let all = found["status"]["conditions"].as_array();
                let over = |it: &Value| it["type"] == "Complete" || it["type"] == "Failed";
                all.into_iter().flatten().any(|it| over(it) && it["status"] == "True")
            }
        };
        if ended { Err(conflict("it has finished")) } else { Ok(()) }
    }

    /// A merge patch with this metadata that stops or starts it.
    fn body(&self, meta: Value, suspend: bool) -> Value {
        let nested =
            self.field.rsplit('.').fold(json!(suspend), |inner, key| json!({ key: inner }));
        let mut body = json!({ "metadata": meta });
        body["spec"] = nested["spec"].clone();
        body
    }

    async fn patch(
        &self,
        line: &Line<'_>,
        progress: &mut Progress,
        path: &str,
        body: &Value,
    ) -> Result<Reply, Stop> {
        let (params, body) = (PatchParams::default(), Patch::Merge(body));
        let request = kube::core::Request::new(path);
        line.write(progress, request.patch(self.owner.name, &params, &body)).await
    }
}

/// Whether we stopped the owner after it was admitted.
fn stopped_after(found: &Value, admitted: Option<Time>) -> bool {
    let text = annotation(found, keys::REQUEUED);
    let at = text.and_then(note::stopped_at);
    at.is_some_and(|at| admitted.is_some_and(|admitted| at > admitted))
}

fn annotation<'a>(found: &'a Value, key: &str) -> Option<&'a str> {
    found["metadata"]["annotations"][key].as_str()
}
