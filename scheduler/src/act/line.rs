//! Sends the requests of one effect: with leadership only, at the rate, and never beyond its time.
//!
//! A request waits for the rate before it is sent, not in the client: what is given up there never
//! left, is in no doubt, and took nothing of the rate; and the time that it waited is not its
//! effect's.
//!
//! Decides what an answer means for any request: done, refused, to be tried again, or in doubt.
//! Leaves to the protocols what a conflict or a missing object means.

use std::time::Duration;

use capstan_core::model::input::Text;
use capstan_core::plan::EffectResult;
use capstan_core::time::Time;
use http::Request;
use kube::Resource;
use kube::api::GetParams;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::flight::{Progress, Stop};
use super::queue::Shared;
use crate::client::bucket::Bucket;
use crate::client::call::{Fate, Reply, call};

/// The way of one effect to the API server.
pub(super) struct Line<'a> {
    shared: &'a Shared,
    rate: &'a Bucket,
    /// When the last answer has to be there, if no request waits for the rate.
    deadline: Instant,
    /// For how long requests waited for it.
    waited: Mutex<Duration>,
}

impl<'a> Line<'a> {
    /// The way of a bind, or of something else, for so long from now on.
    pub(super) fn new(shared: &'a Shared, is_bind: bool, time: Duration) -> Line<'a> {
        let rate = if is_bind { &shared.of_binds } else { &shared.of_others };
        let deadline = Instant::now() + time;
        Line { shared, rate, deadline, waited: Mutex::default() }
    }

    /// For how long its requests waited for the rate.
    pub(super) fn waited(&self) -> Duration {
        *self.waited.lock()
    }

    /// Waits until a request may leave. `Err`: none may any more.
    pub(super) async fn depart(&self) -> Result<(), Stop> {
        let shared = self.shared;
        if !self.rate.is_limited() {
            return Ok(());
        }
        if !shared.leadership.holds() {
            return Err(Stop::GiveUp);
        }
        let since = Instant::now();
        tokio::select! {
            () = self.rate.pass() => {}
            () = shared.leadership.lost() => return Err(Stop::GiveUp),
            () = shared.given_up() => return Err(Stop::GiveUp),
        }
        *self.waited.lock() += since.elapsed();
        Ok(())
    }

    /// Why nothing that was decided at this time is sent to a node any more.
    pub(super) fn closed(&self, node: &Text, decided: Time) -> Option<String> {
        self.shared.nodes.closed(node, decided)
    }

    /// Sends one request that may leave. `Err`: nothing may be sent any more.
    async fn send(&self, request: Request<Vec<u8>>) -> Result<Fate, Stop> {
        let shared = self.shared;
        if !shared.leadership.holds() {
            return Err(Stop::GiveUp);
        }
        let deadline = self.deadline + self.waited();
        if deadline <= Instant::now() {
            return Ok(Fate::Unsent("no time was left for it".to_owned()));
        }
        let late = || Fate::Unknown("no answer before the deadline".to_owned());
        let timed = timeout_at(deadline, call(&shared.writes, request));
        // What is dropped is taken back from the server where it has not begun.
        tokio::select! {
            fate = timed => Ok(fate.unwrap_or_else(|_| late())),
            () = shared.leadership.lost() => Err(Stop::GiveUp),
            () = shared.given_up() => Err(Stop::GiveUp),
        }
    }

    /// Writes; an answer of the protocol's own (done, or a code below 500) comes back. Any doubt
    /// is noted before anything else.
    pub(super) async fn write(
        &self,
        progress: &mut Progress,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Reply, Stop> {
        let request = request.map_err(|error| refused(error.to_string()))?;
        self.depart().await?;
        self.write_now(progress, request).await
    }

    /// The same for a request that may leave.
    pub(super) async fn write_now(
        &self,
        progress: &mut Progress,
        request: Request<Vec<u8>>,
    ) -> Result<Reply, Stop> {
        // A write that is dropped on its way is in doubt; nobody comes back to say so.
        let before = std::mem::replace(&mut progress.doubt, true);
        let sent = Instant::now();
        match self.send(request).await? {
            Fate::Unknown(why) => {
                progress.lost = Some(sent);
                Err(Stop::again(why))
            }
            Fate::Unsent(why) => {
                progress.doubt = before;
                Err(Stop::again(why))
            }
            Fate::Answered(reply) if reply.is_in_doubt() => {
                if reply.is_failure() {
                    progress.failed = Some(reply.says());
                } else {
                    progress.lost = Some(sent);
                }
                Err(Stop::Again { why: reply.says(), after: reply.retry_after })
            }
            Fate::Answered(reply) => {
                progress.doubt = before;
                // Neither throttled requests nor those of an expired token are carried out.
                if let 429 | 401 = reply.code {
                    return Err(Stop::Again { why: reply.says(), after: reply.retry_after });
                }
                Ok(reply)
            }
        }
    }

    /// Reads the object of this uid at a path of the API; `None`: it is gone.
    pub(super) async fn read_at(&self, path: &str, of: &Named<'_>) -> Result<Option<Value>, Stop> {
        let request = kube::core::Request::new(path).get(of.name, &GetParams::default());
        let request = request.map_err(|error| refused(error.to_string()))?;
        self.depart().await?;
        match self.send(request).await? {
            Fate::Unknown(why) | Fate::Unsent(why) => Err(Stop::again(why)),
            Fate::Answered(reply) if reply.code == 404 => Ok(None),
            Fate::Answered(reply) if reply.is_success() => {
                let found: Value = reply.object().map_err(Stop::again)?;
                let uid = found["metadata"]["uid"].as_str();
                Ok((uid == Some(of.uid)).then_some(found))
            }
            Fate::Answered(reply) => {
                Err(Stop::Again { why: reply.says(), after: reply.retry_after })
            }
        }
    }

    /// Reads the object of this uid; `None`: it is gone.
    pub(super) async fn read<K>(&self, of: &Named<'_>) -> Result<Option<K>, Stop>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let found: Option<K> = self.read_named(Some(of.namespace), of.name).await?;
        // Another object under the same name is not the one that was meant.
        Ok(found.filter(|found| found.meta().uid.as_deref() == Some(of.uid)))
    }

    /// Reads an object that is in no namespace, whatever its uid; `None`: there is none.
    pub(super) async fn read_plain<K>(&self, name: &Text) -> Result<Option<K>, Stop>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.read_named(None, name).await
    }

    /// Reads an object, whatever its uid; `None`: there is none.
    pub(super) async fn read_named<K>(
        &self,
        namespace: Option<&Text>,
        name: &Text,
    ) -> Result<Option<K>, Stop>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let path = K::url_path(&(), namespace.map(|namespace| &**namespace));
        let request = kube::core::Request::new(path).get(name, &GetParams::default());
        let request = request.map_err(|error| refused(error.to_string()))?;
        self.depart().await?;
        match self.send(request).await? {
            Fate::Unknown(why) | Fate::Unsent(why) => Err(Stop::again(why)),
            Fate::Answered(reply) if reply.code == 404 => Ok(None),
            Fate::Answered(reply) if reply.is_success() => {
                reply.object().map(Some).map_err(Stop::again)
            }
            Fate::Answered(reply) => {
                Err(Stop::Again { why: reply.says(), after: reply.retry_after })
            }
        }
    }
}

/// An object by namespace, name and uid.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) namespace: &'a Text,
    pub(super) name: &'a Text,
    pub(super) uid: &'a str,
}

impl Named<'_> {
    /// Requests for objects of a kind in its namespace.
    pub(super) fn requests<K: Resource<DynamicType = ()>>(&self) -> kube::core::Request {
        kube::core::Request::new(K::url_path(&(), Some(self.namespace)))
    }
}

/// An answer in the server's words, for good.
pub(super) fn refused(why: impl Into<Text>) -> Stop {
    Stop::Answer(EffectResult::Refused(why.into()))
}

/// Somebody else was first.
pub(super) fn conflict(why: impl Into<Text>) -> Stop {
    Stop::Answer(EffectResult::Conflict(why.into()))
}

/// The object is no more.
pub(super) fn gone() -> Stop {
    Stop::Answer(EffectResult::Gone)
}
