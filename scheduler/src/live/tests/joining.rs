//! Kinds that another configuration adds while everything else goes on.

use super::*;

const KUEUE: Group = Group::Kueue;

fn both() -> Config {
    Config { quota_apis: vec![QuotaApi::Capstan, QuotaApi::Kueue], ..Config::default() }
}

/// The kinds that the second group has.
fn added() -> Vec<Kind> {
    let kinds = Kind::all(&both());
    kinds.difference(&Kind::all(&Config::default())).copied().collect()
}

fn kueues(kind: Queueing, name: &str) -> Object {
    queueing(kind, Origin::KueueV1Beta2, name, json!({}))
}

/// Everything was seen; then Kueue's objects are named too.
fn reloaded() -> Live {
    let mut live = synced(&Config::default());
    live.reconfigure(&both());
    live
}

/// A list of a kind, with these objects.
fn listed(live: &mut Live, kind: Kind, objects: Vec<Object>) {
    live.take(Seen::Listing(kind));
    objects.into_iter().for_each(|object| live.take(Seen::Listed(object)));
    live.take(Seen::Complete(kind));
}

#[test]
fn what_was_known_goes_on_while_added_kinds_are_not_read() {
    let mut live = reloaded();
    assert!(live.synced(), "nothing that was known is unknown now");
    assert_eq!(live.waiting_for(), []);
    assert_eq!(live.unread(), added());
    live.take(Seen::Applied(pod(pod_value("p", "p1"))));
    assert_eq!(&*the_pod(&told(&mut live)).uid, "p1");
}

#[test]
fn added_kinds_count_together_once_the_last_of_them_was_listed() {
    let mut live = reloaded();
    let local = Kind::Queueing(Queueing::LocalQueue, KUEUE);
    for kind in added().into_iter().filter(|kind| *kind != local) {
        let objects = match kind {
            Kind::Queueing(Queueing::ClusterQueue, _) => {
                vec![kueues(Queueing::ClusterQueue, "q")]
            }
            _ => Vec::new(),
        };
        listed(&mut live, kind, objects);
    }
    // Even what changes afterwards is part of a half.
    live.take(Seen::Applied(kueues(Queueing::ClusterQueue, "r")));
    assert!(told(&mut live).is_empty(), "half of the group is not all of it");
    assert_eq!(live.unread(), [local]);
    let everything = live.everything(NOW);
    assert!(!everything.iter().any(|input| matches!(input, Input::ClusterQueue(_))));
    listed(&mut live, local, vec![kueues(Queueing::LocalQueue, "l")]);
    assert_eq!(live.unread(), []);
    let inputs = told(&mut live);
    let queues = inputs.iter().filter(|input| matches!(input, Input::ClusterQueue(_))).count();
    let locals = inputs.iter().filter(|input| matches!(input, Input::LocalQueue(_))).count();
    assert_eq!((queues, locals), (2, 1), "{inputs:?}");
    // From now on they are like all others.
    live.take(Seen::Applied(kueues(Queueing::ClusterQueue, "s")));
    assert!(matches!(&told(&mut live)[..], [Input::ClusterQueue(_)]));
}

#[test]
fn a_kind_that_is_not_served_holds_up_no_others() {
    let mut live = reloaded();
    let (first, rest) = added().split_first().map(|(it, rest)| (*it, rest.to_vec())).expect("6");
    for kind in rest {
        listed(&mut live, kind, Vec::new());
    }
    live.take(Seen::Applied(kueues(Queueing::Cohort, "c")));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Absent(first));
    assert!(matches!(&told(&mut live)[..], [Input::Cohort(_)]));
}

#[test]
fn a_configuration_that_takes_the_unread_kinds_back_leaves_nothing_of_them() {
    let mut live = reloaded();
    live.take(Seen::Listing(Kind::Queueing(Queueing::Cohort, KUEUE)));
    live.take(Seen::Listed(kueues(Queueing::Cohort, "c")));
    live.reconfigure(&Config::default());
    assert_eq!((live.unread(), told(&mut live)), (Vec::new(), Vec::new()));
    // Named again, they are read again.
    live.reconfigure(&both());
    assert_eq!(live.unread(), added());
}

/// One group of queues in the place of the other: no moment is without queues, or has half of each.
#[test]
fn a_group_that_takes_the_place_of_another_does_so_at_once() {
    let other = Config { quota_apis: vec![QuotaApi::Kueue], ..Config::default() };
    let own = queueing(Queueing::ClusterQueue, Origin::Capstan, "own", json!({}));
    let mut live = synced(&Config::default());
    live.take(Seen::Applied(own));
    assert!(matches!(&told(&mut live)[..], [Input::ClusterQueue(_)]));
    live.reconfigure(&other);
    let theirs = Kind::Queueing(Queueing::ClusterQueue, KUEUE);
    assert_eq!(told(&mut live), [], "those that were known hold");
    for kind in added().into_iter().filter(|kind| *kind != theirs) {
        listed(&mut live, kind, Vec::new());
        assert_eq!(told(&mut live), []);
    }
    listed(&mut live, theirs, vec![kueues(Queueing::ClusterQueue, "theirs")]);
    let named = |input: &Input| match input {
        Input::ClusterQueue(queue) => format!("+{}", queue.name),
        Input::ClusterQueueGone(name) => format!("-{name}"),
        other => panic!("{other:?}"),
    };
    let mut both: Vec<String> = told(&mut live).iter().map(named).collect();
    both.sort();
    assert_eq!(both, ["+theirs", "-own"]);

    // Taken back before all was read: as if nothing had been.
    live.reconfigure(&Config::default());
    live.reconfigure(&other);
    assert_eq!((told(&mut live), live.unread()), (Vec::new(), Vec::new()));
}

#[test]
fn before_everything_was_seen_once_added_kinds_are_waited_for() {
    let mut live = live();
    live.reconfigure(&both());
    for kind in Kind::all(&Config::default()) {
        listed(&mut live, kind, Vec::new());
    }
    assert!(!live.synced(), "nothing was decided yet, and nothing is lost by waiting");
    assert_eq!(live.waiting_for(), added());
    added().into_iter().for_each(|kind| live.take(Seen::Absent(kind)));
    assert!(live.synced());
}
