//! Equal parts are kept once.
//!
//! Decides nothing: a pod of a large Job costs a few pointers because shape, marks and wishes
//! of its template are shared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capstan_core::model::input::{
    Amounts, BindingNote, ClaimSpec, ExtendedClaim, Images, Kin, PodShape, Text, Wishes,
};

use super::devices::PodClaimDraft;
use super::marks::{Marks, OwnerName};
use super::ranges::Contents;
use super::ranks::Ranked;

/// Labels, in order of keys.
pub type Pairs = Arc<[(Text, Text)]>;

/// One copy of each value.
#[derive(Debug)]
pub struct Once<T: Ord + ?Sized>(BTreeSet<Arc<T>>);

impl<T: Ord + ?Sized> Default for Once<T> {
    fn default() -> Once<T> {
        Once(BTreeSet::new())
    }
}

impl<T: Ord + ?Sized> Once<T> {
    /// Forgets values that nobody else holds.
    fn sweep(&mut self) {
        self.0.retain(|value| Arc::strong_count(value) > 1);
    }
}

impl<T: Ord> Once<T> {
    /// The shared copy of a value.
    pub fn of(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return known.clone();
        }
        let shared = Arc::new(value);
        self.0.insert(shared.clone());
        shared
    }
}

impl Once<str> {
    /// The shared copy of a text.
    pub fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let shared: Text = text.into();
        self.0.insert(shared.clone());
        shared
    }
}

impl<T: Ord + Clone> Once<[T]> {
    /// The shared copy of a list.
    pub fn list(&mut self, list: &[T]) -> Arc<[T]> {
        if let Some(known) = self.0.get(list) {
            return known.clone();
        }
        let shared: Arc<[T]> = list.into();
        self.0.insert(shared.clone());
        shared
    }
}

/// All that is shared between drafts.
#[derive(Debug, Default)]
pub struct Shared {
    /// Names, keys and values.
    pub texts: Once<str>,
    /// Pod shapes.
    pub shapes: Once<PodShape>,
    /// What resized pods hold.
    pub amounts: Once<Amounts>,
    /// Labels and annotations that are ours.
    pub marks: Once<Marks>,
    /// What people asked.
    pub wishes: Once<Wishes>,
    /// Flavors that pods were bound with, by resource.
    pub flavors: Once<BTreeMap<Text, Text>>,
    /// What pods were bound with.
    pub notes: Once<BindingNote>,
    /// Owners as pods name them.
    pub owners: Once<OwnerName>,
    /// Images of nodes.
    pub images: Once<Images>,
    /// Labels of pods.
    pub labels: Once<[(Text, Text)]>,
    /// Pods as others see them.
    pub kin: Once<Kin>,
    /// What claims ask for.
    pub claims: Once<ClaimSpec>,
    /// Claims as pods name them.
    pub claim_drafts: Once<Vec<PodClaimDraft>>,
    /// What containers of pods that wait, and of templates, state.
    pub contents: Once<Contents>,
    /// How pods are ranked.
    pub ranks: Once<Ranked>,
    /// What extended resources ask of devices.
    pub extended: Once<ExtendedClaim>,
    /// A pod was met that names a DeviceClass as an extended resource.
    pub implicit: bool,
}

impl Shared {
    /// The labels of an object.
    pub fn labels_of(&mut self, labels: Option<&BTreeMap<String, String>>) -> Pairs {
        let texts = &mut self.texts;
        let pairs = labels.into_iter().flatten();
        let pairs: Vec<(Text, Text)> =
            pairs.map(|(key, value)| (texts.text(key), texts.text(value))).collect();
        self.labels.list(&pairs)
    }

    /// Forgets what nobody else holds any more; texts last, since the others hold texts.
    pub fn sweep(&mut self) {
        self.shapes.sweep();
        self.amounts.sweep();
        self.marks.sweep();
        self.wishes.sweep();
        self.notes.sweep();
        self.flavors.sweep();
        self.owners.sweep();
        self.images.sweep();
        self.labels.sweep();
        self.kin.sweep();
        self.claims.sweep();
        self.claim_drafts.sweep();
        self.extended.sweep();
        self.contents.sweep();
        self.ranks.sweep();
        self.texts.sweep();
    }

    /// Values kept.
    pub fn len(&self) -> usize {
        let whole = self.shapes.0.len() + self.amounts.0.len() + self.marks.0.len();
        let written = self.wishes.0.len() + self.notes.0.len() + self.flavors.0.len();
        let seen = self.owners.0.len() + self.images.0.len() + self.texts.0.len();
        let around = self.labels.0.len() + self.kin.0.len();
        let stated = self.contents.0.len() + self.ranks.0.len();
        let devices = self.claims.0.len() + self.claim_drafts.0.len() + self.extended.0.len();
        whole + written + seen + around + devices + stated
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
