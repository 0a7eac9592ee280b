//! One request, sent once, and what became of it.
//!
//! Decides whether a request that was not answered can have been carried out: only if it can have
//! reached the server. Keeps the code and `Retry-After` of an answer, which kube's errors drop.

use std::error::Error;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Longest text of a server that is passed on.
const SAYS_MAX: usize = 500;

/// An answer of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// HTTP code.
    pub code: u16,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Body.
    pub body: Vec<u8>,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was answered.
    Answered(Reply),
    /// It never reached the server.
    Unsent(String),
    /// It may or may not have been carried out.
    Unknown(String),
}

/// The parts of a `Status` that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: u64,
}

impl Said {
    /// Whether it is what clients of the store say, which has no reason of its own. No object has a
    /// name with such words: messages contain those, too.
    fn is_of_store(&self) -> bool {
        let words = ["etcdserver: ", "rpc error: ", "deadline exceeded"];
        words.iter().any(|word| self.message.contains(word))
    }
}

impl Reply {
    /// Whether it was done.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether it leaves open if a write was carried out, or will be: what failed within the server
    /// or before it. A bind that its store did not answer is called a conflict.
    pub fn is_in_doubt(&self) -> bool {
        self.code >= 500 || self.code == 408 || self.code == 409 && self.said().is_of_store()
    }

    /// Whether it is the API server's own word that it failed: it is done with it, and a reading
    /// shows whether it was carried out. What its store did not answer in time may be later; that
    /// is told by words alone where there is no reason.
    pub fn is_failure(&self) -> bool {
        let said = self.said();
        self.code == 500
            && match &*said.reason {
                // An admission webhook that is not there, keys that cannot be had.
                "InternalError" => true,
                "" => !said.message.is_empty() && !said.is_of_store(),
                // `ServerTimeout` is of the store.
                _ => false,
            }
    }

    fn said(&self) -> Said {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The object in it.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("unreadable answer: {error}"))
    }

    /// The server's words, with its code.
    pub fn says(&self) -> String {
        let said = serde_json::from_slice::<Said>(&self.body).map(|said| said.message);
        let text = said.unwrap_or_else(|_| String::from_utf8_lossy(&self.body).into_owned());
        let short: String = text.trim().chars().take(SAYS_MAX).collect();
        if short.is_empty() {
            format!("code {}", self.code)
        } else {
            format!("{short} ({})", self.code)
        }
    }
}

/// Sends a request, once.
pub async fn call(client: &Client, request: Request<Vec<u8>>) -> Fate {
    let answer = match client.send(request.map(Body::from)).await {
        Ok(answer) => answer,
        Err(error) if unsent(&error) => return Fate::Unsent(chain(&error)),
        Err(error) => return Fate::Unknown(chain(&error)),
    };
    let code = answer.status().as_u16();
    let header = answer.headers().get(http::header::RETRY_AFTER);
    let seconds = header.and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let body = match answer.into_body().collect_bytes().await {
        Ok(body) => Vec::from(body),
        // The code is the answer; what it says is lost, and is asked for again if it matters.
        Err(_) => Vec::new(),
    };
    let seconds = seconds.or_else(|| {
        let said = serde_json::from_slice::<Said>(&body).ok().filter(|_| code >= 400)?;
        Some(said.details?.retry_after_seconds).filter(|seconds| *seconds > 0)
    });
    Fate::Answered(Reply { code, retry_after: seconds.map(Duration::from_secs), body })
}

/// No connection was made, or the request was never built: the server has seen nothing.
fn unsent(error: &kube::Error) -> bool {
    if let kube::Error::Auth(_) | kube::Error::BuildRequest(_) = error {
        return true;
    }
    let transport = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|e| e.is_connect())
    };
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if transport(error) {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error with its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use crate::client::Clients;
    use crate::client::bucket::Bucket;

    fn client(port: u16) -> Client {
        let url = format!("http://127.0.0.1:{port}").parse().expect("address");
        let config = kube::Config::new(url);
        Clients::of(&config, &Bucket::unlimited()).expect("clients").writes
    }

    fn request() -> Request<Vec<u8>> {
        Request::post("/api/v1/namespaces/a/pods/b/binding").body(vec![b'x']).expect("request")
    }

    /// A server that reads a request, says this, and hangs up.
    fn server(says: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(says.as_bytes());
        });
        port
    }

    fn reply(code: u16, reason: &str, message: &str) -> Reply {
        let body = serde_json::json!({ "reason": reason, "message": message });
        Reply { code, retry_after: None, body: body.to_string().into_bytes() }
    }

    #[test]
    fn a_conflict_that_the_store_did_not_answer_leaves_a_bind_in_doubt() {
        let of = |why: &str| {
            let text = format!("Operation cannot be fulfilled on pods/binding \"p\": {why}");
            reply(409, "Conflict", &text).is_in_doubt()
        };
        assert!(of("etcdserver: request timed out"));
        assert!(!of("pod etcdserver-0 is already assigned to node \"n\""));
        assert!(reply(503, "", "").is_in_doubt() && reply(408, "", "").is_in_doubt());
        assert!(!reply(404, "NotFound", "etcdserver: not found").is_in_doubt());
    }

    #[test]
    fn what_failed_is_told_from_what_may_be_done_later() {
        let webhook = "Internal error occurred: failed calling webhook \"vjob.kb.io\": failed to \
            call webhook: Post \"https://a.b.svc\": context deadline exceeded";
        let later = "The update operation against pods could not be completed at this time, please \
            try again.";
        for (code, reason, says, failure) in [
            (500, "InternalError", webhook, true),
            (500, "", "a fault", true),
            (500, "", "", false),
            (500, "ServerTimeout", later, false),
            (500, "", "etcdserver: request timed out", false),
            (500, "", "rpc error: code = Unavailable desc = error reading from server: EOF", false),
            (500, "", "context deadline exceeded", false),
            (503, "ServiceUnavailable", webhook, false),
            (403, "Forbidden", webhook, false),
        ] {
            let reply = reply(code, reason, says);
            assert_eq!(reply.is_failure(), failure, "{code} {says}");
        }
        let of_others = Reply { code: 500, retry_after: None, body: b"<html>".to_vec() };
        assert!(!of_others.is_failure());
    }

    #[tokio::test]
    async fn without_a_connection_nothing_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let fate = call(&client(port), request()).await;
        assert!(matches!(&fate, Fate::Unsent(why) if why.contains("refused")), "{fate:?}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_leaves_the_fate_unknown() {
        let fate = call(&client(server("")), request()).await;
        assert!(matches!(fate, Fate::Unknown(_)), "{fate:?}");
    }

    #[tokio::test]
    async fn code_and_pause_of_an_answer_are_kept() {
        let plain =
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nbusy";
        let Fate::Answered(reply) = call(&client(server(plain)), request()).await else {
            panic!("no answer");
        };
        assert_eq!((reply.code, reply.retry_after), (429, Some(Duration::from_secs(7))));
        assert_eq!(reply.says(), "busy (429)");
        let status = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 58\r\n\r\n\
            {\"message\":\"not now\",\"details\":{\"retryAfterSeconds\":3}}   ";
        let Fate::Answered(reply) = call(&client(server(status)), request()).await else {
            panic!("no answer");
        };
        assert_eq!((reply.code, reply.retry_after), (503, Some(Duration::from_secs(3))));
        assert_eq!(reply.says(), "not now (503)");
    }
}
