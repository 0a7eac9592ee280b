//! What people install: the kustomize base and the Helm chart are the same objects, and neither
//! may do more than it needs.
//!
//! Templates are not rendered here. A line that is nothing but an action is left out, an action
//! within a line stands for any text, and what then remains must be the base's. Where the chart
//! has an action is listed below, with the value that `values.yaml` gives it.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use capstan::gangs::kinds::{Kind, TABLE};
use capstan_tests::scenario::capstan;
use serde_json::{Value, json};

/// What only a chart can leave to people: which peers there are, no base knows.
const OPTIONAL: &str = "network-policy.yaml";

/// Stands for what Helm puts in.
const ACTION: &str = "<action>";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// YAML files of a folder, sorted.
fn names(folder: &str) -> Vec<String> {
    let listed = fs::read_dir(root().join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a plain name");
    let mut names: Vec<String> = listed.map(|entry| name(entry.expect("an entry"))).collect();
    names.retain(|name| name.ends_with(".yaml") && name != "kustomization.yaml");
    names.sort();
    names
}

/// Templates of what the base has, too.
fn templates() -> Vec<String> {
    let mut templates = names("manifests/chart/templates");
    templates.retain(|name| name != OPTIONAL);
    templates
}

fn base(name: &str) -> Value {
    yaml(&read(&format!("manifests/base/{name}")))
}

/// A template without its actions.
fn template(name: &str) -> Value {
    let text = read(&format!("manifests/chart/templates/{name}"));
    let mut plain = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("{{") && trimmed.ends_with("}}") && !trimmed[2..].contains("{{") {
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            plain.push_str(before);
            plain.push_str(ACTION);
            rest = after.split_once("}}").expect("an action ends in its line").1;
        }
        plain.push_str(rest);
        plain.push('\n');
    }
    yaml(&plain)
}

/// Walks both: what differs, and where the chart leaves something to Helm.
struct Comparison {
    differs: Vec<String>,
    left: Vec<(String, Value)>,
}

impl Comparison {
    fn of(base: &Value, chart: &Value) -> Comparison {
        let mut comparison = Comparison { differs: Vec::new(), left: Vec::new() };
        comparison.value(base, chart, "");
        comparison
    }

    fn value(&mut self, base: &Value, chart: &Value, at: &str) {
        let nothing = chart.is_null() || *chart == "";
        match (base, chart) {
            (_, Value::String(text)) if text.contains(ACTION) => self.leave(at, base),
            (base, _) if nothing && *base != *chart => self.leave(at, base),
            (Value::Object(base), Value::Object(chart)) => {
                for key in base.keys().chain(chart.keys().filter(|key| !base.contains_key(*key))) {
                    let of = |map: &serde_json::Map<String, Value>| {
                        map.get(key).cloned().unwrap_or_else(|| json!("(absent)"))
                    };
                    self.value(&of(base), &of(chart), &format!("{at}.{key}"));
                }
            }
            (Value::Array(base), Value::Array(chart)) if base.len() == chart.len() => {
                for (index, (base, chart)) in base.iter().zip(chart).enumerate() {
                    self.value(base, chart, &format!("{at}[{index}]"));
                }
            }
            (base, chart) if base == chart => {}
            (base, chart) => self.differs.push(format!("{at}: base {base}, chart {chart}")),
        }
    }

    fn leave(&mut self, at: &str, base: &Value) {
        self.left.push((at.to_owned(), base.clone()));
    }
}

