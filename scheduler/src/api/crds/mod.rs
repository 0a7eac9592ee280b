//! The CustomResourceDefinitions of our group, made from the types.
//!
//! Decides what the derive cannot say: kinds without a required spec, the one kind whose fields
//! stand at the top level, and in three tables what schemas have in common ([`shape`]), how large
//! a field may be ([`bounds`]) and what an API server checks ([`rules`]).

mod bounds;
mod rules;
mod shape;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::cluster_queue::{ClusterQueue, Cohort};
use super::flavor::{ResourceFlavor, Topology};
use super::local_queue::LocalQueue;
use super::workload::Workload;

/// All seven, in the order they are best applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    let derived = [
        optional_spec(ResourceFlavor::crd()),
        Topology::crd(),
        workload_priority_class(),
        optional_spec(Cohort::crd()),
        ClusterQueue::crd(),
        LocalQueue::crd(),
        Workload::crd(),
    ];
    derived.into_iter().map(complete).collect()
}

/// One as a YAML document, a comment first.
pub fn yaml(crd: &CustomResourceDefinition) -> String {
    let text = serde_saphyr::to_string(crd).expect("a definition is plain data");
    format!("# Written by `capstan crds`: change scheduler/src/api/, not this.\n{text}")
}

/// A derived definition with everything that the derive cannot say.
fn complete(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    let mut value = serde_json::to_value(crd).expect("a definition is plain data");
    let schema = value
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema")
        .expect("every derived version has a schema");
    shape::structural(schema);
    bounds::apply(&kind, schema);
    rules::apply(&kind, schema);
    serde_json::from_value(value).expect("the tables keep a definition's shape")
}

/// A flavor or cohort without a spec is a whole object.
fn optional_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut());
        if let Some(JSONSchemaProps { required, .. }) = schema {
            *required = None;
        }
    }
    crd
}

fn workload_priority_class() -> CustomResourceDefinition {
    let definition: Value = json!({
        "metadata": { "name": "workloadpriorityclasses.capstan.sh" },
        "spec": {
            "group": super::GROUP,
            "names": {
                "kind": "WorkloadPriorityClass",
                "plural": "workloadpriorityclasses",
                "singular": "workloadpriorityclass",
                "shortNames": ["wpc"],
                "categories": ["capstan"],
            },
            "scope": "Cluster",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Value", "type": "integer", "jsonPath": ".value" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "title": "WorkloadPriorityClass",
                    "description": "Priority of workloads in queues, apart from their pods'.",
                    "required": ["value"],
                    "properties": {
                        "value": {
                            "type": "integer",
                            "format": "int32",
                            "description": "Value; higher goes first.",
                        },
                        "description": {
                            "type": "string",
                            "maxLength": 2048,
                            "description": "For people.",
                        },
                    },
                }},
            }],
        },
    });
    serde_json::from_value(definition).expect("the definition above has the CRD's shape")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Value {
        let crd = all().into_iter().find(|crd| crd.spec.names.kind == kind).expect(kind);
        serde_json::to_value(crd).expect("serializable")
    }

    fn columns(kind: &str) -> Vec<String> {
        let crd = of(kind);
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned();
        columns
            .unwrap_or_default()
            .iter()
            .map(|column| column["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn printer_columns_are_kueues_and_then_what_runs_costs_and_hinders() {
        let counters = ["Pending Workloads", "Admitted Workloads"];
        let ours = ["$/h", "Active", "Reason", "Age"];
        let cluster = ["GPUs", "CPU", "Memory", "$/h", "Budget"];
        let queue = [&["Cohort", "Strategy"][..], &counters, &cluster, &ours[1..]];
        assert_eq!(columns("ClusterQueue"), queue.concat());
        let local = [&["ClusterQueue"][..], &counters, &["GPUs", "CPU"], &ours];
        assert_eq!(columns("LocalQueue"), local.concat());
        assert_eq!(columns("Cohort"), ["Parent", "Active", "Reason", "Age"]);
        assert_eq!(columns("WorkloadPriorityClass"), ["Value", "Age"]);
        let workload = ["Queue", "Priority", "State", "Pods", "GPUs", "$/h", "Wait", "Reason"];
        let wide = ["ClusterQueue", "Position", "Forecast", "Waited", "Nodes", "Preemptor", "Age"];
        assert_eq!(columns("Workload"), [&workload[..], &wide].concat());
    }

    #[test]
    fn a_status_is_written_apart_from_its_object() {
        for (kind, want) in [
            ("ClusterQueue", true),
            ("LocalQueue", true),
            ("Cohort", true),
            ("Workload", true),
            ("ResourceFlavor", false),
        ] {
            let crd = of(kind);
            let status = &crd["spec"]["versions"][0]["subresources"]["status"];
            assert_eq!(status.is_object(), want, "{kind}");
        }
    }

    /// Lists, and texts that a rule reads, without a greatest length below a part of a schema.
    fn unbounded(part: &Value, at: &str, ruled: bool, found: &mut Vec<String>) {
        let ruled = ruled || part["x-kubernetes-validations"].is_array();
        if part["type"] == "array" && part["maxItems"].is_null() {
            found.push(at.to_owned());
        }
        let bounded = !part["maxLength"].is_null() || !part["enum"].is_null();
        if ruled && part["type"] == "string" && part["format"].is_null() && !bounded {
            found.push(at.to_owned());
        }
        for (name, inner) in part["properties"].as_object().into_iter().flatten() {
            unbounded(inner, &format!("{at}.{name}"), ruled, found);
        }
        for key in ["items", "additionalProperties"] {
            if part[key].is_object() {
                unbounded(&part[key], &format!("{at}[]"), ruled, found);
            }
        }
    }

    #[test]
    fn every_list_is_bounded_and_every_text_that_a_rule_reads() {
        for crd in all() {
            let value = serde_json::to_value(&crd).expect("serializable");
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
            let mut found = Vec::new();
            for part in ["spec", "status"] {
                unbounded(&schema[part], &format!(".{part}"), false, &mut found);
            }
            assert_eq!(found, Vec::<String>::new(), "{}", crd.spec.names.kind);
        }
    }

    #[test]
    fn short_names_are_kueues() {
        for (kind, want) in [
            ("ResourceFlavor", json!(["flavor", "flavors", "rf"])),
            ("Topology", json!(["topo"])),
            ("WorkloadPriorityClass", json!(["wpc"])),
            ("Cohort", json!(["co"])),
            ("ClusterQueue", json!(["cq"])),
            ("LocalQueue", json!(["queue", "queues", "lq"])),
            ("Workload", json!(["wl"])),
        ] {
            assert_eq!(of(kind)["spec"]["names"]["shortNames"], want, "{kind}");
        }
    }

    #[test]
    fn an_absent_namespace_selector_is_defaulted_to_all() {
        let crd = of("ClusterQueue");
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert_eq!(spec["properties"]["namespaceSelector"]["default"], json!({}));
        let quota = &spec["properties"]["resourceGroups"]["items"]["properties"]["flavors"]["items"]
            ["properties"]["resources"]["items"]["properties"]["nominalQuota"];
        assert_eq!(quota["x-kubernetes-int-or-string"], json!(true));
        assert_eq!(
            spec["properties"]["queueingStrategy"]["enum"],
            json!(["StrictFIFO", "BestEffortFIFO"])
        );
    }

    #[test]
    fn flavors_and_cohorts_need_no_spec() {
        for (kind, want) in [("ResourceFlavor", Value::Null), ("ClusterQueue", json!(["spec"]))] {
            let crd = of(kind);
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            assert_eq!(schema["required"], want, "{kind}");
        }
    }
}
