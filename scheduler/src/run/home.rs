//! In which namespace the lease is, where the configuration does not say so.
//!
//! Replicas that look for it in different namespaces lead at once. A pod's is where it is
//! installed; who is started elsewhere, with a kubeconfig, looks where that is by default, and only
//! where there is no such namespace in that of the kubeconfig's context.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, Result};
use tokio::time::sleep;

use crate::client;

/// Where the manifests install Capstan.
pub const INSTALLED_IN: &str = "capstan-system";
/// What our pods are told of their namespace by.
pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// Pause before the API server is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// There, whatever else there is.
    Certain(String),
    /// In [`INSTALLED_IN`] if there is such a namespace, else there.
    Else(String),
}

impl Home {
    /// From what the configuration says, then what our pod is told, then the namespace that the
    /// connection is of, which is a pod's own if we run in one.
    pub fn of(given: Option<&str>, pod: Option<&str>, (namespace, in_pod): (&str, bool)) -> Home {
        match given.or(pod.filter(|it| !it.is_empty())) {
            Some(certain) => Home::Certain(certain.to_owned()),
            None if in_pod => Home::Certain(namespace.to_owned()),
            None => Home::Else(namespace.to_owned()),
        }
    }

    /// The namespace, as far as that is known without asking.
    pub fn namespace(&self) -> &str {
        let (Home::Certain(namespace) | Home::Else(namespace)) = self;
        namespace
    }

    /// The namespace, for which the API server may have to be asked, until it answers.
    pub async fn find(&self, client: &Client) -> String {
        let Home::Else(other) = self else { return self.namespace().to_owned() };
        let mut said = false;
        loop {
            let error = match is_there(client).await {
                Ok(true) => return INSTALLED_IN.to_owned(),
                Ok(false) => return other.clone(),
                Err(error) => error,
            };
            let (forbidden, why) = (client::code(&error) == Some(403), client::explain(&error));
            if !std::mem::replace(&mut said, true) {
                tracing::warn!(why, "whether there is a namespace {INSTALLED_IN} is not known");
            }
            if forbidden {
                return other.clone();
            }
            sleep(AGAIN).await;
        }
    }
}

/// Whether there is such a namespace. It is listed, as all of them are: to get one takes a right
/// that nothing else needs.
async fn is_there(client: &Client) -> Result<bool> {
    let named = ListParams::default().fields(&format!("metadata.name={INSTALLED_IN}"));
    let found = Api::<Namespace>::all(client.clone()).list(&named).await?;
    Ok(found.items.iter().any(|it| it.metadata.deletion_timestamp.is_none()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;

    #[test]
    fn who_runs_in_a_pod_is_at_home_there() {
        let certain = |namespace: &str| Home::Certain(namespace.to_owned());
        let rows = [
            (Some("given"), Some("pod"), true, certain("given")),
            (Some("given"), None, false, certain("given")),
            (None, Some("pod"), false, certain("pod")),
            (None, Some(""), true, certain("context")),
            (None, None, true, certain("context")),
            (None, None, false, Home::Else("context".to_owned())),
        ];
        for (given, pod, in_pod, want) in rows {
            assert_eq!(Home::of(given, pod, ("context", in_pod)), want, "{given:?} {pod:?}");
        }
    }

    /// A server that answers one after the other, and the last for good; how often it was asked.
    fn server(answers: &'static [(u16, &'static str)]) -> (Client, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let at = counted.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
            let query = request.uri().query().unwrap_or_default().to_owned();
            async move {
                assert!(query.contains("metadata.name%3Dcapstan-system"), "{query}");
                let (code, names) = answers[at];
                let named = |name: &str| json!({"metadata": {"name": name}});
                let items: Vec<Value> = names.split_whitespace().map(named).collect();
                let answer = match code {
                    200 => json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {},
                        "items": items}),
                    code => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "message": "no", "reason": "", "code": code}),
                };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_looks_where_capstan_is_installed() {
        type Row<'a> = (&'a [(u16, &'a str)], &'a str, usize);
        let rows: [Row<'_>; 4] = [
            (&[(200, INSTALLED_IN)], INSTALLED_IN, 1),
            (&[(200, "")], "desk", 1),
            (&[(403, "")], "desk", 1),
            (&[(500, ""), (503, ""), (200, INSTALLED_IN)], INSTALLED_IN, 3),
        ];
        for (answers, want, times) in rows {
            let (client, asked) = server(answers);
            assert_eq!(Home::Else("desk".to_owned()).find(&client).await, want);
            assert_eq!(asked.load(Ordering::Relaxed), times);
        }
        let (client, asked) = server(&[(200, INSTALLED_IN)]);
        assert_eq!(Home::Certain("own".to_owned()).find(&client).await, "own");
        assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody is asked");
    }
}
