//! Objects in any order, and what is told of them.

use capstan_core::model::input::{Answer, DeviceCount, Reach, TolerationOperator};
use serde_json::{Value, json};

use super::*;
use crate::api::devices::DeviceObject;

fn slice(devices: Value) -> DeviceObject {
    let spec = json!({ "driver": "gpu.example.com", "nodeName": "a", "devices": devices,
        "pool": { "name": "a", "generation": 1, "resourceSliceCount": 1 } });
    let slice = json!({ "metadata": { "name": "s" }, "spec": spec });
    DeviceObject::Slice(serde_json::from_value(slice).expect("slice"))
}

fn class(expression: &str) -> DeviceObject {
    let spec = json!({ "selectors": [{ "cel": { "expression": expression } }] });
    let class = json!({ "metadata": { "name": "gpu" }, "spec": spec });
    DeviceObject::Class(serde_json::from_value(class).expect("class"))
}

fn claim_of(owner: Option<&str>, exactly: Value, status: Value) -> DeviceObject {
    let owners = owner.map(|uid| {
        json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p",
        "uid": uid, "controller": true }])
    });
    let meta = json!({ "name": "c", "namespace": "ns", "uid": "u", "ownerReferences": owners
        .unwrap_or_else(|| json!([])) });
    let spec = json!({ "devices": { "requests": [{ "name": "r", "exactly": exactly }] } });
    let claim = json!({ "metadata": meta, "spec": spec, "status": status });
    DeviceObject::Claim(serde_json::from_value(claim).expect("claim"))
}

fn claim(exactly: Value) -> DeviceObject {
    claim_of(None, exactly, json!({}))
}

fn gpu() -> Value {
    json!({ "deviceClassName": "gpu" })
}

fn with(objects: &[DeviceObject]) -> DeviceDirectory {
    let (mut directory, mut shared) = (DeviceDirectory::default(), Shared::default());
    for object in objects {
        directory.put(object, &mut shared);
    }
    directory.settle(&mut shared);
    directory
}

fn spec(directory: &mut DeviceDirectory) -> Arc<ClaimSpec> {
    let told = directory.news().facts.into_iter().find_map(|input| match input {
        Input::ResourceClaim(claim) => Some(claim.spec),
        _ => None,
    });
    told.expect("a claim")
}

fn answers(news: &News) -> Vec<Vec<Answer>> {
    let said = news.facts.iter().filter_map(|input| match input {
        Input::Answers { answers, .. } => Some(answers.to_vec()),
        _ => None,
    });
    said.collect()
}

#[test]
fn a_query_is_the_class_and_the_request_together() {
    let devices = json!([
        { "name": "g0", "attributes": { "mem": { "int": 80 } } },
        { "name": "g1", "attributes": { "mem": { "int": 40 } } },
        { "name": "g2" },
    ]);
    let exactly = json!({ "deviceClassName": "gpu", "selectors": [{ "cel": {
        "expression": "device.attributes['gpu.example.com'].mem > 40" } }] });
    let of_driver = class("device.driver == 'gpu.example.com'");
    let mut directory = with(&[slice(devices), claim(exactly), of_driver]);
    let news = directory.news();
    let fails = "selector #0: CEL runtime error: no such key: mem";
    let expected = vec![Answer::Yes, Answer::No, Answer::Fails(fails.into())];
    assert_eq!(answers(&news), [expected]);
    assert!(directory.news().facts.is_empty(), "nothing is told twice");
    // Another class decides: it is asked first, and the answers are all new.
    directory.put(&class("false"), &mut Shared::default());
    directory.settle(&mut Shared::default());
    let news = directory.news();
    assert_eq!(answers(&news), [vec![Answer::No; 3]]);
    assert!(matches!(news.gone.as_slice(), [Input::QueryGone(_)]), "{:?}", news.gone);
    // A slice that changes is looked at again; one that does not is not.
    directory.put(&slice(json!([{ "name": "g9" }])), &mut Shared::default());
    directory.settle(&mut Shared::default());
    assert_eq!(answers(&directory.news()), [vec![Answer::No]]);
}

