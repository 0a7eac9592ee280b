//! The effective request of a pod: what it needs before it runs, and what it holds once bound.
//!
//! Decides the arithmetic of containers, init containers, sidecars, pod-level resources,
//! overhead and in-place resize. Assumes that limits have already become requests where those
//! were missing, and that amounts are whole and not negative. Leaves the one slot in `pods`
//! that every pod takes to the node's accounts.

use crate::model::input::Amounts;

/// What one container asks for, and what the kubelet says of a resize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRequest {
    /// `resources.requests`.
    pub spec: Amounts,
    /// Set when the container's status shows resources.
    pub resize: Option<ResizeStatus>,
}

/// What a status says besides the spec, once resources appear in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeStatus {
    /// `allocatedResources`: what the kubelet has set aside.
    pub allocated: Amounts,
    /// `resources.requests`: what is in force.
    pub actual: Amounts,
}

/// An init container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitContainer {
    /// What it asks for.
    pub request: ContainerRequest,
    /// `restartPolicy: Always`: a sidecar, which keeps running beside all that come after it.
    pub sidecar: bool,
}

/// All that decides a pod's effective request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    /// Ordinary containers; ephemeral ones never count and are not listed.
    pub containers: Vec<ContainerRequest>,
    /// Init containers, in the order they start.
    pub init_containers: Vec<InitContainer>,
    /// `spec.resources`: replaces the container sum for cpu, memory and huge pages.
    pub pod_level: Option<ContainerRequest>,
    /// `spec.overhead`, on top of everything.
    pub overhead: Amounts,
    /// Condition PodResizePending with reason Infeasible: the spec will never come into force.
    pub resize_infeasible: bool,
}

impl PodResources {
    /// What a pod that is not bound yet asks for: specs only.
    pub fn effective(&self) -> Amounts {
        self.total(|request| request.spec.clone(), |request| request.spec.clone())
    }

    /// What a bound pod holds: of spec, allocated and actual the largest, without the spec
    /// when its resize is infeasible. Ordinary init containers are not resized: their spec.
    pub fn held(&self) -> Amounts {
        let infeasible = self.resize_infeasible;
        self.total(|request| in_force(request, infeasible), |request| request.spec.clone())
    }

    /// The request of the containers alone, pod-level resources and overhead apart.
    pub fn of_containers(&self) -> Amounts {
        let spec = |request: &ContainerRequest| request.spec.clone();
        self.container_sum(&spec, &spec)
    }

    fn total(
        &self,
        resized: impl Fn(&ContainerRequest) -> Amounts,
        fixed: impl Fn(&ContainerRequest) -> Amounts,
    ) -> Amounts {
        let mut total = self.container_sum(&resized, &fixed);
        if let Some(pod_level) = &self.pod_level {
            for (resource, amount) in resized(pod_level) {
                if counts_at_pod_level(&resource) {
                    total.insert(resource, amount);
                }
            }
        }
        add(&mut total, &self.overhead);
        total.retain(|_, amount| *amount > 0);
        total
    }

    /// The larger of all that run together and each init container beside its sidecars.
    fn container_sum(
        &self,
        resized: &impl Fn(&ContainerRequest) -> Amounts,
        fixed: &impl Fn(&ContainerRequest) -> Amounts,
    ) -> Amounts {
        let mut sidecars = Amounts::new();
        let mut peak = Amounts::new();
        for init in &self.init_containers {
            if init.sidecar {
                add(&mut sidecars, &resized(&init.request));
                raise(&mut peak, &sidecars);
                continue;
            }
            let mut during = fixed(&init.request);
            add(&mut during, &sidecars);
            raise(&mut peak, &during);
        }
        let mut main = sidecars;
        for container in &self.containers {
            add(&mut main, &resized(container));
        }
        raise(&mut main, &peak);
        main
    }
}

/// Whether a pod-level request of this resource replaces the container sum.
pub fn counts_at_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn in_force(request: &ContainerRequest, infeasible: bool) -> Amounts {
    let Some(status) = &request.resize else { return request.spec.clone() };
    let mut held = status.allocated.clone();
    raise(&mut held, &status.actual);
    if !infeasible {
        raise(&mut held, &request.spec);
    }
    held
}

fn add(to: &mut Amounts, from: &Amounts) {
    for (resource, amount) in from {
        let slot = to.entry(resource.clone()).or_default();
        *slot = slot.saturating_add(*amount);
    }
}

