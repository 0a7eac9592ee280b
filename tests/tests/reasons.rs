//! What is told of work that waits, or that left, is what kept it or was in the way: not room where
//! room would not help. Fed by hand.

use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::model::input::{
    AccessModes, ClaimUse, Input, Kin, LabelSelector, Neighbours, NodeFacts, Operator,
    PeerSelector, PeerTerm, PodFacts, PodShape, PodVolumes, PreemptWithin, Requirement, SliceWish,
    Spread, StorageFact, TopologyWish, Wishes,
};
use capstan_core::plan::Outcome;
use capstan_core::time::Time;
use capstan_tests::disks::{claim, class, key};
use capstan_tests::facts::{
    GPU, TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, labels, local_queue,
    namespace, node, nominal, pod, text,
};
use capstan_tests::hand::{binds, bound, view};

const NOW: Time = Time(1_000_000);

const ZONE: &str = "zone";

/// A node of a zone.
fn in_zone(name: &str, zone: &str, gpus: i64) -> NodeFacts {
    let mut facts = node(name, &[("cpu", 64_000), (GPU, gpus)]);
    facts.labels.insert(text(ZONE), text(zone));
    facts
}

/// What a pod with GPUs and this label wants of the pods around it.
fn shape(own: &str, gpus: i64, wants: Neighbours) -> Arc<PodShape> {
    let kin = Kin { namespace: text(TEAM), labels: labels(&[("app", own)]) };
    Arc::new(PodShape {
        requests: amounts(&[(GPU, gpus)]),
        kin: Some(Arc::new(kin)),
        neighbours: (wants != Neighbours::default()).then(|| Arc::new(wants)),
        ..PodShape::default()
    })
}

/// Every pod with the label.
fn labelled() -> LabelSelector {
    vec![Requirement { key: text("app"), operator: Operator::In, values: vec![text("x")] }]
}

/// A pod with one GPU and a claim.
fn using(name: &str) -> Arc<PodShape> {
    let claims = vec![ClaimUse { claim: key(name), made_for: None }];
    Arc::new(PodShape {
        requests: amounts(&[(GPU, 1)]),
        volumes: Some(Arc::new(PodVolumes { claims, ..PodVolumes::default() })),
        ..PodShape::default()
    })
}

/// Why a workload waits that comes to this ground.
fn told(ground: Vec<Input>, pods: Vec<PodFacts>, name: &str) -> String {
    let mut engine = Engine::new();
    let facts = ground.into_iter().chain(pods.into_iter().map(Input::Pod)).collect();
    engine.step(NOW, facts);
    view(&engine, name).reason.expect("it waits").to_string()
}

fn nodes(all: &[(&str, &str, i64)]) -> Vec<Input> {
    let facts = all.iter().map(|(name, zone, gpus)| in_zone(name, zone, *gpus));
    facts.map(|facts| Input::Node(facts.into())).collect()
}

/// Wishes for this topology.
fn within(topology: TopologyWish) -> Arc<Wishes> {
    Arc::new(Wishes { topology, ..Wishes::clone(&in_queue(None)) })
}

/// A gang of four that spreads over at least so many zones.
fn four_by_zone(min_domains: u32, wishes: &Arc<Wishes>) -> Vec<PodFacts> {
    let spread = Spread {
        key: text(ZONE),
        max_skew: 1,
        min_domains,
        labels: Some(labelled()),
        required: true,
        honors_affinity: true,
        honors_taints: false,
    };
    let member = shape("x", 1, Neighbours { spread: vec![spread], ..Neighbours::default() });
    gang("g", 4, None, &member, wishes)
}

#[test]
fn what_no_room_would_open_is_told_before_room() {
    let pods = four_by_zone(4, &in_queue(None));
    // Two of three zones are full as well; the third has three GPUs left.
    let says = told(nodes(&[("a", "a", 1), ("b", "b", 1), ("c", "c", 4)]), pods, "g");
    let words = "3 of 4 pods fit; no node takes the next: its zone would be further ahead than \
                 maxSkew allows on all 3; 0/3 nodes are available: ";
    assert!(says.starts_with(words), "{says}");
}