#[test]
fn what_is_wrong_with_a_claim_is_said_with_its_request() {
    let fault = |objects: &[DeviceObject]| {
        spec(&mut with(objects)).fault.as_ref().map(|fault| fault.to_string())
    };
    let says = "request r: device class gpu does not exist";
    assert_eq!(fault(&[claim(gpu())]).as_deref(), Some(says));
    assert_eq!(fault(&[claim(gpu()), class("true")]), None);
    let broken = fault(&[claim(gpu()), class("device.driver ==")]).expect("a fault");
    let says = "request r: class gpu: selector #0: CEL compile error: it ends too soon";
    assert_eq!(broken, says);
    let mode = json!({ "deviceClassName": "gpu", "allocationMode": "Some" });
    let says = "request r: unsupported count mode Some";
    assert_eq!(fault(&[claim(mode), class("true")]).as_deref(), Some(says));
    let none = json!({ "deviceClassName": "gpu", "count": 0 });
    assert!(fault(&[claim(none), class("true")]).expect("a fault").contains("0 devices"));
}

#[test]
fn requests_are_read_with_their_defaults() {
    let exactly = json!({ "deviceClassName": "gpu", "adminAccess": true, "count": 3,
        "capacity": { "requests": { "memory": "1Gi" } },
        "tolerations": [{ "key": "k", "operator": "Exists" }] });
    let spec = spec(&mut with(&[claim(exactly), class("true")]));
    let ask = &spec.requests[0].options[0];
    assert_eq!((&*ask.name, ask.count, ask.admin), ("r", DeviceCount::Exactly(3), true));
    assert_eq!(ask.capacity["memory"].0, (1_i128 << 30) * 1_000_000_000);
    assert_eq!(ask.tolerations.len(), 1);
}

#[test]
fn what_tolerates_taints_without_an_effect_tolerates_no_other() {
    let operator = |effect: &str| {
        let exactly = json!({ "deviceClassName": "gpu",
            "tolerations": [{ "operator": "Exists", "effect": effect }] });
        let spec = spec(&mut with(&[claim(exactly), class("true")]));
        spec.requests[0].options[0].tolerations[0].operator
    };
    assert_eq!(operator(""), TolerationOperator::Exists);
    assert_eq!(operator("NoExecute"), TolerationOperator::Exists);
    assert_eq!(operator("None"), TolerationOperator::Unknown);
    assert_eq!(operator("Sometimes"), TolerationOperator::Unknown);
}

#[test]
fn a_slice_says_who_reaches_it() {
    let reach = |spec: Value| {
        let mut all = json!({ "driver": "d", "devices": [{ "name": "x" }],
            "pool": { "name": "p", "resourceSliceCount": 1 } });
        all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
        let slice = json!({ "metadata": { "name": "s" }, "spec": all });
        let slice: ResourceSlice = serde_json::from_value(slice).expect("slice");
        slice::facts(&slice, &mut Shared::default()).nodes
    };
    assert_eq!(reach(json!({ "nodeName": "n" })), Reach::Node("n".into()));
    assert_eq!(reach(json!({ "allNodes": true })), Reach::Everywhere);
    assert_eq!(reach(json!({ "perDeviceNodeSelection": true })), Reach::PerDevice);
    assert_eq!(reach(json!({ "allNodes": false })), Reach::Nowhere);
    let terms = json!({ "nodeSelector": { "nodeSelectorTerms": [] } });
    assert!(matches!(reach(terms), Reach::Selected(_)));
}

/// What a pod `u-p` needs of one claim, and for what name.
fn of_pod(directory: &DeviceDirectory, source: ClaimSource, bound: bool) -> (PodClaim, Text) {
    let draft = PodClaimDraft { name: "gpus".into(), source };
    let (namespace, name, uid) = ("ns".into(), "p".into(), "u-p".into());
    let (namespace, name, uid) = (&namespace, &name, &uid);
    let claimant = Claimant { namespace, name, uid, group: None, bound };
    let drafts = [draft];
    let (mut claims, mut names) = directory.of_pod(&drafts, &claimant, &mut Shared::default());
    (claims.remove(0), names.remove(0))
}

#[track_caller]
fn unusable(found: (PodClaim, Text), says: &str) {
    let PodClaim::Unusable(problem) = &found.0 else { panic!("{found:?}") };
    assert!(problem.contains(says), "{problem}");
}

