//! What comes out of what went in.

use capstan_core::Input;

use super::*;

fn migrated(text: &str) -> Migrated {
    kueue_text("file", text).expect("it is readable")
}

fn losses(migrated: &Migrated) -> Vec<String> {
    migrated.lost.iter().map(ToString::to_string).collect()
}

#[test]
fn a_queue_keeps_its_fields_and_loses_what_a_cluster_added() {
    let migrated = migrated(
        "apiVersion: kueue.x-k8s.io/v1beta1\n\
         kind: ClusterQueue\n\
         metadata:\n  name: q\n  uid: u\n  resourceVersion: '7'\n  finalizers: [a]\n  \
           labels: {team: a}\n  \
           annotations: {kubectl.kubernetes.io/last-applied-configuration: x}\n\
         spec:\n  cohort: c\n  namespaceSelector: {}\n  \
           flavorFungibility: {whenCanBorrow: Borrow}\n  \
           resourceGroups:\n  - coveredResources: [cpu]\n    \
             flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]\n\
         status: {pendingWorkloads: 3}\n",
    );
    assert_eq!(losses(&migrated), [""; 0]);
    let text = migrated.manifests();
    let begins = "apiVersion: capstan.sh/v1alpha1\nkind: ClusterQueue\nmetadata:\n";
    assert!(text.starts_with(begins), "{text}");
    for gone in ["uid", "finalizers", "status", "kubectl", "Borrow\n", "cohort:"] {
        assert!(!text.contains(gone), "{gone}:\n{text}");
    }
    for kept in ["team: a", "cohortName: c", "whenCanBorrow: MayStopSearch", "nominalQuota: 4"] {
        assert!(text.contains(kept), "{kept}:\n{text}");
    }
}

#[test]
fn what_has_no_equal_is_named() {
    let migrated = migrated(
        "apiVersion: kueue.x-k8s.io/v1beta2\n\
         kind: ClusterQueue\n\
         metadata: {name: q}\n\
         spec:\n  admissionChecksStrategy: {admissionChecks: [{name: multi}, {name: prov}]}\n  \
           resourceGroups: []\n\
         ---\n\
         apiVersion: kueue.x-k8s.io/v1beta2\n\
         kind: AdmissionCheck\n\
         metadata: {name: multi}\n\
         spec: {controllerName: kueue.x-k8s.io/multikueue}\n\
         ---\n\
         {apiVersion: kueue.x-k8s.io/v1beta2, kind: MultiKueueConfig, metadata: {name: m}}\n\
         ---\n\
         {apiVersion: kueue.x-k8s.io/v1alpha1, kind: Cohort, metadata: {name: co}}\n\
         ---\n\
         {apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w, namespace: n}}\n\
         ---\n\
         {apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: \
          {kueue.x-k8s.io/queue-name: q}}}\n\
         ---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: p}}\n",
    );
    let losses = losses(&migrated);
    let words = [
        "ClusterQueue q: spec.admissionChecksStrategy: admission checks multi, prov: no equal",
        "ClusterQueue q: spec.namespaceSelector: absent, which for Kueue is no namespace",
        "AdmissionCheck multi: has no equal: nothing here waits for what kueue.x-k8s.io/multikueue",
        "MultiKueueConfig m: has no equal: Capstan schedules the cluster that it runs in",
        "Cohort co: is of kueue.x-k8s.io/v1alpha1, which is not read",
    ];
    assert_eq!(losses.len(), words.len(), "{losses:#?}");
    for word in words {
        assert!(losses.iter().any(|loss| loss.contains(word)), "{word} in {losses:#?}");
    }
    assert_eq!(migrated.objects.len(), 1);
    let text = migrated.manifests();
    assert!(text.contains("DoesNotExist") && !text.contains("admissionChecks"), "{text}");
    let notes = migrated.notes();
    assert!(notes[0].starts_with("1 Job with Kueue's queue label"), "{notes:?}");
    assert!(!notes[0].contains("no equal"), "{notes:?}");
    assert!(notes[1].contains("quota that Kueue's own work holds is not counted"), "{notes:?}");
    assert!(notes[2].starts_with("1 Workload left out"), "{notes:?}");
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn what_work_asks_for_in_vain_is_named_with_its_field() {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: team, labels: \
             {{kueue.x-k8s.io/queue-name: q}}, annotations: \
             {{kueue.x-k8s.io/priority-boost: '5', kueue.x-k8s.io/elastic-job: 'false'}}}}}}\n---\n"
        )
    };
    let migrated = migrated(
        &(pod("p0")
            + &pod("p1")
            + "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n\
               metadata:\n  name: set\n  namespace: team\n  \
                 annotations: {provreq.kueue.x-k8s.io/maxRunDurationSeconds: '60'}\n\
               spec:\n  replicatedJobs:\n  - template:\n      spec:\n        template:\n          \
                 metadata: {annotations: {kueue.x-k8s.io/admission-gated-by: g}}\n"),
    );
    let losses = losses(&migrated);
    let words = [
        "Pod team/p0: metadata.annotations[kueue.x-k8s.io/priority-boost]: has no equal in \
         Capstan: priority is that of the class alone (capstan.sh/priority-class) (so for 1 more \
         of kind Pod in team)",
        "JobSet team/set: metadata.annotations[provreq.kueue.x-k8s.io/maxRunDurationSeconds]: has \
         no equal in Capstan: no nodes are asked for",
        "JobSet team/set: spec.replicatedJobs[0].template.spec.template.metadata.annotations\
         [kueue.x-k8s.io/admission-gated-by]: has no equal in Capstan: nothing but suspension",
    ];
    assert_eq!(losses.len(), words.len(), "{losses:#?}");
    for word in words {
        assert!(losses.iter().any(|loss| loss.contains(word)), "{word} in {losses:#?}");
    }
    let notes = migrated.notes();
    assert!(notes[0].starts_with("2 Pods with Kueue's queue label"), "{notes:?}");
    assert!(notes[0].ends_with("what has no equal of what it asks is said above"), "{notes:?}");
}

