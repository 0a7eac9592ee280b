//! One request goes ahead where no connection may be there, and others follow on the one it made.
//!
//! Problem: HTTP/2 carries a burst on one connection, but the transport learns that the server
//! speaks it only from the first handshake, and begins one for each request that finds none. API
//! servers close a connection that is idle for 90 s: the first burst after a quiet time would be
//! hundreds of handshakes, of which all but one are for nothing.
//!
//! Wanted: one handshake; no request waits long for another's answer.
//!
//! Who is not sure of a connection goes alone, and the others wait for its answer, [`AHEAD_MAX`]
//! at most: a server that is slow to answer has its connection by then.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Line;
use tokio::time::{Instant, timeout};
use tower::{Layer, Service};

/// A connection that was used within this time is still there: less than the 90 s after which API
/// servers close one, and than what the transport keeps it for.
const SURE_FOR: Duration = Duration::from_secs(60);
/// Longest wait for the one that goes ahead.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// What is known of the connection of one client.
#[derive(Clone, Debug, Default)]
pub struct Scout(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    /// When the last answer came, unless the connection failed since.
    answered: Mutex<Option<Instant>>,
    /// Who goes ahead has it.
    ahead: Line<()>,
}

impl Known {
    fn sure(&self) -> bool {
        self.answered.lock().is_some_and(|at| at.elapsed() < SURE_FOR)
    }
}

impl<S> Layer<S> for Scout {
    type Service = Scouted<S>;

    fn layer(&self, inner: S) -> Scouted<S> {
        Scouted { inner, known: self.0.clone() }
    }
}

/// A service whose first request goes ahead of the others.
#[derive(Clone, Debug)]
pub struct Scouted<S> {
    inner: S,
    known: Arc<Known>,
}

impl<S, R> Service<R> for Scouted<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let known = self.known.clone();
        // The one that was polled ready is used; its clone waits for the next request.
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let turn = match known.sure() {
                true => None,
                false => timeout(AHEAD_MAX, known.ahead.lock()).await.ok(),
            };
            // Whoever waited follows, if the way was found.
            let turn = turn.filter(|_| !known.sure());
            let answer = ready.call(request).await;
            *known.answered.lock() = answer.is_ok().then(Instant::now);
            drop(turn);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::ServiceExt;

    /// When each of some requests that come at once is sent, in milliseconds: each is answered
    /// after `takes`, the first `failing` by an error.
    async fn sent(scout: &Scout, requests: usize, takes: Duration, failing: usize) -> Vec<u128> {
        let (start, times) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let kept = times.clone();
        let inner = tower::service_fn(move |(): ()| {
            let mut times = kept.lock();
            times.push(start.elapsed().as_millis());
            let fails = times.len() <= failing;
            async move {
                tokio::time::sleep(takes).await;
                if fails { Err("no connection") } else { Ok(()) }
            }
        });
        let service = scout.layer(inner);
        let calls: Vec<_> =
            (0..requests).map(|_| tokio::spawn(service.clone().oneshot(()))).collect();
        for call in calls {
            let _ = call.await.expect("no panic");
        }
        let times = times.lock();
        times.clone()
    }

    const QUICK: Duration = Duration::from_millis(10);

    #[tokio::test(start_paused = true)]
    async fn the_first_goes_ahead_and_the_others_follow_together() {
        let scout = Scout::default();
        assert_eq!(sent(&scout, 4, QUICK, 0).await, [0, 10, 10, 10]);
        assert_eq!(sent(&scout, 4, QUICK, 0).await, [0; 4], "the way is known");
        tokio::time::sleep(SURE_FOR).await;
        assert_eq!(sent(&scout, 3, QUICK, 0).await, [0, 10, 10], "nobody went there for long");
    }

    #[tokio::test(start_paused = true)]
    async fn where_no_connection_is_made_one_after_the_other_tries() {
        let scout = Scout::default();
        assert_eq!(sent(&scout, 4, QUICK, 2).await, [0, 10, 20, 30]);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_an_answer_of_another() {
        let slow = Duration::from_secs(8);
        assert_eq!(sent(&Scout::default(), 3, slow, 0).await, [0, 1_000, 1_000]);
    }
}
