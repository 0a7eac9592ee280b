//! A Workload as the API shows it: as little of it as comparisons need, packed.
//!
//! A leader keeps one for every gang of the cluster, and looks into it only when the gang may have
//! changed. So spec, status, labels of ours and owners' uids are kept as text without what is empty
//! anyway; who wrote which field (`managedFields`) and all else that the API adds is let go.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time as ApiTime};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::diff;
use super::plan::Name;
use crate::api::keys;
use crate::api::workload::{Workload, WorkloadSpec, WorkloadStatus};

const BARE: &str = "-";
const WRITTEN: &str = "+";
const END: &str = "\n";
const BETWEEN: &str = ",";

/// Words that most Workloads have, longest first where one begins another. In the packed form each
/// is one byte that no JSON text contains: a control character, from 1 on.
const WORDS: [&str; 29] = [
    r#"["QuotaReserved","True","QuotaReserved","quota reserved in ClusterQueue "#,
    r#"["QuotaReserved","False",""#,
    r#"["Admitted","True","Admitted","the workload is admitted",""#,
    r#"["Admitted","False","NoReservation","the workload holds no quota",""#,
    r#"["PodsReady","True","Started","enough pods are ready",""#,
    r#"["PodsReady","False","WaitForStart","its pods are being started",""#,
    r#"["PodsReady","False","WaitForStart","its pods have no nodes",""#,
    r#"["Finished","True","Succeeded","its Job is complete",""#,
    r#"{"active":true,"podSets":[{"count":"#,
    r#","name":"main"}],"priority":"#,
    r#","queueName":""#,
    r#"{"clusterQueue":""#,
    r#","flavors":{"main":{""#,
    r#","waitedSeconds":"#,
    r#","nodesSummary":""#,
    r#","waited":""#,
    r#","waitingSince":""#,
    r#","usdPerHour":""#,
    r#""state":"Running""#,
    r#","reason":""#,
    r#""nodes":[""#,
    r#","gpus":"#,
    r#","pods":""#,
    "nvidia.com/gpu",
    r#"Z",null]"#,
    r#"Z",1]"#,
    r#"":"",""#,
    r#""}},"#,
    r#"",""#,
];

/// A Workload, packed.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownWorkload {
    /// Whether a status was written, the uid, a line's end, whose it is, a line's end, uids of its
    /// owners, a line's end, and what [`Packed`] is as JSON with [`WORDS`] replaced.
    bytes: Box<[u8]>,
}

/// What comparisons need of a Workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    /// The scheduler whose it says that it is.
    pub scheduler: Option<String>,
    /// Its queue label.
    pub queue: Option<String>,
    /// Uids of its owners.
    pub owners: Vec<String>,
    /// Spec.
    pub spec: WorkloadSpec,
    /// Status; `None`: none was ever written.
    pub status: Option<WorkloadStatus>,
    /// Version of its spec.
    pub generation: Option<i64>,
}

/// All but the uid and owners that are no pods; conditions are apart, without the names of their
/// fields.
#[derive(Serialize, Deserialize)]
struct Packed(Option<String>, Vec<String>, Value, Option<Value>, Vec<PackedCondition>, Option<i64>);

type PackedCondition = (String, String, String, String, ApiTime, Option<i64>);

impl ShownWorkload {
    /// Packs what the API shows.
    pub fn of(object: &Workload) -> ShownWorkload {
        let meta = &object.metadata;
        let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
        let queue = label(keys::QUEUE).cloned();
        let all = meta.owner_references.iter().flatten();
        let (pods, owners): (Vec<_>, Vec<_>) = all.partition(|owner| owner.kind == "Pod");
        let pods: Vec<String> = pods.into_iter().map(|pod| pod.uid.clone()).collect();
        let owners: Vec<String> = owners.into_iter().map(|owner| plain(&owner.uid)).collect();
        let conditions = object.status.iter().flat_map(|status| &status.conditions).map(|it| {
            let Condition { type_, status, reason, message, .. } = it.clone();
            (
                type_,
                status,
                reason,
                message,
                it.last_transition_time.clone(),
                it.observed_generation,
            )
        });
        let status = object.status.as_ref().map(|status| {
            let mut rest =
                diff::value(&WorkloadStatus { conditions: Vec::new(), ..status.clone() });
            // An absent field is read as its default.
            let empty = diff::value(&WorkloadStatus::default());
            let fields = rest.as_object_mut().expect("a struct");
            fields.retain(|name, value| empty.get(name) != Some(value));
            rest
        });
        let spec = diff::value(&object.spec);
        let packed = Packed(queue, pods, spec, status, conditions.collect(), meta.generation);
        let packed = serde_json::to_string(&packed).expect("types of the API are plain values");
        let mut text = String::from(if object.status.is_none() { BARE } else { WRITTEN });
        text.push_str(meta.uid.as_deref().unwrap_or_default());
        text.push_str(END);
        text.push_str(label(keys::SCHEDULER_NAME).map_or("", String::as_str));
        text.push_str(END);
        text.push_str(&owners.join(BETWEEN));
        text.push_str(END);
        text.push_str(&shortened(packed));
        // A copy has exactly the size that it needs.
        ShownWorkload { bytes: Box::from(text.as_bytes()) }
    }

