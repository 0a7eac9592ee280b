//! The CustomResourceDefinitions of our group, made from the types.
//!
//! Decides what the derive cannot say: kinds without a required spec, and the one kind whose
//! fields stand at the top level.

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
    vec![
        optional_spec(ResourceFlavor::crd()),
        Topology::crd(),
        workload_priority_class(),
        optional_spec(Cohort::crd()),
        ClusterQueue::crd(),
        LocalQueue::crd(),
        Workload::crd(),
    ]
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
                "additionalPrinterColumns":
                    [{ "name": "Value", "type": "integer", "jsonPath": ".value" }],
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
    fn printer_columns_are_what_people_know_from_kueue() {
        let counters = ["Pending Workloads", "Admitted Workloads"];
        assert_eq!(columns("ClusterQueue"), [&["Cohort", "Strategy"][..], &counters].concat());
        assert_eq!(columns("LocalQueue"), [&["ClusterQueue"][..], &counters].concat());
        assert_eq!(columns("WorkloadPriorityClass"), ["Value"]);
        let workload =
            ["Queue", "Priority", "State", "Pods", "GPUs", "$/h", "Wait", "Reason", "Age"];
        assert_eq!(columns("Workload"), workload);
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
