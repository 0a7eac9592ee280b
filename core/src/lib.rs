//! The pure engine of Capstan: quota, rules, scores, placement, victims, cycle, explanation.
//!
//! It decides and never acts: facts come in as [`Input`]s, effects go out as data. It knows no
//! clock, no randomness, no Kubernetes type and no I/O; the same inputs give the same plan.

pub mod calendar;
mod cycle;
pub mod engine;
pub mod explain;
pub mod gpus;
pub mod model;
pub mod money;
pub mod place;
pub mod plan;
pub mod policy;
pub mod quota;
pub mod requests;
pub mod resources;
pub mod rules;
pub mod score;
pub mod time;
pub mod victims;

pub use engine::Engine;
pub use model::input::Input;
