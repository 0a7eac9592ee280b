//! Manifests in, facts out: what several objects say together.

use capstan_core::Input;
use capstan_core::model::input::{
    Amounts, ClusterQueueFacts, GangKey, GangSource, Held, OwnerFacts, OwnerPodSet, PodFacts,
    PodPhase, Rank,
};
use capstan_core::time::Time;

use crate::config::Config;
use crate::read::error::ReadError;
use crate::read::{Objects, read_text};

mod levels;

fn yaml(text: &str) -> Objects {
    match read_text("a.yaml", text, &Config::default()) {
        Ok(objects) => objects,
        Err(errors) => panic!("{}", said(&errors).join("\n")),
    }
}

fn said(errors: &[ReadError]) -> Vec<String> {
    errors.iter().map(ReadError::to_string).collect()
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

fn pod<'a>(objects: &'a Objects, name: &str) -> &'a PodFacts {
    pods(objects).into_iter().find(|pod| &*pod.name == name).expect(name)
}

fn owner(objects: &Objects) -> &OwnerFacts {
    let owner = objects.inputs.iter().find_map(|input| match input {
        Input::Owner(owner) => Some(owner),
        _ => None,
    });
    owner.expect("an owner")
}

fn job_named<'a>(objects: &'a Objects, name: &str) -> &'a OwnerFacts {
    let job = objects.inputs.iter().find_map(|input| match input {
        Input::Owner(owner) if *owner.name == *name => Some(owner),
        _ => None,
    });
    job.expect(name)
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
fn priorities_come_from_classes_wherever_they_stand() {
    let written = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, \
             spec: {{containers: [{{}}], {spec}}}}}\n---\n"
        )
    };
    let class = |name: &str, rest: &str| {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, \
             metadata: {{name: {name}}}, {rest}}}\n---\n"
        )
    };
    let mut text = written("named", "priorityClassName: high")
        + &written("own", "priority: 3, priorityClassName: high")
        + &written("default", "")
        + &written("system", "priorityClassName: system-node-critical")
        + &written("nobody", "priorityClassName: none");
    text += &class("high", "value: 1000, preemptionPolicy: Never");
    text += &class("usual", "value: 7, globalDefault: true");
    text += &class("usual-too", "value: 6, globalDefault: true");
    let objects = yaml(&text);
    let rank = |name: &str| (pod(&objects, name).priority, pod(&objects, name).never_preempts);
    assert_eq!(rank("named"), (1_000, true));
    assert_eq!(rank("own"), (3, true));
    assert_eq!(rank("default"), (6, false));
    assert_eq!(rank("system").0, 2_000_001_000);
    assert_eq!(rank("nobody").0, 0);
    let class = |name: &str| pod(&objects, name).wishes.pod_class.as_deref().unwrap_or("-");
    let classes = ["named", "own", "default", "system", "nobody"].map(class);
    assert_eq!(classes, ["high", "high", "usual-too", "system-node-critical", "-"]);
    assert_eq!(
        said(&objects.warnings),
        ["PriorityClass none is not in the input (one object names it); priority 0 was taken"]
    );
}

#[test]
fn templates_take_what_their_runtime_class_adds() {
    let template = |name: &str, class: &str| {
        format!(
            "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: \
             {{template: {{spec: {{schedulerName: capstan, runtimeClassName: {class}, \
             containers: [{{}}]}}}}}}}}\
             \n---\n"
        )
    };
    let written = |name: &str, uid: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {uid}}}, \
             spec: {{runtimeClassName: kata, containers: [{{}}]}}}}\n---\n"
        )
    };
    let text = template("j", "kata")
        + &template("lost", "gvisor")
        + &written("by-hand", "")
        + &written("admitted", "uid: u1")
        + "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, \
           handler: kata, overhead: {podFixed: {cpu: 250m}}}\n";
    let objects = yaml(&text);
    let cpu = |requests: &Amounts| requests.get("cpu").copied();
    assert_eq!(cpu(&job_named(&objects, "j").pod_sets[0].shape.requests), Some(250));
    assert_eq!(cpu(&job_named(&objects, "lost").pod_sets[0].shape.requests), None);
    assert_eq!(cpu(&pod(&objects, "by-hand").shape.requests), Some(250));
    assert_eq!(cpu(&pod(&objects, "admitted").shape.requests), None, "its API server saw to it");
    assert_eq!(
        said(&objects.warnings),
        ["RuntimeClass gvisor is not in the input (one object names it); nothing was added for it"]
    );
}

