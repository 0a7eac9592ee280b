//! What it looks like, to the letter, and that it never gets wider than a terminal.

use capstan_core::explain::reason::{Inactive, NodeRefusal, Reason};
use capstan_core::explain::view::{NodeVerdict, PodExplanation, WorkloadExplanation};
use capstan_core::model::input::Text;
use capstan_core::plan::State;
use expect_test::expect;
use proptest::prelude::*;

use super::table::WIDTH;
use super::*;

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn explained() -> Explained<WorkloadExplanation> {
    Explained { explanation: fixture::explanation(), now: fixture::NOW, files: vec![] }
}

fn explained_pod(nodes: Vec<NodeVerdict>) -> Explained<PodExplanation> {
    let explanation = PodExplanation { namespace: "ns".into(), name: "p".into(), nodes };
    Explained { explanation, now: fixture::NOW, files: vec![] }
}

#[test]
fn a_simulation_as_text() {
    expect![[r#"
        6 nodes, 40 GPUs (32 A100: 16 spot, 16 on-demand; 8 T4 spot), $93.70/h. In use: 40 GPUs, $49.25/h.
        Settled after 3 rounds in 1.8 ms.

        QUEUE           COHORT     GPU QUOTA   USED   BORROWED   LENT     $/h   PENDING
        team-language   research          16      8          -      8   12.50         1
        team-vision     research          16     24          8      -   36.75         1
        serving         -                  8      4          -      -    0.00         0

        WORKLOAD             QUEUE          STATE     SHAPE  FLAVOR     NODES       $/h  WHY
        language/eval        team-language  Admitted  1×8    a100-spot  a4        12.50  took the place of
                                                                                         vision/sweep-7
        vision/train-resnet  team-vision    Admitted  3×8    a100-spot  a1 a2 a3  36.75  borrows 8 GPUs from
                                                                                         research
        serving/ranker-5d9c  serving        Running   1×4    t4         b1            -  a node's price is
                                                                                         unknown

        WAITING                        QUEUE          STATE      SHAPE  WHY
        default/notebo…very-long-name  -              Pending    3×8    3 of 4 pods fit; the next needs 8
                                                                        nvidia.com/gpu, the fullest match a4
                                                                        has 5 free
        language/finetune              team-language  Pending    4×8    cohort research has 24 GPUs left to
                                                                        borrow, 32 asked (flavor a100-spot)
        vision/sweep-7                 team-vision    Preempted  1×8    made room for language/eval; cohort
                                                                        research has 0 GPUs left to borrow,
                                                                        8 asked (flavor a100-spot)

        PREEMPTED        FOR             BECAUSE                                         LOSES
        vision/sweep-7   language/eval   reclaims 8 borrowed GPUs; priority 100 < 1000   12m of work, $2.40

        Next: capstan explain workload/notebook-of-somebody-with-a-very-long-name \
                -f manifests/examples/quickstart.yaml
    "#]].assert_eq(&plain(&text::simulation(&fixture::result())));
}

#[test]
fn a_simulation_with_several_flavors_and_an_inactive_queue() {
    let mut result = fixture::result();
    result.workloads.clear();
    result.preempted.clear();
    let mut on_demand = result.queues[0].quotas[0].clone();
    (on_demand.flavor, on_demand.nominal, on_demand.used) = ("a100-on-demand".into(), 4, 0);
    result.queues[0].quotas.push(on_demand);
    result.queues[2].inactive = Some(Reason::Inactive {
        cluster_queue: "serving".into(),
        why: Inactive::FlavorMissing("t4".into()),
    });
    result.queues[2].quotas[0].resource = "cpu".into();
    expect![[r#"
        6 nodes, 40 GPUs (32 A100: 16 spot, 16 on-demand; 8 T4 spot), $93.70/h. In use: 40 GPUs, $0.00/h.
        Settled after 3 rounds in 1.8 ms.

        QUEUE           COHORT    FLAVOR          RESOURCE       QUOTA  USED  BORROWED  LENT    $/h  PENDING
        team-language   research  a100-spot       nvidia…om/gpu     16     8         -     8  12.50        1
                                  a100-on-demand  nvidia…om/gpu      4     0         -     8
        team-vision     research  a100-spot       nvidia…om/gpu     16    24         8     -  36.75        1
        servin…active)  -         t4              cpu               8m    4m         -     -   0.00        0
        ClusterQueue serving is inactive: flavor t4 does not exist.

        No workloads: no pod or Job in these files has spec.schedulerName: capstan.
    "#]].assert_eq(&plain(&text::simulation(&result)));
}

#[test]
fn an_explained_workload_as_text() {
    expect![[r#"
        language/finetune waits for quota: cohort research has 24 GPUs left to borrow, 32 asked; no allowed
        victims free enough (flavor a100-spot).
        Gang of 4×8 GPUs, queue team-language, priority 1000, waiting 12m, first in its queue.

        IN THE WAY                                                               ASKED   LEFT
        quota        GPUs: team-language, a100-spot, borrowing from research        32     24
        nodes        4th pod: 8 nvidia.com/gpu free on one node; nearest is a4       8      5

        WHAT WOULD START IT                                           WHEN        COSTS
        wait for vision/train-resnet to end                           14:20 UTC   -
        start with 3 pods (capstan.sh/min-member: "3")                now         $36.75/h
        allow on-demand (capstan.sh/capacity-types: spot,on-demand)   now         $131.08/h, $2.40 lost

        NODE    VERDICT                                    SCORE   COST   CAPACITY   LOCALITY   PACKING
        a2      fits                                         812    700       1000        900       640
        a1      fits                                         640    500       1000        900       240
        a3      cordoned                                       -      -          -          -         -
        a4      8 nvidia.com/gpu asked, 5 free                 -      -          -          -         -
        b1-b2   taint nvidia.com/mig=on is not tolerated       -      -          -          -         -
        Score: weighted mean of the terms, 0 to 1000. Weights: cost 3, capacity 2, locality 3, packing 2.
    "#]].assert_eq(&plain(&text::workload(&explained())));
}

#[test]
fn an_explained_pod_as_text() {
    let fits = text::pod(&explained_pod(fixture::verdicts()));
    expect![[r#"
        ns/p fits 2 of 6 nodes; best is a2 with a score of 812.

        NODE    VERDICT                                    SCORE   COST   CAPACITY   LOCALITY   PACKING"#]].assert_eq(&plain(&fits).lines().take(3).collect::<Vec<_>>().join("\n"));
    let refused = fixture::verdicts().split_off(2);
    expect![[r#"
        ns/p fits nowhere: 0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were
        unschedulable, 2 node(s) had untolerated taint(s).

        NODE    VERDICT
        a3      cordoned
        a4      8 nvidia.com/gpu asked, 5 free
        b1-b2   taint nvidia.com/mig=on is not tolerated
    "#]].assert_eq(&plain(&text::pod(&explained_pod(refused))));
    let nowhere = text::pod(&explained_pod(vec![]));
    assert_eq!(nowhere, "ns/p fits nowhere: there are no nodes.\n");
}

#[test]
fn answers_say_what_became_of_a_workload() {
    let mut explained = explained();
    let mut answer = |change: fn(&mut WorkloadExplanation)| {
        explained.explanation = fixture::explanation();
        change(&mut explained.explanation);
        explanation::workload_answer(&explained)
    };
    let running = answer(|view| {
        let train = fixture::result().workloads[5].clone();
        view.workload = train;
    });
    assert_eq!(running, "vision/train-resnet was admitted on a1 a2 a3 for $36.75/h.");
    let evicted = answer(|view| {
        view.workload.state = State::Evicting;
        view.workload.preempted = Some(fixture::preemption());
    });
    assert_eq!(
        evicted,
        "language/finetune was preempted: language/eval reclaims 8 borrowed GPUs; \
         priority 100 < 1000; 12m of work, $2.40 lost."
    );
    let finished = answer(|view| view.workload.state = State::Finished);
    assert_eq!(finished, "language/finetune is finished.");
    let unseen = answer(|view| view.workload.reason = None);
    assert_eq!(unseen, "language/finetune waits: it has not been considered yet.");
}

#[test]
fn large_results_are_cut_and_say_so() {
    let mut result = fixture::result();
    let one = fixture::workload("ns", "w");
    let many = (0..5_000).map(|at| {
        let mut view = one.clone();
        view.name = format!("w-{at}").into();
        view
    });
    result.workloads.extend(many);
    let text = plain(&text::simulation(&result));
    assert!(text.lines().count() < 60, "{text}");
    assert!(text.contains("… and 4,982 more Pending (--output json)"), "{text}");

    let refusal = |at: i64| NodeRefusal::Insufficient {
        resource: fixture::gpu(),
        asked: 8,
        free: at % 8,
        beyond_node: false,
    };
    let nodes = (0..5_000).map(|at| NodeVerdict {
        node: format!("n{at:04}").into(),
        refusals: vec![refusal(at)],
        score: None,
    });
    let text = plain(&text::pod(&explained_pod(nodes.collect())));
    assert!(text.lines().count() < 40, "{text}");
    assert!(text.contains("… and 4,970 more nodes: 4970 Insufficient nvidia.com/gpu"), "{text}");
}

#[test]
fn a_simulation_as_json_has_the_promised_fields() {
    let text = json::simulation(&fixture::result());
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(value["cycles"], 3);
    assert_eq!(value["admitted"], serde_json::json!(["language/eval", "vision/train-resnet"]));
    let pending = ["default/notebook-of-somebody-with-a-very-long-name", "language/finetune"];
    assert_eq!(value["pending"], serde_json::json!([pending[0], pending[1], "vision/sweep-7"]));
    let compact = |value: &serde_json::Value| value.to_string();
    expect![[r#"{"borrowed":true,"clusterQueue":"team-vision","flavors":{"main":{"nvidia.com/gpu":"a100-spot"}},"gpus":24,"message":null,"minMember":3,"name":"vision/train-resnet","pods":[{"name":"vision/train-resnet-0","node":"a1"},{"name":"vision/train-resnet-1","node":"a2"},{"name":"vision/train-resnet-2","node":"a3"}],"priority":0,"queue":"vision/main","reason":null,"state":"Admitted","usdPerHour":36.75}"#]].assert_eq(&compact(&value["workloads"][5]));
    expect![[r#"{"borrowed":false,"clusterQueue":"team-vision","flavors":{},"gpus":8,"message":"cohort research has 0 GPUs left to borrow, 8 asked; no allowed victims free enough (flavor a100-spot)","minMember":1,"name":"vision/sweep-7","pods":[{"name":"vision/sweep-7-0","node":null}],"priority":0,"queue":"vision/main","reason":"WaitingForQuota","state":"Preempted","usdPerHour":null}"#]].assert_eq(&compact(&value["workloads"][4]));
    expect![[r#"[{"by":"language/eval","lostSeconds":720,"lostUsd":2.4,"message":"reclaims 8 borrowed GPUs; priority 100 < 1000","name":"vision/sweep-7","reason":"InCohortReclamation"}]"#]].assert_eq(&compact(&value["preempted"]));
    expect![[r#"{"gpus":40,"gpusAllocated":40,"nodes":6,"nodesUsdPerHour":93.7,"nodesWithoutPrice":0,"usdPerHour":49.25}"#]].assert_eq(&compact(&value["summary"]));
    expect![[r#"{"admitted":1,"cohort":"research","inactive":null,"name":"team-language","pending":1,"quotas":[{"available":0,"borrowed":0,"flavor":"a100-spot","lent":8,"nominal":16,"resource":"nvidia.com/gpu","used":8}],"usdPerHour":12.5}"#]].assert_eq(&compact(&value["queues"][0]));
}

#[test]
fn an_explanation_as_json_has_the_promised_fields() {
    let text = json::pod(&explained_pod(fixture::verdicts()[1..4].to_vec()));
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    expect![[r#"{"feasible":["a2"],"nodes":[{"feasible":true,"name":"a2","reasons":[],"score":{"priceUnknown":false,"terms":{"capacity":1000,"cost":700,"locality":900,"packing":640},"total":812,"weights":{"capacity":2,"cost":3,"locality":3,"packing":2}}},{"feasible":false,"name":"a3","reasons":["cordoned"]},{"feasible":false,"name":"a4","reasons":["8 nvidia.com/gpu asked, 5 free"]}],"pod":"ns/p"}"#]].assert_eq(&value.to_string());
    let text = json::workload(&explained());
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(
        (&value["workload"], &value["state"]),
        (&"language/finetune".into(), &"Pending".into())
    );
    assert_eq!(value["reason"], "WaitingForQuota");
    assert_eq!(value["feasible"], serde_json::json!(["a1", "a2"]));
    expect![[r#"{"asked":32,"kind":"quota","left":24,"message":"cohort research has 24 GPUs left to borrow, 32 asked; no allowed victims free enough (flavor a100-spot)","reason":"WaitingForQuota","resource":"nvidia.com/gpu"}"#]].assert_eq(&value["inTheWay"][0].to_string());
    expect![[r#"{"at":"2026-08-01T14:20:00Z","change":"wait for vision/train-resnet to end","kind":"WaitFor","losesUsd":null,"usdPerHour":null}"#]].assert_eq(&value["remedies"][0].to_string());
}

#[test]
fn a_page_is_self_contained_and_escaped() {
    let mut result = fixture::result();
    result.workloads[2].name = "<script>alert(1)</script>".into();
    result.files = vec!["<b>.yaml".to_owned()];
    let page = html::simulation(&result);
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(!page.contains("<script") && !page.contains("<b>"), "markup from a manifest");
    assert!(page.contains("&lt;script&gt;"));
    for outside in ["http://", "https://", "src=", "href=", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(html::workload(&explained()).contains("What would start it"));
    assert!(html::pod(&explained_pod(fixture::verdicts())).contains("fits 2 of 6 nodes"));
}

/// Names of any length and alphabet, control characters included.
fn name() -> impl Strategy<Value = Text> {
    prop_oneof!["[a-z0-9-]{1,8}", "[a-z0-9./-]{1,250}", "\\PC{0,40}", ".{0,40}"]
        .prop_map(|name| name.as_str().into())
}

proptest! {
    #[test]
    fn no_line_is_wider_than_a_terminal(
        names in proptest::collection::vec(name(), 12),
        numbers in proptest::collection::vec(any::<i64>(), 8),
    ) {
        let mut result = fixture::result();
        for (at, view) in result.workloads.iter_mut().enumerate() {
            view.namespace = names[at].clone();
            view.name = names[at + 1].clone();
            view.cluster_queue = Some(names[at + 2].clone());
            view.pod_sets[0].flavors = [(fixture::gpu(), names[at + 3].clone())].into();
            view.pod_sets[0].requests = [(names[at + 4].clone(), numbers[at])].into();
            for place in &mut view.pods {
                place.node = Some(names[at + 5].clone());
            }
            view.per_hour = Some(capstan_core::money::MicroUsd(numbers[at]));
        }
        for (at, queue) in result.queues.iter_mut().enumerate() {
            (queue.name, queue.cohort) = (names[at].clone(), Some(names[at + 3].clone()));
            queue.quotas[0].resource = names[at + 6].clone();
            (queue.quotas[0].nominal, queue.quotas[0].used) = (numbers[at], numbers[at + 1]);
            (queue.quotas[0].borrowed, queue.quotas[0].lent) = (numbers[at + 2], numbers[at + 3]);
        }
        (result.preempted[0].victim, result.preempted[0].preemptor) =
            (names[0].clone(), names[1].clone());
        result.preempted[0].frees = vec![(names[2].clone(), numbers[0])];
        result.files = names.iter().map(ToString::to_string).collect();
        let mut nodes = fixture::verdicts();
        for (verdict, name) in nodes.iter_mut().zip(&names) {
            verdict.node = name.clone();
        }
        let mut workload = explained();
        workload.explanation.workload = result.workloads[0].clone();
        workload.explanation.nodes = nodes.clone();
        let texts = [
            text::simulation(&result),
            text::workload(&workload),
            text::pod(&explained_pod(nodes)),
        ];
        for line in texts.iter().flat_map(|text| text.lines()) {
            let line = plain(line);
            prop_assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
