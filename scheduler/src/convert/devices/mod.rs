//! Dynamic resource allocation: devices, classes, claims and templates into facts.
//!
//! Decides which claims a pod has and in what state they are for it, what a claim asks given the
//! classes that there are, which taints devices have, and what selectors say of devices: each query
//! is evaluated once for each slice, and again when the slice changes, in turns ([`queries`]).
//! Objects come in any order; facts are told once all of a batch are in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::Input;
use capstan_core::model::input::{
    Allocation, ClaimSpec, PodClaim, ResourceClaimFacts, ResourceClaimKey, SliceFacts, Text,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::marks;
use super::sharing::Shared;
use crate::api::devices::{self as api, DeviceClass, ResourceClaim, ResourceClaimTemplate};
use crate::api::devices::{DeviceObject, ResourceSlice};
use crate::api::pod::{PodSpec, PodStatus};
use crate::read::kinds::DeviceKind;

mod claim;
pub mod extended;
mod queries;
mod slice;
mod taint_rule;
#[cfg(test)]
mod tests;

use claim::{ClassDraft, Classes};
pub use claim::{allocation, waits_since};
use extended::{Backing, ExtendedDraft};
use queries::{Queries, renew};
use taint_rule::TaintRule;

/// A claim as a pod names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodClaimDraft {
    /// Its name in the pod.
    pub name: Text,
    /// Where it comes from.
    pub source: ClaimSource,
}

/// Where a pod's claim comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimSource {
    /// It exists under this name.
    Named(Text),
    /// It is made for the pod from a template: its name, once that is known.
    Made(Text, Option<Text>),
    /// A scheduler makes it for extended resources that devices back: its name, once the pod's
    /// status says it.
    Extended(Option<Arc<ExtendedDraft>>, Option<Text>),
    /// Its template makes none for this pod.
    None,
    /// In no way that is known.
    Unknown,
}

/// Claims of a pod; `None`: it has none.
pub fn of_pod(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    shared: &mut Shared,
) -> Option<Arc<Vec<PodClaimDraft>>> {
    let made = status.and_then(|status| status.extended_resource_claim_status.as_ref());
    let made = made.map(|made| shared.texts.text(&made.resource_claim_name));
    let extended = extended::draft(spec, shared).map(Arc::new);
    if spec.resource_claims.is_empty() && extended.is_none() && made.is_none() {
        return None;
    }
    let claims = spec.claims_once().map(|claim| {
        let statuses = status.into_iter().flat_map(|status| &status.resource_claim_statuses);
        let made = statuses.into_iter().find(|status| status.name == claim.name);
        let source = match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
            (Some(name), _) => ClaimSource::Named(shared.texts.text(name)),
            (None, Some(template)) => {
                let template = shared.texts.text(template);
                match made.map(|status| status.resource_claim_name.as_deref()) {
                    None => ClaimSource::Made(template, None),
                    Some(None) => ClaimSource::None,
                    Some(Some(name)) => ClaimSource::Made(template, Some(name.into())),
                }
            }
            (None, None) => ClaimSource::Unknown,
        };
        PodClaimDraft { name: shared.texts.text(&claim.name), source }
    });
    let mut claims: Vec<PodClaimDraft> = claims.collect();
    if extended.is_some() || made.is_some() {
        let name = shared.texts.text(EXTENDED);
        claims.push(PodClaimDraft { name, source: ClaimSource::Extended(extended, made) });
    }
    Some(shared.claim_drafts.of(claims))
}

/// What the claim for extended resources is called in its pod: no name of a claim that a pod may
/// have itself.
const EXTENDED: &str = "<extended-resources>";

/// Marks claims that were made from a pod's template.
const MADE: &str = "resource.kubernetes.io/pod-claim-name";

/// A pod that has claims.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// Namespace.
    pub namespace: &'a Text,
    /// Name.
    pub name: &'a Text,
    /// Unique id.
    pub uid: &'a Text,
    /// The PodGroup of Kubernetes itself that it names.
    pub group: Option<&'a Text>,
    /// What it needed of its claims it has.
    pub bound: bool,
}

/// All objects of dynamic resource allocation.
#[derive(Debug, Default)]
pub struct DeviceDirectory {
    /// As their drivers have them, without taints of rules.
    slices: BTreeMap<Text, Arc<SliceFacts>>,
    taint_rules: BTreeMap<Text, TaintRule>,
    classes: Classes,
    claims: BTreeMap<ResourceClaimKey, Claim>,
    templates: BTreeMap<ResourceClaimKey, Template>,
    /// Claims for extended resources, by uid of the pod that each was made for.
    special: BTreeMap<Text, ResourceClaimKey>,
    backing: Backing,
    queries: Queries,
    dirty: Dirty,
    told: Told,
}

