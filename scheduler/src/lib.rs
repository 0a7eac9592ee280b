//! The shell around the engine: what Kubernetes shows becomes facts, what is decided becomes text.

pub mod api;
pub mod config;
pub mod convert;
pub mod gangs;
pub mod prices;
pub mod quantity;
pub mod read;
