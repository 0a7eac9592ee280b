//! Workers of LeaderWorkerSets, before they are made.
//!
//! Problem: a leader that starts first is to know where its workers will go. Where terms read
//! labels that each worker gets as it is made (of its group, its subgroup, its own), or where each
//! subgroup has a topology to itself, no template says that.
//!
//! Decides which labels and terms workers will have, as the controller and the webhook of such sets
//! give them (kubernetes-sigs/lws: `pod_controller.go`, `pod_webhook.go`). Those of a group its
//! leader bears already. Subgroups are of so many pods in a row, the leader one more of the first
//! where that is how it comes out even, or of none (`LeaderExcluded`); the key of one is the digest
//! of the leader's name and its number. Where subgroups have a topology to themselves, pods of one
//! want each other near, and those of all others away, unless their template says both of that
//! topology already. Workers that differ in nothing that terms of their set read are one kind.
//!
//! Nothing is said, and no place kept, where that cannot be known: terms read a label of the set's
//! that is none of these, or the revision of the StatefulSet that is made with the workers; the
//! leader lacks a label that they read; a template says itself which subgroup its pods are in;
//! subgroups have one pod each, which versions of the webhook number differently; the leader's own
//! key is no such digest; workers are of more than [`KINDS_MAX`] kinds.

use std::sync::Arc;

use capstan_core::model::input::{
    Labels, Neighbours, Operator, PeerSelector, PeerTerm, PodShape, Requirement, Text,
};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;

use super::digest;
use super::fields::{Part, any_text};
use super::to_come::{PLACES_MAX, Set};
use crate::api::keys;
use crate::api::pod::{Affinity, PodTemplate};
use crate::convert::gang::Role;
use crate::convert::neighbours;
use crate::convert::sharing::Shared;
use crate::read::decode;

/// What workers of a group are called together.
const NAME: &str = "worker";

/// What labels begin with that these sets give to their pods.
const OF_SET: &str = "leaderworkerset.sigs.k8s.io/";

/// Labels that all pods of a group have.
const OF_GROUP: [&str; 3] = [keys::LWS_GROUP, keys::LWS_GROUP_KEY, keys::LWS_REVISION];

/// Labels that all pods of a subgroup have.
const OF_SUBGROUP: [&str; 2] = [keys::LWS_SUBGROUP, keys::LWS_SUBGROUP_KEY];

/// Labels that only one worker of a group has.
const OF_ONE: [&str; 3] = [keys::LWS_INDEX, keys::SET_INDEX, keys::SET_POD_NAME];

/// All labels that pods get as they are made, beside the name of their set.
const MADE: [&[&str]; 3] = [&OF_GROUP, &OF_SUBGROUP, &OF_ONE];

/// Parts of a pod's spec that read labels of pods.
const AROUND: [&str; 2] = ["spec.affinity", "spec.topologySpreadConstraints"];

/// Kinds that the workers of a group may be of: a leader bears what it knows of each.
const KINDS_MAX: usize = 64;

/// What the workers of a group are made of, and what tells them apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// What they are made of.
    pub role: Role,
    /// What one of them may look like that wants more of pods around it than its role says: which
    /// labels it reads.
    pub example: Option<Arc<PodShape>>,
    /// Terms of their template, where they read labels that a pod gets as it is made.
    terms: Option<Box<Terms>>,
    /// Those among them that its leader must bear.
    reads: Vec<&'static str>,
    /// Which of them are one kind.
    kinds: Kinds,
    /// How their group is divided, where that matters.
    subgroups: Option<Subgroups>,
}

/// What a template says of the pods around its own.
#[derive(Clone, Debug, PartialEq)]
struct Terms {
    affinity: Affinity,
    spread: Vec<TopologySpreadConstraint>,
}

/// Which workers of a group are one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    /// All.
    Alike,
    /// Those of one subgroup.
    BySubgroup,
    /// None is as another.
    Each,
}

