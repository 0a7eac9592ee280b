//! What claims ask for. Their selectors make [`queries`](super::queries).

use std::collections::BTreeMap;

use capstan_core::model::input::{
    AllocatedDevice, Allocation, ClaimSpec, Constraint, DeviceAsk, DeviceCount, Readiness,
    RequestSpec, Text, Toleration, TolerationOperator,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::queries::write_part;
use super::slice::nano;
use crate::api::devices::{self as api, Exactly, Selector};
use crate::cel;
use crate::convert::{self, selector};

/// A DeviceClass.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDraft {
    /// What its selectors are; `None`: one of no known kind.
    selectors: Vec<Option<String>>,
    /// The extended resource that it names.
    pub resource: Option<Text>,
    /// When it was made.
    pub created: Option<Time>,
}

impl ClassDraft {
    /// Of a class.
    pub fn of(class: &api::DeviceClass) -> ClassDraft {
        let resource = class.spec.extended_resource_name.as_deref();
        ClassDraft {
            selectors: class.spec.selectors.iter().map(expression).collect(),
            resource: resource.filter(|name| !name.is_empty()).map(Text::from),
            created: class.metadata.creation_timestamp.clone(),
        }
    }
}

fn expression(selector: &Selector) -> Option<String> {
    selector.cel.as_ref().map(|cel| cel.expression.clone())
}

/// Classes by name.
pub type Classes = BTreeMap<Text, ClassDraft>;

/// What a claim asks for, given the classes that there are.
pub fn spec(asked: &api::ClaimSpec, classes: &Classes) -> ClaimSpec {
    let (mut spec, mut faults) = (ClaimSpec::default(), Vec::new());
    for request in &asked.devices.requests {
        let name: Text = request.name.as_str().into();
        let options: Vec<DeviceAsk> = match &request.exactly {
            Some(exactly) => vec![ask(name.clone(), exactly, classes, &mut faults)],
            None => {
                let one = |option: &Exactly| {
                    let full = format!("{name}/{}", option.name).into();
                    ask(full, option, classes, &mut faults)
                };
                request.first_available.iter().map(one).collect()
            }
        };
        if options.is_empty() {
            faults.push(format!("request {name}: unknown request type"));
        }
        spec.requests.push(RequestSpec { name, options });
    }
    for (at, constraint) in asked.devices.constraints.iter().enumerate() {
        let (attribute, distinct) = match constraint {
            api::Constraint { match_attribute: Some(attribute), .. } => (attribute, false),
            api::Constraint { distinct_attribute: Some(attribute), .. } => (attribute, true),
            _ => {
                let problem = "empty constraint (unsupported constraint type?)";
                faults.push(format!("constraint #{at}: {problem}"));
                continue;
            }
        };
        spec.constraints.push(Constraint {
            requests: constraint.requests.iter().map(|name| name.as_str().into()).collect(),
            attribute: attribute.as_str().into(),
            distinct,
        });
    }
    spec.fault = faults.into_iter().next().map(Text::from);
    spec
}

fn ask(name: Text, asked: &Exactly, classes: &Classes, faults: &mut Vec<String>) -> DeviceAsk {
    let mut fault = |problem: String| faults.push(format!("request {name}: {problem}"));
    let class = &asked.device_class_name;
    let mut parts = Vec::new();
    match classes.get(class.as_str()) {
        None if class.is_empty() => fault("it names no device class".to_owned()),
        None => fault(format!("device class {class} does not exist")),
        Some(ClassDraft { selectors, .. }) => {
            let named = |at: usize| format!("class {class}: selector #{at}");
            parts.extend(selectors.iter().enumerate().map(|(at, one)| (named(at), one.clone())));
        }
    }
    let own = asked.selectors.iter().map(expression).enumerate();
    parts.extend(own.map(|(at, one)| (format!("selector #{at}"), one)));
    let mut query = String::new();
    for (name, expression) in parts {
        let Some(expression) = expression else {
            fault(format!("{name}: CEL expression empty (unsupported selector type?)"));
            continue;
        };
        if let Err(problem) = cel::parse(&expression) {
            fault(format!("{name}: CEL compile error: {problem}"));
        }
        write_part(&mut query, &name);
        write_part(&mut query, &expression);
    }
    let count = match (asked.allocation_mode.as_deref(), asked.count) {
        (Some("All"), _) => DeviceCount::All,
        (None | Some("" | "ExactCount"), None) => DeviceCount::Exactly(1),
        (None | Some("" | "ExactCount"), Some(count)) => match u64::try_from(count) {
            Ok(count) if count > 0 => DeviceCount::Exactly(count),
            _ => {
                fault(format!("it asks for {count} devices, which is none"));
                DeviceCount::Exactly(1)
            }
        },
        (Some(mode), _) => {
            fault(format!("unsupported count mode {mode}"));
            DeviceCount::Exactly(1)
        }
    };
    let capacity = asked.capacity.iter().flat_map(|capacity| &capacity.requests);
    DeviceAsk {
        query: query.into(),
        count,
        admin: asked.admin_access == Some(true),
        tolerations: asked.tolerations.iter().map(toleration).collect(),
        capacity: capacity.map(|(name, amount)| (name.as_str().into(), nano(*amount))).collect(),
        name,
    }
}

