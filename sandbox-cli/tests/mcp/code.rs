//! `run_code`.

use sandbox_testing::processes::{unique_seconds, with_argument};
use serde_json::json;

use crate::client::{Client, block_on, text};

/// Writes a PNG of one red point without a library.
const IMAGE: &str = "
import os, struct, zlib
def chunk(kind, data):
    crc = zlib.crc32(kind + data)
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', crc)
png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0))
png += chunk(b'IDAT', zlib.compress(b'\\0\\xff\\0\\0')) + chunk(b'IEND', b'')
os.makedirs('/output', exist_ok=True)
open('/output/red.png', 'wb').write(png)
open('/output/table.csv', 'w').write('a,b\\n')
";

pub fn python_runs_in_a_new_sandbox() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({ "language": "python", "code": "print(6 * 7)" });
        let result = client.call("run_code", code).await;
        assert_eq!(text(&result), "42\nexited with code 0");
        let result = &result["structuredContent"];
        assert_eq!(result["stdout"]["text"], "42\n");
        assert_eq!(result["exit_code"], 0);
        assert_eq!(result["ran"], true);
    });
}

pub fn failed_program_is_a_result() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({ "language": "sh", "code": "echo no >&2; exit 3" });
        let result = client.call("run_code", code).await;
        assert_eq!(result["isError"], false);
        assert_eq!(text(&result), "stderr:\nno\nexited with code 3");
        let result = &result["structuredContent"];
        assert_eq!(result["outcome"], json!({ "kind": "exited", "code": 3 }));
        let code = json!({ "language": "sh", "code": "kill -9 $$" });
        let result = client.done("run_code", code).await;
        assert_eq!(result["exit_code"], json!(null));
        assert_eq!(result["outcome"]["kind"], "signaled");
    });
}

pub fn time_limit_ends_the_processes() {
    block_on(async {
        let mut client = Client::connect().await;
        let marker = unique_seconds();
        let code = format!("echo started; setsid sleep {marker} & sleep {marker}");
        let code = json!({ "language": "sh", "code": code, "timeout_seconds": 1.5 });
        let result = client.done("run_code", code).await;
        assert_eq!(result["outcome"]["kind"], "timed_out");
        assert_eq!(result["stdout"]["text"], "started\n");
        assert_eq!(result["timeout_ms"], 1500.0);
        assert_eq!(with_argument(&marker), [0; 0]);
    });
}

pub fn long_output_is_a_resource() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({ "language": "sh", "code": "seq 1 20000; seq 5 >&2" });
        let result = client.call("run_code", code).await;
        let whole = (1..=20000).map(|n| format!("{n}\n")).collect::<String>();
        let stdout = &result["structuredContent"]["stdout"];
        assert_eq!(stdout["bytes"], whole.len());
        let shown = stdout["text"].as_str().unwrap();
        let uri = stdout["resource"].as_str().unwrap();
        assert!(shown.starts_with("1\n2\n") && shown.ends_with("\n20000\n"));
        assert!(shown.len() < 17_000 && shown.contains(uri), "{shown}");
        assert_eq!(result["content"][1]["type"], "resource_link");
        assert_eq!(result["content"][1]["uri"], uri);
        assert_eq!(
            result["structuredContent"]["stderr"]["resource"],
            json!(null)
        );
        assert_eq!(client.read(uri).await["text"], whole);
    });
}

pub fn unknown_language_is_an_error() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({ "language": "cobol", "code": "x" });
        let error = client.fails("run_code", code).await;
        assert_eq!(error["kind"], "language_not_supported");
        assert!(error["fix"].as_str().unwrap().contains("python"), "{error}");
    });
}

pub fn images_are_returned_inline() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({ "language": "python", "code": IMAGE });
        let result = client.call("run_code", code).await;
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
        let content = result["content"].as_array().unwrap();
        let kinds = content.iter().map(|part| part["type"].as_str().unwrap());
        let expected = ["text", "resource_link", "resource_link", "image"];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
        assert_eq!(content[3]["mimeType"], "image/png");
        assert_eq!(content[1]["name"], "red.png");
        let image = client.read(content[1]["uri"].as_str().unwrap()).await;
        assert_eq!(image["blob"], content[3]["data"]);
        let table = client.read(content[2]["uri"].as_str().unwrap()).await;
        assert_eq!(table["text"], "a,b\n");

        client
            .done("sandbox_create", json!({ "name": "lab" }))
            .await;
        let code = json!({ "sandbox": "lab", "language": "python", "code": IMAGE });
        client.done("run_code", code).await;
        let path = json!({ "sandbox": "lab", "path": "/output/red.png" });
        let read = client.call("file_read", path).await;
        assert_eq!(read["content"][1]["data"], content[3]["data"]);
    });
}

pub fn files_arguments_and_input_reach_the_program() {
    block_on(async {
        let mut client = Client::connect().await;
        let code = json!({
            "language": "python",
            "code": "import sys\nprint(open('in.txt').read(), sys.argv[1:], sys.stdin.read())",
            "files": { "in.txt": "file" },
            "args": ["one", "--two"],
            "stdin": "input",
        });
        let result = client.done("run_code", code).await;
        let stdout = &result["stdout"]["text"];
        assert_eq!(*stdout, "file ['one', '--two'] input\n", "{result}");
    });
}
