//! The claim for a pod's extended resources (DRAExtendedResource, KEP-5004): made for the node that
//! was chosen, told in the pod's status, deleted when nothing comes of it.
//!
//! The objects are those that kube-scheduler makes: annotation and owner say whose claim it is, and
//! the pod's status which container uses which request of it, which kubelets read. Its name follows
//! from its pod, so that a try which comes twice makes one claim.

use capstan_core::model::input::{ResourceClaimKey, Text};
use capstan_core::plan::{PodRef, SpecialClaim};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use super::claims::FINALIZER;
use super::flight::{Progress, Stop};
use super::line::{Line, Named, conflict, gone, refused};
use crate::convert::devices::extended::{ANNOTATION, INFIX};

/// Makes the claim, or finds that an earlier try made the same; its uid. One that may be there is
/// read first: what admits claims may refuse to have it made again.
pub(super) async fn make(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    ((namespace, name), special): (&ResourceClaimKey, &SpecialClaim),
) -> Result<Text, Stop> {
    let claim = object(pod, (namespace, name), special);
    if progress.doubt {
        let found: Option<ResourceClaim> = line.read_named(Some(namespace), name).await?;
        if let Some(found) = found {
            return of_this_try(&found, pod, &claim);
        }
        progress.not_done()?;
    }
    let body = serde_json::to_vec(&claim).map_err(|error| refused(error.to_string()))?;
    let requests = Named { namespace, name, uid: "" }.requests::<ResourceClaim>();
    let request = requests.create(&PostParams::default(), body);
    let reply = line.write(progress, request).await?;
    match reply.code {
        200..=299 => {
            let made: ResourceClaim = reply.object().map_err(Stop::again)?;
            Ok(made.metadata.uid.unwrap_or_default().into())
        }
        409 => {
            let found: Option<ResourceClaim> = line.read_named(Some(namespace), name).await?;
            let found = found.ok_or_else(|| Stop::again("the claim was there and is gone"))?;
            of_this_try(&found, pod, &claim)
        }
        _ => Err(refused(reply.says())),
    }
}

/// The uid of a claim that is there, if it is the one that is wanted.
fn of_this_try(found: &ResourceClaim, pod: &PodRef, claim: &Value) -> Result<Text, Stop> {
    let asks = serde_json::to_value(&found.spec).unwrap_or_default();
    if !belongs(found, pod) || !same_requests(&asks, &claim["spec"]) {
        let name = found.metadata.name.as_deref().unwrap_or_default();
        return Err(conflict(format!("claim {name} is of another try")));
    }
    Ok(found.metadata.uid.clone().unwrap_or_default().into())
}

fn object(pod: &PodRef, (namespace, name): (&Text, &Text), special: &SpecialClaim) -> Value {
    let requests = special.requests.iter().map(|request| {
        let exactly = json!({
            "deviceClassName": request.class,
            "allocationMode": "ExactCount",
            "count": request.count,
        });
        json!({ "name": request.name, "exactly": exactly })
    });
    let owner = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": true,
    });
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "generateName": format!("{}{INFIX}", pod.name),
            "annotations": { ANNOTATION: "true" },
            "ownerReferences": [owner],
        },
        "spec": { "devices": { "requests": requests.collect::<Vec<Value>>() } },
    })
}

/// Whether a claim was made for the extended resources of a pod.
fn belongs(claim: &ResourceClaim, pod: &PodRef) -> bool {
    let mut annotations = claim.metadata.annotations.iter().flatten();
    let mut owners = claim.metadata.owner_references.iter().flatten();
    annotations.any(|(name, value)| name == ANNOTATION && value == "true")
        && owners.any(|owner| owner.uid == *pod.uid && owner.controller == Some(true))
}

fn same_requests(has: &Value, wanted: &Value) -> bool {
    let requests = |spec: &Value| {
        let all = spec["devices"]["requests"].as_array().cloned().unwrap_or_default();
        let one = |request: Value| {
            let exactly = &request["exactly"];
            (request["name"].clone(), exactly["deviceClassName"].clone(), exactly["count"].clone())
        };
        all.into_iter().map(one).collect::<Vec<_>>()
    };
    requests(has) == requests(wanted)
}

/// Says in the pod's status which claim it has and who uses what of it, or that it has none.
pub(super) async fn tell(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    claim: Option<(&Text, &SpecialClaim)>,
) -> Result<(), Stop> {
    let status = claim.map(|(name, special)| {
        let mappings = special.mappings.iter().map(|one| {
            json!({
                "containerName": one.container,
                "resourceName": one.resource,
                "requestName": one.request,
            })
        });
        json!({ "requestMappings": mappings.collect::<Vec<Value>>(), "resourceClaimName": name })
    });
    let told = claim.is_some();
    let body = json!({
        "metadata": { "uid": pod.uid },
        "status": { "extendedResourceClaimStatus": status },
    });
    let named = Named { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid };
    if progress.doubt && told {
        let found: Pod = line.read(&named).await?.ok_or_else(gone)?;
        let found = serde_json::to_value(&found.status).map_err(|it| refused(it.to_string()))?;
        if found["extendedResourceClaimStatus"] == body["status"]["extendedResourceClaimStatus"] {
            return Ok(());
        }
        progress.not_done()?;
    }
    let (params, body) = (PatchParams::default(), Patch::Merge(&body));
    let request = named.requests::<Pod>().patch_subresource("status", &pod.name, &params, &body);
    let reply = line.write(progress, request).await?;
    match reply.code {
        200..=299 => Ok(()),
        // Who is gone need not be told that it has no claim.
        404 | 409 | 422 if !told => Ok(()),
        404 => Err(gone()),
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}

/// Deletes the claim, if there is one, and takes it out of the pod's status.
pub(super) async fn delete(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    (namespace, name): &ResourceClaimKey,
) -> Result<(), Stop> {
    let found: Option<ResourceClaim> = line.read_named(Some(namespace), name).await?;
    let Some(found) = found.filter(|found| belongs(found, pod)) else { return Ok(()) };
    progress.not_done()?;
    // A kubelet would look for it, wherever the pod goes.
    tell(line, progress, pod, None).await?;
    let uid = found.metadata.uid.clone().unwrap_or_default();
    let named = Named { namespace, name, uid: &uid };
    let requests = named.requests::<ResourceClaim>();
    let finalizers = found.metadata.finalizers.unwrap_or_default();
    if finalizers.iter().any(|one| one == FINALIZER) {
        let others: Vec<&String> = finalizers.iter().filter(|one| *one != FINALIZER).collect();
        let version = found.metadata.resource_version;
        let meta = json!({ "uid": uid, "resourceVersion": version, "finalizers": others });
        let (params, body) = (PatchParams::default(), json!({ "metadata": meta }));
        let reply = line.write(progress, requests.patch(name, &params, &Patch::Merge(&body)));
        match reply.await? {
            reply if reply.is_success() => {}
            reply if reply.code == 404 => return Ok(()),
            reply if reply.code == 409 => return Err(Stop::again(reply.says())),
            reply => return Err(refused(reply.says())),
        }
    }
    let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    let reply = line.write(progress, requests.delete(name, &params)).await?;
    match reply.code {
        // One of another uid is not the one that was meant.
        200..=299 | 404 | 409 => Ok(()),
        _ => Err(refused(reply.says())),
    }
}
