//! Holds requests to a rate: `qps` and `burst` of the configuration, shared by several clients.
//!
//! Problem: under a low rate, what people look at (status, events) would stand before the binds
//! that it tells of, and evictions would stand behind thousands of binds. And a request that is
//! given up while it waits must not have used up its part of the rate: with enough of them no
//! request would ever leave again.
//!
//! Wanted: one rate for all; binds and other effects in turns; what people look at after both; each
//! lane in the order in which it came; who gives up waiting has cost nothing.
//!
//! There is one sequence of moments, and nobody has one before it is there. The first of each lane
//! sleeps until the next moment and takes it then, unless it is another lane's turn; those behind
//! it wait for it to be gone. Moments that nobody took are kept, up to the burst.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Mutex as Line;
use tokio::time::{Instant, sleep_until};
use tower::{Layer, Service};

use crate::config::file::ClientConnection;

/// How soon one looks again that let others go first: they go within that.
const GLANCE: Duration = Duration::from_millis(1);

/// A rate that all who hold a clone share; or none.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    rate: Option<Arc<Rate>>,
    lane: Lane,
}

/// Requests that are one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lane {
    /// Binds; in turns with...
    #[default]
    Binds,
    /// ...other effects.
    Others,
    /// They let both go first.
    Yielding,
}

#[derive(Debug)]
struct Rate {
    /// Time between two requests at the full rate.
    between: Duration,
    /// How far requests may be ahead of that.
    ahead: Duration,
    moments: Mutex<Moments>,
    /// The lanes: who has it is the first.
    lines: [Line<()>; 3],
}

#[derive(Debug)]
struct Moments {
    /// The moment of the next request if all kept to the rate.
    next: Instant,
    /// How many wait in each lane.
    waiting: [usize; 3],
    /// Who went last of those that take turns.
    last: Lane,
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
        let moments = Moments { next: Instant::now(), waiting: [0; 3], last: Lane::Others };
        let lines = [Line::new(()), Line::new(()), Line::new(())];
        let rate = Rate { between, ahead, moments: Mutex::new(moments), lines };
        Bucket { rate: Some(Arc::new(rate)), lane: Lane::Binds }
    }

    /// The same rate, for requests that take turns with these.
    pub fn in_turns(&self) -> Bucket {
        Bucket { rate: self.rate.clone(), lane: Lane::Others }
    }

    /// The same rate, for requests that let all others go first.
    pub fn yielding(&self) -> Bucket {
        Bucket { rate: self.rate.clone(), lane: Lane::Yielding }
    }

    /// What the configuration says.
    pub fn configured(settings: &ClientConnection) -> Bucket {
        let milli = settings.qps.map_or(0, |qps| qps.milli());
        Bucket::new(milli, settings.burst.unwrap_or(0))
    }

    /// Whether requests may have to wait.
    pub fn is_limited(&self) -> bool {
        self.rate.is_some()
    }

    /// Waits for a moment to send one request in. Who is dropped meanwhile has taken none.
    pub async fn pass(&self) {
        let Some(rate) = &self.rate else { return };
        let came = Instant::now();
        let _waits = Waits::of(rate, self.lane);
        let _first = rate.lines[self.lane as usize].lock().await;
        while let Err(again) = rate.take(self.lane, came) {
            sleep_until(again).await;
        }
    }
}

/// One that waits in a lane, until it is dropped.
struct Waits<'a> {
    rate: &'a Rate,
    lane: Lane,
}

impl Waits<'_> {
    fn of(rate: &Rate, lane: Lane) -> Waits<'_> {
        rate.moments.lock().waiting[lane as usize] += 1;
        Waits { rate, lane }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.rate.moments.lock().waiting[self.lane as usize] -= 1;
    }
}

impl Moments {
    /// Whether this moment is another lane's.
    fn is_anothers(&self, lane: Lane) -> bool {
        let waits = |lane: Lane| self.waiting[lane as usize] > 0;
        match lane {
            Lane::Binds => self.last == Lane::Binds && waits(Lane::Others),
            Lane::Others => self.last == Lane::Others && waits(Lane::Binds),
            Lane::Yielding => waits(Lane::Binds) || waits(Lane::Others),
        }
    }
}

impl Rate {
    /// Takes the next moment for who came then, if it is there and no other lane's; else says when
    /// to look again.
    fn take(&self, lane: Lane, came: Instant) -> Result<(), Instant> {
        let now = Instant::now();
        let mut moments = self.moments.lock();
        // Who waited for it has it as of when it was there: timers that are late cost no rate.
        let mine = moments.next.max(came);
        let moment = mine.checked_sub(self.ahead).unwrap_or(now);
        if moment > now {
            return Err(moment);
        }
        if moments.is_anothers(lane) {
            return Err(now + GLANCE);
        }
        moments.next = mine + self.between;
        if lane != Lane::Yielding {
            moments.last = lane;
        }
        Ok(())
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
        let bucket = self.bucket.clone();
        // The one that was polled ready is used; its clone waits for the next request. The call
        // itself begins after the wait, so that timeouts inside do not count it.
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            bucket.pass().await;
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
    async fn binds_and_other_effects_take_turns() {
        let binds = Bucket::new(50_000, 1);
        let others = binds.in_turns();
        let came = ["bind 1", "bind 2", "bind 3", "bind 4"].map(|name| (name, binds.clone()));
        let came =
            came.into_iter().chain(["other 1", "other 2"].map(|name| (name, others.clone())));
        let passed = order(came.collect()).await;
        let names: Vec<&str> = passed.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["bind 1", "other 1", "bind 2", "other 2", "bind 3", "bind 4"]);
        for (at, (name, time)) in (0_u128..).zip(passed) {
            assert!((20 * at..=20 * at + 1).contains(&time), "{name} at {time} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_burst_nobody_waits_for_another_lane() {
        let binds = Bucket::new(1_000, 6);
        let lanes = [binds.clone(), binds.in_turns(), binds.yielding()];
        let came = (0..6).map(|at| ("one", lanes[at % 3].clone())).collect();
        let late = order(came).await.into_iter().filter(|(_, time)| *time > 10).count();
        assert_eq!(late, 0, "all of it was there");
        assert_eq!(times(binds, 1).await, [1_000], "and all of it is used up");
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_give_up_waiting_have_taken_nothing() {
        let bucket = Bucket::new(10_000, 1);
        for lane in [bucket.clone(), bucket.in_turns(), bucket.yielding()] {
            let begun = Instant::now();
            lane.pass().await;
            let pass = |bucket: Bucket| async move { bucket.pass().await };
            let waiting: Vec<_> = (0..500).map(|_| tokio::spawn(pass(lane.clone()))).collect();
            tokio::task::yield_now().await;
            waiting.iter().for_each(|one| one.abort());
            for one in waiting {
                assert!(one.await.is_err(), "it was given up");
            }
            assert_eq!(times(lane, 2).await, [100, 200]);
            assert!(begun.elapsed() <= Duration::from_millis(301), "{:?}", begun.elapsed());
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
