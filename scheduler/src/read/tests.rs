//! Whole inputs in, objects and complaints out.

use capstan_core::Input;
use capstan_core::model::input::{ClusterQueueFacts, PodFacts};

use super::*;

fn read(name: &str, text: &str) -> Objects {
    match read_text(name, text, &Config::default()) {
        Ok(objects) => objects,
        Err(errors) => panic!("{}", said(&errors).join("\n")),
    }
}

fn yaml(text: &str) -> Objects {
    read("a.yaml", text)
}

fn said(errors: &[ReadError]) -> Vec<String> {
    errors.iter().map(ReadError::to_string).collect()
}

fn complaints(name: &str, text: &str) -> Vec<String> {
    match read_text(name, text, &Config::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => said(&errors),
    }
}

fn pods(objects: &Objects) -> Vec<&PodFacts> {
    objects
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Pod(pod) => Some(pod),
            _ => None,
        })
        .collect()
}

fn queue(objects: &Objects) -> &ClusterQueueFacts {
    let queue = objects.inputs.iter().find_map(|input| match input {
        Input::ClusterQueue(queue) => Some(queue),
        _ => None,
    });
    queue.expect("a ClusterQueue")
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{}]}}";

fn named_pod(name: &str) -> String {
    POD.replace("name: p}", &format!("name: {name}}}"))
}

