//! `kubectl proxy`, which offers the API server without TLS and authentication on loopback.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::cluster;

/// A running `kubectl proxy`. Dropping it ends it.
pub struct KubectlProxy {
    child: Child,
    pub port: u16,
}

impl KubectlProxy {
    /// Starts it at a free port of loopback.
    pub fn start() -> Self {
        let api_server = cluster::api_server().expect("checked by missing()");
        let program = api_server["program"].as_str().expect("a program");
        let mut child = Command::new(Path::new(program).with_file_name("kubectl"))
            // The default filter refuses executions.
            .args(["proxy", "--port=0", "--disable-filter=true"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let line = output.lines().next().expect("a line").expect("text");
        let port = line.rsplit(':').next().and_then(|port| port.parse().ok());
        Self {
            child,
            port: port.unwrap_or_else(|| panic!("no port: {line}")),
        }
    }
}

impl Drop for KubectlProxy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
