//! Allocates and reserves claims on devices for a pod, and gives them back.
//!
//! For each claim: read it; put the finalizer on it that keeps it while it has devices; write
//! allocation and reservation in one patch of its status, which holds only for the version that was
//! read. A claim that has just those devices already needs the reservation only, so that a try may
//! come twice, and members of a gang may share a claim. One that has others was lost.
//!
//! What drivers are to configure is copied from classes and claim as they are then. The claim for a
//! pod's extended resources is made first, and deleted when it is given back: see [`special`].
//!
//! [`special`]: super::special

use capstan_core::model::input::{Nano, NodeSelector, Operator, Requirement, Text};
use capstan_core::plan::{Chosen, ChosenDevice, ClaimGrant, EffectResult, PodRef, Seen};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, refused};
use super::special;
use crate::api::devices::ClaimStatus;
use crate::client::call::Reply;
use crate::convert::devices;
use crate::quantity::Quantity;

/// Keeps a claim while it has devices.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// One try to allocate and reserve them all.
pub(super) async fn allocate(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    claims: &[ClaimGrant],
) -> Try {
    for grant in claims {
        let Some(special) = &grant.special else {
            allocate_one(line, progress, pod, grant).await?;
            continue;
        };
        let uid = special::make(line, progress, pod, (&grant.key, special)).await?;
        let made = ClaimGrant { uid, ..grant.clone() };
        allocate_one(line, progress, pod, &made).await?;
        special::tell(line, progress, pod, Some((&grant.key.1, special))).await?;
    }
    Ok(EffectResult::Done)
}

async fn allocate_one(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    grant: &ClaimGrant,
) -> Result<(), Stop> {
    let named = named(grant);
    let name = named.name;
    let lost = |why: &str| conflict(format!("claim {name} {why}"));
    let found: ResourceClaim = line.read(&named).await?.ok_or_else(|| lost("is gone"))?;
    if found.metadata.deletion_timestamp.is_some() {
        return Err(lost("is being deleted"));
    }
    let whole = serde_json::to_value(&found).map_err(|error| refused(error.to_string()))?;
    let mut reserved: Vec<Value> =
        whole["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
    let has = reserved.iter().any(|one| one["uid"] == *pod.uid);
    let allocation = &whole["status"]["allocation"];
    let new = match &grant.chosen {
        Some(chosen) if allocation.is_object() && !same(&whole["status"], chosen) => {
            return Err(lost("was allocated elsewhere"));
        }
        _ if allocation.is_object() && has => return Ok(()),
        _ if allocation.is_object() => None,
        None => return Err(lost("has no devices any more")),
        Some(chosen) => Some(written(line, &whole, chosen, grant).await?),
    };
    progress.not_done()?;
    let mut version = found.metadata.resource_version.clone();
    let finalizers = found.metadata.finalizers.unwrap_or_default();
    if new.is_some() && !finalizers.iter().any(|one| one == FINALIZER) {
        let all: Vec<String> = finalizers.into_iter().chain([FINALIZER.to_owned()]).collect();
        let meta = json!({ "uid": grant.uid, "resourceVersion": version, "finalizers": all });
        let (params, body) = (PatchParams::default(), json!({ "metadata": meta }));
        let request = named.requests::<ResourceClaim>();
        let request = request.patch(name, &params, &Patch::Merge(&body));
        let reply = settled(line.write(progress, request).await?, name)?;
        let changed: ResourceClaim = reply.object().map_err(Stop::again)?;
        version = changed.metadata.resource_version;
    }
    if !has {
        reserved.push(json!({ "resource": "pods", "name": pod.name, "uid": pod.uid }));
    }
    let mut status = json!({ "reservedFor": reserved });
    if let Some(new) = new {
        status["allocation"] = new;
    }
    write_status(line, progress, grant, version, &status).await
}

/// One try to give them all back: who was the last to use a claim takes its devices back too. One
/// that was found with devices of no use may have been reserved by nobody at all. Where it is said
/// what was chosen, a claim that has something else by now is another try's, and left alone. One
/// that is refused keeps no other from going back.
pub(super) async fn release(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    claims: &[ClaimGrant],
) -> Try {
    let mut answer = Ok(EffectResult::Done);
    for grant in claims {
        let given_back = match &grant.special {
            Some(_) => special::delete(line, progress, pod, &grant.key).await,
            None => release_one(line, progress, pod, grant).await,
        };
        match given_back {
            Ok(()) => {}
            Err(stop @ Stop::Answer(_)) if !progress.is_late() => answer = answer.and(Err(stop)),
            Err(stop) => return Err(stop),
        }
    }
    answer
}

async fn release_one(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    grant: &ClaimGrant,
) -> Result<(), Stop> {
    let Some(found) = line.read::<ResourceClaim>(&named(grant)).await? else { return Ok(()) };
    let version = found.metadata.resource_version.clone();
    let whole = serde_json::to_value(&found).map_err(|error| refused(error.to_string()))?;
    let reserved = whole["status"]["reservedFor"].as_array();
    let all: Vec<&Value> = reserved.into_iter().flatten().collect();
    let others: Vec<&Value> = all.iter().copied().filter(|one| one["uid"] != *pod.uid).collect();
    let reserves = others.len() < all.len();
    let goes_back = match &grant.seen {
        None => reserves && grant.chosen.as_ref().is_none_or(|it| same(&whole["status"], it)),
        Some(seen) => (reserves || others.is_empty()) && is_still(&whole["status"], seen),
    };
    if !goes_back {
        return Ok(());
    }
    progress.not_done()?;
    let mut status = json!({ "reservedFor": others });
    if others.is_empty() {
        status["allocation"] = Value::Null;
    }
    write_status(line, progress, grant, version, &status).await
}

/// Whether a claim still has what it was seen to have, and its devices still are not ready where
/// that is why they go back. Who has reserved it is looked at apart.
fn is_still(status: &Value, seen: &Seen) -> bool {
    let status: Option<ClaimStatus> = ClaimStatus::deserialize(status).ok();
    status.as_ref().and_then(devices::allocation).is_some_and(|has| seen.is(&has))
}

fn named(grant: &ClaimGrant) -> Named<'_> {
    Named { namespace: &grant.key.0, name: &grant.key.1, uid: &grant.uid }
}

