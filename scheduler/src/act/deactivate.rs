//! Says on a Workload object that its work may not run. Saying it twice changes nothing; where an
//! earlier try may have said it, it is read first.

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
    namespace: &Text,
    name: &Text,
) -> Try {
    if progress.doubt {
        let found: Workload = line.read_named(Some(namespace), name).await?.ok_or_else(gone)?;
        if !found.spec.active {
            return Ok(EffectResult::Done);
        }
        progress.not_done()?;
    }
    let body = json!({ "spec": { "active": false } });
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
