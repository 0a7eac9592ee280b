//! The shell around the engine: what Kubernetes shows becomes facts, what is decided becomes
//! effects, text and JSON. It decides nothing itself: see [`capstan_core::Engine`].

pub mod act;
pub mod api;
pub mod cel;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod convert;
pub mod gangs;
pub mod lease;
pub mod live;
pub mod metrics;
pub mod migrate;
pub mod prices;
pub mod progress;
pub mod publish;
pub mod quantity;
pub mod read;
pub mod render;
pub mod run;
pub mod serve;
pub mod watch;
pub mod world;
