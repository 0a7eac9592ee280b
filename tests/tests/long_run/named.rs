//! What random lives found, made small.

use std::collections::BTreeSet;
use std::sync::Arc;

use capstan_core::model::input::{
    ClusterQueueFacts, Input, OwnerFacts, PreemptReclaim, PreemptWithin, Text,
};
use capstan_core::policy::{FairSharing, Policy};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{
    DEFAULT, GPU, cluster_queue, flavor, group, in_queue, job, local_queue, namespace, node,
    nominal, pods_of, shape, text,
};
use capstan_tests::play::Stage;

/// Queues that own so many GPUs of one cohort.
fn stage(fair: Option<FairSharing>, queues: &[(&str, i64)]) -> Stage {
    let mut stage = Stage::new(Time(0));
    let policy = Policy { fair_sharing: fair, ..Policy::default() };
    stage.add([Input::Policy(Arc::new(policy)), namespace(), Input::Flavor(flavor(DEFAULT, &[]))]);
    stage.add([Input::Node(node("node", &[(GPU, 100), ("pods", 100)]).into())]);
    for (name, owned) in queues {
        let quotas = group(&[(DEFAULT, &[(GPU, nominal(*owned))])]);
        let mut facts: ClusterQueueFacts = cluster_queue(name, Some("all"), quotas);
        facts.preemption.within_cluster_queue = PreemptWithin::LowerOrNewerEqual;
        facts.preemption.reclaim = PreemptReclaim::Any;
        stage.add([Input::ClusterQueue(facts), Input::LocalQueue(local_queue(name))]);
    }
    stage
}

/// A Job of one pod.
fn one(name: &str, queue: &str, gpus: i64, (created, priority): (i64, i32)) -> OwnerFacts {
    let made = job(name, 1, &shape(&[(GPU, gpus)]), &in_queue(Some(queue)));
    OwnerFacts { created: Time(created), priority, ..made }
}

/// Names of Jobs that run once all is at rest, a minute later.
fn runs(stage: &mut Stage) -> BTreeSet<Text> {
    stage.now = stage.now.plus(Span::minutes(1));
    stage.settle(|_| {});
    let owners = stage.owners.values().filter(|owner| !owner.suspended);
    owners.map(|owner| owner.name.clone()).collect()
}

fn names(list: &[&str]) -> BTreeSet<Text> {
    list.iter().map(|name| text(*name)).collect()
}

/// A Job ends, and all that it made.
fn ends(stage: &mut Stage, name: &str) {
    let (uid, owner) = stage.owners.iter().find(|(_, it)| *it.name == *name).expect("it is there");
    let (uid, made) = (uid.clone(), pods_of(owner));
    stage.owners.remove(&uid);
    made.into_iter().for_each(|pod| stage.drop_pod(&pod.uid));
    stage.feed(Input::OwnerGone(uid));
}

/// Seed 1006 by final shares, step 1226: the first of those who are equal but for their age could
/// not stop somebody older; one that is older still, and becomes their equal, can.
#[test]
fn who_is_older_than_a_waiting_equal_is_looked_at() {
    let mut stage = stage(None, &[("a", 4)]);
    let middle = one("middle", "a", 4, (200, 2));
    stage.add([Input::Owner(middle)]);
    assert_eq!(runs(&mut stage), names(&["middle"]));
    let older = one("older", "a", 4, (100, 0));
    stage.add([Input::Owner(one("newer", "a", 4, (300, 2))), Input::Owner(older.clone())]);
    assert_eq!(runs(&mut stage), names(&["middle"]));
    stage.add([Input::Owner(OwnerFacts { priority: 2, ..older })]);
    assert_eq!(runs(&mut stage), names(&["older"]));
}

