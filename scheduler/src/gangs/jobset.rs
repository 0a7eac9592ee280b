//! JobSets: Jobs of several roles that start together.
//!
//! Decides which of them wait for each other. Where Jobs start in order, or depend on others, those
//! that come later are only made once the first run, so each such role is a gang of its own; unless
//! the set is suspended, or was resumed by us, as one: then later ones have their places kept.
//! Where each Job has a domain to itself (`exclusive-topology`), its first pod chooses it, and the
//! others are only made once that one has a node: those first pods start together, the others join
//! them, all of them or none. While the set is suspended all pods of a Job are taken to want such a
//! domain. They are taken to have the labels that they will get; those of one Job only where
//! something reads them. (jobset.sigs.k8s.io: `startupPolicy`, `dependsOn`; `restart-attempt` tells
//! one try from the next.)

use std::sync::Arc;

use capstan_core::model::input::{Operator, PeerSelector, PeerTerm, PodShape, Requirement, Text};

use super::Member;
use super::fields::{Fields, Part, any_text};
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
    let restarts = fields.count(part, "status.restarts").unwrap_or(0);
    let (all_jobs, mut first) = (all_jobs(part), 0_u32);
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
        let group = job.at("groupName").as_str().unwrap_or("default");
        let added = Labels { name, replicas, all_jobs, first, restarts, group }.of(part);
        let added: Vec<(&str, &str)> = added.iter().map(|(key, value)| (*key, &**value)).collect();
        let mut role = Role::of(name, (template, &fields.namespace, &added[..]), pods, shared)?;
        (role.jobs, role.least) = (replicas, replicas.saturating_mul(pods));
        role.firsts = all_choose || chooses(&job, "template.metadata.annotations");
        let own = role.firsts.then(|| level_of(part, job)).flatten();
        let of = (template, &fields.namespace);
        tell_apart(&mut role, of, (part, first), own, shared);
        first = first.saturating_add(replicas);
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
        restarts,
        finished: finished(Kind::JobSet, part),
        active,
        ended: done,
        ..Says::default()
    })
}

/// Jobs of a JobSet, as far as it is in order.
fn all_jobs(set: Part<'_>) -> u32 {
    let roles = set.at("spec.replicatedJobs").as_array().into_iter().flatten();
    let jobs = roles.map(|role| role["replicas"].as_u64().unwrap_or(1));
    u32::try_from(jobs.fold(0, u64::saturating_add)).unwrap_or(u32::MAX)
}

/// Jobs of a role of which each is looked at by itself, where one is to be told from the others.
const JOBS_APART: u32 = 64;

/// Labels that tell the Jobs of a role apart, as far as they are known before those exist.
const OF_JOBS: [&str; 4] =
    [keys::JOBSET_JOB, keys::JOBSET_JOB_OF_ALL, keys::JOB_NAME, keys::JOB_NAME_OLD];

/// The node label of which each Job of a role has a value to itself: what the role says of it goes
/// before what the set does.
fn level_of<'a>(set: Part<'a>, job: Part<'a>) -> Option<&'a str> {
    let of_role = job.at("template.metadata.annotations")[keys::JOBSET_EXCLUSIVE].as_str();
    of_role.or_else(|| set.at("metadata.annotations")[keys::JOBSET_EXCLUSIVE].as_str())
}

