//! Whatever is in a file, reading it ends with a result or complaints, and what was read can be
//! played.
//!
//! Real manifests are cut, doubled, mixed and sprinkled with odd bytes and amounts. What was found
//! is a scenario: `tests/scenarios/input/amounts-whose-sum-is-beyond-any.yaml`.

use proptest::prelude::*;

use capstan_core::policy::Policy;

use super::*;
use crate::config::read_config_text;
use crate::progress::Progress;
use crate::world::{self, Mode, StartTimes};

/// One manifest with everything that is read.
const SEED: &str = r#"
apiVersion: capstan.sh/v1alpha1
kind: ClusterQueue
metadata: {name: q}
spec:
  cohortName: c
  namespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
  preemption: {withinClusterQueue: LowerPriority, minRuntime: 10m}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: f
      resources:
      - {name: cpu, nominalQuota: 1500m, borrowingLimit: 1e3}
      - {name: nvidia.com/gpu, nominalQuota: 8, lendingLimit: "4"}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: l}, spec: {clusterQueue: q}}
---
kind: List
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata: &m
    name: n
    labels: {zone: "a"}
  spec: {taints: [{key: k, value: "true", effect: NoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 31Gi, pods: 110}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: j, creationTimestamp: "2026-01-01T10:00:00Z"}
  spec:
    parallelism: 2
    template:
      metadata: {annotations: {capstan.sh/expected-runtime: 1h30m}}
      spec: {schedulerName: capstan, containers: [{resources: {limits: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: low
spec:
  nodeName: n
  schedulerName: capstan
  containers: [{name: c, resources: {requests: {cpu: 4}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: high
spec:
  priority: 10
  schedulerName: capstan
  containers: [{name: c, resources: {requests: {cpu: 6}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: p
  managedFields: [{manager: kubectl}]
  annotations:
    text: |-
      a
      b
spec:
  nodeName: n
  containers:
  - name: c
    ports: [{containerPort: 80, hostPort: 8080}]
    resources: {requests: {cpu: 100m, memory: 1Gi}}
status: {phase: Running, conditions: [{type: PodScheduled, status: "True"}]}
"#;

/// The same as one JSON List.
const JSON_SEED: &str = r#"{"apiVersion":"v1","items":[
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},
 "spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1","memory":1.5e9}}}],
 "tolerations":[{"operator":"Exists"}]},"status":{"phase":"Running"}},
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":1e1}}},
{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"q"},"spec":{"containers":[{}]}}]}
],"kind":"List","metadata":{"resourceVersion":""}}"#;

/// Bytes that parsers trip over.
const ODD: [&str; 26] = [
    "\0",
    "\t",
    "\r",
    "\n---\n",
    "\n...\n",
    "&a",
    "*a",
    "<<: *m\n",
    "!!str ",
    "? ",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|\n",
    "#",
    "%YAML 9\n",
    "\u{feff}",
    "null",
    "9e999",
    "6000000000000000000",
    "00000000000000",
];

/// One change to a text.
#[derive(Clone, Debug)]
enum Change {
    Cut(usize),
    Drop(usize, usize),
    Double(usize, usize),
    Insert(usize, usize),
    Byte(usize, u8),
    Indent(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..4_000usize;
    prop_oneof![
        at.clone().prop_map(Change::Cut),
        (at.clone(), 1..80usize).prop_map(|(at, len)| Change::Drop(at, len)),
        (at.clone(), 1..200usize).prop_map(|(at, len)| Change::Double(at, len)),
        (at.clone(), 0..ODD.len()).prop_map(|(at, odd)| Change::Insert(at, odd)),
        (at.clone(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        at.prop_map(Change::Indent),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change) {
    let within = |at: usize| if text.is_empty() { 0 } else { at % text.len() };
    match change {
        Change::Cut(at) => text.truncate(within(*at)),
        Change::Drop(at, len) => {
            let from = within(*at);
            let to = (from + len).min(text.len());
            text.drain(from..to);
        }
        Change::Double(at, len) => {
            let from = within(*at);
            let part = text[from..(from + len).min(text.len())].to_vec();
            text.splice(from..from, part);
        }
        Change::Insert(at, odd) => {
            let from = within(*at);
            text.splice(from..from, ODD[*odd].bytes());
        }
        Change::Byte(at, byte) => {
            let from = within(*at);
            text.splice(from..from, [*byte]);
        }
        Change::Indent(at) => {
            let from = within(*at);
            let line = text[from..].iter().position(|byte| *byte == b'\n');
            let from = line.map_or(text.len(), |line| from + line + 1);
            text.splice(from..from, *b"  ");
        }
    }
}

fn survives(bytes: &[u8]) {
    let config = Config::default();
    for name in ["a.yaml", "a.json", "-"] {
        match read_bytes(name, bytes, &config) {
            Ok(read) => {
                // The engine counts itself again after each of these rounds.
                let (policy, start) = (Policy::default(), StartTimes::default());
                let progress = Progress::default();
                world::run(read.inputs, policy, start, Mode::Cycles(4), &progress);
            }
            Err(errors) => assert!(errors.iter().all(|error| !error.to_string().is_empty())),
        }
    }
    let _ = read_config_text("c.yaml", &String::from_utf8_lossy(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn changed_manifests_are_read_or_refused(
        json in any::<bool>(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let mut text = if json { JSON_SEED } else { SEED }.as_bytes().to_vec();
        for change in &changes {
            apply(&mut text, change);
        }
        survives(&text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(&bytes);
    }

    #[test]
    fn any_mix_of_odd_pieces_is_read_or_refused(
        pieces in prop::collection::vec(0..ODD.len(), 0..60),
    ) {
        let text: String = pieces.iter().map(|piece| ODD[*piece]).collect();
        survives(text.as_bytes());
    }
}

#[test]
fn the_seeds_themselves_are_fine() {
    let config = Config::default();
    for (name, text) in [("a.yaml", SEED), ("a.json", JSON_SEED), ("a.yaml", JSON_SEED)] {
        if let Err(errors) = read_text(name, text, &config) {
            panic!("{name}: {errors:#?}");
        }
    }
}

#[test]
fn every_prefix_is_read_or_refused() {
    for text in [SEED, JSON_SEED] {
        for end in (0..text.len()).step_by(7) {
            survives(&text.as_bytes()[..end]);
        }
    }
}
