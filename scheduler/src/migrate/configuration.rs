//! Kueue's configuration: what of it is ours under the same name, and what has no equal.

use serde_json::{Map, Value, json};

use super::{Migrated, named, our_version};
use crate::api::duration;
use crate::config::{self, KIND, file::CapstanConfiguration};
use crate::gangs::kinds::{Row, TABLE};
use crate::read::error::{Place, ReadError};
use crate::read::schema::prune;
use crate::read::{self, decode};

/// The API group of Kueue's configuration.
pub(super) const GROUP: &str = "config.kueue.x-k8s.io";

/// Where Kueue's manifests keep it.
const FILE: &str = "controller_manager_config.yaml";

/// Parts that mean the same here.
const SAME: [&str; 5] =
    ["fairSharing", "admissionFairSharing", "waitForPodsReady", "resources", "leaderElection"];

/// Of these, those that are off in v1beta1 unless they say `enable: true`; here, as in v1beta2,
/// they are on once they are there.
const OFF_UNLESS_ENABLED: [&str; 2] = ["fairSharing", "waitForPodsReady"];

/// The part that is on in v1beta2 even where a file does not have it.
const READY: &str = "waitForPodsReady";

/// How long pods may take to be ready where a file of v1beta1, or of v1beta2, does not say.
const READY_WITHIN: [&str; 2] = ["5m", "30m"];

/// The feature gate with which nobody waits for pods, whatever the file says.
const READY_OFF: &str = "DisableWaitForPodsReady";

/// That this part is written out.
pub(super) const READY_WRITTEN: &str = "waitForPodsReady is written out as Kueue has it from 0.19 \
    on where a Configuration of v1beta2 does not say (30 minutes): if your Kueue is older, it \
    waits for no pods, and that part is to be left out";

/// What becomes of work that has started, where an older file does not say.
pub(super) const RECOVERS_WITHIN: &str = "waitForPodsReady.recoveryTimeout is not given, so work \
    that runs and has pods that are not ready is stopped after timeout, as by Kueue from 0.16 on; \
    an older one lets it run, as recoveryTimeout: 0s does";

/// The part that says how many requests a second Kueue makes.
const RATE: &str = "clientConnection";

/// That this part is left out: each installation of Kueue has it, and Kueue binds no pods.
pub(super) const RATE_LEFT_OUT: &str = "clientConnection is left out: it bounds what Kueue itself \
    asks of the API server, and here it would bound how many pods are bound in a second; without \
    it there is no bound";

/// Parts that are about Kueue's process and decide nothing.
const PROCESS: [&str; 12] = [
    "apiVersion",
    "kind",
    "metadata",
    "namespace",
    "controller",
    "health",
    "webhook",
    "internalCertManagement",
    "pprofBindAddress",
    "tls",
    "visibility",
    "visibilityServer",
];

/// Of its metrics, which are shown, and which series there are by LocalQueue.
const METRICS: [&str; 2] = ["enableClusterQueueResources", LOCALS];
const LOCALS: &str = "localQueueMetrics";

/// Of its metrics, where they are served.
const SERVED: &str = "bindAddress";

/// What Kueue calls the kinds of Kubernetes whose work it takes.
const OF_KUBERNETES: [&str; 4] = ["batch/job", "pod", "deployment", "statefulset"];

/// Fields of leader election that name the lease; ours is another, or both would wait.
const LEASE: [&str; 3] = [
    "leaderElection.resourceName",
    "leaderElection.resourceNamespace",
    "leaderElection.resourceLock",
];

impl Migrated {
    /// The configuration in a ConfigMap, if that is one of Kueue's.
    pub(super) fn configuration_in(&mut self, place: &Place, map: &Value) {
        let Some(text) = map["data"][FILE].as_str() else { return };
        let name = format!("{}, {}", place.file, named("ConfigMap", map));
        match read::values_of_text(&name, text) {
            Ok(documents) => {
                for document in documents {
                    let version = document.value["apiVersion"].as_str().unwrap_or_default();
                    if version.starts_with(GROUP) {
                        self.configuration(document.place, document.value);
                    }
                }
            }
            Err(errors) => self.errors.extend(errors),
        }
    }

    pub(super) fn configuration(&mut self, place: Place, value: Value) {
        if self.configuration.is_some() {
            let problem = "a second Configuration; leave one out";
            return self.errors.push(ReadError::at(place, problem));
        }
        let older = value["apiVersion"].as_str().is_some_and(|it| it.ends_with("/v1beta1"));
        let mut ours = Map::new();
        for (part, given) in value.as_object().into_iter().flatten() {
            match part.as_str() {
                part if PROCESS.contains(&part) => {}
                RATE => self.rate_left_out = !given.is_null(),
                part if SAME.contains(&part) => {
                    ours.insert(part.to_owned(), as_meant(part, given, older));
                }
                "manageJobsWithoutQueueName" => {
                    if given == &Value::Bool(true) {
                        ours.insert("unqueuedWorkloads".to_owned(), "Hold".into());
                    }
                }
                "featureGates" if only_ready(given) => {}
                "integrations" => self.integrations(&place, given),
                "metrics" => self.metrics(&place, given, &mut ours),
                part => {
                    let problem = "has no equal in Capstan".to_owned();
                    self.lose(&place, "Configuration", Some(part), problem);
                }
            }
        }
        self.ready(&mut ours, &value, older);
        if !older {
            show_locals(&mut ours);
        }
        ours.insert("apiVersion".to_owned(), our_version().into());
        ours.insert("kind".to_owned(), KIND.into());
        self.settle(&place, ours.into());
    }