fn raise(to: &mut Amounts, floor: &Amounts) {
    for (resource, amount) in floor {
        let slot = to.entry(resource.clone()).or_default();
        *slot = (*slot).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, i64)]) -> Amounts {
        list.iter().map(|(name, amount)| ((*name).into(), *amount)).collect()
    }

    fn cpu(milli: i64) -> ContainerRequest {
        ContainerRequest { spec: amounts(&[("cpu", milli)]), resize: None }
    }

    fn init(milli: i64) -> InitContainer {
        InitContainer { request: cpu(milli), sidecar: false }
    }

    fn sidecar(milli: i64) -> InitContainer {
        InitContainer { request: cpu(milli), sidecar: true }
    }

    fn resized(spec: i64, allocated: i64, actual: i64) -> ContainerRequest {
        ContainerRequest {
            spec: amounts(&[("cpu", spec)]),
            resize: Some(ResizeStatus {
                allocated: amounts(&[("cpu", allocated)]),
                actual: amounts(&[("cpu", actual)]),
            }),
        }
    }

    fn asks(pod: PodResources) -> i64 {
        pod.effective().get("cpu").copied().unwrap_or(0)
    }

    fn holds(pod: PodResources) -> i64 {
        pod.held().get("cpu").copied().unwrap_or(0)
    }

    #[test]
    fn containers_add_up() {
        let containers = vec![cpu(100), cpu(250)];
        assert_eq!(asks(PodResources { containers, ..Default::default() }), 350);
    }

    #[test]
    fn the_largest_init_container_counts_not_their_sum() {
        let pod = PodResources {
            containers: vec![cpu(1)],
            init_containers: vec![init(3), init(2)],
            ..Default::default()
        };
        assert_eq!(asks(pod), 3);
    }

    #[test]
    fn sidecars_add_to_containers_wherever_they_stand() {
        let pod = PodResources {
            containers: vec![cpu(3)],
            init_containers: vec![sidecar(2), init(1), sidecar(1)],
            ..Default::default()
        };
        assert_eq!(asks(pod), 6);
    }

    #[test]
    fn an_init_container_runs_beside_the_sidecars_before_it_only() {
        let mut pod = PodResources {
            containers: vec![cpu(1)],
            init_containers: vec![init(4), sidecar(2)],
            ..Default::default()
        };
        assert_eq!(asks(pod.clone()), 4);
        pod.init_containers.reverse();
        assert_eq!(asks(pod), 6);
    }

    #[test]
    fn maxima_are_taken_for_each_resource_by_itself() {
        let pod = PodResources {
            containers: vec![ContainerRequest {
                spec: amounts(&[("cpu", 1), ("memory", 9)]),
                resize: None,
            }],
            init_containers: vec![InitContainer {
                request: ContainerRequest {
                    spec: amounts(&[("cpu", 5), ("memory", 2), ("example.com/gpu", 1)]),
                    resize: None,
                },
                sidecar: false,
            }],
            ..Default::default()
        };
        let want = amounts(&[("cpu", 5), ("memory", 9), ("example.com/gpu", 1)]);
        assert_eq!(pod.effective(), want);
    }

    #[test]
    fn pod_level_requests_replace_what_containers_ask() {
        let pod_level = ContainerRequest {
            spec: amounts(&[("cpu", 4), ("hugepages-2Mi", 8), ("example.com/gpu", 9)]),
            resize: None,
        };
        let pod = PodResources {
            containers: vec![ContainerRequest {
                spec: amounts(&[("cpu", 100), ("memory", 7), ("example.com/gpu", 1)]),
                resize: None,
            }],
            pod_level: Some(pod_level),
            ..Default::default()
        };
        let want = [("cpu", 4), ("memory", 7), ("hugepages-2Mi", 8), ("example.com/gpu", 1)];
        assert_eq!(pod.effective(), amounts(&want));
    }

    #[test]
    fn overhead_comes_on_top_even_of_pod_level_requests() {
        let pod = PodResources {
            containers: vec![cpu(100)],
            pod_level: Some(cpu(4)),
            overhead: amounts(&[("cpu", 2)]),
            ..Default::default()
        };
        assert_eq!(asks(pod), 6);
    }

    #[test]
    fn zero_amounts_are_left_out() {
        let containers = vec![cpu(0)];
        let pod = PodResources { containers, ..Default::default() };
        assert_eq!(pod.effective(), Amounts::new());
    }

    #[test]
    fn a_bound_pod_holds_the_largest_of_spec_allocated_and_actual() {
        for (spec, allocated, actual) in [(6, 4, 5), (4, 6, 5), (4, 5, 6)] {
            let containers = vec![resized(spec, allocated, actual)];
            assert_eq!(holds(PodResources { containers, ..Default::default() }), 6);
        }
    }

    #[test]
    fn an_infeasible_resize_does_not_count_the_spec() {
        let pod = PodResources {
            containers: vec![resized(90, 4, 5)],
            resize_infeasible: true,
            ..Default::default()
        };
        assert_eq!(holds(pod), 5);
    }

    #[test]
    fn without_resources_in_the_status_the_spec_counts() {
        let pod = PodResources {
            containers: vec![cpu(7)],
            resize_infeasible: true,
            ..Default::default()
        };
        assert_eq!(holds(pod), 7);
    }

    #[test]
    fn sidecars_are_resized_and_plain_init_containers_are_not() {
        let pod = PodResources {
            init_containers: vec![
                InitContainer { request: resized(1, 3, 3), sidecar: true },
                InitContainer { request: resized(2, 9, 9), sidecar: false },
            ],
            ..Default::default()
        };
        assert_eq!(holds(pod), 5);
    }

    #[test]
    fn pod_level_status_counts_like_a_container_status() {
        let pod = PodResources {
            containers: vec![cpu(100)],
            pod_level: Some(resized(4, 8, 6)),
            ..Default::default()
        };
        assert_eq!((holds(pod.clone()), asks(pod)), (8, 4));
    }

    #[test]
    fn the_status_of_a_pod_that_waits_is_not_looked_at() {
        let containers = vec![resized(4, 8, 9)];
        assert_eq!(asks(PodResources { containers, ..Default::default() }), 4);
    }

    #[test]
    fn sums_saturate() {
        let containers = vec![cpu(i64::MAX), cpu(i64::MAX)];
        assert_eq!(asks(PodResources { containers, ..Default::default() }), i64::MAX);
    }
}
