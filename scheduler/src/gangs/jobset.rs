//! JobSets: Jobs of several roles that start together.
//!
//! Decides which of them wait for each other. Where Jobs start in order, or depend on others, those
//! that come later are only made once the first run, so each such role is a gang of its own; unless
//! the set is suspended, or was resumed by us, as one: then later ones have their places kept.
//! Where each Job has a domain to itself (`exclusive-topology`), its first pod chooses it, and the
//! others are only made once that one has a node: those first pods start together, the others
//! join them. (jobset.sigs.k8s.io: `startupPolicy`, `dependsOn`; `restart-attempt` tells one try
//! from the next.)

use capstan_core::model::input::Text;

use super::Member;
use super::fields::{Fields, Part};
use super::finished;
use super::kinds::Kind;
use crate::api::keys;
use crate::convert::Refusal;
use crate::convert::gang::{Quorum, Role, Says};
use crate::convert::sharing::Shared;

/// What a JobSet says.
pub fn read(
    part: Part<'_>,
    fields: &mut Fields,
    shared: &mut Shared,
) -> Result<Says, Vec<Refusal>> {
    let chooses = |part: &Part<'_>, path: &str| {
        let annotations = part.at(path);
        annotations[keys::JOBSET_EXCLUSIVE].is_string()
            && !annotations[keys::JOBSET_LABELLED].is_string()
    };
    let all_choose = chooses(&part, "metadata.annotations");
    let in_order = part.at("spec.startupPolicy.startupPolicyOrder") == "InOrder";
    let mut roles: Vec<Role> = Vec::new();
    for (value, path) in fields.list(part, "spec.replicatedJobs") {
        let job = Part { value, path: &path };
        let name = fields.text(job, "name").unwrap_or_default();
        let replicas = fields.count(job, "replicas").unwrap_or(1);
        let parallelism = fields.count(job, "template.spec.parallelism").unwrap_or(1);
        let completions = fields.count(job, "template.spec.completions");
        let pods = parallelism.min(completions.unwrap_or(u32::MAX));
        let at = job.path_of("template.spec.template");
        let template = Part { value: job.at("template.spec.template"), path: &at };
        let mut role = Role::of(name, (template, &fields.namespace), pods, shared)?;
        (role.jobs, role.least) = (replicas, replicas.saturating_mul(pods));
        role.firsts = all_choose || chooses(&job, "template.metadata.annotations");
        let needs = fields.list(job, "dependsOn");
        if in_order || !needs.is_empty() {
            role.quorum = Quorum::Apart;
        }
        let needs = needs.iter().filter_map(|(need, _)| need["name"].as_str());
        role.after = needs.map(|name| shared.texts.text(name)).collect();
        if in_order {
            role.after.extend(roles.last().map(|before| before.name.clone()));
        }
        roles.push(role);
    }
    let (mut active, mut done) = (false, 0_u32);
    for (value, path) in fields.list(part, "status.replicatedJobsStatus") {
        let status = Part { value, path: &path };
        active |= fields.count(status, "active").is_some_and(|count| count > 0);
        let name = fields.text(status, "name").unwrap_or_default();
        let jobs = fields.count(status, "succeeded").unwrap_or(0);
        if let Some(role) = roles.iter_mut().find(|role| *role.name == *name) {
            role.done = jobs.saturating_mul(role.pods);
            done = done.saturating_add(role.done);
        }
    }
    Ok(Says {
        roles,
        suspended: fields.flag(part, "spec.suspend"),
        restarts: fields.count(part, "status.restarts").unwrap_or(0),
        finished: finished(Kind::JobSet, part),
        active,
        ended: done,
        ..Says::default()
    })
}

/// The role of a pod.
pub fn role_of<'a>(member: &'a Member<'_>) -> Option<&'a Text> {
    member.chain.first()?.labels.get(keys::JOBSET_ROLE)
}

/// The try of a JobSet that a pod belongs to.
pub fn attempt(member: &Member<'_>) -> Option<u32> {
    member.chain.first()?.labels.get(keys::JOBSET_ATTEMPT)?.parse().ok()
}
