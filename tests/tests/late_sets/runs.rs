//! Groups that say their number, and whose name is used again while who came last is still shown.

use super::*;

/// Two workers and a launcher of one maker, in a group of Kueue's that says it has so many.
fn numbered(maker: &str, total: u32, created: Time) -> Vec<PodFacts> {
    let mut pods = grouped(maker, 2);
    for pod in &mut pods {
        pod.created = created;
        pod.gang.key = GangKey::Group(GangSource::KueueGroup, text("g"));
        pod.gang.name = text("g");
        pod.gang.source = GangSource::KueueGroup;
        (pod.gang.min_member, pod.gang.total) = (Some(2), Some(total));
        let known = pod.gang.to_come.as_deref().expect("it was said").clone();
        pod.gang.to_come = Some(Arc::new(ToCome { counted: Some(total), ..known }));
    }
    pods
}

/// A pod that ended well.
fn over(pod: &PodFacts, at: Time) -> PodFacts {
    let (phase, node) = (PodPhase::Succeeded, Some(text("n")));
    PodFacts { phase, node, ended_at: Some(at), ..pod.clone() }
}

#[test]
fn a_launcher_of_a_run_before_is_none_of_the_next_one() {
    let launcher = numbered("x", 3, NOW).remove(2);
    let mut engine = engine(3, 8);
    let pods = numbered("y", 3, after(100));
    let facts = [over(&launcher, after(50)), pods[0].clone()];
    assert_eq!(binds(&seen(&mut engine, after(100), &facts)), []);
    let output = seen(&mut engine, after(101), &pods[1..2]);
    assert_eq!((binds(&output).len(), view(&engine, "g").min_member), (2, 3));
    // A place is kept for its own launcher.
    let output = engine.step(after(102), vec![rival("r")]);
    assert_eq!(binds(&output), []);
    let output = seen(&mut engine, after(160), &pods[2..]);
    assert_eq!(binds(&output), [("y-launcher".to_owned(), "n".to_owned())]);
}
