//! Kueue's groups of plain pods: a label names the group, an annotation says how many it has.
//!
//! The group is whole, and must run as a whole, with that many members. It waits for those alone
//! that can be there before others run, or have places until they come (`late`, `to_come`); how
//! many it may have is what it says all the same.

use capstan_core::model::input::{GangKey, GangRef, GangSource, Text};

use super::{Member, count, held, late, workload_name};
use crate::api::keys;
use crate::convert::directory::OwnerKey;
use crate::convert::marks::Marks;

/// The pod group that a pod names.
pub fn resolve(member: &Member<'_>, ignored: &mut Vec<Text>) -> Option<GangRef> {
    let name = name_in(member.chain)?.clone();
    let held = held(member, &key(member.namespace, &name));
    let total = count(member.chain, keys::KUEUE_GROUP_TOTAL, ignored);
    let least = total.map(|total| late::at_most(member, total));
    Some(GangRef {
        name: workload_name(&name),
        key: GangKey::Group(GangSource::KueueGroup, name),
        source: GangSource::KueueGroup,
        // Those of others will never be members here: it is not they who are waited for. Whether
        // the group has all that it says without them shows who is there.
        min_member: if held.is_some() { Some(1) } else { least },
        total,
        roles: None,
        by_itself: late::is_uncounted(member),
        singly: false,
        unknown_owner: None,
        held,
        to_come: None,
    })
}

/// The index of a pod in its group: of the label that its annotation names, as Kueue has it, else
/// of Kueue's own.
pub(super) fn index(marks: &Marks, labels: &[(Text, Text)]) -> Option<u32> {
    let named = marks.annotations.get(keys::KUEUE_GROUP_INDEX_LABEL);
    let label = named.map_or(keys::KUEUE_GROUP_INDEX, |label| &**label);
    let (_, value) = labels.iter().find(|(key, _)| **key == *label)?;
    value.parse().ok()
}

/// The pod group that a pod names, or its owners, the nearest first.
pub(super) fn named_in(chain: &[&Marks], namespace: &Text) -> Option<OwnerKey> {
    name_in(chain).map(|name| key(namespace, name))
}

fn name_in<'a>(chain: &[&'a Marks]) -> Option<&'a Text> {
    let named = chain.iter().find_map(|marks| marks.labels.get(keys::KUEUE_GROUP_NAME));
    named.filter(|name| !name.is_empty())
}

fn key(namespace: &Text, name: &Text) -> OwnerKey {
    (keys::KUEUE_GROUP_NAME.into(), namespace.clone(), name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_in_a_group_is_of_the_label_that_the_pod_names() {
        let of = |label: Option<&str>| {
            let mut marks = Marks::default();
            if let Some(label) = label {
                marks.annotations.insert(keys::KUEUE_GROUP_INDEX_LABEL.into(), label.into());
            }
            let pair = |key: &str, value: &str| (Text::from(key), Text::from(value));
            let own = pair(keys::KUEUE_GROUP_INDEX, "3");
            index(&marks, &[own, pair("rank", "7"), pair("app", "x")])
        };
        assert_eq!([of(None), of(Some("rank"))], [Some(3), Some(7)]);
        assert_eq!([of(Some("app")), of(Some("absent"))], [None, None]);
    }
}
