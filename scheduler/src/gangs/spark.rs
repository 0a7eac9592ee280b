//! Spark applications: the driver starts alone, for executors only exist once it runs.
//!
//! Executors join the driver's gang. How many of them must run together nobody says unless
//! `capstan.sh/min-member` does, which then counts the driver too, unless that is in a group that
//! executors are not in: else each starts by itself.
//!
//! What its pods ask an application says in cores and in sizes of a virtual machine, out of which
//! its operator makes requests. So nobody here asks room for pods that are still to be made, and a
//! suspended application (`spec.suspend`, of operators since 2.4) is not resumed: that is said of
//! one that names a queue.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::fields::{Fields, Part};
use super::late::Made;
use super::{Member, count, grouped, workload_name};
use crate::api::keys;
use crate::convert::directory::OwnerKey;
use crate::convert::gang::Says;
use crate::convert::marks::Marks;

/// What an application says: all else is said by its pods.
pub fn read(part: Part<'_>, fields: &mut Fields) -> Says {
    let labels = part.at("metadata.labels");
    let queued = [keys::QUEUE, keys::KUEUE_QUEUE].iter().any(|key| labels[*key].is_string());
    if queued && fields.flag(part, "spec.suspend") {
        let instead = "nobody resumes the application; one that is not suspended waits in its \
                       queue with its driver";
        fields.unread(part, "spec.suspend", instead);
    }
    Says::default()
}

/// Pods that can exist once this one does: executors are made once their driver runs, and how many
/// nobody says.
pub(super) fn made(member: &Member<'_>) -> Option<Made> {
    let labels = &member.chain.first()?.labels;
    let role = labels.get(keys::SPARK_ROLE)?;
    let id = labels.get(keys::SPARK_APPLICATION).map_or("", |id| id);
    let (exist, others) = if &**role == EXECUTOR { (u32::MAX, 0) } else { (1, u32::MAX) };
    Some(Made { maker: in_namespace(member.namespace, id), exist, others })
}

/// Where nothing is: the application of an executor by the id that it has, which no object says.
/// Its executors are told by it whether their driver is in their gang.
pub(super) fn named_by(marks: &Marks, namespace: &Text) -> Option<OwnerKey> {
    let part = part_of(marks, namespace)?;
    (&*part.role == EXECUTOR).then_some(part.key)
}

/// The part of an application that a pod with these marks is.
pub(super) fn part_of(marks: &Marks, namespace: &Text) -> Option<grouped::Part> {
    let role = marks.labels.get(keys::SPARK_ROLE)?.clone();
    let id = marks.labels.get(keys::SPARK_APPLICATION).filter(|id| !id.is_empty())?;
    let key = (keys::SPARK_APPLICATION.into(), namespace.clone(), id.clone());
    Some(grouped::Part { key, owner: in_namespace(namespace, id), role })
}

/// What tells an application from all others.
fn in_namespace(namespace: &Text, id: &str) -> Text {
    format!("spark/{namespace}/{id}").into()
}

/// What an executor is called.
const EXECUTOR: &str = "executor";
/// What the driver is called.
const DRIVER: &str = "driver";

/// The gang of a pod of a Spark application.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let labels = &member.chain.first()?.labels;
    let role = labels.get(keys::SPARK_ROLE)?;
    let id = labels.get(keys::SPARK_APPLICATION).filter(|id| !id.is_empty())?;
    let names = [keys::SPARK_OPERATOR_NAME, keys::SPARK_NAME];
    let given = |key: &&str| labels.get(*key).filter(|name| !name.is_empty());
    let name = names.iter().find_map(given).unwrap_or(id);
    let (least, by_itself) = match &**role {
        EXECUTOR => match count(member.chain, keys::MIN_MEMBER, ignored) {
            Some(least) => {
                let application = in_namespace(member.namespace, id);
                let others = member.directory.grouped.roles(&application);
                let apart = others.and_then(|roles| roles.get(DRIVER)).copied().unwrap_or(0);
                (least.saturating_sub(apart).max(1), false)
            }
            None => (1, true),
        },
        _ => (1, false),
    };
    Some(GangRef {
        // The id is made anew for each run.
        key: GangKey::Owner(format!("spark/{id}").into(), 0),
        name: workload_name(name),
        source: GangSource::Owner,
        min_member: Some(least),
        total: None,
        roles: None,
        by_itself,
        singly: false,
        unknown_owner: None,
        held: None,
        to_come: None,
    })
}
