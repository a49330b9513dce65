//! `session_run`.

use sandbox_testing::processes::{unique_seconds, with_argument};
use sandbox_testing::wait::wait_until_async;
use serde_json::{Value, json};

use crate::client::{Client, SOON, block_on, text};

async fn lab() -> Client {
    let mut client = Client::connect().await;
    client
        .done("sandbox_create", json!({ "name": "lab" }))
        .await;
    client
}

fn cell(language: &str, code: &str) -> Value {
    json!({ "sandbox": "lab", "language": language, "code": code })
}

async fn keeps_state(language: &str, first: &str, second: &str) {
    let mut client = lab().await;
    let result = client.done("session_run", cell(language, first)).await;
    assert_eq!(result["outcome"]["kind"], "completed", "{result}");
    assert_eq!((&result["new"], &result["cell"]), (&json!(true), &json!(1)));
    let result = client.call("session_run", cell(language, second)).await;
    assert_eq!(
        text(&result),
        "out\nvalue:\n42\ncompleted\nsession kept",
        "{result}"
    );
    let result = &result["structuredContent"];
    assert_eq!(result["new"], false);
    assert_eq!(result["session"], "kept");
    assert_eq!(result["value"]["text"]["text"], "42");
    assert_eq!(result["stdout"]["text"], "out\n");

    let mut restarted = cell(language, second);
    restarted["restart"] = json!(true);
    let result = client.done("session_run", restarted).await;
    assert_eq!(result["outcome"]["kind"], "raised", "{result}");
    assert_eq!(result["new"], true);
}

pub fn python_keeps_its_variables() {
    block_on(keeps_state("python", "x = 6", "print('out')\nx * 7"));
}

pub fn javascript_keeps_its_variables() {
    block_on(keeps_state(
        "javascript",
        "const x = 6",
        "console.log('out')\nx * 7",
    ));
}

pub fn shell_keeps_its_variables() {
    block_on(async {
        let mut client = lab().await;
        client.done("session_run", cell("shell", "x=6; cd /")).await;
        let code = "echo $((x * 7)); pwd; echo wrong >&2; false";
        let result = client.call("session_run", cell("shell", code)).await;
        let said = "42\n/\nstderr:\nwrong\nfailed with status 1\nsession kept";
        assert_eq!(text(&result), said, "{result}");
        let outcome = &result["structuredContent"]["outcome"];
        assert_eq!(*outcome, json!({ "kind": "failed", "status": 1 }));
    });
}

pub fn failed_cell_is_a_result() {
    block_on(async {
        let mut client = lab().await;
        let result = client
            .call("session_run", cell("python", "import sys\n\n1 / 0"))
            .await;
        assert_eq!(result["isError"], false);
        assert!(text(&result).contains("\"<cell 1>\", line 3"), "{result}");
        let result = &result["structuredContent"];
        assert_eq!(result["raised"]["name"], "ZeroDivisionError");
        assert_eq!(result["session"], "kept");
        let mut asked = cell("python", "input()");
        asked["stdin"] = json!("a line\n");
        let result = client.done("session_run", asked).await;
        assert_eq!(result["value"]["text"]["text"], "'a line'");
    });
}

pub fn lost_variables_are_told() {
    block_on(async {
        let mut client = lab().await;
        let code =
            "import os, signal, time\nkept = 1\nsignal.signal(signal.SIGINT, signal.SIG_IGN)";
        client.done("session_run", cell("python", code)).await;
        let mut endless = cell(
            "python",
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)",
        );
        endless["timeout_seconds"] = json!(0.5);
        let result = client.call("session_run", endless).await;
        assert!(
            text(&result).contains("session restarted: 4 variables were lost (kept, os, "),
            "{result}"
        );
        let result = &result["structuredContent"];
        assert_eq!(result["outcome"]["kind"], "timed_out");
        assert_eq!(result["session"], "restarted");
        assert_eq!(result["lost"]["variables"], 4);
        let code = "'kept' in globals()";
        let result = client.done("session_run", cell("python", code)).await;
        assert_eq!(result["value"]["text"]["text"], "False");
        assert_eq!(
            (&result["session"], &result["lost"]),
            (&json!("kept"), &Value::Null)
        );

        let result = client
            .done("session_run", cell("python", "import os; os._exit(3)"))
            .await;
        assert_eq!(
            result["outcome"],
            json!({ "kind": "died", "outcome": { "kind": "exited", "code": 3 } })
        );
        assert_eq!(result["session"], "restarted");
    });
}