    /// The same with its name, if it has one.
    pub fn named(object: &Workload) -> Option<(Name, ShownWorkload)> {
        let meta = &object.metadata;
        let name = (meta.namespace.as_deref()?.into(), meta.name.as_deref()?.into());
        Some((name, ShownWorkload::of(object)))
    }

    /// Unique id.
    pub fn uid(&self) -> Option<&str> {
        Some(self.parts()[0]).filter(|uid| !uid.is_empty())
    }

    /// The scheduler whose it says that it is; `None`: it says nothing of that.
    pub fn scheduler(&self) -> Option<&str> {
        Some(self.parts()[1]).filter(|name| !name.is_empty())
    }

    /// Whether it names an owner that is no pod, and none of this uid.
    pub fn is_of_another(&self, owner: &str) -> bool {
        let mut owners = self.owners().peekable();
        owners.peek().is_some() && owners.all(|uid| uid != owner)
    }

    /// Whether an owner that is no pod is held by it.
    pub fn holds_an_owner(&self) -> bool {
        self.owners().next().is_some() && !self.unpack().spec.active
    }

    /// Uids of its owners that are no pods.
    fn owners(&self) -> impl Iterator<Item = &str> {
        self.parts()[2].split(BETWEEN).filter(|uid| !uid.is_empty())
    }

    /// It was made, and no status was written yet.
    pub fn bare(&self) -> bool {
        self.bytes.starts_with(BARE.as_bytes())
    }

    /// The uid, whose it is, uids of its owners, and the rest.
    fn parts(&self) -> [&str; 4] {
        let text = str::from_utf8(&self.bytes).expect("it was packed here");
        let (uid, rest) = text[BARE.len()..].split_once(END).expect("it was packed here");
        let (scheduler, rest) = rest.split_once(END).expect("it was packed here");
        let (owners, rest) = rest.split_once(END).expect("it was packed here");
        [uid, scheduler, owners, rest]
    }

    /// What it says.
    pub fn unpack(&self) -> Compared {
        let Packed(queue, pods, spec, status, conditions, generation) =
            serde_json::from_str(&lengthened(self.parts()[3])).expect("it was packed here");
        let owners = self.owners().map(str::to_owned).chain(pods).collect();
        let spec = serde_json::from_value(spec).expect("it was packed here");
        let status = status.map(|rest| {
            let mut status: WorkloadStatus =
                serde_json::from_value(rest).expect("it was packed here");
            let all = conditions.into_iter();
            status.conditions = all.map(condition).collect();
            status
        });
        let scheduler = self.scheduler().map(str::to_owned);
        Compared { scheduler, queue, owners, spec, status, generation }
    }
}

/// A uid without what stands between parts here. API servers take any text for that of an owner;
/// one with such letters is nobody's, whatever stands for them.
fn plain(uid: &str) -> String {
    uid.replace([',', '\n'], " ")
}

/// With a byte for each of [`WORDS`].
fn shortened(mut text: String) -> String {
    for (at, word) in WORDS.iter().enumerate() {
        if text.contains(word) {
            text = text.replace(word, char::from(at as u8 + 1).encode_utf8(&mut [0; 4]));
        }
    }
    text
}

/// With [`WORDS`] in full again.
fn lengthened(text: &str) -> String {
    let mut full = String::with_capacity(2 * text.len());
    for part in text.chars() {
        match (part as usize).checked_sub(1).and_then(|at| WORDS.get(at)) {
            Some(word) => full.push_str(word),
            None => full.push(part),
        }
    }
    full
}

