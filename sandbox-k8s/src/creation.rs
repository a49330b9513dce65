//! Creates objects in the cluster.

use std::fmt::Debug;
use std::time::Duration;

use kube::Api;
use kube::api::PostParams;
use kube::core::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::requests::spread;

/// Attempts while concurrent changes of a quota make the server give up.
const ATTEMPTS: u32 = 8;

/// The pause after the first attempt; attempt n waits n times as long.
const PAUSE: Duration = Duration::from_millis(100);

/// Creates an object. When many objects are created at once under a quota, a server may fail to
/// update it. Nothing was created then, so the request is repeated.
///
/// # Errors
///
/// Errors of the cluster.
pub(crate) async fn create<K>(objects: &Api<K>, object: &K) -> kube::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    for attempt in 1..ATTEMPTS {
        match objects.create(&PostParams::default(), object).await {
            Err(kube::Error::Api(status)) if is_miscounted(&status) => {
                tokio::time::sleep(spread(PAUSE * attempt)).await;
            }
            done => return done,
        }
    }
    objects.create(&PostParams::default(), object).await
}

/// Whether an object of this name exists already.
pub(crate) fn is_taken(status: &Status) -> bool {
    status.code == 409 && status.reason == "AlreadyExists"
}

/// Whether the server failed because the quota changed at the same time.
fn is_miscounted(status: &Status) -> bool {
    status.code == 409 && status.reason == "Conflict" && status.message.contains("quotas")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn refusal(reason: &str, message: &str) -> String {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": 409, "reason": reason, "message": message,
        })
        .to_string()
    }

    /// Runs `create` against a server with these answers, one per connection. Returns the result
    /// and the number of requests.
    async fn answered(answers: Vec<(&'static str, String)>) -> (kube::Result<Pod>, usize) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = async {
            let mut asked = 0;
            for (status, body) in &answers {
                let (mut socket, _) = listener.accept().await.expect("a client");
                asked += 1;
                let mut request = [0; 4096];
                let read = socket.read(&mut request).await.expect("a request");
                assert!(request[..read].starts_with(b"POST "));
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                let sent = socket.write_all(answer.as_bytes()).await;
                sent.expect("an answer");
            }
            asked
        };
        let uri = format!("http://{address}").parse().expect("an address");
        let mut config = kube::Config::new(uri);
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        let pods = Api::namespaced(client, "space");
        let pod = Pod::default();
        let both = async { tokio::join!(create(&pods, &pod), server) };
        let bounded = tokio::time::timeout(Duration::from_secs(30), both);
        bounded.await.expect("as many requests as answers")
    }

    #[tokio::test]
    async fn creation_is_retried_after_quota_conflict() {
        let changed = "Operation cannot be fulfilled on resourcequotas \"few\": the object has been modified; please apply your changes to the latest version and try again";
        let changed = ("409 Conflict", refusal("Conflict", changed));
        let created = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "created"}});
        let created = ("201 Created", created.to_string());
        let (done, asked) = answered(vec![changed.clone(), changed, created]).await;
        let name = done.expect("created").metadata.name;
        assert_eq!((name.as_deref(), asked), (Some("created"), 3));
    }

    #[tokio::test]
    async fn existing_name_is_not_retried() {
        let taken = refusal("AlreadyExists", "pods \"x\" already exists");
        let (done, asked) = answered(vec![("409 Conflict", taken)]).await;
        match done {
            Err(kube::Error::Api(status)) => assert!(is_taken(&status), "{status:?}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(asked, 1);
    }
}