pub fn cancelled_cell_is_interrupted() {
    block_on(async {
        let mut client = lab().await;
        client.done("session_run", cell("python", "kept = 1")).await;
        let marker = unique_seconds();
        let code = format!("import subprocess\nsubprocess.run(['sleep', '{marker}'])");
        let call = json!({ "name": "session_run", "arguments": cell("python", &code) });
        let id = client.send("tools/call", call).await;
        wait_until_async("it runs", SOON, async || !with_argument(&marker).is_empty()).await;
        // A second cell waits for the first. Cancelled as well, it never begins.
        let call = json!({ "name": "session_run", "arguments": cell("python", "kept = 2") });
        let waiting = client.send("tools/call", call).await;
        for id in [waiting, id] {
            let cancelled = json!({ "requestId": id });
            client.notify("notifications/cancelled", cancelled).await;
        }
        wait_until_async("it ends", SOON, async || with_argument(&marker).is_empty()).await;
        let result = client.done("session_run", cell("python", "kept")).await;
        assert_eq!(result["value"]["text"]["text"], "1", "{result}");
        assert_eq!(result["lost_before"], Value::Null);
    });
}

pub fn displays_are_images_and_links() {
    block_on(async {
        let mut client = lab().await;
        let code = "import base64\n\
            png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\n\
            class Both:\n    \
                def __repr__(self): return 'both'\n    \
                def _repr_png_(self): return png\n    \
                def _repr_html_(self): return '<b>both</b>'\n\
            display(Both())\n\
            Both()";
        let result = client.call("session_run", cell("python", code)).await;
        let said = text(&result);
        assert!(
            said.starts_with("displays:\nboth\nvalue:\nboth\n"),
            "{result}"
        );
        let content = result["content"].as_array().unwrap();
        let of = |kind: &str| content.iter().filter(|part| part["type"] == *kind).count();
        assert_eq!((of("image"), of("resource_link")), (2, 2), "{result}");
        let value = &result["structuredContent"]["value"];
        assert_eq!(value["resources"]["image/png"], Value::Null);
        let html = client
            .read(value["resources"]["text/html"].as_str().unwrap())
            .await;
        assert_eq!(html["text"], "<b>both</b>");
        assert_eq!(html["mimeType"], "text/html");
    });
}

pub fn sessions_are_separate_and_limited() {
    block_on(async {
        let mut client = lab().await;
        let named = |name: &str, language: &str, code: &str| {
            let mut cell = cell(language, code);
            cell["session"] = json!(name);
            cell
        };
        client
            .done("session_run", named("a", "python", "x = 1"))
            .await;
        let other = named("b", "python", "'x' in globals()");
        let result = client.done("session_run", other).await;
        assert_eq!(result["value"]["text"]["text"], "False");
        let error = client
            .fails("session_run", named("a", "javascript", "1"))
            .await;
        assert_eq!(error["kind"], "invalid_request");
        let error = client.fails("session_run", cell("ruby", "1")).await;
        assert_eq!(error["kind"], "language_not_supported");
        let error = client.fails("session_run", named("", "python", "1")).await;
        assert_eq!(error["kind"], "invalid_request");
        for number in 2..8 {
            let name = format!("n{number}");
            client
                .done("session_run", named(&name, "python", "1"))
                .await;
        }
        let error = client.fails("session_run", named("c", "python", "1")).await;
        assert!(
            error["message"].as_str().unwrap().contains("limit"),
            "{error}"
        );
        // They end with their sandbox, and a new one of the same name has none.
        client.done("remove", json!({ "sandbox": "lab" })).await;
        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        let result = client.done("session_run", named("a", "python", "1")).await;
        assert_eq!(result["new"], true);
    });
}
