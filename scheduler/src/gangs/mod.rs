//! Which gang a pod belongs to, and what people asked of its workload.
//!
//! Decides by an ordered table of sources, one file each: the first that knows the pod wins. A
//! new source is one file and one row. Assumes that labels of owners are already in the chain.

pub mod capstan_gang;
pub mod job;
pub mod kueue_group;
pub mod single;
pub mod wishes;

use capstan_core::model::input::{GangRef, Text};

use crate::convert::marks::{Marks, OwnerName};
use crate::convert::note;

/// A pod that may be in a gang.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Namespace.
    pub namespace: &'a Text,
    /// Name.
    pub name: &'a Text,
    /// Unique id.
    pub uid: &'a Text,
    /// Our labels and annotations: its own first, then its owners' from the nearest up.
    pub chain: &'a [&'a Marks],
    /// Its owner as it names it.
    pub owner: Option<&'a OwnerName>,
    /// The Job that owns it, where that is known.
    pub job: Option<job::Run<'a>>,
}

/// One source of gangs: the gang of a pod, if this source knows it.
type Source = fn(&Member<'_>, &mut Vec<Text>) -> Option<GangRef>;

/// Sources that name a group on the pod itself, best first.
const GROUPS: &[Source] = &[capstan_gang::resolve, kueue_group::resolve];

/// Sources that read owners, best first; the last one knows every pod.
const OWNERS: &[Source] = &[job::resolve, single::resolve];

/// The gang of a pod. Values that cannot be read are ignored and named.
pub fn of(member: &Member<'_>, ignored: &mut Vec<Text>) -> GangRef {
    GROUPS
        .iter()
        .chain(OWNERS)
        .find_map(|source| source(member, ignored))
        .expect("the last source knows every pod")
}

/// The group that a pod (or the pods of an owner) names, if it names one.
pub fn group_of(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    GROUPS.iter().find_map(|source| source(member, ignored))
}

/// The first annotation of this key, from the nearest object up.
fn annotation<'a>(chain: &[&'a Marks], key: &str) -> Option<&'a Text> {
    chain.iter().find_map(|marks| marks.annotations.get(key))
}

/// A count above zero from an annotation; anything else is ignored and named.
fn count(chain: &[&Marks], key: &str, ignored: &mut Vec<Text>) -> Option<u32> {
    let text = annotation(chain, key)?;
    let count = text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    if count.is_none() {
        ignored.push(note::malformed(key, text, "a count above zero"));
    }
    count
}
