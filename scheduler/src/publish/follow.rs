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
use crate::watch::{WATCH_SECONDS, answered};

/// How often leadership is looked at while we do not lead.
const LOOK: Duration = Duration::from_millis(200);
/// Pause before they are followed anew.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells the publisher which Workloads were deleted, for as long as it is polled.
pub async fn follow(publisher: Publisher, client: Client, leadership: Leadership) {
    while !leadership.holds() {
        tokio::time::sleep(LOOK).await;
    }
    let api: Api<PartialObjectMeta<Workload>> = Api::all(client);
    let watch = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut missed = false;
    loop {
        // Errors are those of the list, which says so; whatever is missed is listed again.
        let mut events = watcher::watcher(api.clone(), watch.clone()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Delete(gone)) => {
                    let meta = gone.metadata;
                    let (Some(namespace), Some(name)) = (meta.namespace, meta.name) else {
                        continue;
                    };
                    let uid = meta.uid.unwrap_or_default();
                    publisher.workload_vanished((namespace.into(), name.into()), &uid);
                }
                // What was deleted meanwhile is not told.
                Ok(Event::InitDone) if std::mem::replace(&mut missed, true) => publisher.doubt(),
                Ok(_) => {}
                Err(error) => {
                    // They may have been listed, and deleted, while they could not be followed.
                    missed = true;
                    // Where it stood is forgotten: `kube` would ask for the same for ever.
                    if answered(&error) == Some(410) {
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;
    use crate::clock::Clock;
    use crate::publish::Limits;

    /// Whether what is shown is doubted, after a server that had no Workload refused the first
    /// lists and the first watches with these codes.
    async fn doubted(lists: &'static [u16], watches: &'static [u16]) -> bool {
        let mut asked = [0_usize; 2];
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let refuses = if is_watch { watches } else { lists };
            let count = &mut asked[usize::from(is_watch)];
            let code = refuses.get(*count).copied();
            *count += 1;
            async move {
                let (code, says) = match code {
                    Some(code) => (
                        code,
                        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                            "message": "so it is", "code": code }),
                    ),
                    // A watch in which nothing happens.
                    None if is_watch => std::future::pending().await,
                    None => (
                        200,
                        json!({ "kind": "WorkloadList", "apiVersion": "capstan.sh/v1alpha1",
                            "metadata": { "resourceVersion": "9" }, "items": [] }),
                    ),
                };
                let body = Body::from(says.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        let publisher = Publisher::new(Limits::default(), Clock::start(), "capstan".into());
        let client = Client::new(service, "default");
        let followed = follow(publisher.clone(), client, Leadership::alone());
        let ended = tokio::time::timeout(Duration::from_secs(600), followed).await;
        assert!(ended.is_err(), "they are followed for ever");
        publisher.plan.lock().take_doubt()
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_deleted_unseen_is_doubted() {
        assert!(!doubted(&[], &[]).await, "all that is deleted is told");
        assert!(doubted(&[404, 404], &[]).await, "they were not served at first");
        assert!(doubted(&[], &[410]).await, "where the watch stood is forgotten");
    }
}