#[test]
fn a_pod_knows_its_claims_by_what_they_are_to_it() {
    let named = || ClaimSource::Named("c".into());
    let made = || ClaimSource::Made("t".into(), Some("c".into()));
    let none = with(&[]);
    unusable(of_pod(&none, named(), false), "resourceclaim \"c\" not found");
    let waiting = ClaimSource::Made("t".into(), None);
    unusable(of_pod(&none, waiting, false), "not created yet from its template t");
    unusable(of_pod(&none, ClaimSource::Unknown, false), "unsupported claim type");
    let shared = with(&[class("true"), claim(gpu())]);
    let key = ("ns".into(), "c".into());
    assert_eq!(of_pod(&shared, named(), false), (PodClaim::Named(key), "c".into()));
    unusable(of_pod(&shared, made(), false), "was not created for this pod");
    let own = with(&[class("true"), claim_of(Some("u-p"), gpu(), json!({}))]);
    let (found, name) = of_pod(&own, made(), false);
    assert!(matches!(found, PodClaim::Own { ref name, .. } if &**name == "gpus"), "{found:?}");
    assert_eq!(&*name, "c");
    // With devices it is this very claim, until the pod is bound and like its peers again.
    let status = json!({ "allocation": { "devices": { "results": [] } } });
    let given = with(&[class("true"), claim_of(Some("u-p"), gpu(), status)]);
    assert!(matches!(of_pod(&given, made(), false).0, PodClaim::Named(_)));
    assert!(matches!(of_pod(&given, made(), true).0, PodClaim::Own { .. }));
}

#[test]
fn what_was_made_for_a_pod_group_all_its_pods_share() {
    let made = |api: &str| {
        let owner = json!({ "apiVersion": api, "kind": "PodGroup", "name": "g", "uid": "u-g",
            "controller": true });
        let meta = json!({ "name": "c", "namespace": "ns", "uid": "u",
            "ownerReferences": [owner] });
        let spec = json!({ "devices": { "requests": [{ "name": "r", "exactly": gpu() }] } });
        let claim = json!({ "metadata": meta, "spec": spec });
        with(&[class("true"), DeviceObject::Claim(serde_json::from_value(claim).expect("claim"))])
    };
    let of = |directory: &DeviceDirectory, group: Option<&str>, bound: bool| {
        let source = ClaimSource::Made("t".into(), Some("c".into()));
        let drafts = [PodClaimDraft { name: "gpus".into(), source }];
        let (namespace, name, uid) = ("ns".into(), "p".into(), "u-p".into());
        let group = group.map(Text::from);
        let (namespace, name, uid, group) = (&namespace, &name, &uid, group.as_ref());
        let claimant = Claimant { namespace, name, uid, group, bound };
        let (mut claims, mut names) = directory.of_pod(&drafts, &claimant, &mut Shared::default());
        (claims.remove(0), names.remove(0))
    };
    let of_kubernetes = made("scheduling.k8s.io/v1beta1");
    let key = ("ns".into(), "c".into());
    let named = (PodClaim::Named(key), Text::from("c"));
    for bound in [false, true] {
        assert_eq!(of(&of_kubernetes, Some("g"), bound), named);
    }
    unusable(of(&of_kubernetes, Some("other"), false), "was not created for this pod");
    unusable(of(&of_kubernetes, None, false), "was not created for this pod");
    let of_others = made("scheduling.x-k8s.io/v1alpha1");
    unusable(of(&of_others, Some("g"), false), "was not created for this pod");
}

fn backing(name: &str, made: &str) -> DeviceObject {
    let spec = json!({ "extendedResourceName": "example.com/gpu" });
    let meta = json!({ "name": name, "creationTimestamp": made });
    let class = json!({ "metadata": meta, "spec": spec });
    DeviceObject::Class(serde_json::from_value(class).expect("class"))
}