#[test]
fn the_chart_has_what_the_base_has() {
    let mut of_base = names("manifests/base");
    of_base.retain(|name| name != "namespace.yaml"); // Helm makes the release's namespace.
    assert_eq!(templates(), of_base);
    for name in of_base {
        let comparison = Comparison::of(&base(&name), &template(&name));
        assert_eq!(comparison.differs, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_helm_puts_in_is_by_default_what_the_base_has() {
    let values = yaml(&read("manifests/chart/values.yaml"));
    let chart = yaml(&read("manifests/chart/Chart.yaml"));
    let image = format!(
        "{}:{}",
        values["image"]["repository"].as_str().expect("a repository"),
        chart["appVersion"].as_str().expect("a version"),
    );
    assert_eq!(values["image"]["tag"], "", "the default is the chart's appVersion");
    let spec = ".spec.template.spec";
    let absent = json!("(absent)");
    let given: BTreeMap<String, Value> = [
        (".spec.replicas".to_owned(), values["replicas"].clone()),
        (".spec.template.metadata.annotations".to_owned(), absent.clone()),
        (format!("{spec}.imagePullSecrets"), absent.clone()),
        (format!("{spec}.nodeSelector"), absent.clone()),
        (format!("{spec}.tolerations"), absent.clone()),
        (format!("{spec}.priorityClassName"), values["priorityClassName"].clone()),
        (format!("{spec}.containers[0].image"), image.into()),
        (format!("{spec}.containers[0].imagePullPolicy"), values["image"]["pullPolicy"].clone()),
        (format!("{spec}.containers[0].resources"), values["resources"].clone()),
        (
            ".rules[1].resourceNames[0]".to_owned(),
            values["config"]["leaderElection"]["resourceName"].clone(),
        ),
        (
            ".spec.scopeSelector.matchExpressions[0].values[0]".to_owned(),
            values["priorityClassName"].clone(),
        ),
    ]
    .into();
    for empty in ["podAnnotations", "imagePullSecrets", "nodeSelector", "tolerations"] {
        assert!(values[empty] == json!({}) || values[empty] == json!([]), "{empty}");
    }
    let mut met = 0;
    for name in templates() {
        for (at, base) in Comparison::of(&base(&name), &template(&name)).left {
            if at.ends_with(".namespace") {
                assert_eq!(base, "capstan-system", "{name}{at}");
                continue;
            }
            if at == ".data.capstan.yaml" {
                let base = yaml(base.as_str().expect("a text"));
                assert_eq!(base, values["config"], "the configuration");
                continue;
            }
            assert_eq!(given.get(&at), Some(&base), "{name}{at}");
            met += 1;
        }
    }
    assert_eq!(met, given.len(), "values that no template takes");
}

/// What is between the first line and the last of a template that is there under a condition.
fn under(name: &str) -> (String, String) {
    let text = read(&format!("manifests/chart/templates/{name}"));
    let (first, rest) = text.split_once('\n').expect("lines");
    let within = rest.trim_end().strip_suffix("{{- end }}").expect("it ends with its condition");
    (first.to_owned(), within.to_owned())
}

#[test]
fn the_policy_of_networks_is_the_chart_s_and_off_by_default() {
    let values = yaml(&read("manifests/chart/values.yaml"));
    assert_eq!(values["networkPolicy"], json!({ "enabled": false, "from": [] }));
    let (condition, within) = under(OPTIONAL);
    assert_eq!(condition, "{{- if .Values.networkPolicy.enabled }}");
    // The rule is there for who is named; without it nobody is let in.
    let (_, rule) = within.split_once("{{- with .Values.networkPolicy.from }}").expect("a rule");
    assert!(rule.trim_start().starts_with("ingress:\n") && rule.trim_end().ends_with("{{- end }}"));
    let policy = template(OPTIONAL);
    let service = base("service.yaml");
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], service["spec"]["selector"]);
    let port = &policy["spec"]["ingress"][0]["ports"][0]["port"];
    assert_eq!(*port, service["spec"]["ports"][0]["targetPort"]);
}

/// Elsewhere nobody could hold it, and so nobody would lead.
#[test]
fn the_lease_may_be_held_where_the_configuration_has_it() {
    let place =
        "{{ .Values.config.leaderElection.resourceNamespace | default .Release.Namespace }}";
    for name in ["role.yaml", "role-binding.yaml"] {
        let text = read(&format!("manifests/chart/templates/{name}"));
        let (_, meta) = text.split_once("\nmetadata:\n").expect("metadata");
        let found = meta.lines().find_map(|line| line.strip_prefix("  namespace: "));
        assert_eq!(found, Some(place), "{name}");
    }
    // Who may: the account of the release.
    let text = read("manifests/chart/templates/role-binding.yaml");
    let (_, subjects) = text.split_once("\nsubjects:\n").expect("subjects");
    assert!(subjects.contains("  namespace: {{ .Release.Namespace }}"), "{subjects}");
}

/// Where the classes of the system are limited to namespaces with a quota for them.
#[test]
fn the_pods_may_have_their_priority_class() {
    let quota = base("resource-quota.yaml");
    let pod = base("deployment.yaml")["spec"]["template"]["spec"].clone();
    let scope = &quota["spec"]["scopeSelector"]["matchExpressions"];
    let class = &pod["priorityClassName"];
    let wanted = json!([{ "scopeName": "PriorityClass", "operator": "In", "values": [class] }]);
    assert_eq!(*scope, wanted);
    assert_eq!(quota["metadata"]["namespace"], base("deployment.yaml")["metadata"]["namespace"]);
    let values = yaml(&read("manifests/chart/values.yaml"));
    assert_eq!(values["resourceQuota"], true);
    let (condition, _) = under("resource-quota.yaml");
    assert_eq!(condition, "{{- if and .Values.resourceQuota .Values.priorityClassName }}");
}

#[test]
fn the_chart_brings_the_same_crds() {
    let crds = names("manifests/crds");
    assert_eq!(names("manifests/chart/crds"), crds);
    for name in crds {
        let of = |folder: &str| read(&format!("manifests/{folder}/{name}"));
        assert!(of("crds") == of("chart/crds"), "{name}");
    }
}

#[test]
fn kustomizations_name_every_file() {
    let listed = |path: &str| {
        let kustomization = yaml(&read(path));
        let resources = kustomization["resources"].as_array().cloned().expect("a list");
        let mut names: Vec<String> =
            resources.iter().filter_map(|name| name.as_str()).map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(listed("manifests/base/kustomization.yaml"), names("manifests/base"));
    let mut whole: Vec<String> =
        names("manifests/crds").into_iter().map(|name| format!("crds/{name}")).collect();
    whole.insert(0, "base".to_owned());
    assert_eq!(listed("manifests/kustomization.yaml"), whole);
}

#[test]
fn the_installed_configuration_is_valid_and_all_default() {
    let config = base("config-map.yaml")["data"]["capstan.yaml"].clone();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capstan.yaml");
    fs::write(&file, config.as_str().expect("a text")).expect("it can be written");
    let printed = capstan(&["check-config".to_owned(), file.display().to_string()]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{}", printed.out);
}

#[test]
fn versions_agree() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let version = manifest["workspace"]["package"]["version"].as_str().expect("a version");
    let chart = yaml(&read("manifests/chart/Chart.yaml"));
    assert_eq!((&chart["version"], &chart["appVersion"]), (&json!(version), &json!(version)));
    let toolchain: toml::Table = read("rust-toolchain.toml").parse().expect("TOML");
    let rust = toolchain["toolchain"]["channel"].as_str().expect("a version");
    assert!(read("Dockerfile").contains(&format!("FROM rust:{rust}-")), "{rust}");
}

/// Every (verb, group/resource) that a role's rules allow.
fn allowed(role: &Value) -> Vec<(String, String)> {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
    };
    let mut allowed = Vec::new();
    for rule in role["rules"].as_array().expect("rules") {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    allowed.push((verb, format!("{group}/{resource}")));
                }
            }
        }
    }
    allowed
}