/// An object that names a queue.
fn queued(version: &str, kind: &str, name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: {version}, kind: {kind}, metadata: {{name: {name}, namespace: n, \
         labels: {{kueue.x-k8s.io/queue-name: q}}{more}}}}}\n---\n"
    )
}

#[test]
fn work_of_a_kind_that_is_not_read_is_named_and_not_counted() {
    // Its pods are one group here as well.
    let group = "}, spec: {template: {metadata: {labels: {kueue.x-k8s.io/pod-group-name: g}}}";
    let grouped = queued("apps/v1", "StatefulSet", "grouped", group);
    let text = [
        queued("workload.codeflare.dev/v1beta2", "AppWrapper", "aw", ""),
        queued("workload.codeflare.dev/v1beta2", "AppWrapper", "bw", ""),
        queued("ray.io/v1", "RayService", "rs", ""),
        queued("ray.io/v1alpha1", "RayJob", "old", ""),
        queued("ray.io/v1", "RayJob", "new", ""),
        queued("apps/v1", "StatefulSet", "set", ""),
        queued("apps/v1", "Deployment", "web", ""),
        grouped,
        queued("v1", "ConfigMap", "of-the-same-chart", ""),
        queued("networking.k8s.io/v1", "Ingress", "of-the-same-chart", ""),
    ];
    let migrated = migrated(&text.concat());
    let losses = losses(&migrated);
    let label = "metadata.labels[kueue.x-k8s.io/queue-name]";
    let words = [
        format!("AppWrapper n/aw: {label}: has no equal in Capstan: this kind is not read"),
        "name one (so for 1 more of kind AppWrapper in n)".to_owned(),
        format!("RayService n/rs: {label}: has no equal in Capstan: this kind is not read"),
        format!(
            "RayJob n/old: {label}: is of ray.io/v1alpha1, which is not read; export it as ray"
        ),
        format!("StatefulSet n/set: {label}: its pods are admitted one by one, not all or none"),
    ];
    assert_eq!(losses.len(), words.len() - 1, "{losses:#?}");
    for word in words {
        assert!(losses.iter().any(|loss| loss.contains(&word)), "{word} in {losses:#?}");
    }
    let notes = migrated.notes();
    let counted = "1 Deployment, 1 RayJob, 2 StatefulSets with Kueue's queue label";
    assert!(notes[0].starts_with(counted), "{notes:?}");
    assert_eq!(notes[1..], ["pods of Deployments are admitted one by one, as in Kueue"]);
}

