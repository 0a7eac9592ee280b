//! Campaigns for the Lease, keeps it, loses it or gives it back.
//!
//! Decides when the Lease may be taken and how long what was taken is certain. Assumes that
//! the API server orders writes by resourceVersion; assumes nothing of other replicas' clocks.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::Leadership;
use crate::api::{duration, keys};
use crate::client;

/// How long giving the Lease back may take in all...
pub const RELEASE_MAX: Duration = Duration::from_secs(6);
/// ...and one try of it, so that one that hangs leaves time for others...
const RELEASE_TRY: Duration = Duration::from_millis(2_500);
/// ...and the pause after one that failed.
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

/// Which Lease, who we are, and the times; each shorter than the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Our name in it: no other process has it, ever.
    pub identity: String,
    /// How long others wait after they saw a renewal.
    pub lease_duration: Duration,
    /// How long we act after we sent one.
    pub renew_deadline: Duration,
    /// How long between tries.
    pub retry_period: Duration,
}

/// What happens to the lease, for logs and for who waits to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// Somebody else leads.
    Waiting {
        /// Who.
        holder: String,
    },
    /// We lead.
    Leading {
        /// For how long nothing had been changed when who led before us gave the lease back; zero
        /// if it did not say.
        idle: Duration,
    },
    /// A request failed; it is tried again.
    Failed(String),
    /// We led, and never will again.
    Deposed(String),
}

/// One replica's part in the election.
pub struct Elector {
    api: Api<Lease>,
    settings: Settings,
    until: watch::Sender<Option<Instant>>,
    /// The Lease as it was last seen, and when it was first seen so.
    seen: Option<(Lease, Instant)>,
    /// Until when the last holder that was seen may act; none was, or it gave the Lease back:
    /// absent.
    free_at: Option<Instant>,
    /// Since when we lead.
    led: Option<Instant>,
}

impl Elector {
    /// A candidate, and the leadership that it may win.
    pub fn new(client: Client, settings: Settings) -> (Elector, Leadership) {
        let (until, receiver) = watch::channel(None);
        let api = Api::namespaced(client, &settings.namespace);
        let elector = Elector { api, settings, until, seen: None, free_at: None, led: None };
        (elector, Leadership::new(receiver))
    }

    /// The name of the Lease.
    pub fn lease(&self) -> &str {
        &self.settings.name
    }

    /// Looks for the Lease in this namespace from now on: for who does not campaign yet.
    pub fn look_in(&mut self, namespace: &str) {
        if self.settings.namespace != namespace {
            self.api = Api::namespaced(self.api.clone().into_client(), namespace);
            self.settings.namespace = namespace.to_owned();
        }
    }

    /// Campaigns, leads, and returns when deposed. May be dropped at any moment; whoever drops it
    /// calls [`Elector::release`].
    pub async fn run(&mut self, mut events: impl FnMut(LeaseEvent)) {
        let idle = self.campaign(&mut events).await;
        self.led = Some(Instant::now());
        events(LeaseEvent::Leading { idle });
        let why = self.keep(&mut events).await;
        self.until.send_replace(None);
        events(LeaseEvent::Deposed(why));
    }

    /// Tries until the Lease is ours; for how long nothing had been changed then, as far as that
    /// was said.
    async fn campaign(&mut self, events: &mut impl FnMut(LeaseEvent)) -> Duration {
        let mut told = None;
        loop {
            let started = Instant::now();
            let period = self.settings.retry_period.max(Duration::from_millis(1));
            // An answer that is late is a try that failed: the next one reads again.
            match timeout(self.settings.renew_deadline, self.try_to_take()).await {
                Ok(Ok(Some(idle))) => return idle,
                Ok(Ok(None)) => {
                    let holder = self.seen.as_ref().and_then(|(lease, _)| holder(lease));
                    if let Some(holder) = holder.filter(|_| told != holder_text(&self.seen)) {
                        events(LeaseEvent::Waiting { holder: holder.to_owned() });
                        told = holder_text(&self.seen);
                    }
                }
                Ok(Err(error)) => events(LeaseEvent::Failed(self.failed(&error))),
                Err(_) => events(LeaseEvent::Failed("no answer in time".to_owned())),
            }
            let next = started + period;
            let now = Instant::now();
            sleep_until(self.free_at.filter(|at| now < *at && *at < next).unwrap_or(next)).await;
        }
    }

    /// What to say of a try that failed. Where there was no Lease to be read, none can be made in a
    /// namespace that does not exist either.
    fn failed(&self, error: &kube::Error) -> String {
        let hint = match client::code(error) {
            Some(404) if self.seen.is_none() => {
                "; make the namespace, or name another: leaderElection.resourceNamespace"
            }
            Some(403) => {
                "; grant get, create and update on it there, or name another namespace: \
                 leaderElection.resourceNamespace"
            }
            _ => "",
        };
        format!("{}{hint}", client::explain(error))
    }

