//! Quota of money: what work costs is taken from it. Facts are played on a stage, where every
//! effect is carried out at once.

use std::sync::Arc;

use capstan_core::explain::quantity::USD_PER_HOUR;
use capstan_core::explain::view::Change;
use capstan_core::model::input::{
    BindingNote, ClusterQueueFacts, GangRef, Input, PodPhase, PreemptWithin,
};
use capstan_core::money::MicroUsd;
use capstan_core::policy::{Policy, QuotaArgs};
use capstan_core::time::Time;
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, gang, group, in_queue, job, labels, node, nominal, pod,
    shape, text,
};
use capstan_tests::hand::view;

use self::played::{MUCH, NOW, Played, ask, packs, policy, priced, queue, single, urgent, usd};

mod others;
mod played;

#[test]
fn a_pod_takes_the_price_of_its_share_and_gives_it_back() {
    let mut played = Played::new(policy(), &[queue("main", None, 500)]);
    played.with([priced("n", 8, 800), single("a", "main", 2), single("b", "main", 3)]);
    assert_eq!((played.used("main"), played.price_of("b")), (500, Some(MicroUsd(usd(300)))));
    let flavors = &played.stage.pods[&text("a")].binding.as_ref().expect("bound").flavors;
    assert_eq!(flavors.get(USD_PER_HOUR), Some(&text(DEFAULT)));
    played.with([single("c", "main", 1)]);
    let words = "queue main has $0.00/h left, $1.00/h asked (flavor default)";
    assert_eq!(played.waits("c"), ("WaitingForQuota".to_owned(), words.to_owned()));
    played.ends("a");
    assert_eq!((played.used("main"), played.node_of("c")), (400, Some("n".to_owned())));
}

#[test]
fn what_costs_too_much_where_it_would_rather_be_goes_to_the_cheapest() {
    let mut played = Played::new(packs(), &[queue("main", None, 1_000)]);
    played.with([priced("dear", 8, 6_400), single("first", "main", 1)]);
    played.with([priced("cheap", 8, 800), priced("middle", 8, 1_600)]);
    assert_eq!(played.node_of("first").as_deref(), Some("dear"));
    played.with([single("second", "main", 1)]);
    assert_eq!(played.node_of("second").as_deref(), Some("cheap"));
    assert_eq!(played.used("main"), 900);
    played.with([single("third", "main", 2)]);
    let words = "queue main has $1.00/h left, $2.00/h asked (flavor default)";
    assert_eq!(played.waits("third").1, words);
}

#[test]
fn a_cheaper_node_that_comes_free_wakes_who_could_not_pay() {
    let mut played = Played::new(policy(), &[queue("main", None, 300), queue("rich", None, 900)]);
    played.with([priced("cheap", 1, 100), single("holder", "rich", 1)]);
    played.with([priced("dear", 1, 800), single("waits", "main", 1)]);
    let words = "queue main has $3.00/h left, $8.00/h asked (flavor default)";
    assert_eq!(played.waits("waits"), ("WaitingForQuota".to_owned(), words.to_owned()));
    played.ends("holder");
    assert_eq!(played.node_of("waits").as_deref(), Some("cheap"));
}

#[test]
fn a_price_that_falls_wakes_who_could_not_pay() {
    let mut played = Played::new(policy(), &[queue("main", None, 300)]);
    played.with([priced("n", 1, 800), single("waits", "main", 1)]);
    let words = "main can never have more than $3.00/h, $8.00/h asked (flavor default)";
    assert_eq!(played.waits("waits"), ("ExceedsMaxQuota".to_owned(), words.to_owned()));
    played.with([priced("n", 1, 250)]);
    assert_eq!((played.used("main"), played.node_of("waits").as_deref()), (250, Some("n")));
}

#[test]
fn an_unknown_price_is_no_place_in_a_queue_that_covers_money() {
    let plain = cluster_queue("plain", None, group(&[(DEFAULT, &[(GPU, nominal(MUCH))])]));
    let mut played = Played::new(policy(), &[queue("main", None, 900), plain]);
    played.with([Input::Node(node("n", &[(GPU, 8)]).into()), single("a", "main", 1)]);
    let (code, words) = played.waits("a");
    assert_eq!(code, "PriceUnknown");
    assert!(words.contains("price of 1 node that would take it"), "{words}");
    assert!(words.contains("capstan.sh/price"), "{words}");
    // Without a quota of money nobody minds.
    played.with([single("b", "plain", 1)]);
    assert_eq!(played.node_of("b").as_deref(), Some("n"));
    played.with([priced("n", 8, 800)]);
    assert_eq!((played.node_of("a").as_deref(), played.used("main")), (Some("n"), 100));
}