fn condition((type_, status, reason, message, since, seen): PackedCondition) -> Condition {
    Condition {
        type_,
        status,
        reason,
        message,
        last_transition_time: since,
        observed_generation: seen,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_compared_is_kept_and_what_the_api_adds_is_not() {
        let fields = json!({"f:status": {"f:conditions": {"f:message": "x".repeat(4_000)}}});
        let condition = json!({"type": "Admitted", "status": "True", "reason": "Admitted",
            "message": "it is", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 4});
        let object = json!({
            "apiVersion": "capstan.sh/v1alpha1",
            "kind": "Workload",
            "metadata": {
                "name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 5,
                "labels": {"capstan.sh/queue": "q", "capstan.sh/scheduler-name": "dev",
                    "other": "o"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "g",
                    "uid": "uid-g"}],
                "managedFields": [{"manager": "capstan", "operation": "Update",
                    "fieldsType": "FieldsV1", "fieldsV1": fields}],
            },
            "spec": {"queueName": "q", "priority": -3, "active": false,
                "podSets": [{"name": "main", "count": 3}]},
            "status": {"state": "Running", "reason": "", "pods": "3/3", "gpus": 0,
                "waitedSeconds": 0, "waited": "0s",
                "nodes": ["a", "b"], "nodesSummary": "2 nodes: a, b",
                "flavors": {"main": {"cpu": "spot"}}, "requeueState": {"count": 0},
                "conditions": [condition]},
        });
        let object: Workload = serde_json::from_value(object).expect("a Workload");
        let (name, shown) = ShownWorkload::named(&object).expect("it has a name");
        assert_eq!((&*name.0, &*name.1, shown.uid(), shown.bare()), ("ns", "g", Some("u"), false));
        let want = Compared {
            scheduler: Some("dev".to_owned()),
            queue: Some("q".to_owned()),
            owners: vec!["uid-g".to_owned()],
            spec: object.spec.clone(),
            status: object.status.clone(),
            generation: Some(5),
        };
        assert_eq!(shown.unpack(), want);
        assert!(shown.bytes.len() < 512, "{}", shown.bytes.len());
        let mut bare = Workload { status: None, ..object };
        assert!(
            ShownWorkload::of(&bare).bare() && ShownWorkload::of(&bare).unpack().status.is_none()
        );
        bare.metadata.labels = None;
        let nobodys = ShownWorkload::of(&bare);
        assert_eq!((nobodys.scheduler(), nobodys.unpack().scheduler), (None, None));
    }

    /// Whoever may edit an object writes there what they like.
    #[test]
    fn whatever_an_owner_has_for_a_uid_is_one_uid() {
        let owner = |uid: &str| OwnerReference {
            api_version: "x.example/v1".to_owned(),
            kind: "X".to_owned(),
            name: "x".to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        };
        let mut object = Workload::new("g", WorkloadSpec::default());
        object.metadata.owner_references = Some(vec![owner("uid-g"), owner("two\nlines,odd")]);
        let shown = ShownWorkload::of(&object);
        assert_eq!(shown.unpack().owners, ["uid-g", "two lines odd"]);
        assert!(!shown.is_of_another("uid-g") && shown.is_of_another("odd"));
    }

    #[test]
    fn words_are_short_and_come_back_whatever_people_write() {
        // Neither a line's end nor any other control character is in a word, or stands for none.
        assert!(WORDS.len() < 32 && WORDS.iter().all(|word| !word.contains(char::is_control)));
        let odd = "\u{1}\u{2}\n\u{1f} \",\" é [\"Admitted\",\"True\"";
        let mut object = Workload::new("g", WorkloadSpec::default());
        object.metadata.namespace = Some("ns".to_owned());
        object.spec.queue_name = odd.to_owned();
        for known in WORDS {
            object.spec.queue_name.push_str(known);
        }
        object.status =
            Some(WorkloadStatus { reason: odd.to_owned(), ..WorkloadStatus::default() });
        let shown = ShownWorkload::of(&object);
        let again = shown.unpack();
        assert_eq!((again.spec, again.status), (object.spec, object.status));
        assert_eq!((shown.uid(), shown.bare()), (None, false));
    }
}
