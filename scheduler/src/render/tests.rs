//! What it looks like, to the letter (`snapshots/`; `UPDATE_EXPECT=1` rewrites them), and that
//! it never gets wider than a terminal.

use capstan_core::explain::reason::{Inactive, NodeRefusal, Reason};
use capstan_core::explain::view::{NodeVerdict, PodExplanation, WorkloadExplanation};
use capstan_core::model::input::Text;
use capstan_core::plan::{Freed, State};
use capstan_core::time::Time;
use expect_test::expect_file;
use proptest::prelude::*;

use super::result::{Happening, Moment};
use super::table::WIDTH;
use super::*;

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn explained() -> Explained<WorkloadExplanation> {
    let explanation = fixture::explanation();
    Explained { explanation, now: fixture::NOW, files: vec![], warnings: vec![] }
}

fn explained_pod(nodes: Vec<NodeVerdict>) -> Explained<PodExplanation> {
    let explanation = PodExplanation {
        namespace: "ns".into(),
        name: "p".into(),
        workload: None,
        waits: None,
        beside: false,
        nodes,
    };
    Explained { explanation, now: fixture::NOW, files: vec![], warnings: vec![] }
}

#[test]
fn a_simulation_as_text() {
    expect_file!["snapshots/simulation.txt"]
        .assert_eq(&plain(&text::simulation(&fixture::result())));
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
    expect_file!["snapshots/flavors.txt"].assert_eq(&plain(&text::simulation(&result)));
}

#[test]
fn a_played_clock_shows_what_happened_when() {
    let mut result = fixture::result();
    let moment = |seconds: i64, workload: &str, what| Moment {
        at: Time(fixture::NOW.0 + seconds * 1_000),
        workload: workload.to_owned(),
        what,
    };
    result.timeline = vec![
        moment(0, "vision/sweep-7", Happening::Arrived),
        moment(0, "vision/sweep-7", Happening::Admitted),
        moment(720, "vision/sweep-7", Happening::Preempted("language/eval".to_owned())),
        moment(721, "language/eval", Happening::Admitted),
        moment(840, "language/eval", Happening::Finished),
        moment(841, "vision/sweep-7", Happening::Resumed),
    ];
    let table = simulation::timeline(&result, simulation::Room { nodes: 20, cut: true });
    let text = plain(&table.expect("something happened").text());
    expect_file!["snapshots/timeline.txt"].assert_eq(&text);
    assert!(!text::simulation(&result).contains("TIME"), "time stood still");
    result.until = Some(fixture::NOW);
    assert!(text::simulation(&result).contains("TIME"));
}

#[test]
fn an_explained_workload_as_text() {
    expect_file!["snapshots/workload.txt"].assert_eq(&plain(&text::workload(&explained())));
}

#[test]
fn that_nothing_would_start_it_is_said() {
    let mut explained = explained();
    let mut said = |reason: Reason| {
        explained.explanation.remedies.clear();
        explained.explanation.workload.reason = Some(reason);
        plain(&text::workload(&explained)).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let nothing = "Nothing that was tried would start it.";
    let forecast = said(fixture::short(32, 24));
    assert!(forecast.contains("It starts about") && !forecast.contains(nothing), "{forecast}");
    let other = "Room and quota are not what it waits for: nothing was tried that would start it.";
    let stopped = Reason::Inactive { cluster_queue: "q".into(), why: Inactive::Stopped };
    assert!(said(stopped).contains(other));
    let behind = |head: &str| Reason::BehindHead { head: head.into(), queue: "q".into() };
    let tells = "It starts after language/a: explain workload/a tells what that lacks.";
    assert!(said(behind("language/a")).contains(tells));
    let tells = "It starts after vision/a: explain workload/a -n vision tells what that lacks.";
    assert!(said(behind("vision/a")).contains(tells));
    for waits in [Reason::WaitingForVictims { victims: 1 }, Reason::RoomTaken] {
        assert!(!said(waits).contains("tried"), "it starts then");
    }
    explained.explanation.workload.reason = Some(fixture::short(32, 24));
    explained.explanation.forecast = None;
    let told = explanation::notes(&explained.explanation);
    assert!(told.iter().any(|note| *note == nothing.trim_end_matches('.')), "{told:?}");
    assert!(!plain(&text::workload(&self::explained())).contains(nothing), "there are ways");
}

#[test]
fn an_explained_pod_as_text() {
    let fits = text::pod(&explained_pod(fixture::verdicts()));
    expect_file!["snapshots/pod-fits.txt"].assert_eq(&plain(&fits));
    let refused = fixture::verdicts().split_off(2);
    expect_file!["snapshots/pod-refused.txt"]
        .assert_eq(&plain(&text::pod(&explained_pod(refused))));
    // One node that fits is compared with nobody: its terms leave the columns to reasons.
    let one = plain(&text::pod(&explained_pod(fixture::verdicts().split_off(1))));
    assert!(one.contains("VERDICT") && !one.contains("LOCALITY"), "{one}");
    let words = one.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("On the node that fits: cost 700, "), "{one}");
    let nowhere = text::pod(&explained_pod(vec![]));
    assert_eq!(nowhere, "ns/p fits nowhere: there are no nodes.\n");
}

