//! Short ways to write facts: each function gives a plain one, callers change public fields.

use std::sync::Arc;

use capstan_core::model::input::{
    Amounts, CapacityType, ClusterQueueFacts, CohortFacts, FlavorFacts, FlavorQuota, Fungibility,
    GangKey, GangRef, GangSource, Input, Labels, LocalQueueFacts, NodeFacts, OwnerFacts,
    OwnerPodSet, PodFacts, PodPhase, PodShape, PreemptReclaim, PreemptWithin, PreemptionPolicy,
    QueueingStrategy, Quota, Rank, ResourceGroup, StopPolicy, Text, Weight, Wishes,
};
use capstan_core::time::Time;

/// The GPU resource.
pub const GPU: &str = "nvidia.com/gpu";
/// The namespace that facts are in.
pub const TEAM: &str = "team";
/// The flavor without labels.
pub const DEFAULT: &str = "default";

/// Text from anything printable.
pub fn text(value: impl ToString) -> Text {
    value.to_string().into()
}

/// Amounts, zeros left out.
pub fn amounts(list: &[(&str, i64)]) -> Amounts {
    list.iter().filter(|(_, n)| *n != 0).map(|(name, n)| (text(name), *n)).collect()
}

/// Labels.
pub fn labels(list: &[(&str, &str)]) -> Labels {
    list.iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// A node with its hostname label; `pods` is 110 unless listed.
pub fn node(name: &str, allocatable: &[(&str, i64)]) -> NodeFacts {
    let mut allocatable = amounts(allocatable);
    allocatable.entry(text("pods")).or_insert(110);
    NodeFacts {
        features: Vec::new(),
        images: Arc::default(),
        name: text(name),
        labels: labels(&[("kubernetes.io/hostname", name)]),
        taints: Vec::new(),
        unschedulable: false,
        allocatable,
        capacity_type: CapacityType::Unknown,
        price: None,
    }
}

/// A flavor for nodes with these labels.
pub fn flavor(name: &str, list: &[(&str, &str)]) -> FlavorFacts {
    FlavorFacts {
        name: text(name),
        node_labels: labels(list),
        taints: Vec::new(),
        tolerations: Vec::new(),
        topology: None,
        levels: Vec::new(),
        broken: Vec::new(),
    }
}

/// Quota without limits.
pub fn nominal(nominal: i64) -> Quota {
    Quota { nominal, borrowing: None, lending: None }
}

/// One group: what each flavor, in order, has of each resource.
pub fn group(flavors: &[(&str, &[(&str, Quota)])]) -> ResourceGroup {
    let covered = flavors.first().map_or(&[] as &[_], |(_, quotas)| *quotas);
    let quota = |(name, quotas): &(&str, &[(&str, Quota)])| FlavorQuota {
        flavor: text(name),
        resources: quotas.iter().map(|(resource, quota)| (text(resource), *quota)).collect(),
    };
    ResourceGroup {
        covered: covered.iter().map(|(resource, _)| text(resource)).collect(),
        flavors: flavors.iter().map(quota).collect(),
    }
}

/// A ClusterQueue with the API's defaults, open to all namespaces.
pub fn cluster_queue(name: &str, cohort: Option<&str>, group: ResourceGroup) -> ClusterQueueFacts {
    ClusterQueueFacts {
        name: text(name),
        cohort: cohort.map(text),
        groups: vec![group],
        strategy: QueueingStrategy::BestEffortFifo,
        namespaces: Some(Vec::new()),
        fungibility: Fungibility {
            next_when_borrowing: false,
            next_when_preempting: true,
            prefer_preemption_over_borrowing: false,
        },
        preemption: PreemptionPolicy {
            within_cluster_queue: PreemptWithin::Never,
            reclaim: PreemptReclaim::Never,
            while_borrowing: None,
        },
        stop: StopPolicy::None,
        profile: None,
        weight: Weight::ONE,
        usage_based: false,
        spending: None,
        broken: Vec::new(),
        deleted: None,
    }
}

/// The LocalQueue of the same name in [`TEAM`].
pub fn local_queue(cluster_queue: &str) -> LocalQueueFacts {
    LocalQueueFacts {
        namespace: text(TEAM),
        name: text(cluster_queue),
        cluster_queue: text(cluster_queue),
        stop: StopPolicy::None,
        weight: Weight::ONE,
        broken: Vec::new(),
    }
}

/// A Cohort object without quota of its own.
pub fn cohort(name: &str, parent: Option<&str>) -> CohortFacts {
    CohortFacts {
        name: text(name),
        parent: parent.map(text),
        groups: Vec::new(),
        weight: Weight::ONE,
        broken: Vec::new(),
    }
}

/// The namespace [`TEAM`].
pub fn namespace() -> Input {
    Input::Namespace { name: text(TEAM), labels: labels(&[("kubernetes.io/metadata.name", TEAM)]) }
}

/// What a pod of this kind asks.
pub fn shape(requests: &[(&str, i64)]) -> Arc<PodShape> {
    Arc::new(PodShape { requests: amounts(requests), ..PodShape::default() })
}

/// Wishes that name a queue.
pub fn in_queue(queue: Option<&str>) -> Arc<Wishes> {
    Arc::new(Wishes { queue: queue.map(text), ..Wishes::default() })
}

/// A lone pod that waits; its uid is its name.
pub fn pod(name: &str, shape: &Arc<PodShape>, wishes: &Arc<Wishes>) -> PodFacts {
    PodFacts {
        uid: text(name),
        namespace: text(TEAM),
        name: text(name),
        shape: shape.clone(),
        holds: None,
        ours: true,
        node: None,
        phase: PodPhase::Pending,
        nominated: false,
        goes_to: None,
        terminating: false,
        gated: false,
        rank: Rank::None,
        created: Time(0),
        bound_at: None,
        ended_at: None,
        priority: 0,
        never_preempts: false,
        stays: None,
        gang: GangRef {
            key: GangKey::Pod(text(name)),
            name: text(name),
            source: GangSource::Pod,
            min_member: None,
            total: None,
            roles: None,
            by_itself: false,
            singly: false,
            unknown_owner: None,
            held: None,
            to_come: None,
        },
        of_job: None,
        wishes: wishes.clone(),
        binding: None,
        eviction: None,
        claims: None,
    }
}

/// A labelled gang of equal pods, `<name>-<i>`.
pub fn gang(
    name: &str,
    pods: u32,
    min_member: Option<u32>,
    shape: &Arc<PodShape>,
    wishes: &Arc<Wishes>,
) -> Vec<PodFacts> {
    let (source, name_of_all) = (GangSource::CapstanGang, text(name));
    let reference = GangRef {
        key: GangKey::Group(source, name_of_all.clone()),
        source,
        min_member,
        ..GangRef::of_one(&name_of_all, &name_of_all)
    };
    let member = |at| {
        let mut member = pod(&format!("{name}-{at}"), shape, wishes);
        member.gang = reference.clone();
        member
    };
    (0..pods).map(member).collect()
}

/// A suspended Job in a queue: a workload without pods.
pub fn job(name: &str, pods: u32, shape: &Arc<PodShape>, wishes: &Arc<Wishes>) -> OwnerFacts {
    OwnerFacts {
        uid: text(format!("job-{name}")),
        kind: text("Job"),
        source: GangSource::Job,
        namespace: text(TEAM),
        name: text(name),
        created: Time(0),
        ours: true,
        suspended: true,
        incarnation: 0,
        finished: None,
        priority: 0,
        never_preempts: false,
        wishes: wishes.clone(),
        pod_sets: vec![OwnerPodSet {
            name: text("main"),
            count: pods,
            before: 0,
            shape: shape.clone(),
            roles: None,
            late: None,
        }],
        min_member: pods,
        min_stated: false,
        ended: 0,
        left: Some(pods),
        replaces: 0,
        member_of: None,
        admitted: None,
        eviction: None,
        requeued: None,
        held: None,
    }
}

/// The pods that a running owner has, made from its templates.
pub fn pods_of(owner: &OwnerFacts) -> Vec<PodFacts> {
    let mut made = Vec::new();
    for set in &owner.pod_sets {
        for _ in 0..set.count {
            let name = format!("{}-{}", owner.name, made.len());
            let mut member = pod(&name, &set.shape, &owner.wishes);
            member.uid = text(format!("{}-{}-{name}", owner.uid, owner.incarnation));
            member.created = owner.created;
            member.priority = owner.priority;
            member.gang = GangRef {
                key: GangKey::Owner(owner.uid.clone(), owner.incarnation),
                name: owner.name.clone(),
                source: GangSource::Job,
                min_member: Some(owner.min_member),
                roles: set.roles.clone(),
                ..member.gang
            };
            made.push(member);
        }
    }
    made
}
