//! The shell around the engine: reading, prices, the virtual cluster, the command line, and what
//! people see. It decides nothing: facts go into [`capstan_core::Engine`], effects come out.

pub mod cli;
pub mod config;
pub mod metrics;
pub mod prices;
pub mod progress;
pub mod render;
pub mod world;
