//! What people and tools see of a simulation or an explanation: text, JSON, HTML.
//!
//! Takes plain data ([`result`], and the engine's views), decides nothing. Words for reasons are
//! the engine's ([`capstan_core::explain::wording`]); this module arranges them.

pub mod cluster;
pub mod explanation;
pub mod html;
pub mod json;
pub mod names;
pub mod result;
pub mod simulation;
pub mod state;
pub mod table;
pub mod text;

pub use result::{Explained, SimulationResult};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