#[test]
fn a_queue_label_on_an_owner_counts_for_its_pods() {
    let owned = |name: &str, kind: &str, by: &str| {
        format!(
            "metadata: {{name: {name}, ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, \
             name: {by}, uid: u, controller: true}}]}}"
        )
    };
    let text = format!(
        "{{apiVersion: v1, kind: Pod, {}, spec: {{containers: [{{}}]}}}}
---
{{apiVersion: apps/v1, kind: ReplicaSet, {}}}
---
{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, labels: {{capstan.sh/queue: q}},
  annotations: {{capstan.sh/capacity-types: spot}}}}}}
",
        owned("p", "ReplicaSet", "web-1"),
        owned("web-1", "Deployment", "web")
    );
    let objects = yaml(&text);
    let pod = pod(&objects, "p");
    assert_eq!(pod.wishes.queue.as_deref(), Some("q"));
    assert_eq!(pod.shape.capacity_types.len(), 1);
    assert_eq!(pod.gang.source, GangSource::Pod);
}

#[test]
fn gangs_are_found_in_the_order_of_their_sources() {
    let written = |name: &str, meta: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {meta}}}, \
             spec: {{containers: [{{}}]}}}}\n---\n"
        )
    };
    let kueue = "kueue.x-k8s.io/pod-group-name: g";
    let total = "kueue.x-k8s.io/pod-group-total-count: '3'";
    let text = written(
        "ours",
        &format!(
            "labels: {{capstan.sh/gang: a, {kueue}}}, annotations: {{capstan.sh/min-member: '2'}}"
        ),
    ) + &written(
        "annotated",
        "annotations: {capstan.sh/gang: a, capstan.sh/min-member: none}",
    ) + &written("kueues", &format!("labels: {{{kueue}}}, annotations: {{{total}}}"))
        + &written("alone", "annotations: {capstan.sh/min-member: '5'}");
    let objects = yaml(&text);
    let gang = |name: &str| &pod(&objects, name).gang;
    let key = GangKey::Group(GangSource::CapstanGang, "a".into());
    assert_eq!((&gang("ours").key, gang("ours").min_member), (&key, Some(2)));
    assert_eq!((&gang("annotated").key, gang("annotated").min_member), (&key, None));
    assert_eq!(pod(&objects, "annotated").wishes.ignored.len(), 1);
    let kueues = gang("kueues");
    assert_eq!(
        (kueues.source, kueues.min_member, kueues.total),
        (GangSource::KueueGroup, Some(3), Some(3))
    );
    assert_eq!(gang("alone").key, GangKey::Pod("pod/default/alone".into()));
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: j, LABELS}
spec:
  parallelism: 4
  completions: 4
  MODE
  template:
    metadata: {MARKS}
    spec: {schedulerName: capstan, containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: j-0, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: ''}]}
spec: {schedulerName: capstan, containers: [{}]}
";

fn job(labels: &str, mode: &str, marks: &str) -> Objects {
    yaml(&JOB.replace("LABELS", labels).replace("MODE", mode).replace("MARKS", marks))
}

#[test]
fn the_number_of_a_pod_counts_those_of_the_jobs_before_its_own() {
    let rank = |mode: &str, labels: &str| {
        let named = JOB.replace("name: j-0,", &format!("name: j-0, labels: {{{labels}}},"));
        let text = named.replace("LABELS", "").replace("MODE", mode).replace("MARKS", "");
        pod(&yaml(&text), "j-0").rank
    };
    let index = "batch.kubernetes.io/job-completion-index: '1'";
    let (indexed, other) = ("completionMode: Indexed", "completionMode: NonIndexed");
    assert_eq!(rank(indexed, index), Rank::Number(1));
    let third = format!("{index}, jobset.sigs.k8s.io/job-index: '2'");
    assert_eq!(rank(indexed, &third), Rank::Number(2 * 4 + 1));
    assert_eq!([rank(other, index), rank(indexed, "")], [Rank::Named, Rank::None]);
}

