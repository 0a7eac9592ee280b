//! Pods, as far as they can be understood without their owners and classes.
//!
//! Decides shape, life cycle and times of a pod. Leaves priority, gang and wishes, which others
//! have a say in, to [`super::resolve`].

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use capstan_core::model::input::{
    Amounts, BindingNote, EvictionNote, HostPort, PodPhase, PodShape, Stays, Text,
};
use capstan_core::time::Time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::devices::PodClaimDraft;
use super::marks::{self, Marks, OwnerName};
use super::ranges::Contents;
use super::ranks::Ranked;
use super::runtime::Runtime;
use super::sharing::{Pairs, Shared};
use super::storage::{self, Holder};
use super::{Refusal, devices, images, malformed, neighbours, note, requests, selector, time};
use crate::api::keys;
use crate::api::pod::{Container, Pod, PodSpec, PodStatus, Resources, is_true};

/// A pod that waits for its owners and classes.
#[derive(Clone, Debug, PartialEq)]
pub struct PodDraft {
    /// Unique id.
    pub uid: Text,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Our labels and annotations on it.
    pub marks: Arc<Marks>,
    /// Its labels.
    pub labels: Pairs,
    /// Who owns it.
    pub owner: Option<Arc<OwnerName>>,
    /// Shape, without the capacity types that an owner may add.
    pub shape: Arc<PodShape>,
    /// Its RuntimeClass, while that has a say in its shape: no API server has seen it yet.
    pub runtime: Option<Box<Runtime>>,
    /// What its containers state, while it waits: LimitRanges have a say in it.
    pub contents: Option<Arc<Contents>>,
    /// What it holds, when that differs.
    pub holds: Option<Arc<Amounts>>,
    /// Who schedules it.
    pub scheduler: Option<Text>,
    /// Node it is bound to.
    pub node: Option<Text>,
    /// Life cycle.
    pub phase: PodPhase,
    /// It is being deleted.
    pub terminating: bool,
    /// It has scheduling gates.
    pub gated: bool,
    /// Version of its spec, while it waits; small, since there are many pods.
    pub generation: Option<NonZeroU32>,
    /// Creation time, if given.
    pub created: Option<Time>,
    /// When it was bound, if anything says.
    pub bound_at: Option<Time>,
    /// How it is ranked; shared, since templates say it.
    pub ranked: Arc<Ranked>,
    /// What we wrote when we bound it.
    pub binding: Option<Arc<BindingNote>>,
    /// Who wants its room.
    pub eviction: Option<Box<EvictionNote>>,
    /// Claims on devices, if it has any.
    pub claims: Option<Arc<Vec<PodClaimDraft>>>,
    /// What few pods have; by itself, since there are many pods.
    pub rare: Option<Box<Rare>>,
}

/// What few pods have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rare {
    /// Node for which its scheduler nominated it, while it has none.
    pub nominated: Option<Text>,
    /// It stands for a pod that a kubelet runs by itself: its end ends nothing.
    pub mirror: bool,
    /// Values of ours that could not be read.
    pub ignored: Vec<Text>,
    /// When it ended, if it has and anything says.
    pub ended_at: Option<Time>,
}

