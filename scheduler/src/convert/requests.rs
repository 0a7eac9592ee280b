//! Requests of a pod's containers, with the API server's defaults.
//!
//! Decides that a limit is the request where none is given; the arithmetic over containers is
//! [`capstan_core::requests`].

use std::collections::BTreeMap;

use capstan_core::model::input::{AboveLimit, Amounts};
use capstan_core::requests::{
    ContainerRequest, InitContainer, PodResources, ResizeStatus, counts_at_pod_level,
};

use crate::api::pod::{Container, ContainerStatus, PodSpec, PodStatus, Resources};
use crate::quantity::Quantity;

/// Amounts of a resource list; below zero is zero.
pub fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    let one = |(name, quantity): (&String, &Quantity)| {
        (name.as_str().into(), quantity.amount_of(name).max(0))
    };
    list.iter().map(one).collect()
}

/// Requests, with limits in the place of those that are missing.
pub fn defaulted(resources: &Resources) -> Amounts {
    let mut all = amounts(&resources.limits);
    all.extend(amounts(&resources.requests));
    all
}

/// What a pod's containers ask for.
pub fn of_pod(spec: &PodSpec, status: &PodStatus) -> PodResources {
    let request = |container: &Container| ContainerRequest {
        spec: defaulted(&container.resources),
        resize: status_of(container, status).and_then(resize),
    };
    let pending = status.conditions.iter().find(|one| one.kind == "PodResizePending");
    let mut pod = PodResources {
        containers: spec.containers.iter().map(request).collect(),
        init_containers: spec
            .init_containers
            .iter()
            .map(|container| InitContainer {
                request: request(container),
                sidecar: container.restart_policy.as_deref() == Some("Always"),
            })
            .collect(),
        pod_level: None,
        of_whole: status.resources.as_ref().map(|actual| ResizeStatus {
            allocated: amounts(&status.allocated_resources),
            actual: amounts(&actual.requests),
        }),
        overhead: amounts(&spec.overhead),
        // Its status is not asked: kube-scheduler does not.
        resize_infeasible: pending.is_some_and(|condition| condition.reason == "Infeasible"),
    };
    pod.pod_level = spec.resources.as_ref().map(|resources| pod_level(resources, &pod));
    pod
}

/// The first request above its own limit: containers, init containers, then the pod itself.
pub fn above_limit(spec: &PodSpec) -> Option<AboveLimit> {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let of_containers = containers.map(|container| (&*container.name, &container.resources));
    let of_pod = spec.resources.iter().map(|resources| ("", resources));
    of_containers.chain(of_pod).find_map(|(container, resources)| {
        let excess = |(resource, request): (&String, &Quantity)| {
            let limit = resources.limits.get(resource)?.amount_of(resource);
            let request = request.amount_of(resource);
            let (container, resource) = (container.into(), resource.as_str().into());
            (request > limit).then_some(AboveLimit { container, resource, request, limit })
        };
        resources.requests.iter().find_map(excess)
    })
}

/// Pod-level requests: a limit becomes one only where no container asks for the resource; of huge
/// pages always, as nobody may have more of them than is asked.
fn pod_level(resources: &Resources, pod: &PodResources) -> Amounts {
    let mut spec = amounts(&resources.requests);
    let asked = pod.of_containers();
    for (resource, limit) in amounts(&resources.limits) {
        let open = !asked.contains_key(&resource) || resource.starts_with("hugepages-");
        if counts_at_pod_level(&resource) && open {
            spec.entry(resource).or_insert(limit);
        }
    }
    spec
}

/// The status of a container, wherever it stands: names are unique among all of them.
fn status_of<'a>(container: &Container, status: &'a PodStatus) -> Option<&'a ContainerStatus> {
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses);
    all.find(|one| one.name == container.name)
}

