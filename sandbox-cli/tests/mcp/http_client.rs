//! A client over HTTP that writes requests by hand.

use std::net::SocketAddr;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::client::initialization;
use crate::common::program;

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server that listens, until it is dropped.
pub struct Listening {
    pub address: SocketAddr,
    server: Child,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let id = self
            .server
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        // It may have ended.
        let _ = id.map(|id| kill_process(id, Signal::TERM));
    }
}

impl Listening {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0", &[]).await
    }

    /// A server that listens at this address, with further options.
    pub async fn start_at(address: &str, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        let server = command
            .args(["mcp", "--http", address])
            .args(options)
            .env("SANDBOX_MCP_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut server = server.unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("a line");
        let url = line.strip_prefix("sandbox: serving http://");
        let address = url.and_then(|url| url.strip_suffix("/mcp"));
        Self {
            address: address.expect(&line).parse().unwrap(),
            server,
        }
    }

    /// The headers of a good request.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Host", self.address.to_string()),
            ("Authorization", format!("Bearer {TOKEN}")),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
        ]
    }

    /// Sends a request and returns the stream of its answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> TcpStream {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a request. Returns the status, and the whole answer as text.
    pub async fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> (u16, String) {
        let mut stream = self.send(method, path, headers, body).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer)
    }

    /// Posts a request of the protocol with these further headers. Returns the status and the
    /// message of the answer.
    pub async fn post(&self, more: &[(&'static str, String)], message: &Value) -> (u16, Value) {
        let headers = [&self.headers(), more].concat();
        let message = message.to_string();
        let (status, answer) = self.exchange("POST", "/mcp", &headers, &message).await;
        let found = answer.lines().find_map(|line| {
            let data = line.strip_prefix("data: ").unwrap_or(line);
            data.starts_with('{')
                .then(|| serde_json::from_str(data).unwrap())
        });
        (status, found.unwrap_or(Value::Null))
    }

    /// Starts a session. Returns its header.
    pub async fn session(&self) -> [(&'static str, String); 1] {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialization(),
        });
        let body = initialize.to_string();
        let headers = self.headers();
        let (status, answer) = self.exchange("POST", "/mcp", &headers, &body).await;
        assert_eq!(status, 200, "{answer}");
        let id = answer
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        let session = [("Mcp-Session-Id", id.expect("a session").to_owned())];
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(&session, &initialized).await.0, 202);
        session
    }
}

/// A call of a tool, for clients with a session.
pub fn call(tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })
}

/// A call of a tool in the version of the protocol without sessions, and its headers.
pub fn sessionless(tool: &str, arguments: Value) -> (Vec<(&'static str, String)>, Value) {
    let mut message = call(tool, arguments);
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = vec![
        ("MCP-Protocol-Version", "2026-07-28".to_owned()),
        ("Mcp-Method", "tools/call".to_owned()),
        ("Mcp-Name", tool.to_owned()),
    ];
    (headers, message)
}
