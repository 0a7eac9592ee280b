//! Installed by kustomize and by Helm, Capstan does all its work with the rights that it got, and
//! has hardly a right that it does not use.

use std::collections::BTreeSet;
use std::process::Command;

use capstan_tests::cluster::{Audited, ControlPlane, eventually, parts};
use serde_json::Value;

use crate::others;
use crate::scene;
use crate::setup::{NAMESPACE, SOON, cluster, deployed, path, probed, read, replica};

/// Answers that no request of ours may have: it was wrong, whatever the cluster is like.
const WRONG: [u64; 7] = [400, 401, 403, 405, 406, 415, 422];

/// A right: the verb, the group and the resource.
type Right = (String, String, String);

/// Everything that the rules of these roles allow.
fn rights(roles: &[Value]) -> BTreeSet<Right> {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().expect("a list").iter();
        list.map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().expect("rules")) {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]).into_iter();
                all.extend(verbs.map(|verb| (verb, group.clone(), resource.clone())));
            }
        }
    }
    all
}

/// What the service account asked for; one that was denied or refused as invalid is the end of
/// the test.
pub fn asked(cluster: &ControlPlane, namespace: &str) -> Vec<Audited> {
    let account = format!("system:serviceaccount:{namespace}:capstan");
    let mut all = cluster.audited().expect("the audit log");
    all.retain(|one| one.user == account);
    let wrong: Vec<&Audited> =
        all.iter().filter(|one| !one.allowed || WRONG.contains(&one.code)).collect();
    assert!(wrong.is_empty(), "denied or refused: {wrong:#?}");
    all
}

fn wait_for_crds(cluster: &ControlPlane) {
    let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&wait).expect("established");
}

#[test]
fn what_kustomize_installs_may_do_all_its_work_and_no_more() {
    let cluster = cluster(&scene::nodes());
    let taint = ["taint", "node", "guarded-0", "guarded=yes:NoExecute"];
    cluster.kubectl(&taint).expect("tainted");
    cluster.kubectl(&["apply", "--server-side", "-f", &path("manifests/crds")]).expect("applied");
    cluster.install_crds_of_others().expect("installed");
    wait_for_crds(&cluster);
    cluster.kubectl(&["apply", "-k", &path("manifests/base")]).expect("applied");
    let (deployment, pods) = deployed(&cluster, NAMESPACE);
    let [first, second] = pods.as_slice() else { panic!("not two replicas: {pods:?}") };
    let mut first = replica(&cluster, &deployment, first);
    first.wait_until(&cluster, "leading").expect("it leads");
    let mut second = replica(&cluster, &deployment, second);
    second.wait_until(&cluster, "standing by").expect("one leads");
    for replica in [&first, &second] {
        probed(&cluster, &deployment, replica);
    }

    cluster.apply(scene::QUEUES).expect("applied");
    beside(&cluster);
    scene::jobs(&cluster);
    scene::crew(&cluster);
    scene::claims(&cluster);
    scene::extended(&cluster);
    others::suspended_and_resumed(&cluster);
    others::told_how_far_they_are(&cluster);
    assert_eq!(first.process.end(SOON).expect("it ends"), 0);
    second.wait_until(&cluster, "leading").expect("it leads");
    scene::bare_pods(&cluster);
    scene::told(&cluster);
    scene::volumes(&cluster);
    assert_eq!(second.process.end(SOON).expect("it ends"), 0);

    // Kueue's objects are read when the configuration says so.
    let kueue = "--patch={\"data\": {\"capstan.yaml\": \"apiVersion: capstan.sh/v1alpha1\\n\
                 kind: CapstanConfiguration\\nquotaApis: [capstan.sh, kueue.x-k8s.io]\\n\"}}";
    let words = ["patch", "configmap", "capstan", "-n", NAMESPACE, "--type=merge", kueue];
    cluster.kubectl(&words).expect("patched");
    let mut third = replica(&cluster, &deployment, "capstan-third");
    third.wait_until(&cluster, "leading").expect("it leads");
    assert_eq!(third.process.end(SOON).expect("it ends"), 0);

    let asked = asked(&cluster, NAMESPACE);
    let role = read(&cluster, &["clusterrole", "capstan"]);
    let election = read(&cluster, &["role", "capstan-leader-election", "-n", NAMESPACE]);
    let mut used: BTreeSet<Right> =
        asked.into_iter().map(|one| (one.verb, one.group, one.resource)).collect();
    // Watches begin with a list of their own here; an API server that knows no such watches is
    // asked for the list first.
    let watched = used.iter().filter(|(verb, ..)| verb == "watch");
    let listed = watched.map(|(_, group, kind)| ("list".to_owned(), group.clone(), kind.clone()));
    used.extend(listed.collect::<Vec<_>>());
    // Asked for by the API server itself when a status is written, never requested.
    let right = |resource: &str| -> Right {
        ("patch".to_owned(), "resource.k8s.io".to_owned(), resource.to_owned())
    };
    if used.contains(&right("resourceclaims/status")) {
        used.insert(right("resourceclaims/binding"));
    }
    let unused: Vec<Right> = rights(&[role, election]).difference(&used).cloned().collect();
    assert_eq!(unused, [], "rights that nothing uses");
}

