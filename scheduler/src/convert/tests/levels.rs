//! Which levels and slices hold for the whole gang, and which for one pod set.

use capstan_core::model::input::{PodShape, SetLevels, TopologyWish};

use super::{job_named, pod, yaml};
use crate::gangs::wishes::each_its_own;
use crate::read::Objects;

const RACK: &str = "kueue.x-k8s.io/podset-required-topology: rack";
const ZONE: &str = "kueue.x-k8s.io/podset-required-topology: zone";
const ANYWHERE: &str = "kueue.x-k8s.io/podset-unconstrained-topology: 'true'";
const OURS: &str = "capstan.sh/required-topology: rack";

fn within(level: &str) -> Option<SetLevels> {
    Some(SetLevels { required: Some(level.into()), ..SetLevels::default() })
}

/// A PyTorchJob whose templates have these annotations, and a pod of each.
fn torch(owner: &str, master: &str, worker: &str) -> Objects {
    let template = |marks: &str| {
        format!(
            "{{metadata: {{annotations: {{{marks}}}}}, spec: {{schedulerName: capstan, \
             containers: [{{}}]}}}}"
        )
    };
    let made = |role: &str, marks: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: t-{role}-0\n  \
             labels: {{training.kubeflow.org/replica-type: {role}}}\n  \
             annotations: {{{marks}}}\n  ownerReferences: \
             [{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: t, uid: '', \
             controller: true}}]\nspec: {{schedulerName: capstan, containers: [{{}}]}}\n"
        )
    };
    let job = format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n\
         metadata: {{name: t, annotations: {{{owner}}}}}\nspec:\n  pytorchReplicaSpecs:\n    \
         Master: {{template: {}}}\n    Worker: {{replicas: 3, template: {}}}\n",
        template(master),
        template(worker)
    );
    yaml(&(job + &made("master", master) + &made("worker", worker)))
}

/// What the shapes of both pod sets say; those of their pods say the same.
fn levels(objects: &Objects) -> [Option<SetLevels>; 2] {
    let own = |shape: &PodShape| shape.levels.as_deref().cloned();
    let sets = &job_named(objects, "t").pod_sets;
    let of_sets = [own(&sets[0].shape), own(&sets[1].shape)];
    let of_pods = ["t-master-0", "t-worker-0"].map(|name| own(&pod(objects, name).shape));
    assert_eq!(of_sets, of_pods);
    of_sets
}

fn wish(objects: &Objects) -> &TopologyWish {
    &job_named(objects, "t").wishes.topology
}

#[test]
fn pod_sets_that_ask_for_different_levels_have_their_own() {
    for (master, worker, want) in [
        ("", RACK, [None, within("rack")]),
        (RACK, "", [within("rack"), None]),
        (ZONE, RACK, [within("zone"), within("rack")]),
    ] {
        let objects = torch("", master, worker);
        assert_eq!(levels(&objects), want);
        assert_eq!(*wish(&objects), each_its_own(), "nothing holds for all");
        let of_pod = pod(&objects, "t-master-0").wishes.topology.clone();
        assert_eq!(of_pod, each_its_own(), "whichever pod is heard first");
    }
    // A template goes before the owner.
    let objects = torch(ZONE, "", RACK);
    assert_eq!(levels(&objects), [within("zone"), within("rack")]);
    for (master, worker, want) in [
        (ANYWHERE, "", [None, within("rack")]),
        ("", ANYWHERE, [within("rack"), None]),
        (ANYWHERE, ZONE, [None, within("zone")]),
    ] {
        let objects = torch(RACK, master, worker);
        assert_eq!(levels(&objects), want, "{master} {worker}");
        assert_eq!(*wish(&objects), each_its_own());
    }
}

#[test]
fn what_all_pod_sets_ask_is_the_wish_of_their_gang() {
    for (owner, master, worker) in [("", RACK, RACK), (RACK, "", ""), (RACK, "", RACK)] {
        let objects = torch(owner, master, worker);
        assert_eq!(levels(&objects), [None, None]);
        let wish = wish(&objects);
        assert_eq!((wish.required.as_deref(), wish.per_pod_set), (Some("rack"), true));
    }
    assert_eq!(*wish(&torch("", "", "")), TopologyWish::default());
}

#[test]
fn what_is_asked_of_the_whole_gang_goes_before_what_its_sets_ask() {
    for (owner, master, worker) in [("", OURS, ZONE), (OURS, "", ZONE), (OURS, ZONE, "")] {
        let objects = torch(owner, master, worker);
        assert_eq!(levels(&objects), [None, None]);
        let wish = wish(&objects);
        assert_eq!((wish.required.as_deref(), wish.per_pod_set), (Some("rack"), false));
    }
}

