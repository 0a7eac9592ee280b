//! For whom others are stopped: what a running gang lacks, members that are work of their own,
//! nobody above a minimum, and own work that is in the way; and what a gang counts for beside lone
//! pods. Each test feeds facts by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::Engine;
use capstan_core::calendar::Period;
use capstan_core::model::input::{
    BudgetFacts, Enforcement, EvictionNote, Held, HostPort, Input, PodFacts, PodPhase, PodShape,
    PreemptReclaim, PreemptWithin, SpendingLimit,
};
use capstan_core::plan::{Action, EffectResult, PreemptionReason, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, TEAM, amounts, cluster_queue, flavor, gang, group, in_queue, local_queue,
    namespace, node, nominal, pod, shape, text,
};
use capstan_tests::hand::{answer, binds, bound, evicted, gpu_node, one_queue, view};

const NOW: Time = Time(1_000_000);

/// A gang of pods of one GPU, whose priority is 10.
fn high_gang(pods: u32, least: u32, queue: Option<&str>) -> Vec<PodFacts> {
    let mut members = gang("g", pods, Some(least), &shape(&[(GPU, 1)]), &in_queue(queue));
    members.iter_mut().for_each(|member| member.priority = 10);
    members
}

/// A pod of so many GPUs, with a priority.
fn single(name: &str, gpus: i64, queue: Option<&str>, priority: i32) -> PodFacts {
    PodFacts { priority, ..pod(name, &shape(&[(GPU, gpus)]), &in_queue(queue)) }
}

/// A node of two GPUs: of a gang of two one runs, beside `low`; what was decided about the other.
fn one_of_two(queue: Option<&str>) -> (Engine, Vec<PodFacts>, StepOutput) {
    let members = high_gang(2, 2, queue);
    let mut facts = one_queue(2);
    facts.extend([gpu_node("n", 2), bound(&single("low", 1, queue, 0), "n")]);
    facts.extend([bound(&members[0], "n"), Input::Pod(members[1].clone())]);
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    (engine, members, output)
}

#[test]
fn what_a_gang_lacks_takes_the_room_of_lower_work() {
    for queue in [None, Some("main")] {
        let (mut engine, _, asked) = one_of_two(queue);
        assert_eq!((evicted(&asked), binds(&asked)), (vec!["low".to_owned()], vec![]));
        assert_eq!(view(&engine, "g").state, State::Binding);
        let reason = view(&engine, "g").reason.expect("it waits").to_string();
        assert!(reason.contains("waits for 1 preempted workload to leave"), "{reason}");
        engine.recount();
        // Nobody else takes what is to come free, and nobody else is stopped meanwhile.
        let rival = single("rival", 1, queue, 10);
        let between = engine.step(NOW, vec![Input::Pod(rival)]);
        assert_eq!((evicted(&between), binds(&between)), (vec![], vec![]));
        engine.recount();
        let last = engine.step(NOW, vec![Input::PodGone(text("low"))]);
        assert_eq!(binds(&last), [("g-1".to_owned(), "n".to_owned())]);
        assert_eq!(evicted(&last), [""; 0]);
        engine.recount();
    }
}

