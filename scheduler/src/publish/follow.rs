//! Watches Workloads for those that somebody deletes: they are made again.
//!
//! Nothing else of them is read: what people look at decides nothing. Only metadata is watched,
//! and only while we lead; of all of them, also of those that are not ours, under whose names ours
//! may wait.

use std::time::Duration;

use futures::StreamExt;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};

use super::Publisher;
use crate::api::workload::Workload;
use crate::lease::Leadership;
use crate::watch::WATCH_SECONDS;

/// How often leadership is looked at while we do not lead.
const LOOK: Duration = Duration::from_millis(200);

/// Tells the publisher which Workloads were deleted, for as long as it is polled.
pub async fn follow(publisher: Publisher, client: Client, leadership: Leadership) {
    while !leadership.holds() {
        tokio::time::sleep(LOOK).await;
    }
    let api: Api<PartialObjectMeta<Workload>> = Api::all(client);
    let watch = watcher::Config::default().timeout(WATCH_SECONDS);
    // Errors are those of the list, which says so; whatever is missed is listed again.
    let mut events = watcher::watcher(api, watch).default_backoff().boxed();
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Delete(gone)) => {
                let meta = gone.metadata;
                let (Some(namespace), Some(name)) = (meta.namespace, meta.name) else { continue };
                let uid = meta.uid.unwrap_or_default();
                publisher.workload_vanished((namespace.into(), name.into()), &uid);
            }
            // What was deleted meanwhile is not told.
            Ok(Event::InitDone) if std::mem::replace(&mut listed, true) => publisher.doubt(),
            _ => {}
        }
    }
}