/// What else is installed works: the disruption budget spares a replica, and who may view a
/// namespace sees its queues and workloads, no more.
fn beside(cluster: &ControlPlane) {
    eventually("a budget that lets one go", SOON, || {
        let budget = read(cluster, &["poddisruptionbudget", "capstan", "-n", NAMESPACE]);
        let allowed = budget["status"]["disruptionsAllowed"].clone();
        if allowed == 1 { Ok(()) } else { Err(budget["status"].to_string()) }
    })
    .expect("one of two may go");
    let bind = ["create", "rolebinding", "ann", "--clusterrole=view", "--user=ann", "-n", "team"];
    cluster.kubectl(&bind).expect("bound");
    let may = |verb: &str, kind: &str| {
        let kind = format!("{kind}.capstan.sh");
        cluster.kubectl(&["auth", "can-i", verb, &kind, "-n", "team", "--as=ann"])
    };
    eventually("the view role has Capstan's part", SOON, || may("list", "workloads"))
        .expect("she may");
    may("watch", "localqueues").expect("she may");
    for (verb, kind) in [("delete", "workloads"), ("list", "clusterqueues")] {
        let says = may(verb, kind).unwrap_err().to_string();
        assert!(says.contains("no"), "{verb} {kind}: {says}");
    }
}

/// Runs Helm as the administrator.
fn helm(cluster: &ControlPlane, words: &[&str]) -> String {
    let mut call = Command::new(parts::helm().expect("helm is given or built"));
    call.args(words).env("KUBECONFIG", cluster.kubeconfig());
    for kind in ["CACHE", "CONFIG", "DATA"] {
        call.env(format!("HELM_{kind}_HOME"), cluster.folder().join("helm").join(kind));
    }
    let said = call.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{words:?}: {}{}", text(&said.stdout), text(&said.stderr));
    text(&said.stdout)
}

#[test]
fn helm_installs_the_same_wherever_it_is_told_to() {
    let cluster = cluster(&scene::nodes());
    let chart = path("manifests/chart");
    let install = |namespace: &str, more: &[&str]| {
        let words = ["install", "capstan", &chart, "--namespace", namespace, "--create-namespace"];
        helm(&cluster, &[&words[..], more].concat())
    };
    let notes = install(NAMESPACE, &[]);
    assert!(notes.contains("schedulerName: capstan"), "{notes}");
    wait_for_crds(&cluster);
    same_as_base(&cluster);
    helm(&cluster, &["uninstall", "capstan", "--namespace", NAMESPACE, "--wait"]);
    let left = cluster.kubectl(&["get", "clusterroles,deployments", "-A", "-o", "name"]);
    assert!(!left.expect("listed").contains("/capstan"), "all of it is gone");
    cluster.kubectl(&["get", "clusterqueues"]).expect("queues outlive an uninstall");

    // Elsewhere, with another lease, and with more to say.
    let more = ["config.leaderElection.resourceName=batch", "replicas=1", "image.tag=next"];
    let more: Vec<&str> = more.iter().flat_map(|value| ["--set", value]).collect();
    install("gpu", &more);
    let (deployment, pods) = deployed(&cluster, "gpu");
    assert_eq!(pods.len(), 1);
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "capstan:next");
    let mut capstan = replica(&cluster, &deployment, &pods[0]);
    capstan.wait_until(&cluster, "leading").expect("it leads");
    cluster.apply(scene::QUEUES).expect("applied");
    let gang = scene::Pods { name: "gang", queue: "open", class: "low", gpus: 2, runs_for: None };
    cluster.apply(&gang.job(4).to_string()).expect("applied");
    scene::run(&cluster, "gang-", 4);
    let lease = read(&cluster, &["lease", "batch", "-n", "gpu"]);
    let holder = lease["spec"]["holderIdentity"].as_str().expect("a holder");
    assert!(holder.starts_with(&format!("{}_", pods[0])), "{holder}");
    assert_eq!(capstan.process.end(SOON).expect("it ends"), 0);
    assert!(!asked(&cluster, "gpu").is_empty());
}

/// Replicas that all decide would give the same room away.
#[test]
fn the_chart_takes_several_replicas_only_where_one_of_them_leads() {
    let home = tempfile::tempdir().expect("a folder");
    let rendered = |values: &[&str]| {
        let mut call = Command::new(parts::helm().expect("helm is given or built"));
        call.args(["template", "capstan", &path("manifests/chart")]);
        call.args(values.iter().flat_map(|value| ["--set", *value]));
        for kind in ["CACHE", "CONFIG", "DATA"] {
            call.env(format!("HELM_{kind}_HOME"), home.path().join(kind));
        }
        let said = call.output().expect("it runs");
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        if said.status.success() { Ok(()) } else { Err(errors) }
    };
    let nobody_leads = "config.leaderElection.leaderElect=false";
    let refused = rendered(&[nobody_leads]).expect_err("two replicas are the default");
    for part in ["leaderElect is false and replicas is 2", "set replicas to 1"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(rendered(&[nobody_leads, "replicas=1"]), Ok(()));
    assert_eq!(rendered(&["replicas=3"]), Ok(()));
}

/// Applying the base over what Helm made would change nothing. Helm makes the namespace itself,
/// without labels.
fn same_as_base(cluster: &ControlPlane) {
    let base = cluster.kubectl(&["kustomize", &path("manifests/base")]).expect("built");
    let whole = base.split("---\n").filter(|part| !part.contains("kind: Namespace\n"));
    let whole: Vec<&str> = whole.collect();
    assert!(whole.len() >= 9 && base.contains("kind: Namespace\n"), "{base}");
    let differs = cluster.kubectl_with(&["diff", "-f", "-"], &whole.join("---\n"));
    assert_eq!(differs.expect("nothing differs"), "");
}