/// How a group is divided.
#[derive(Clone, Debug, PartialEq)]
struct Subgroups {
    /// Pods of each; two at least.
    size: u32,
    /// The leader is in the first.
    with_leader: bool,
    /// The node label of which each has a value to itself, if it has.
    level: Option<Text>,
}

/// The leader of a group.
#[derive(Clone, Copy, Debug)]
pub struct Leader<'a> {
    /// Namespace.
    pub namespace: &'a Text,
    /// Name.
    pub name: &'a Text,
    /// Labels.
    pub labels: &'a [(Text, Text)],
}

/// What a set says of the workers of its groups; `None`: there is no template, or none that an API
/// server would take, or nobody can tell what they will look like.
pub fn read(part: Part<'_>, namespace: &Text, shared: &mut Shared) -> Option<Box<Workers>> {
    let path = "spec.leaderWorkerTemplate.workerTemplate";
    let template = Part { value: part.at(path), path };
    template.value.as_object()?;
    let leader = Part::whole(part.at("spec.leaderWorkerTemplate.leaderTemplate"));
    let known =
        |text: &str| text == keys::LWS_NAME || MADE.into_iter().any(|of| of.contains(&text));
    let unknown =
        |text: &str| text == keys::SET_REVISION || text.starts_with(OF_SET) && !known(text);
    if any_around(template, &unknown) {
        return None;
    }
    let anybody_reads = |labels: &[&str]| reads(template, labels) || reads(leader, labels);
    let subgroups = Subgroups::read(part);
    let subgroups = subgroups.filter(|of| of.level.is_some() || anybody_reads(&OF_SUBGROUP));
    let name = part.at("metadata.name").as_str().unwrap_or_default();
    let added = [(keys::LWS_NAME, name)];
    let role = Role::of(NAME, (template, namespace, &added[..]), 1, shared).ok()?;
    let says_itself = || role.labels.iter().any(|(key, _)| **key == *keys::LWS_SUBGROUP);
    if subgroups.as_ref().is_some_and(|of| of.size < 2 || says_itself()) {
        return None;
    }
    let of_group = OF_GROUP.into_iter().filter(|key| reads(template, &[*key])).collect();
    let terms = match MADE.into_iter().any(|of| reads(template, of)) {
        true => {
            let found: PodTemplate = decode::lenient(template.value).ok()?;
            let spread = found.spec.topology_spread_constraints;
            Some(Box::new(Terms { affinity: found.spec.affinity, spread }))
        }
        false => None,
    };
    let kinds = match &subgroups {
        _ if anybody_reads(&OF_ONE) => Kinds::Each,
        Some(_) => Kinds::BySubgroup,
        None => Kinds::Alike,
    };
    let workers = Workers { role, example: None, terms, reads: of_group, kinds, subgroups };
    Some(Box::new(workers.with_example(namespace, shared)))
}

/// Whether what a template says of the pods around its own has such a text.
fn any_around(template: Part<'_>, is: &dyn Fn(&str) -> bool) -> bool {
    AROUND.iter().any(|path| any_text(template.at(path), is))
}

/// Whether that reads some of these labels.
fn reads(template: Part<'_>, labels: &[&str]) -> bool {
    any_around(template, &|text| labels.contains(&text))
}

