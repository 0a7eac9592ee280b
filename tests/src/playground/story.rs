//! The founding exercise, act by act: what happens, and why.

use serde_json::Value;

use super::End;
use super::stage::Stage;
use crate::cluster::{is_true, name_of};
use crate::exercise;

/// How long the low jobs run: long enough to be looked at, and to be stopped.
const LOW_RUNS: &str = "30s";
/// How long the high job runs.
const HIGH_RUNS: &str = "12s";

/// Plays all of it.
pub fn play(stage: &mut Stage) -> Result<(), End> {
    set(stage)?;
    fill(stage)?;
    let victim = preempt(stage)?;
    resume(stage, &victim)?;
    complete(stage)?;
    wait(stage)
}

fn is_low(name: &str) -> bool {
    name.starts_with("low-")
}

/// Whether so many objects pass.
fn count(objects: &[Value], passes: impl Fn(&Value) -> bool, wanted: usize) -> Option<()> {
    (objects.iter().filter(|it| passes(it)).count() == wanted).then_some(())
}

fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

fn state_of(workloads: &[Value], name: &str) -> Option<String> {
    let found = workloads.iter().find(|it| name_of(it) == name)?;
    found["status"]["state"].as_str().map(str::to_owned)
}

fn set(stage: &mut Stage) -> Result<(), End> {
    stage.apply(exercise::NODES)?;
    stage.apply(exercise::NEIGHBOURS)?;
    stage.apply(exercise::QUEUES)?;
    let ready = |nodes: &[Value]| count(nodes, |node| is_true(node, "Ready").is_some(), 5);
    stage.until("nodes", "five nodes are ready", ready)?;
    stage.until("pods", "kube-scheduler's pods run", |pods| count(pods, runs, 3))?;
    let active = |queues: &[Value]| count(queues, |it| is_true(it, "Active").is_some(), 1);
    stage.until("clusterqueues.capstan.sh", "the queue is active", active)?;
    stage.screen.heading("1  Four GPUs, two teams, one queue")?;
    stage.screen.says(
        "Four spot nodes have a GPU each. Teams alpha and beta share them through one \
         ClusterQueue; each has a LocalQueue in its namespace. kube-scheduler runs beside \
         Capstan: three pods of a web server, which name no scheduler, are its own and stay so \
         all the time.",
    )?;
    stage.kubectl("get cq")?;
    stage.kubectl("get lq -A")?;
    stage.kubectl("get pods -n others")
}

fn fill(stage: &mut Stage) -> Result<(), End> {
    stage.screen.heading("2  Team alpha submits four low-priority jobs")?;
    stage.screen.says(
        "They name Capstan as their scheduler and team alpha's queue; that is all that opts them \
         in. Quota and nodes are one decision: each job has its quota, its node and its price.",
    )?;
    stage.apply(&exercise::low_jobs(LOW_RUNS))?;
    let low = |pod: &Value| is_low(name_of(pod)) && runs(pod);
    stage.until("pods", "four low jobs run", |pods| count(pods, low, 4))?;
    let told = |all: &[Value]| count(all, |it| it["status"]["state"] == "Running", 4);
    stage.until("workloads.capstan.sh", "their Workloads say so", told)?;
    stage.kubectl("get wl -A")
}

/// The one that is stopped.
fn preempt(stage: &mut Stage) -> Result<String, End> {
    stage.screen.heading("3  Team beta submits a high-priority job")?;
    stage.screen.says(
        "All GPUs are taken. The queue allows it to preempt work of lower priority, and Capstan \
         stops one job, no more, after it has made sure that the new one then fits. The job is \
         suspended, not killed: its backoffLimit is 0, and a deleted pod would fail it for good.",
    )?;
    stage.apply(&exercise::high_job(HIGH_RUNS))?;
    let high = |pod: &Value| name_of(pod).starts_with("high-") && runs(pod);
    stage.until("pods", "the high job runs", |pods| count(pods, high, 1))?;
    let (victim, why) = stage.until("workloads.capstan.sh", "a low job waits again", |all| {
        let waits = |it: &&Value| it["status"]["state"] == "Queued" && is_low(name_of(it));
        let victim = all.iter().find(waits)?;
        let conditions = victim["status"]["conditions"].as_array()?;
        let preempted = conditions.iter().find(|it| it["type"] == "Preempted")?;
        let runs = state_of(all, "high-priority-critical")? == "Running";
        let said = preempted["message"].as_str()?.to_owned();
        runs.then(|| (name_of(victim).to_owned(), said))
    })?;
    stage.kubectl("get wl -A")?;
    stage.screen.line("")?;
    stage
        .screen
        .says(&format!("Why {victim} waits is on its Workload, and in an event: {why}."))?;
    stage.kubectl("get jobs -A")?;
    Ok(victim)
}

fn resume(stage: &mut Stage, victim: &str) -> Result<(), End> {
    stage.until("workloads.capstan.sh", "the victim runs again", |all| {
        let ended = state_of(all, "high-priority-critical")? == "Finished";
        (ended && state_of(all, victim)? == "Running").then_some(())
    })?;
    stage.screen.heading("4  The high-priority job has ended, and the stopped one goes on")?;
    stage.screen.says(&format!(
        "Nobody had to do anything: {victim} went back to its queue and was resumed as soon as \
         there was room."
    ))?;
    stage.kubectl("get wl -A")
}

fn complete(stage: &mut Stage) -> Result<(), End> {
    let done = |all: &[Value]| count(all, |job| is_true(job, "Complete").is_some(), 5);
    stage.until("jobs", "all five complete", done)?;
    let told = |all: &[Value]| count(all, |it| it["status"]["state"] == "Finished", 5);
    stage.until("workloads.capstan.sh", "their Workloads say so", told)?;
    stage.screen.heading("5  All five jobs are complete, none has failed")?;
    stage.screen.says("Nothing is left on the GPU nodes: an autoscaler may take them away.")?;
    stage.kubectl("get jobs -A")
}

fn wait(stage: &mut Stage) -> Result<(), End> {
    stage.apply(exercise::TRAIN)?;
    stage.until("workloads.capstan.sh", "one runs", |all| {
        (state_of(all, "train")? == "Running").then_some(())
    })?;
    stage.apply(exercise::SWEEP)?;
    stage.until("workloads.capstan.sh", "one waits", |all| {
        let waits = all.iter().find(|it| name_of(it) == "sweep")?;
        waits["status"]["reason"].as_str().is_some_and(|says| !says.is_empty()).then_some(())
    })?;
    let told = |all: &[Value]| count(all, |it| it["status"]["pendingWorkloads"] == 1, 1);
    stage.until("clusterqueues.capstan.sh", "its queue counts it", told)?;
    stage.screen.heading("6  What waits says why, and what would start it")?;
    stage.screen.says(
        "Team alpha trains on three GPUs without an end; team beta's sweep needs two at once, of \
         the same priority. A gang starts whole or not at all, so the sweep waits.",
    )?;
    stage.kubectl("get wl -n team-beta")?;
    stage.kubectl("get cq")?;
    stage.capstan("explain workload/sweep -n team-beta")?;
    stage.screen.heading("This stays until Ctrl-C. Try, from the other terminal:")?;
    stage.screen.line("")?;
    for line in [
        "kubectl get wl,cq,lq -A",
        "kubectl describe wl sweep -n team-beta",
        "kubectl get events -A --field-selector reportingComponent=capstan",
        "kubectl capstan explain workload/sweep -n team-beta",
        "kubectl delete job train -n team-alpha      # and the sweep starts",
    ] {
        stage.screen.line(line)?;
    }
    Ok(())
}