/// What a pod `u-p` that asks for one GPU needs of devices.
fn of_plain(directory: &DeviceDirectory, bound: bool) -> Option<(PodClaim, Text)> {
    let spec = json!({ "containers": [{ "name": "c",
        "resources": { "limits": { "example.com/gpu": 1 } } }] });
    let spec = serde_json::from_value(spec).expect("spec");
    let mut shared = Shared::default();
    let drafts = super::of_pod(&spec, None, &mut shared).expect("it asks");
    let (namespace, name, uid) = ("ns".into(), "p".into(), "u-p".into());
    if !directory.has_claims(&drafts, Some(&uid)) {
        return None;
    }
    let group = None;
    let claimant = Claimant { namespace: &namespace, name: &name, uid: &uid, group, bound };
    let (mut claims, mut names) = directory.of_pod(&drafts, &claimant, &mut shared);
    Some((claims.pop()?, names.remove(0)))
}

fn class_of(found: &Option<(PodClaim, Text)>) -> Option<&str> {
    match found {
        Some((PodClaim::Extended { claim, .. }, _)) => claim.classes.first().map(|class| &**class),
        _ => None,
    }
}

#[test]
fn the_newest_class_backs_a_resource_then_the_lower_name() {
    assert_eq!(of_plain(&with(&[class("true")]), false), None, "nothing backs it");
    let (first, later) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let mut directory = with(&[backing("b", later), backing("a", first)]);
    assert_eq!(class_of(&of_plain(&directory, false)), Some("b"));
    let as_old = with(&[backing("b", later), backing("a", later)]);
    assert_eq!(class_of(&of_plain(&as_old, false)), Some("a"));
    directory.news();
    directory.remove_class(&"b".into());
    let changed = directory.settle(&mut Shared::default());
    assert_eq!(changed.resources, ["example.com/gpu".into()].into());
    assert_eq!(class_of(&of_plain(&directory, false)), Some("a"), "the other takes over");
    directory.remove_class(&"a".into());
    directory.settle(&mut Shared::default());
    let told = directory.news().facts;
    let nothing = |input: &Input| matches!(input, Input::BackedResources(all) if all.is_empty());
    assert!(told.iter().any(nothing), "{told:?}");
    assert_eq!(of_plain(&directory, false), None);
}

#[test]
fn a_claim_that_was_made_for_extended_resources_is_known_by_owner_and_annotation() {
    let class = || backing("gpu", "2026-01-01T00:00:00Z");
    let (found, name) = of_plain(&with(&[class()]), false).expect("it needs one");
    assert!(matches!(found, PodClaim::Extended { left: false, .. }), "{found:?}");
    assert_eq!(name, extended::claim_name("p", "u-p"));
    // Where it is bound without one, its node has the resource.
    assert_eq!(&*of_plain(&with(&[class()]), true).expect("as its peers").1, "");
    let DeviceObject::Claim(mut made) = claim_of(Some("u-p"), gpu(), json!({})) else {
        unreachable!("a claim")
    };
    made.metadata.annotations = Some([(extended::ANNOTATION.to_owned(), "true".to_owned())].into());
    let mut directory = with(&[class()]);
    directory.put(&DeviceObject::Claim(made), &mut Shared::default());
    assert_eq!(directory.settle(&mut Shared::default()).pods, ["u-p".into()].into());
    let (found, name) = of_plain(&directory, false).expect("it has one");
    assert!(matches!(found, PodClaim::Extended { left: true, .. }), "{found:?}");
    assert_eq!(&*name, "c");
    let (found, name) = of_plain(&directory, true).expect("it has one");
    assert!(matches!(found, PodClaim::Extended { left: false, .. }), "{found:?}");
    assert_eq!(&*name, "c");
    directory.remove_claim(&("ns".into(), "c".into()));
    assert_eq!(directory.settle(&mut Shared::default()).pods, ["u-p".into()].into());
    let (found, _) = of_plain(&directory, false).expect("it needs one");
    assert!(matches!(found, PodClaim::Extended { left: false, .. }), "{found:?}");
}

fn rule(name: &str, selector: Value, effect: &str) -> DeviceObject {
    let spec = json!({ "deviceSelector": selector, "taint": { "key": name, "effect": effect } });
    let rule = json!({ "metadata": { "name": name }, "spec": spec });
    DeviceObject::TaintRule(serde_json::from_value(rule).expect("rule"))
}

