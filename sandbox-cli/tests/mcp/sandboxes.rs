//! Sandboxes that clients make, their files and artifacts.

use serde_json::{Value, json};

use crate::client::{Client, block_on, text};

pub fn files_stay_between_calls() {
    block_on(async {
        let mut client = Client::connect().await;
        let created = client.done("sandbox_create", json!({})).await;
        let lab = created["sandbox"].as_str().unwrap().to_owned();
        for (path, content) in [
            ("sub/a.txt", json!({ "text": "ä" })),
            ("b", json!({ "base64": "/w==" })),
        ] {
            let mut file = content;
            (file["sandbox"], file["path"]) = (json!(lab), json!(path));
            client.done("file_write", file).await;
        }
        let command = json!({ "sandbox": lab, "command": "cat a.txt", "workdir": "sub" });
        let result = client.done("sandbox_exec", command).await;
        assert_eq!(result["stdout"]["text"], "ä");
        let read = client
            .done("file_read", json!({ "sandbox": lab, "path": "b" }))
            .await;
        assert_eq!(read["base64"], "/w==");
        let listed = client.done("file_list", json!({ "sandbox": lab })).await;
        assert_eq!(listed["total"], 2, "{listed}");
        assert_eq!(listed["entries"][1]["kind"], "folder");

        // A long file is read in parts, and no character is cut.
        let command = "for i in $(seq 30000); do printf äöü; done > long";
        client
            .done(
                "sandbox_exec",
                json!({ "sandbox": lab, "command": command }),
            )
            .await;
        let (mut whole, mut offset) = (String::new(), json!(0));
        while !offset.is_null() {
            let part = json!({ "sandbox": lab, "path": "long", "offset": offset });
            let part = client.done("file_read", part).await;
            whole += part["text"].as_str().unwrap();
            offset = part["next_offset"].clone();
        }
        assert_eq!(whole, "äöü".repeat(30000));

        let missing = json!({ "sandbox": lab, "path": "missing" });
        let error = client.fails("file_read", missing).await;
        assert_eq!(error["kind"], "path");
        let both = json!({ "sandbox": lab, "path": "x", "text": "", "base64": "" });
        let error = client.fails("file_write", both).await;
        assert_eq!(error["kind"], "invalid_request");
        client.done("remove", json!({ "sandbox": lab })).await;
        let error = client.fails("file_list", json!({ "sandbox": lab })).await;
        assert_eq!(error["kind"], "sandbox_not_found");
    });
}

pub fn sandbox_has_resources() {
    block_on(async {
        let mut client = Client::connect().await;
        let created = client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        let command = json!({ "sandbox": "lab", "command": "echo logged" });
        client.done("sandbox_exec", command).await;
        let report = client.read(created["enforcement"].as_str().unwrap()).await;
        let report: Value = serde_json::from_str(report["text"].as_str().unwrap()).unwrap();
        assert_eq!(report["network_access"]["status"], "enforced", "{report}");
        let log = client.read("sandbox://sandboxes/lab/log").await;
        assert_eq!(log["text"], "logged\n");
        let listed = client.request("resources/list", json!({})).await;
        let listed = listed["result"]["resources"].as_array().unwrap();
        let mut uris = listed
            .iter()
            .map(|resource| resource["uri"].as_str().unwrap());
        assert!(uris.any(|uri| uri == "sandbox://sandboxes/lab/log"));
    });
}

pub fn artifact_survives_its_sandbox() {
    block_on(async {
        let mut client = Client::connect().await;
        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        let empty = client.call("export", json!({ "sandbox": "lab" })).await;
        assert_eq!(text(&empty), "no file matches /output/**");
        let command = "mkdir -p /output/sub; echo 1,2 > /output/sub/table.csv";
        let command = json!({ "sandbox": "lab", "command": command });
        client.done("sandbox_exec", command).await;
        let exported = client.done("export", json!({ "sandbox": "lab" })).await;
        let artifact = &exported["artifacts"][0];
        assert_eq!(artifact["source"], "/output/sub/table.csv", "{exported}");
        client.done("remove", json!({ "sandbox": "lab" })).await;
        let read = client.read(artifact["resource"].as_str().unwrap()).await;
        assert_eq!(read["text"], "1,2\n");
        assert_eq!(read["mimeType"], "text/csv");
    });
}

pub fn links_and_special_files_are_not_exported() {
    block_on(async {
        let mut client = Client::connect().await;
        let code =
            "mkdir -p /output; cd /output; ln -s /etc/passwd link; mkfifo pipe; echo 1 > file";
        let code = json!({ "language": "sh", "code": code });
        let result = client.call("run_code", code).await;
        let exported = &result["structuredContent"];
        assert_eq!(
            exported["artifacts"].as_array().unwrap().len(),
            1,
            "{exported}"
        );
        assert_eq!(
            exported["skipped"].as_array().unwrap().len(),
            2,
            "{exported}"
        );
        assert!(
            text(&result).contains("not exported: /output/link"),
            "{result}"
        );
    });
}

pub fn names_and_numbers_are_limited() {
    block_on(async {
        let mut client = Client::connect().await;
        let bad = json!({ "name": "../x" });
        let error = client.fails("sandbox_create", bad).await;
        assert_eq!(error["kind"], "invalid_spec");
        for number in 0..16 {
            let name = json!({ "name": format!("lab-{number}") });
            client.done("sandbox_create", name).await;
        }
        let error = client
            .fails("sandbox_create", json!({ "name": "lab-0" }))
            .await;
        assert_eq!(error["kind"], "already_exists");
        let error = client.fails("sandbox_create", json!({})).await;
        assert!(
            error["message"].as_str().unwrap().contains("limit"),
            "{error}"
        );
        client.done("remove", json!({ "sandbox": "lab-7" })).await;
        client.done("sandbox_create", json!({})).await;
    });
}

pub fn creation_decides_what_a_sandbox_has() {
    block_on(async {
        let mut client = Client::connect().await;
        let created = json!({ "name": "lab", "env": { "NAME": "value" }, "egress": [] });
        client.done("sandbox_create", created).await;
        let command = json!({ "sandbox": "lab", "command": "echo $NAME" });
        let result = client.done("sandbox_exec", command).await;
        assert_eq!(result["stdout"]["text"], "value\n");
        let code = json!({ "sandbox": "lab", "language": "sh", "code": "", "memory": "1MiB" });
        let error = client.fails("run_code", code).await;
        assert_eq!(error["kind"], "invalid_request");
    });
}
