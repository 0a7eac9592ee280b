//! Elections against a Lease in memory, with lost answers, silent servers and paused processes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::{Elector, Leadership, LeaseEvent, RELEASE_MAX, Settings};
use crate::api::{duration, keys};

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Instead(u16),
    LostBefore,
    LostAfter,
    HangsAfter,
    /// Done and answered, both this many milliseconds late.
    Slow(u64),
}

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    faults: VecDeque<Fault>,
    log: Vec<String>,
}

/// One Lease on a server; clones share it.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(tower::service_fn(move |request| server.clone().serve(request)), "a")
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let fault = {
            let mut state = self.0.lock();
            state.log.push(parts.method.to_string());
            state.faults.pop_front().unwrap_or(Fault::None)
        };
        match fault {
            Fault::Instead(code) => return Ok(answer(code, &json!({ "message": "a fault" }))),
            Fault::LostBefore => return Err("connection lost".into()),
            Fault::Slow(ms) => sleep(Duration::from_millis(ms)).await,
            Fault::None | Fault::LostAfter | Fault::HangsAfter => {}
        }
        let (code, object) = self.0.lock().handle(parts.method.as_str(), &body);
        match fault {
            Fault::LostAfter => Err("connection lost".into()),
            Fault::HangsAfter => std::future::pending().await,
            _ => Ok(answer(code, &object)),
        }
    }

    fn lease(&self) -> Lease {
        let lease = self.0.lock().lease.clone().expect("a lease");
        serde_json::from_value(lease).expect("a lease")
    }

    fn holder(&self) -> Option<String> {
        self.lease().spec.expect("a spec").holder_identity
    }

    /// Somebody else writes.
    fn edit(&self, how: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        let mut lease = state.lease.clone().expect("a lease");
        how(&mut lease);
        state.store(lease);
    }

    fn faults(&self, faults: &[Fault]) {
        self.0.lock().faults = faults.iter().copied().collect();
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let mut body = body.clone();
    if code >= 400 {
        body["code"] = json!(code);
    }
    let body = serde_json::to_vec(&body).expect("JSON");
    Response::builder().status(code).body(Body::from(body)).expect("a response")
}

impl State {
    fn handle(&mut self, method: &str, body: &[u8]) -> (u16, Value) {
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let there = self.lease.is_some();
        match (method, there) {
            ("GET", true) => (200, self.lease.clone().expect("there")),
            ("GET" | "PUT", false) => (404, json!({ "message": "404 page not found" })),
            ("POST", false) => self.store(sent),
            ("PUT", true) => {
                let known = &self.lease.as_ref().expect("there")["metadata"]["resourceVersion"];
                if sent["metadata"]["resourceVersion"] != *known {
                    return (409, json!({ "message": "the object has been modified" }));
                }
                self.store(sent)
            }
            _ => (409, json!({ "message": "already exists" })),
        }
    }

    fn store(&mut self, mut lease: Value) -> (u16, Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        (200, lease)
    }
}

/// A process that can be stopped (SIGSTOP) and continued.
struct Stoppable<F> {
    inner: Pin<Box<F>>,
    stopped: Arc<AtomicBool>,
}

impl<F: Future> Future for Stoppable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.stopped.load(Ordering::SeqCst) {
            // Looked at again soon, as the kernel would.
            let waker = context.waker().clone();
            tokio::spawn(async move {
                sleep(Duration::from_millis(50)).await;
                waker.wake();
            });
            return Poll::Pending;
        }
        self.inner.as_mut().poll(context)
    }
}

/// A replica that campaigns on a task of its own.
struct Replica {
    leadership: Leadership,
    events: Arc<Mutex<Vec<LeaseEvent>>>,
    stopped: Arc<AtomicBool>,
    task: JoinHandle<Elector>,
}

