//! Adds tolerations to a pod: read, append, write what was read back.
//!
//! Tolerations of a pod can only be added to, and patches replace the whole list; so the patch
//! holds only for the version that was read.

use capstan_core::model::input::{TaintEffect, Toleration, TolerationOperator};
use capstan_core::plan::{EffectResult, PodRef};
use k8s_openapi::api::core::v1::Toleration as Written;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, gone, refused};
use crate::api::pod::Pod;

/// One try.
pub(super) async fn add(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    tolerations: &[Toleration],
) -> Try {
    let named = Named { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid };
    let found: Pod = line.read(&named).await?.ok_or_else(gone)?;
    if found.metadata.deletion_timestamp.is_some() {
        return Err(conflict("the pod is ending"));
    }
    let mut all = found.spec.tolerations;
    let before = all.len();
    for wanted in tolerations.iter().filter_map(written) {
        if !all.iter().any(|has| same(has, &wanted)) {
            all.push(wanted);
        }
    }
    if all.len() == before {
        return Ok(EffectResult::Done);
    }
    progress.not_done()?;
    let body = json!({
        "metadata": { "uid": &*pod.uid, "resourceVersion": found.metadata.resource_version },
        "spec": { "tolerations": all },
    });
    let (params, body) = (PatchParams::default(), Patch::Merge(&body));
    let request = named.requests::<Pod>().patch(&pod.name, &params, &body);
    let reply = line.write(progress, request).await?;
    match reply.code {
        200..=299 => Ok(EffectResult::Done),
        404 => Err(gone()),
        // The next try reads again, and finds out whether it is still the same pod.
        409 => Err(Stop::again(reply.says())),
        _ => Err(refused(reply.says())),
    }
}

/// As the API writes it; an operator that nobody knows tolerates nothing.
fn written(toleration: &Toleration) -> Option<Written> {
    let operator = match toleration.operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
        TolerationOperator::Gt => "Gt",
        TolerationOperator::Lt => "Lt",
        TolerationOperator::Unknown => return None,
    };
    let effect = toleration.effect.map(|effect| match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    });
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Some(Written {
        key: text(&toleration.key),
        operator: Some(operator.to_owned()),
        value: text(&toleration.value),
        effect: effect.map(str::to_owned),
        toleration_seconds: None,
    })
}

/// Whether the pod has it already; a time limit makes it another one.
fn same(has: &Written, wanted: &Written) -> bool {
    let operator = has.operator.as_deref().filter(|text| !text.is_empty()).unwrap_or("Equal");
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    wanted.operator.as_deref() == Some(operator)
        && filled(&has.key) == wanted.key
        && filled(&has.value) == wanted.value
        && filled(&has.effect) == wanted.effect
        && has.toleration_seconds.is_none()
}
