//! Work that runs at a price that nobody recorded counts for the budget of its queue by what its
//! node costs. Facts are fed by hand and the clock is moved.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::calendar::Period;
use capstan_core::explain::view::Account;
use capstan_core::model::input::{
    BindingNote, CapacityType, ClusterQueueFacts, Enforcement, Input, PodFacts, PodPhase, Price,
    PriceSource, SpendingLimit, SpentFacts,
};
use capstan_core::money::MicroUsd;
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, local_queue, namespace, node, nominal,
    pod, shape, text,
};
use capstan_tests::hand::{binds, view};

/// 26 November 2026, midnight UTC.
const MIDNIGHT: Time = Time(1_795_651_200_000);

fn at(minutes: i64) -> Time {
    MIDNIGHT.plus(Span::minutes(minutes))
}

fn dollars(amount: i64) -> MicroUsd {
    MicroUsd(amount * 1_000_000)
}

/// A node of eight GPUs that costs so many dollars an hour.
fn costs(per_hour: Option<i64>) -> Input {
    let mut node = node("n", &[(GPU, 8)]);
    node.capacity_type = CapacityType::OnDemand;
    let price = |usd| Price { per_hour: dollars(usd), source: PriceSource::Annotation };
    node.price = per_hour.map(price);
    Input::Node(node.into())
}

/// A queue of eight GPUs that may spend twenty dollars a day.
fn ground(per_hour: Option<i64>) -> Vec<Input> {
    let spending = SpendingLimit {
        usd: Some(dollars(20)),
        gpu_seconds: None,
        period: Period::Day,
        enforcement: Enforcement::Hard,
    };
    let quota = group(&[(DEFAULT, &[(GPU, nominal(8))])]);
    let queue = cluster_queue("main", None, quota);
    let queue = ClusterQueueFacts { spending: Some(spending), ..queue };
    vec![
        namespace(),
        Input::Flavor(flavor(DEFAULT, &[])),
        costs(per_hour),
        Input::LocalQueue(local_queue("main")),
        Input::ClusterQueue(queue),
    ]
}

fn job(name: &str, gpus: i64) -> PodFacts {
    pod(name, &shape(&[(GPU, gpus)]), &in_queue(Some("main")))
}

/// Found running since then; what was written on it says no price, or nothing was.
fn found(pod: PodFacts, since: Time, written: bool) -> Input {
    let note = BindingNote {
        flavors: Arc::new([(text(GPU), text(DEFAULT))].into()),
        admitted_at: Some(since),
        price: None,
        workload: None,
        queue: None,
        began_with: None,
    };
    Input::Pod(PodFacts {
        node: Some(text("n")),
        phase: PodPhase::Running,
        bound_at: Some(since),
        binding: written.then(|| Arc::new(note)),
        ..pod
    })
}

fn account(engine: &Engine, now: Time) -> Account {
    let mut view = engine.queues().remove(0);
    view.advance(now);
    *view.spending.expect("it has a budget")
}

/// What is spent by then, what is spent an hour, and at how many prices that nobody recorded, or
/// that nobody knows.
fn spends(engine: &Engine, now: Time) -> (MicroUsd, MicroUsd, (u32, u32)) {
    let account = account(engine, now);
    let rate = account.rate();
    (account.usd(), rate.per_hour, (rate.assumed, rate.unpriced))
}

#[test]
fn who_bears_no_price_is_charged_what_its_node_costs_at_the_time() {
    for written in [true, false] {
        let mut engine = Engine::new();
        let mut facts = ground(Some(16));
        facts.push(found(job("first", 4), at(600), written));
        engine.step(at(660), facts);
        // Half of the node for an hour.
        assert_eq!(spends(&engine, at(660)), (dollars(8), dollars(8), (1, 0)), "{written}");
        engine.step(at(690), vec![costs(Some(32))]);
        assert_eq!(spends(&engine, at(690)), (dollars(12), dollars(16), (1, 0)), "{written}");
        engine.recount();
        // It ends sooner now, and nothing new begins then.
        assert_eq!(account(&engine, at(690)).runs_out(), Some(at(720)));
        let output = engine.step(at(720), vec![Input::Pod(job("second", 1))]);
        assert!(binds(&output).is_empty());
        let reason = view(&engine, "second").reason.expect("it waits").to_string();
        assert!(reason.contains("$20.00 a day, is spent ($20.00)"), "{reason}");
        // What it costs from then on nobody knows; what it did stays spent.
        engine.step(at(750), vec![costs(None)]);
        assert_eq!(spends(&engine, at(780)), (dollars(28), MicroUsd(0), (0, 1)), "{written}");
        engine.step(at(780), vec![costs(Some(16))]);
        assert_eq!(spends(&engine, at(780)), (dollars(28), dollars(8), (1, 0)), "{written}");
        engine.step(at(840), vec![Input::PodGone(text("first"))]);
        assert_eq!(spends(&engine, at(900)), (dollars(36), MicroUsd(0), (0, 0)), "{written}");
        engine.recount();
    }
}

#[test]
fn a_new_engine_goes_on_from_what_was_written() {
    let mut engine = Engine::new();
    let first = || found(job("first", 4), at(600), true);
    let mut facts = ground(Some(16));
    facts.push(first());
    engine.step(at(660), facts);
    engine.step(at(690), vec![costs(Some(32))]);
    let old = account(&engine, at(700));
    let status = Input::Spent(SpentFacts {
        cluster_queue: text("main"),
        period_start: old.period().0,
        usd: old.usd(),
        gpu_seconds: old.gpu_seconds(),
        as_of: old.as_of(),
    });
    let mut facts = ground(Some(32));
    facts.extend([status, first()]);
    let mut fresh = Engine::new();
    fresh.step(at(710), facts);
    let (usd, per_hour, prices) = spends(&fresh, at(710));
    assert_eq!((per_hour, prices), (dollars(16), (1, 0)));
    let lost = account(&engine, at(710)).usd().0 - usd.0;
    assert!((0..=1).contains(&lost), "{usd}, {lost} lost");
    fresh.recount();
}
