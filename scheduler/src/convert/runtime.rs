//! RuntimeClasses: what an API server adds to the pods that name one.
//!
//! Decides that a template, or a pod that no API server has seen yet, is taken as its pods will
//! be: with the overhead of its class unless it states its own, and with the class's node selector
//! and tolerations. A pod that has a uid went through an API server, which did all that.
//! (kubernetes.io/docs/concepts/containers/runtime-class; the API server's RuntimeClass admission.)

use capstan_core::model::input::{Amounts, Labels, PodShape, Text, Toleration};

use super::sharing::Shared;
use super::{Refusal, requests, selector};
use crate::api::classes::RuntimeClass;
use crate::api::pod::PodSpec;

/// A RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeClassDraft {
    /// What each pod takes beside its containers.
    pub overhead: Amounts,
    /// Labels of the nodes that support it.
    pub node_selector: Labels,
    /// Tolerations of its pods.
    pub tolerations: Vec<Toleration>,
}

/// The RuntimeClass that a pod spec names.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Name.
    pub class: Text,
    /// The spec states its own overhead.
    pub has_overhead: bool,
}

impl Runtime {
    /// Of a pod spec, if it names one.
    pub fn of(spec: &PodSpec, shared: &mut Shared) -> Option<Box<Runtime>> {
        let class = spec.runtime_class_name.as_deref().filter(|name| !name.is_empty())?;
        let has_overhead = !spec.overhead.is_empty();
        Some(Box::new(Runtime { class: shared.texts.text(class), has_overhead }))
    }
}

impl RuntimeClassDraft {
    /// The draft of a RuntimeClass.
    pub fn of(class: &RuntimeClass) -> Result<RuntimeClassDraft, Vec<Refusal>> {
        let fixed = &class.overhead.pod_fixed;
        let refusals: Vec<Refusal> = Refusal::negative(fixed, "overhead.podFixed").collect();
        if !refusals.is_empty() {
            return Err(refusals);
        }
        Ok(RuntimeClassDraft {
            overhead: requests::amounts(fixed),
            node_selector: selector::pairs(&class.scheduling.node_selector),
            tolerations: selector::tolerations(&class.scheduling.tolerations),
        })
    }

    /// The shape of a pod of this class. What it selects itself stays (an API server refuses a
    /// pod whose selector contradicts its class).
    pub fn on(&self, shape: &PodShape, runtime: &Runtime) -> PodShape {
        let mut whole = shape.clone();
        for (resource, amount) in self.overhead.iter().filter(|_| !runtime.has_overhead) {
            let asked = whole.requests.entry(resource.clone()).or_default();
            *asked = asked.saturating_add(*amount);
        }
        for (key, value) in &self.node_selector {
            whole.node_selector.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for toleration in &self.tolerations {
            if !whole.tolerations.contains(toleration) {
                whole.tolerations.push(toleration.clone());
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class() -> RuntimeClassDraft {
        let class: RuntimeClass = serde_json::from_value(json!({
            "metadata": { "name": "kata" },
            "handler": "kata",
            "overhead": { "podFixed": { "cpu": "250m", "memory": "1Ki" } },
            "scheduling": {
                "nodeSelector": { "sandbox": "kata", "zone": "a" },
                "tolerations": [{ "key": "sandbox", "operator": "Exists" }],
            },
        }))
        .expect("class");
        RuntimeClassDraft::of(&class).expect("draft")
    }

    #[test]
    fn a_class_adds_overhead_nodes_and_tolerations() {
        let spec: PodSpec = serde_json::from_value(json!({
            "runtimeClassName": "kata",
            "containers": [{ "resources": { "requests": { "cpu": "1" } } }],
            "nodeSelector": { "zone": "b" },
        }))
        .expect("spec");
        let mut shape = crate::convert::pod::shape(&spec);
        shape.requests = requests::of_pod(&spec, &Default::default()).effective();
        let runtime = Runtime::of(&spec, &mut Shared::default()).expect("names one");
        let whole = class().on(&shape, &runtime);
        let text = |text: &str| -> Text { text.into() };
        assert_eq!(whole.requests, [(text("cpu"), 1_250), (text("memory"), 1_024)].into());
        let selected = [(text("sandbox"), text("kata")), (text("zone"), text("b"))];
        assert_eq!(whole.node_selector, selected.into());
        assert_eq!(whole.tolerations.len(), 1);
        assert_eq!(class().on(&whole, &Runtime { has_overhead: true, ..*runtime }), whole);
    }

    #[test]
    fn an_overhead_below_zero_is_refused() {
        let class = json!({ "overhead": { "podFixed": { "cpu": -1 } } });
        let class: RuntimeClass = serde_json::from_value(class).expect("class");
        let refused = RuntimeClassDraft::of(&class).expect_err("below zero");
        assert_eq!(refused[0].path, "overhead.podFixed.cpu");
    }
}
