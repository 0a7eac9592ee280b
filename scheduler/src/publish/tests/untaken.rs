//! Definitions that are older than the binary: what they drop of a status is not sent for ever.

use super::*;

/// A cluster whose definitions lack these fields of a status, and what it was sent.
struct Older<'a> {
    api: Api,
    lacks: &'a [&'a str],
}

impl Older<'_> {
    /// Carries out all that may go now; the patches of statuses.
    fn work(&mut self, plan: &mut Plan, now: Time) -> Vec<Value> {
        let mut patches = Vec::new();
        while let Some((key, write)) = plan.next(now) {
            self.api.carry_out(&key, &write);
            let object = self.api.objects.get_mut(&key).expect("nothing is deleted");
            if let Some(status) = object["status"].as_object_mut() {
                self.lacks.iter().for_each(|field| drop(status.remove(*field)));
            }
            if let Write::Status(patch) = write {
                patches.push(patch);
            }
            let answer = self.api.carry_out(&key, &Write::Read);
            plan.answered(now, &key, answer);
        }
        patches
    }
}

fn running() -> WorkloadDetails {
    let mut details = gang(State::Running);
    (details.placed, details.started, details.up) = (3, true, true);
    details
}

/// Each of a hundred seconds somebody looks, and nothing changed.
#[test]
fn what_is_dropped_is_sent_twice_and_not_each_second() {
    let (mut plan, api) = ready();
    let mut older = Older { api, lacks: &["nodesSummary", "state"] };
    plan.workload(at(0), running());
    older.work(&mut plan, at(0));
    let mut later = Vec::new();
    for second in 1..100 {
        plan.workload(at(second * 1_000), running());
        later.extend(older.work(&mut plan, at(second * 1_000)));
    }
    assert!(later.len() <= 1, "{later:?}");
    let said: Vec<&str> = plan.untaken.take_to_say().iter().map(Key::kind).collect();
    assert_eq!(said, ["Workload"]);

    // What is taken is written at once, and what is not comes with it.
    assert!(holds(&older.api.status("g").conditions, "PodsReady").is_some());
    let mut fell = running();
    fell.up = false;
    plan.workload(at(200_000), fell.clone());
    let mut patches = older.work(&mut plan, at(200_000));
    for second in 201..300 {
        patches.extend(older.work(&mut plan, at(second * 1_000)));
    }
    assert!((1..=2).contains(&patches.len()), "{patches:?}");
    assert!(holds(&older.api.status("g").conditions, "PodsReady").is_none());
    assert!(plan.untaken.take_to_say().is_empty(), "once for a kind");

    // New definitions are found out after a while.
    older.lacks = &[];
    plan.workload(at(1_000_000), fell.clone());
    assert_eq!(older.work(&mut plan, at(1_000_000)).len(), 1);
    assert_eq!(older.api.status("g").state, "Running");
    plan.workload(at(2_000_000), fell);
    assert!(older.work(&mut plan, at(2_000_000)).is_empty());
}
