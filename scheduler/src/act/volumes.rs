//! Writes what was chosen for the claims of a pod: the claim into a volume that was found, or the
//! node into a claim that a volume is to be made for.
//!
//! Others do the binding. Each object is read first and its patch holds only for the version that
//! was read, so that a volume which somebody else gave away is never taken from them; what is there
//! already is left alone, so that a try after a lost answer does nothing twice.

use capstan_core::plan::{EffectResult, VolumeSetting};
use kube::Resource;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, gone, refused};
use crate::api::storage::{Claim, Volume};
use crate::convert::storage::{BOUND_BY_CONTROLLER, SELECTED_NODE};

/// One try for all claims.
pub(super) async fn select(
    line: &Line<'_>,
    progress: &mut Progress,
    settings: &[VolumeSetting],
) -> Try {
    for setting in settings {
        let claim = &setting.claim;
        let named = Named { namespace: &claim.namespace, name: &claim.name, uid: &setting.uid };
        let found: Claim = line.read(&named).await?.ok_or_else(gone)?;
        if found.metadata.deletion_timestamp.is_some() {
            return Err(conflict(format!("claim {} is being deleted", claim.name)));
        }
        if found.spec.volume_name.as_deref().is_some_and(|name| !name.is_empty()) {
            // Somebody bound it meanwhile; whether that suits shows when it is complete.
            continue;
        }
        match &setting.volume {
            Some(volume) => give(line, progress, setting, &found, volume).await?,
            None => ask_for(line, progress, &named, &found, &setting.node).await?,
        }
    }
    Ok(EffectResult::Done)
}

/// Gives a volume to a claim.
async fn give(
    line: &Line<'_>,
    progress: &mut Progress,
    setting: &VolumeSetting,
    claim: &Claim,
    volume: &capstan_core::model::input::Text,
) -> Result<(), Stop> {
    let found: Volume = line.read_plain(volume).await?.ok_or_else(gone)?;
    let (namespace, name) = (&*setting.claim.namespace, &*setting.claim.name);
    if let Some(there) = &found.spec.claim_ref {
        let same = there.namespace.as_deref() == Some(namespace) && there.name == name;
        let uid = there.uid.as_deref().filter(|uid| !uid.is_empty());
        match (same, uid) {
            (true, Some(uid)) if uid == &*setting.uid => return Ok(()),
            (true, None) => {}
            _ => return Err(conflict(format!("volume {volume} was given to another claim"))),
        }
    }
    if found.metadata.deletion_timestamp.is_some() {
        return Err(conflict(format!("volume {volume} is being deleted")));
    }
    progress.not_done()?;
    // Its author may have kept it for the claim: then it is not ours to take back later.
    let by_us = found.spec.claim_ref.is_none().then_some("yes");
    let mut metadata = json!({ "resourceVersion": found.metadata.resource_version });
    if let Some(yes) = by_us {
        metadata["annotations"] = json!({ BOUND_BY_CONTROLLER: yes });
    }
    let body = json!({
        "metadata": metadata,
        "spec": { "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace,
            "name": name,
            "uid": &*setting.uid,
            "resourceVersion": claim.metadata.resource_version,
        } },
    });
    let requests = kube::core::Request::new(Volume::url_path(&(), None));
    write(line, progress, &requests, volume, &body).await
}

/// Asks for a volume to be made where a node can use it.
async fn ask_for(
    line: &Line<'_>,
    progress: &mut Progress,
    named: &Named<'_>,
    claim: &Claim,
    node: &str,
) -> Result<(), Stop> {
    let annotations = claim.metadata.annotations.as_ref();
    match annotations.and_then(|all| all.get(SELECTED_NODE)) {
        Some(there) if there == node => return Ok(()),
        // The provisioner works on it: only it takes that back.
        Some(there) => {
            return Err(conflict(format!("claim {} is made for {there}", named.name)));
        }
        None => {}
    }
    progress.not_done()?;
    let body = json!({ "metadata": {
        "uid": named.uid,
        "resourceVersion": claim.metadata.resource_version,
        "annotations": { SELECTED_NODE: node },
    } });
    write(line, progress, &named.requests::<Claim>(), named.name, &body).await
}

async fn write(
    line: &Line<'_>,
    progress: &mut Progress,
    requests: &kube::core::Request,
    name: &str,
    body: &Value,
) -> Result<(), Stop> {
    let request = requests.patch(name, &PatchParams::default(), &Patch::Merge(body));
    let reply = line.write(progress, request).await?;
    match reply.code {
        200..=299 => Ok(()),
        404 => Err(gone()),
        // The next try reads again, and finds out who was first.
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}