#[derive(Debug)]
struct Claim {
    uid: Text,
    /// Uid of the pod, or whatever it is, that it was made for.
    owner: Option<Text>,
    /// The PodGroup that it was made for: all its pods share it.
    group: Option<Text>,
    /// It was made for a pod, from a template or for extended resources.
    of_one_pod: bool,
    deleting: bool,
    asked: api::ClaimSpec,
    spec: Arc<ClaimSpec>,
    allocation: Option<Arc<Allocation>>,
}

#[derive(Debug)]
struct Template {
    asked: api::ClaimSpec,
    spec: Arc<ClaimSpec>,
}

/// What has to be looked at or told again.
#[derive(Debug, Default)]
struct Dirty {
    slices: BTreeSet<Text>,
    classes: BTreeSet<Text>,
    claims: BTreeSet<ResourceClaimKey>,
    templates: BTreeSet<ResourceClaimKey>,
    queries_gone: BTreeSet<Text>,
    /// Other resources are backed.
    backed: bool,
    /// Uids of pods whose claims for extended resources came or went.
    pods: BTreeSet<Text>,
}

/// What was told last: what is as it was told is no news.
#[derive(Debug, Default)]
struct Told {
    slices: BTreeMap<Text, Arc<SliceFacts>>,
    claims: BTreeMap<ResourceClaimKey, ResourceClaimFacts>,
}

/// What changed for pods and their owners.
#[derive(Debug, Default)]
pub struct Changed {
    /// Claims.
    pub claims: BTreeSet<ResourceClaimKey>,
    /// Templates.
    pub templates: BTreeSet<ResourceClaimKey>,
    /// Extended resources that something else backs now.
    pub resources: BTreeSet<Text>,
    /// Uids of pods.
    pub pods: BTreeSet<Text>,
}

impl Changed {
    /// Whether a pod of a namespace with these claims is concerned by templates or resources.
    pub fn concerns(&self, claims: &[PodClaimDraft], namespace: &Text) -> bool {
        let key = |name: &Text| (namespace.clone(), name.clone());
        claims.iter().any(|draft| match &draft.source {
            ClaimSource::Named(name) => self.claims.contains(&key(name)),
            ClaimSource::Made(template, _) => self.templates.contains(&key(template)),
            ClaimSource::Extended(draft, _) => self.backs(draft.as_deref()),
            ClaimSource::None | ClaimSource::Unknown => false,
        })
    }

    /// Whether devices have another say in extended resources.
    fn backs(&self, draft: Option<&ExtendedDraft>) -> bool {
        draft.is_some_and(|draft| draft.resources().any(|name| self.resources.contains(name)))
    }

    /// Whether nothing changed but pods and claims of theirs.
    pub fn is_of_pods_only(&self) -> bool {
        self.claims.is_empty() && self.templates.is_empty() && self.resources.is_empty()
    }
}

/// Facts to be told.
#[derive(Debug, Default)]
pub struct News {
    /// Of what is gone.
    pub gone: Vec<Input>,
    /// Of what is there.
    pub facts: Vec<Input>,
}

fn key(meta: &ObjectMeta) -> ResourceClaimKey {
    (marks::namespace(meta).into(), marks::name(meta).into())
}

