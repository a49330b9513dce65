//! Calls: their arguments, progress and end.

use sandbox_testing::processes::{unique_seconds, with_argument};
use sandbox_testing::wait::wait_until_async;
use serde_json::json;

use crate::client::{Client, SOON, block_on};

pub fn tools_are_listed() {
    block_on(async {
        let mut client = Client::connect().await;
        let answer = client.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
        let expected = [
            "run_code",
            "session_run",
            "sandbox_create",
            "sandbox_exec",
            "file_read",
            "file_write",
            "file_list",
            "export",
            "why",
            "remove",
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        for tool in &tools {
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        }
    });
}

pub fn unknown_tool_and_method_are_errors_of_the_protocol() {
    block_on(async {
        let mut client = Client::connect().await;
        let answer = client.request("tools/call", json!({ "name": "rm" })).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let answer = client.request("prompts/get", json!({ "name": "x" })).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        let answer = client
            .request("resources/read", json!({ "uri": "sandbox://nothing" }))
            .await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    });
}

pub fn unknown_arguments_are_refused() {
    block_on(async {
        let mut client = Client::connect().await;
        for (tool, arguments, says) in [
            (
                "run_code",
                json!({ "language": "sh", "code": "true", "netwrok": "full" }),
                "unknown field `netwrok`",
            ),
            (
                "run_code",
                json!({ "language": "sh" }),
                "missing field `code`",
            ),
            (
                "sandbox_exec",
                json!({ "sandbox": "x", "command": ["true"] }),
                "expected a string",
            ),
            ("why", json!({}), "missing field `subject`"),
        ] {
            let error = client.fails(tool, arguments).await;
            assert_eq!(error["kind"], "invalid_request");
            assert!(error["message"].as_str().unwrap().contains(says), "{error}");
        }
    });
}

pub fn silent_client_is_no_error() {
    block_on(async {
        assert_eq!(Client::silent(&[]).leave().await, Some(0));
    });
}

pub fn progress_is_reported_on_request() {
    block_on(async {
        let mut client = Client::connect().await;
        let marker = unique_seconds();
        let call = json!({
            "name": "run_code",
            "arguments": { "language": "sh", "code": format!("sleep {marker}") },
            "_meta": { "progressToken": "token-7" },
        });
        let id = client.send("tools/call", call).await;
        let mut last = 0.0;
        for _ in 0..2 {
            let message = client.message().await;
            assert_eq!(message["method"], "notifications/progress", "{message}");
            let params = &message["params"];
            assert_eq!(params["progressToken"], "token-7");
            let progress = params["progress"].as_f64().unwrap();
            assert!(progress > last && progress < params["total"].as_f64().unwrap());
            last = progress;
        }
        let cancelled = json!({ "requestId": id });
        client.notify("notifications/cancelled", cancelled).await;
        wait_until_async("the call ends", SOON, async || {
            with_argument(&marker).is_empty()
        })
        .await;
    });
}

pub fn cancelled_call_ends_its_processes() {
    block_on(async {
        let mut client = Client::connect().await;
        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        for arguments in [
            json!({ "sandbox": "lab", "language": "sh" }),
            json!({ "language": "sh" }),
        ] {
            let marker = unique_seconds();
            let mut arguments = arguments;
            arguments["code"] = json!(format!(
                "setsid sleep {marker} & while :; do sleep {marker}; done"
            ));
            let call = json!({ "name": "run_code", "arguments": arguments });
            let id = client.send("tools/call", call).await;
            wait_until_async("the tree runs", SOON, async || {
                with_argument(&marker).len() >= 2
            })
            .await;
            let cancelled = json!({ "requestId": id, "reason": "test" });
            client.notify("notifications/cancelled", cancelled).await;
            wait_until_async("the tree ends", SOON, async || {
                with_argument(&marker).is_empty()
            })
            .await;
        }
        // The sandbox is usable, and the cancelled calls have no answer.
        let command = json!({ "sandbox": "lab", "command": "echo alive" });
        let result = client.done("sandbox_exec", command).await;
        assert_eq!(result["stdout"]["text"], "alive\n");
    });
}

pub fn end_of_the_connection_ends_its_processes() {
    block_on(async {
        let mut client = Client::connect().await;
        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        let marker = unique_seconds();
        let arguments = json!({ "sandbox": "lab", "command": format!("sleep {marker}") });
        let call = json!({ "name": "sandbox_exec", "arguments": arguments });
        client.send("tools/call", call).await;
        wait_until_async("it runs", SOON, async || !with_argument(&marker).is_empty()).await;
        assert_eq!(client.leave().await, Some(0));
        wait_until_async("it ends", SOON, async || with_argument(&marker).is_empty()).await;
    });
}