#[test]
fn documents_and_lists_and_json_are_the_same_to_the_reader() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
        "spec":{"containers":[{}]}}"#;
    let want = yaml(POD).inputs;
    assert_eq!(pods(&yaml(POD)).len(), 1);
    for (name, text) in [
        ("a.json", json.to_owned()),
        ("-", json.to_owned()),
        ("a.yaml", json.to_owned()),
        ("-", POD.to_owned()),
        ("a.json", format!(r#"{{"kind":"List","apiVersion":"v1","items":[{json}]}}"#)),
        ("a.json", format!(r#"{{"apiVersion":"v1","items":[{json}],"kind":"List"}}"#)),
        ("a.json", format!("[{json}]")),
        ("a.yaml", format!("kind: List\napiVersion: v1\nitems:\n- {POD}\n")),
        ("a.yaml", format!("items:\n  - {POD}\nkind: List\napiVersion: v1\n")),
        ("a.yaml", format!("# only a comment\n---\n# another\n---\n{POD}\n---\n")),
        ("a.yaml", format!("%YAML 1.2\n---\n{POD}\n...\n")),
        ("a.yaml", format!("--- {POD}\n")),
        ("a.yaml", format!("\u{feff}{POD}")),
        ("a.json", format!("\u{feff}{json}")),
        ("a.yaml", format!("---\r\n{POD}\r\n---\r\n")),
    ] {
        assert_eq!(read(name, &text).inputs, want, "{name}: {text}");
    }
}

#[test]
fn typed_lists_need_not_repeat_their_kind() {
    let item = r#"{"metadata":{"name":"p"},"spec":{"containers":[{}]}}"#;
    let want = yaml(POD).inputs;
    for text in [
        format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{item}]}}"#),
        format!(r#"{{"apiVersion":"v1","items":[{item}],"kind":"PodList"}}"#),
    ] {
        assert_eq!(read("a.json", &text).inputs, want, "{text}");
        assert_eq!(read("a.yaml", &text).inputs, want, "{text}");
    }
}

#[test]
fn lists_nest_and_may_be_empty() {
    let (a, b, c) = (named_pod("a"), named_pod("b"), named_pod("c"));
    let inner = format!("{{kind: List, apiVersion: v1, items: [{b}, {c}]}}");
    let objects = yaml(&format!("{{kind: List, apiVersion: v1, items: [{a}, {inner}]}}"));
    assert_eq!(pods(&objects).len(), 3);
    assert_eq!(yaml("{kind: List, apiVersion: v1, items: []}").inputs.len(), 1);
    assert_eq!(read("a.json", r#"{"kind":"List","apiVersion":"v1","items":null}"#).inputs.len(), 1);
}

#[test]
fn every_mistake_of_every_object_is_said_at_once() {
    let text = "
apiVersion: capstan.sh/v1alpha1
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohort: research
  resourceGroups:
  - coveredResources: [cpu, gpu]
    flavors:
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 4}
      - {name: gpu, nominalQuota: 16 GPUs}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: {template: {spec: {schedulerName: capstan}}}
---
kind: Pod
metadata: {name: x}
---
just a text
---
apiVersion: v1
kind: Pod
metadata: {generateName: ''}
---
apiVersion: v1
kind: Pod
metadata: {name: x, namespace: team, labels: {a: 1}}
spec: {containers: [{resources: {requests: {nvidia.com/gpu: many}}}]}
";
    let quota = "spec.resourceGroups[0].flavors[0].resources[1].nominalQuota";
    let want = [
        "a.yaml, document 1, ClusterQueue team-a: spec.cohort: unknown field \
         (did you mean cohortName?)"
            .to_owned(),
        format!(
            "a.yaml, document 1, ClusterQueue team-a: {quota}: \"16 GPUs\" is no quantity \
             (try 16, 2.5, 64Gi)"
        ),
        "a.yaml, document 2, Job train: spec.template.spec.containers: missing".to_owned(),
        "a.yaml, document 3: apiVersion: missing; every object needs apiVersion and kind"
            .to_owned(),
        "a.yaml, document 4: a text, not an object with apiVersion and kind".to_owned(),
        "a.yaml, document 5, Pod: metadata.name: missing".to_owned(),
        "a.yaml, document 5, Pod: spec: missing".to_owned(),
        "a.yaml, document 6, Pod team/x: metadata.labels.a: 1, where a text is needed; \
         write it in quotes"
            .to_owned(),
        "a.yaml, document 6, Pod team/x: \
         spec.containers[0].resources.requests[\"nvidia.com/gpu\"]: \"many\" is no quantity \
         (try 16, 2.5, 64Gi)"
            .to_owned(),
    ];
    assert_eq!(complaints("a.yaml", text), want);
}

#[test]
fn names_that_are_left_to_an_api_server_are_made_in_order() {
    let pod = |meta: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {meta}, spec: {{containers: [{{}}]}}}}")
    };
    let metas = [
        "{name: x-1}",
        "{generateName: x-}",
        "{generateName: x-, namespace: team}",
        "{generateName: x-, name: ''}",
        "{generateName: x-, name: y}",
    ];
    let objects = yaml(&metas.map(pod).join("\n---\n"));
    let mut names: Vec<String> =
        pods(&objects).iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["default/x-1", "default/x-2", "default/x-3", "default/y", "team/x-1"]);
    let told = said(&objects.warnings);
    let left = "metadata.name: left to an API server (generateName); called";
    let wants = [
        format!("a.yaml, document 2, Pod x-2: {left} x-2 here, others that begin so by the"),
        format!("a.yaml, document 3, Pod team/x-1: {left} x-1 here, others"),
    ];
    for want in &wants {
        assert!(told.iter().any(|told| told.starts_with(want)), "{want} in {told:#?}");
    }
    assert_eq!(told.iter().filter(|told| told.contains(left)).count(), wants.len(), "{told:#?}");
}

#[test]
fn a_part_of_a_device_is_refused() {
    let text = "apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: c
    resources:
      requests: {nvidia.com/gpu: '0.5', cpu: '0.5', amd.com/gpu: 2000m, x.kubernetes.io/y: '0.5'}
      limits: {nvidia.com/gpu: 1500m}
";
    let path = "a.yaml, document 1, Pod p: spec.containers[0].resources";
    let whole = "is no whole number; nvidia.com/gpu is asked in whole units";
    let mut found = complaints("a.yaml", text);
    found.sort();
    let want = [
        format!("{path}.limits[\"nvidia.com/gpu\"]: 1500m {whole}"),
        format!("{path}.requests[\"nvidia.com/gpu\"]: 500m {whole}"),
    ];
    assert_eq!(found, want);
}