/// Names of devices with the keys of their taints, as told last.
fn tainted(directory: &mut DeviceDirectory) -> Vec<(String, Vec<String>)> {
    directory.settle(&mut Shared::default());
    let told = directory.news().facts.into_iter().find_map(|input| match input {
        Input::Slice(slice) => Some(slice),
        _ => None,
    });
    let slice = told.expect("a slice is told anew");
    let keys = |device: &capstan_core::model::input::DeviceFacts| {
        device.taints.iter().map(|taint| taint.key.to_string()).collect()
    };
    slice.devices.iter().map(|device| (device.name.to_string(), keys(device))).collect()
}

#[test]
fn rules_taint_the_devices_that_they_select() {
    let own = json!([{ "key": "own", "effect": "NoSchedule" }]);
    let devices = json!([{ "name": "g0", "taints": own }, { "name": "g1" }]);
    let named = json!({ "driver": "gpu.example.com", "pool": "a", "device": "g1" });
    let mut directory = with(&[slice(devices), rule("one", named, "NoSchedule")]);
    let of = |name: &str, keys: &[&str]| {
        (name.to_owned(), keys.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(tainted(&mut directory), [of("g0", &["own"]), of("g1", &["one"])]);
    let shared = &mut Shared::default();
    directory.put(&rule("all", json!({}), "NoExecute"), shared);
    assert_eq!(tainted(&mut directory), [of("g0", &["own", "all"]), of("g1", &["all", "one"])]);
    // One that changes takes back what it said; one without a selector selects nothing.
    directory.put(&rule("all", Value::Null, "NoExecute"), shared);
    assert_eq!(tainted(&mut directory), [of("g0", &["own"]), of("g1", &["one"])]);
    directory.remove(DeviceKind::TaintRule, &("".into(), "one".into()));
    assert_eq!(tainted(&mut directory), [of("g0", &["own"]), of("g1", &[])]);
    // Other drivers, other pools, and effects that keep nobody out.
    let others = [
        rule("driver", json!({ "driver": "other" }), "NoSchedule"),
        rule("pool", json!({ "pool": "other" }), "NoSchedule"),
        rule("soft", json!({}), "None"),
    ];
    others.iter().for_each(|other| directory.put(other, shared));
    assert!(directory.news().facts.is_empty(), "nothing is told that says the same");
    assert!(matches!(&directory.everything()[0],
        Input::Slice(slice) if slice.devices[1].taints.is_empty()));
}

#[test]
fn a_claim_says_whether_its_devices_are_ready() {
    use capstan_core::model::input::Readiness;
    let readiness = |conditions: Value| {
        let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "x",
            "bindingConditions": ["Attached", "Warm"], "bindingFailureConditions": ["Broken"] });
        let free = json!({ "request": "r", "driver": "d", "pool": "p", "device": "free" });
        let status = json!({
            "allocation": { "devices": { "results": [free, result] },
                "allocationTimestamp": "2026-01-01T00:00:00Z" },
            "devices": [{ "driver": "d", "pool": "p", "device": "x", "conditions": conditions }],
        });
        let mut directory = with(&[claim_of(None, gpu(), status)]);
        let told = directory.news().facts.into_iter().find_map(|input| match input {
            Input::ResourceClaim(claim) => claim.allocation,
            _ => None,
        });
        let allocation = told.expect("allocated");
        assert!(allocation.at.is_some(), "when it was given");
        allocation.readiness.clone()
    };
    let is = |of: &str, status: &str| {
        json!({ "type": of, "status": status, "reason": "Cable",
        "message": "it is loose" })
    };
    let waits = |lacks: &[&str]| Readiness::waits_for("x", lacks.iter().copied());
    assert_eq!(readiness(json!([])), waits(&["Attached", "Warm"]));
    assert_eq!(readiness(json!([is("Attached", "True"), is("Warm", "False")])), waits(&["Warm"]));
    let all = json!([is("Attached", "True"), is("Warm", "True"), is("Broken", "False")]);
    assert_eq!(readiness(all), Readiness::Ready);
    let broken = json!([is("Attached", "True"), is("Warm", "True"), is("Broken", "True")]);
    let why = "device x failed: Broken, reason Cable: it is loose";
    assert_eq!(readiness(broken), Readiness::Failed(why.into()));
    let mut since = is("Broken", "True");
    since["message"] = json!("");
    since["lastTransitionTime"] = json!("2026-01-01T00:00:05Z");
    since.as_object_mut().expect("an object").remove("reason");
    let why = "device x failed: Broken since 2026-01-01T00:00:05Z";
    assert_eq!(readiness(json!([since])), Readiness::Failed(why.into()));
}

