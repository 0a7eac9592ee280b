//! API objects become the engine's facts.
//!
//! Decides what a Kubernetes object means, with the defaults that an API server would have set.
//! Each file turns one kind into a draft as soon as it is read, so that the object itself can be
//! dropped; [`resolve`] then settles what needs others: priorities, owners, gangs, wishes.
//! Assumes decoded objects; leaves placement and quota decisions to the engine. Nothing here
//! panics on what an API server could hold: what breaks a rule is marked as broken.

pub mod budget;
pub mod crowd;
pub mod devices;
pub mod directory;
pub mod facts;
pub mod gang;
pub mod gathered;
pub mod group;
pub mod images;
pub mod in_tree;
pub mod job;
pub mod malformed;
pub mod marks;
pub mod neighbours;
pub mod node;
pub mod note;
pub mod pod;
pub mod quota;
pub mod ranges;
pub mod ranks;
pub mod remarks;
pub mod requests;
pub mod resolve;
pub mod runtime;
pub mod selector;
pub mod sharing;
pub mod storage;
pub mod theirs;
mod to_come;

#[cfg(test)]
mod tests;

pub use gathered::Gathered;
pub use resolve::{Resolved, resolve};

use std::collections::BTreeMap;

use capstan_core::time::Time;

use crate::quantity::{self, Quantity};
use crate::read::schema;

/// Something in an object that its API server would have refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Field.
    pub path: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl Refusal {
    fn new(path: impl Into<String>, problem: impl Into<String>) -> Refusal {
        Refusal { path: path.into(), problem: problem.into() }
    }

    /// One for each amount below zero in a list of resources.
    fn negative<'a>(
        list: &'a BTreeMap<String, Quantity>,
        path: &'a str,
    ) -> impl Iterator<Item = Refusal> + 'a {
        list.iter().filter(|(_, amount)| amount.is_negative()).map(move |(name, amount)| {
            Refusal::new(schema::field(path, name), quantity::below_zero(*amount))
        })
    }
}

/// The engine's time of an API timestamp.
pub fn time(stamp: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Time {
    Time(stamp.0.as_millisecond())
}