#[test]
fn who_stands_too_far_behind_for_a_forecast_is_told_so() {
    let mut explained = explained();
    explained.explanation.beyond = Some(64);
    let json = |explained: &Explained<WorkloadExplanation>| -> serde_json::Value {
        serde_json::from_str(&json::workload(explained)).expect("JSON")
    };
    assert!(json(&explained)["noForecast"].is_null(), "it has one");
    explained.explanation.forecast = None;
    let why = "it is beyond the first 64 of its queue";
    assert_eq!(json(&explained)["noForecast"], why);
    let told = explanation::notes(&explained.explanation);
    assert_eq!(told[0], format!("No start is forecast: {why}"));
    explained.explanation.beyond = None;
    assert!(json(&explained)["noForecast"].is_null(), "another reason");
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
    let pretty = |value: &serde_json::Value| format!("{value:#}\n");
    expect_file!["snapshots/workload-running.json"].assert_eq(&pretty(&value["workloads"][5]));
    expect_file!["snapshots/workload-preempted.json"].assert_eq(&pretty(&value["workloads"][4]));
    expect_file!["snapshots/preempted.json"].assert_eq(&pretty(&value["preempted"]));
    expect_file!["snapshots/summary.json"].assert_eq(&pretty(&value["summary"]));
    expect_file!["snapshots/queue.json"].assert_eq(&pretty(&value["queues"][0]));
}

#[test]
fn an_explanation_as_json_has_the_promised_fields() {
    let text = json::pod(&explained_pod(fixture::verdicts()[1..4].to_vec()));
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    expect_file!["snapshots/pod.json"].assert_eq(&format!("{value:#}\n"));
    let text = json::workload(&explained());
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(
        (&value["workload"], &value["state"]),
        (&"language/finetune".into(), &"Pending".into())
    );
    assert_eq!(value["reason"], "WaitingForQuota");
    assert_eq!(value["feasible"], serde_json::json!(["a1", "a2"]));
    expect_file!["snapshots/obstacle.json"].assert_eq(&format!("{:#}\n", value["inTheWay"][0]));
    expect_file!["snapshots/remedy.json"].assert_eq(&format!("{:#}\n", value["remedies"][0]));
}

#[test]
fn a_pod_that_fits_and_waits_for_quota_says_both() {
    let mut explained = explained_pod(fixture::verdicts());
    explained.explanation.workload = Some("ns/p".into());
    explained.explanation.waits = fixture::explanation().workload.reason;
    let said = plain(&text::pod(&explained)).replace('\n', " ");
    assert!(said.contains("fits 2 of 6 nodes"), "{said}");
    assert!(said.contains("But its workload waits"), "{said}");
    assert!(said.contains("explain workload/p tells more."), "{said}");
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
        let (resource, amount) = (names[2].clone(), numbers[0]);
        result.preempted[0].frees = vec![Freed { resource, amount, borrowed: amount }];
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