/// It was admitted before the budget of its queue was spent, and is not lost for that.
#[test]
fn a_budget_that_is_spent_keeps_no_room_from_what_a_gang_lacks() {
    let members = high_gang(2, 2, Some("main"));
    let mut facts = one_queue(2);
    for fact in &mut facts {
        if let Input::ClusterQueue(queue) = fact {
            let (period, enforcement) = (Period::Day, Enforcement::Hard);
            let limit = SpendingLimit { usd: None, gpu_seconds: Some(0), period, enforcement };
            queue.spending = Some(limit);
        }
    }
    facts.extend([gpu_node("n", 2), bound(&single("low", 1, Some("main"), 0), "n")]);
    facts.extend([bound(&members[0], "n"), Input::Pod(members[1].clone())]);
    let mut engine = Engine::new();
    assert_eq!(evicted(&engine.step(NOW, facts)), ["low"]);
    let last = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&last), [("g-1".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// One that may not be in its group is not bound, and nobody is stopped for it, in a queue or not.
#[test]
fn a_member_that_is_held_does_not_join_who_lacks_it() {
    for queue in [None, Some("main")] {
        for gpus in [2, 3] {
            let mut members = high_gang(2, 2, queue);
            let pod = members[1].name.clone();
            members[1].gang.held = Some(Held::OtherPriority { pod, own: 11, group: 10 });
            let mut facts = one_queue(gpus);
            facts.extend([gpu_node("n", gpus), bound(&single("low", 1, queue, 0), "n")]);
            facts.extend([bound(&members[0], "n"), Input::Pod(members[1].clone())]);
            let mut engine = Engine::new();
            let output = engine.step(NOW, facts);
            assert_eq!((evicted(&output), binds(&output)), (vec![], vec![]), "{queue:?} {gpus}");
            let reason = view(&engine, "g").reason.expect("it waits").to_string();
            assert!(reason.contains("priority"), "{reason}");
            engine.recount();
        }
    }
}

#[test]
fn a_gang_is_not_stopped_for_being_in_part_while_others_leave_for_it() {
    let (mut engine, _, asked) = one_of_two(None);
    assert_eq!(evicted(&asked), ["low"]);
    for minutes in [4, 6, 12] {
        let later = engine.step(NOW.plus(Span::minutes(minutes)), vec![]);
        assert_eq!(evicted(&later), [""; 0], "after {minutes} minutes");
        assert!(later.next_wake.is_none_or(|at| at > NOW.plus(Span::minutes(minutes))));
        engine.recount();
    }
    let now = NOW.plus(Span::minutes(13));
    let last = engine.step(now, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&last), [("g-1".to_owned(), "n".to_owned())]);
    engine.recount();
}

#[test]
fn what_was_kept_for_a_member_that_is_gone_is_for_others() {
    let (mut engine, members, asked) = one_of_two(None);
    assert_eq!(evicted(&asked), ["low"]);
    let rival = single("rival", 1, None, 10);
    engine.step(NOW, vec![Input::Pod(rival)]);
    let gone = engine.step(NOW, vec![Input::PodGone(members[1].uid.clone())]);
    assert_eq!((evicted(&gone), binds(&gone)), (vec![], vec![]));
    engine.recount();
    let last = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&last), [("rival".to_owned(), "n".to_owned())]);
    engine.recount();
}

#[test]
fn a_stop_that_is_refused_is_not_asked_for_again_at_once() {
    let (mut engine, _, asked) = one_of_two(None);
    let stop = asked.effects.iter().find(|it| matches!(it.action, Action::Evict { .. }));
    let stop = stop.expect("one is stopped");
    let no = answer(stop, EffectResult::Refused(text("no")));
    let refused = engine.step(NOW, vec![no]);
    assert_eq!((evicted(&refused), binds(&refused)), (vec![], vec![]));
    assert_eq!(view(&engine, "g").state, State::Binding, "what runs of it goes on");
    engine.recount();
}

#[test]
fn room_that_comes_free_elsewhere_is_taken_before_victims_have_left() {
    let (mut engine, _, asked) = one_of_two(None);
    assert_eq!(evicted(&asked), ["low"]);
    let output = engine.step(NOW, vec![gpu_node("m", 1)]);
    assert_eq!(binds(&output), [("g-1".to_owned(), "m".to_owned())]);
    engine.recount();
}