/// The draft of a pod.
pub fn draft(pod: &Pod, shared: &mut Shared) -> Result<PodDraft, Vec<Refusal>> {
    let (meta, spec) = (&pod.metadata, &pod.spec);
    refuse(spec, "spec")?;
    let marks = shared.marks_of_pod(meta, spec);
    let mut ignored = Vec::new();
    let binding = note::binding(&marks, shared, &mut ignored);
    let admitted_at = binding.as_ref().and_then(|binding| binding.admitted_at);
    let node = pod.spec.node_name.as_deref().filter(|name| !name.is_empty());
    let node = node.map(|name| shared.texts.text(name));
    let resources = requests::of_pod(&pod.spec, &pod.status);
    let mut shape = shape(&pod.spec);
    shape.requests = resources.effective();
    if meta.uid.is_none() {
        selector::add_default_tolerations(&mut shape.tolerations);
    }
    let namespace = shared.texts.text(marks::namespace(meta));
    let labels = shared.labels_of(meta.labels.as_ref());
    shape.neighbours = neighbours::of(&pod.spec, &namespace, &labels);
    // Where we put it ourselves says nothing about where its author wants it.
    shape.node_name = node.clone().filter(|_| binding.is_none());
    let uid = marks::uid(meta, "pod");
    let holder =
        Holder { namespace: marks::namespace(meta), pod: Some((marks::name(meta), &*uid)) };
    shape.volumes = storage::of_pod(&spec.volumes, &holder, shared);
    let held = node.as_ref().map(|_| resources.held()).filter(|held| *held != shape.requests);
    let terminating = meta.deletion_timestamp.is_some();
    let nominated = pod.status.nominated_node_name.as_deref().filter(|name| !name.is_empty());
    // Who has gates is on its way nowhere; who is being deleted still is, for its scheduler.
    let going = node.is_none() && pod.spec.scheduling_gates.is_empty();
    let nominated = nominated.filter(|_| going);
    let nominated = nominated.map(|name| shared.texts.text(name));
    // Who ended while it was marked is stopped by nobody any more.
    let marked = (terminating || disrupted(&pod.status)) && !has_ended(pod);
    let eviction = match marked {
        true => note::eviction(&marks, &mut ignored).map(Box::new),
        false => None,
    };
    // Whoever bound it, what no API server has seen is defaulted all the same.
    let waits = node.is_none() || meta.uid.is_none();
    let annotations = meta.annotations.as_ref();
    let mirror = annotations.is_some_and(|all| all.contains_key(keys::MIRROR_POD));
    let rare = Rare { nominated, mirror, ignored, ended_at: ended_at(&pod.status) };
    let ranked = Ranked::of(&pod.spec, shared);
    let ranked = shared.ranks.of(ranked);
    Ok(PodDraft {
        uid,
        namespace,
        name: marks::name(meta).into(),
        labels,
        owner: marks::owner(meta, shared).map(|owner| shared.owners.of(owner)),
        shape: shared.shapes.of(shape),
        runtime: Runtime::of(&pod.spec, shared).filter(|_| meta.uid.is_none()),
        contents: waits.then(|| Contents::of(&pod.spec, meta.uid.is_some(), shared)),
        holds: held.map(|held| shared.amounts.of(held)),
        scheduler: pod.spec.scheduler_name.as_deref().map(|name| shared.texts.text(name)),
        phase: phase(&pod.status),
        terminating,
        gated: !pod.spec.scheduling_gates.is_empty(),
        generation: meta.generation.filter(|_| node.is_none()).and_then(version),
        created: meta.creation_timestamp.as_ref().map(time),
        bound_at: node.as_ref().and_then(|_| bound_at(meta, &pod.status, admitted_at)),
        node,
        ranked,
        eviction,
        binding: binding.map(|note| shared.notes.of(note)),
        marks,
        claims: devices::of_pod(&pod.spec, Some(&pod.status), shared),
        rare: (rare != Rare::default()).then(|| Box::new(rare)),
    })
}

/// A version of an object as it is kept; an API server that counts none says nothing, or zero.
fn version(generation: i64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(generation).ok()?)
}

impl PodDraft {
    /// Whether it names this scheduler.
    pub fn ours(&self, scheduler: &str) -> bool {
        self.scheduler.as_deref() == Some(scheduler)
    }

    /// The node where it holds room: that to which it is bound, or for which another scheduler
    /// nominated it. That one made the room there and comes for it.
    pub fn stands_on(&self, scheduler: &str) -> Option<&Text> {
        let nominated = self.nominated().filter(|_| !self.ours(scheduler));
        self.node.as_ref().or(nominated)
    }

    /// Whether it only holds room where another scheduler nominated it.
    pub fn is_nominated(&self, scheduler: &str) -> bool {
        self.node.is_none() && self.stands_on(scheduler).is_some()
    }

    /// Node for which its scheduler, or whoever made the node for it, nominated it, while it has
    /// none.
    pub fn nominated(&self) -> Option<&Text> {
        self.rare.as_ref()?.nominated.as_ref()
    }

    /// When it ended, if it has and anything says.
    pub fn ended_at(&self) -> Option<Time> {
        self.rare.as_ref()?.ended_at
    }

    /// Why nobody stops it for others, if nobody does.
    pub fn stays(&self) -> Option<Stays> {
        let of_daemons = self.owner.as_ref().is_some_and(|it| &*it.kind == marks::DAEMON_SET.0);
        let mirror = self.rare.as_ref().is_some_and(|rare| rare.mirror);
        match (mirror, of_daemons) {
            (true, _) => Some(Stays::Static),
            (false, true) => Some(Stays::Daemon),
            (false, false) => None,
        }
    }