    /// When the Lease as seen runs out. A holder that was told other times than we were is
    /// given the longer one.
    fn runs_out(&self) -> Option<Instant> {
        let (lease, since) = self.seen.as_ref()?;
        let told = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let told = Duration::from_secs(u64::try_from(told).unwrap_or(0));
        Some(*since + self.settings.lease_duration.max(told))
    }

    /// One look at the Lease; if it is free, one try to take it. Who held it may act on for its
    /// time where the Lease was deleted, or its holder struck out: it did not stop for that.
    async fn try_to_take(&mut self) -> kube::Result<Option<Duration>> {
        let found = self.api.get_opt_by_code(&self.settings.name).await?;
        let now = Instant::now();
        let Some(found) = found else {
            self.seen = None;
            if self.free_at.is_some_and(|at| now < at) {
                return Ok(None);
            }
            return Ok(self.make().await?.then_some(Duration::ZERO));
        };
        let same = |(lease, _): &&(Lease, Instant)| {
            lease.metadata.resource_version == found.metadata.resource_version
        };
        let since = self.seen.as_ref().filter(same).map_or(now, |(_, since)| *since);
        // Our own name without our memory: it ran out with the process that had it, or a write of
        // ours was not answered. Either way nobody else can lead before it is replaced.
        let ours = holder(&found) == Some(&self.settings.identity);
        let vacant = holder(&found).is_none();
        let wanted = self.ours(&found);
        let idle = if vacant { idle(&found) } else { Duration::ZERO };
        let given_back = vacant && is_given_back(&found);
        self.seen = Some((found, since));
        if ours || given_back {
            self.free_at = None;
        } else if !vacant {
            self.free_at = self.runs_out();
        }
        if self.free_at.is_some_and(|at| now < at) {
            return Ok(None);
        }
        Ok(self.write(wanted, false).await?.then_some(idle))
    }

    /// Makes the Lease, which is not there, as ours; `false`: somebody else was first.
    async fn make(&mut self) -> kube::Result<bool> {
        let fresh = Lease {
            metadata: ObjectMeta { name: Some(self.settings.name.clone()), ..<_>::default() },
            spec: None,
        };
        self.write(self.ours(&fresh), true).await
    }