/// Tells the Jobs of a role apart, of which so many are before it in the set, where its pods look
/// at what only those of one Job have, or each of them has domains of a level to itself.
fn tell_apart(
    role: &mut Role,
    (template, namespace): (Part<'_>, &Text),
    (set, first): (Part<'_>, u32),
    own_level: Option<&str>,
    shared: &mut Shared,
) {
    let terms = ["spec.affinity", "spec.topologySpreadConstraints"];
    let read = |key: &&str| {
        let is = |text: &str| text == *key;
        terms.iter().any(|path| any_text(template.at(path), &is))
    };
    let reads = role.jobs > 1 && OF_JOBS.iter().any(read);
    if !(1..=JOBS_APART).contains(&role.jobs) || !(reads || own_level.is_some()) {
        return;
    }
    let set = set.at("metadata.name").as_str().unwrap_or_default();
    let values = |job: u32| {
        let name = format!("{set}-{}-{job}", role.name);
        [job.to_string(), first.saturating_add(job).to_string(), name.clone(), name]
    };
    let mut of_jobs: Vec<[(&str, String); 4]> = Vec::new();
    for job in 0..role.jobs {
        let mut values = values(job).into_iter();
        of_jobs.push(OF_JOBS.map(|key| (key, values.next().unwrap_or_default())));
    }
    role.tell_apart((template, namespace), &of_jobs, shared);
    let Some(level) = own_level else { return };
    for (job, [.., (_, name)]) in role.apart.iter_mut().zip(&of_jobs) {
        let mut shape = PodShape::clone(&job.shape);
        let mut wants = shape.neighbours.as_deref().cloned().unwrap_or_default();
        let (near, away) = alone_in(level, (namespace, name.as_str()));
        wants.affinity.push(near);
        wants.anti_affinity.push(away);
        shape.neighbours = Some(Arc::new(wants));
        job.shape = shared.shapes.of(shape);
    }
}

/// What pods of a Job want that has domains of a level to itself: each other, and no pod of another
/// Job of any JobSet. The first pod of each Job gets such terms from its controller, by a hash that
/// only those have; the others are pinned to the domain of that one.
fn alone_in(level: &str, (namespace, job): (&Text, &str)) -> (PeerTerm, PeerTerm) {
    let requires = |key: &str, operator, values| Requirement { key: key.into(), operator, values };
    let own = requires(keys::JOB_NAME, Operator::In, vec![job.into()]);
    let own = PeerSelector {
        namespaces: vec![namespace.clone()],
        namespace_selector: None,
        labels: Some(vec![own]),
    };
    let others = vec![
        requires(keys::JOBSET_NAME, Operator::Exists, Vec::new()),
        requires(keys::JOB_NAME, Operator::NotIn, vec![job.into()]),
    ];
    let others = PeerSelector {
        namespaces: Vec::new(),
        namespace_selector: Some(Vec::new()),
        labels: Some(others),
    };
    let term = |peers| PeerTerm { key: level.into(), peers };
    (term(own), term(others))
}

/// What tells which labels the controllers of JobSets and Jobs give to the pods of a role.
struct Labels<'a> {
    /// The role.
    name: &'a str,
    /// Jobs of it.
    replicas: u32,
    /// Jobs of the set.
    all_jobs: u32,
    /// Jobs of the roles before it.
    first: u32,
    /// Tries before this one.
    restarts: u32,
    /// The name of its group of roles.
    group: &'a str,
}

impl Labels<'_> {
    /// The labels that all its pods have. Those of one Job are left out where there are several,
    /// and so is what is only known once that exists.
    fn of(&self, set: Part<'_>) -> Vec<(&'static str, String)> {
        let text = |path: &str| set.at(path).as_str().unwrap_or_default();
        let (name, role) = (text("metadata.name"), self.name);
        let mut labels = vec![
            (keys::JOBSET_NAME, name.to_owned()),
            (keys::JOBSET_UID, text("metadata.uid").to_owned()),
            (keys::JOBSET_ROLE, role.to_owned()),
            (keys::JOBSET_ROLE_JOBS, self.replicas.to_string()),
            (keys::JOBSET_JOBS, self.all_jobs.to_string()),
            (keys::JOBSET_ATTEMPT, self.restarts.to_string()),
            (keys::JOBSET_GROUP, self.group.to_owned()),
        ];
        if self.replicas == 1 {
            let job = format!("{name}-{role}-0");
            labels.extend([
                (keys::JOBSET_JOB, "0".to_owned()),
                (keys::JOBSET_JOB_OF_ALL, self.first.to_string()),
                (keys::JOB_NAME, job.clone()),
                (keys::JOB_NAME_OLD, job),
            ]);
        }
        labels
    }
}

/// The role of a pod.
pub fn role_of<'a>(member: &'a Member<'_>) -> Option<&'a Text> {
    member.chain.first()?.labels.get(keys::JOBSET_ROLE)
}

