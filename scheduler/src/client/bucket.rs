//! Holds requests to a rate: `qps` and `burst` of the configuration, shared by several clients.
//!
//! A request takes the next free moment of one common sequence and waits for it; moments that
//! nobody took are kept, up to the burst. Requests pass in the order in which they came.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

use crate::config::file::ClientConnection;

/// A rate that all who hold a clone share; or none.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    rate: Option<Arc<Rate>>,
}

#[derive(Debug)]
struct Rate {
    /// Time between two requests at the full rate.
    between: Duration,
    /// How far requests may be ahead of that.
    ahead: Duration,
    /// The moment of the next request if all kept to the rate.
    next: Mutex<Instant>,
}

impl Bucket {
    /// No limit.
    pub fn unlimited() -> Bucket {
        Bucket::default()
    }

    /// `milli_qps` thousandths of a request each second; zero or less: no limit. A burst below
    /// one is as many requests as the rate allows in a second.
    pub fn new(milli_qps: i64, burst: i32) -> Bucket {
        let Some(milli) = u64::try_from(milli_qps).ok().filter(|milli| *milli > 0) else {
            return Bucket::unlimited();
        };
        let between = Duration::from_nanos(1_000_000_000_000 / milli);
        let second = u32::try_from(milli.div_ceil(1_000)).unwrap_or(u32::MAX);
        let burst = u32::try_from(burst).ok().filter(|burst| *burst > 0).unwrap_or(second);
        let ahead = between.saturating_mul(burst - 1);
        let next = Mutex::new(Instant::now());
        Bucket { rate: Some(Arc::new(Rate { between, ahead, next })) }
    }

    /// What the configuration says.
    pub fn configured(settings: &ClientConnection) -> Bucket {
        let milli = settings.qps.map_or(0, |qps| qps.milli());
        Bucket::new(milli, settings.burst.unwrap_or(0))
    }

    /// Takes the next free moment; `None`: now.
    fn take(&self) -> Option<Instant> {
        let rate = self.rate.as_ref()?;
        let now = Instant::now();
        let mut next = rate.next.lock();
        let mine = (*next).max(now);
        *next = mine + rate.between;
        mine.checked_sub(rate.ahead).filter(|at| *at > now)
    }
}

impl<S> Layer<S> for Bucket {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited { inner, bucket: self.clone() }
    }
}

/// A service whose requests wait for their moment.
#[derive(Clone, Debug)]
pub struct Limited<S> {
    inner: S,
    bucket: Bucket,
}

impl<S, R> Service<R> for Limited<S>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let moment = self.bucket.take();
        // The one that was polled ready is used; its clone waits for the next request. The call
        // itself begins after the wait, so that timeouts inside do not count it.
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            if let Some(moment) = moment {
                sleep_until(moment).await;
            }
            ready.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tower::ServiceExt;

    /// When each of some requests passed, in milliseconds, to the tenth of a second.
    async fn times(bucket: Bucket, requests: usize) -> Vec<u128> {
        let start = Instant::now();
        let inner = tower::service_fn(move |(): ()| async move {
            Ok::<_, Infallible>((start.elapsed().as_millis() + 50) / 100 * 100)
        });
        let service = bucket.layer(inner);
        let calls: Vec<_> =
            (0..requests).map(|_| tokio::spawn(service.clone().oneshot(()))).collect();
        let mut all = Vec::new();
        for call in calls {
            all.push(call.await.expect("no panic").expect("answered"));
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        assert_eq!(times(Bucket::new(10_000, 3), 6).await, [0, 0, 0, 100, 200, 300]);
    }

    #[tokio::test(start_paused = true)]
    async fn moments_that_nobody_took_are_kept_up_to_the_burst() {
        let bucket = Bucket::new(10_000, 2);
        assert_eq!(times(bucket.clone(), 3).await, [0, 0, 100]);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(times(bucket, 3).await, [0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_nothing_waits() {
        for bucket in [Bucket::unlimited(), Bucket::new(0, 5), Bucket::new(-1, 5)] {
            assert_eq!(times(bucket, 100).await, [0; 100]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_without_a_burst_gives_a_second_at_once() {
        assert_eq!(times(Bucket::new(4_500, 0), 7).await, [0, 0, 0, 0, 0, 200, 400]);
    }
}