    /// Values of ours that could not be read.
    pub fn ignored(&self) -> &[Text] {
        self.rare.as_ref().map_or(&[], |rare| &rare.ignored)
    }
}

impl Shared {
    /// The shared marks of an object.
    pub fn marks_of(&mut self, meta: &ObjectMeta) -> Arc<Marks> {
        let marks = Marks::of(meta, self);
        self.marks.of(marks)
    }

    /// The shared marks of a pod or a template.
    pub fn marks_of_pod(&mut self, meta: &ObjectMeta, spec: &PodSpec) -> Arc<Marks> {
        let mut marks = Marks::of(meta, self);
        let group = spec.scheduling_group.as_ref().and_then(|it| it.pod_group_name.as_deref());
        let group = group.filter(|name| !name.is_empty());
        marks.scheduling_group = group.map(|name| self.texts.text(name));
        self.marks.of(marks)
    }
}

/// What an API server would not take in a pod spec, beyond wrong types.
pub fn refuse(spec: &PodSpec, path: &str) -> Result<(), Vec<Refusal>> {
    let mut refusals = Vec::new();
    if spec.containers.is_empty() {
        let problem = "empty; it needs at least one container";
        refusals.push(Refusal::new(format!("{path}.containers"), problem));
    }
    for (list, containers) in
        [("containers", &spec.containers), ("initContainers", &spec.init_containers)]
    {
        for (index, container) in containers.iter().enumerate() {
            let at = format!("{path}.{list}[{index}].resources");
            refusals.extend(negative(&container.resources, &at));
            for (place, port) in container.ports.iter().enumerate() {
                let at = format!("{path}.{list}[{index}].ports[{place}]");
                for (key, number) in [
                    ("hostPort", port.host_port.unwrap_or(0)),
                    ("containerPort", port.container_port),
                ] {
                    if u16::try_from(number).is_err() {
                        let problem = format!("{number} is no port (0 to 65535)");
                        refusals.push(Refusal::new(format!("{at}.{key}"), problem));
                    }
                }
            }
        }
    }
    if let Some(resources) = &spec.resources {
        refusals.extend(negative(resources, &format!("{path}.resources")));
    }
    refusals.extend(Refusal::negative(&spec.overhead, &format!("{path}.overhead")));
    if refusals.is_empty() { Ok(()) } else { Err(refusals) }
}

/// Requests and limits below zero.
fn negative(resources: &Resources, path: &str) -> Vec<Refusal> {
    Refusal::negative(&resources.requests, &format!("{path}.requests"))
        .chain(Refusal::negative(&resources.limits, &format!("{path}.limits")))
        .collect()
}

/// The shape of a pod spec, requests and node name apart.
pub fn shape(spec: &PodSpec) -> PodShape {
    let affinity = &spec.affinity.node_affinity;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    PodShape {
        node_selector: selector::pairs(&spec.node_selector),
        node_affinity: required.map(selector::node_selector),
        preferred_nodes: selector::preferred(preferred),
        images: images::of(spec),
        features: features(spec),
        tolerations: selector::tolerations(&spec.tolerations),
        ports: ports(spec),
        above_limit: requests::above_limit(spec),
        malformed: malformed::first(spec),
        ..PodShape::default()
    }
}

/// What a kubelet has to declare for it: kube-scheduler's register of features that decide where
/// a new pod may run, as of 1.37.
fn features(spec: &PodSpec) -> Vec<Text> {
    let all = || spec.containers.iter().chain(&spec.init_containers);
    let restarts_all = all().any(|container| {
        container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers")
    });
    let users_beside_host = spec.host_network && spec.host_users == Some(false);
    let mut mounts = all().flat_map(|container| &container.volume_mounts);
    let mount_options = mounts.any(|mount| !mount.bind_mount_options.is_empty());
    [
        (restarts_all, "RestartAllContainersOnContainerExits"),
        (users_beside_host, "UserNamespacesHostNetworkSupport"),
        (mount_options, "VolumeBindMountOptions"),
    ]
    .into_iter()
    .filter(|(needed, _)| *needed)
    .map(|(_, feature)| feature.into())
    .collect()
}