#[test]
fn what_becomes_of_a_least_parallelism_is_said() {
    let least = ", annotations: {kueue.x-k8s.io/job-min-parallelism: '3'}";
    let text = [
        queued("batch/v1", "Job", "a", least),
        queued("batch/v1", "Job", "b", least),
        queued("batch/v1", "Job", "c", ""),
    ];
    let migrated = migrated(&text.concat());
    assert_eq!(losses(&migrated), [""; 0]);
    let notes = migrated.notes();
    assert!(notes[0].starts_with("3 Jobs with Kueue's queue label"), "{notes:?}");
    assert!(notes[1].starts_with("2 Jobs with kueue.x-k8s.io/job-min-parallelism"), "{notes:?}");
    assert!(notes[1].contains("parallelism stays as it is"), "{notes:?}");
}

#[test]
fn frameworks_that_nobody_here_knows_are_named() {
    let migrated = migrated(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n\
         integrations:\n  frameworks: [batch/job, pod, deployment, statefulset, \
         kubeflow.org/mpijob, trainer.kubeflow.org/trainjob, ray.io/raycluster, \
         leaderworkerset.x-k8s.io/leaderworkerset, sparkoperator.k8s.io/sparkapplication, \
         ray.io/rayservice, workload.codeflare.dev/appwrapper]\n",
    );
    let losses = losses(&migrated);
    let words = ["ray.io/rayservice: has no equal", "workload.codeflare.dev/appwrapper: has no"];
    assert_eq!(losses.len(), words.len(), "{losses:#?}");
    for word in words {
        let said = format!("Configuration: integrations.frameworks: {word}");
        assert!(losses.iter().any(|loss| loss.contains(&said)), "{said} in {losses:#?}");
    }
}

#[test]
fn a_field_of_the_older_version_is_told_by_its_new_name() {
    let migrated = migrated(
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: q}, \
         spec: {namespaceSelector: {}, cohort: c}}\n",
    );
    let losses = losses(&migrated);
    assert_eq!(losses.len(), 1, "{losses:?}");
    let want = "spec.cohort: is of v1beta1 (did you mean cohortName?)";
    assert!(losses[0].contains(want), "{losses:?}");
}

/// The API server with our CRD takes no longer one.
#[test]
fn a_long_description_of_a_class_is_cut_and_named() {
    let class = |name: &str, length: usize| {
        let text = "é".repeat(length);
        format!(
            "{{apiVersion: kueue.x-k8s.io/v1beta1, kind: WorkloadPriorityClass, \
             metadata: {{name: {name}}}, value: 1, description: {text}}}\n"
        )
    };
    let migrated = migrated(&[class("fits", 2_048), class("long", 2_049)].join("---\n"));
    let losses = losses(&migrated);
    let want = "long: description: has 2049 characters, and is cut after 2048: no more are taken";
    assert!(losses.len() == 1 && losses[0].ends_with(want), "{losses:?}");
    let kept = migrated.objects.values().map(|it| it["description"].as_str().expect("a text"));
    assert_eq!(kept.map(|text| text.chars().count()).collect::<Vec<_>>(), [2_048, 2_048]);
}