/// Seed 7 by both strategies, step 949: who took two turns stops nobody to borrow for an hour, and
/// who is equal to it but for that may.
#[test]
fn who_rests_keeps_no_equal_from_its_turn() {
    let both = Some(FairSharing::FinalThenInitial);
    let mut stage = stage(both, &[("a", 0), ("b", 4)]);
    stage.add([Input::Owner(one("low", "a", 1, (50, 0)))]);
    assert_eq!(runs(&mut stage), names(&["low"]));
    stage.add([Input::Owner(one("tired", "a", 4, (100, 1)))]);
    for (owned, created) in [("first", 200), ("second", 300)] {
        assert_eq!(runs(&mut stage), names(&["tired"]), "it stops low to borrow");
        stage.add([Input::Owner(one(owned, "b", 3, (created, 0)))]);
        assert_eq!(runs(&mut stage), names(&[owned, "low"]));
        ends(&mut stage, owned);
    }
    assert_eq!(runs(&mut stage), names(&["low"]), "it stops nobody to borrow");
    stage.add([Input::Owner(one("fresh", "a", 4, (500, 1)))]);
    assert_eq!(runs(&mut stage), names(&["fresh"]));
}

/// Who is stopped by owners, however often, and stopped nobody, may stop others to borrow at once.
#[test]
fn who_stopped_nobody_never_rests() {
    for fair in [None, Some(FairSharing::FinalThenInitial)] {
        let mut stage = stage(fair, &[("a", 4), ("b", 4)]);
        // It asks for no more than its queue owns, and borrows, as others hold that.
        for (name, rank) in [("long", (10, 2)), ("innocent", (100, 1))] {
            stage.add([Input::Owner(one(name, "a", 4, rank))]);
        }
        for (at, owned) in ["first", "second", "third"].into_iter().enumerate() {
            assert_eq!(runs(&mut stage), names(&["long", "innocent"]));
            stage.add([Input::Owner(one(owned, "b", 3, (200 + at as i64, 0)))]);
            assert_eq!(runs(&mut stage), names(&["long", owned]));
            if owned != "third" {
                ends(&mut stage, owned);
            }
        }
        stage.add([Input::Owner(one("low", "a", 1, (400, 0)))]);
        assert_eq!(runs(&mut stage), names(&["long", "third", "low"]));
        ends(&mut stage, "third");
        assert_eq!(runs(&mut stage), names(&["long", "innocent"]), "low makes place at once");
    }
}

/// Who rests has the place of lower work of its queue all the same once it borrows nothing there.
#[test]
fn who_rests_takes_its_place_in_its_queue_within_what_that_owns() {
    for fair in [None, Some(FairSharing::FinalThenInitial)] {
        let mut stage = stage(fair, &[("a", 5), ("b", 1)]);
        stage.add(
            [("block", 1, (10, 2)), ("low", 4, (50, 0))]
                .map(|(name, gpus, rank)| Input::Owner(one(name, "a", gpus, rank))),
        );
        assert_eq!(runs(&mut stage), names(&["block", "low"]));
        stage.add([Input::Owner(one("tired", "a", 5, (100, 1)))]);
        for (owned, created) in [("first", 200), ("second", 300)] {
            assert_eq!(runs(&mut stage), names(&["block", "tired"]), "it stops low to borrow");
            stage.add([Input::Owner(one(owned, "b", 1, (created, 0)))]);
            assert_eq!(runs(&mut stage), names(&["block", owned, "low"]));
            ends(&mut stage, owned);
        }
        assert_eq!(runs(&mut stage), names(&["block", "low"]), "it stops nobody to borrow");
        ends(&mut stage, "block");
        assert_eq!(runs(&mut stage), names(&["tired"]), "its queue owns all of it");
    }
}

/// Seed 1000 by final shares, step 2846: of two of one priority that took what they hold at one
/// time the one leaves by which less is lost, whatever their uids.
#[test]
fn of_those_who_began_together_who_loses_less_leaves() {
    for fair in [None, Some(FairSharing::FinalShare)] {
        for (large, small) in [("x", "y"), ("y", "x")] {
            let mut stage = stage(fair, &[("a", 0), ("b", 6)]);
            for (name, gpus) in [(large, 4), (small, 2)] {
                stage.add([Input::Owner(one(name, "a", gpus, (100, 0)))]);
            }
            assert_eq!(runs(&mut stage), names(&[large, small]));
            stage.add([Input::Owner(one("owns", "b", 2, (200, 0)))]);
            assert_eq!(runs(&mut stage), names(&[large, "owns"]), "{fair:?}");
        }
    }
}