fn settings(identity: &str) -> Settings {
    Settings {
        namespace: "a".to_owned(),
        name: "capstan".to_owned(),
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

impl Replica {
    fn start(server: &Server, identity: &str) -> Replica {
        let (mut elector, leadership) = Elector::new(server.client(), settings(identity));
        let events: Arc<Mutex<Vec<LeaseEvent>>> = Arc::default();
        let (told, stopped) = (events.clone(), Arc::new(AtomicBool::new(false)));
        let inner = Box::pin(async move {
            elector.run(|event| told.lock().push(event)).await;
            elector
        });
        let task = tokio::spawn(Stoppable { inner, stopped: stopped.clone() });
        Replica { leadership, events, stopped, task }
    }

    fn leads(&self) -> bool {
        self.leadership.holds()
    }

    fn last(&self) -> Option<LeaseEvent> {
        self.events.lock().last().cloned()
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_creates_the_lease_and_keeps_it() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    assert!(first.leads());
    let spec = server.lease().spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("first"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    let second = Replica::start(&server, "second");
    for _ in 0..600 {
        seconds(1).await;
        assert!(first.leads() && !second.leads());
    }
    assert_eq!(second.last(), Some(LeaseEvent::Waiting { holder: "first".to_owned() }));
    assert_eq!(second.events.lock().len(), 1, "told once");
    let acquired = server.lease().spec.expect("a spec").acquire_time;
    assert_eq!(acquired, spec.acquire_time, "renewing is not acquiring");
}

#[tokio::test(start_paused = true)]
async fn two_that_create_at_once_are_settled_by_the_server() {
    let server = Server::default();
    let replicas = [Replica::start(&server, "x"), Replica::start(&server, "y")];
    seconds(5).await;
    assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_stopped_does_not_lead_when_it_wakes() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    let second = Replica::start(&server, "second");
    seconds(1).await;
    first.stopped.store(true, Ordering::SeqCst);
    let mut both = 0;
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        both += u32::from(first.leads() && second.leads());
    }
    assert!(second.leads() && !first.leads());
    first.stopped.store(false, Ordering::SeqCst);
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        both += u32::from(first.leads() && second.leads());
    }
    assert_eq!(both, 0);
    assert!(matches!(first.last(), Some(LeaseEvent::Deposed(_))), "{:?}", first.last());
    assert!(first.task.is_finished(), "for good");
    assert_eq!(server.lease().spec.expect("a spec").lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn giving_back_lets_the_next_take_over_at_once() {
    let server = Server::default();
    let (mut elector, leadership) = Elector::new(server.client(), settings("first"));
    tokio::select! {
        () = elector.run(|_| ()) => panic!("deposed"),
        () = seconds(5) => {}
    }
    let second = Replica::start(&server, "second");
    seconds(3).await;
    assert!(leadership.holds() && !second.leads());
    elector.release(Duration::ZERO).await.expect("released");
    assert!(!leadership.holds());
    assert_eq!(server.holder(), None);
    seconds(2).await;
    assert!(second.leads());
    // One that does not hold it gives nothing back.
    let (third, _) = Elector::new(server.client(), settings("third"));
    third.release(Duration::ZERO).await.expect("nothing to do");
    assert_eq!(server.holder().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn who_leads_next_is_told_how_long_nothing_was_changed() {
    let server = Server::default();
    let (mut elector, _) = Elector::new(server.client(), settings("first"));
    tokio::select! {
        () = elector.run(|_| ()) => panic!("deposed"),
        () = seconds(60) => {}
    }
    elector.release(Duration::from_millis(1_500)).await.expect("released");
    let says = |lease: Lease| {
        let said = lease.metadata.annotations.unwrap_or_default().remove(keys::IDLE)?;
        Some(said.split_once(" at ").expect("since when").0.to_owned())
    };
    assert_eq!(says(server.lease()).as_deref(), Some("1500ms"));

    let led = Arc::new(Mutex::new(Vec::new()));
    let told = led.clone();
    let (mut elector, _) = Elector::new(server.client(), settings("second"));
    tokio::select! {
        () = elector.run(move |event| told.lock().push(event)) => panic!("deposed"),
        () = seconds(1) => {}
    }
    let idle = Duration::from_millis(1_500);
    assert_eq!(*led.lock(), [LeaseEvent::Leading { idle }]);
    assert_eq!(says(server.lease()), None, "that was said of the first");
    // It changed nothing ever, and has led for a second: what was before that it does not know.
    elector.release(Duration::from_secs(3_600)).await.expect("released");
    let said = says(server.lease()).and_then(|said| duration::parse(&said)).expect("a duration");
    assert!((0..=1_100).contains(&said.0), "{said:?}");

    // Whoever takes what ran out is told nothing: who had it may have changed something just now.
    server.edit(|lease| {
        lease["spec"]["holderIdentity"] = json!("killed");
        lease["metadata"]["annotations"] = json!({ keys::IDLE: "1h" });
    });
    let third = Replica::start(&server, "third");
    seconds(60).await;
    assert!(third.leads());
    assert_eq!(third.last(), Some(LeaseEvent::Leading { idle: Duration::ZERO }));
}

/// A version that knows nothing of it led in between, and left what was said before it.
#[tokio::test(start_paused = true)]
async fn what_was_said_before_the_last_who_led_is_not_believed() {
    let server = Server::default();
    for (renewed, idle) in [(false, 3_000), (true, 0)] {
        let (mut elector, _) = Elector::new(server.client(), settings("first"));
        tokio::select! {
            () = elector.run(|_| ()) => panic!("deposed"),
            () = seconds(60) => {}
        }
        elector.release(Duration::from_secs(3)).await.expect("released");
        if renewed {
            server.edit(|lease| {
                lease["spec"]["renewTime"] = json!("2126-01-01T00:00:00.000000Z");
            });
        }
        let second = Replica::start(&server, "second");
        seconds(1).await;
        let idle = Duration::from_millis(idle);
        assert_eq!(second.last(), Some(LeaseEvent::Leading { idle }));
        second.task.abort();
        server.edit(|lease| lease["spec"]["holderIdentity"] = json!(null));
    }
    // Nor is what does not say when it was said.
    server.edit(|lease| lease["metadata"]["annotations"] = json!({ keys::IDLE: "1h" }));
    let third = Replica::start(&server, "third");
    seconds(1).await;
    assert_eq!(third.last(), Some(LeaseEvent::Leading { idle: Duration::ZERO }));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_a_late_renewal_reads_again() {
    let server = Server::default();
    let (mut elector, _) = Elector::new(server.client(), settings("first"));
    tokio::select! {
        () = elector.run(|_| ()) => panic!("deposed"),
        () = seconds(1) => {}
    }
    // The lease is read, then a renewal of ours lands, then the release is written.
    server.faults(&[Fault::None, Fault::Instead(409)]);
    elector.release(Duration::ZERO).await.expect("released");
    assert_eq!(server.holder(), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_or_hangs_is_tried_again_but_not_for_long() {
    use Fault::{HangsAfter, Instead, LostAfter, LostBefore, Slow};
    let tried: [&[Fault]; 4] = [
        &[LostBefore, Instead(503), Instead(429), LostBefore],
        &[Fault::None, LostAfter],
        &[Slow(9_000), Slow(9_000)],
        &[HangsAfter, Fault::None, HangsAfter],
    ];
    for faults in tried {
        let server = Server::default();
        let (mut elector, _) = Elector::new(server.client(), settings("first"));
        tokio::select! {
            () = elector.run(|_| ()) => panic!("deposed"),
            () = seconds(1) => {}
        }
        server.faults(faults);
        elector.release(Duration::ZERO).await.expect("released");
        assert_eq!(server.holder(), None, "{faults:?}");
    }
    let server = Server::default();
    let (mut elector, leadership) = Elector::new(server.client(), settings("first"));
    tokio::select! {
        () = elector.run(|_| ()) => panic!("deposed"),
        () = seconds(1) => {}
    }
    server.faults(&[HangsAfter; 100]);
    let begun = Instant::now();
    assert_eq!(elector.release(Duration::ZERO).await, Err("no answer in time".to_owned()));
    let most = RELEASE_MAX + Duration::from_millis(10);
    assert!(!leadership.holds() && begun.elapsed() <= most, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_the_lease_deposes_the_leader() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    server.edit(|lease| lease["spec"]["holderIdentity"] = json!("other"));
    seconds(2).await;
    assert!(!first.leads() && first.task.is_finished());
    let other = LeaseEvent::Deposed("other holds the lease".to_owned());
    assert_eq!(first.last(), Some(other));
    seconds(60).await;
    assert_eq!(server.holder().as_deref(), Some("other"), "a deposed leader writes nothing");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_edits_and_deletions_by_others_depose_nobody() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    server.faults(&[Fault::LostAfter, Fault::LostBefore, Fault::Instead(500)]);
    for second in 0..120 {
        seconds(1).await;
        match second {
            60 => server.0.lock().lease = None,
            _ if second % 7 > 0 => {}
            _ => server.edit(|it| it["metadata"]["labels"]["by"] = json!(second.to_string())),
        }
        assert!(first.leads(), "{second}: {:?}", first.last());
    }
    assert!(first.events.lock().iter().any(|event| matches!(event, LeaseEvent::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_deposes_after_the_renew_deadline() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    let renewed = Instant::now() - Duration::from_secs(1);
    server.faults(&[Fault::HangsAfter; 1_000]);
    first.leadership.lost().await;
    assert_eq!(renewed.elapsed().as_secs(), 10);
    seconds(3).await;
    assert_eq!(first.last(), Some(LeaseEvent::Deposed("not renewed for 10s".to_owned())));
}

/// A connection that died in silence costs one try; the next comes at once, and may be slow.
#[tokio::test(start_paused = true)]
async fn after_a_try_that_hung_there_is_time_for_another() {
    let server = Server::default();
    let first = Replica::start(&server, "first");
    seconds(1).await;
    server.faults(&[Fault::HangsAfter, Fault::Slow(1_500)]);
    for second in 0..30 {
        seconds(1).await;
        assert!(first.leads(), "{second}: {:?}", first.last());
    }
    let hung = LeaseEvent::Failed("no answer in time".to_owned());
    assert_eq!(first.events.lock().iter().filter(|event| **event == hung).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_counts_from_when_it_was_asked_for() {
    let server = Server::default();
    server.faults(&[Fault::None, Fault::Slow(4_000)]);
    let sent = Instant::now();
    let first = Replica::start(&server, "first");
    while !first.leads() {
        sleep(Duration::from_millis(10)).await;
    }
    server.faults(&[Fault::LostBefore; 1_000]);
    first.leadership.lost().await;
    assert_eq!(sent.elapsed().as_millis() / 100, 100);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_promised_longer_is_given_longer() {
    let server = Server::default();
    server.0.lock().store(json!({
        "metadata": { "name": "capstan", "namespace": "a" },
        "spec": { "holderIdentity": "other", "leaseDurationSeconds": 40 },
    }));
    let first = Replica::start(&server, "first");
    seconds(39).await;
    assert!(!first.leads());
    seconds(2).await;
    assert!(first.leads());
}

/// Who holds it acts until its time is over, whatever somebody does to the Lease, and how often.
#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_or_emptied_is_not_taken_before_the_time_of_its_holder_is_over() {
    for (deleted, again) in [(true, false), (false, false), (true, true)] {
        let server = Server::default();
        let strike = || match deleted {
            true => server.0.lock().lease = None,
            false => server.edit(|lease| lease["spec"]["holderIdentity"] = json!("")),
        };
        let first = Replica::start(&server, "first");
        seconds(1).await;
        let second = Replica::start(&server, "second");
        seconds(2).await;
        first.stopped.store(!again, Ordering::SeqCst);
        let mut both = 0;
        for tenth in 0..200 {
            if again || tenth == 0 {
                strike();
            }
            sleep(Duration::from_millis(100)).await;
            both += u32::from(first.leads() && second.leads());
        }
        assert_eq!(both, 0, "deleted: {deleted}, again: {again}");
        assert!(second.leads(), "deleted: {deleted}: {:?}", second.last());
        // Who saw nobody waits for nobody.
        second.task.abort();
        strike();
        let third = Replica::start(&server, "third");
        seconds(1).await;
        assert!(third.leads(), "deleted: {deleted}: {:?}", third.last());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_taken_is_not_asked_for_all_the_time() {
    let server = Server::default();
    server.0.lock().store(json!({
        "metadata": { "name": "capstan", "namespace": "a" },
        "spec": { "holderIdentity": "other" },
    }));
    let _first = Replica::start(&server, "first");
    seconds(14).await;
    server.faults(&[Fault::Instead(409); 10_000]);
    let before = server.0.lock().log.len();
    seconds(60).await;
    let requests = server.0.lock().log.len() - before;
    assert!(requests <= 31, "{requests} in a minute");
}

#[test]
fn leading_alone_lasts() {
    assert!(Leadership::alone().holds());
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        1 => prop_oneof![Just(409), Just(500), Just(429)].prop_map(Fault::Instead),
        1 => Just(Fault::LostBefore),
        2 => Just(Fault::LostAfter),
        1 => Just(Fault::HangsAfter),
        1 => (0..12_000_u64).prop_map(Fault::Slow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn never_do_two_lead(
        faults in prop::collection::vec(fault(), 0..80),
        stops in prop::collection::vec((0..3_usize, 0..40_u32), 0..12),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
        let led = runtime.block_on(async {
            let server = Server::default();
            server.faults(&faults);
            let names = ["x", "y", "z"];
            let mut replicas: Vec<Replica> =
                names.iter().map(|name| Replica::start(&server, name)).collect();
            let mut led = 0;
            for (who, until) in stops.iter().copied().chain([(0, 40), (1, 40), (2, 40)]) {
                let stopped = &replicas[who].stopped;
                stopped.store(!stopped.load(Ordering::SeqCst), Ordering::SeqCst);
                for _ in 0..until * 10 {
                    sleep(Duration::from_millis(100)).await;
                    let leading = replicas.iter().filter(|replica| replica.leads()).count();
                    assert!(leading <= 1, "{leading} lead");
                    led += leading;
                }
                // A deposed process exits and is started anew, under another name.
                for (at, replica) in replicas.iter_mut().enumerate() {
                    if replica.task.is_finished() {
                        *replica = Replica::start(&server, &format!("{}{led}", names[at]));
                    }
                }
            }
            led
        });
        let calm = faults.len() < 5 && stops.is_empty();
        prop_assert!(led > 0 || !calm, "somebody leads in the end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_made_where_it_is_looked_for_says_what_to_do() {
    for (code, advice) in [(403, "grant get, create"), (404, "make the namespace")] {
        let server = Server::default();
        server.faults(&[Fault::None, Fault::Instead(code)]);
        let first = Replica::start(&server, "first");
        seconds(1).await;
        let Some(LeaseEvent::Failed(why)) = first.last() else { panic!("{:?}", first.last()) };
        assert!(why.contains(advice) && why.contains("leaderElection.resourceNamespace"), "{why}");
        seconds(2).await;
        assert!(first.leads(), "it is tried again");
    }
}