/// Host ports of containers and sidecars; on the host's network every port is one.
fn ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let all = spec.containers.iter().chain(spec.init_containers.iter().filter(sidecar));
    let mut ports = BTreeSet::new();
    for port in all.flat_map(|container| &container.ports) {
        let on_host = port.host_port.filter(|port| *port != 0);
        let number = match on_host {
            None if spec.host_network => port.container_port,
            other => other.unwrap_or(0),
        };
        let given = |text: &Option<String>, default: &str| -> Text {
            text.as_deref().filter(|text| !text.is_empty()).unwrap_or(default).into()
        };
        match u16::try_from(number) {
            Ok(0) | Err(_) => {}
            Ok(number) => {
                ports.insert(HostPort {
                    port: number,
                    protocol: given(&port.protocol, "TCP"),
                    ip: given(&port.host_ip, "0.0.0.0"),
                });
            }
        }
    }
    ports.into_iter().collect()
}

/// Whether a pod has ended, well or badly.
pub fn has_ended(pod: &Pod) -> bool {
    phase(&pod.status).terminal()
}

/// Whether a pod has ended well.
pub fn has_ended_well(pod: &Pod) -> bool {
    phase(&pod.status) == PodPhase::Succeeded
}

fn phase(status: &PodStatus) -> PodPhase {
    match status.phase.as_deref() {
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        // A node that does not answer leaves what runs there in doubt: it still holds its room.
        Some("Unknown") => PodPhase::Unready,
        Some("Running") if is_unready(status) => PodPhase::Unready,
        Some("Running") => PodPhase::Running,
        _ => PodPhase::Pending,
    }
}

/// Whether it says that it is not ready. Before a kubelet says anything of that, and in what
/// people write by hand, what runs is taken for ready.
fn is_unready(status: &PodStatus) -> bool {
    status.conditions.iter().any(|known| known.kind == "Ready" && known.status != "True")
}

fn disrupted(status: &PodStatus) -> bool {
    is_true(&status.conditions, "DisruptionTarget")
        .is_some_and(|condition| condition.reason == keys::PREEMPTION_BY_SCHEDULER)
}

/// When it was bound, by the best that is known.
fn bound_at(meta: &ObjectMeta, status: &PodStatus, admitted_at: Option<Time>) -> Option<Time> {
    let shown = is_true(&status.conditions, "PodScheduled")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .or(status.start_time.as_ref())
        .map(time);
    shown.or(admitted_at).or(meta.creation_timestamp.as_ref().map(time))
}

