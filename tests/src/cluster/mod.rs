//! Real control planes for tests: etcd, kube-apiserver and what acts on it, as processes.
//!
//! [`ControlPlane::start`] is the way in. [`parts`] finds the programs or has them built
//! ([`build`]), `flags` knows their command lines, [`warden`] sees to it that no process outlives
//! its test, `folder` to it that no file does. Several clusters run side by side; each has its
//! own ports and its own folder. `tests/controlplane/` has the versions of the parts and what
//! kwok plays.

pub mod build;
pub mod parts;
pub mod warden;

mod access;
mod audit;
mod capstan;
mod flags;
mod folder;
mod history;
mod nodes;
mod objects;
mod options;
mod plane;
mod ports;
mod process;
mod proxy;
mod trouble;
mod wait;

pub use access::User;
pub use audit::Audited;
pub use capstan::{Capstan, capstan_config};
pub use history::{Became, History, Pods, Seen, between};
pub use nodes::GpuNodes;
pub use objects::{is_true, name_of};
pub use options::Options;
pub use parts::Part;
pub use plane::ControlPlane;
pub use process::Process;
pub use proxy::Proxy;
pub use trouble::{Result, Trouble};
pub use wait::eventually;
pub use warden::Order;

/// The annotation with the time that a pod runs before it succeeds, as a Go duration (`20s`).
pub const RUNS_FOR: &str = "test.capstan.sh/runs-for";
