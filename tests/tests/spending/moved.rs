//! Pods that become other work while they run: a member that leaves its gang, pods whose owner is
//! gone, or that somebody labels. Each counts from its bind to its end, and not once more.

use capstan_core::model::input::PreemptWithin;

use super::*;

/// The same pod in a gang of this name whose members need nobody, or in none.
pub fn into(member: &PodFacts, gang: Option<&str>) -> PodFacts {
    let wishes = &member.wishes;
    let other = match gang {
        Some(name) => self::gang(name, 1, Some(1), &member.shape, wishes).remove(0),
        None => pod(&member.name, &member.shape, wishes),
    };
    PodFacts { gang: other.gang, ..member.clone() }
}

/// A budget of so many GPU-hours a day.
fn gpu_hours(amount: i64) -> Option<SpendingLimit> {
    Some(SpendingLimit { usd: None, gpu_seconds: Some(amount * 3_600), ..usd(0) })
}

/// A group of pods with a GPU each, made one after the other, of which one is enough.
fn group_of(pods: u32) -> Vec<PodFacts> {
    let mut members = gang("g", pods, Some(1), &shape(&[(GPU, 1)]), &in_queue(Some("main")));
    for (at, member) in members.iter_mut().enumerate() {
        (member.created, member.gang.singly) = (Time(at as i64), true);
    }
    members
}

/// Since midnight.
fn shown<'a>(pods: impl IntoIterator<Item = &'a PodFacts>) -> Vec<Input> {
    pods.into_iter().map(|pod| Input::Pod(runs(pod, at(0)))).collect()
}

/// What a queue spent, in GPU-minutes, and how many GPUs it has.
fn spent(engine: &Engine, queue: &str, minutes: i64) -> (i64, i64) {
    engine.recount();
    let account = account(engine, queue, at(minutes));
    (account.gpu_seconds() / 60, account.rate().milli_gpus / 1_000)
}

#[test]
fn a_member_that_leaves_by_itself_counts_once() {
    let members = group_of(3);
    let mut main = queue("main", 3, gpu_hours(35));
    main.preemption.within_cluster_queue = PreemptWithin::LowerPriority;
    let mut facts = ground(&[main], 3);
    facts.extend(shown(&members));
    let mut engine = Engine::new();
    engine.step(at(0), facts);
    let high = PodFacts { priority: 10, ..job("high", "main", 1) };
    let output = engine.step(at(600), vec![Input::Pod(high)]);
    assert_eq!(evicted(&output), ["g-2"], "and the others go on");
    assert_eq!(spent(&engine, "main", 600), (30 * 60, 3));
    assert_eq!(account(&engine, "main", at(600)).over(), None);
    // It holds its node until it is gone.
    let output = engine.step(at(660), vec![gone(&members[2])]);
    assert_eq!(binds(&output).len(), 1);
    assert_eq!(spent(&engine, "main", 660), (33 * 60, 3));
}

/// Their owner is deleted and leaves them behind; later they are labelled as members of one gang,
/// a few at a time, and of another.
#[test]
fn pods_that_are_other_work_from_now_on_go_on_counting() {
    for backwards in [false, true] {
        let members = group_of(3);
        let fed = |pods: &[PodFacts]| {
            let mut facts = shown(pods);
            if backwards {
                facts.reverse();
            }
            facts
        };
        let mut facts = ground(&[queue("main", 8, gpu_hours(100))], 8);
        facts.extend(shown(&members));
        let mut engine = Engine::new();
        engine.step(at(0), facts);
        let alone: Vec<PodFacts> = members.iter().map(|member| into(member, None)).collect();
        engine.step(at(600), fed(&alone));
        assert_eq!(spent(&engine, "main", 600), (30 * 60, 3), "backwards {backwards}");
        let gang: Vec<PodFacts> = members.iter().map(|member| into(member, Some("h"))).collect();
        engine.step(at(660), fed(&gang[..2]));
        assert_eq!(spent(&engine, "main", 660), (33 * 60, 3), "backwards {backwards}");
        engine.step(at(720), fed(&[into(&members[0], Some("k")), gang[2].clone()]));
        assert_eq!(spent(&engine, "main", 720), (36 * 60, 3), "backwards {backwards}");
        // An edit begins with what was counted; an end is one.
        engine.step(at(780), vec![Input::ClusterQueue(queue("main", 8, gpu_hours(90)))]);
        engine.step(at(840), fed(&[into(&members[1], Some("k"))]));
        assert_eq!(spent(&engine, "main", 840), (42 * 60, 3), "backwards {backwards}");
        engine.step(at(840), vec![gone(&members[2])]);
        assert_eq!(spent(&engine, "main", 900), (44 * 60, 2), "backwards {backwards}");
    }
}

/// A new engine finds it by its bind, from when the status was written.
#[test]
fn who_starts_anew_counts_them_where_they_are() {
    let members = group_of(2);
    let queues = [queue("main", 8, gpu_hours(100))];
    let mut facts = ground(&queues, 8);
    facts.extend(shown(&members));
    let mut engine = Engine::new();
    engine.step(at(0), facts);
    let alone = into(&members[1], None);
    engine.step(at(60), shown([&alone]));
    let mut facts = ground(&queues, 8);
    facts.push(written(&engine, "main", at(90)));
    facts.extend(shown([&members[0], &alone]));
    let mut fresh = Engine::new();
    fresh.step(at(120), facts);
    assert_eq!(spent(&fresh, "main", 120), (240, 2));
    assert_eq!(spent(&engine, "main", 120), (240, 2));
    let gang = shown(&[into(&members[0], Some("h")), into(&alone, Some("h"))]);
    fresh.step(at(180), gang);
    assert_eq!(spent(&fresh, "main", 180), (360, 2));
}

/// Work goes to another queue, as part of another gang or by its own label: what it cost before is
/// the first one's, if that counts any.
#[test]
fn in_another_queue_it_counts_from_when_it_came() {
    for (first, regrouped) in [(true, true), (true, false), (false, true), (false, false)] {
        let limit = gpu_hours(100).filter(|_| first);
        let mut facts = ground(&[queue("main", 4, limit), queue("other", 4, gpu_hours(50))], 8);
        let stays = job("stays", "other", 1);
        let moves = job("moves", "main", 2);
        facts.extend(shown([&stays, &moves]));
        let mut engine = Engine::new();
        engine.step(at(0), facts);
        let moved = PodFacts { wishes: in_queue(Some("other")), ..moves };
        let moved = if regrouped { into(&moved, Some("h")) } else { moved };
        engine.step(at(300), shown([&moved]));
        let case = format!("first {first}, regrouped {regrouped}");
        assert_eq!(spent(&engine, "other", 300), (300, 3), "{case}");
        assert_eq!(spent(&engine, "other", 360), (480, 3), "{case}");
        if first {
            assert_eq!(spent(&engine, "main", 360), (600, 0), "{case}");
        }
    }
}