async fn write_status(
    line: &Line<'_>,
    progress: &mut Progress,
    grant: &ClaimGrant,
    version: Option<String>,
    status: &Value,
) -> Result<(), Stop> {
    let named = named(grant);
    let meta = json!({ "uid": grant.uid, "resourceVersion": version });
    let body = json!({ "metadata": meta, "status": status });
    let (params, body) = (PatchParams::default(), Patch::Merge(&body));
    let requests = named.requests::<ResourceClaim>();
    let request = requests.patch_subresource("status", named.name, &params, &body);
    settled(line.write(progress, request).await?, named.name).map(|_| ())
}

fn settled(reply: Reply, claim: &Text) -> Result<Reply, Stop> {
    match reply.code {
        200..=299 => Ok(reply),
        404 => Err(conflict(format!("claim {claim} is gone"))),
        // The next try reads again, and finds out what became of it.
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}

/// Whether a claim has just what was chosen: the devices, what is taken of each, and the nodes.
fn same(status: &Value, chosen: &Chosen) -> bool {
    let results = &status["allocation"]["devices"]["results"];
    let status = ClaimStatus::deserialize(status).ok();
    let Some(has) = status.as_ref().and_then(devices::allocation) else { return false };
    let taken = chosen.devices.iter().filter(|one| !one.admin).map(|one| &one.device);
    has.devices.iter().eq(taken) && has.nodes == chosen.nodes && same_devices(results, chosen)
}

/// Whether results are of the devices that were chosen, each for its request.
fn same_devices(results: &Value, chosen: &Chosen) -> bool {
    let results = results.as_array();
    let has = results.into_iter().flatten().map(|one| {
        [&one["request"], &one["driver"], &one["pool"], &one["device"]]
            .map(|field| field.as_str().unwrap_or_default())
    });
    let wanted = chosen.devices.iter().map(|one| {
        let (driver, pool, device) = &one.device.id;
        [&*one.request, &**driver, &**pool, &**device]
    });
    has.eq(wanted)
}

/// An allocation as the API has it.
async fn written(
    line: &Line<'_>,
    claim: &Value,
    chosen: &Chosen,
    grant: &ClaimGrant,
) -> Result<Value, Stop> {
    let requests = claim["spec"]["devices"]["requests"].as_array();
    let requests: Vec<&Value> = requests.into_iter().flatten().collect();
    let numbered = chosen.devices.iter().enumerate();
    let results: Vec<Value> = numbered.map(|(at, one)| result(one, at, &requests, grant)).collect();
    let mut config = Vec::new();
    let names: Vec<&Text> = {
        let mut names: Vec<&Text> = chosen.devices.iter().map(|one| &one.request).collect();
        names.dedup();
        names
    };
    let mut classes: Vec<(&str, Vec<&Text>)> = Vec::new();
    for name in &names {
        let Some(class) = ask(&requests, name)["deviceClassName"].as_str() else { continue };
        match classes.iter_mut().find(|(known, _)| *known == class) {
            Some((_, of)) => of.push(name),
            None => classes.push((class, vec![name])),
        }
    }
    let of_all = |of: &[&Text]| of.len() == names.len();
    for (class, of) in classes {
        let Some(found) = line.read_plain::<DeviceClass>(&class.into()).await? else {
            return Err(conflict(format!("device class {class} is gone")));
        };
        let found = serde_json::to_value(&found).map_err(|error| refused(error.to_string()))?;
        for one in found["spec"]["config"].as_array().into_iter().flatten() {
            let of: &[&Text] = if of_all(&of) { &[] } else { &of };
            config.push(with(one, "FromClass", json!(of)));
        }
    }
    for one in claim["spec"]["devices"]["config"].as_array().into_iter().flatten() {
        let of: Vec<&str> =
            one["requests"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let concerns = |name: &&&Text| of.iter().any(|one| is_for(one, name));
        let count = names.iter().filter(concerns).count();
        if of.is_empty() || count > 0 {
            let of = if count == names.len() { Vec::new() } else { of };
            config.push(with(one, "FromClaim", json!(of)));
        }
    }
    // kube-scheduler sets a time that is missing when a pod of its own shares the claim, which is
    // refused: an allocation is not to change.
    let now = Time(Timestamp::now());
    let mut allocation = json!({ "devices": { "results": results }, "allocationTimestamp": now });
    if !config.is_empty() {
        allocation["devices"]["config"] = config.into();
    }
    if let Some(nodes) = &chosen.nodes {
        allocation["nodeSelector"] = node_selector(nodes);
    }
    Ok(allocation)
}

/// Whether a name stands for a request, `request` or `request/option`.
fn is_for(name: &str, request: &str) -> bool {
    name == request || request.split_once('/').is_some_and(|(of, _)| of == name)
}

/// A configuration as an allocation has it.
fn with(config: &Value, source: &str, requests: Value) -> Value {
    let mut one = config.clone();
    one["source"] = source.into();
    one["requests"] = requests;
    one
}

/// What a claim asks under the name of a request, or of one option of it.
fn ask<'a>(requests: &[&'a Value], name: &str) -> &'a Value {
    let (request, option) = name.split_once('/').map_or((name, None), |(r, o)| (r, Some(o)));
    let found = requests.iter().find(|one| one["name"] == request);
    let Some(found) = found else { return &Value::Null };
    match option {
        None => &found["exactly"],
        Some(option) => {
            let options = found["firstAvailable"].as_array();
            let mut options = options.into_iter().flatten();
            options.find(|one| one["name"] == option).unwrap_or(&Value::Null)
        }
    }
}

