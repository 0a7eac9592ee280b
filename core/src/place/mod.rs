//! Placement: where the members of a gang go.
//!
//! [`classes`] keeps, for each kind of pod, what fits where and how good it is by its [`scoring`];
//! [`gang`] chooses domain and nodes for a whole gang inside a transaction; [`search`] is its last
//! resort for gangs of several shapes; [`coupled`] places gangs whose members want each other near
//! or away; [`domains`] says in which order these are tried; [`common_claims`] knows of claims that
//! members share, [`ways`] what they can choose of volumes and devices, [`attached`] what they see
//! of volumes on nodes; [`at_once`] proves that nodes do not hold all members, [`exact`] fills them
//! to what is to spare, [`candidates`] leaves out nodes that say nothing to a gang, [`budget`]
//! bounds what searches cost; [`partial`] tells how far a gang gets.

mod at_once;
mod attached;
pub(crate) mod budget;
mod candidates;
pub mod classes;
pub mod common_claims;
pub mod coupled;
mod domains;
mod exact;
pub mod gang;
pub mod levels;
pub mod partial;
pub mod pod_sets;
pub mod refusals;
pub mod scoring;
pub mod search;
pub mod slices;
mod turns;
pub mod ways;
