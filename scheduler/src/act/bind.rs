//! Binds a pod: one POST; the note travels as annotations of the Binding.
//!
//! The API server refuses a second binding (409), whoever made the first, so a conflict or a lost
//! answer is settled by reading the pod: bound to our node means done. It takes a pod for any node,
//! so one that closed while the bind waited is looked for here.

use capstan_core::model::input::{BindingNote, Text};
use capstan_core::plan::{EffectResult, PodRef};
use capstan_core::time::Time;
use kube::api::PostParams;
use serde_json::json;

use super::flight::{Progress, Stop, Try};
use super::line::{Line, Named, conflict, gone, refused};
use crate::api::pod::Pod;
use crate::convert::note;

/// One try.
pub(super) async fn bind(
    line: &Line<'_>,
    progress: &mut Progress,
    pod: &PodRef,
    (node, decided): (&Text, Time),
    binding: &BindingNote,
) -> Try {
    let named = Named { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid };
    if progress.doubt {
        look(line, &named, node).await?;
        progress.not_done()?;
    }
    still_open(line, progress, node, decided)?;
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": &*pod.namespace,
            "name": &*pod.name,
            "uid": &*pod.uid,
            "annotations": note::annotations(binding),
        },
        "target": { "apiVersion": "v1", "kind": "Node", "name": &**node },
    });
    let body = serde_json::to_vec(&body).expect("texts are JSON");
    let params = PostParams::default();
    let request = named.requests::<Pod>().create_subresource("binding", &pod.name, &params, body);
    let request = request.map_err(|error| refused(error.to_string()))?;
    line.depart().await?;
    still_open(line, progress, node, decided)?;
    let reply = line.write_now(progress, request).await?;
    match reply.code {
        200..=299 => Ok(EffectResult::Done),
        404 => Err(gone()),
        409 => {
            look(line, &named, node).await?;
            Err(Stop::again(reply.says()))
        }
        _ => Err(refused(reply.says())),
    }
}

/// Goes on unless the node closed after the bind was decided. What may be there already is read
/// until that is known.
fn still_open(
    line: &Line<'_>,
    progress: &Progress,
    node: &Text,
    decided: Time,
) -> Result<(), Stop> {
    match line.closed(node, decided) {
        None => Ok(()),
        Some(why) if progress.doubt => Err(Stop::again(why)),
        Some(why) => Err(refused(why)),
    }
}

/// Reads the pod; goes on only if it can still be bound.
async fn look(line: &Line<'_>, named: &Named<'_>, node: &Text) -> Result<(), Stop> {
    let found: Pod = line.read(named).await?.ok_or_else(gone)?;
    match found.spec.node_name.as_deref().filter(|at| !at.is_empty()) {
        Some(at) if *at == **node => return Err(Stop::Answer(EffectResult::Done)),
        Some(at) => return Err(conflict(format!("already bound to {at}"))),
        None => {}
    }
    let terminal = matches!(found.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if found.metadata.deletion_timestamp.is_some() || terminal {
        return Err(conflict("the pod is ending"));
    }
    if !found.spec.scheduling_gates.is_empty() {
        return Err(refused("the pod has scheduling gates"));
    }
    Ok(())
}