#[test]
fn rules_that_a_topology_breaks_are_named() {
    let migrated = migrated(
        "{apiVersion: kueue.x-k8s.io/v1beta1, kind: Topology, metadata: {name: t}, spec: {levels: \
         [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: rack}]}}\n",
    );
    let losses = losses(&migrated);
    let want = "t: spec.levels[0].nodeLabel: kubernetes.io/hostname must be the last level";
    assert!(losses.len() == 1 && losses[0].ends_with(want), "{losses:?}");
}

#[test]
fn a_configuration_keeps_what_is_ours_and_names_the_rest() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue-manager-config}\ndata:\n  \
                controller_manager_config.yaml: |\n    \
                apiVersion: config.kueue.x-k8s.io/v1beta2\n    kind: Configuration\n    \
                health: {healthProbeBindAddress: ':8081'}\n    \
                metrics: {bindAddress: ':8443', enableClusterQueueResources: true}\n    \
                leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}\n    \
                manageJobsWithoutQueueName: true\n    \
                fairSharing: {preemptionStrategies: [LessThanInitialShare]}\n    \
                multiKueue: {gcInterval: 1m}\n    \
                integrations:\n      frameworks: [batch/job]\n      externalFrameworks: \
                [Foo.v1.example.com]\n";
    let migrated = migrated(text);
    let losses = losses(&migrated);
    assert_eq!(losses.len(), 2, "{losses:#?}");
    assert!(losses.iter().any(|loss| loss.contains("multiKueue: has no equal")), "{losses:?}");
    assert!(losses.iter().any(|loss| loss.contains("Foo.v1.example.com")), "{losses:?}");
    let file = migrated.configuration_file().expect("a configuration");
    let config = crate::config::read_config_text("ours", &file).expect("it is valid");
    assert!(config.policy.fair_sharing.is_some());
    let kept =
        ["unqueuedWorkloads: Hold", "leaderElect: true", "enableClusterQueueResources: true"];
    for word in kept {
        assert!(file.contains(word), "{word}:\n{file}");
    }
    assert!(!file.contains("bindAddress"), "{file}");
    assert!(!file.contains("resourceName"), "{file}");
}

#[test]
fn what_kueue_takes_for_granted_in_its_version_is_written_out() {
    let ours = |version: &str, parts: &str| {
        let text =
            format!("apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n{parts}\n");
        let migrated = migrated(&text);
        assert_eq!(losses(&migrated), [""; 0], "{text}");
        let file = migrated.configuration_file().expect("a configuration");
        crate::config::read_config_text("ours", &file).expect("it is valid").policy
    };
    let ready = |version: &str, given: &str| {
        let policy = ours(version, &format!("waitForPodsReady: {given}"));
        policy.pods_ready.map(|ready| (ready.timeout.0 / 60_000, ready.blocks_admission))
    };
    let rows = [
        ("v1beta1", "{timeout: 10m}", None),
        ("v1beta1", "{enable: null, blockAdmission: true}", None),
        ("v1beta1", "{enable: false, timeout: 10m}", None),
        ("v1beta1", "{enable: true}", Some((5, true))),
        ("v1beta1", "{enable: true, timeout: 10m, blockAdmission: false}", Some((10, false))),
        ("v1beta2", "{}", Some((30, false))),
        ("v1beta2", "{timeout: 10m, blockAdmission: true}", Some((10, true))),
        ("v1beta2", "{timeout: 0s}", Some((30, false))),
        ("v1beta1", "null", None),
        ("v1beta2", "null", Some((30, false))),
    ];
    for (version, given, want) in rows {
        assert_eq!(ready(version, given), want, "{version}: {given}");
    }
    let shares = |version: &str, given: &str| {
        ours(version, &format!("fairSharing: {given}")).fair_sharing.is_some()
    };
    let strategies = "preemptionStrategies: [LessThanInitialShare]";
    assert!(!shares("v1beta1", &format!("{{{strategies}}}")));
    assert!(shares("v1beta1", &format!("{{enable: true, {strategies}}}")));
    assert!(shares("v1beta2", &format!("{{{strategies}}}")));
}