#[test]
fn pod_sets_of_one_name_have_the_levels_of_most_pods_that_ask_for_any() {
    let named = |level: &str| format!("kueue.x-k8s.io/podset-group-name: g{level}");
    let and = |level: &str| named(&format!(", {level}"));
    let objects = torch("", &named(""), &and(RACK));
    assert_eq!(levels(&objects), [within("rack"), within("rack")]);
    let objects = torch("", &and(ZONE), &and(RACK));
    assert_eq!(levels(&objects), [within("rack"), within("rack")], "three workers, one master");
    // What the first asks is the gang's wish, and nobody else asks for more.
    let objects = torch("", &and(ZONE), &named(""));
    assert_eq!(levels(&objects), [None, None]);
    let wish = wish(&objects);
    assert_eq!((wish.required.as_deref(), wish.per_pod_set), (Some("zone"), true));
}

#[test]
fn members_of_a_group_have_the_levels_of_their_own_set() {
    let member = |name: &str, marks: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  \
             labels: {{kueue.x-k8s.io/pod-group-name: g}}\n  annotations: {{{marks}}}\n\
             spec: {{schedulerName: capstan, containers: [{{}}]}}\n---\n"
        )
    };
    let slices = "kueue.x-k8s.io/podset-slice-required-topology: rack, \
                  kueue.x-k8s.io/podset-slice-size: '2'";
    let objects = yaml(&(member("a", "") + &member("b", RACK) + &member("c", slices)));
    let [a, b, c] = ["a", "b", "c"].map(|name| pod(&objects, name));
    assert_eq!((&a.shape.levels, &a.wishes.topology), (&None, &TopologyWish::default()));
    assert_eq!(b.shape.levels.as_deref(), within("rack").as_ref());
    assert_eq!([&b.wishes.topology, &c.wishes.topology], [&each_its_own(); 2]);
    let levels = c.shape.levels.as_ref().expect("its own");
    let slices = levels.slices.as_ref().expect("slices");
    assert_eq!((&*slices.level, slices.size, &levels.required), ("rack", 2, &None));
    // What is asked of the whole gang is no matter of a set.
    let objects = yaml(&member("a", OURS));
    let alone = pod(&objects, "a");
    assert_eq!((&alone.shape.levels, alone.wishes.topology.per_pod_set), (&None, false));
}

#[test]
fn a_job_in_a_group_is_a_pod_set_of_it() {
    let job = |labels: &str| {
        yaml(&format!(
            "apiVersion: batch/v1\nkind: Job\n\
             metadata: {{name: t, labels: {{kueue.x-k8s.io/queue-name: q}}}}\n\
             spec:\n  suspend: true\n  parallelism: 2\n  template:\n    metadata:\n      \
             labels: {{{labels}}}\n      annotations: {{{RACK}}}\n    \
             spec: {{schedulerName: capstan, containers: [{{}}]}}\n"
        ))
    };
    let objects = job("kueue.x-k8s.io/pod-group-name: g");
    let part = job_named(&objects, "t");
    assert_eq!(part.pod_sets[0].shape.levels.as_deref(), within("rack").as_ref());
    assert_eq!(part.wishes.topology, each_its_own());
    let objects = job("");
    let alone = job_named(&objects, "t");
    assert_eq!(alone.pod_sets[0].shape.levels, None);
    assert_eq!(alone.wishes.topology.required.as_deref(), Some("rack"));
}

#[test]
fn pod_sets_of_one_template_are_told_apart_where_levels_hold_for_each() {
    let torch = |marks: &str| {
        let template = format!(
            "{{metadata: {{annotations: {{{marks}}}}}, spec: {{schedulerName: capstan, \
             containers: [{{}}]}}}}"
        );
        let objects = yaml(&format!(
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: t}}\nspec:\n  \
             pytorchReplicaSpecs:\n    Master: {{template: {template}}}\n    \
             Worker: {{replicas: 3, template: {template}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata:\n  name: t-worker-0\n  \
             labels: {{training.kubeflow.org/replica-type: worker}}\n  \
             annotations: {{{marks}}}\n  ownerReferences: \
             [{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: t, uid: '', \
             controller: true}}]\nspec: {{schedulerName: capstan, containers: [{{}}]}}\n"
        ));
        let owner = job_named(&objects, "t");
        let named = |shape: &PodShape| shape.pod_set.as_deref().unwrap_or("-").to_owned();
        let of_owner = owner.pod_sets.iter().map(|set| named(&set.shape));
        let mut all: Vec<String> = of_owner.collect();
        all.push(named(&pod(&objects, "t-worker-0").shape));
        all
    };
    let each = torch("kueue.x-k8s.io/podset-required-topology: rack");
    assert_eq!(each, ["master", "worker", "worker"]);
    assert_eq!(torch("capstan.sh/required-topology: rack"), ["-", "-", "-"]);
}
