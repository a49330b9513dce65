//! The server over HTTP.

use sandbox_testing::processes::{unique_seconds, with_argument};
use sandbox_testing::wait::wait_until_async;
use serde_json::{Value, json};

use crate::client::{SOON, block_on};
use crate::common::run_text;
use crate::http_client::{Listening, TOKEN, call, sessionless};

fn list_tools() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string()
}

/// These headers with another value of one; without it for an empty value.
fn with(
    headers: &[(&'static str, String)],
    name: &'static str,
    value: &str,
) -> Vec<(&'static str, String)> {
    let mut headers = headers.to_vec();
    headers.retain(|(other, _)| *other != name);
    if !value.is_empty() {
        headers.push((name, value.to_owned()));
    }
    headers
}

pub fn token_is_required() {
    block_on(async {
        let listening = Listening::start().await;
        let good = listening.headers();
        for wrong in ["", "Bearer", "Bearer 0123", &format!("Basic {TOKEN}")] {
            let headers = with(&good, "Authorization", wrong);
            for method in ["POST", "GET", "DELETE"] {
                let answer = listening
                    .exchange(method, "/mcp", &headers, &list_tools())
                    .await;
                assert_eq!(answer.0, 401, "{answer:?}");
                assert!(answer.1.contains("www-authenticate: Bearer"), "{answer:?}");
            }
        }
        listening.session().await;
    });
}

pub fn foreign_hosts_and_origins_are_refused() {
    block_on(async {
        let listening = Listening::start().await;
        let good = listening.headers();
        let port = listening.address.port();
        let other = port ^ 1;
        let (host, origin) = ("Host", "Origin");
        for (name, value, allowed) in [
            (host, "example.org".to_owned(), false),
            (host, format!("example.org:{port}"), false),
            (host, format!("127.0.0.1:{other}"), false),
            (host, format!("localhost:{port}"), true),
            (origin, "https://example.org".to_owned(), false),
            (origin, format!("http://localhost:{other}"), false),
            (origin, "null".to_owned(), false),
            (origin, format!("http://localhost:{port}"), true),
        ] {
            let headers = with(&good, name, &value);
            let answer = listening
                .exchange("POST", "/mcp", &headers, &list_tools())
                .await;
            assert_eq!(answer.0 != 403, allowed, "{name}: {value}: {answer:?}");
        }
    });
}

pub fn other_paths_are_not_found() {
    block_on(async {
        let listening = Listening::start().await;
        let headers = listening.headers();
        for path in [
            "/",
            "/mcp/",
            "/mcp2",
            "/.well-known/oauth-protected-resource",
        ] {
            assert_eq!(
                listening.exchange("GET", path, &headers, "").await.0,
                404,
                "{path}"
            );
        }
    });
}

pub fn address_of_other_machines_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let (code, _, stderr) = run_text(["mcp", "--http", address]);
        assert_eq!(code, Some(125), "{stderr}");
        let says = format!("{address} is reachable from other machines");
        assert!(stderr.contains(&says), "{stderr}");
    }
    block_on(async {
        Listening::start_at("127.0.0.2:0", &[]).await;
        Listening::start_at("0.0.0.0:0", &["--remote-host", "sandbox.example"]).await;
    });
}

fn is_error(answer: &(u16, Value)) -> bool {
    assert_eq!(answer.0, 200, "{answer:?}");
    answer.1["result"]["isError"].as_bool().expect("a result")
}

pub fn session_has_its_own_sandboxes() {
    block_on(async {
        let listening = Listening::start().await;
        let [one, two] = [listening.session().await, listening.session().await];
        let create = call("sandbox_create", json!({ "name": "lab" }));
        assert!(!is_error(&listening.post(&one, &create).await));
        let exec = call(
            "sandbox_exec",
            json!({ "sandbox": "lab", "command": "true" }),
        );
        assert!(!is_error(&listening.post(&one, &exec).await));
        assert!(is_error(&listening.post(&two, &exec).await));
        let arguments = json!({ "sandbox": "lab", "command": "true" });
        let (headers, message) = sessionless("sandbox_exec", arguments);
        assert!(is_error(&listening.post(&headers, &message).await));
        // The name of another session makes no difference without sessions.
        let headers = [headers.as_slice(), &one].concat();
        assert!(is_error(&listening.post(&headers, &message).await));
        let unknown = [("Mcp-Session-Id", "guessed".to_owned())];
        assert_eq!(listening.post(&unknown, &exec).await.0, 404);
    });
}