#[test]
fn the_same_object_twice_names_both_places() {
    let queue = |version: &str| {
        format!(
            "{{apiVersion: kueue.x-k8s.io/{version}, kind: ClusterQueue, metadata: {{name: q}}}}"
        )
    };
    let text = format!("{}\n---\n{}", queue("v1beta1"), queue("v1beta2"));
    let want = "a.yaml, document 2, ClusterQueue q: given twice; first in a.yaml, document 1; \
                remove one";
    assert_eq!(complaints("a.yaml", &text), [want]);
    let list = format!("{{kind: List, apiVersion: v1, items: [{POD}, {POD}]}}");
    let want = "a.yaml, document 1, item 2, Pod p: given twice; first in a.yaml, document 1, \
                item 1; remove one";
    assert_eq!(complaints("a.yaml", &list), [want]);
    let other = format!("{POD}\n---\n{}", POD.replace("name: p", "name: p, namespace: other"));
    assert!(complaints("a.yaml", &other).is_empty());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.yaml");
    let paths = [missing.clone(), folder.path().to_path_buf(), missing];
    let errors = read_files(&paths, &Config::default()).expect_err("errors");
    let said = said(&errors);
    assert!(said[0].ends_with("missing.yaml: no such file"), "{said:?}");
    assert!(said[1].ends_with("a directory; name the files in it"), "{said:?}");
    assert!(said[2].ends_with("named twice; name it once"), "{said:?}");
    assert_eq!(read_files(&[], &Config::default()).expect_err("errors").len(), 1);
}

#[test]
fn empty_files_are_named() {
    for text in ["", "\n\n", "# nothing\n", "---\n---\n", "null\n", "--- # nothing\n", "\u{feff}"] {
        let want = "a.yaml: empty: there is no object in it";
        assert_eq!(complaints("a.yaml", text), [want], "{text:?}");
    }
    assert_eq!(complaints("a.json", " \n"), ["a.json: empty: there is no object in it"]);
}

#[test]
fn truncated_files_are_named_and_what_came_before_counts() {
    let json = r#"{"kind":"List","apiVersion":"v1","items":[{"apiVersion":"v1","kind":"Pod",
        "metadata":{"name":"p"},"spec":{"containers":[]}},{"apiVersion":"v1","ki"#;
    let want = [
        "a.json, document 1, item 1, Pod p: spec.containers: empty; \
         it needs at least one container",
        "a.json, document 1, item 2: truncated: the JSON ends in the middle, in line 2",
    ];
    assert_eq!(complaints("a.json", json), want);
    let text = format!("{}\n---\nkind: Pod\nmetadata: {{name: \"x\n", named_pod("a"));
    let errors = complaints("a.yaml", &text);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("a.yaml, document 2: line "), "{errors:?}");
}

#[test]
fn broken_documents_do_not_hide_the_others() {
    let text =
        format!("a: b: c\n---\na:\n\t- x\n b: 1\n---\n{}\n---\n{}", named_pod("a"), "spec: {");
    let errors = complaints("a.yaml", &text);
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("a.yaml, document 1: line 1 is no YAML"), "{errors:?}");
    assert!(errors[1].starts_with("a.yaml, document 2: line 4 is no YAML"), "{errors:?}");
    assert!(errors[2].starts_with("a.yaml, document 4: line "), "{errors:?}");
}

#[test]
fn all_mistakes_of_a_misnamed_object_are_said() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: 5, namespace: [x], labels: [1]}, \
                spec: {containers: foo, nodeName: 7}}";
    let mut errors = complaints("a.yaml", text);
    errors.sort();
    let want = [
        "metadata.labels: a list, where an object is needed",
        "metadata.name: 5, where a text is needed; write it in quotes",
        "metadata.namespace: a list, where a text is needed",
        "spec.containers: \"foo\", where a list is needed",
        "spec.nodeName: 7, where a text is needed; write it in quotes",
    ];
    assert_eq!(errors, want.map(|one| format!("a.yaml, document 1, Pod: {one}")));
}