#[test]
fn a_node_that_only_lacks_room_is_told_before_what_others_refuse_for() {
    let pods = four_by_zone(1, &in_queue(None));
    // Zone a is full with one, so zone b may have two and has room for more.
    let says = told(nodes(&[("a", "a", 1), ("b", "b", 4)]), pods, "g");
    let words = "3 of 4 pods fit; the next needs 1 nvidia.com/gpu, the fullest match a has 0 left";
    assert!(says.starts_with(words), "{says}");
}

#[test]
fn a_level_that_is_only_preferred_keeps_nobody_waiting() {
    // More hosts than are looked at one by one, none of which takes members of two zones.
    let zones = ["a", "b"].into_iter().cycle();
    let host =
        |(at, zone): (usize, &str)| Input::Node(in_zone(&format!("n{at:02}"), zone, 4).into());
    let mut facts: Vec<Input> = (0..40).zip(zones).map(host).collect();
    let preferred = Some(text("kubernetes.io/hostname"));
    let wishes = within(TopologyWish { preferred, ..TopologyWish::default() });
    facts.extend(four_by_zone(1, &wishes).into_iter().map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!(binds(&output).len(), 4);
}

/// All on one host.
fn on_one_host() -> Arc<Wishes> {
    let required = Some(text("kubernetes.io/hostname"));
    within(TopologyWish { required, ..TopologyWish::default() })
}

#[test]
fn members_that_spread_are_counted_where_all_of_them_have_to_be() {
    let pods = four_by_zone(1, &on_one_host());
    let says = told(nodes(&[("a", "a", 4), ("b", "b", 4)]), pods, "g");
    let words = "no one kubernetes.io/hostname holds 4 pods; a holds most, 1; there no node takes \
                 the next: its zone would be further ahead than maxSkew allows on all 1";
    assert_eq!(says, words);
}

#[test]
fn members_that_spread_and_fit_one_by_one_say_that_they_do_not_in_slices() {
    let slices = Some(SliceWish { level: text("kubernetes.io/hostname"), size: 4 });
    let pods = four_by_zone(1, &within(TopologyWish { slices, ..TopologyWish::default() }));
    let says = told(nodes(&[("a", "a", 4), ("b", "b", 4)]), pods, "g");
    let words = "4 pods fit one by one, not in slices of 4 pods, each within one \
                 kubernetes.io/hostname";
    assert_eq!(says, words);
}

/// Every pod with the label that is in the zone.
fn near() -> PeerTerm {
    PeerTerm {
        key: text(ZONE),
        peers: PeerSelector {
            namespaces: vec![text(TEAM)],
            namespace_selector: None,
            labels: Some(labelled()),
        },
    }
}

#[test]
fn who_waits_for_others_of_the_gang_is_not_told_that_those_are_missing() {
    let wishes = on_one_host();
    let wants = Neighbours { affinity: vec![near()], ..Neighbours::default() };
    let mut pods = gang("g", 10, None, &shape("y", 1, wants), &wishes);
    pods[0].shape = shape("x", 1, Neighbours::default());
    let says = told(nodes(&[("a", "a", 8), ("b", "b", 8)]), pods, "g");
    let words = "no one kubernetes.io/hostname holds 9 pods; a holds most, 8";
    assert!(says.ends_with(words), "{says}");
}

#[test]
fn members_of_two_shapes_that_spread_are_counted_each_for_itself() {
    let mut pods = four_by_zone(1, &in_queue(None));
    let large = PodShape { requests: amounts(&[(GPU, 2)]), ..PodShape::clone(&pods[0].shape) };
    pods[0].shape = Arc::new(large);
    // The large one and one more in zone a, one in zone b, which is full then.
    let says = told(nodes(&[("a", "a", 8), ("b", "b", 1)]), pods, "g");
    let words = ", beside 1 pod of its gang: 2 of 3 pods fit; the next needs 1 nvidia.com/gpu, the \
                 fullest match b has 0 left beside them";
    assert!(says.contains(words), "{says}");
}

#[test]
fn members_that_share_a_claim_are_counted_together() {
    let ground = |alone| {
        let mut shared = claim("c");
        if alone {
            shared.modes = AccessModes::ONE_POD;
        }
        let storage = [class(Some("disks")), StorageFact::Claim(shared)].map(Input::Storage);
        nodes(&[("a", "a", 1), ("b", "b", 1)]).into_iter().chain(storage).collect::<Vec<_>>()
    };
    let pods = || gang("g", 2, None, &using("c"), &in_queue(None));
    let says = told(ground(true), pods(), "g");
    assert!(says.starts_with("1 of 2 pods fit; "), "{says}");
    let says = told(ground(false), pods(), "g");
    let words = "1 of 2 pods fit; the next needs 1 nvidia.com/gpu, the fullest match ";
    assert!(says.starts_with(words), "{says}");
    assert!(says.contains("1 node(s) didn't find available persistent volumes to bind"), "{says}");
}

/// Who leaves for a pod of higher priority, and what is told of it.
fn stopped(ground: Vec<Input>, there: &[(PodFacts, &str)], urgent: &PodFacts) -> (String, String) {
    let mut engine = Engine::new();
    let mut facts = ground;
    facts.extend(there.iter().map(|(pod, node)| bound(pod, node)));
    engine.step(NOW, facts);
    let urgent = PodFacts { priority: 9, ..urgent.clone() };
    let output = engine.step(Time(NOW.0 + 1_000), vec![Input::Pod(urgent)]);
    let stops = output.report.outcomes.into_iter().filter_map(|it| match it.outcome {
        Outcome::Preempting(victims) => Some(victims),
        _ => None,
    });
    let stops: Vec<_> = stops.flatten().collect();
    let [one] = &stops[..] else { panic!("one leaves: {stops:?}") };
    (one.victim.to_string(), one.because())
}

#[test]
fn who_leaves_for_a_rule_is_told_that_rule_and_not_its_room() {
    let alone = Neighbours { anti_affinity: vec![near()], ..Neighbours::default() };
    let hermit = pod("hermit", &shape("y", 1, alone), &in_queue(None));
    let other = pod("other", &shape("y", 1, Neighbours::default()), &in_queue(None));
    let urgent = pod("urgent", &shape("x", 2, Neighbours::default()), &in_queue(None));
    let ground = nodes(&[("a", "a", 1), ("b", "a", 3)]);
    let there = [(hermit, "a"), (other.clone(), "b")];
    let (victim, because) = stopped(ground, &there, &urgent);
    let words = "cannot go to b while it runs: 1 pod near whose anti-affinity excludes it; \
                 priority 0 < 9";
    assert_eq!((victim.as_str(), because.as_str()), ("team/hermit", words));
    // Where it is the room that is needed, that is told as ever.
    let (victim, because) = stopped(nodes(&[("a", "a", 2)]), &[(other, "a")], &urgent);
    let words = "needs its room, 1 GPU; priority 0 < 9";
    assert_eq!((victim.as_str(), because.as_str()), ("team/other", words));
}

/// As things are all nodes are full, and once others have left members are not searched for in
/// every order on so many nodes: that is told, or it would be the cluster that says no.
#[test]
fn where_the_search_ends_once_others_have_left_it_says_so() {
    let apart = PeerTerm { key: text("rack"), ..near() };
    let (affinity, anti_affinity) = (vec![near()], vec![apart]);
    let wants = Neighbours { affinity, anti_affinity, ..Neighbours::default() };
    let waiting = || {
        let pods = gang("g", 5, None, &shape("x", 1, wants.clone()), &in_queue(None));
        pods.into_iter().map(|pod| PodFacts { priority: 9, ..pod })
    };
    // Five in a zone have room, and want to be in one; but two of its nodes are in one rack, of
    // which they keep off each other.
    for (zones, ends) in [(2, false), (64, true)] {
        let count = zones * 5;
        let name = |at: u32| format!("n{at:03}");
        let nodes = (0..count).map(|at| {
            let mut facts = in_zone(&name(at), &(at / 5).to_string(), 1);
            let rack = at - u32::from(at % 5 == 4);
            facts.labels.insert(text("rack"), text(rack));
            facts
        });
        let mut facts: Vec<Input> = nodes.map(|facts| Input::Node(facts.into())).collect();
        let low = gang("low", count, None, &shape("y", 1, Neighbours::default()), &in_queue(None));
        facts.extend(low.iter().zip(0..).map(|(pod, at)| bound(pod, &name(at))));
        let says = told(facts, waiting().collect(), "g");
        let ended = "Places are searched for in every order on up to 256 nodes";
        assert_eq!(says.contains(ended), ends, "{zones} zones: {says}");
        assert!(says.contains("nvidia.com/gpu"), "{says}");
    }
}

/// Two roles that must be on one host, and a queue of flavors of one host each: either role fits
/// into any of them, and both into the last alone.
fn both_on_the_last(flavors: usize) -> (Vec<Input>, Vec<PodFacts>) {
    let names: Vec<String> = (0..flavors).map(|at| format!("f{at}")).collect();
    let quota = [(GPU, nominal(9))];
    let listed: Vec<_> = names.iter().map(|name| (name.as_str(), &quota[..])).collect();
    let queue = cluster_queue("q", None, group(&listed));
    let mut ground = vec![namespace(), Input::ClusterQueue(queue)];
    ground.push(Input::LocalQueue(local_queue("q")));
    for (at, name) in names.iter().enumerate() {
        ground.push(Input::Flavor(flavor(name, &[(ZONE, name)])));
        let gpus = if at + 1 == flavors { 2 } else { 1 };
        ground.push(Input::Node(in_zone(name, name, gpus).into()));
    }
    let wishes = Wishes { queue: Some(text("q")), ..Wishes::clone(&on_one_host()) };
    let role = |own| shape(own, 1, Neighbours::default());
    let mut pods = gang("g", 2, None, &role("x"), &Arc::new(wishes));
    pods[1].shape = role("y");
    (ground, pods)
}

#[test]
fn where_not_all_choices_of_flavors_are_looked_at_it_says_so() {
    // Of 81, and of 400 choices the last: those that one look leaves out the next ones find.
    for flavors in [9, 20] {
        let (mut facts, pods) = both_on_the_last(flavors);
        facts.extend(pods.into_iter().map(Input::Pod));
        assert_eq!(binds(&Engine::new().step(NOW, facts)).len(), 2, "{flavors}");
    }
    // There is none.
    let ended = "The search ended after 64 choices of members and flavors: one may fit";
    for (flavors, cut) in [(8, false), (9, true)] {
        let (mut ground, pods) = both_on_the_last(flavors);
        let last = format!("f{}", flavors - 1);
        ground.push(Input::Node(in_zone(&last, &last, 1).into()));
        let says = told(ground, pods, "g");
        assert_eq!(says.contains(ended), cut, "{flavors}: {says}");
    }
}

/// The same two roles, where a host of one GPU is each flavor's and lower work of the queue has it:
/// no choice of flavors holds both, whoever leaves.
fn held_by_lower(flavors: usize) -> (Vec<Input>, Vec<PodFacts>) {
    let (mut ground, mut pods) = both_on_the_last(flavors);
    for fact in &mut ground {
        if let Input::ClusterQueue(queue) = fact {
            queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        }
    }
    let last = format!("f{}", flavors - 1);
    ground.push(Input::Node(in_zone(&last, &last, 1).into()));
    for at in 0..flavors {
        let own = shape("z", 1, Neighbours::default());
        let low = pod(&format!("low-{at}"), &own, &in_queue(Some("q")));
        ground.push(bound(&low, &format!("f{at}")));
    }
    pods.iter_mut().for_each(|pod| pod.priority = 9);
    (ground, pods)
}

#[test]
fn where_victims_are_not_looked_for_with_all_choices_of_flavors_it_says_so() {
    let ended = "The search ended after 32 choices of members and flavors: one may fit";
    for (flavors, cut) in [(5, false), (6, true)] {
        let (ground, pods) = held_by_lower(flavors);
        let says = told(ground, pods, "g");
        assert_eq!(says.contains(ended), cut, "{flavors}: {says}");
    }
}

/// More nodes would not help any more: autoscalers that go by what is said would build some for
/// nothing.
#[test]
fn who_waits_for_nodes_says_so_no_longer_once_others_have_its_quota() {
    // The queue has more of a flavor whose nodes the gang may not use, or no other flavor; the gang
    // starts whole, or two of it run.
    for (others, min, run) in [(0, None, 0), (9, None, 0), (0, Some(1), 2), (9, Some(1), 2)] {
        let (six, more) = ([(GPU, nominal(6))], [(GPU, nominal(others))]);
        let listed = group(&[("a", &six), ("b", &more)]);
        let mut facts = nodes(&[("n1", "a", 4), ("n2", "a", 1), ("n3", "b", 1)]);
        facts.extend(["a", "b"].map(|name| Input::Flavor(flavor(name, &[(ZONE, name)]))));
        facts.push(namespace());
        facts.push(Input::ClusterQueue(cluster_queue("q", None, listed)));
        facts.push(Input::LocalQueue(local_queue("q")));
        let on = |gpus| {
            let node_selector = labels(&[(ZONE, "a")]);
            let requests = amounts(&[(GPU, gpus)]);
            Arc::new(PodShape { requests, node_selector, ..PodShape::default() })
        };
        let gang = gang("g", 3, min, &on(2), &in_queue(Some("q")));
        facts.extend(gang.into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        assert_eq!(binds(&engine.step(NOW, facts)).len(), run);
        let kind = |engine: &Engine| view(engine, "g").reason.expect("it waits").kind();
        assert_eq!(kind(&engine), "nodes");
        let other = Input::Pod(pod("k", &on(1), &in_queue(Some("q"))));
        assert_eq!(binds(&engine.step(NOW, vec![other])).len(), 1);
        assert_eq!(kind(&engine), "quota", "{others} {min:?}: {:?}", view(&engine, "g").reason);
    }
}

/// Rows of what is in a workload's way that comes to this ground: where, asked and left.
type Rows = Vec<(String, Option<i64>, Option<i64>)>;

fn in_the_way(ground: Vec<Input>, pods: Vec<PodFacts>, name: &str) -> Rows {
    let mut engine = Engine::new();
    let facts = ground.into_iter().chain(pods.into_iter().map(Input::Pod)).collect();
    engine.step(NOW, facts);
    let explained = engine.explain_workload(NOW, TEAM, name).expect("it waits");
    engine.recount();
    let rows = explained.in_the_way.into_iter();
    rows.map(|row| (row.reason.place(), row.asked, row.left)).collect()
}

fn row(place: &str, asked: i64, left: i64) -> (String, Option<i64>, Option<i64>) {
    (place.to_owned(), Some(asked), Some(left))
}

/// A queue whose cores and GPUs are of two groups, on a node that has more of both. Its work of
/// higher priority may stop others.
fn two_groups(cpu: i64, gpus: i64) -> Vec<Input> {
    let mut queue = cluster_queue("q", None, group(&[("host", &[("cpu", nominal(cpu))])]));
    queue.groups.push(group(&[("gpus", &[(GPU, nominal(gpus))])]));
    queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut ground = nodes(&[("n", "a", 16)]);
    ground.extend(["host", "gpus"].map(|name| Input::Flavor(flavor(name, &[]))));
    ground.extend([namespace(), Input::ClusterQueue(queue), Input::LocalQueue(local_queue("q"))]);
    ground
}

/// A pod of that queue that asks so much.
fn asking(name: &str, cpu: i64, gpus: i64) -> PodFacts {
    let requests = amounts(&[("cpu", cpu), (GPU, gpus)]);
    pod(name, &Arc::new(PodShape { requests, ..PodShape::default() }), &in_queue(Some("q")))
}

const CORES: &str = "cpu: the most that q can have, host";
const GPUS: &str = "GPUs: the most that q can have, gpus";

#[test]
fn every_group_that_is_short_is_in_the_way() {
    let (cores, gpus) = (row(CORES, 6_000, 4_000), row(GPUS, 4, 2));
    let rows = [
        (4_000, 2, vec![cores.clone(), gpus.clone()]),
        (6_000, 2, vec![gpus]),
        (4_000, 4, vec![cores]),
    ];
    for (own_cpu, own_gpus, found) in rows {
        let ground = two_groups(own_cpu, own_gpus);
        assert_eq!(in_the_way(ground, vec![asking("w", 6_000, 4)], "w"), found);
    }
}

#[test]
fn a_group_that_others_would_leave_to_it_is_not_in_the_way() {
    let short = row("GPUs: q, gpus", 4, 0);
    for (priority, more) in [(0, vec![short]), (9, Vec::new())] {
        let mut ground = two_groups(4_000, 4);
        ground.push(bound(&asking("low", 1_000, 4), "n"));
        let waits = PodFacts { priority, ..asking("w", 6_000, 4) };
        let found = [vec![row(CORES, 6_000, 4_000)], more].concat();
        assert_eq!(in_the_way(ground, vec![waits], "w"), found, "priority {priority}");
    }
}

#[test]
fn pod_sets_that_lack_the_same_flavors_are_told_of_each_once() {
    let mut pods = gang("g", 2, None, &asking("g", 6_000, 3).shape, &in_queue(Some("q")));
    pods[1].shape = asking("g", 6_000, 5).shape;
    let found = in_the_way(two_groups(4_000, 2), pods, "g");
    assert_eq!(found, [row(CORES, 12_000, 4_000), row(GPUS, 8, 2)]);
}

#[test]
fn every_pod_set_that_is_short_is_in_the_way_with_what_it_asks() {
    // Each set is for nodes of one flavor, and the other one is told what it lacks, too.
    let (two, four) = ([(GPU, nominal(2))], [(GPU, nominal(4))]);
    let listed = group(&[("a", &two), ("b", &four)]);
    let mut ground = nodes(&[("n1", "a", 8), ("n2", "b", 8)]);
    ground.extend(["a", "b"].map(|name| Input::Flavor(flavor(name, &[(ZONE, name)]))));
    ground.push(namespace());
    ground.push(Input::ClusterQueue(cluster_queue("q", None, listed)));
    ground.push(Input::LocalQueue(local_queue("q")));
    let on = |zone, gpus| {
        let node_selector = labels(&[(ZONE, zone)]);
        let requests = amounts(&[(GPU, gpus)]);
        Arc::new(PodShape { requests, node_selector, ..PodShape::default() })
    };
    let mut pods = gang("g", 2, None, &on("a", 3), &in_queue(Some("q")));
    pods[1].shape = on("b", 5);
    let mut found = in_the_way(ground, pods, "g");
    found.retain(|(_, asked, _)| asked.is_some());
    found.sort();
    let most = |flavor| format!("GPUs: the most that q can have, {flavor}");
    assert_eq!(found, [row(&most("a"), 3, 2), row(&most("b"), 5, 4)]);
}
