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

/// What a status says besides the spec, once resources appear in it. An empty list is the same as
/// none: the API server has no other way to say so.
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
    pub pod_level: Option<Amounts>,
    /// `status.resources`, where there are any, and `status.allocatedResources`: of the pod as a
    /// whole, whether or not its spec says anything of that.
    pub of_whole: Option<ResizeStatus>,
    /// `spec.overhead`, on top of everything.
    pub overhead: Amounts,
    /// Condition PodResizePending with reason Infeasible: the spec will never come into force.
    pub resize_infeasible: bool,
}

impl PodResources {
    /// What a pod that is not bound yet asks for: specs only.
    pub fn effective(&self) -> Amounts {
        self.with_the_pods_own(self.of_containers(), self.pod_level.clone())
    }

    /// What a bound pod holds: of the sums of what its containers ask, have been allocated and
    /// have in force the largest, as Kubernetes has it since 1.37; before, that was taken for each
    /// container by itself. What they ask is left out when a resize is infeasible.
    pub fn held(&self) -> Amounts {
        if self.says_nothing_of_a_resize() {
            return self.effective();
        }
        let infeasible = self.resize_infeasible;
        let mut held = match &self.of_whole {
            // The kubelet has added them up.
            Some(whole) if !whole.allocated.is_empty() && !whole.actual.is_empty() => {
                larger(&whole.allocated, &whole.actual)
            }
            _ => {
                let mut sum = self.sum(|it| it.allocated(infeasible));
                raise(&mut sum, &self.sum(|it| it.actual(infeasible)));
                sum
            }
        };
        if !infeasible {
            raise(&mut held, &self.of_containers());
        }
        self.with_the_pods_own(held, self.pod_level_held())
    }

    /// The request of the containers alone, pod-level resources and overhead apart.
    pub fn of_containers(&self) -> Amounts {
        self.sum(|request| Some(&request.spec))
    }

    fn says_nothing_of_a_resize(&self) -> bool {
        let init = self.init_containers.iter().map(|init| &init.request);
        let mut all = self.containers.iter().chain(init);
        !self.resize_infeasible && self.of_whole.is_none() && all.all(|it| it.resize.is_none())
    }

    /// What a pod with a place holds for its pod-level requests.
    fn pod_level_held(&self) -> Option<Amounts> {
        let spec = self.pod_level.as_ref()?;
        let Some(whole) = &self.of_whole else { return Some(spec.clone()) };
        let mut held = larger(&whole.allocated, &whole.actual);
        if !self.resize_infeasible {
            raise(&mut held, spec);
        }
        Some(held)
    }

    /// A sum over containers, with pod-level amounts in its place and overhead on top.
    fn with_the_pods_own(&self, mut total: Amounts, pod_level: Option<Amounts>) -> Amounts {
        let asks = |spec: &Amounts| spec.keys().any(|resource| counts_at_pod_level(resource));
        if self.pod_level.as_ref().is_some_and(asks) {
            let own = pod_level.unwrap_or_default().into_iter();
            total.extend(own.filter(|(resource, _)| counts_at_pod_level(resource)));
        }
        add(&mut total, &self.overhead);
        total.retain(|_, amount| *amount > 0);
        total
    }

    /// The larger of all that run together and each init container beside its sidecars.
    fn sum(&self, of: impl Fn(&ContainerRequest) -> Option<&Amounts>) -> Amounts {
        let mut sidecars = Amounts::new();
        let mut peak = Amounts::new();
        for init in &self.init_containers {
            let asked = of(&init.request);
            if init.sidecar {
                add_all(&mut sidecars, asked);
                raise(&mut peak, &sidecars);
                continue;
            }
            let mut during = sidecars.clone();
            add_all(&mut during, asked);
            raise(&mut peak, &during);
        }
        let mut main = sidecars;
        for container in &self.containers {
            add_all(&mut main, of(container));
        }
        raise(&mut main, &peak);
        main
    }
}

impl ContainerRequest {
    /// What the kubelet has set aside; before it says so, what is asked, if that can be.
    fn allocated(&self, infeasible: bool) -> Option<&Amounts> {
        let said = self.resize.as_ref().map(|status| &status.allocated);
        said.filter(|said| !said.is_empty()).or((!infeasible).then_some(&self.spec))
    }

    /// What is in force; before the kubelet says so, what it has set aside.
    fn actual(&self, infeasible: bool) -> Option<&Amounts> {
        let said = self.resize.as_ref().map(|status| &status.actual);
        said.filter(|said| !said.is_empty()).or_else(|| self.allocated(infeasible))
    }
}

