//! One cluster after the other on one control plane, and on it one pair after the other: a copy
//! for kube-scheduler, its verdict, its end; a copy for Capstan, its verdict, its end.
//!
//! What a try wrote is put back before the next: claims and volumes are what they were, which no
//! controller would do here, since none runs. kube-scheduler waits for no volume
//! (`bindTimeoutSeconds: 0`), so that what it chose shows at once as what it could not wait for;
//! what Capstan chose shows in the claim or volume that it wrote.

use std::time::{Duration, Instant};

use capstan_tests::cluster::{Result, Trouble, name_of};
use futures::future::try_join_all;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::core::Request;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::case::{Case, Draft, NAMESPACES, always, claim_of};
use crate::generate::SPECIAL;
use crate::objects::{KINDS, Objects, place};
use crate::tally::{Pair, Tally};
use crate::verdict::{self, Verdict};

/// All watches have shown what was written by then, on a busy machine.
const SEEN: Duration = Duration::from_millis(600);
/// The same for a few objects.
const PUT_BACK: Duration = Duration::from_millis(80);
/// How often it is looked for what was written of claims.
const LOOK_AGAIN: Duration = Duration::from_millis(150);
/// A scheduler has said something by then.
const VERDICT: Duration = Duration::from_secs(10);
/// Who refuses a pod says so within a second; who takes one whose claim has its node already
/// writes nothing, and is asked after so long.
const QUIET: Duration = Duration::from_millis(2_500);
/// kube-scheduler has decided by then, on a busy machine, unless it does not queue the pod.
const QUEUED: Duration = Duration::from_secs(2);
/// Before a pair counts as a disagreement it is tried again after so long.
const CALM: Duration = Duration::from_secs(2);
/// Keeps a copy from both until its claims are made.
const GATE: &str = "test.capstan.sh/claims";
/// Kinds that a try may change.
const HELD: [&str; 3] = ["PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"];

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Theirs,
    Ours,
}

impl Who {
    fn scheduler(self) -> &'static str {
        match self {
            Who::Theirs => "default-scheduler",
            Who::Ours => "capstan",
        }
    }
}

/// A control plane with both schedulers.
pub struct Tries {
    objects: Objects,
    /// Capstan's own account, by HTTP, once it runs.
    account: Option<Client>,
    seen: UnboundedReceiver<Pod>,
    serial: usize,
    /// Volumes and claims of the cluster that is laid out.
    held: Vec<Value>,
}

impl Tries {
    /// Begins on a control plane without nodes.
    pub async fn begin(client: Client) -> Result<Tries> {
        let objects = Objects(client.clone());
        for object in always() {
            objects.create(&object).await?;
        }
        let seen = watch(client);
        Ok(Tries { objects, account: None, seen, serial: 0, held: Vec::new() })
    }

    /// Tries all pods of a case on all its nodes, with the Capstan whose account this is.
    pub async fn play(&mut self, case: &Case, account: Client, tally: &mut Tally) -> Result<()> {
        self.account = Some(account);
        let played = self.try_all(case, tally).await;
        self.clear().await?;
        played
    }

    async fn try_all(&mut self, case: &Case, tally: &mut Tally) -> Result<()> {
        self.lay_out(case).await?;
        for draft in &case.drafts {
            for node in &case.nodes {
                let (mut theirs, mut ours) = self.pair(draft, name_of(node)).await?;
                if !theirs.agrees(&ours) {
                    sleep(CALM).await;
                    tally.again += 1;
                    (theirs, ours) = self.pair(draft, name_of(node)).await?;
                }
                tally.add(&Pair { case, draft, node, theirs, ours });
            }
        }
        Ok(())
    }

    async fn pair(&mut self, draft: &Draft, node: &str) -> Result<(Verdict, Verdict)> {
        let theirs = self.attempt(draft, node, Who::Theirs).await?;
        let ours = self.attempt(draft, node, Who::Ours).await?;
        Ok((theirs, ours))
    }

    /// One copy, from its creation to its end.
    async fn attempt(&mut self, draft: &Draft, node: &str, who: Who) -> Result<Verdict> {
        self.serial += 1;
        let name = format!("{}-{node}-{}", name_of(&draft.pod), self.serial);
        let copy = draft.copy(&name, node, who.scheduler());
        let made = self.make(draft, copy).await?;
        let verdict = self.verdict(draft, &name, node, who).await?;
        self.objects.delete(&made[0], true).await?;
        for claim in &made[1..] {
            self.let_go(claim).await?;
        }
        if draft.claims_volumes() || draft.claims_devices() {
            self.put_back().await?;
        }
        Ok(verdict)
    }

