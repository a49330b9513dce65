//! A client that writes and reads lines of JSON, and the server that it talks to.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::common::program;

/// The longest that a message may take: a server that hangs fails its test.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The longest that processes may take to start or to end.
pub const SOON: Duration = Duration::from_secs(30);

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// A client that has started the protocol, with a server of its own. The server ends with it, because
/// its input is closed.
pub struct Client {
    lines: Lines<BufReader<ChildStdout>>,
    write: ChildStdin,
    next_id: u64,
    server: Child,
}

impl Client {
    /// Connects without a word to a server with these options.
    pub fn silent(options: &[&str]) -> Self {
        let mut command = Command::new(program());
        let server = command
            .arg("mcp")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut server = server.unwrap();
        Self {
            lines: BufReader::new(server.stdout.take().unwrap()).lines(),
            write: server.stdin.take().unwrap(),
            next_id: 0,
            server,
        }
    }

    /// Connects to a server that has the default policy.
    pub async fn connect() -> Self {
        Self::connect_with(&[]).await
    }

    /// Connects to a server with these options.
    pub async fn connect_with(options: &[&str]) -> Self {
        let mut client = Self::silent(options);
        let answer = client.request("initialize", initialization()).await;
        assert_eq!(
            answer["result"]["serverInfo"]["name"], "sandbox",
            "{answer}"
        );
        client.notify("notifications/initialized", json!({})).await;
        client
    }

    /// Closes the connection. Returns the exit code of the server.
    pub async fn leave(self) -> Option<i32> {
        let Self {
            lines,
            write,
            mut server,
            ..
        } = self;
        drop((lines, write));
        let ended = tokio::time::timeout(TIME_LIMIT, server.wait()).await;
        ended.expect("no end in time").unwrap().code()
    }

    async fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.write.write_all(line.as_bytes()).await.unwrap();
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(&message).await;
    }

    /// Sends a request. Returns its number.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&message).await;
        id
    }

    pub async fn message(&mut self) -> Value {
        let line = tokio::time::timeout(TIME_LIMIT, self.lines.next_line()).await;
        let line = line.expect("no message in time").unwrap();
        serde_json::from_str(&line.expect("the server closed the connection")).unwrap()
    }

    /// Sends a request and returns the answer to it, which is the next message.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let message = self.message().await;
        assert_eq!(message["id"], id, "{message}");
        message
    }

    /// Calls a tool and returns its result.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let mut answer = self.request("tools/call", params).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// Calls a tool, which must not fail. Returns its structured content.
    pub async fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].take()
    }

    /// Calls a tool, which must fail. Returns the error.
    pub async fn fails(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        let error = result["structuredContent"]["error"].take();
        let (text, message) = (text(&result), error["message"].as_str().unwrap());
        assert!(text.starts_with(message), "{text}");
        error
    }

    /// The content of a resource.
    pub async fn read(&mut self, uri: &str) -> Value {
        let mut answer = self.request("resources/read", json!({ "uri": uri })).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"]["contents"][0].take()
    }
}

pub fn initialization() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    })
}

/// The text of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}
