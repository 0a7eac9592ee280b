//! `capstan run` on a real control plane: what users see, from the API and not from our own
//! state.

mod asked;
mod budget;
mod deleted;
mod devices;
mod exercise;
mod gangs;
mod groups;
mod held;
mod judge;
mod kills;
mod leaving;
mod life;
mod nominated;
mod oddities;
mod own;
mod priced;
mod reclaim;
mod recovery;
mod reserved;
mod scene;
mod seen;
mod shares;
mod trouble;
mod unready;
mod volumes;