/// Two of the room's three GPUs are `low`'s; it leaves for all that is missing, or not at all.
#[test]
fn nobody_leaves_for_a_part_of_what_a_gang_lacks() {
    for (size, leaves) in [(3, vec!["low".to_owned()]), (4, vec![])] {
        let members = high_gang(size, size, None);
        let mut facts = vec![namespace(), gpu_node("n", 3)];
        facts.extend([bound(&single("low", 2, None, 0), "n"), bound(&members[0], "n")]);
        facts.extend(members[1..].iter().cloned().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!((evicted(&output), binds(&output)), (leaves, vec![]), "of {size}");
        engine.recount();
    }
}

#[test]
fn nobody_leaves_for_extra_members_but_for_those_that_are_work_of_their_own() {
    for (by_itself, queue) in
        [(false, None), (false, Some("main")), (true, None), (true, Some("main"))]
    {
        let mut members = high_gang(3, 1, queue);
        members[1..].iter_mut().for_each(|member| member.gang.by_itself = by_itself);
        let mut facts = one_queue(3);
        facts.extend([gpu_node("n", 3), bound(&single("low", 2, queue, 0), "n")]);
        facts.push(bound(&members[0], "n"));
        facts.extend(members[1..].iter().cloned().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        let leaves = if by_itself { vec!["low".to_owned()] } else { vec![] };
        assert_eq!((evicted(&output), binds(&output)), (leaves, vec![]));
        engine.recount();
        if by_itself {
            let reason = view(&engine, "g").reason.expect("it waits").to_string();
            let says = "2 extra members wait: waits for 1 preempted workload to leave";
            assert!(reason.starts_with(says), "{reason}");
            let gone = engine.step(NOW, vec![Input::PodGone(text("low"))]);
            assert_eq!(binds(&gone).len(), 2);
            engine.recount();
        }
    }
}

/// Three GPUs are free, the fourth is `low`'s.
#[test]
fn a_gang_whose_minimum_fits_starts_with_it_and_stops_nobody() {
    for queue in [None, Some("main")] {
        let mut facts = one_queue(4);
        facts.extend([gpu_node("n", 4), bound(&single("low", 1, queue, 0), "n")]);
        facts.extend(high_gang(4, 2, queue).into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!((evicted(&output), binds(&output).len()), (vec![], 3));
        engine.recount();
    }
}

/// One GPU is free, three are others': one of them leaves for a minimum of two.
#[test]
fn for_a_minimum_that_does_not_fit_no_more_leave_than_it_needs() {
    for queue in [None, Some("main")] {
        let mut facts = one_queue(4);
        facts.push(gpu_node("n", 4));
        let low = ["a", "b", "c"].map(|name| bound(&single(name, 1, queue, 0), "n"));
        facts.extend(low);
        facts.extend(high_gang(4, 2, queue).into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!((evicted(&output).len(), binds(&output).len()), (1, 0));
        engine.recount();
    }
}

/// Pods of a plain Job are no gang: those that fit start, and others are stopped for all the rest.
#[test]
fn pods_that_are_no_gang_start_and_stop_others_each_by_itself() {
    for (pods, free) in [(3, 1), (2, 0)] {
        let mut facts = vec![namespace(), gpu_node("n", i64::from(pods))];
        facts.push(bound(&single("low", 2, None, 0), "n"));
        let mut members = high_gang(pods, 1, None);
        members.iter_mut().for_each(|member| member.gang.by_itself = true);
        facts.extend(members.into_iter().map(Input::Pod));
        let mut engine = Engine::new();
        let output = engine.step(NOW, facts);
        assert_eq!((evicted(&output), binds(&output).len()), (vec!["low".to_owned()], free));
        engine.recount();
        let last = engine.step(NOW, vec![Input::PodGone(text("low"))]);
        assert_eq!((evicted(&last), binds(&last).len()), (vec![], 2));
        engine.recount();
    }
}

/// Who stood higher than the others of its kind has ended, and says nothing of whom they may stop.
#[test]
fn who_has_ended_keeps_nobody_from_stopping_others_by_itself() {
    let mut members = high_gang(3, 1, None);
    members.iter_mut().for_each(|member| member.gang.by_itself = true);
    let ended = &mut members[0];
    (ended.priority, ended.phase, ended.node) = (20, PodPhase::Succeeded, Some(text("n")));
    let mut facts = vec![namespace(), gpu_node("n", 2)];
    facts.extend([bound(&single("low", 1, None, 0), "n"), bound(&members[1], "n")]);
    facts.extend([members[0].clone(), members[2].clone()].map(Input::Pod));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!((evicted(&output), binds(&output)), (vec!["low".to_owned()], vec![]));
    engine.recount();
}

/// A new engine promises anew what the one before it did: whom the mark names goes first.
#[test]
fn what_leaves_for_a_member_is_kept_for_it_after_a_restart() {
    let members = high_gang(2, 2, None);
    let mut low = single("low", 1, None, 0);
    low.terminating = true;
    let note = EvictionNote { preemptor: text("team/g"), reason: PreemptionReason::Priority };
    low.eviction = Some(note);
    let mut facts = vec![namespace(), gpu_node("n", 2), bound(&low, "n")];
    facts.extend([bound(&members[0], "n"), Input::Pod(members[1].clone())]);
    facts.push(Input::Pod(single("rival", 1, None, 10)));
    let mut engine = Engine::new();
    let output = engine.step(NOW, facts);
    assert_eq!((evicted(&output), binds(&output)), (vec![], vec![]));
    engine.recount();
    let last = engine.step(NOW, vec![Input::PodGone(text("low"))]);
    assert_eq!(binds(&last), [("g-1".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// Who waits for victims may be stopped itself, and gives up what it was promised.
#[test]
fn a_gang_that_is_stopped_gives_up_what_is_kept_for_its_members() {
    let (mut engine, _, asked) = one_of_two(None);
    assert_eq!(evicted(&asked), ["low"]);
    let top = single("top", 1, None, 100);
    let output = engine.step(NOW, vec![Input::Pod(top)]);
    assert_eq!(evicted(&output), ["g-0", "g-1"]);
    engine.recount();
    let gone = ["low", "g-0", "g-1"].map(|name| Input::PodGone(text(name)));
    let last = engine.step(NOW, gone.into());
    assert_eq!(binds(&last), [("top".to_owned(), "n".to_owned())]);
    engine.recount();
}

/// Of four GPUs one is free, and kept with that of `low` for a member of two. Who needs two has the
/// one that the gang gives up and the one that it runs on: nobody else has to leave.
#[test]
fn what_a_victim_claims_itself_comes_free_with_it() {
    for queue in [None, Some("main")] {
        let mut members = high_gang(2, 2, queue);
        members[1].shape = shape(&[(GPU, 2)]);
        let mut facts = one_queue(4);
        facts.extend([gpu_node("n", 4), bound(&single("low", 1, queue, 0), "n")]);
        facts.extend([bound(&single("other", 1, queue, 20), "n"), bound(&members[0], "n")]);
        facts.push(Input::Pod(members[1].clone()));
        let mut engine = Engine::new();
        let asked = engine.step(NOW, facts);
        assert_eq!((evicted(&asked), binds(&asked)), (vec!["low".to_owned()], vec![]));
        let top = single("top", 2, queue, 100);
        let output = engine.step(NOW, vec![Input::Pod(top)]);
        assert_eq!(evicted(&output), ["g-0", "g-1"]);
        engine.recount();
        let gone = ["g-0", "g-1"].map(|name| Input::PodGone(text(name)));
        let last = engine.step(NOW, gone.into());
        assert_eq!(binds(&last), [("top".to_owned(), "n".to_owned())]);
        engine.recount();
    }
}

/// Nobody may be stopped in a queue that holds no more than its own, until it borrows.
#[test]
fn what_a_gang_lacks_is_looked_at_again_once_another_queue_borrows() {
    let queue = |name: &str, gpus: i64| {
        let quota = group(&[(DEFAULT, &[(GPU, nominal(gpus))])]);
        let mut queue = cluster_queue(name, Some("all"), quota);
        queue.preemption.reclaim = PreemptReclaim::LowerPriority;
        [Input::ClusterQueue(queue), Input::LocalQueue(local_queue(name))]
    };
    let mut facts = vec![namespace(), Input::Flavor(flavor(DEFAULT, &[]))];
    facts.extend(queue("main", 5).into_iter().chain(queue("other", 3)));
    facts.extend([gpu_node("own", 1), gpu_node("a", 4), gpu_node("b", 3)]);
    let mut members = high_gang(3, 3, Some("main"));
    members[1..].iter_mut().for_each(|member| member.shape = shape(&[(GPU, 2)]));
    facts.push(bound(&members[0], "own"));
    facts.push(bound(&single("strong", 1, Some("other"), 20), "a"));
    facts.push(bound(&single("low", 2, Some("other"), 1), "a"));
    facts.extend(members[1..].iter().cloned().map(Input::Pod));
    let mut engine = Engine::new();
    let before = engine.step(NOW, facts);
    assert_eq!((evicted(&before), binds(&before)), (vec![], vec![]));
    engine.recount();
    let borrower = single("borrower", 1, Some("other"), 2);
    let after = engine.step(NOW, vec![Input::Pod(borrower)]);
    assert_eq!(binds(&after).len(), 1, "it borrows what nobody can use");
    assert_eq!(evicted(&after), ["low"]);
    engine.recount();
}

/// A port is in the way of who comes, and who has it is charged for what that one does not ask, or
/// for nothing.
#[test]
fn own_work_leaves_for_room_whatever_it_is_charged_for() {
    let with_port = |amount: (&str, i64)| {
        let port = HostPort { port: 80, protocol: text("TCP"), ip: text("0.0.0.0") };
        let (requests, ports) = (amounts(&[amount]), vec![port]);
        Arc::new(PodShape { requests, ports, ..PodShape::default() })
    };
    for held in [("gpu", 1), ("gpu", 0)] {
        let quota = [("cpu", nominal(9)), ("gpu", nominal(9))];
        let mut queue = cluster_queue("q", None, group(&[(DEFAULT, &quota)]));
        queue.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
        let mut engine = Engine::new();
        let ground = vec![
            namespace(),
            Input::Flavor(flavor(DEFAULT, &[])),
            Input::ClusterQueue(queue),
            Input::LocalQueue(local_queue("q")),
            Input::Node(node("n", &[("cpu", 9), ("gpu", 9)]).into()),
            bound(&pod("low", &with_port(held), &in_queue(Some("q"))), "n"),
        ];
        engine.step(NOW, ground);
        let boss = pod("boss", &with_port(("cpu", 1)), &in_queue(Some("q")));
        let output = engine.step(NOW, vec![Input::Pod(PodFacts { priority: 10, ..boss })]);
        assert_eq!(evicted(&output), ["low"], "who has the port holds {held:?}");
        engine.recount();
    }
}

/// A pod that comes while a lone pod and a gang, which began later, fill their nodes: who leaves.
fn cleared_for_one(
    (gang_of, nodes): (&[PodFacts], [&str; 3]),
    (lone, budgets): (&PodFacts, &[&str]),
) -> Vec<String> {
    let guarded = |pod: &PodFacts| {
        let mut pod = pod.clone();
        Arc::make_mut(&mut pod.shape).budgets = budgets.iter().map(|name| text(*name)).collect();
        pod
    };
    let mut facts = vec![namespace(), gpu_node("a", 1), gpu_node("b", 1), gpu_node("c", 2)];
    facts.extend(budgets.iter().map(|name| {
        let (namespace, name) = (text(TEAM), text(*name));
        let disturbed = BTreeSet::new();
        Input::Budget(Arc::new(BudgetFacts { namespace, name, allowed: 0, disturbed }))
    }));
    facts.extend([bound(&guarded(lone), "c"), bound(&single("top", 1, None, 90), nodes[2])]);
    let mut engine = Engine::new();
    engine.step(NOW, facts);
    let members = gang_of.iter().zip(nodes).map(|(member, node)| bound(&guarded(member), node));
    engine.step(NOW.plus(Span::minutes(1)), members.collect());
    let boss = Input::Pod(single("boss", 1, None, 50));
    let output = engine.step(NOW.plus(Span::minutes(2)), vec![boss]);
    engine.recount();
    evicted(&output)
}

/// As with kube-scheduler, on one node with the other or not. Where both are guarded a budget is
/// broken for each pod, whatever their priorities.
#[test]
fn a_gang_counts_as_all_its_pods() {
    let whole = high_gang(2, 2, None);
    for nodes in [["a", "b", "c"], ["a", "c", "b"]] {
        let lone = single("lone", 1, None, 10);
        assert_eq!(cleared_for_one((&whole, nodes), (&lone, &[])), ["lone"], "on {nodes:?}");
        let lone = single("lone", 1, None, 11);
        assert_eq!(cleared_for_one((&whole, nodes), (&lone, &[])).len(), 2, "on {nodes:?}");
    }
    let lone = single("lone", 1, None, 11);
    assert_eq!(cleared_for_one((&whole, ["a", "b", "c"]), (&lone, &["web"])), ["lone"]);
}