/// The file that Kueue 0.19 is installed with bounds its own requests, and serves its own metrics.
#[test]
fn what_is_about_kueues_process_bounds_nothing_here() {
    let migrated = migrated(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n\
         metrics: {bindAddress: ':8443'}\nclientConnection: {qps: 300, burst: 500}\n\
         visibilityServer: {bindPort: 8082}\n\
         resources: {quotaCheckStrategy: BlockUndeclared}\n",
    );
    assert_eq!(losses(&migrated), [""; 0]);
    let file = migrated.configuration_file().expect("a configuration");
    let config = crate::config::read_config_text("ours", &file).expect("it is valid");
    assert_eq!(config.file.client_connection.qps, None);
    assert!(!config.policy.quota.ignore_undeclared);
    let notes = migrated.notes();
    assert!(notes.iter().any(|note| note.starts_with("clientConnection is left out")), "{notes:?}");
}

#[test]
fn metrics_are_those_that_kueue_shows() {
    let locals = |version: &str, given: &str| {
        let head = format!("apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n");
        let migrated = migrated(&format!("{head}metrics: {given}\n"));
        let file = migrated.configuration_file().expect("a configuration");
        let config = crate::config::read_config_text("ours", &file).expect("it is valid");
        (crate::metrics::Switches::of(&config.file.metrics).locals, losses(&migrated))
    };
    for (version, given, shown) in [
        ("v1beta2", "{}", true),
        ("v1beta2", "null", true),
        ("v1beta2", "{localQueueMetrics: {}}", false),
        ("v1beta2", "{localQueueMetrics: {enable: true}}", true),
        ("v1beta1", "{}", false),
        ("v1beta1", "{localQueueMetrics: {enable: true}}", true),
    ] {
        assert_eq!(locals(version, given), (shown, Vec::new()), "{version}: {given}");
    }
    let (_, lost) = locals("v1beta2", "{customLabels: [{name: team, sourceLabelKey: team}]}");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("Configuration: metrics.customLabels: has no equal"), "{lost:?}");
    let select = "{localQueueMetrics: {enable: true, localQueueSelector: {matchLabels: {a: b}}}}";
    let (shown, lost) = locals("v1beta2", select);
    assert!(shown && lost.len() == 1, "{lost:?}");
    assert!(lost[0].contains("metrics.localQueueMetrics.localQueueSelector"), "{lost:?}");
}

/// From 0.19 on Kueue waits for pods unless its file, or a feature gate, says otherwise.
#[test]
fn who_waits_for_pods_without_saying_so_is_told() {
    let policy = |version: &str, parts: &str| {
        let head = format!("apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n");
        let migrated = migrated(&(head + parts));
        assert_eq!(losses(&migrated), [""; 0], "{parts}");
        let file = migrated.configuration_file().expect("a configuration");
        let policy = crate::config::read_config_text("ours", &file).expect("it is valid").policy;
        (policy.pods_ready.map(|ready| ready.timeout.0 / 60_000), migrated.notes().len())
    };
    let off = "featureGates: {DisableWaitForPodsReady: true}\n";
    for (version, parts, want) in [
        ("v1beta2", "", (Some(30), 1)),
        ("v1beta2", "waitForPodsReady: {timeout: 10m}\n", (Some(10), 0)),
        ("v1beta2", off, (None, 0)),
        ("v1beta2", &format!("{off}waitForPodsReady: {{timeout: 10m}}\n"), (None, 0)),
        ("v1beta2", "featureGates: {DisableWaitForPodsReady: false}\n", (Some(30), 1)),
        ("v1beta1", "", (None, 0)),
        // How long work that runs may have pods that are not ready.
        ("v1beta1", "waitForPodsReady: {enable: true}\n", (Some(5), 1)),
        ("v1beta1", "waitForPodsReady: {enable: true, recoveryTimeout: 3m}\n", (Some(5), 0)),
        ("v1beta1", "waitForPodsReady: {timeout: 3m}\n", (None, 0)),
        ("v1beta1", &format!("{off}waitForPodsReady: {{enable: true}}\n"), (None, 0)),
    ] {
        assert_eq!(policy(version, parts), want, "{version}: {parts}");
    }
}