/// What a status says of resources; `None`: nothing.
fn resize(status: &ContainerStatus) -> Option<ResizeStatus> {
    let allocated = amounts(&status.allocated_resources);
    let actual = status.resources.as_ref().map(|actual| amounts(&actual.requests));
    let actual = actual.unwrap_or_default();
    let said = !allocated.is_empty() || !actual.is_empty();
    said.then_some(ResizeStatus { allocated, actual })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asks(spec: serde_json::Value) -> Vec<(String, i64)> {
        let spec: PodSpec = serde_json::from_value(spec).expect("spec");
        let effective = of_pod(&spec, &PodStatus::default()).effective();
        effective.iter().map(|(name, amount)| (name.to_string(), *amount)).collect()
    }

    #[test]
    fn limits_become_requests_where_those_are_missing() {
        let spec = json!({
            "containers": [{ "resources": {
                "requests": { "cpu": "1" },
                "limits": { "cpu": "4", "memory": "1Ki", "nvidia.com/gpu": 8 },
            }}],
            "initContainers": [{ "resources": { "limits": { "cpu": "2" } } }],
        });
        let want = [("cpu", 2_000), ("memory", 1_024), ("nvidia.com/gpu", 8)];
        assert_eq!(asks(spec), want.map(|(name, amount)| (name.to_owned(), amount)));
    }

    #[test]
    fn the_first_request_above_its_limit_is_found() {
        let first = |spec: serde_json::Value| {
            let spec: PodSpec = serde_json::from_value(spec).expect("spec");
            above_limit(&spec).map(|one| {
                (one.container.to_string(), one.resource.to_string(), one.request, one.limit)
            })
        };
        let fine = json!({ "name": "a", "resources": {
            "requests": { "cpu": "500m", "memory": "1Gi" }, "limits": { "cpu": "0.5" } } });
        let much = json!({ "name": "b", "resources": {
            "requests": { "cpu": "501m" }, "limits": { "cpu": "0.5" } } });
        let of = |name: &str, resource: &str, request, limit| {
            Some((name.to_owned(), resource.to_owned(), request, limit))
        };
        assert_eq!(first(json!({ "containers": [fine] })), None);
        assert_eq!(first(json!({ "containers": [fine, much] })), of("b", "cpu", 501, 500));
        let init = json!({ "containers": [fine], "initContainers": [much] });
        assert_eq!(first(init), of("b", "cpu", 501, 500));
        let whole = json!({ "containers": [fine],
            "resources": { "requests": { "memory": "2" }, "limits": { "memory": "1" } } });
        assert_eq!(first(whole), of("", "memory", 2, 1));
    }

    #[test]
    fn pod_level_limits_become_requests_unless_containers_ask() {
        let spec = json!({
            "containers": [{ "resources": { "requests": { "cpu": "1" } } }],
            "resources": { "limits": { "cpu": "4", "memory": "8" } },
        });
        let want = [("cpu", 1_000), ("memory", 8)];
        assert_eq!(asks(spec), want.map(|(name, amount)| (name.to_owned(), amount)));
    }

    #[test]
    fn pod_level_limits_of_huge_pages_are_asked_whatever_containers_ask() {
        let pages = |amount: u64| json!({ "cpu": "1", "hugepages-2Mi": amount });
        let mut spec = json!({
            "containers": [{ "resources": { "requests": pages(2), "limits": pages(2) } }],
            "resources": { "limits": pages(6) },
        });
        let want = [("cpu", 1_000), ("hugepages-2Mi", 6)];
        assert_eq!(asks(spec.clone()), want.map(|(name, amount)| (name.to_owned(), amount)));
        spec["resources"]["requests"] = pages(4);
        let want = [("cpu", 1_000), ("hugepages-2Mi", 4)];
        assert_eq!(asks(spec), want.map(|(name, amount)| (name.to_owned(), amount)));
    }

    #[test]
    fn negative_requests_are_none() {
        let spec = json!({ "containers": [{ "resources": { "requests": { "cpu": "-1" } } }] });
        assert_eq!(asks(spec), []);
    }

    #[test]
    fn a_resize_is_read_from_the_status() {
        let spec = json!({ "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "9m" } } },
            { "name": "b", "resources": { "requests": { "cpu": "1m" } } },
        ]});
        let status = json!({
            "conditions":
                [{ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }],
            "containerStatuses": [{
                "name": "a",
                "allocatedResources": { "cpu": "4m" },
                "resources": { "requests": { "cpu": "3m" } },
            }],
        });
        let spec: PodSpec = serde_json::from_value(spec).expect("spec");
        let status: PodStatus = serde_json::from_value(status).expect("status");
        let pod = of_pod(&spec, &status);
        assert_eq!(pod.held().get("cpu"), Some(&4), "and nothing of whom no status is shown of");
        assert_eq!(pod.effective().get("cpu"), Some(&10));
    }

    #[test]
    fn a_resize_is_read_whichever_half_of_it_the_status_has() {
        let held = |status: serde_json::Value| {
            let spec = json!({
                "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "2m" } } }],
                "containers": [{ "name": "a", "resources": { "requests": { "cpu": "1m" } } }],
            });
            let spec: PodSpec = serde_json::from_value(spec).expect("spec");
            let status: PodStatus = serde_json::from_value(status).expect("status");
            of_pod(&spec, &status).held().get("cpu").copied()
        };
        let (six, none) = (json!({ "cpu": "6m" }), json!({}));
        let one = json!({ "name": "a", "allocatedResources": six });
        assert_eq!(held(json!({ "containerStatuses": [one] })), Some(6));
        let one = json!({ "name": "a", "resources": { "requests": six } });
        assert_eq!(held(json!({ "containerStatuses": [one] })), Some(6));
        let empty = json!({ "name": "a", "allocatedResources": none, "resources": none });
        assert_eq!(held(json!({ "containerStatuses": [empty] })), Some(2));
        let init = json!({ "name": "i", "allocatedResources": six });
        assert_eq!(held(json!({ "initContainerStatuses": [init] })), Some(6));
        let whole = json!({ "allocatedResources": six, "resources": { "requests": six } });
        assert_eq!(held(whole), Some(6));
        assert_eq!(held(json!({ "allocatedResources": six })), Some(2));
    }

    #[test]
    fn a_resize_that_cannot_be_is_that_whatever_the_status_of_its_condition() {
        for (status, reason, want) in
            [("True", "Infeasible", 4), ("False", "Infeasible", 4), ("True", "Deferred", 9)]
        {
            let condition =
                json!({ "type": "PodResizePending", "status": status, "reason": reason });
            let allocated = json!({ "name": "a", "allocatedResources": { "cpu": "4m" } });
            let asked = json!({ "name": "a", "resources": { "requests": { "cpu": "9m" } } });
            let spec = json!({ "containers": [asked] });
            let spec: PodSpec = serde_json::from_value(spec).expect("spec");
            let status = json!({ "conditions": [condition], "containerStatuses": [allocated] });
            let status: PodStatus = serde_json::from_value(status).expect("status");
            assert_eq!(of_pod(&spec, &status).held().get("cpu"), Some(&want));
        }
    }
}
