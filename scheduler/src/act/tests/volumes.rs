//! What was chosen for claims, written into volumes and claims.

use super::*;
use capstan_core::model::input::ClaimKey;
use capstan_core::plan::VolumeSetting;

fn claim(node: Option<&str>, volume: Option<&str>) -> Value {
    let mut annotations = json!({ "mine": "stays" });
    if let Some(node) = node {
        annotations["volume.kubernetes.io/selected-node"] = json!(node);
    }
    json!({
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": "a", "name": "c", "uid": "uid-c",
            "annotations": annotations,
        },
        "spec": { "volumeName": volume, "storageClassName": "late" },
    })
}

fn volume(claim: Value) -> Value {
    json!({
        "kind": "PersistentVolume",
        "metadata": { "name": "v", "uid": "uid-v" },
        "spec": { "claimRef": claim, "capacity": { "storage": "1Gi" } },
    })
}

fn setting(volume: Option<&str>) -> VolumeSetting {
    VolumeSetting {
        claim: ClaimKey { namespace: "a".into(), name: "c".into() },
        uid: "uid-c".into(),
        node: "n1".into(),
        volume: volume.map(Into::into),
    }
}

fn select(volume: Option<&str>) -> Action {
    Action::SelectVolumes { pod: pod_ref("p"), settings: vec![setting(volume)] }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_found_is_given_to_the_claim() {
    let server = Server::with(&[claim(None, None), volume(Value::Null)]);
    assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c", "GET v", "PATCH v"]);
    let found = server.find("/persistentvolumes/v").expect("there");
    assert_eq!(found["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    let given = &found["spec"]["claimRef"];
    assert_eq!((&given["namespace"], &given["name"]), (&json!("a"), &json!("c")));
    assert_eq!((&given["uid"], &given["kind"]), (&json!("uid-c"), &json!("PersistentVolumeClaim")));
    assert_eq!(found["spec"]["capacity"], json!({ "storage": "1Gi" }), "the rest stays");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_its_author_kept_for_the_claim_gets_its_uid_only() {
    let kept = json!({ "namespace": "a", "name": "c" });
    let server = Server::with(&[claim(None, None), volume(kept)]);
    assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Done);
    let found = server.find("/persistentvolumes/v").expect("there");
    assert_eq!(found["spec"]["claimRef"]["uid"], "uid-c");
    assert!(found["metadata"]["annotations"].is_null(), "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_told_the_node_and_keeps_the_rest() {
    let server = Server::with(&[claim(None, None)]);
    assert_eq!(carry(&server, select(None)).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c", "PATCH c"]);
    let found = server.find("/persistentvolumeclaims/c").expect("there");
    let annotations = &found["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "n1");
    assert_eq!(annotations["mine"], "stays");
}

#[tokio::test(start_paused = true)]
async fn what_is_written_already_is_left_alone() {
    let given = json!({ "namespace": "a", "name": "c", "uid": "uid-c" });
    let server = Server::with(&[claim(None, None), volume(given)]);
    assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c", "GET v"]);
    let server = Server::with(&[claim(Some("n1"), None)]);
    assert_eq!(carry(&server, select(None)).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c"]);
    let server = Server::with(&[claim(None, Some("other"))]);
    assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Done);
    assert_eq!(server.log(), ["GET c"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_from_others() {
    let given = json!({ "namespace": "a", "name": "other", "uid": "uid-other" });
    let server = Server::with(&[claim(None, None), volume(given)]);
    let result = carry(&server, select(Some("v"))).await;
    assert_eq!(words(&result), ("conflict", "volume v was given to another claim"));
    let again = json!({ "namespace": "a", "name": "c", "uid": "uid-before" });
    let server = Server::with(&[claim(None, None), volume(again)]);
    let result = carry(&server, select(Some("v"))).await;
    assert_eq!(words(&result), ("conflict", "volume v was given to another claim"));
    let server = Server::with(&[claim(Some("n2"), None)]);
    let result = carry(&server, select(None)).await;
    assert_eq!(words(&result), ("conflict", "claim c is made for n2"));
    // Somebody is faster by a moment.
    let server = Server::with(&[claim(None, None), volume(Value::Null)]);
    let later = server.clone();
    let other = json!({ "namespace": "a", "name": "other", "uid": "uid-other" });
    server.before(2, move || later.put(volume(other)));
    let result = carry(&server, select(Some("v"))).await;
    assert_eq!(words(&result), ("conflict", "volume v was given to another claim"));
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_or_going_gets_nothing() {
    assert_eq!(carry(&Server::default(), select(None)).await, EffectResult::Gone);
    let server = Server::with(&[claim(None, None)]);
    assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Gone);
    let mut ending = claim(None, None);
    ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let result = carry(&Server::with(&[ending]), select(None)).await;
    assert_eq!(words(&result), ("conflict", "claim c is being deleted"));
}

#[tokio::test(start_paused = true)]
async fn faults_lead_to_one_write() {
    use Fault::*;
    for fault in [LostAfter, Despite(500), LostBefore, Instead(409, 0), Hangs, HangsAfter] {
        let faults = [None, None, fault];
        let server = Server::with(&[claim(Option::None, Option::None), volume(Value::Null)]);
        let server = server.faults(&faults);
        assert_eq!(carry(&server, select(Some("v"))).await, EffectResult::Done, "{fault:?}");
        let found = server.find("/persistentvolumes/v").expect("there");
        assert_eq!(found["spec"]["claimRef"]["uid"], "uid-c", "{fault:?}");
    }
}