pub fn foreign_sandboxes_are_refused() {
    block_on(async {
        let listening = Listening::start().await;
        let [one, two] = [listening.session().await, listening.session().await];
        let create = call("sandbox_create", json!({ "name": "lab" }));
        assert!(!is_error(&listening.post(&one, &create).await));
        let other = Detached::create();
        for name in ["lab", &other.name, "../lab", ""] {
            for (tool, arguments) in [
                (
                    "sandbox_exec",
                    json!({ "sandbox": name, "command": "true" }),
                ),
                (
                    "run_code",
                    json!({ "sandbox": name, "language": "sh", "code": "true" }),
                ),
                (
                    "session_run",
                    json!({ "sandbox": name, "language": "python", "code": "1" }),
                ),
                (
                    "file_read",
                    json!({ "sandbox": name, "path": "/etc/passwd" }),
                ),
                ("export", json!({ "sandbox": name })),
                ("remove", json!({ "sandbox": name })),
            ] {
                let answer = listening.post(&two, &call(tool, arguments)).await;
                assert!(is_error(&answer), "{tool} {name}: {answer:?}");
                let error = &answer.1["result"]["structuredContent"]["error"];
                assert_eq!(error["kind"], "sandbox_not_found", "{tool} {name}");
            }
        }
        let read = json!({
            "jsonrpc": "2.0", "id": 3, "method": "resources/read",
            "params": { "uri": "sandbox://sandboxes/lab/log" },
        });
        let answer = listening.post(&two, &read).await;
        assert_eq!(answer.1["error"]["code"], -32002, "{answer:?}");
        // Names belong to their client.
        let remove = call("remove", json!({ "sandbox": "lab" }));
        for message in [&create, &remove] {
            assert!(!is_error(&listening.post(&two, message).await));
        }
        let alive = call(
            "sandbox_exec",
            json!({ "sandbox": "lab", "command": "true" }),
        );
        let answer = listening.post(&one, &alive).await;
        let result = &answer.1["result"]["structuredContent"];
        assert_eq!(result["exit_code"], 0, "{answer:?}");
    });
}

/// A sandbox of another program, until it is dropped.
struct Detached {
    name: String,
}

impl Detached {
    fn create() -> Self {
        let name = format!("other-{}", std::process::id());
        let (code, _, stderr) = run_text(["create", "--name", &name, "--ttl", "5m"]);
        assert_eq!(code, Some(0), "{stderr}");
        Self { name }
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        let (code, _, stderr) = run_text(["rm", &self.name]);
        assert!(code == Some(0) || std::thread::panicking(), "{stderr}");
    }
}

pub fn end_of_a_session_ends_its_processes() {
    block_on(async {
        let listening = Listening::start().await;
        let session = listening.session().await;
        let create = call("sandbox_create", json!({ "name": "lab" }));
        assert!(!is_error(&listening.post(&session, &create).await));
        let marker = unique_seconds();
        let arguments = json!({ "sandbox": "lab", "command": format!("sleep {marker}") });
        let headers = [listening.headers().as_slice(), &session].concat();
        let body = call("sandbox_exec", arguments).to_string();
        let _stream = listening.send("POST", "/mcp", &headers, &body).await;
        wait_until_async("it runs", SOON, async || !with_argument(&marker).is_empty()).await;
        let ended = listening.exchange("DELETE", "/mcp", &headers, "").await;
        assert!((200..300).contains(&ended.0), "{ended:?}");
        wait_until_async("it ends", SOON, async || with_argument(&marker).is_empty()).await;
    });
}

pub fn clients_without_sessions_share_sandboxes() {
    block_on(async {
        let listening = Listening::start().await;
        let (headers, create) = sessionless("sandbox_create", json!({ "name": "lab" }));
        let created = listening.post(&headers, &create).await;
        assert!(!is_error(&created));
        let lifetime = &created.1["result"]["structuredContent"]["lifetime_seconds"];
        assert_eq!(*lifetime, 3600.0, "{created:?}");
        let arguments = json!({ "sandbox": "lab", "command": "true" });
        let (headers, exec) = sessionless("sandbox_exec", arguments.clone());
        assert!(!is_error(&listening.post(&headers, &exec).await));
        let session = listening.session().await;
        let exec = call("sandbox_exec", arguments);
        assert!(is_error(&listening.post(&session, &exec).await));
    });
}

pub fn lost_connection_ends_a_call_without_a_session() {
    block_on(async {
        let listening = Listening::start().await;
        let marker = unique_seconds();
        let code = json!({ "language": "sh", "code": format!("sleep {marker}") });
        let (headers, message) = sessionless("run_code", code);
        let headers = [listening.headers(), headers].concat();
        let stream = listening
            .send("POST", "/mcp", &headers, &message.to_string())
            .await;
        wait_until_async("it runs", SOON, async || !with_argument(&marker).is_empty()).await;
        drop(stream);
        wait_until_async("it ends", SOON, async || with_argument(&marker).is_empty()).await;
    });
}
