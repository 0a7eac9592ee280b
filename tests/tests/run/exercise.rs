//! The founding exercise: four jobs fill the quota, a more important one takes the place of one
//! of them, and that one goes on where it was asked to stop. Nothing fails, whatever
//! `backoffLimit` says, and kube-scheduler works beside all the time.

use capstan_tests::cluster::{Capstan, ControlPlane, Options, Part, is_true, name_of};
use capstan_tests::exercise::{
    HIGH, KINDS_OF_KUEUE, LOW, NEIGHBOURS, NODES, QUEUES, QUEUES_OF_KUEUE,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::judge;
use crate::scene::{end, names, running, wait_for, written};

/// Pods of kube-scheduler at first; another one comes with each act.
const NEIGHBOURS_FIRST: usize = 3;
/// Acts: four run, the high one takes a place, its victim goes on, all is over.
const ACTS: usize = 4;

/// A cluster with the exercise's nodes, kube-scheduler beside, and Capstan's kinds, on which
/// Capstan is a user of its own and every request is written down.
fn cluster() -> ControlPlane {
    let parts = Options { audit: true, ..Options::full() }.user("capstan", &["system:masters"]);
    let cluster = ControlPlane::start(parts).expect("a control plane");
    cluster.install_crds().expect("installed");
    cluster.apply(NODES).expect("applied");
    cluster.apply(NEIGHBOURS).expect("applied");
    cluster
}

/// Capstan, which leads.
fn leader(cluster: &ControlPlane, config: &str) -> Capstan {
    let own = cluster.kubeconfig_of("capstan").expect("a user");
    let mut capstan = cluster.capstan_as("capstan-0", config, &own).expect("started");
    capstan.wait_until(cluster, "leading").expect("it leads");
    capstan
}

/// kube-scheduler places another pod of its own: it works beside, now.
fn neighbours(cluster: &ControlPlane, act: usize) {
    let wanted = NEIGHBOURS_FIRST + act;
    let count = format!("--replicas={wanted}");
    let words = ["scale", "deployment", "web", "-n", "others", &count];
    cluster.kubectl(&words).expect("scaled");
    wait_for(cluster, "pods", &format!("{wanted} neighbours run"), |pods| {
        running(pods, |name| name.starts_with("web-")) == wanted
    });
}

/// What people look at first, by the short names, says this of a workload.
fn shows(cluster: &ControlPlane, workload: &str, says: &[&str]) {
    let table = cluster.kubectl(&["get", "wl,cq,lq", "-A"]).expect("short names");
    let row = table.lines().find(|line| line.contains(workload)).unwrap_or_default();
    assert!(says.iter().all(|word| row.contains(word)), "{says:?} in\n{table}");
}

fn is_low(name: &str) -> bool {
    name.starts_with("low-")
}

#[test]
fn a_preempted_job_is_suspended_and_everything_completes() {
    let mut cluster = cluster();
    cluster.apply(QUEUES).expect("applied");
    let capstan = leader(&cluster, "");
    let victim = plays(&cluster, &capstan);
    events(&cluster, &victim);
    owner_writes(&cluster, &victim);
    queues_say_all(&cluster);
    only_its_own(&mut cluster);
}

#[test]
fn the_queues_of_kueue_do_the_same_as_they_are() {
    let mut cluster = cluster();
    cluster.apply(KINDS_OF_KUEUE).expect("applied");
    let words = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&words).expect("served");
    cluster.apply(QUEUES_OF_KUEUE).expect("applied");
    let config = "quotaApis: [kueue.x-k8s.io]\n";
    let capstan = leader(&cluster, config);
    plays(&cluster, &capstan);
    only_its_own(&mut cluster);
    let kueues = written(&cluster, "capstan");
    let kueues: Vec<_> = kueues.iter().filter(|it| it.group == "kueue.x-k8s.io").collect();
    assert!(kueues.is_empty(), "{kueues:?}");
}