impl DeviceDirectory {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
            && self.classes.is_empty()
            && self.claims.is_empty()
            && self.templates.is_empty()
    }

    /// An object exists or changed.
    pub fn put(&mut self, object: &DeviceObject, shared: &mut Shared) {
        match object {
            DeviceObject::Slice(slice) => self.put_slice(slice, shared),
            DeviceObject::Class(class) => self.put_class(class),
            DeviceObject::Claim(claim) => self.put_claim(claim),
            DeviceObject::Template(template) => self.put_template(template),
            DeviceObject::TaintRule(rule) => self.put_taint_rule(rule, shared),
        }
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: DeviceKind, named: &ResourceClaimKey) {
        match kind {
            DeviceKind::Slice => self.remove_slice(&named.1),
            DeviceKind::Class => self.remove_class(&named.1),
            DeviceKind::Claim => self.remove_claim(named),
            DeviceKind::Template => self.remove_template(named),
            DeviceKind::TaintRule => self.change_taint_rule(&named.1, None),
        }
    }

    /// A slice exists or changed.
    fn put_slice(&mut self, slice: &ResourceSlice, shared: &mut Shared) {
        let facts = slice::facts(slice, shared);
        if self.slices.get(&facts.name).is_none_or(|known| **known != facts) {
            self.dirty.slices.insert(facts.name.clone());
            self.queries.slice_changed(&facts.name);
            self.slices.insert(facts.name.clone(), Arc::new(facts));
        }
    }

    /// A slice is gone.
    fn remove_slice(&mut self, name: &Text) {
        if self.slices.remove(name).is_some() {
            self.queries.slice_gone(name);
            self.dirty.slices.insert(name.clone());
        }
    }

    /// A class exists or changed.
    fn put_class(&mut self, class: &DeviceClass) {
        let (name, draft) = (Text::from(marks::name(&class.metadata)), ClassDraft::of(class));
        if self.classes.get(&name) != Some(&draft) {
            self.dirty.classes.insert(name.clone());
            self.classes.insert(name, draft);
        }
    }

    /// A class is gone.
    fn remove_class(&mut self, name: &Text) {
        if self.classes.remove(name).is_some() {
            self.dirty.classes.insert(name.clone());
        }
    }

    /// A claim exists or changed.
    fn put_claim(&mut self, claim: &ResourceClaim) {
        let (meta, key) = (&claim.metadata, key(&claim.metadata));
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let spec = self.claims.get(&key).map(|known| known.spec.clone()).unwrap_or_default();
        let of_pod = owner.is_some_and(|owner| owner.kind == "Pod");
        let group = owner.filter(|owner| owner.kind == "PodGroup");
        let group = group.filter(|owner| owner.api_version.starts_with("scheduling.k8s.io/"));
        let owner = owner.map(|owner| Text::from(owner.uid.as_str()));
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name));
        let special = annotation(extended::ANNOTATION).is_some_and(|value| value == "true");
        if let Some(pod) = owner.as_ref().filter(|_| special)
            && self.special.insert(pod.clone(), key.clone()).as_ref() != Some(&key)
        {
            self.dirty.pods.insert(pod.clone());
        }
        let claim = Claim {
            uid: marks::uid(meta, "resourceclaim"),
            owner,
            group: group.map(|owner| Text::from(owner.name.as_str())),
            of_one_pod: of_pod && (special || annotation(MADE).is_some()),
            deleting: meta.deletion_timestamp.is_some(),
            asked: claim.spec.clone(),
            spec,
            allocation: claim::allocation(&claim.status).map(Arc::new),
        };
        self.dirty.claims.insert(key.clone());
        self.claims.insert(key, claim);
    }

    /// A claim is gone.
    fn remove_claim(&mut self, key: &ResourceClaimKey) {
        if let Some(old) = self.claims.remove(key) {
            if let Some(pod) = &old.owner
                && self.special.get(pod) == Some(key)
            {
                self.special.remove(pod);
                self.dirty.pods.insert(pod.clone());
            }
            self.dirty.queries_gone.extend(self.queries.remove(&old.spec));
            self.dirty.claims.insert(key.clone());
        }
    }

    /// A template exists or changed.
    fn put_template(&mut self, template: &ResourceClaimTemplate) {
        let key = key(&template.metadata);
        let spec = self.templates.get(&key).map(|known| known.spec.clone()).unwrap_or_default();
        self.dirty.templates.insert(key.clone());
        self.templates.insert(key, Template { asked: template.spec.spec.clone(), spec });
    }

    /// A template is gone.
    fn remove_template(&mut self, key: &ResourceClaimKey) {
        if let Some(old) = self.templates.remove(key) {
            self.dirty.queries_gone.extend(self.queries.remove(&old.spec));
            self.dirty.templates.insert(key.clone());
        }
    }

    /// Settles what claims ask, now that classes are known; whom that changed.
    pub fn settle(&mut self, shared: &mut Shared) -> Changed {
        let classes = std::mem::take(&mut self.dirty.classes);
        let of_class = |asked: &api::ClaimSpec| {
            let asks = asked.devices.requests.iter();
            let mut asks = asks.flat_map(|one| one.exactly.iter().chain(&one.first_available));
            asks.any(|ask| classes.contains(ask.device_class_name.as_str()))
        };
        if !classes.is_empty() {
            let claims = self.claims.iter().filter(|(_, claim)| of_class(&claim.asked));
            self.dirty.claims.extend(claims.map(|(key, _)| key.clone()));
            let templates = self.templates.iter().filter(|(_, one)| of_class(&one.asked));
            self.dirty.templates.extend(templates.map(|(key, _)| key.clone()));
        }
        for key in &self.dirty.claims {
            if let Some(claim) = self.claims.get_mut(key) {
                let new = claim::spec(&claim.asked, &self.classes);
                let gone = renew(&mut claim.spec, new, &mut self.queries, shared);
                self.dirty.queries_gone.extend(gone);
            }
        }
        let templates = std::mem::take(&mut self.dirty.templates);
        for key in &templates {
            if let Some(template) = self.templates.get_mut(key) {
                let new = claim::spec(&template.asked, &self.classes);
                let gone = renew(&mut template.spec, new, &mut self.queries, shared);
                self.dirty.queries_gone.extend(gone);
            }
        }
        let mut resources = BTreeSet::new();
        if !classes.is_empty() || self.backing.is_stale(shared) {
            let unasked;
            (resources, unasked) = self.backing.settle(&self.classes, &mut self.queries, shared);
            self.dirty.queries_gone.extend(unasked);
            self.dirty.backed |= !resources.is_empty();
        }
        let pods = std::mem::take(&mut self.dirty.pods);
        Changed { claims: self.dirty.claims.clone(), templates, resources, pods }
    }

    /// What changed since the last time, once it is settled.
    pub fn news(&mut self) -> News {
        let mut news = News::default();
        let dirty = std::mem::take(&mut self.dirty);
        let rules = &self.taint_rules;
        for name in &dirty.slices {
            match self.slices.get(name).map(|slice| taint_rule::tainted(slice, rules)) {
                Some(slice) if self.told.slices.get(name) == Some(&slice) => {}
                Some(slice) => {
                    self.told.slices.insert(name.clone(), slice.clone());
                    news.facts.push(Input::Slice(slice));
                }
                None if self.told.slices.remove(name).is_some() => {
                    news.gone.push(Input::SliceGone(name.clone()));
                }
                None => {}
            }
        }
        self.queries.begin(&self.slices);
        self.queries.work(&self.slices, queries::TURN);
        self.queries.tell(&self.slices, |query, slice, answers| {
            let (query, slice) = (query.clone(), slice.clone());
            news.facts.push(Input::Answers { query, slice, answers });
        });
        news.gone.extend(dirty.queries_gone.into_iter().map(Input::QueryGone));
        if dirty.backed {
            news.facts.push(self.backed());
        }
        for key in dirty.claims {
            match self.claims.get(&key).map(|claim| claim.facts(key.clone())) {
                Some(facts) if self.told.claims.get(&key) == Some(&facts) => {}
                Some(facts) => {
                    self.told.claims.insert(key, facts.clone());
                    news.facts.push(Input::ResourceClaim(facts));
                }
                None if self.told.claims.remove(&key).is_some() => {
                    news.gone.push(Input::ResourceClaimGone(key))
                }
                None => {}
            }
        }
        news
    }

    /// Everything that there is, as a new engine would be fed, once it is settled.
    pub fn everything(&mut self) -> Vec<Input> {
        let slices = &self.slices;
        let tainted = |slice| Input::Slice(taint_rule::tainted(slice, &self.taint_rules));
        let mut inputs: Vec<Input> = slices.values().map(tainted).collect();
        self.queries.begin(slices);
        self.queries.each(slices, |query, slice, answers| {
            let (query, slice) = (query.clone(), slice.clone());
            inputs.push(Input::Answers { query, slice, answers });
        });
        if !self.backing.is_empty() {
            inputs.push(self.backed());
        }
        let claims = self.claims.iter();
        inputs.extend(claims.map(|(key, claim)| Input::ResourceClaim(claim.facts(key.clone()))));
        inputs
    }

    fn backed(&self) -> Input {
        Input::BackedResources(Arc::new(self.backing.resources()))
    }

    /// Whether a pod with these drafts has any claim: extended resources alone make none, where no
    /// class backs them and nobody made one.
    pub fn has_claims(&self, claims: &[PodClaimDraft], pod: Option<&Text>) -> bool {
        claims.iter().any(|draft| match &draft.source {
            ClaimSource::Extended(draft, made) => {
                made.is_some()
                    || draft.as_ref().is_some_and(|draft| self.backing.concerns(draft))
                    || pod.is_some_and(|pod| self.special.contains_key(pod))
            }
            _ => true,
        })
    }

    /// Claims as a pod needs them, each with the name of its object, where there is one.
    pub fn of_pod(
        &self,
        claims: &[PodClaimDraft],
        pod: &Claimant<'_>,
        shared: &mut Shared,
    ) -> (Vec<PodClaim>, Vec<Text>) {
        let &Claimant { namespace, bound, .. } = pod;
        let mut all = (Vec::new(), Vec::new());
        for draft in claims {
            if let ClaimSource::Extended(extended, made) = &draft.source {
                if let Some((claim, name)) = self.extended(extended.as_deref(), made, pod, shared) {
                    all.0.push(claim);
                    all.1.push(name);
                }
                continue;
            }
            let found = match &draft.source {
                ClaimSource::Named(name) => self.named(namespace, name, bound),
                ClaimSource::Made(_, Some(name)) => self.made(draft, name, pod),
                ClaimSource::Made(..) | ClaimSource::Unknown if bound => own(draft, None),
                ClaimSource::Made(template, None) => {
                    let name = &draft.name;
                    let waits = "not created yet from its template";
                    unusable(format!("resourceclaim of {name} {waits} {template}"))
                }
                ClaimSource::None | ClaimSource::Extended(..) => continue,
                ClaimSource::Unknown => {
                    unusable(format!("resourceclaim {}: unsupported claim type", draft.name))
                }
            };
            all.0.push(found);
            all.1.push(match &draft.source {
                ClaimSource::Named(name) | ClaimSource::Made(_, Some(name)) => name.clone(),
                _ => "".into(),
            });
        }
        all
    }

    /// Claims as pods of a template will need them.
    pub fn of_template(
        &self,
        claims: &[PodClaimDraft],
        namespace: &Text,
        shared: &mut Shared,
    ) -> Vec<PodClaim> {
        let extended = claims.iter().find_map(|draft| match &draft.source {
            ClaimSource::Extended(Some(draft), _) if self.backing.concerns(draft) => {
                let claim = shared.extended.of(self.backing.claim(draft));
                Some(PodClaim::Extended { claim, left: false })
            }
            _ => None,
        });
        let one = |draft: &PodClaimDraft| match &draft.source {
            ClaimSource::Named(name) => Some(self.named(namespace, name, false)),
            ClaimSource::Made(template, _) => {
                let found = self.templates.get(&(namespace.clone(), template.clone()));
                Some(match found {
                    Some(found) => own(draft, Some(&found.spec)),
                    None => unusable(format!("resourceclaimtemplate \"{template}\" not found")),
                })
            }
            ClaimSource::None | ClaimSource::Extended(..) => None,
            ClaimSource::Unknown => {
                Some(unusable(format!("resourceclaim {}: unsupported claim type", draft.name)))
            }
        };
        // It is the last of a draft's.
        claims.iter().filter_map(one).chain(extended).collect()
    }

    fn named(&self, namespace: &Text, name: &Text, bound: bool) -> PodClaim {
        let key = (namespace.clone(), name.clone());
        match self.claims.get(&key) {
            None if !bound => unusable(format!("resourceclaim \"{name}\" not found")),
            Some(claim) if claim.deleting && !bound => {
                unusable(format!("resourceclaim \"{name}\" is being deleted"))
            }
            _ => PodClaim::Named(key),
        }
    }

    /// What was made for a pod, or for its group.
    fn made(&self, draft: &PodClaimDraft, name: &Text, pod: &Claimant<'_>) -> PodClaim {
        let &Claimant { namespace, uid, group, bound, .. } = pod;
        let shared = |claim: &Claim| group.is_some() && claim.group.as_ref() == group;
        let found = self.claims.get(&(namespace.clone(), name.clone()));
        let usable = self.named(namespace, name, bound);
        match (found, usable) {
            (_, PodClaim::Unusable(problem)) => PodClaim::Unusable(problem),
            (Some(claim), named) if shared(claim) => named,
            (Some(claim), _) if !bound && claim.owner.as_ref() != Some(uid) => {
                let words = "was not created for this pod (the pod is not its owner)";
                unusable(format!("resourceclaim \"{name}\" {words}"))
            }
            (Some(claim), named) if !bound && claim.allocation.is_some() => named,
            (found, _) => own(draft, found.map(|claim| &claim.spec)),
        }
    }
}

impl Claim {
    fn facts(&self, key: ResourceClaimKey) -> ResourceClaimFacts {
        ResourceClaimFacts {
            key,
            uid: self.uid.clone(),
            of_one_pod: self.of_one_pod,
            spec: self.spec.clone(),
            allocation: self.allocation.clone(),
        }
    }
}

fn own(draft: &PodClaimDraft, spec: Option<&Arc<ClaimSpec>>) -> PodClaim {
    PodClaim::Own { name: draft.name.clone(), spec: spec.cloned().unwrap_or_default() }
}

fn unusable(problem: String) -> PodClaim {
    PodClaim::Unusable(problem.into())
}