#[test]
fn what_was_charged_is_frozen_whatever_becomes_of_prices() {
    let mut played = Played::new(policy(), &[queue("main", None, 1_000)]);
    played.with([priced("n", 2, 800), single("a", "main", 1)]);
    played.with([priced("n", 2, 1_600)]);
    assert_eq!(
        (played.used("main"), view(&played.stage.engine, "a").per_hour),
        (400, Some(MicroUsd(usd(400))))
    );
    // Nobody knows a price any more.
    played.with([Input::Node(node("n", &[(GPU, 2)]).into())]);
    assert_eq!(played.used("main"), 400);
    played.ends("a");
    assert_eq!(played.used("main"), 0);
}

#[test]
fn who_was_bound_by_somebody_else_is_charged_what_the_node_costs_now() {
    let mut played = Played::new(policy(), &[queue("main", None, 1_000)]);
    let mut other = ask("other", "main", 1);
    (other.node, other.phase, other.bound_at) = (Some(text("n")), PodPhase::Running, Some(NOW));
    let charged = |played: &Played| {
        let views = played.stage.engine.queues();
        let lines = views[0].quotas.iter();
        let money = lines.filter(|line| &*line.resource == USD_PER_HOUR);
        money.map(|line| line.used / usd(1)).sum::<i64>()
    };
    let play = |played: &mut Played, facts: Vec<Input>| {
        played.stage.now = Time(played.stage.now.0 + 1_000);
        played.stage.add(facts);
        played.stage.settle(|_| {});
        played.stage.engine.recount();
        played.restarts_alike();
    };
    play(&mut played, vec![priced("n", 2, 800), Input::Pod(other.clone())]);
    assert_eq!(charged(&played), 400);
    play(&mut played, vec![priced("n", 2, 600)]);
    assert_eq!(charged(&played), 300);
    play(&mut played, vec![Input::Node(node("n", &[(GPU, 2)]).into())]);
    assert_eq!((charged(&played), view(&played.stage.engine, "other").unpriced), (0, 1));
    let note = BindingNote { price: Some(MicroUsd(usd(700))), ..BindingNote::default() };
    other.binding = Some(Arc::new(note));
    play(&mut played, vec![Input::Pod(other.clone())]);
    assert_eq!(charged(&played), 700);
    play(&mut played, vec![priced("n", 2, 600)]);
    assert_eq!(charged(&played), 700);
}

#[test]
fn a_price_that_the_author_of_a_pod_writes_is_no_price() {
    let mut played = Played::new(policy(), &[queue("main", None, 500)]);
    let mut free = ask("free", "main", 4);
    let note = BindingNote { price: Some(MicroUsd(0)), ..BindingNote::default() };
    free.binding = Some(Arc::new(note));
    played.with([priced("n", 8, 800), Input::Pod(free)]);
    assert_eq!((played.used("main"), played.price_of("free")), (400, Some(MicroUsd(usd(400)))));
}