/// Plays the exercise; the name of the job that was stopped. Pods run until what was to be seen
/// of them was seen.
fn plays(cluster: &ControlPlane, capstan: &Capstan) -> String {
    let history = cluster.watch_pods().expect("a watch");
    cluster.apply(LOW).expect("applied");
    let pods = wait_for(cluster, "pods", "four low jobs run", |pods| running(pods, is_low) == 4);
    pods.iter().filter(|pod| is_low(name_of(pod))).for_each(says_what_it_was_admitted_with);
    let uids = |all: &[Value]| -> Vec<Value> {
        all.iter().filter(|it| it["status"]["state"] != Value::Null).map(uid).collect()
    };
    let all_told = |all: &[Value]| uids(all).len() == 4;
    let told = uids(&wait_for(cluster, "workloads.capstan.sh", "four Workloads", all_told));
    neighbours(cluster, 1);

    cluster.apply(HIGH).expect("applied");
    let is_high = |name: &str| name.starts_with("high-");
    wait_for(cluster, "pods", "the high job runs", |pods| running(pods, is_high) == 1);
    let suspended = |job: &Value| is_true(job, "Suspended").is_some();
    let jobs = wait_for(cluster, "jobs", "one low job is suspended", |jobs| {
        names(jobs, suspended).len() == 1
    });
    let victim = names(&jobs, suspended).remove(0);
    assert!(is_low(&victim), "{victim}");
    let job = jobs.iter().find(|job| name_of(job) == victim).expect("there");
    let notes = &job["metadata"]["annotations"];
    assert!(notes["capstan.sh/suspended"].is_string(), "marked as ours to resume: {notes}");
    let by = notes["capstan.sh/preempted-by"].as_str().unwrap_or_default();
    assert!(by.ends_with("/high-priority-critical"), "{notes}");
    let waits = |all: &[Value]| {
        let victim = all.iter().find(|it| name_of(it) == victim);
        victim.is_some_and(|it| it["status"]["state"] == "Queued")
    };
    wait_for(cluster, "workloads.capstan.sh", "the victim is visible as pending", waits);
    shows(cluster, &victim, &["team-alpha-queue", "Queued", "0/1", "1 asked"]);
    explained(cluster, capstan, &victim);
    neighbours(cluster, 2);

    end(cluster, "team-beta", is_high);
    wait_for(cluster, "pods", "the victim goes on", |pods| running(pods, is_low) == 4);
    neighbours(cluster, 3);

    end(cluster, "team-alpha", is_low);
    let complete = |job: &Value| is_true(job, "Complete").is_some();
    let failed = |job: &Value| is_true(job, "Failed").is_some();
    let jobs = wait_for(cluster, "jobs", "all five complete", |jobs| {
        names(jobs, |job| complete(job) || failed(job)).len() == 5
    });
    assert_eq!(names(&jobs, failed), [""; 0]);
    let finished = |all: &[Value]| all.iter().all(|it| is_true(it, "Finished").is_some());
    let left = wait_for(cluster, "workloads.capstan.sh", "they say so", finished);
    assert!(told.iter().all(|uid| left.iter().any(|it| it["metadata"]["uid"] == *uid)));
    shows(cluster, &victim, &["Finished", "0/1"]);
    // One pod was stopped in all that time, and no other.
    let stopped = judge::stopped(&history);
    let stopped: Vec<&str> = stopped.iter().map(|pod| pod.gang.as_str()).collect();
    assert_eq!(stopped, [victim.as_str()]);
    neighbours(cluster, ACTS);
    victim
}

/// The victim's wait is explained by the running scheduler, and by one that only reads.
fn explained(cluster: &ControlPlane, capstan: &Capstan, victim: &str) {
    let path = format!("/debug/explain/workload/team-alpha/{victim}");
    let asked = capstan.get(cluster, &path).expect("explained");
    let target = format!("workload/{victim}");
    let config = capstan.config().display().to_string();
    let words = ["explain", &target, "-n", "team-alpha", "--config", &config];
    let (code, read, err) = cluster.capstan_says(&words).expect("it ran");
    assert_eq!(code, 1, "it waits: {read}{err}");
    let server = capstan.url();
    let words = ["explain", &target, "-n", "team-alpha", "--server", &server];
    let (code, served, err) = cluster.capstan_says(&words).expect("it ran");
    assert_eq!(code, 1, "it waits, says the server: {served}{err}");
    let words = ["explain", "workload/nobody", "-n", "team-alpha", "--server", &server];
    let (code, _, err) = cluster.capstan_says(&words).expect("it ran");
    assert!(code == 2 && err.contains("no workload nobody in namespace team-alpha"), "{err}");
    for text in [&asked, &read, &served] {
        assert!(text.contains(victim) && text.contains("gpu-exercise-queue"), "{text}");
    }
}