    /// Makes a copy, then its claims; the copy waits for them.
    async fn make(&self, draft: &Draft, mut copy: Value) -> Result<Vec<Value>> {
        if draft.made.is_empty() {
            return Ok(vec![self.objects.create(&copy).await?]);
        }
        copy["spec"]["schedulingGates"] = json!([{"name": GATE}]);
        let pod = self.objects.create(&copy).await?;
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let mut all = vec![pod.clone()];
        let mut statuses = Vec::new();
        for made in &draft.made {
            let claim = self.objects.create(&claim_of(made, &pod, uid)).await?;
            if place(&claim).0 == "ResourceClaim" {
                statuses.push(json!({"name": made.name, "resourceClaimName": name_of(&claim)}));
            }
            all.push(claim);
        }
        if !statuses.is_empty() {
            let status = json!({"status": {"resourceClaimStatuses": statuses}});
            self.objects.patch_status(&pod, &status).await?;
        }
        sleep(PUT_BACK).await;
        self.objects.patch(&pod, &json!({"spec": {"schedulingGates": null}})).await?;
        Ok(all)
    }

    async fn verdict(
        &mut self,
        draft: &Draft,
        name: &str,
        node: &str,
        who: Who,
    ) -> Result<Verdict> {
        let begun = Instant::now();
        let looks = who == Who::Ours && draft.claims_volumes();
        let unqueued = who == Who::Theirs && draft.unready;
        let within = if unqueued { QUEUED } else { VERDICT };
        let step = if looks { LOOK_AGAIN } else { within };
        while begun.elapsed() < within {
            match timeout(step, self.seen.recv()).await {
                Ok(None) => return Err(Trouble::new("the watch of pods has ended")),
                Ok(Some(pod)) if pod.metadata.name.as_deref() == Some(name) => {
                    if let Some(verdict) = verdict::of(&pod, node) {
                        return Ok(verdict);
                    }
                }
                Ok(Some(_)) => {}
                Err(_) if looks && self.chose(name).await? => return Ok(Verdict::Takes),
                Err(_) if looks && draft.begun && begun.elapsed() > QUIET => {
                    // It has its place, and waits for its volumes.
                    if self.account_of(draft, name).await["state"] == "Admitted" {
                        return Ok(Verdict::Takes);
                    }
                }
                Err(_) => {}
            }
        }
        Ok(match unqueued {
            true => Verdict::Refuses("not queued: a claim on devices is not ready".to_owned()),
            false if who == Who::Ours => {
                Verdict::Silent(self.account_of(draft, name).await.to_string())
            }
            false => Verdict::Silent(String::new()),
        })
    }

