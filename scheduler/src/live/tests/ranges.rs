//! LimitRanges come and go: who is told of it.

use capstan_core::Input;
use capstan_core::model::input::PodShape;
use serde_json::json;

use super::super::{Object, Seen};
use super::{job, job_value, meta, pod, pod_value, synced, told};
use crate::config::Config;

#[test]
fn a_limit_range_concerns_the_templates_and_the_waiting_pods_of_its_namespace() {
    let mut live = synced(&Config::default());
    let mut queued = job_value("j", "j1");
    queued["metadata"]["labels"] = json!({ "capstan.sh/queue": "q" });
    live.take(Seen::Applied(job(queued)));
    live.take(Seen::Applied(pod(pod_value("waits", "w1"))));
    let mut bound = pod_value("bound", "b1");
    bound["spec"]["nodeName"] = "n".into();
    live.take(Seen::Applied(pod(bound)));
    told(&mut live);
    let range = |namespace: &str, max: &str| {
        let mut meta = meta("l", "l1");
        meta["namespace"] = namespace.into();
        let limits = json!([{ "type": "Container", "max": { "example.com/gpu": max } },
            { "type": "Pod", "min": { "example.com/nic": 1 } }]);
        let range = json!({ "metadata": meta, "spec": { "limits": limits } });
        Object::LimitRange(serde_json::from_value(range).expect("LimitRange"))
    };
    live.take(Seen::Applied(range("elsewhere", "1")));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Applied(range("ns", "1")));
    let inputs = told(&mut live);
    let [Input::Owner(owner), Input::Pod(waits)] = &inputs[..] else { panic!("{inputs:?}") };
    let gpus = |shape: &PodShape| shape.requests.get("example.com/gpu").copied();
    let template = &owner.pod_sets[0].shape;
    assert_eq!((gpus(template), gpus(&waits.shape)), (Some(1), None), "its pod was made before");
    assert!(template.out_of_range.is_some() && waits.shape.out_of_range.is_some());
    live.take(Seen::Applied(range("ns", "1")));
    assert!(told(&mut live).is_empty());
    live.take(Seen::Deleted(range("ns", "1")));
    let inputs = told(&mut live);
    let [Input::Owner(owner), Input::Pod(waits)] = &inputs[..] else { panic!("{inputs:?}") };
    assert_eq!(gpus(&owner.pod_sets[0].shape), None);
    assert!(waits.shape.out_of_range.is_none());
}
