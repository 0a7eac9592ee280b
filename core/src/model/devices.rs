//! Devices and claims of a room: facts into them, and whose numbers those change.

use crate::model::ids::PodIdx;
use crate::model::input::Input;
use crate::model::room::Room;
use crate::rules::dynamic_resources::{Concerns, PodHold};

impl Room {
    /// Stores a fact of devices or claims. Returns whether more may fit now.
    pub(super) fn apply_devices(&mut self, input: Input) -> bool {
        let concerns = match input {
            Input::Slice(slice) => self.devices.put_slice(slice),
            Input::SliceGone(name) => self.devices.remove_slice(&name),
            Input::Answers { query, slice, answers } => {
                let changed = self.devices.put_answers(query, slice.clone(), answers);
                let concerns = self.devices.slice_concerns(&slice);
                if changed { concerns } else { Concerns::Nobody }
            }
            Input::QueryGone(query) => {
                self.devices.remove_query(&query);
                Concerns::Nobody
            }
            Input::ResourceClaim(claim) => {
                let key = claim.key.clone();
                let before = self.devices.claim_concerns(&key);
                match self.devices.put_claim(claim) {
                    true => before.and(self.devices.claim_concerns(&key)),
                    false => Concerns::Nobody,
                }
            }
            Input::ResourceClaimGone(key) => {
                let concerns = self.devices.claim_concerns(&key);
                self.devices.remove_claim(&key);
                concerns
            }
            _ => unreachable!("the caller sends facts of devices only"),
        };
        self.touch_concerned(&concerns);
        concerns != Concerns::Nobody
    }

    /// A pod holds devices.
    pub(super) fn hold_devices(&mut self, pod: PodIdx, hold: PodHold) {
        let concerns = self.devices.hold_concerns(&hold);
        self.devices.hold(pod, hold);
        self.touch_concerned(&concerns);
    }

    /// A pod gives up what it holds, which comes back.
    pub(super) fn drop_devices(&mut self, pod: PodIdx) -> PodHold {
        let hold = self.devices.give_up(pod);
        self.touch_concerned(&self.devices.hold_concerns(&hold));
        hold
    }

    fn touch_concerned(&mut self, concerns: &Concerns) {
        match concerns {
            Concerns::Nobody => {}
            Concerns::Everybody => self.touch_all(),
            Concerns::Node(name) => {
                self.find_node(name).into_iter().for_each(|node| self.touch(node));
            }
        }
    }
}