#[test]
fn the_minimum_of_a_job_follows_its_mode_and_queue() {
    let queue = "labels: {capstan.sh/queue: q}";
    let least = "annotations: {kueue.x-k8s.io/job-min-parallelism: '3'}";
    for (labels, mode, want) in [
        ("", "completionMode: Indexed", 4),
        ("", "completionMode: NonIndexed", 1),
        (queue, "completionMode: NonIndexed", 4),
        (&format!("{queue}, {least}"), "completionMode: NonIndexed", 3),
        (queue, "completionMode: Indexed", 4),
        (&format!("{queue}, {least}"), "completionMode: Indexed", 3),
        (least, "completionMode: Indexed", 4),
        ("annotations: {capstan.sh/min-member: '2'}", "completionMode: Indexed", 2),
    ] {
        let objects = job(labels, mode, "");
        let owner = owner(&objects);
        let pod = pod(&objects, "j-0");
        assert_eq!((owner.min_member, pod.gang.min_member), (want, Some(want)), "{labels} {mode}");
        assert_eq!(owner.min_stated, want == 2, "{labels} {mode}");
        assert_eq!(pod.gang.key, GangKey::Owner("job/default/j".into(), 0));
        let set = &owner.pod_sets[0];
        assert_eq!((set.count, set.shape.requests.get("nvidia.com/gpu")), (4, Some(&8)));
        assert!(owner.ours && owner.member_of.is_none());
    }
}

#[test]
fn a_namespace_with_a_default_queue_queues_its_jobs() {
    let queue = "---\n{apiVersion: capstan.sh/v1alpha1, kind: LocalQueue, \
                 metadata: {name: default}, spec: {clusterQueue: q}}";
    let text = JOB.replace("LABELS", "").replace("MODE", "").replace("MARKS", "") + queue;
    assert_eq!(owner(&yaml(&text)).min_member, 4);
}

#[test]
fn a_suspended_job_is_ours_only_with_a_queue_or_our_mark() {
    for (labels, want) in [
        ("", false),
        ("labels: {kueue.x-k8s.io/queue-name: q}", true),
        ("annotations: {capstan.sh/suspended: '1'}", true),
    ] {
        let objects = job(labels, "suspend: true", "");
        assert_eq!((owner(&objects).ours, owner(&objects).suspended), (want, true), "{labels}");
    }
}

#[test]
fn a_job_that_another_controller_makes_is_left_alone_and_named() {
    let queue = "labels: {kueue.x-k8s.io/queue-name: q}";
    for (by, want) in [
        ("kueue.x-k8s.io/multikueue", false),
        ("example.com/my-controller", false),
        ("kubernetes.io/job-controller", true),
        ("''", true),
    ] {
        for suspend in ["true", "false"] {
            let mode = format!("suspend: {suspend}\n  managedBy: {by}");
            let objects = job(queue, &mode, "");
            let owner = owner(&objects);
            assert_eq!((owner.ours, owner.pod_sets[0].count > 0), (want, want), "{by}");
            let says = format!("says managedBy: {by}, so the controller of Jobs makes no pods");
            let told = objects.warnings.iter().any(|one| one.problem.contains(&says));
            assert_eq!(told, !want, "{by}: {:?}", objects.warnings);
        }
    }
}

#[test]
fn kinds_of_other_projects_are_left_alone_where_their_controllers_are() {
    let set = |by: &str| {
        let text = format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n\
             metadata: {{name: s, labels: {{capstan.sh/queue: q}}}}\n\
             spec:\n  suspend: true\n  managedBy: {by}\n  replicatedJobs:\n  - name: w\n    \
             template: {{spec: {{template: {{spec: {{schedulerName: capstan, \
             containers: [{{}}]}}}}}}}}\n"
        );
        let objects = yaml(&text);
        (owner(&objects).ours, objects.warnings.len())
    };
    assert_eq!(set("jobset.sigs.k8s.io/jobset-controller"), (true, 0));
    assert_eq!(set("kueue.x-k8s.io/multikueue"), (false, 1));
    assert_eq!(set("example.com/my-controller"), (false, 1));
    // The others have one name each, or another cluster's.
    let elsewhere = crate::gangs::made_elsewhere;
    let ray = Some(crate::gangs::kinds::Kind::RayJob);
    assert_eq!(elsewhere(ray, Some("ray.io/kuberay-operator")), None);
    assert!(elsewhere(ray, Some("kueue.x-k8s.io/multikueue")).is_some());
}