#[test]
fn odd_metadata_of_kinds_of_other_projects_is_said() {
    for (kind, said) in [
        ("{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet", "JobSet s: metadata.labels"),
        ("{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup", "PodGroup s: metadata.label"),
    ] {
        let wrong =
            complaints("a.yaml", &format!("{kind}, metadata: {{name: s, labels: {{a: 1}}}}}}"));
        assert!(wrong.len() == 1 && wrong[0].contains(said), "{wrong:?}");
    }
}

#[test]
fn the_items_of_a_list_are_a_list() {
    for (name, text) in [
        ("a.yaml", "{kind: List, apiVersion: v1, items: {}}"),
        ("a.yaml", "{kind: PodList, apiVersion: v1, items: {a: 1}}"),
        ("a.json", r#"{"kind":"List","apiVersion":"v1","items":{}}"#),
        ("a.json", r#"{"items":{},"kind":"List","apiVersion":"v1"}"#),
    ] {
        let errors = complaints(name, text);
        assert_eq!(errors.len(), 1, "{text}");
        assert!(
            errors[0].ends_with("List: items: an object, where a list is needed"),
            "{errors:?}"
        );
    }
}

#[test]
fn complaints_about_yaml_are_in_words_for_people() {
    let doubling: String =
        (1..40).map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)).collect();
    let many = format!("a0: &a0 [x]\nb:\n{}", "- *a0\n".repeat(60_000));
    for (text, want) in [
        ("a: 1\na: 2\n".to_owned(), "line 2: key a is written twice; remove one"),
        (": 3\n".to_owned(), "line 1: a key is missing or empty; write one before the colon"),
        ("a: *b\n".to_owned(), "an alias (*name) without an anchor (&name) before it"),
        (format!("a0: &a0 [x]\n{doubling}"), "too many anchors or aliases"),
        (many, "too many anchors or aliases"),
        ("[".repeat(300), "nested more than 128 deep"),
    ] {
        let errors = complaints("a.yaml", &text);
        assert!(errors[0].contains(want), "{want}: {errors:?}");
    }
}

#[test]
fn strange_bytes_are_complaints() {
    let config = Config::default();
    for bytes in [
        b"\xff\xfea\0:\0".as_slice(),
        b"a: \xff\n",
        b"a: \0\n",
        b"{\"a\": \"\xff\"}",
        b"\0\0\0\0",
        b"[[[[",
        b"{",
        b"}",
        b"\"",
        b"- - - -",
        b"*a",
        b"? ? ?",
        b"!!python/object {}",
        b"{\"a\":1e999}",
        b"a: .nan",
    ] {
        for name in ["a.yaml", "a.json", "-"] {
            let result = read_bytes(name, bytes, &config);
            assert!(result.is_err(), "{name} {bytes:?}");
        }
    }
}

