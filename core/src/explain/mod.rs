//! Why, and why not: structured reasons, their wording, and the views that people read.
//!
//! Reasons carry numbers and stay data until [`wording`] turns them into text; the same words
//! appear in `simulate`, `explain`, events and conditions.

pub mod census;
mod flavors;
pub mod forecast;
mod gone;
pub mod milestone;
pub mod obstacles;
mod overspent;
pub mod quantity;
pub mod reason;
mod refusal;
mod removable;
pub mod shortage;
mod storage;
pub mod together;
pub mod verdict;
pub mod view;
pub mod wording;