fn result(chosen: &ChosenDevice, at: usize, requests: &[&Value], grant: &ClaimGrant) -> Value {
    let (driver, pool, device) = &chosen.device.id;
    let mut result =
        json!({ "request": chosen.request, "driver": driver, "pool": pool, "device": device });
    if chosen.admin {
        result["adminAccess"] = true.into();
    }
    let tolerations = &ask(requests, &chosen.request)["tolerations"];
    if tolerations.as_array().is_some_and(|all| !all.is_empty()) {
        result["tolerations"] = tolerations.clone();
    }
    if chosen.device.share {
        result["shareID"] = share_id(&grant.uid, at).into();
        let consumed = chosen.device.consumed.iter();
        let consumed = consumed.map(|(name, Nano(nano))| {
            (name.to_string(), Value::from(Quantity::of_nano(*nano).to_string()))
        });
        result["consumedCapacity"] = Value::Object(consumed.collect());
    }
    if let Some(ready) = &chosen.ready_when {
        result["bindingConditions"] = json!(ready.conditions);
        if !ready.failures.is_empty() {
            result["bindingFailureConditions"] = json!(ready.failures);
        }
    }
    result
}

/// An id for a share of a device: the claim's own, with the number of its result in the last two
/// digits, which makes it the only one of its kind on any device.
fn share_id(claim: &str, at: usize) -> String {
    let cut = claim.len().saturating_sub(2);
    let (head, tail) = claim.split_at_checked(cut).unwrap_or((claim, ""));
    let last = u8::from_str_radix(tail, 16).unwrap_or(0);
    format!("{head}{:02x}", last ^ (at as u8 + 1))
}

fn node_selector(selector: &NodeSelector) -> Value {
    let operator = |operator| match operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
        Operator::Unknown => "",
    };
    let one = |it: &Requirement| -> Value {
        let operator = operator(it.operator);
        json!({ "key": it.key, "operator": operator, "values": it.values })
    };
    let terms = selector.terms.iter().map(|term| {
        let mut written = json!({});
        if !term.labels.is_empty() {
            written["matchExpressions"] = term.labels.iter().map(one).collect();
        }
        if !term.fields.is_empty() {
            written["matchFields"] = term.fields.iter().map(one).collect();
        }
        written
    });
    json!({ "nodeSelectorTerms": terms.collect::<Vec<Value>>() })
}
