//! LimitRanges as they come, and whom they concern.
//!
//! Templates of their namespace are filled in anew; pods are as their API server made them, but
//! those that wait are compared with what holds now. That is looked up once for all changes of a
//! batch: there may be one LimitRange for each of many namespaces.

use super::Kind;
use super::cluster::Live;
use super::roster::Named;
use crate::api::limits::LimitRange;
use crate::convert::directory::Owner;
use crate::convert::ranges::LimitRangeDraft;

impl Live {
    pub(super) fn put_limit_range(&mut self, range: &LimitRange) {
        let draft = match LimitRangeDraft::of(range) {
            Ok(draft) => draft,
            Err(refusals) => return self.refuse(Kind::LimitRange, &range.metadata, refusals),
        };
        let named = self.enter(Kind::LimitRange, &range.metadata);
        self.notes.faults(Kind::LimitRange, &named, []);
        self.directory.ranges.put(&named.0, &named.1, Some(draft));
    }

    pub(super) fn remove_limit_range(&mut self, (namespace, name): &Named) {
        self.directory.ranges.put(namespace, name, None);
    }

    /// What waits in a namespace whose LimitRanges changed has to be looked at again.
    pub(super) fn settle_ranges(&mut self) {
        let anew = self.directory.ranges.take_anew();
        if anew.is_empty() {
            return;
        }
        let waits = self.pods.iter().filter(|(_, pod)| pod.contents.is_some());
        let waits = waits.filter(|(_, pod)| anew.contains(&pod.namespace));
        self.dirty.pods.extend(waits.map(|(uid, _)| uid.clone()));
        let made = |owner: &Owner| owner.runs() || owner.gang().is_some();
        let owners = self.directory.owners.iter().filter(|(_, owner)| made(owner));
        let owners = owners.filter(|((_, namespace, _), _)| anew.contains(namespace));
        let owners = owners.map(|(key, _)| key.clone()).collect();
        self.tell_templates(owners);
    }
}
