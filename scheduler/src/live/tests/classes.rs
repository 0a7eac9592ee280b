//! Which PriorityClass work is said to have, where people may make one up.

use super::*;

/// The class of the one owner among inputs.
fn class_of(inputs: &[Input]) -> Option<&str> {
    let owners = inputs.iter().filter(|input| matches!(input, Input::Owner(_)));
    assert_eq!(owners.count(), 1, "{inputs:?}");
    inputs.iter().find_map(|input| match input {
        Input::Owner(owner) => owner.wishes.pod_class.as_deref(),
        _ => None,
    })
}

/// No API server looks at what a template names, and each name would be a label of metrics.
#[test]
fn a_class_that_is_not_there_is_no_class_of_a_template_whatever_priority_it_has() {
    let mut live = synced(&Config::default());
    let mut made_up = job_value("j", "j1");
    made_up["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    let spec = &mut made_up["spec"]["template"]["spec"];
    (spec["priority"], spec["priorityClassName"]) = (json!(5), json!("made-up"));
    spec["preemptionPolicy"] = json!("Never");
    live.take(Seen::Applied(job(made_up)));
    assert_eq!(class_of(&told(&mut live)), None);
    live.take(Seen::Applied(class("other", 9)));
    told(&mut live);
    live.take(Seen::Applied(class("made-up", 9)));
    assert_eq!(class_of(&told(&mut live)), Some("made-up"));
    live.take(Seen::Deleted(class("made-up", 9)));
    assert_eq!(class_of(&told(&mut live)), None);
    // What a pod has beside its priority the API server has looked up, also if it is gone by now.
    let mut settled = pod_value("p", "p1");
    (settled["spec"]["priority"], settled["spec"]["priorityClassName"]) = (json!(5), json!("was"));
    live.take(Seen::Applied(pod(settled)));
    assert_eq!(the_pod(&told(&mut live)).wishes.pod_class.as_deref(), Some("was"));
}