fn toleration(toleration: &api::Toleration) -> Toleration {
    let effect = selector::effect(&toleration.effect);
    Toleration {
        key: toleration.key.as_str().into(),
        operator: match toleration.operator.as_str() {
            // An effect that keeps nobody out (`None`), or that nobody knows, is that of no taint.
            _ if effect.is_none() && !toleration.effect.is_empty() => TolerationOperator::Unknown,
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            _ => TolerationOperator::Unknown,
        },
        value: toleration.value.as_str().into(),
        effect,
    }
}

/// What a claim has been given, and what drivers say of that.
pub fn allocation(status: &api::ClaimStatus) -> Option<Allocation> {
    let given = status.allocation.as_ref()?;
    let taken = given.devices.results.iter().filter(|one| one.admin_access != Some(true));
    let text = |text: &String| Text::from(text.as_str());
    let devices = taken.map(|one| AllocatedDevice {
        id: (text(&one.driver), text(&one.pool), text(&one.device)),
        share: one.share_id.is_some(),
        consumed: one.consumed_capacity.iter().map(|(name, it)| (text(name), nano(*it))).collect(),
    });
    let readiness = readiness(given, &status.devices);
    Some(Allocation {
        devices: devices.collect(),
        nodes: given.node_selector.as_ref().map(selector::node_selector),
        at: given.allocation_timestamp.as_ref().map(convert::time),
        reserved: status.reserved_for.iter().map(|by| text(&by.uid)).collect(),
        readiness,
    })
}

/// Since when a claim waits for its devices, where it does and says so.
pub fn waits_since(status: &api::ClaimStatus) -> Option<capstan_core::time::Time> {
    let given = allocation(status)?;
    given.at.filter(|_| matches!(given.readiness, Readiness::Waits(_)))
}

/// Whether devices are ready, as kube-scheduler has it: the first that is not decides.
fn readiness(given: &api::Allocation, said: &[api::DeviceStatus]) -> Readiness {
    let awaited = given.devices.results.iter().filter(|one| !one.binding_conditions.is_empty());
    for one in awaited {
        let this = |status: &&api::DeviceStatus| {
            (&status.driver, &status.pool) == (&one.driver, &one.pool)
                && (&status.device, &status.share_id) == (&one.device, &one.share_id)
        };
        let said = said.iter().find(this).map_or(&[][..], |status| status.conditions.as_slice());
        let is = |of: &String| said.iter().find(|it| it.of == *of && it.status == "True");
        if let Some(failure) = one.binding_failure_conditions.iter().find_map(is) {
            return Readiness::Failed(failed(&one.device, failure).into());
        }
        let mut lacks = one.binding_conditions.iter().filter(|of| is(of).is_none()).peekable();
        if lacks.peek().is_some() {
            return Readiness::waits_for(&one.device, lacks.map(String::as_str));
        }
    }
    Readiness::Ready
}

/// Which condition says that a device will not be ready, since when, and why.
fn failed(device: &str, failure: &api::DeviceCondition) -> String {
    let api::DeviceCondition { of, reason, message, last_transition_time, .. } = failure;
    let mut why = format!("device {device} failed: {of}");
    if let Some(Time(since)) = last_transition_time {
        why += &format!(" since {since}");
    }
    if !reason.is_empty() {
        why += &format!(", reason {reason}");
    }
    if !message.is_empty() {
        why += &format!(": {message}");
    }
    why
}
