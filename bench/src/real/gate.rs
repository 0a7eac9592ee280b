//! The start line: a lease that each contender waits for, and that is ours until it is ready.
//!
//! A scheduler that has just been started reads the cluster first, and each says in its own way, or
//! not at all, that it has. All of them stand by for a lease, though, with everything read: so does
//! the raw binder. Here the lease is ours before they start; once nobody does anything any more it
//! is given back, and who takes it writes down when (`acquireTime`). That is where clocks start.
//! How long a candidate sleeps between two looks at the lease is no part of it.

use std::time::{Duration, Instant, SystemTime};

use capstan::api::keys;
use capstan::lease::idle_said;
use capstan_tests::cluster::{Result, Trouble};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use super::scene::Scene;

/// Where the leases are, as kube-scheduler has it.
pub const NAMESPACE: &str = "kube-system";
/// Who holds a lease before a contender does.
const US: &str = "bench";
/// For so many seconds, if it is not given back.
const HELD: i32 = 3_600;
/// We decide nothing: there is nothing of ours that a watch might still have to show.
const IDLE: Duration = Duration::from_secs(3_600);

/// The lease of one contender.
#[derive(Clone, Copy)]
pub struct Gate(pub &'static str);

impl Gate {
    /// Takes the lease from whoever had it.
    pub fn close(self, scene: &Scene) -> Result<()> {
        let now = MicroTime(Timestamp::now());
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.0.to_owned()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(US.to_owned()),
                lease_duration_seconds: Some(HELD),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        let api = leases(scene)?;
        scene.plane.block_on(async move {
            match api.delete(self.0, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted?),
            }
            api.create(&PostParams::default(), &lease).await?;
            Ok(())
        })
    }

    /// Gives it back.
    pub fn open(self, scene: &Scene) -> Result<()> {
        let api = leases(scene)?;
        scene.plane.block_on(async move {
            let mut lease = api.get(self.0).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(US) {
                let holder = spec.holder_identity.as_deref().unwrap_or("nobody");
                let says = format!("{holder} did not wait for the lease {}", self.0);
                return Err(Trouble::new(says));
            }
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            let renewed = spec.renew_time.get_or_insert_with(|| MicroTime(Timestamp::now()));
            let said = idle_said(IDLE, renewed);
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(keys::IDLE.to_owned(), said);
            api.replace(self.0, &PostParams::default(), &lease).await?;
            Ok(())
        })
    }

    /// When who has it now took it.
    pub fn taken(self, scene: &Scene) -> Result<Instant> {
        let api = leases(scene)?;
        let lease =
            scene.plane.block_on(async move { Ok::<_, Trouble>(api.get(self.0).await?) })?;
        let (wall, here) = (SystemTime::now(), Instant::now());
        let spec = lease.spec.unwrap_or_default();
        let held = spec.holder_identity.filter(|it| !it.is_empty() && it != US);
        let at = spec.acquire_time.filter(|_| held.is_some());
        let at = at.ok_or_else(|| Trouble::new(format!("nobody took the lease {}", self.0)))?;
        let since = wall.duration_since(SystemTime::from(at.0)).unwrap_or(Duration::ZERO);
        here.checked_sub(since).ok_or_else(|| Trouble::new("a lease older than the machine"))
    }
}

fn leases(scene: &Scene) -> Result<Api<Lease>> {
    Ok(Api::namespaced(scene.plane.client()?, NAMESPACE))
}