impl Workers {
    /// The workers that are made after a leader, those together that are of one kind: so many of a
    /// group of this size. `None`: nobody can tell what they will look like.
    pub(super) fn after(
        &self,
        leader: Leader<'_>,
        (size, count): (u32, u32),
    ) -> Option<Vec<Set<'_>>> {
        let lacks = |key: &&str| leader.label(key).is_none();
        if self.reads.iter().any(lacks) || !self.knows_keys(leader) || count > PLACES_MAX {
            return None;
        }
        let mut sets: Vec<Set<'_>> = Vec::new();
        for number in 1..=count {
            let name = self.name_of(number, size);
            if let Some(last) = sets.last_mut().filter(|last| last.name == name) {
                last.count += 1;
                continue;
            }
            if sets.len() == KINDS_MAX {
                return None;
            }
            let labels = self.labels_of(leader, number, size);
            let wants = self.wants(leader.namespace, &labels);
            let labels = labels.into_iter().collect::<Vec<_>>().into();
            sets.push(Set { role: &self.role, name, count: 1, first: number, labels, wants });
        }
        Some(sets)
    }

    /// What a worker with these labels is called together with all of its kind.
    pub(super) fn kind_of(&self, labels: &[(Text, Text)]) -> Text {
        let by = match self.kinds {
            Kinds::Alike => None,
            Kinds::BySubgroup => value_of(labels, keys::LWS_SUBGROUP),
            Kinds::Each => value_of(labels, keys::LWS_INDEX),
        };
        by.map_or_else(|| self.role.name.clone(), |by| format!("{}-{by}", self.role.name).into())
    }

    /// The same of the worker of a number in a group of this size.
    fn name_of(&self, number: u32, size: u32) -> Text {
        let by = match (self.kinds, &self.subgroups) {
            (Kinds::BySubgroup, Some(of)) => of.number(number, size),
            (Kinds::Each, _) => number,
            _ => return self.role.name.clone(),
        };
        format!("{}-{by}", self.role.name).into()
    }

    /// Labels of the worker of a number in a group of this size, as far as any term of its set may
    /// read them.
    fn labels_of(&self, leader: Leader<'_>, number: u32, size: u32) -> Labels {
        let mut labels: Labels = self.role.labels.iter().cloned().collect();
        for key in OF_GROUP {
            labels.extend(leader.label(key).map(|value| (Text::from(key), value.clone())));
        }
        if let Some(of) = &self.subgroups {
            let subgroup = of.number(number, size);
            let key = digest::sha1(&format!("{}/{subgroup}", leader.name));
            labels.insert(keys::LWS_SUBGROUP.into(), subgroup.to_string().into());
            labels.insert(keys::LWS_SUBGROUP_KEY.into(), key.into());
        }
        if self.kinds == Kinds::Each {
            let (own, name) = (number.to_string(), format!("{}-{number}", leader.name));
            for (key, value) in OF_ONE.into_iter().zip([&own, &own, &name]) {
                labels.insert(key.into(), value.as_str().into());
            }
        }
        labels
    }

    /// What a worker with these labels wants of the pods around it.
    fn wants(&self, namespace: &Text, labels: &Labels) -> Option<Arc<Neighbours>> {
        let of_template = match &self.terms {
            Some(terms) => {
                let labels: Vec<(Text, Text)> =
                    labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                neighbours::of_terms((&terms.affinity, &terms.spread[..]), namespace, &labels)
            }
            None => self.role.shape.neighbours.clone(),
        };
        let level = self.subgroups.as_ref().and_then(|of| of.level.as_ref());
        let key = labels.get(keys::LWS_SUBGROUP_KEY);
        let Some((level, key)) = level.zip(key) else { return of_template };
        let mut wants = of_template.as_deref().cloned().unwrap_or_default();
        let on_level = |terms: &[PeerTerm]| terms.iter().any(|term| term.key == *level);
        if !on_level(&wants.affinity) || !on_level(&wants.anti_affinity) {
            let (near, away) = alone_in(level, namespace, key);
            wants.affinity.push(near);
            wants.anti_affinity.push(away);
        }
        Some(Arc::new(wants))
    }

    /// Whether keys of subgroups are made as is known: that of the leader's own is, or where it is
    /// in none that of its group.
    fn knows_keys(&self, leader: Leader<'_>) -> bool {
        let Some(of) = &self.subgroups else { return true };
        let (key, named) = match of.with_leader {
            true => (keys::LWS_SUBGROUP_KEY, format!("{}/0", leader.name)),
            false => (keys::LWS_GROUP_KEY, format!("{}/{}", leader.namespace, leader.name)),
        };
        leader.label(key).is_some_and(|own| **own == *digest::sha1(&named))
    }

    /// The same with an example of one, whatever the values of its labels are.
    fn with_example(self, namespace: &Text, shared: &mut Shared) -> Workers {
        let mut labels: Labels = self.role.labels.iter().cloned().collect();
        for key in MADE.concat() {
            labels.entry(key.into()).or_default();
        }
        let neighbours = self.wants(namespace, &labels);
        if neighbours == self.role.shape.neighbours {
            return self;
        }
        let example = PodShape { neighbours, ..PodShape::clone(&self.role.shape) };
        Workers { example: Some(shared.shapes.of(example)), ..self }
    }
}