    /// Which metrics are shown.
    fn metrics(&mut self, place: &Place, given: &Value, ours: &mut Map<String, Value>) {
        let mut same = Map::new();
        for (field, value) in given.as_object().into_iter().flatten() {
            if METRICS.contains(&field.as_str()) {
                same.insert(field.clone(), value.clone());
            } else if field != SERVED && !value.is_null() {
                let path = format!("metrics.{field}");
                let problem = "has no equal in Capstan".to_owned();
                self.lose(place, "Configuration", Some(&path), problem);
            }
        }
        // Who says something of them and not that they are shown has none.
        if let Some(locals) = same.get_mut(LOCALS).and_then(Value::as_object_mut) {
            unless_given(locals, "enable", false);
        }
        if !same.is_empty() {
            ours.insert("metrics".to_owned(), same.into());
        }
    }

    /// Who waits for pods though the file does not say so, and who does not though it does.
    fn ready(&mut self, ours: &mut Map<String, Value>, given: &Value, older: bool) {
        let off = given["featureGates"][READY_OFF] == Value::Bool(true);
        let (part, on) = (&given[READY], Value::Bool(true));
        self.recovery_unsaid =
            older && !off && part["enable"] == on && part["recoveryTimeout"].is_null();
        if off {
            ours.remove(READY);
        } else if !older && given[READY].is_null() {
            let none = Value::Object(Map::new());
            ours.insert(READY.to_owned(), as_meant(READY, &none, older));
            self.ready_written = true;
        }
    }

    /// Leaves out what our configuration does not know, and says what of the rest does nothing.
    fn settle(&mut self, place: &Place, mut ours: Value) {
        prune(&mut ours, "", &LEASE);
        if let Err(findings) = decode::strict::<CapstanConfiguration>(&ours) {
            let paths: Vec<&str> = findings.iter().map(|one| one.path.as_str()).collect();
            for one in &findings {
                let problem = match one.unknown {
                    true => "has no equal in Capstan".to_owned(),
                    false => format!("{}; it was left out", one.problem),
                };
                self.lose(place, "Configuration", Some(&one.path), problem);
            }
            prune(&mut ours, "", &paths);
        }
        let text = super::yaml(&ours);
        match config::read_config_text(&place.file, &text) {
            Ok(config) => {
                for warning in config.warnings {
                    self.lose(place, "Configuration", warning.path.as_deref(), warning.problem);
                }
                self.configuration = Some(ours);
            }
            Err(errors) => self.errors.extend(errors.into_iter().map(|error| ReadError {
                place: Some(place.clone()),
                object: Some("Configuration".into()),
                ..error
            })),
        }
    }

    /// Kinds of jobs: ours are found by what a cluster serves, so that only others are lost.
    fn integrations(&mut self, place: &Place, given: &Value) {
        for (field, path) in [
            ("frameworks", "integrations.frameworks"),
            ("externalFrameworks", "integrations.externalFrameworks"),
        ] {
            let kinds = given[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            for framework in kinds.filter(|kind| !is_read(kind)) {
                let problem = format!(
                    "{framework}: has no equal, Capstan does not know this kind as an owner"
                );
                self.lose(place, "Configuration", Some(path), problem);
            }
        }
        let no_equal = [
            ("labelKeysToCopy", "has no equal in Capstan"),
            (
                "podOptions",
                "has no equal in Capstan: pods are taken in every namespace and with any labels, \
                 if they name it in schedulerName",
            ),
        ];
        for (field, problem) in no_equal {
            if !given[field].is_null() {
                let path = format!("integrations.{field}");
                self.lose(place, "Configuration", Some(&path), problem.to_owned());
            }
        }
    }
}

/// Whether work of the kind that Kueue calls by this name (`batch/job`, `jobset.x-k8s.io/jobset`)
/// is read here.
fn is_read(framework: &str) -> bool {
    let of_kind = |row: &Row| {
        let named = framework.strip_prefix(row.group).and_then(|rest| rest.strip_prefix('/'));
        named.is_some_and(|name| name.eq_ignore_ascii_case(row.name))
    };
    OF_KUBERNETES.contains(&framework) || TABLE.iter().any(of_kind)
}

/// Whether of all feature gates only the one is named that is understood.
fn only_ready(gates: &Value) -> bool {
    gates.as_object().is_some_and(|gates| gates.keys().all(|gate| gate == READY_OFF))
}

/// A part with what Kueue takes for granted in that version written out, where we take something
/// else for granted.
fn as_meant(part: &str, given: &Value, older: bool) -> Value {
    let mut meant = given.clone();
    let Some(fields) = meant.as_object_mut() else { return meant };
    if older && OFF_UNLESS_ENABLED.contains(&part) {
        unless_given(fields, "enable", false);
    }
    let off = fields.get("enable") == Some(&Value::Bool(false));
    if part == READY && !off {
        // The newer version takes no time for none given.
        let given = fields.get("timeout").and_then(Value::as_str).and_then(duration::parse);
        if !older && given.is_some_and(|given| given.0 == 0) {
            fields.remove("timeout");
        }
        unless_given(fields, "timeout", READY_WITHIN[usize::from(!older)]);
        if older {
            unless_given(fields, "blockAdmission", true);
        }
    }
    meant
}

/// Metrics by LocalQueue, which Kueue shows from 0.17 on where a file does not say, and we do not.
fn show_locals(ours: &mut Map<String, Value>) {
    let metrics = ours.entry("metrics").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metrics) = metrics.as_object_mut() {
        unless_given(metrics, LOCALS, json!({ "enable": true }));
    }
}

/// Writes a field that is absent or null.
fn unless_given(fields: &mut Map<String, Value>, name: &str, default: impl Into<Value>) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), default.into());
    }
}