#[test]
fn who_has_reserved_a_claim_is_told_whether_its_devices_are_ready_or_not() {
    let reserved = |conditions: Value| {
        let result = json!({ "request": "r", "driver": "d", "pool": "p", "device": "x",
            "bindingConditions": conditions });
        let by =
            |name: &str| json!({ "resource": "pods", "name": name, "uid": format!("u-{name}") });
        let status = json!({
            "allocation": { "devices": { "results": [result] } },
            "reservedFor": [by("a"), by("b")],
        });
        let mut directory = with(&[claim_of(None, gpu(), status)]);
        let told = directory.news().facts.into_iter().find_map(|input| match input {
            Input::ResourceClaim(claim) => claim.allocation,
            _ => None,
        });
        told.expect("allocated").reserved.clone()
    };
    for conditions in [json!(["Attached"]), json!([])] {
        assert_eq!(reserved(conditions), ["u-a".into(), "u-b".into()]);
    }
}

#[test]
fn only_what_was_made_for_a_pod_is_of_one_pod() {
    let of_one_pod = |kind: &str, annotations: Value| {
        let owner = json!({ "apiVersion": "v1", "kind": kind, "name": "p", "uid": "pod",
            "controller": true });
        let meta = json!({ "name": "c", "namespace": "ns", "uid": "u",
            "annotations": annotations, "ownerReferences": [owner] });
        let spec = json!({ "devices": { "requests": [{ "name": "r", "exactly": gpu() }] } });
        let claim = json!({ "metadata": meta, "spec": spec });
        let claim = DeviceObject::Claim(serde_json::from_value(claim).expect("claim"));
        let told = with(&[claim]).news().facts.into_iter().find_map(|input| match input {
            Input::ResourceClaim(claim) => Some(claim.of_one_pod),
            _ => None,
        });
        told.expect("a claim")
    };
    let made = json!({ "resource.kubernetes.io/pod-claim-name": "gpu" });
    assert!(of_one_pod("Pod", made.clone()));
    assert!(of_one_pod("Pod", json!({ extended::ANNOTATION: "true" })));
    // Others may name these.
    assert!(!of_one_pod("Pod", json!({})));
    assert!(!of_one_pod("Deployment", made));
}

#[test]
fn costly_selectors_are_evaluated_in_turns_and_what_is_not_known_yet_is_told_as_awaited() {
    let devices: Vec<Value> = (0..40)
        .map(|at| json!({ "name": format!("g{at}"), "attributes": { "at": { "int": at } } }))
        .collect();
    let least = "lists.range(80000).all(x, device.attributes['gpu.example.com'].at >= x - 80000)";
    let mut directory = with(&[slice(json!(devices)), claim(gpu()), class(least)]);
    let first = directory.news();
    assert_eq!(answers(&first), [vec![Answer::Awaited; 40]]);
    assert!(first.facts.iter().any(|input| matches!(input, Input::ResourceClaim(_))));
    let (mut turns, mut told) = (1, Vec::new());
    while directory.owes() {
        assert!(told.is_empty(), "told before it is done");
        told = directory.news().facts;
        turns += 1;
    }
    assert!((3..=40).contains(&turns), "{turns} turns");
    let [Input::Answers { answers, .. }] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(answers.to_vec(), vec![Answer::Yes; 40]);
    // All at once comes to the same.
    let mut directory = with(&[slice(json!(devices)), claim(gpu()), class(least)]);
    directory.evaluate();
    assert!(!directory.owes());
    assert_eq!(self::answers(&directory.news()), [vec![Answer::Yes; 40]]);
    // What is beyond a bound is not looked at, and nobody is told that it does not match.
    let mut directory = with(&[slice(json!(devices)), claim(gpu()), class(least)]);
    directory.evaluate_within(1);
    assert!(!directory.owes());
    let why = "not evaluated, as selectors of all claims cost more than 1 steps";
    let mut wanted = vec![Answer::Fails(why.into()); 40];
    wanted[0] = Answer::Yes;
    assert_eq!(self::answers(&directory.news()), [wanted]);
}