#[test]
fn a_job_whose_template_names_a_gang_is_a_member_of_it() {
    let objects = job("", "", "labels: {capstan.sh/gang: g}");
    let group = owner(&objects).member_of.as_ref().expect("a group");
    assert_eq!((&*group.name, group.source), ("g", GangSource::CapstanGang));
}

/// What is played of a Job are the pods that it makes at one time.
#[test]
fn a_member_of_a_named_gang_says_which_job_made_it() {
    let text = |of: &str, marks: &str| {
        let text = JOB.replace("completions: 4", "completions: 9").replace("name: j-0,", of);
        text.replace("LABELS", "").replace("MODE", "").replace("MARKS", marks)
    };
    let named = text("name: j-0, labels: {capstan.sh/gang: g},", "labels: {capstan.sh/gang: g}");
    let mut objects = yaml(&named);
    let made = owner(&objects);
    assert_eq!(pod(&objects, "j-0").of_job.as_ref(), Some(&made.uid));
    assert_eq!(made.replaces, 5);
    objects.inputs = objects.to_be_played();
    assert_eq!(owner(&objects).replaces, 0);
    let alone = yaml(&text("name: j-0,", ""));
    assert_eq!(pod(&alone, "j-0").of_job, None);
}

#[test]
fn namespaces_exist_once_somebody_names_them() {
    let text = format!(
        "{}\n---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: b, labels: {{dep: eng}}}}}}",
        POD.replace("name: p", "name: p, namespace: a")
    );
    let objects = yaml(&text);
    let found: Vec<String> = objects
        .inputs
        .iter()
        .filter_map(|input| match input {
            Input::Namespace { name, labels } => Some(format!("{name} {}", labels.len())),
            _ => None,
        })
        .collect();
    assert_eq!(found, ["a 1", "b 2", "default 1"]);
}

#[test]
fn queues_that_break_rules_are_broken_not_wrong() {
    let text = "
apiVersion: capstan.sh/v1alpha1
kind: ClusterQueue
metadata: {name: q}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: f, resources: [{name: cpu, nominalQuota: 1, lendingLimit: 2}]}
";
    assert_eq!(queue(&yaml(text)).broken.len(), 2);
}

#[test]
fn equal_pods_share_their_shape() {
    let text = (0..3).map(|index| named_pod(&format!("p{index}")) + "\n---\n").collect::<String>();
    let objects = yaml(&text);
    let pods = pods(&objects);
    assert!(pods.windows(2).all(|pair| std::sync::Arc::ptr_eq(&pair[0].shape, &pair[1].shape)));
}

#[test]
fn times_are_the_earliest_work_and_the_latest_of_all() {
    let text = "
{apiVersion: v1, kind: Node, metadata: {name: m, creationTimestamp: '1970-01-01T00:00:01Z'}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, creationTimestamp: '1970-01-01T00:00:05Z'}
spec: {nodeName: m, containers: [{}]}
status: {phase: Succeeded, startTime: '1970-01-01T00:00:09Z'}
---
{apiVersion: v1, kind: Pod, metadata: {name: q, creationTimestamp: null}, spec: {containers: [{}]}}
";
    let objects = yaml(text);
    assert_eq!((objects.earliest, objects.latest), (Some(Time(5_000)), Some(Time(9_000))));
    assert_eq!(pod(&objects, "q").created, Time(5_000));
    assert_eq!(pod(&objects, "p").phase, PodPhase::Succeeded);
}

/// Pods of this scheduler, or of another.
const TEMPLATE: &str = "{spec: {schedulerName: capstan, containers: [{}]}}";
const OTHERS: &str = "{spec: {containers: [{}]}}";

/// The pod sets of an owner of another project, with how many ended of those that come late, and
/// how many of all must run together.
fn sets(objects: &Objects, name: &str) -> Vec<String> {
    let owner = job_named(objects, name);
    let set = |set: &OwnerPodSet| match set.late {
        Some(ended) => format!("{} {} late {ended}", set.name, set.count),
        None => format!("{} {}", set.name, set.count),
    };
    let least = format!("min {}", owner.min_member);
    owner.pod_sets.iter().map(set).chain([least]).collect()
}