/// The try of a JobSet that a pod belongs to.
pub fn attempt(member: &Member<'_>) -> Option<u32> {
    member.chain.first()?.labels.get(keys::JOBSET_ATTEMPT)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn roles_have_the_labels_that_their_pods_will_have() {
        let role = |name: &str, replicas: u32, labels: serde_json::Value| {
            let pods = json!({ "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c" }] } });
            json!({ "name": name, "replicas": replicas,
                "template": { "spec": { "template": pods } } })
        };
        let set = json!({
            "metadata": { "name": "s", "uid": "u" },
            "spec": { "replicatedJobs": [
                role("d", 2, json!({ "app": "x" })), role("w", 1, json!({})),
            ] },
            "status": { "restarts": 3 },
        });
        let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
        let says = read(Part::whole(&set), &mut fields, &mut Shared::default()).expect("read");
        let has = |role: usize, key: &str| {
            let labels = says.roles[role].labels.iter();
            labels.clone().find(|(known, _)| **known == *key).map(|(_, value)| value.to_string())
        };
        for (key, of_d, of_w) in [
            ("app", "x", ""),
            (keys::JOBSET_NAME, "s", "s"),
            (keys::JOBSET_UID, "u", "u"),
            (keys::JOBSET_ROLE, "d", "w"),
            (keys::JOBSET_ROLE_JOBS, "2", "1"),
            (keys::JOBSET_JOBS, "3", "3"),
            (keys::JOBSET_ATTEMPT, "3", "3"),
            (keys::JOBSET_GROUP, "default", "default"),
            (keys::JOBSET_JOB, "", "0"),
            (keys::JOBSET_JOB_OF_ALL, "", "2"),
            (keys::JOB_NAME, "", "s-w-0"),
            (keys::JOB_NAME_OLD, "", "s-w-0"),
        ] {
            let known = |role: usize| has(role, key).unwrap_or_default();
            assert_eq!([known(0), known(1)], [of_d, of_w], "{key}");
        }
    }

    #[test]
    fn jobs_are_told_apart_where_their_pods_look_at_what_one_job_has() {
        let roles = |term: &str| {
            let term = json!({ "topologyKey": "rack", "matchLabelKeys": [term],
                "labelSelector": { "matchLabels": { "app": "x" } } });
            let near = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
            let pods = json!({ "metadata": { "labels": { "app": "x" } },
                "spec": { "containers": [{ "name": "c" }], "affinity": { "podAffinity": near } } });
            let spec = json!({ "parallelism": 3, "template": pods });
            let job = json!({ "name": "w", "replicas": 2, "template": { "spec": spec } });
            let set = json!({ "metadata": { "name": "s" }, "spec": { "replicatedJobs": [job] } });
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            let says = read(Part::whole(&set), &mut fields, &mut Shared::default()).expect("read");
            says.roles
        };
        let apart = roles(keys::JOB_NAME).swap_remove(0);
        let kinds = apart.kinds();
        let told: Vec<(&str, u32, u32)> =
            kinds.iter().map(|it| (&*it.name, it.before, it.count)).collect();
        assert_eq!(told, [("w-0", 0, 3), ("w-1", 3, 3)]);
        assert_ne!(kinds[0].shape, kinds[1].shape, "each is near its own");
        let one = |labels: &[(Text, Text)]| {
            let named = labels.iter().find(|(key, _)| **key == *keys::JOB_NAME);
            named.map(|(_, value)| value.to_string())
        };
        assert_eq!(one(&kinds[1].labels[..]).as_deref(), Some("s-w-1"));
        let alike = roles(keys::JOBSET_NAME).swap_remove(0);
        assert_eq!((alike.kinds().len(), alike.kinds()[0].count), (1, 6));
    }

    #[test]
    fn jobs_that_have_a_level_to_themselves_shun_those_of_others() {
        let key = keys::JOBSET_EXCLUSIVE;
        let exclusive = json!({ key: "rack" });
        let pods = json!({ "spec": { "containers": [{ "name": "c" }] } });
        let job =
            json!({ "name": "w", "replicas": 2, "template": { "spec": { "template": pods } } });
        let mut set = json!({ "metadata": { "name": "s", "annotations": exclusive },
            "spec": { "replicatedJobs": [job] } });
        let roles = |set: &Value| {
            let mut fields = Fields { namespace: "team".into(), odd: Vec::new() };
            read(Part::whole(set), &mut fields, &mut Shared::default()).expect("read").roles
        };
        let told = roles(&set);
        let kinds = told[0].kinds();
        assert_eq!(kinds.len(), 2);
        let wants = kinds[1].shape.neighbours.as_ref().expect("terms");
        let (near, away) = alone_in("rack", (&"team".into(), "s-w-1"));
        assert_eq!((&wants.affinity[..], &wants.anti_affinity[..]), (&[near][..], &[away][..]));
        set["metadata"]["annotations"][keys::JOBSET_LABELLED] = json!("true");
        let labelled = roles(&set);
        assert_eq!(labelled[0].kinds().len(), 1, "its nodes are labelled for it");
    }
}