#[test]
fn nothing_is_allowed_that_is_not_needed() {
    let mut writes: Vec<String> = allowed(&base("cluster-role.yaml"))
        .into_iter()
        .filter(|(verb, _)| !["get", "list", "watch"].contains(&verb.as_str()))
        .map(|(verb, resource)| format!("{verb} {resource}"))
        .collect();
    writes.sort();
    let needed = [
        "create /pods/binding",
        "create capstan.sh/workloads",
        "create events.k8s.io/events",
        "create resource.k8s.io/resourceclaims",
        "delete /pods",
        "delete capstan.sh/workloads",
        "delete resource.k8s.io/resourceclaims",
        "patch /persistentvolumeclaims",
        "patch /persistentvolumes",
        "patch /pods",
        "patch /pods/status",
        "patch batch/jobs",
        "patch capstan.sh/clusterqueues",
        "patch capstan.sh/clusterqueues/status",
        "patch capstan.sh/cohorts/status",
        "patch capstan.sh/localqueues/status",
        "patch capstan.sh/workloads",
        "patch capstan.sh/workloads/status",
        "patch jobset.x-k8s.io/jobsets",
        "patch kubeflow.org/jaxjobs",
        "patch kubeflow.org/mpijobs",
        "patch kubeflow.org/paddlejobs",
        "patch kubeflow.org/pytorchjobs",
        "patch kubeflow.org/tfjobs",
        "patch kubeflow.org/xgboostjobs",
        "patch ray.io/rayclusters",
        "patch ray.io/rayjobs",
        "patch resource.k8s.io/resourceclaims",
        "patch resource.k8s.io/resourceclaims/binding",
        "patch resource.k8s.io/resourceclaims/status",
        "patch scheduling.k8s.io/podgroups/status",
        "patch scheduling.volcano.sh/podgroups",
        "patch scheduling.x-k8s.io/podgroups/status",
        "patch trainer.kubeflow.org/trainjobs",
    ];
    assert_eq!(writes, needed);
    for name in ["cluster-role.yaml", "role.yaml", "view-role.yaml", "edit-role.yaml"] {
        for (verb, resource) in allowed(&base(name)) {
            let secret = resource.ends_with("/secrets") || resource == "kueue.x-k8s.io/workloads";
            assert!(!verb.contains('*') && !resource.contains('*') && !secret, "{verb} {resource}");
        }
    }
    let reads = allowed(&base("cluster-role.yaml"));
    // Workloads are written and never believed.
    let queueing =
        capstan::api::crds::all().into_iter().filter(|crd| crd.spec.names.kind != "Workload");
    for kind in queueing {
        let read = ("watch".to_owned(), format!("capstan.sh/{}", kind.spec.names.plural));
        assert!(reads.contains(&read), "{read:?}");
    }
    for row in &TABLE {
        let kind = format!("{}/{}", row.group, row.plural);
        for verb in ["list", "watch"] {
            assert!(reads.contains(&(verb.to_owned(), kind.clone())), "{verb} {kind}");
        }
        let stops = reads.contains(&("patch".to_owned(), kind.clone()));
        // The status of Volcano's PodGroups is a part of them like any other.
        let shows = row.kind == Kind::VolcanoGroup;
        assert_eq!(stops, row.suspend.is_some() || shows, "{kind}");
    }
}