#[test]
fn a_launcher_that_comes_late_is_a_pod_set_that_counts() {
    let mpi = |launcher: &str, policy: &str| {
        yaml(&format!(
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n\
             metadata: {{name: m, labels: {{capstan.sh/queue: q}}}}\n\
             spec:\n  runPolicy: {{suspend: true{policy}}}\n  \
             launcherCreationPolicy: WaitForWorkersReady\n  mpiReplicaSpecs:\n    \
             Launcher: {{template: {launcher}}}\n    \
             Worker: {{replicas: 2, template: {TEMPLATE}}}\n"
        ))
    };
    let both = ["worker 2", "launcher 1 late 0", "min 3"];
    assert_eq!(sets(&mpi(TEMPLATE, ""), "m"), both);
    let stated = mpi(TEMPLATE, ", schedulingPolicy: {minAvailable: 3}");
    assert_eq!(sets(&stated, "m"), both);
    // Who suspended a job of which another scheduler has a part is told so.
    let mixed = mpi(OTHERS, "");
    assert_eq!(sets(&mixed, "m"), ["worker 2", "min 1"]);
    assert_eq!(job_named(&mixed, "m").held, Some(Held::ForeignMembers(1)));
    assert!(job_named(&mixed, "m").ours && mixed.ours > 0);
}

#[test]
fn a_job_set_made_step_by_step_is_one_gang_once_it_is_resumed_as_one() {
    let set = |mode: &str, marks: &str| {
        yaml(&format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n\
             metadata: {{name: s, labels: {{capstan.sh/queue: q}}{marks}}}\n\
             spec:\n  suspend: {mode}\n  startupPolicy: {{startupPolicyOrder: InOrder}}\n  \
             replicatedJobs:\n  - name: a\n    \
             template: {{spec: {{template: {TEMPLATE}}}}}\n  - name: b\n    replicas: 2\n    \
             template: {{spec: {{template: {TEMPLATE}}}}}\n---\n\
             apiVersion: v1\nkind: Pod\nmetadata:\n  name: s-b-0-0\n  \
             labels: {{jobset.sigs.k8s.io/replicatedjob-name: b}}\n  ownerReferences: \
             [{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: s, uid: '', \
             controller: true}}]\nspec: {{schedulerName: capstan, containers: [{{}}]}}\n"
        ))
    };
    let resumed = ", annotations: {capstan.sh/admitted: '{}'}";
    for (mode, marks) in [("true", ""), ("false", resumed)] {
        let objects = set(mode, marks);
        assert_eq!(sets(&objects, "s"), ["a 1", "b 2 late 0", "min 3"], "{mode}");
        let gang = &pod(&objects, "s-b-0-0").gang;
        assert_eq!(&*gang.name, "s", "{mode}");
        assert_eq!(pod(&objects, "s-b-0-0").shape.pod_set.as_deref(), Some("b"));
    }
    // Nobody resumed it as one: each step is a gang.
    let objects = set("false", "");
    assert!(!objects.inputs.iter().any(|input| matches!(input, Input::Owner(_))));
    assert_eq!(&*pod(&objects, "s-b-0-0").gang.name, "s-b");
}

#[test]
fn a_stated_minimum_asks_for_no_pod_of_an_index_that_is_over() {
    for (status, least) in [("{}", 4), ("{succeeded: 1}", 3), ("{failedIndexes: '1,3'}", 2)] {
        let objects = yaml(&format!(
            "apiVersion: batch/v1\nkind: Job\n\
             metadata: {{name: j, annotations: {{capstan.sh/min-member: '4'}}}}\n\
             spec: {{parallelism: 4, completions: 4, completionMode: Indexed, \
             backoffLimitPerIndex: 0, template: {TEMPLATE}}}\nstatus: {status}\n"
        ));
        let owner = owner(&objects);
        assert_eq!((owner.min_member, owner.min_stated), (least, status == "{}"), "{status}");
    }
}

#[test]
fn a_group_of_volcano_without_a_name_is_none() {
    let named = |first: &str, own: &str| {
        let key = "scheduling.volcano.sh/group-name";
        let marks = format!("{{scheduling.k8s.io/group-name: '{first}', {key}: '{own}'}}");
        let objects = yaml(&format!(
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {{name: g}}\n\
             spec: {{minMember: 3}}\n---\napiVersion: v1\nkind: Pod\n\
             metadata: {{name: p, annotations: {marks}}}\nspec: {{containers: [{{}}]}}\n"
        ));
        let gang = &pod(&objects, "p").gang;
        (gang.source == GangSource::VolcanoGroup).then_some(gang.min_member)
    };
    assert_eq!(named("g", ""), Some(Some(3)));
    assert_eq!(named("", "g"), Some(Some(3)));
    assert_eq!(named("", ""), None);
}