#[test]
fn alias_bombs_and_deep_nesting_end_soon() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}, ", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert_eq!(complaints("a.yaml", &bomb).len(), 1);
    let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(4_000));
    assert_eq!(complaints("a.yaml", &long).len(), 1);
    for (name, text) in [
        ("a.yaml", "[".repeat(100_000)),
        ("a.json", "[".repeat(100_000)),
        ("a.json", "{\"a\":".repeat(100_000)),
        ("a.json", "{\"items\":[".repeat(100_000)),
        ("a.yaml", "- ".repeat(100_000)),
        ("a.yaml", "a: {".repeat(100_000)),
        ("a.yaml", "? ".repeat(100_000)),
        ("a.yaml", (0..3_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
    ] {
        assert_eq!(complaints(name, &text).len(), 1, "{name} {}", &text[..10]);
    }
}

#[test]
fn anchors_reach_across_the_items_of_a_small_list() {
    let text = "
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: &s {containers: [{}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: *s}
";
    assert_eq!(pods(&yaml(text)).len(), 2);
}

#[test]
fn a_large_block_list_is_read_item_by_item() {
    let filler = "x".repeat(1_000);
    let item = |index: usize| {
        format!(
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p{index}\n    \
             annotations:\n      \
             text: |\n        - {filler}\n\n        # no comment\n  spec:\n    \
             containers:\n    - name: c\n"
        )
    };
    let mut text = String::from("apiVersion: v1\nitems: # all\n");
    for index in 0..6_000 {
        text.push_str(&item(index));
        if index == 5_000 {
            text.push_str("- kind: [broken\n");
        }
    }
    text.push_str("kind: List\nmetadata:\n  resourceVersion: \"\"\n---\n");
    let whole = format!("{text}{POD}\n");
    let errors = complaints("a.yaml", &whole);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("a.yaml, document 1, item 5002: line "), "{errors:?}");
    let objects = yaml(&whole.replace("- kind: [broken\n", ""));
    assert_eq!(pods(&objects).len(), 6_001);
}

#[test]
fn unknown_fields_are_warnings_in_kueues_objects() {
    let text = "
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: q}
spec:
  cohort: c
  admissionChecks: [a]
  colour: red
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}
status: {pendingWorkloadsStatus: {}}
";
    let objects = yaml(text);
    let want = [
        "a.yaml, document 1, ClusterQueue q: spec.admissionChecks: has no equal, work starts \
         without waiting for any check; it was ignored",
        "a.yaml, document 1, ClusterQueue q: spec.colour: unknown field; it was ignored",
    ];
    assert_eq!(said(&objects.warnings), want);
    let queue = queue(&objects);
    assert_eq!((queue.cohort.as_deref(), &queue.namespaces), (Some("c"), &None));
    assert!(!queue.fungibility.next_when_preempting);
    let v1beta2 = text.replace("v1beta1", "v1beta2");
    let errors = complaints("a.yaml", &v1beta2);
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn kinds_nobody_knows_are_counted() {
    let text = "
{apiVersion: v1, kind: ConfigMap}
---
{apiVersion: v1, kind: ConfigMap, data: 7}
---
{apiVersion: kueue.x-k8s.io/v1alpha1, kind: ClusterQueue}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload}
---
{apiVersion: capstan.sh/v1alpha1, kind: ClusterQueu}
---
{apiVersion: capstan.sh/v1alpha1, kind: CapstanConfiguration}
---
{apiVersion: scheduling.k8s.io/v1alpha3, kind: CompositePodGroup}
";
    let objects = yaml(text);
    let counted: Vec<(&str, usize)> =
        objects.ignored.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    let want = [("ConfigMap", 2), ("Workload (kueue.x-k8s.io/v1beta2)", 1)];
    assert_eq!(counted, want);
    let told = said(&objects.warnings);
    assert!(told[0].contains("kueue.x-k8s.io/v1alpha1 is not read"), "{told:?}");
    assert!(told[1].contains("did you mean ClusterQueue?"), "{told:?}");
    assert!(told[3].contains("CompositePodGroup: trees of groups are not started"), "{told:?}");
}

#[test]
fn what_kueue_has_and_nothing_here_does_is_named() {
    let text = "
{apiVersion: kueue.x-k8s.io/v1beta1, kind: AdmissionCheck, metadata: {name: prov},
 spec: {controllerName: kueue.x-k8s.io/provisioning-request}}
---
{apiVersion: kueue.x-k8s.io/v1alpha1, kind: MultiKueueConfig, metadata: {name: m}}
---
{apiVersion: example.com/v1, kind: AdmissionCheck, metadata: {name: other}}
";
    let objects = yaml(text);
    let want = [
        "a.yaml, document 1, AdmissionCheck prov: has no equal: nothing here waits for what \
         kueue.x-k8s.io/provisioning-request says of a workload, which starts once it has quota \
         and nodes",
        "a.yaml, document 2, MultiKueueConfig m: has no equal: Capstan schedules the cluster that \
         it runs in, and sends no work to others",
    ];
    assert_eq!(said(&objects.warnings), want);
    assert_eq!(objects.ignored["AdmissionCheck"], 1);
}

