//! Several gangs in part: no more of them are stopped than it takes for others to be whole.

use capstan_core::Engine;
use capstan_core::explain::reason::Reason;
use capstan_core::model::input::{GangKey, GangSource, Input, PodFacts};
use capstan_core::plan::{EffectResult, State, StepOutput};
use capstan_core::time::{Span, Time};
use capstan_tests::facts::{GPU, gang, in_queue, pod, shape, text};
use capstan_tests::hand::{answer, binds, bound, evicted, gpu_node, view};

const NOW: Time = Time(1_000_000);

fn after(seconds: i64) -> Time {
    NOW.plus(Span::seconds(seconds))
}

/// A gang of four pods with one GPU each, that needs all of them and stops nobody.
fn four(name: &str, priority: i32) -> Vec<PodFacts> {
    let mut members = gang(name, 4, Some(4), &shape(&[(GPU, 1)]), &in_queue(None));
    for member in &mut members {
        (member.priority, member.never_preempts) = (priority, true);
    }
    members
}

/// The same whose first member does not know of the others: they are made once it runs.
fn group(name: &str) -> Vec<PodFacts> {
    let mut members = four(name, 0);
    for member in &mut members {
        member.gang.key = GangKey::Owner(text(name), 0);
        member.gang.source = GangSource::Owner;
    }
    members[0].gang.min_member = Some(1);
    members
}

fn fed(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter().cloned().map(Input::Pod)
}

fn gone(pods: &[PodFacts]) -> impl Iterator<Item = Input> {
    pods.iter().map(|pod| Input::PodGone(pod.uid.clone()))
}

fn done(output: &StepOutput) -> impl Iterator<Item = Input> {
    output.effects.iter().map(|effect| answer(effect, EffectResult::Done))
}

fn names(output: &StepOutput) -> Vec<String> {
    binds(output).into_iter().map(|(pod, _)| pod).collect()
}

fn named(pods: &[PodFacts]) -> Vec<String> {
    pods.iter().map(|pod| pod.name.to_string()).collect()
}

/// So many of each of two gangs run on all that there is.
fn two_run(runs: usize, [one, two]: [&[PodFacts]; 2]) -> Engine {
    let mut engine = Engine::new();
    let run = one[..runs].iter().chain(&two[..runs]).map(|pod| bound(pod, "n"));
    let wait = fed(&one[runs..]).chain(fed(&two[runs..]));
    let facts = run.chain(wait).chain([gpu_node("n", 2 * runs as i64)]);
    let begun = engine.step(NOW, facts.collect());
    assert_eq!(names(&begun), [""; 0]);
    engine
}

/// Four leaders run, each lacks three workers, and there is room for two.
#[test]
fn of_leaders_whose_workers_find_no_room_one_gets_them() {
    let groups = ["g0", "g1", "g2", "g3"].map(group);
    let mut engine = Engine::new();
    let leaders: Vec<PodFacts> = groups.iter().map(|group| group[0].clone()).collect();
    let begun = engine.step(NOW, fed(&leaders).chain([gpu_node("n", 6)]).collect());
    assert_eq!(names(&begun), named(&leaders));
    let run = leaders.iter().map(|pod| bound(pod, "n"));
    engine.step(after(1), done(&begun).chain(run).collect());
    let workers = groups.iter().flat_map(|group| fed(&group[1..]));
    let late = engine.step(after(60), workers.collect());
    assert_eq!(names(&late), [""; 0]);
    assert_eq!(evicted(&engine.step(after(359), vec![])), [""; 0]);
    let due = engine.step(after(360), vec![]);
    assert_eq!(evicted(&due), named(&groups[1..].concat()));
    assert_eq!(view(&engine, "g0").state, State::Binding);
    engine.recount();
    // The last one was stopped first, and what it leaves is for the first, whoever else comes.
    let thief = pod("thief", &shape(&[(GPU, 1)]), &in_queue(None));
    let left = gone(&groups[3]).chain([Input::Pod(thief)]);
    let next = engine.step(after(361), done(&due).chain(left).collect());
    assert_eq!(names(&next), named(&groups[0][1..]));
    let run = groups[0][1..].iter().map(|pod| bound(pod, "n"));
    engine.step(after(362), done(&next).chain(run).collect());
    let rest = engine.step(after(363), gone(&groups[1..3].concat()).collect());
    assert_eq!(names(&rest), ["thief"]);
    assert_eq!(view(&engine, "g0").state, State::Running);
    engine.recount();
}

#[test]
fn of_two_halves_the_one_of_lower_priority_makes_room() {
    for (priorities, first, last) in [([0, 0], "a", "b"), ([0, 10], "b", "a")] {
        let [a, b] = [four("a", priorities[0]), four("b", priorities[1])];
        let mut engine = two_run(3, [&a, &b]);
        let due = engine.step(after(300), vec![]);
        let (stays, leaves) = if first == "a" { (&a, &b) } else { (&b, &a) };
        assert_eq!(evicted(&due), named(leaves), "{last} is stopped");
        let Some(Reason::Incomplete { have: 3, need: 4, then }) = view(&engine, first).reason
        else {
            panic!("{:?}", view(&engine, first).reason)
        };
        assert!(matches!(then.as_deref(), Some(Reason::WaitingForVictims { victims: 1 })));
        engine.recount();
        let next = engine.step(after(301), done(&due).chain(gone(leaves)).collect());
        assert_eq!(names(&next), named(&stays[3..]));
        engine.recount();
    }
}

/// What they hold together is not enough for one of them.
#[test]
fn nobody_stays_who_cannot_be_whole() {
    let [a, b] = [four("a", 0), four("b", 0)];
    let mut engine = two_run(1, [&a, &b]);
    let due = engine.step(after(300), vec![]);
    assert_eq!(evicted(&due), named(&[a, b].concat()));
    engine.recount();
}

/// One was stopped and takes its time to leave: another that is due then is not stopped, too, if
/// it has enough by that.
#[test]
fn who_has_enough_of_what_is_leaving_stays() {
    let [a, b] = [four("a", 0), four("b", 0)];
    let mut engine = two_run(3, [&a, &b]);
    let due = engine.step(after(300), vec![]);
    assert_eq!(evicted(&due), named(&b));
    let leaving = b[..3].iter().map(|pod| {
        let mut pod = pod.clone();
        (pod.node, pod.terminating) = (Some(text("n")), true);
        Input::Pod(pod)
    });
    engine.step(after(301), done(&due).chain(leaving).collect());
    let late = engine.step(after(900), vec![]);
    assert_eq!((evicted(&late), view(&engine, "a").state), (vec![], State::Binding));
    let next = engine.step(after(901), gone(&b).collect());
    assert_eq!(names(&next), ["a-3"]);
    engine.recount();
}
