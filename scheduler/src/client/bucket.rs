//! Holds requests to a rate: `qps` and `burst` of the configuration, shared by several clients.
//!
//! Problem: under a low rate, what people look at (status, events) would stand before the binds
//! that it tells of, and slow them.
//!
//! Wanted: one rate for all; who is urgent waits for others who are urgent only; each class in the
//! order in which it came.
//!
//! There is one sequence of moments. An urgent request takes the next free one and waits for it.
//! One that can wait takes none before it is there: it sleeps until then, and if urgent ones have
//! taken it meanwhile, until the next. Moments that nobody took are kept, up to the burst.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Line;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

use crate::config::file::ClientConnection;

/// A rate that all who hold a clone share; or none.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    rate: Option<Arc<Rate>>,
    /// Its requests let others go first.
    yields: bool,
}

#[derive(Debug)]
struct Rate {
    /// Time between two requests at the full rate.
    between: Duration,
    /// How far requests may be ahead of that.
    ahead: Duration,
    /// The moment of the next request if all kept to the rate.
    next: Mutex<Instant>,
    /// Those that can wait, one behind the other.
    line: Line<()>,
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
        let line = Line::new(());
        Bucket { rate: Some(Arc::new(Rate { between, ahead, next, line })), yields: false }
    }

    /// The same rate, for requests that let all others go first.
    pub fn yielding(&self) -> Bucket {
        Bucket { rate: self.rate.clone(), yields: true }
    }

    /// What the configuration says.
    pub fn configured(settings: &ClientConnection) -> Bucket {
        let milli = settings.qps.map_or(0, |qps| qps.milli());
        Bucket::new(milli, settings.burst.unwrap_or(0))
    }

    /// Takes the next free moment, at once.
    fn take(&self) -> Wait {
        match &self.rate {
            None => Wait::None,
            Some(rate) if self.yields => Wait::Line(rate.clone()),
            Some(rate) => Wait::Until(rate.take()),
        }
    }
}

/// What a request waits for.
enum Wait {
    None,
    Until(Instant),
    /// For its turn among those that can wait, and then for a moment that nobody else wants.
    Line(Arc<Rate>),
}

impl Wait {
    async fn over(self) {
        match self {
            Wait::None => {}
            Wait::Until(moment) => sleep_until(moment).await,
            Wait::Line(rate) => {
                let _turn = rate.line.lock().await;
                while let Err(moment) = rate.take_now() {
                    sleep_until(moment).await;
                }
            }
        }
    }
}

impl Rate {
    /// Takes the next free moment; it may be past.
    fn take(&self) -> Instant {
        let mut next = self.next.lock();
        let mine = (*next).max(Instant::now());
        *next = mine + self.between;
        self.early(mine)
    }

    /// Takes the next free moment if it is there already; else says when it will be, unless
    /// others take it.
    fn take_now(&self) -> Result<(), Instant> {
        let now = Instant::now();
        let mut next = self.next.lock();
        let mine = (*next).max(now);
        let moment = self.early(mine);
        if moment > now {
            return Err(moment);
        }
        *next = mine + self.between;
        Ok(())
    }

    /// When the request of a moment may be sent.
    fn early(&self, mine: Instant) -> Instant {
        mine.checked_sub(self.ahead).unwrap_or_else(Instant::now)
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
        let wait = self.bucket.take();
        // The one that was polled ready is used; its clone waits for the next request. The call
        // itself begins after the wait, so that timeouts inside do not count it.
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            wait.over().await;
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

    /// In which order requests passed that came all at once, with a time for each.
    async fn order(came: Vec<(&'static str, Bucket)>) -> Vec<(&'static str, u128)> {
        let start = Instant::now();
        let passed: Arc<Mutex<Vec<(&str, u128)>>> = Arc::default();
        let mut calls = Vec::new();
        for (name, bucket) in came {
            let kept = passed.clone();
            let inner = tower::service_fn(move |(): ()| {
                kept.lock().push((name, start.elapsed().as_millis()));
                async { Ok::<_, Infallible>(()) }
            });
            calls.push(tokio::spawn(bucket.layer(inner).oneshot(())));
            // Each has come before the next does.
            tokio::task::yield_now().await;
        }
        for call in calls {
            call.await.expect("no panic").expect("answered");
        }
        let passed = passed.lock();
        passed.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn binds_go_before_what_people_look_at_and_the_rate_is_one_for_both() {
        let binds = Bucket::new(50_000, 1);
        let low = binds.yielding();
        // The first took what was there; of the others only those in one class keep an order.
        let came = ["low 1", "low 2", "low 3"].map(|name| (name, low.clone())).into_iter();
        let came = came.chain(["bind 1", "bind 2", "bind 3"].map(|name| (name, binds.clone())));
        let passed = order(came.collect()).await;
        let names: Vec<&str> = passed.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["low 1", "bind 1", "bind 2", "bind 3", "low 2", "low 3"]);
        // Timers of tokio are exact to a millisecond.
        for (at, (name, time)) in (0_u128..).zip(passed) {
            assert!((20 * at..=20 * at + 1).contains(&time), "{name} at {time} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_can_wait_takes_moments_that_nobody_else_wants() {
        let low = Bucket::new(10_000, 3).yielding();
        assert_eq!(times(low, 6).await, [0, 0, 0, 100, 200, 300]);
        for bucket in [Bucket::unlimited(), Bucket::new(0, 5)] {
            assert_eq!(times(bucket.yielding(), 100).await, [0; 100]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_waiting_holds_up_nobody() {
        let bucket = Bucket::new(10_000, 1);
        let low = bucket.yielding();
        assert_eq!(times(bucket, 1).await, [0]);
        let inner = tower::service_fn(|(): ()| async { Ok::<_, Infallible>(()) });
        let waits = tokio::spawn(low.layer(inner).oneshot(()));
        tokio::task::yield_now().await;
        waits.abort();
        assert!(waits.await.is_err(), "it was given up");
        assert_eq!(times(low, 1).await, [100]);
    }
}