/// Whether a pod-level request of this resource replaces the container sum.
pub fn counts_at_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

fn larger(one: &Amounts, other: &Amounts) -> Amounts {
    let mut larger = one.clone();
    raise(&mut larger, other);
    larger
}

fn add_all(to: &mut Amounts, from: Option<&Amounts>) {
    from.into_iter().for_each(|from| add(to, from));
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

    fn whole(allocated: i64, actual: i64) -> Option<ResizeStatus> {
        resized(0, allocated, actual).resize
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
        let pod_level = amounts(&[("cpu", 4), ("hugepages-2Mi", 8), ("example.com/gpu", 9)]);
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
            pod_level: Some(amounts(&[("cpu", 4)])),
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
    fn sums_of_all_containers_are_compared_not_each_container() {
        // One shrinks while the other grows: never more than five at a time.
        let containers = vec![resized(1, 4, 4), resized(4, 1, 1)];
        assert_eq!(holds(PodResources { containers, ..Default::default() }), 5);
    }

    #[test]
    fn without_resources_in_the_status_the_spec_counts() {
        let mut pod = PodResources { containers: vec![cpu(7)], ..Default::default() };
        assert_eq!(holds(pod.clone()), 7);
        pod.resize_infeasible = true;
        assert_eq!(holds(pod), 0, "nobody says what it has, and what it asks will not be");
    }

    #[test]
    fn what_is_allocated_is_in_force_until_something_else_is_said_to_be() {
        for infeasible in [false, true] {
            let mut one = resized(1, 3, 0);
            one.resize.as_mut().expect("a status").actual.clear();
            let pod = PodResources {
                containers: vec![one],
                resize_infeasible: infeasible,
                ..Default::default()
            };
            assert_eq!(holds(pod), 3);
        }
    }

    #[test]
    fn a_container_without_a_status_counts_as_asked_beside_one_with() {
        let containers = vec![resized(1, 3, 2), cpu(2)];
        assert_eq!(holds(PodResources { containers, ..Default::default() }), 5);
    }

    #[test]
    fn sidecars_and_plain_init_containers_are_resized() {
        let init = |sidecar| InitContainer { request: resized(2, 9, 9), sidecar };
        for sidecar in [false, true] {
            let pod = PodResources {
                containers: vec![cpu(1)],
                init_containers: vec![init(sidecar)],
                ..Default::default()
            };
            assert_eq!(holds(pod), if sidecar { 10 } else { 9 });
        }
    }

    #[test]
    fn pod_level_status_counts_like_a_container_status() {
        let pod = PodResources {
            containers: vec![cpu(100)],
            pod_level: Some(amounts(&[("cpu", 4)])),
            of_whole: whole(8, 6),
            ..Default::default()
        };
        assert_eq!((holds(pod.clone()), asks(pod)), (8, 4));
    }

    #[test]
    fn an_infeasible_resize_of_the_pod_does_not_count_what_it_asks() {
        let mut pod = PodResources {
            containers: vec![cpu(1)],
            pod_level: Some(amounts(&[("cpu", 90)])),
            of_whole: whole(8, 6),
            resize_infeasible: true,
            ..Default::default()
        };
        assert_eq!(holds(pod.clone()), 8);
        pod.of_whole = None;
        assert_eq!(holds(pod), 90, "no status says what it has instead");
    }

    #[test]
    fn a_sum_that_the_kubelet_states_takes_the_place_of_ours() {
        let mut pod = PodResources {
            containers: vec![resized(1, 9, 9)],
            of_whole: whole(5, 6),
            ..Default::default()
        };
        assert_eq!(holds(pod.clone()), 6, "though the spec says nothing of the pod as a whole");
        pod.of_whole.as_mut().expect("a status").allocated.clear();
        assert_eq!(holds(pod.clone()), 9, "half of it is none");
        pod.of_whole = whole(5, 6);
        pod.containers = vec![cpu(7)];
        assert_eq!(holds(pod), 7, "the spec may be larger");
    }

    #[test]
    fn pod_level_requests_of_other_resources_change_nothing() {
        let pod = PodResources {
            containers: vec![cpu(1)],
            pod_level: Some(amounts(&[("example.com/gpu", 9)])),
            of_whole: whole(0, 6),
            ..Default::default()
        };
        assert_eq!(holds(pod.clone()), 6);
        assert_eq!(asks(pod), 1);
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