impl Subgroups {
    /// How a set divides its groups, if it does.
    fn read(part: Part<'_>) -> Option<Subgroups> {
        let policy = part.at("spec.leaderWorkerTemplate.subGroupPolicy");
        let size = policy["subGroupSize"].as_u64().and_then(|size| u32::try_from(size).ok());
        let level = part.at("metadata.annotations")[keys::LWS_SUBGROUP_EXCLUSIVE].as_str();
        Some(Subgroups {
            size: size.filter(|size| *size > 0)?,
            with_leader: policy["subGroupPolicyType"] != "LeaderExcluded",
            level: level.filter(|level| !level.is_empty()).map(Text::from),
        })
    }

    /// The subgroup of the worker of a number in a group of this size.
    fn number(&self, worker: u32, size: u32) -> u32 {
        let leader_is_one_more = size % self.size == 1;
        (worker - u32::from(leader_is_one_more)) / self.size
    }
}

impl<'a> Leader<'a> {
    fn label(&self, key: &str) -> Option<&'a Text> {
        value_of(self.labels, key)
    }
}

fn value_of<'a>(labels: &'a [(Text, Text)], key: &str) -> Option<&'a Text> {
    labels.iter().find(|(known, _)| **known == *key).map(|(_, value)| value)
}

/// What pods of a subgroup want that has domains of a level to itself: each other, and no pod of
/// another subgroup.
fn alone_in(level: &Text, namespace: &Text, key: &Text) -> (PeerTerm, PeerTerm) {
    let requires =
        |operator, values| Requirement { key: keys::LWS_SUBGROUP_KEY.into(), operator, values };
    let term = |labels| PeerTerm {
        key: level.clone(),
        peers: PeerSelector {
            namespaces: vec![namespace.clone()],
            namespace_selector: None,
            labels: Some(labels),
        },
    };
    let own = || vec![key.clone()];
    let others = vec![requires(Operator::Exists, Vec::new()), requires(Operator::NotIn, own())];
    (term(vec![requires(Operator::In, own())]), term(others))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";

    /// A set whose groups are divided so, and whose workers say this of pods around them.
    fn set(policy: Value, level: Option<&str>, affinity: Value) -> Value {
        let template = json!({ "spec": { "containers": [{}], "affinity": affinity } });
        let templates = json!({ "workerTemplate": template, "subGroupPolicy": policy });
        let annotations = json!({ (keys::LWS_SUBGROUP_EXCLUSIVE): level });
        json!({ "metadata": { "name": "s", "annotations": annotations },
            "spec": { "leaderWorkerTemplate": templates } })
    }

    fn of(set: &Value) -> Option<Box<Workers>> {
        read(Part::whole(set), &"team".into(), &mut Shared::default())
    }

    /// A term that selects pods by this expression and these keys, required of who is near.
    fn near(expression: &str, key: &str) -> Value {
        let selector = json!({ "matchExpressions": [{ "key": expression, "operator": "Exists" }] });
        let term = json!({ "topologyKey": "rack", "labelSelector": selector,
            "matchLabelKeys": [key] });
        json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
    }

    /// What the leader `s-0` with these labels knows of so many workers: names, and numbers.
    fn known(of: &Workers, labels: &[(&str, &str)], sizes: (u32, u32)) -> Vec<(String, u32, u32)> {
        let sets = sets(of, labels, sizes).unwrap_or_default();
        sets.iter().map(|set| (set.name.to_string(), set.first, set.count)).collect()
    }

    fn sets<'a>(
        of: &'a Workers,
        labels: &[(&str, &str)],
        sizes: (u32, u32),
    ) -> Option<Vec<Set<'a>>> {
        let labels: Vec<(Text, Text)> =
            labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let (namespace, name): (Text, Text) = ("team".into(), "s-0".into());
        of.after(Leader { namespace: &namespace, name: &name, labels: &labels }, sizes)
    }

    fn own(subgroup: &str) -> String {
        digest::sha1(&format!("s-0/{subgroup}"))
    }

    #[test]
    fn a_leader_is_one_more_where_its_group_comes_out_even_so() {
        let of = |size, workers: u32, all| {
            let subgroups = Subgroups { size, with_leader: true, level: None };
            (1..=workers).map(|worker| subgroups.number(worker, all)).collect::<Vec<u32>>()
        };
        assert_eq!(of(2, 4, 5), [0, 0, 1, 1]);
        assert_eq!(of(2, 3, 4), [0, 1, 1]);
        assert_eq!(of(4, 3, 4), [0, 0, 0]);
        assert_eq!(of(3, 6, 7), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn subgroups_with_a_topology_to_themselves_shun_each_other() {
        let workers = of(&set(json!({ "subGroupSize": 2 }), Some("rack"), json!({})));
        let workers = workers.expect("it is known");
        let key = own("0");
        let labels = [(keys::LWS_SUBGROUP_KEY, &*key), (keys::LWS_GROUP, "0")];
        let told = [("worker-0".to_owned(), 1, 2), ("worker-1".to_owned(), 3, 2)];
        assert_eq!(known(&workers, &labels, (5, 4)), told);
        assert_eq!(known(&workers, &labels, (5, 3))[1], ("worker-1".to_owned(), 3, 1));
        let sets = sets(&workers, &labels, (5, 4)).expect("it is known");
        let (near, away) = alone_in(&"rack".into(), &"team".into(), &own("1").into());
        let wants = sets[1].wants.as_ref().expect("terms");
        assert_eq!((&wants.affinity[..], &wants.anti_affinity[..]), (&[near][..], &[away][..]));
        let has = |key: &str| value_of(&sets[1].labels, key).map(|value| value.to_string());
        assert_eq!(has(keys::LWS_SUBGROUP_KEY), Some(own("1")));
        assert_eq!(has(keys::LWS_SUBGROUP).as_deref(), Some("1"));
        assert_eq!(has(keys::LWS_GROUP).as_deref(), Some("0"));
        let example = workers.example.as_ref().expect("they read a label");
        assert!(example.neighbours.is_some());
        let worker: [(Text, Text); 1] = [(keys::LWS_SUBGROUP.into(), "1".into())];
        assert_eq!(&*workers.kind_of(&worker), "worker-1");
    }

    #[test]
    fn keys_that_are_made_another_way_tell_nothing() {
        let divided = |kind: &str| {
            let policy = json!({ "subGroupSize": 2, "subGroupPolicyType": kind });
            of(&set(policy, Some("rack"), json!({}))).expect("it is known")
        };
        let (with, without) = (divided("LeaderWorker"), divided("LeaderExcluded"));
        let (subgroup, group) = (own("0"), digest::sha1("team/s-0"));
        let (in_it, in_none) = ((keys::LWS_SUBGROUP_KEY, &*subgroup), (KEY, &*group));
        for (workers, labels, kinds) in [
            (&with, vec![in_it], 2),
            (&with, vec![in_none], 0),
            (&with, vec![(keys::LWS_SUBGROUP_KEY, "k")], 0),
            (&without, vec![in_none], 2),
            (&without, vec![in_it], 0),
            (&without, vec![(KEY, "k")], 0),
        ] {
            assert_eq!(known(workers, &labels, (5, 4)).len(), kinds, "{labels:?}");
        }
    }

    #[test]
    fn who_says_both_of_a_topology_gets_no_terms_for_its_subgroup() {
        let term = json!({ "topologyKey": "rack", "labelSelector": {} });
        let says =
            |term: &Value| json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
        let both = json!({ "podAffinity": says(&term), "podAntiAffinity": says(&term) });
        for (affinity, terms) in [(both, 1), (json!({ "podAffinity": says(&term) }), 2)] {
            let workers = of(&set(json!({ "subGroupSize": 2 }), Some("rack"), affinity));
            let workers = workers.expect("it is known");
            let key = own("0");
            let sets = sets(&workers, &[(keys::LWS_SUBGROUP_KEY, &*key)], (4, 1));
            let sets = sets.expect("it is known");
            assert_eq!(sets[0].wants.as_ref().map(|wants| wants.affinity.len()), Some(terms));
        }
    }

    #[test]
    fn workers_whose_terms_read_what_each_has_are_told_one_by_one() {
        let workers = of(&set(json!({}), None, near(keys::LWS_INDEX, KEY))).expect("it is known");
        assert_eq!(known(&workers, &[], (3, 2)), [], "nobody knows their group's key");
        let told = [("worker-1".to_owned(), 1, 1), ("worker-2".to_owned(), 2, 1)];
        assert_eq!(known(&workers, &[(KEY, "k")], (3, 2)), told);
        let sets = sets(&workers, &[(KEY, "k")], (3, 2)).expect("it is known");
        let wants = sets[1].wants.as_ref().expect("a term");
        let selects = wants.affinity[0].peers.labels.as_ref().expect("a selector");
        assert_eq!((&*selects[1].key, &*selects[1].values[0]), (KEY, "k"));
        let has = |key: &str| value_of(&sets[1].labels, key).map(|value| value.to_string());
        assert_eq!(has(keys::LWS_INDEX).as_deref(), Some("2"));
        assert_eq!(has(keys::SET_POD_NAME).as_deref(), Some("s-0-2"));
        let most = KINDS_MAX as u32;
        assert_eq!(known(&workers, &[(KEY, "k")], (most + 1, most)).len(), KINDS_MAX);
        assert_eq!(known(&workers, &[(KEY, "k")], (most + 2, most + 1)), []);
    }

    #[test]
    fn of_a_group_whose_terms_read_what_all_have_workers_are_alike() {
        let workers = of(&set(json!({ "subGroupSize": 2 }), None, near("app", KEY)));
        let workers = workers.expect("it is known");
        assert_eq!(known(&workers, &[(KEY, "k")], (5, 4)), [("worker".to_owned(), 1, 4)]);
        assert_eq!(&*workers.kind_of(&[]), "worker");
        assert!(workers.example.is_some(), "they read the key of their group");
    }

    #[test]
    fn what_nobody_can_know_is_not_told() {
        let two = || json!({ "subGroupSize": 2 });
        let labelled = |key: &str| {
            let mut set = set(two(), Some("rack"), json!({}));
            let template = &mut set["spec"]["leaderWorkerTemplate"]["workerTemplate"];
            template["metadata"] = json!({ "labels": { (key): "1" } });
            set
        };
        for (set, told) in [
            (set(two(), Some("rack"), json!({})), true),
            (set(json!({ "subGroupSize": 1 }), Some("rack"), json!({})), false),
            (set(json!({ "subGroupSize": 1 }), None, json!({})), true),
            (set(two(), None, near("app", keys::SET_REVISION)), false),
            (set(two(), None, near("leaderworkerset.sigs.k8s.io/new", KEY)), false),
            (set(two(), None, near(keys::LWS_NAME, keys::LWS_SUBGROUP_KEY)), true),
            (labelled(keys::LWS_SUBGROUP), false),
            (labelled("app"), true),
            (json!({ "spec": {} }), false),
        ] {
            assert_eq!(of(&set).is_some(), told, "{set}");
        }
    }
}