/// When a pod ended that has: with the last of its containers, or when it was ready no more.
fn ended_at(status: &PodStatus) -> Option<Time> {
    if !phase(status).terminal() {
        return None;
    }
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses);
    let ended = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref());
    let last = ended.filter_map(|ended| ended.finished_at.as_ref()).map(time).max();
    let ready = status.conditions.iter().find(|known| known.kind == "Ready");
    let not = ready.filter(|known| known.status != "True");
    last.or_else(|| not?.last_transition_time.as_ref().map(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(mut pod: Value) -> Result<PodDraft, Vec<Refusal>> {
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{}]);
        }
        let pod: Pod = serde_json::from_value(pod).expect("pod");
        draft(&pod, &mut Shared::default())
    }

    fn good(pod: Value) -> PodDraft {
        read(pod).expect("a pod")
    }

    #[test]
    fn a_bare_pod_gets_the_defaults() {
        let pod = good(json!({ "metadata": { "name": "p" } }));
        assert_eq!((&*pod.uid, &*pod.namespace, &*pod.name), ("pod/default/p", "default", "p"));
        assert_eq!((pod.ours("capstan"), pod.phase), (false, PodPhase::Pending));
        assert_eq!((pod.created, pod.bound_at, pod.node), (None, None, None));
    }

    #[test]
    fn what_runs_is_ready_unless_it_says_otherwise() {
        let phase = |phase: &str, ready: Option<&str>| {
            let ready = ready.map(|status| json!({ "type": "Ready", "status": status }));
            let conditions: Vec<Value> = ready.into_iter().collect();
            let status = json!({ "phase": phase, "conditions": conditions });
            good(json!({ "metadata": { "name": "p" }, "status": status })).phase
        };
        assert_eq!(phase("Running", None), PodPhase::Running);
        assert_eq!(phase("Running", Some("True")), PodPhase::Running);
        for unready in ["False", "Unknown"] {
            assert_eq!(phase("Running", Some(unready)), PodPhase::Unready);
        }
        assert_eq!(phase("Unknown", None), PodPhase::Unready);
        assert_eq!(phase("Pending", Some("False")), PodPhase::Pending);
        assert_eq!(phase("Succeeded", Some("False")), PodPhase::Succeeded);
    }

    #[test]
    fn host_ports_are_those_of_containers_and_sidecars() {
        let port = |host: u16| json!([{ "containerPort": 80, "hostPort": host }]);
        let spec = json!({
            "containers": [{ "ports": [{ "containerPort": 80, "hostPort": 8080 },
                { "containerPort": 81 }] }],
            "initContainers": [{ "ports": port(1) },
                { "ports": port(2), "restartPolicy": "Always" }],
        });
        let pod = good(json!({ "metadata": { "name": "p" }, "spec": spec }));
        let numbers: Vec<u16> = pod.shape.ports.iter().map(|port| port.port).collect();
        assert_eq!(numbers, [2, 8080]);
        assert_eq!((&*pod.shape.ports[0].protocol, &*pod.shape.ports[0].ip), ("TCP", "0.0.0.0"));
    }

    #[test]
    fn images_of_containers_and_volumes_have_a_tag() {
        let volumes = json!([{ "name": "v", "image": { "reference": "host:5000/data" } },
            { "name": "w", "emptyDir": {} }, { "name": "x", "image": {} }]);
        let spec = json!({ "containers": [{ "image": "b:1" }, { "image": "a" }],
            "initContainers": [{ "image": "b:1" }, { "image": "c@sha256:0" }],
            "volumes": volumes });
        let pod = good(json!({ "metadata": { "name": "p" }, "spec": spec }));
        let images: Vec<&str> = pod.shape.images.iter().map(|image| &**image).collect();
        assert_eq!(images, ["a:latest", "b:1", "b:1", "c@sha256:0", "host:5000/data:latest"]);
        assert_eq!(pod.shape.volumes, None);
    }

    #[test]
    fn on_the_host_network_container_ports_are_host_ports() {
        let spec = json!({ "hostNetwork": true,
            "containers": [{ "ports": [{ "containerPort": 80 }] }] });
        let pod = good(json!({ "metadata": { "name": "p" }, "spec": spec }));
        assert_eq!(pod.shape.ports.iter().map(|port| port.port).collect::<Vec<_>>(), [80]);
    }

    #[test]
    fn the_time_of_binding_is_the_best_that_is_known() {
        let conditions = json!([{ "type": "PodScheduled", "status": "True",
            "lastTransitionTime": "1970-01-01T00:00:03Z" }]);
        let mut pod = json!({
            "metadata": { "name": "p", "creationTimestamp": "1970-01-01T00:00:01Z" },
            "spec": { "nodeName": "n" },
            "status": { "startTime": "1970-01-01T00:00:02Z", "conditions": conditions },
        });
        assert_eq!(good(pod.clone()).bound_at, Some(Time(3_000)));
        pod["status"]["conditions"] = json!([]);
        assert_eq!(good(pod.clone()).bound_at, Some(Time(2_000)));
        pod["status"] = json!({});
        assert_eq!(good(pod.clone()).bound_at, Some(Time(1_000)));
        pod["metadata"]["annotations"] =
            json!({ "capstan.sh/admitted-at": "1970-01-01T00:00:04Z" });
        assert_eq!(good(pod.clone()).bound_at, Some(Time(4_000)));
        pod["spec"]["nodeName"] = json!("");
        assert_eq!(good(pod).bound_at, None);
    }

    #[test]
    fn when_a_pod_ended_its_last_container_says_or_its_condition() {
        let ended = |at: &str| json!({ "state": { "terminated": { "finishedAt": at } } });
        let mut pod = json!({ "metadata": { "name": "p" }, "status": { "phase": "Succeeded",
            "containerStatuses": [ended("1970-01-01T00:00:05Z"), ended("1970-01-01T00:00:03Z")],
            "conditions": [{ "type": "Ready", "status": "False",
                "lastTransitionTime": "1970-01-01T00:00:04Z" }] } });
        assert_eq!(good(pod.clone()).ended_at(), Some(Time(5_000)));
        pod["status"]["phase"] = json!("Running");
        assert_eq!(good(pod.clone()).ended_at(), None, "others of its containers run");
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["containerStatuses"] = json!([
            { "state": { "terminated": { "exitCode": 1, "finishedAt": null } } },
            { "state": { "waiting": {} } },
        ]);
        assert_eq!(good(pod.clone()).ended_at(), Some(Time(4_000)));
        pod["status"] = json!({ "phase": "Failed" });
        assert_eq!(good(pod).ended_at(), None);
    }

    #[test]
    fn a_node_name_is_a_wish_unless_we_wrote_it() {
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "n" } });
        assert_eq!(good(pod.clone()).shape.node_name.as_deref(), Some("n"));
        pod["metadata"]["annotations"] = json!({ "capstan.sh/flavors": "{\"cpu\":\"a\"}" });
        let bound = good(pod);
        assert_eq!((bound.shape.node_name.as_deref(), bound.node.as_deref()), (None, Some("n")));
        assert_eq!(bound.binding.expect("note").flavors.len(), 1);
    }

    #[test]
    fn a_nomination_holds_room_for_others_and_none_for_ours() {
        let mut pod = json!({ "metadata": { "name": "p" }, "spec": { "schedulerName": "capstan" },
            "status": { "nominatedNodeName": "n" } });
        let draft = good(pod.clone());
        assert_eq!(draft.nominated().map(|node| &**node), Some("n"));
        assert_eq!((draft.stands_on("capstan"), draft.is_nominated("capstan")), (None, false));
        assert_eq!(draft.stands_on("other").map(|node| &**node), Some("n"));
        assert!(draft.is_nominated("other"));
        pod["spec"]["nodeName"] = json!("m");
        assert_eq!(good(pod.clone()).nominated(), None, "it is over");
        pod["spec"] = json!({ "schedulingGates": [{ "name": "g" }] });
        assert_eq!(good(pod).nominated(), None, "it is on its way nowhere");
    }

    #[test]
    fn a_resized_pod_holds_something_else_than_it_asks() {
        let pod = json!({
            "metadata": { "name": "p" },
            "spec": { "nodeName": "n",
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "4" } } }] },
            "status": { "containerStatuses": [{ "name": "c",
                "resources": { "requests": { "cpu": "6" } } }] },
        });
        let pod = good(pod);
        assert_eq!(pod.shape.requests.get("cpu"), Some(&4_000));
        assert_eq!(pod.holds.expect("held").get("cpu"), Some(&6_000));
    }

    #[test]
    fn victims_are_known_by_condition_or_deletion() {
        let mut pod = json!({ "metadata": { "name": "p",
            "annotations": { "capstan.sh/preempted-by": "a/b" } } });
        assert_eq!(good(pod.clone()).eviction, None);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(good(pod.clone()).eviction.is_some());
        pod["metadata"]["deletionTimestamp"] = Value::Null;
        pod["status"]["conditions"] = json!([{ "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler" }]);
        assert!(good(pod).eviction.is_some());
    }

    #[test]
    fn what_no_api_server_takes_is_refused_with_its_path() {
        let spec = json!({ "containers": [{ "ports": [{ "hostPort": 70000 }] }] });
        let refusals = read(json!({ "metadata": { "name": "p" }, "spec": spec }));
        let refusals = refusals.expect_err("refused");
        assert_eq!(refusals[0].path, "spec.containers[0].ports[0].hostPort");
        let resources = json!({ "requests": { "cpu": -1 }, "limits": { "memory": "-1Gi" } });
        let spec = json!({ "containers": [{ "resources": resources }],
            "overhead": { "cpu": "-1m" }, "resources": { "requests": { "cpu": "-2" } } });
        let refusals = read(json!({ "metadata": { "name": "p" }, "spec": spec }));
        let refusals = refusals.expect_err("refused");
        let paths: Vec<&str> = refusals.iter().map(|refusal| &*refusal.path).collect();
        let container = "spec.containers[0].resources";
        assert_eq!(
            paths[..2],
            [format!("{container}.requests.cpu"), format!("{container}.limits.memory")]
        );
        assert_eq!(paths[2..], ["spec.resources.requests.cpu", "spec.overhead.cpu"]);
        let spec = json!({ "containers": [] });
        let refusals = read(json!({ "metadata": { "name": "p" }, "spec": spec }));
        assert_eq!(refusals.expect_err("refused")[0].path, "spec.containers");
    }
}