#[test]
fn a_role_of_no_pods_does_not_say_whose_its_owner_is() {
    let set = |workers: u32, drivers: u32| {
        yaml(&format!(
            "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n\
             metadata: {{name: s, labels: {{capstan.sh/queue: q}}}}\n\
             spec:\n  suspend: true\n  replicatedJobs:\n  \
             - {{name: w, replicas: {workers}, template: {{spec: {{template: {TEMPLATE}}}}}}}\n  \
             - {{name: d, replicas: {drivers}, template: {{spec: {{template: {OTHERS}}}}}}}\n"
        ))
    };
    for (workers, drivers, ours, held) in
        [(2, 0, true, None), (2, 1, true, Some(Held::ForeignMembers(1))), (0, 0, false, None)]
    {
        let objects = set(workers, drivers);
        let owner = owner(&objects);
        assert_eq!((owner.ours, &owner.held), (ours, &held), "{workers} {drivers}");
    }
}

#[test]
fn what_submits_a_ray_job_is_a_pod_set_unless_something_else_does() {
    let ray = |more: &str, job: &str| {
        yaml(&format!(
            "apiVersion: ray.io/v1\nkind: RayJob\n\
             metadata: {{name: r, labels: {{capstan.sh/queue: q}}}}\n\
             spec:\n{more}  rayClusterSpec:\n    headGroupSpec: {{template: {TEMPLATE}}}\n    \
             workerGroupSpecs: [{{groupName: w, replicas: 2, template: {TEMPLATE}}}]\n---\n\
             apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {job}, ownerReferences: \
             [{{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: '', controller: true}}]}}\n\
             spec: {{template: {TEMPLATE}}}\n"
        ))
    };
    for mode in ["", "  submissionMode: K8sJobMode\n"] {
        let objects = ray(mode, "other");
        let with = ["head 1", "w 2", "submitter 1 late 0", "min 4"];
        assert_eq!(sets(&objects, "r"), with, "{mode}");
        assert_eq!(job_named(&objects, "r").source, GangSource::Owner);
        let asked = &job_named(&objects, "r").pod_sets[2].shape.requests;
        assert_eq!(asked.get("cpu"), Some(&500));
        assert_eq!(job_named(&objects, "other").member_of, None);
        let own = ray(mode, "r");
        let submits = own.inputs.iter().find_map(|input| match input {
            Input::Owner(owner) if &*owner.kind == "Job" => Some(owner),
            _ => None,
        });
        assert!(submits.expect("a Job").counts_late());
        let gang = submits.expect("a Job").member_of.as_ref().expect("it is of the RayJob");
        assert_eq!((&*gang.name, gang.source), ("r", GangSource::Owner));
    }
    let none = format!("  submitterPodTemplate: {OTHERS}\n");
    let others = ["  submissionMode: HTTPMode\n", "  submissionMode: SidecarMode\n", &*none];
    for without in others {
        assert_eq!(sets(&ray(without, "other"), "r"), ["head 1", "w 2", "min 3"], "{without}");
    }
}

#[test]
fn what_submits_a_ray_job_elsewhere_is_not_waited_for() {
    let text = format!(
        "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {{name: r}}\nspec:\n  \
         rayClusterSpec: {{headGroupSpec: {{template: {TEMPLATE}}}}}\n---\n\
         apiVersion: batch/v1\nkind: Job\nmetadata: {{name: r, ownerReferences: \
         [{{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: '', controller: true}}]}}\n\
         spec: {{template: {OTHERS}}}\n"
    );
    let objects = yaml(&text);
    let ray = objects.inputs.iter().find_map(|input| match input {
        Input::Owner(owner) if &*owner.kind == "RayJob" => Some(owner),
        _ => None,
    });
    let ray = ray.expect("the RayJob");
    assert_eq!((ray.min_member, ray.ended, ray.pod_sets[1].late), (1, 1, Some(1)));
}
