//! Says on a Workload object that its work may not run. Saying it twice changes nothing; where an
//! earlier try may have said it, it is read first.
//!
//! The same patch takes the pods of a group off the object where it is to outlive them
//! ([`super::outlive`]).

use capstan_core::model::input::Text;
use capstan_core::plan::EffectResult;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::flight::{Progress, Stop, Try};
use super::line::{Line, gone, refused};
use crate::api::workload::Workload;

/// One try.
pub(super) async fn deactivate(
    line: &Line<'_>,
    progress: &mut Progress,
    (namespace, name): (&Text, &Text),
    outlives: bool,
) -> Try {
    if progress.doubt {
        let found: Workload = line.read_named(Some(namespace), name).await?.ok_or_else(gone)?;
        if !found.spec.active {
            return Ok(EffectResult::Done);
        }
        progress.not_done()?;
    }
    let mut body = json!({ "spec": { "active": false } });
    if outlives {
        body["metadata"] = json!({ "ownerReferences": null });
    }
    let (params, body) = (PatchParams::default(), Patch::Merge(&body));
    let request = kube::core::Request::new(Workload::url_path(&(), Some(namespace)));
    let reply = line.write(progress, request.patch(name, &params, &body)).await?;
    match reply.code {
        200..=299 => Ok(EffectResult::Done),
        404 => Err(gone()),
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}