#[test]
fn the_pods_are_restricted_and_two() {
    let deployment = base("deployment.yaml");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(
        *container,
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        })
    );
    let user = pod["securityContext"]["runAsUser"].clone();
    assert!(read("Dockerfile").contains(&format!("USER {user}:{user}")), "{user}");
    let args = pod["containers"][0]["args"].as_array().expect("arguments");
    let mounted = pod["containers"][0]["volumeMounts"][0]["mountPath"].as_str().expect("a path");
    let config = format!("--config={mounted}/capstan.yaml");
    assert_eq!(*args, [json!("run"), json!(config)]);
}

/// The port of the Service is the one that probes ask, which is where the program listens.
#[test]
fn who_asks_finds_the_port() {
    let (deployment, service) = (base("deployment.yaml"), base("service.yaml"));
    let template = &deployment["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let port = &container["ports"][0];
    let help = capstan(&["run".to_owned(), "--help".to_owned()]).out;
    let (_, listen) = help.split_once("--listen").expect("a flag");
    let (_, listen) = listen.split_once("[default: ").expect("a default");
    let (listen, _) = listen.split_once(']').expect("its end");
    let listen: SocketAddr = listen.parse().expect("an address");
    assert_eq!(port["containerPort"], listen.port());
    assert!(listen.ip().is_unspecified(), "{listen}: probes come from the node");
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], port["name"], "{probe}");
    }
    let entry = &service["spec"]["ports"][0];
    assert_eq!((&entry["targetPort"], &entry["port"]), (&port["name"], &port["containerPort"]));
    let labels = template["metadata"]["labels"].as_object().expect("labels");
    let selector = service["spec"]["selector"].as_object().expect("a selector");
    assert!(!selector.is_empty());
    for (key, value) in selector {
        assert_eq!(labels.get(key), Some(value), "the Service finds its pods by {key}");
    }
}