    /// Writes the Lease as ours; `false`: somebody else was first. Who leads and makes it anew
    /// leads no longer by that: if it is deleted again at once, nobody who waits has seen it.
    async fn write(&mut self, lease: Lease, create: bool) -> kube::Result<bool> {
        let sent = Instant::now();
        let params = PostParams::default();
        let written = if create {
            self.api.create(&params, &lease).await
        } else {
            self.api.replace(&self.settings.name, &params, &lease).await
        };
        match written {
            Ok(lease) => {
                self.seen = Some((lease, Instant::now()));
                let led = self.until.borrow().filter(|_| create);
                let until = led.unwrap_or(sent + self.settings.renew_deadline);
                self.until.send_replace(Some(until));
                Ok(true)
            }
            Err(error) if client::is_conflict(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews until that fails for too long or somebody else holds the Lease; says why it ended.
    async fn keep(&mut self, events: &mut impl FnMut(LeaseEvent)) -> String {
        let mut next = Instant::now() + self.settings.retry_period;
        loop {
            sleep_until(next).await;
            let Some(end) = *self.until.borrow() else { return "released".to_owned() };
            // After one that hung the next comes at once, on another connection.
            next = Instant::now() + self.settings.retry_period;
            if Instant::now() >= end {
                return format!("not renewed for {:?}", self.settings.renew_deadline);
            }
            // One that hangs leaves time for another try.
            let patience = Instant::now() + self.settings.renew_deadline / 2;
            match timeout_at(end.min(patience), self.renew()).await {
                Ok(Ok(())) => {}
                Ok(Err(Lost::Deposed(why))) => return why,
                Ok(Err(Lost::Failed(why))) => events(LeaseEvent::Failed(why)),
                Err(_) => events(LeaseEvent::Failed("no answer in time".to_owned())),
            }
        }
    }

    /// One renewal. A conflict may come from a write of our own whose answer was lost, or from
    /// somebody who edits metadata: the Lease is read again, and its holder decides. One that was
    /// deleted is made anew: who saw us hold it waits for our time to be over, and of two who make
    /// it one is first. Our time goes on once that is renewed.
    async fn renew(&mut self) -> Result<(), Lost> {
        let known = self.seen.as_ref().map(|(lease, _)| self.ours(lease));
        if let Some(lease) = known {
            match self.write(lease, false).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if client::is_gone(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = self.api.get_opt_by_code(&self.settings.name).await?;
        let Some(found) = found else {
            return match self.make().await? {
                true => Ok(()),
                false => Err(Lost::Failed("somebody else makes the lease anew".to_owned())),
            };
        };
        match holder(&found) {
            Some(holder) if holder == self.settings.identity => {}
            Some(holder) => return Err(Lost::Deposed(format!("{holder} holds the lease"))),
            None => return Err(Lost::Deposed("the lease was taken away".to_owned())),
        }
        let renewed = self.ours(&found);
        self.seen = Some((found, Instant::now()));
        if self.write(renewed, false).await? {
            return Ok(());
        }
        Err(Lost::Failed("the lease changes while it is renewed".to_owned()))
    }

    /// Stops leading, and lets the next candidate take over at once; nothing was changed for the
    /// last `idle`. What a leader before us changed, we do not know.
    ///
    /// A renewal that was on its way when [`Elector::run`] was dropped may come in between, and a
    /// request may fail or hang: the Lease is then read once more, for [`RELEASE_MAX`] in all.
    pub async fn release(self, idle: Duration) -> Result<(), String> {
        let led = self.led.map_or(Duration::ZERO, |since| since.elapsed());
        let idle = idle.min(led);
        self.until.send_replace(None);
        let end = Instant::now() + RELEASE_MAX;
        loop {
            let by = end.min(Instant::now() + RELEASE_TRY);
            let why = match timeout_at(by, self.hand_back(idle)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => client::explain(&error),
                Err(_) => "no answer in time".to_owned(),
            };
            if Instant::now() + RELEASE_PAUSE >= end {
                return Err(why);
            }
            sleep(RELEASE_PAUSE).await;
        }
    }

    async fn hand_back(&self, idle: Duration) -> kube::Result<()> {
        let found = self.api.get_opt_by_code(&self.settings.name).await?;
        let ours = |lease: &Lease| holder(lease) == Some(&self.settings.identity);
        let Some(mut lease) = found.filter(ours) else { return Ok(()) };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(GIVEN_BACK);
        let now = MicroTime(Timestamp::now());
        let said = idle_said(idle, &now);
        spec.renew_time = Some(now);
        lease.metadata.annotations.get_or_insert_default().insert(keys::IDLE.to_owned(), said);
        self.api.replace(&self.settings.name, &PostParams::default(), &lease).await.map(drop)
    }

    /// The Lease as it is, held by us from now on.
    fn ours(&self, lease: &Lease) -> Lease {
        let old = lease.spec.clone().unwrap_or_default();
        let mine = old.holder_identity.as_deref() == Some(&self.settings.identity);
        let now = MicroTime(Timestamp::now());
        let transitions = old.lease_transitions.unwrap_or(0);
        let first = old.holder_identity.is_none() && old.renew_time.is_none();
        let seconds = self.settings.lease_duration.as_millis().div_ceil(1_000).max(1);
        let spec = LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: old.acquire_time.clone().filter(|_| mine).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if mine || first { transitions } else { transitions + 1 }),
            ..old
        };
        let mut metadata = lease.metadata.clone();
        // That was said of the leader before.
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(keys::IDLE);
        }
        Lease { metadata, spec: Some(spec) }
    }
}

/// Why a renewal was none.
enum Lost {
    /// Somebody else may lead.
    Deposed(String),
    /// It may succeed the next time.
    Failed(String),
}

impl From<kube::Error> for Lost {
    fn from(error: kube::Error) -> Lost {
        Lost::Failed(client::explain(&error))
    }
}

/// Who holds a Lease.
fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The `leaseDurationSeconds` of a Lease that its holder gave back, as client-go writes it too.
const GIVEN_BACK: i32 = 1;

/// Whether a Lease without a holder was given back by who held it.
fn is_given_back(lease: &Lease) -> bool {
    lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds) == Some(GIVEN_BACK)
}

/// Between for how long nothing had been changed and the `renewTime` of the Lease that says so.
const SAID_AT: &str = " at ";

/// What [`keys::IDLE`] says of who gives a Lease back that was renewed last at this time, and who
/// changed nothing for so long.
pub fn idle_said(idle: Duration, renewed: &MicroTime) -> String {
    format!("{}ms{SAID_AT}{}", idle.as_millis(), text_of(renewed))
}

/// For how long who gave a Lease back had changed nothing, as it says. A version that knows nothing
/// of this may have led and given it back since, and left there what was said before it: what
/// counts was said with the last change of the Lease.
fn idle(lease: &Lease) -> Duration {
    let said = || {
        let said = lease.metadata.annotations.as_ref()?.get(keys::IDLE)?;
        let (span, at) = said.split_once(SAID_AT)?;
        let written = text_of(lease.spec.as_ref()?.renew_time.as_ref()?);
        let span = duration::parse(span).filter(|_| at == written)?;
        u64::try_from(span.0).ok()
    };
    said().map_or(Duration::ZERO, Duration::from_millis)
}

/// A time as the API shows it.
fn text_of(time: &MicroTime) -> String {
    let shown = serde_json::to_value(time).unwrap_or_default();
    shown.as_str().unwrap_or_default().to_owned()
}

fn holder_text(seen: &Option<(Lease, Instant)>) -> Option<String> {
    seen.as_ref().and_then(|(lease, _)| holder(lease)).map(str::to_owned)
}

/// `Api::get_opt` trusts the reason of a status; a plain 404 has none.
trait GetByCode {
    async fn get_opt_by_code(&self, name: &str) -> kube::Result<Option<Lease>>;
}

impl GetByCode for Api<Lease> {
    async fn get_opt_by_code(&self, name: &str) -> kube::Result<Option<Lease>> {
        match self.get(name).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if client::is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