    /// Whether a claim or a volume has got something that it had not; what is made for a copy had
    /// nothing.
    async fn chose(&self, copy: &str) -> Result<bool> {
        let node = "/metadata/annotations/volume.kubernetes.io~1selected-node";
        for (kind, field) in
            [("PersistentVolumeClaim", node), ("PersistentVolume", "/spec/claimRef")]
        {
            for now in self.objects.list(kind).await? {
                let was = self.held.iter().find(|held| place(held) == place(&now));
                let own = was.is_none() && name_of(&now).starts_with(copy);
                let before = was.and_then(|was| was.pointer(field));
                let chosen = now.pointer(field).filter(|_| was.is_some() || own);
                if chosen.is_some() && chosen != before {
                    // There may be more to write; all of it is put back.
                    sleep(PUT_BACK).await;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What Capstan says of a pod; the trouble with asking, if there is any.
    async fn account_of(&self, draft: &Draft, name: &str) -> Value {
        let namespace = draft.pod["metadata"]["namespace"].as_str().unwrap_or_default();
        // The `&` is for the question mark that every list's path gets.
        let path = format!("/debug/explain/workload/{namespace}/{name}?output=json&");
        let request = Request::new(path).list(&kube::api::ListParams::default());
        let Some(account) = &self.account else { return Value::Null };
        let said: kube::Result<Value> = match request {
            Ok(request) => account.request(request).await,
            Err(error) => return json!(error.to_string()),
        };
        said.unwrap_or_else(|error| json!(error.to_string()))
    }

    /// Claims and volumes are what they were before, and stay it.
    async fn put_back(&self) -> Result<()> {
        loop {
            sleep(PUT_BACK).await;
            let mut changed = false;
            for kind in HELD {
                for now in self.objects.list(kind).await? {
                    let was = self.held.iter().find(|held| place(held) == place(&now));
                    if was.is_none() && !now["metadata"]["annotations"][SPECIAL].is_null() {
                        // Nobody collects here what a scheduler made for a copy.
                        changed = true;
                        self.let_go(&now).await?;
                        continue;
                    }
                    let Some(was) = was.filter(|was| !same(was, &now)) else { continue };
                    changed = true;
                    let mut back = was.clone();
                    back["metadata"]["resourceVersion"] =
                        now["metadata"]["resourceVersion"].clone();
                    if kind == "ResourceClaim" {
                        let done = self.objects.replace_status(&back).await?;
                        back["metadata"]["resourceVersion"] =
                            done["metadata"]["resourceVersion"].clone();
                    }
                    self.objects.replace(&back).await?;
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Deletes a claim whatever keeps it.
    async fn let_go(&self, claim: &Value) -> Result<()> {
        self.objects.patch(claim, &json!({"metadata": {"finalizers": null}})).await?;
        self.objects.delete(claim, true).await
    }

    /// Makes all objects, in the state that they are to be in.
    async fn lay_out(&mut self, case: &Case) -> Result<()> {
        let mut uids: Vec<(String, Value)> = Vec::new();
        let mut there: Vec<(Value, Value)> = Vec::new();
        let all: Vec<&Value> = case.nodes.iter().chain(&case.objects).collect();
        for same in all.chunk_by(|a, b| place(a).0 == place(b).0) {
            let wanted: Vec<Value> = same.iter().map(|it| with_uids(it, &uids)).collect();
            let made = try_join_all(wanted.iter().map(|it| self.objects.create(it))).await?;
            for (wanted, made) in wanted.into_iter().zip(made) {
                if let Some(uid) = wanted["metadata"]["uid"].as_str() {
                    uids.push((uid.to_owned(), made["metadata"]["uid"].clone()));
                }
                there.push((wanted, made));
            }
        }
        let status = |(wanted, made): &(Value, Value)| {
            let kept = place(wanted).0 == "Node" || wanted["status"].is_null();
            let mut whole = made.clone();
            whole["status"] = with_uids(&wanted["status"], &uids);
            (!kept).then_some(whole)
        };
        let statuses: Vec<Value> = there.iter().filter_map(status).collect();
        try_join_all(statuses.iter().map(|it| self.objects.replace_status(it))).await?;
        let ending = there.iter().filter(|(it, _)| it["metadata"]["deletionTimestamp"].is_string());
        try_join_all(ending.map(|(_, made)| self.objects.delete(made, false))).await?;
        self.held.clear();
        for kind in HELD {
            self.held.extend(self.objects.list(kind).await?);
        }
        sleep(SEEN).await;
        Ok(())
    }

    /// Deletes all objects of the case.
    async fn clear(&mut self) -> Result<()> {
        for held in std::mem::take(&mut self.held) {
            if held["metadata"]["finalizers"].is_array() {
                let none = json!({"metadata": {"finalizers": null}});
                self.objects.patch(&held, &none).await?;
            }
        }
        let kinds =
            KINDS.iter().rev().filter(|row| !["Namespace", "RuntimeClass"].contains(&row.0));
        for (kind, _, _, namespaced) in kinds {
            let namespaces = NAMESPACES.iter().map(|(name, _)| *name);
            let namespaces: Vec<&str> = if *namespaced { namespaces.collect() } else { vec![""] };
            for namespace in namespaces {
                self.objects.delete_all(kind, namespace).await?;
            }
        }
        sleep(SEEN).await;
        Ok(())
    }
}

/// All states of all pods from now on.
fn watch(client: Client) -> UnboundedReceiver<Pod> {
    let (tell, seen) = unbounded_channel();
    tokio::spawn(async move {
        let pods = watcher(Api::<Pod>::all(client), watcher::Config::default());
        let pods = pods.default_backoff().applied_objects();
        pin_mut!(pods);
        while let Some(pod) = pods.next().await {
            if pod.is_ok_and(|pod| tell.send(pod).is_err()) {
                return;
            }
        }
    });
    seen
}

/// An object with the uids that the API server gave.
fn with_uids(object: &Value, uids: &[(String, Value)]) -> Value {
    match object {
        Value::String(text) => {
            let found = uids.iter().find(|(uid, _)| uid == text);
            found.map_or_else(|| object.clone(), |(_, uid)| uid.clone())
        }
        Value::Array(items) => items.iter().map(|item| with_uids(item, uids)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), with_uids(value, uids)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Whether nobody has written to an object what a scheduler writes.
fn same(was: &Value, now: &Value) -> bool {
    let fields = ["/metadata/annotations", "/metadata/finalizers", "/spec", "/status"];
    fields.iter().all(|field| was.pointer(field) == now.pointer(field))
}
