//! Facts of clusters with money, played on a stage.

use capstan_core::Engine;
use capstan_core::explain::quantity::USD_PER_HOUR;
use capstan_core::explain::view::QuotaView;
use capstan_core::model::input::{
    CapacityType, ClusterQueueFacts, Input, PodFacts, Price, PriceSource, Quota, ResourceGroup,
};
use capstan_core::money::MicroUsd;
use capstan_core::policy::Policy;
use capstan_core::score::Weights;
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, node, nominal,
    pod, shape, text,
};
use capstan_tests::hand::view;
use capstan_tests::invariants::broken;
use capstan_tests::play::Stage;

pub const NOW: Time = Time(3_600_000);
/// Enough of anything.
pub const MUCH: i64 = 1_000;

pub fn usd(cents: i64) -> i64 {
    cents * 10_000
}

/// A node of so many GPUs that costs so many cents an hour as a whole.
pub fn priced(name: &str, gpus: i64, cents: i64) -> Input {
    let mut node = node(name, &[(GPU, gpus)]);
    node.capacity_type = CapacityType::OnDemand;
    let per_hour = MicroUsd(usd(cents));
    node.price = Some(Price { per_hour, source: PriceSource::Annotation });
    Input::Node(node.into())
}

/// GPUs as many as anybody wants, and money.
pub fn one_group(money: Quota) -> ResourceGroup {
    group(&[(DEFAULT, &[(GPU, nominal(MUCH)), (USD_PER_HOUR, money)])])
}

pub fn queue(name: &str, cohort: Option<&str>, cents: i64) -> ClusterQueueFacts {
    cluster_queue(name, cohort, one_group(nominal(usd(cents))))
}

/// Nothing is reserved for heads that wait: what is tested is who can be paid for.
pub fn policy() -> Policy {
    Policy { reservations: None, ..Policy::default() }
}

/// The same where nodes in use are preferred, whatever they cost.
pub fn packs() -> Policy {
    let none = Weights {
        cost: 0,
        capacity: 0,
        locality: 0,
        packing: 0,
        gpu_fit: 0,
        soft_taints: 0,
        node_affinity: 0,
        image_locality: 0,
        pod_affinity: 0,
        topology_spread: 0,
        device_choice: 0,
        storage_capacity: 0,
    };
    let weights = Weights { packing: 1, ..none };
    Policy { profiles: [(text("default"), weights)].into(), ..policy() }
}

pub struct Played {
    pub stage: Stage,
}

impl Played {
    pub fn new(policy: Policy, queues: &[ClusterQueueFacts]) -> Played {
        let mut stage = Stage::new(NOW);
        stage.add([Input::Policy(policy.into()), namespace()]);
        stage.add([Input::Flavor(flavor(DEFAULT, &[]))]);
        for queue in queues {
            stage.add([Input::LocalQueue(local_queue(&queue.name))]);
            stage.add([Input::ClusterQueue(queue.clone())]);
        }
        Played { stage }
    }

    /// Adds facts and plays them to their end; every state keeps the invariants.
    pub fn with(&mut self, facts: impl IntoIterator<Item = Input>) -> &mut Played {
        self.stage.now = Time(self.stage.now.0 + 1_000);
        self.stage.add(facts);
        let mut wrong = Vec::new();
        self.stage.settle(|stage| wrong.extend(broken(stage)));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        self.stage.engine.recount();
        self.restarts_alike();
        self
    }

    /// A new engine that is told what is shown charges the same.
    pub fn restarts_alike(&self) {
        let mut other = Engine::new();
        other.step(self.stage.now, self.stage.shown());
        other.recount();
        assert_eq!(other.queues(), self.stage.engine.queues());
    }

    pub fn ends(&mut self, pod: &str) -> &mut Played {
        self.stage.drop_pod(&text(pod));
        self.with([])
    }

    pub fn node_of(&self, pod: &str) -> Option<String> {
        self.stage.pods[&text(pod)].node.as_ref().map(ToString::to_string)
    }

    /// What a queue uses of money, in cents.
    pub fn used(&self, queue: &str) -> i64 {
        let views = self.stage.engine.queues();
        let view = views.into_iter().find(|view| &*view.name == queue).expect("it exists");
        let money = view.quotas.iter().filter(|line| &*line.resource == USD_PER_HOUR);
        money.map(|line: &QuotaView| line.used).sum::<i64>() / usd(1)
    }

    pub fn waits(&self, workload: &str) -> (String, String) {
        let reason = view(&self.stage.engine, workload).reason.expect("it waits");
        (reason.code().to_owned(), reason.to_string())
    }

    pub fn price_of(&self, pod: &str) -> Option<MicroUsd> {
        self.stage.pods[&text(pod)].binding.as_ref().and_then(|note| note.price)
    }
}

pub fn ask(name: &str, queue: &str, gpus: i64) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)))
}

pub fn single(name: &str, queue: &str, gpus: i64) -> Input {
    Input::Pod(ask(name, queue, gpus))
}

pub fn urgent(name: &str, queue: &str, gpus: i64) -> Input {
    Input::Pod(PodFacts { priority: 10, ..ask(name, queue, gpus) })
}
