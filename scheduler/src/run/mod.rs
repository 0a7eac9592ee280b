//! `capstan run`: the engine on a live cluster.
//!
//! Problem: keep one engine fed with what the API shows, carry out what it decides, and survive
//! everything that happens to connections, servers, leaders and to ourselves, without a decision
//! of our own.
//!
//! Wanted: no object is lost or seen twice, whatever a watch does; no effect is carried out by
//! who does not lead; every effect has exactly one answer; nothing that people only look at slows
//! a bind; a restart (or a kill at any moment) needs nothing but the API.
//!
//! ```text
//!  watches (tokio)       the engine's thread (plain: Live and Engine)         executors (tokio)
//!  one task a kind --> Seen --> Live --> facts --> Engine::step --> effects --> act: bind, evict,
//!  (crate::watch)                 ^                     |                     suspend, resume
//!                                 |                     +--> reports, views --> publish: Workload,
//!  config file --> Message::Config|                                           status, events
//!  lease ------> Message::Leading +------------- outcomes ---------------<--- one answer each
//! ```
//!
//! - [`crate::live`] is the cluster as the API shows it: objects of all kinds in any order go in,
//!   facts come out. It is the only place that knows what depends on what (a pod on its Job's
//!   labels). Plain data, no I/O.
//! - [`crate::act`] carries effects out: bounded, gated by leadership, one answer each.
//! - [`crate::publish`] writes what people look at: merged, rate-limited, droppable.
//! - [`crate::lease`] says whether we lead, and until when that is certain.
//! - [`crate::serve`] answers HTTP: metrics, health, explanations.
//!
//! Phases of a start: connect -> find out which API groups are served -> watch all kinds -> wait
//! until each was listed once -> campaign (a waiting replica keeps its watches and its engine warm:
//! it observes facts and decides nothing) -> lead: once the watches show what the leader before did
//! last (`barrier`), step on every batch of facts.
//!
//! A deposed leader stops at once: executors check the lease before each request, and the process
//! exits, so that no half-valid state is carried on. Restart: see ARCHITECTURE.md, states.
//!
//! Cost: one message for a changed object, one step for a batch of them; the engine's thread never
//! waits for I/O.
//!
//! | File | Decides |
//! |---|---|
//! | `process` | who starts when, and in which order everything ends |
//! | `desk` | the engine's thread: what is a turn, where effects go |
//! | `barrier` | what a new leader waits for before it decides |
//! | `message` | what that thread is told, and how much of it may wait |
//! | `answers` | which question of people is answered next, and by which engine |
//! | `looks` | when there is time for what people look at |
//! | `places` | whose position in a queue is renewed, and whose forecast |
//! | `follow` | which kinds are watched |
//! | `home` | in which namespace the lease is |
//! | `reload` | when another configuration holds |
//! | `panics` | what becomes of a process in which something panicked |
//! | `signals` | what a signal ends, and how |

mod answers;
mod barrier;
mod desk;
mod follow;
mod home;
mod looks;
mod message;
mod panics;
mod places;
mod process;
mod reload;
mod signals;

pub use answers::explained;
pub use process::{Failure, Options, run};

/// Bytes of stack for a thread that decides. Searches go one call deeper for each member of a gang,
/// up to 512 of them: that is several times what the deepest was seen to take.
const ENGINE_STACK: usize = 16 << 20;