#[test]
fn a_gang_pays_for_all_of_its_members_or_for_none() {
    let mut played = Played::new(policy(), &[queue("main", None, 700)]);
    played.with([priced("n", 8, 800), priced("m", 8, 1_600)]);
    let members = gang("g", 8, Some(8), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    played.with(members.iter().cloned().map(Input::Pod));
    let words = "main can never have more than $7.00/h, $8.00/h asked (flavor default)";
    assert_eq!((played.used("main"), played.waits("g").1.as_str()), (0, words));
    played.with([Input::ClusterQueue(queue("main", None, 800))]);
    assert_eq!((played.used("main"), played.node_of("g-7").as_deref()), (800, Some("n")));
}

#[test]
fn an_elastic_gang_begins_with_the_members_that_can_be_paid_for() {
    let mut played = Played::new(policy(), &[queue("main", None, 500)]);
    played.with([priced("n", 8, 800)]);
    let members = gang("g", 8, Some(2), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    played.with(members.iter().cloned().map(Input::Pod));
    let bound =
        |played: &Played| (0..8).filter(|at| played.node_of(&format!("g-{at}")).is_some()).count();
    assert_eq!((played.used("main"), bound(&played)), (500, 5));
    let told = view(&played.stage.engine, "g").reason.expect("some wait").to_string();
    assert!(told.contains("$0.00/h left, $1.00/h asked"), "{told}");
    // Extras join as money comes.
    played.with([Input::ClusterQueue(queue("main", None, 700))]);
    assert_eq!((played.used("main"), bound(&played)), (700, 7));
}

#[test]
fn extras_go_to_the_cheapest_node_where_others_are_too_dear() {
    let mut played = Played::new(packs(), &[queue("main", None, 1_000)]);
    played.with([priced("dear", 8, 6_400)]);
    let members = gang("g", 2, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    played.with([Input::Pod(members[0].clone())]);
    assert_eq!(played.used("main"), 800);
    played.with([priced("cheap", 8, 800), Input::Pod(members[1].clone())]);
    assert_eq!((played.used("main"), played.node_of("g-1").as_deref()), (900, Some("cheap")));
}

#[test]
fn a_resumed_job_holds_its_price_before_its_pods_exist() {
    let mut played = Played::new(policy(), &[queue("main", None, 300)]);
    let train = job("train", 3, &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    played.stage.add([priced("n", 8, 800), Input::Owner(train.clone())]);
    played.stage.step();
    let views = played.stage.engine.queues();
    let money = views[0].quotas.iter().find(|line| &*line.resource == USD_PER_HOUR);
    assert_eq!(money.expect("covered").used, usd(300));
    let admitted = played.stage.owners[&train.uid].admitted.as_ref().expect("resumed");
    assert_eq!(admitted.price, Some(MicroUsd(usd(300))));
    // The node gets dearer before they come: they are charged what was decided.
    played.with([priced("n", 8, 1_600)]);
    assert_eq!(played.used("main"), 300);
    assert_eq!(played.price_of("job-train-0-train-0"), Some(MicroUsd(usd(100))));
}

#[test]
fn a_member_that_died_leaves_its_price_to_the_next() {
    let mut played = Played::new(policy(), &[queue("main", None, 300)]);
    let members = gang("g", 3, Some(3), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    played.with([priced("n", 3, 300)]);
    played.with(members.iter().cloned().map(Input::Pod));
    assert_eq!(played.used("main"), 300);
    played.stage.drop_pod(&text("g-1"));
    played.stage.add([single("other", "main", 1)]);
    played.stage.settle(|_| {});
    assert_eq!(played.node_of("other"), None);
    let mut again = members[1].clone();
    (again.uid, again.name) = (text("g-1b"), text("g-1b"));
    played.with([Input::Pod(again)]);
    assert_eq!((played.used("main"), played.node_of("g-1b").as_deref()), (300, Some("n")));
}

#[test]
fn pod_sets_pay_together() {
    let mut played = Played::new(policy(), &[queue("main", None, 500)]);
    played.with([priced("n", 4, 400), priced("m", 4, 1_200)]);
    let wishes = in_queue(Some("main"));
    let mut all = gang("g", 2, Some(3), &shape(&[(GPU, 2)]), &wishes);
    let mut third = pod("g-2", &shape(&[(GPU, 1)]), &wishes);
    third.gang = GangRef { ..all[0].gang.clone() };
    all.push(third);
    // Each set by itself could be paid for on the cheap node; together one goes to the other.
    played.with(all.iter().cloned().map(Input::Pod));
    let (code, words) = played.waits("g");
    assert_eq!((code.as_str(), played.used("main")), ("WaitingForQuota", 0));
    assert!(words.contains("$5.00/h left, $7.00/h asked"), "{words}");
    played.with([Input::ClusterQueue(queue("main", None, 700))]);
    assert_eq!(played.used("main"), 700);
}

#[test]
fn a_set_does_not_spend_what_others_need_on_better_nodes() {
    let mut played = Played::new(packs(), &[queue("main", None, 800), queue("rich", None, 9_999)]);
    // In use, and so preferred.
    played.with([priced("dear", 4, 1_600), single("other", "rich", 2)]);
    let wishes = in_queue(Some("main"));
    let mut all = gang("g", 2, Some(3), &shape(&[(GPU, 1)]), &wishes);
    let mut third = pod("g-2", &shape(&[(GPU, 1), ("cpu", 1_000)]), &wishes);
    third.gang = GangRef { ..all[0].gang.clone() };
    all.push(third);
    let Input::Node(mut cheap) = priced("cheap", 4, 400) else { unreachable!("a node") };
    Arc::make_mut(&mut cheap).allocatable.insert(text("cpu"), 8_000);
    let mut main = queue("main", None, 800);
    main.groups.push(group(&[("hosts", &[("cpu", nominal(8_000))])]));
    played.with([Input::Flavor(flavor("hosts", &[])), Input::ClusterQueue(main)]);
    played.with([Input::Node(cheap)].into_iter().chain(all.into_iter().map(Input::Pod)));
    assert_eq!((played.used("main"), played.node_of("g-0").as_deref()), (300, Some("cheap")));
}

/// GPUs by kind of node, money in a group of its own or beside them.
fn two_kinds(apart: bool, spot: i64, demand: i64) -> ClusterQueueFacts {
    let gpus = |of: &'static str| (of, [(GPU, nominal(MUCH))]);
    let mut facts = match apart {
        true => {
            let (one, two) = (gpus("spot"), gpus("demand"));
            let mut facts = cluster_queue("main", None, group(&[(one.0, &one.1), (two.0, &two.1)]));
            let money = [(USD_PER_HOUR, nominal(usd(spot + demand)))];
            facts.groups.push(group(&[(DEFAULT, &money)]));
            facts
        }
        false => {
            let quota = |cents| [(GPU, nominal(MUCH)), (USD_PER_HOUR, nominal(usd(cents)))];
            let (one, two) = (quota(spot), quota(demand));
            cluster_queue("main", None, group(&[("spot", &one), ("demand", &two)]))
        }
    };
    facts.fungibility.next_when_borrowing = true;
    facts
}

fn of_kind(name: &str, kind: &str, gpus: i64, cents: i64) -> Input {
    let Input::Node(mut node) = priced(name, gpus, cents) else { unreachable!("a node") };
    Arc::make_mut(&mut node).labels.extend(labels(&[("kind", kind)]));
    Input::Node(node)
}

fn kinds() -> [Input; 2] {
    ["spot", "demand"].map(|kind| Input::Flavor(flavor(kind, &[("kind", kind)])))
}

#[test]
fn each_flavor_has_its_own_money() {
    let mut played = Played::new(policy(), &[two_kinds(false, 200, 900)]);
    played.with(kinds());
    played.with([of_kind("s", "spot", 8, 800), of_kind("d", "demand", 8, 2_400)]);
    played.with((0..4).map(|at| single(&format!("p{at}"), "main", 1)));
    let nodes: Vec<_> = (0..4).map(|at| played.node_of(&format!("p{at}"))).collect();
    let on = |name: &str| nodes.iter().filter(|node| node.as_deref() == Some(name)).count();
    assert_eq!((on("s"), on("d"), played.used("main")), (2, 2, 800));
}

#[test]
fn money_may_be_a_group_of_its_own() {
    let mut played = Played::new(policy(), &[two_kinds(true, 200, 300)]);
    played.with(kinds());
    played.with([of_kind("s", "spot", 2, 200), of_kind("d", "demand", 8, 2_400)]);
    played.with((0..4).map(|at| single(&format!("p{at}"), "main", 1)));
    let nodes: Vec<_> = (0..4).map(|at| played.node_of(&format!("p{at}"))).collect();
    let on = |name: &str| nodes.iter().filter(|node| node.as_deref() == Some(name)).count();
    assert_eq!((on("s"), on("d"), played.used("main")), (2, 1, 500));
    let (code, words) = played.waits("p3");
    assert_eq!(code, "WaitingForQuota");
    // On a node of either kind: the cheaper one could come free.
    assert!(words.contains("$0.00/h left, $1.00/h asked"), "{words}");
}

#[test]
fn money_may_be_covered_while_work_runs_and_no_longer() {
    let plain = cluster_queue("main", None, group(&[(DEFAULT, &[(GPU, nominal(MUCH))])]));
    let mut played = Played::new(policy(), std::slice::from_ref(&plain));
    played.with([priced("n", 8, 800), single("a", "main", 4)]);
    played.stage.add([Input::ClusterQueue(queue("main", None, 300))]);
    played.stage.settle(|_| {});
    played.stage.engine.recount();
    // Debt from outside: it runs on, and nothing else begins.
    assert_eq!(played.used("main"), 400);
    played.restarts_alike();
    played.stage.add([single("b", "main", 1)]);
    played.stage.settle(|_| {});
    assert_eq!(played.waits("b").0, "WaitingForQuota");
    played.with([Input::ClusterQueue(plain)]);
    assert_eq!(played.node_of("b").as_deref(), Some("n"));
}

#[test]
fn money_may_be_left_out_of_quota_by_configuration() {
    let mut played = Played::new(policy(), &[queue("main", None, 100)]);
    played.with([priced("n", 8, 800), single("a", "main", 1), single("b", "main", 1)]);
    assert_eq!(played.node_of("b"), None);
    let quota = QuotaArgs { excluded_prefixes: vec![text("capstan.sh/")], ..QuotaArgs::default() };
    played.stage.add([Input::Policy(Policy { quota, ..policy() }.into())]);
    played.stage.settle(|_| {});
    played.stage.engine.recount();
    assert_eq!(played.node_of("b").as_deref(), Some("n"));
    played.stage.add([Input::Policy(policy().into())]);
    played.stage.settle(|_| {});
    played.stage.engine.recount();
    assert_eq!(played.used("main"), 200);
}

#[test]
fn what_would_start_it_says_how_much_money() {
    let mut played = Played::new(policy(), &[queue("main", None, 300)]);
    played.with([priced("n", 8, 800), single("a", "main", 2), single("b", "main", 3)]);
    let waits = if played.node_of("a").is_none() { "a" } else { "b" };
    let now = played.stage.now;
    let told = played.stage.engine.explain_workload(now, "team", waits).expect("it is there");
    let raised = told.remedies.iter().find_map(|remedy| match &remedy.change {
        Change::RaiseQuota { resource, by, .. } => Some((resource.to_string(), *by)),
        _ => None,
    });
    assert_eq!(raised, Some((USD_PER_HOUR.to_owned(), usd(200))));
    let way = &told.in_the_way[0];
    assert_eq!((way.asked, way.left), (Some(usd(300)), Some(usd(100))));
}

/// Five GPUs of which the cheap node has four left, and the dear one all.
fn full_where_it_is_cheap(main: ClusterQueueFacts) -> Played {
    let mut played = Played::new(policy(), &[main, queue("rich", None, 9_999)]);
    played.with([priced("cheap", 8, 800), single("holder", "rich", 4)]);
    assert_eq!(played.node_of("holder").as_deref(), Some("cheap"));
    played.with([priced("dear", 8, 1_600), single("waits", "main", 5)]);
    played
}

#[test]
fn what_can_never_be_had_is_told_what_it_costs_now() {
    let mut played = full_where_it_is_cheap(queue("main", None, 300));
    let words = "main can never have more than $3.00/h, $10.00/h asked (flavor default)";
    assert_eq!(played.waits("waits"), ("ExceedsMaxQuota".to_owned(), words.to_owned()));
    // On the cheap node it could be had some day: that is not never.
    let mut played_later = full_where_it_is_cheap(queue("main", None, 600));
    let words = "queue main has $6.00/h left, $10.00/h asked (flavor default)";
    assert_eq!(played_later.waits("waits"), ("WaitingForQuota".to_owned(), words.to_owned()));
    for (played, codes) in
        [(&mut played, ["ExceedsMaxQuota"]), (&mut played_later, ["WaitingForQuota"])]
    {
        let now = played.stage.now;
        let told = played.stage.engine.explain_workload(now, "team", "waits").expect("it waits");
        let found: Vec<&str> = told.in_the_way.iter().map(|way| way.reason.code()).collect();
        assert_eq!((found, told.in_the_way[0].asked), (codes.to_vec(), Some(usd(1_000))));
    }
}

#[test]
fn pod_sets_are_told_what_they_cost_together_now() {
    let mut played = two_sets_full_where_it_is_cheap(600);
    let words = "queue main has $6.00/h left, $10.00/h asked (flavor default)";
    assert!(played.waits("g").1.ends_with(words), "{}", played.waits("g").1);
    played.with([Input::ClusterQueue(queue("main", None, 1_000))]);
    assert_eq!((played.used("main"), played.node_of("g-0").as_deref()), (1_000, Some("dear")));
}

/// The quota that is told to be raised, by resource.
fn raised(played: &mut Played, workload: &str) -> Vec<(String, i64)> {
    let now = played.stage.now;
    let told = played.stage.engine.explain_workload(now, "team", workload).expect("it waits");
    let amounts = told.remedies.iter().find_map(|remedy| match &remedy.change {
        Change::RaiseQuota { resource, by, with, .. } => {
            let others = with.iter().map(|(resource, by)| (resource.to_string(), *by));
            Some([(resource.to_string(), *by)].into_iter().chain(others).collect())
        }
        _ => None,
    });
    amounts.unwrap_or_default()
}

#[test]
fn the_raise_that_is_told_is_to_what_it_costs_now() {
    let money = |cents| vec![(USD_PER_HOUR.to_owned(), usd(cents))];
    // Too little for either node, and for the dear one.
    for has in [300, 600] {
        let mut played = full_where_it_is_cheap(queue("main", None, has));
        assert_eq!(raised(&mut played, "waits"), money(1_000 - has), "{has}");
        played.with([Input::ClusterQueue(queue("main", None, 999))]);
        assert_eq!(played.node_of("waits"), None);
        played.with([Input::ClusterQueue(queue("main", None, 1_000))]);
        assert_eq!(played.node_of("waits").as_deref(), Some("dear"));
    }
    for has in [300, 600] {
        let mut played = two_sets_full_where_it_is_cheap(has);
        assert_eq!(raised(&mut played, "g"), money(1_000 - has), "{has}");
    }
}

#[test]
fn money_is_raised_with_the_devices_that_are_short_as_well() {
    let gpus = |gpus, cents| {
        let quota = [(GPU, nominal(gpus)), (USD_PER_HOUR, nominal(usd(cents)))];
        cluster_queue("main", None, group(&[(DEFAULT, &quota)]))
    };
    let mut played = full_where_it_is_cheap(gpus(2, 300));
    let both = [(USD_PER_HOUR.to_owned(), usd(700)), (GPU.to_owned(), 3)];
    assert_eq!(raised(&mut played, "waits"), both);
    played.with([Input::ClusterQueue(gpus(5, 1_000))]);
    assert_eq!(played.node_of("waits").as_deref(), Some("dear"));
}

#[test]
fn the_smaller_raise_is_told_where_lower_work_leaves_the_cheap_node() {
    let main = |cents| {
        let mut main = queue("main", None, cents);
        main.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        main
    };
    let mut played = Played::new(policy(), &[main(400)]);
    played.with([priced("cheap", 8, 800), single("lower", "main", 4)]);
    played.with([priced("dear", 8, 1_600), urgent("waits", "main", 5)]);
    // At least it costs $5.00; on the dear node, beside the other, $14.00.
    assert_eq!(raised(&mut played, "waits"), [(USD_PER_HOUR.to_owned(), usd(100))]);
    played.with([Input::ClusterQueue(main(500))]);
    assert_eq!(played.node_of("waits").as_deref(), Some("cheap"));
}

/// A gang of two pod sets, for which the cheap node has no room.
fn two_sets_full_where_it_is_cheap(cents: i64) -> Played {
    let queues = [queue("main", None, cents), queue("rich", None, 9_999)];
    let mut played = Played::new(policy(), &queues);
    played.with([priced("cheap", 8, 800), single("holder", "rich", 7)]);
    let wishes = in_queue(Some("main"));
    let mut all = gang("g", 1, Some(2), &shape(&[(GPU, 2)]), &wishes);
    let mut second = pod("g-1", &shape(&[(GPU, 3)]), &wishes);
    second.gang = GangRef { ..all[0].gang.clone() };
    all.push(second);
    played.with([priced("dear", 8, 1_600)].into_iter().chain(all.into_iter().map(Input::Pod)));
    played
}

#[test]
fn who_asks_for_it_as_for_a_device_waits_for_a_node_that_has_it() {
    let mut played = Played::new(policy(), &[queue("main", None, 300)]);
    let odd = pod("odd", &shape(&[(GPU, 1), (USD_PER_HOUR, 1)]), &in_queue(Some("main")));
    played.with([priced("n", 8, 800), Input::Pod(odd)]);
    assert_eq!((played.used("main"), played.waits("odd").0.as_str()), (0, "WaitingForCapacity"));
}