#[test]
fn choices_of_pods_and_of_other_clusters_are_named() {
    let migrated = migrated(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n\
         integrations:\n  podOptions: {namespaceSelector: {matchLabels: {x: y}}}\n\
         ---\n\
         {apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: n, labels: \
          {kueue.x-k8s.io/queue-name: q}}, spec: {managedBy: kueue.x-k8s.io/multikueue}}\n\
         ---\n\
         {apiVersion: batch/v1, kind: Job, metadata: {name: k, namespace: n}, \
          spec: {managedBy: kubernetes.io/job-controller}}\n",
    );
    let losses = losses(&migrated);
    let words = [
        "Configuration: integrations.podOptions: has no equal in Capstan: pods are taken in every",
        "Job n/j: spec.managedBy: has no equal in Capstan: no work is sent to other clusters",
    ];
    assert_eq!(losses.len(), words.len(), "{losses:#?}");
    for word in words {
        assert!(losses.iter().any(|loss| loss.contains(word)), "{word} in {losses:#?}");
    }
}

#[test]
fn mistakes_are_named_all_at_once() {
    let errors = kueue_text(
        "file",
        "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: a}}\n---\n\
         {apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: q}, \
          spec: {cohortName: 7}}\n",
    )
    .expect_err("two mistakes");
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("metadata.namespace") && said[1].contains("spec.cohortName"));
}

/// A Workload of Kueue in the namespace `n`, of an owner if it has one.
fn workload(name: &str, owner: Option<(&str, &str, &str)>, more: &str) -> String {
    let owners = owner.map_or_else(String::new, |(version, kind, name)| {
        format!(
            ", ownerReferences: [{{apiVersion: {version}, kind: {kind}, name: {name}, uid: u}}]"
        )
    });
    format!(
        "{{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, \
         metadata: {{name: {name}, namespace: n{owners}}}, {more}}}\n---\n"
    )
}

#[test]
fn what_is_deactivated_is_held_or_named() {
    let off = "spec: {queueName: q, active: false}";
    let on = "spec: {queueName: q, active: true}";
    let ended =
        &format!("{off}, status: {{conditions: [{{type: Finished, status: 'True', reason: x}}]}}");
    let job = |name| Some(("batch/v1", "Job", name));
    let set = |name| Some(("jobset.x-k8s.io/v1alpha2", "JobSet", name));
    let serves = Some(("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve"));
    let text = [
        workload("job-a-1", job("a"), off),
        workload("jobset-b-1", set("b"), off),
        workload("job-c-1", job("c"), on),
        workload("job-d-1", job("d"), ended),
        // Which of the two will be called otherwise is not certain.
        workload("job-e-1", job("e"), off),
        workload("jobset-e-1", set("e"), on),
        workload("lws-1", serves, off),
        workload("group", None, off),
        workload("job-f-1", job("f"), "spec: {active: false}"),
    ];
    let migrated = migrated(&text.concat());
    let losses = losses(&migrated);
    let named = ["job-e-1", "lws-1", "group", "job-f-1"];
    assert_eq!(losses.len(), named.len(), "{losses:#?}");
    for name in named {
        let word = format!("Workload n/{name}: spec.active: false, and it is not certain what");
        assert!(losses.iter().any(|loss| loss.contains(&word)), "{word} in {losses:#?}");
    }
    let held: Vec<&str> = migrated.objects.keys().map(|(.., name)| name.as_str()).collect();
    assert_eq!(held, ["a", "b"]);
    let begins = "apiVersion: capstan.sh/v1alpha1\nkind: Workload\nmetadata:\n";
    let text = migrated.manifests();
    assert!(text.starts_with(begins) && text.contains("active: false"), "{text}");
    assert!(!text.contains("uid") && !text.contains("ownerReferences"), "{text}");
    let notes = migrated.notes();
    let says = "spec.active: false: n/a (Job), n/b (JobSet)";
    assert!(notes.iter().any(|note| note.ends_with(says)), "{notes:?}");
    let left = "3 Workloads left out";
    assert!(notes.iter().any(|note| note.starts_with(left)), "{notes:?}");
    // Ours is taken as it stands, and holds.
    let config = crate::config::Config::default();
    let objects = crate::read::read_text("ours", &text, &config).expect("it is valid");
    let holds = |input: &Input| match input {
        Input::Deactivated(facts) => Some((facts.name.to_string(), facts.owners.len())),
        _ => None,
    };
    let holds: Vec<_> = objects.inputs.iter().filter_map(holds).collect();
    assert_eq!(holds, [("a".to_owned(), 0), ("b".to_owned(), 0)], "whoever bears the name");
}

