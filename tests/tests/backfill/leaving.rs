//! Victims that linger: a start that was found behind a preemptor and its victims is not lost while
//! these leave. Every step between is looked at.

use capstan_tests::seed::Seed;

use super::*;

/// A stream by which the first victim lingers for as long as any does.
pub(super) const LINGERS: u64 = 17;
const DEVICE: &str = "example.com/device";

/// Two full nodes, one until minute 30 with what everybody may stop, and one until minute 60.
fn full(more: &[(&str, i64)]) -> Stage {
    let mut stage = stage(&["a", "b"]);
    stage.add(more.iter().map(|(name, gpus)| Input::Node(node(name, &[(GPU, *gpus)]).into())));
    submit(&mut stage, work("low", (1, 8), Some(30)));
    submit(&mut stage, of_priority(work("long", (1, 8), Some(60)), 5));
    stage
}

/// Somebody comes at minute 10 for whom low leaves; how many steps that takes, in each of which the
/// start of big is kept.
fn stops_low(stage: &mut Stage, urgent: Vec<PodFacts>) -> u32 {
    stage.lingers = Some(Seed::new(LINGERS));
    at(stage, 10);
    let (now, mut steps) = (stage.now, 0);
    let urgent = of_priority(urgent, 10).into_iter();
    stage.add(urgent.map(|pod| Input::Pod(PodFacts { created: now, ..pod })));
    stage.settle(|stage| {
        steps += u32::from(view(stage, "urgent").state == State::Reserved);
        assert_eq!(reserved(stage, "big"), Some(60), "after {steps} steps");
    });
    stage.engine.recount();
    assert!(runs(stage, "urgent") && runs(stage, "long"));
    steps
}

#[test]
fn a_start_behind_a_preemptor_is_kept_while_its_victim_leaves() {
    let mut stage = full(&[("c", 4)]);
    submit(&mut stage, of_priority(work("big", (5, 4), Some(30)), 5));
    submit(&mut stage, work("silent", (1, 4), None));
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 60)));
    assert!(stops_low(&mut stage, work("urgent", (1, 8), Some(40))) > 2);
    assert_eq!(held_for(&stage, "silent"), Some(("team/big".into(), 60)));
    at(&mut stage, 60);
    assert!(runs(&stage, "big") && !runs(&stage, "silent"));
}

/// Half of what it leaves is for its preemptor, which runs on when big starts in the other half.
#[test]
fn a_start_in_what_a_victim_leaves_beside_its_preemptor_is_kept() {
    let mut stage = full(&[]);
    submit(&mut stage, of_priority(work("big", (3, 4), Some(30)), 5));
    assert!(stops_low(&mut stage, work("urgent", (1, 4), Some(120))) > 2);
    at(&mut stage, 60);
    assert!(runs(&stage, "big") && runs(&stage, "urgent"));
}

/// Nobody knows when the preemptor ends: nor when big can start, which needs its room.
#[test]
fn no_start_is_reserved_behind_a_preemptor_that_says_nothing() {
    let mut stage = full(&[]);
    submit(&mut stage, of_priority(work("big", (4, 4), Some(30)), 5));
    assert_eq!(reserved(&stage, "big"), Some(60));
    stage.lingers = Some(Seed::new(LINGERS));
    submit(&mut stage, of_priority(work("urgent", (1, 8), None), 10));
    assert!(runs(&stage, "urgent"));
    assert_eq!(reserved(&stage, "big"), None);
}

/// Half of what it leaves is for its preemptor. The other half is there when big starts: so much
/// less has to be kept for it beside the victim, and who comes meanwhile may have that.
#[test]
fn what_a_victim_leaves_beside_its_preemptor_need_not_be_kept() {
    let mut stage = stage(&["b"]);
    submit(&mut stage, of_priority(work("long", (1, 4), Some(60)), 5));
    stage.add([Input::Node(node("a", &[(GPU, 18), (DEVICE, 1)]).into())]);
    let of_device = |name: &str, gpus: i64, minutes: i64| {
        let shape = shape(&[(GPU, gpus), (DEVICE, 1)]);
        vec![pod(name, &shape, &wishes(Some(minutes), None))]
    };
    submit(&mut stage, of_priority(of_device("low", 8, 30), 5));
    submit(&mut stage, of_priority(work("big", (5, 4), Some(30)), 5));
    assert_eq!(
        reserved(&stage, "big"),
        Some(30),
        "once low is gone there is a place on b and four on a"
    );
    stage.lingers = Some(Seed::new(LINGERS));
    at(&mut stage, 10);
    let (now, mut steps) = (stage.now, 0);
    let urgent = of_priority(of_device("urgent", 4, 120), 10).into_iter();
    let small = of_priority(work("small", (1, 2), None), 3);
    let both = urgent.chain(small);
    stage.add(both.map(|pod| Input::Pod(PodFacts { created: now, ..pod })));
    stage.settle(|stage| {
        if view(stage, "urgent").state == State::Reserved {
            steps += 1;
            // On b, which is fuller, it would be in the way.
            let small = view(stage, "small");
            let node = small.pods[0].node.as_deref();
            assert_eq!((node, held_for(stage, "small")), (Some("a"), None), "step {steps}");
        }
    });
    stage.engine.recount();
    assert!(steps > 2 && runs(&stage, "urgent") && runs(&stage, "small"));
    assert_eq!(reserved(&stage, "big"), Some(60));
    at(&mut stage, 60);
    assert!(runs(&stage, "big"));
}