#[test]
fn lone_pods_of_another_scheduler_are_known_by_name() {
    let pod = |name: &str, scheduler: &str, owner: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: n{owner}}}, \
             spec: {{{scheduler}containers: [{{name: c}}]}}}}\n---\n"
        )
    };
    let owner = ", ownerReferences: [{apiVersion: v1, kind: Node, name: a, uid: u, \
                 controller: true}]";
    let text = [
        pod("ours", "schedulerName: capstan, ", ""),
        pod("owned", "", owner),
        pod("plain", "", ""),
        pod("other", "schedulerName: volcano, ", ""),
    ];
    let objects = yaml(&text.concat());
    let names: Vec<&str> = objects.theirs.keys().map(|(_, name)| &**name).collect();
    assert_eq!(names, ["other", "plain"]);
}

#[test]
fn work_that_kueue_holds_is_named() {
    let text = "
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w, namespace: n},
 spec: {active: false}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: Workload, metadata: {name: v}, spec: {active: true}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: u}, spec: {active: false},
 status: {conditions: [{type: Finished, status: 'True'}]}}
";
    let objects = yaml(text);
    let told = said(&objects.warnings);
    assert_eq!(told.len(), 1, "{told:?}");
    let says = "Workload n/w: spec.active: false in Kueue, whose Workloads are not read";
    assert!(told[0].contains(says), "{told:?}");
    assert_eq!(objects.ignored.values().sum::<usize>(), 2);
}

#[test]
fn a_thousand_complaints_are_enough() {
    let text = "x\n---\n".repeat(1_500);
    let errors = complaints("a.yaml", &text);
    assert_eq!(errors.len(), 1_001);
    assert_eq!(errors[1_000], "500 more errors are not shown");
}

#[test]
fn a_field_that_stands_twice_is_an_error_and_hides_nothing() {
    let text = r#"{"kind": "List", "apiVersion": "v1", "items": [
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "name": "b"}},
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}, "status": 7},
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"}, "spec": null, "spec": {}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}, "spec": {"containers": [
  {"name": "c"}, {"name": "d", "name": "e", "image": "f", "image": "g"}]}}], "items": []}"#;
    let want = [
        "a.json, document 1, item 1, Node b: metadata.name: is written twice; remove one",
        "a.json, document 1, item 2, Node c: status: 7, where an object is needed",
        "a.json, document 1, item 4, Pod e: spec.containers[1].name: is written twice; remove one",
        "a.json, document 1, item 4, Pod e: spec.containers[1].image: is written twice; remove one",
        "a.json, document 1, List: items: is written twice; remove one",
    ];
    assert_eq!(complaints("a.json", text), want);
}

#[test]
fn a_queue_that_is_being_deleted_says_since_when_and_that_counts_as_time() {
    let text = |more: &str| {
        format!(
            "{{apiVersion: capstan.sh/v1alpha1, kind: ClusterQueue, metadata: {{name: q, \
             creationTimestamp: \"2026-01-01T00:00:00Z\"{more}}}, spec: {{}}}}"
        )
    };
    let stays = yaml(&text(""));
    assert_eq!((queue(&stays).deleted, stays.latest), (None, Some(Time(1_767_225_600_000))));
    let goes = yaml(&text(", deletionTimestamp: \"2026-01-01T00:00:05Z\""));
    let since = Some(Time(1_767_225_605_000));
    assert_eq!((queue(&goes).deleted, goes.latest), (since, since));
    assert!(queue(&goes).broken.is_empty());
}