#[test]
fn what_a_cluster_knows_of_a_queue_is_not_lost_in_silence() {
    let migrated = migrated(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\n\
         metadata: {name: q, deletionTimestamp: '2026-03-02T10:00:00Z'}\n\
         spec: {namespaceSelector: {}}\n\
         ---\n\
         apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n\
         metadata: {name: l, namespace: n}\nspec: {clusterQueue: q}\n\
         status: {fairSharing: {weightedShare: 0, admissionFairSharingStatus: \
         {consumedResources: {cpu: '12'}, lastUpdate: '2026-03-02T09:59:00Z'}}}\n\
         ---\n\
         apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n\
         metadata: {name: m, namespace: n}\nspec: {clusterQueue: q}\n\
         status: {fairSharing: {weightedShare: 0, admissionFairSharingStatus: \
         {consumedResources: {}, lastUpdate: '2026-03-02T09:59:00Z'}}}\n",
    );
    let losses = losses(&migrated);
    let words = [
        "ClusterQueue q: metadata.deletionTimestamp: it is being deleted, and is written as one",
        "LocalQueue n/l: status.fairSharing: what it used of late for admission fair sharing is",
    ];
    assert_eq!(losses.len(), words.len(), "{losses:#?}");
    for word in words {
        assert!(losses.iter().any(|loss| loss.contains(word)), "{word} in {losses:#?}");
    }
    assert_eq!(migrated.objects.len(), 3, "they are written all the same");
    let notes = migrated.notes();
    assert!(notes.iter().any(|note| note.starts_with("no Workload of Kueue")), "{notes:?}");
}

#[test]
fn a_local_queue_whose_cluster_queue_is_missing_is_named_with_it() {
    let of = |kind: &str, name: &str, spec: &str| {
        format!(
            "{{apiVersion: kueue.x-k8s.io/v1beta2, kind: {kind}, metadata: {{name: {name}, \
             namespace: n}}, spec: {{{spec}}}}}\n---\n"
        )
    };
    let local = |name: &str, queue: &str| of("LocalQueue", name, &format!("clusterQueue: {queue}"));
    let many: Vec<String> = (0..7).map(|at| local(&format!("m{at}"), "many")).collect();
    let there = of("ClusterQueue", "there", "namespaceSelector: {}").replace(", namespace: n", "");
    let migrated =
        migrated(&[local("one", "gone"), many.concat(), local("good", "there"), there].concat());
    assert_eq!(losses(&migrated), [""; 0], "they wait in Kueue too");
    assert_eq!(migrated.objects.len(), 10, "they are written all the same");
    let notes = migrated.notes();
    let of_none: Vec<&String> =
        notes.iter().filter(|note| note.starts_with("LocalQueue")).collect();
    let words = [
        "LocalQueue n/one is of ClusterQueue gone, which is not among these objects",
        "LocalQueues n/m0, n/m1, n/m2, n/m3, n/m4 and 2 more are of ClusterQueue many, which",
    ];
    assert_eq!(of_none.len(), words.len(), "{notes:?}");
    assert!(words.iter().zip(of_none).all(|(word, note)| note.starts_with(word)), "{notes:?}");
}
