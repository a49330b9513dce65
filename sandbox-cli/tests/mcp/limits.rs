//! What a call may ask for.

use serde_json::{Value, json};

use crate::client::{Client, block_on};

async fn assert_exceeded(client: &mut Client, tool: &str, arguments: Value, says: &str) {
    let error = client.fails(tool, arguments).await;
    assert_eq!(error["kind"], "policy_exceeded", "{error}");
    assert!(error["message"].as_str().unwrap().contains(says), "{error}");
}

pub fn wider_requests_are_refused() {
    block_on(async {
        let mut client = Client::connect().await;
        let code =
            |field: &str, value: Value| json!({ "language": "sh", "code": "", field: value });
        let egress = json!(["example.org:443"]);
        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        for (tool, arguments, says) in [
            ("run_code", code("egress", egress.clone()), "no network"),
            ("sandbox_create", json!({ "egress": egress }), "no network"),
            // Nobody set this limit: the default is one too.
            ("run_code", code("memory", json!("1GiB")), "512MiB"),
            ("sandbox_create", json!({ "memory": "1GiB" }), "512MiB"),
            ("sandbox_create", json!({ "cpus": 2 }), "cpus"),
            ("run_code", code("timeout_seconds", json!(31)), "30s"),
            (
                "session_run",
                json!({ "sandbox": "lab", "language": "python", "code": "", "timeout_seconds": 31 }),
                "30s",
            ),
            ("run_code", code("libraries", json!(["numpy"])), ""),
            ("sandbox_create", json!({ "packages": ["numpy"] }), "numpy"),
        ] {
            if tool == "run_code" && says.is_empty() {
                let code = json!({ "language": "python", "code": "", "libraries": ["numpy"] });
                assert_exceeded(&mut client, tool, code, "numpy").await;
            } else {
                assert_exceeded(&mut client, tool, arguments, says).await;
            }
        }
        let resources = client.request("resources/list", json!({})).await;
        let resources = resources["result"]["resources"].as_array().unwrap().len();
        assert_eq!(resources, 4, "no other sandbox was made");
    });
}

pub fn options_are_a_limit_too() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.toml");
        let rules = "version = 1\nnetwork = { allow = [\"*.example.org:443\"] }\n";
        std::fs::write(&policy, rules).unwrap();
        let mut client = Client::connect_with(&[
            "--policy",
            policy.to_str().unwrap(),
            "--memory",
            "64MiB",
            "--allow-host",
            "a.example.org:443",
        ])
        .await;
        for (arguments, says) in [
            (json!({ "memory": "65MiB" }), "64MiB"),
            (json!({ "egress": ["b.example.org:443"] }), "b.example.org"),
        ] {
            assert_exceeded(&mut client, "sandbox_create", arguments, says).await;
        }
        let why = json!({ "subject": "b.example.org:443" });
        let why = client.done("why", why).await;
        assert_eq!(why["decisions"][0]["allowed"], false, "{why}");
    });
}

pub fn reasons_are_explained() {
    block_on(async {
        let mut client = Client::connect_with(&["--read", "/usr/share"]).await;
        let why = client
            .done("why", json!({ "subject": "/usr/share/x" }))
            .await;
        assert_eq!(why["decisions"][0]["allowed"], true);
        assert_eq!(
            why["decisions"][0]["rule"],
            "filesystem_read_roots = /usr/share"
        );
        let path = json!({ "subject": "/usr/share/../../etc/passwd" });
        let why = client.done("why", path).await;
        assert_eq!(why["decisions"][0]["allowed"], false, "{why}");
        let why = client
            .done("why", json!({ "subject": "example.org" }))
            .await;
        assert_eq!(why["decisions"][0]["rule"], "network = none");
        let error = client.fails("why", json!({ "subject": "" })).await;
        assert!(!error["message"].as_str().unwrap().is_empty());
    });
}

pub fn resources_tell_the_policy_and_the_host() {
    block_on(async {
        let mut client = Client::connect().await;
        let document = client.read("sandbox://policy").await;
        let document: Value = serde_json::from_str(document["text"].as_str().unwrap()).unwrap();
        assert_eq!(document["tier"], "local");
        assert_eq!(document["policy"]["memory"], "512MiB");
        assert_eq!(document["policy"]["network"], "none");
        let document = client.read("sandbox://host").await;
        let document: Value = serde_json::from_str(document["text"].as_str().unwrap()).unwrap();
        assert_eq!(document["answer"], "accepted");
    });
}
