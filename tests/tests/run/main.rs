//! `capstan run` on a real control plane: what users see, from the API and not from our own
//! state.

mod exercise;
mod gangs;
mod judge;
mod life;
mod reclaim;
mod scene;