/// A bound pod carries what the next leader must know of it.
fn says_what_it_was_admitted_with(pod: &Value) {
    let notes = &pod["metadata"]["annotations"];
    let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().expect("an owner");
    let workload = notes["capstan.sh/workload"].as_str().unwrap_or_default();
    assert!(workload.ends_with(owner), "{notes}");
    let flavors = notes["capstan.sh/flavors"].as_str().unwrap_or_default();
    let flavors: Value = serde_json::from_str(flavors).expect("a map");
    assert!(flavors["nvidia.com/gpu"].is_string(), "{notes}");
    let at = notes["capstan.sh/admitted-at"].as_str().unwrap_or_default();
    assert!(at.parse::<Timestamp>().is_ok(), "{notes}");
}

/// The victim's owner was written to stop it, and to let it go on; not more often.
fn owner_writes(cluster: &ControlPlane, victim: &str) {
    let written = written(cluster, "capstan");
    let of_victim = written.iter().filter(|it| it.resource == "jobs" && it.name == victim);
    let of_victim: Vec<_> = of_victim.filter(|it| it.is_done()).collect();
    assert_eq!(of_victim.len(), 2, "{of_victim:?}");
    let others = written.iter().filter(|it| it.resource.starts_with("jobs") && it.name != victim);
    assert_eq!(others.count(), 0, "no other Job is ours to write");
}

fn uid(object: &Value) -> Value {
    object["metadata"]["uid"].clone()
}

/// What happened is told where people look for it.
fn events(cluster: &ControlPlane, victim: &str) {
    let said = |all: &[Value], reason: &str, kind: &str, name: &str| {
        let ours = |it: &&Value| it["reportingComponent"] == "capstan" && it["reason"] == reason;
        let about = all.iter().filter(ours).map(|it| &it["involvedObject"]);
        let mut names = about.filter(|about| about["kind"] == kind).map(|about| &about["name"]);
        names.any(|about| about.as_str().is_some_and(|about| about.starts_with(name)))
    };
    wait_for(cluster, "events", "our events", |all| {
        said(all, "Scheduled", "Pod", "high-priority-critical-")
            && said(all, "Preempted", "Job", victim)
            && said(all, "Preempted", "Workload", victim)
            && said(all, "EvictedDueToPreempted", "Workload", victim)
            && said(all, "PreemptedWorkload", "Workload", "high-priority-critical")
    });
}

/// Every number of a queue is there, zeros too.
fn queues_say_all(cluster: &ControlPlane) {
    for (kind, numbers) in [
        ("clusterqueues.capstan.sh", ["pendingWorkloads", "admittedWorkloads"]),
        ("localqueues.capstan.sh", ["pendingWorkloads", "admittedWorkloads"]),
    ] {
        wait_for(cluster, kind, "numbers", |all| {
            all.iter().all(|it| numbers.iter().all(|number| it["status"][number] == 0))
        });
    }
}

/// Pods of other schedulers were never written to, and ran; kube-scheduler runs still.
fn only_its_own(cluster: &mut ControlPlane) {
    let beside = cluster.process(Part::Scheduler).expect("kube-scheduler");
    assert!(beside.runs(), "{}", beside.trouble("ended"));
    let pods = cluster.list("pods").expect("pods");
    let foreign = |it: &&Value| it["spec"]["schedulerName"] != "capstan";
    let foreign: Vec<&Value> = pods.iter().filter(foreign).collect();
    assert_eq!(foreign.len(), NEIGHBOURS_FIRST + ACTS);
    assert!(foreign.iter().all(|it| it["status"]["phase"] == "Running"));
    let theirs: Vec<&str> = foreign.into_iter().map(name_of).collect();
    let written = written(cluster, "capstan");
    let pods = written.iter().filter(|it| it.resource.starts_with("pods"));
    let wrong: Vec<_> = pods.filter(|it| theirs.contains(&it.name.as_str())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
