//! A test's own API server on the cluster's state. Killing it affects no other user.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use serde_json::Value;

use super::cluster::{self, client_of};

/// The longest wait for a new server to answer, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// An API server. Dropping it kills it.
pub struct FaultyServer {
    folder: tempfile::TempDir,
    program: String,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl FaultyServer {
    /// Starts a server on a free port, and waits until it answers.
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let described = cluster::api_server().expect("checked by missing()");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let own = [
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            // Pods keep using the cluster's own server.
            "--endpoint-reconciler-type=none".to_owned(),
        ];
        let names = own.each_ref().map(|option| name_of(option));
        let arguments = described["arguments"].as_array().expect("arguments");
        let arguments = arguments
            .iter()
            .filter_map(Value::as_str)
            .filter(|option| !names.contains(&name_of(option)))
            .map(ToOwned::to_owned)
            .chain(own.clone())
            .collect();
        let mut server = Self {
            program: described["program"].as_str().expect("a program").to_owned(),
            arguments,
            folder,
            child: None,
        };
        write_kubeconfig(&server.kubeconfig(), &format!("https://127.0.0.1:{port}"));
        server.resume().await;
        server
    }

    /// The administrator's kubeconfig for this server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Starts it again, and waits until it answers.
    pub async fn resume(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log");
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = self.child.insert(child.expect("an API server"));
        let client = client_of(&self.folder.path().join("kubeconfig")).await;
        let begin = Instant::now();
        loop {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            if namespaces
                .list(&ListParams::default().limit(1))
                .await
                .is_ok()
            {
                return;
            }
            let ended = child.try_wait().expect("a child");
            let log = std::fs::read_to_string(self.folder.path().join("log"));
            assert!(
                ended.is_none() && begin.elapsed() < START_TIMEOUT,
                "{ended:?}, no answer: {}",
                tail(&log.unwrap_or_default())
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
    }
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}

fn tail(log: &str) -> String {
    let lines = log.lines().collect::<Vec<_>>();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Writes the cluster's kubeconfig with another server.
pub fn write_kubeconfig(path: &Path, server: &str) {
    let own = cluster::kubeconfig().expect("checked by missing()");
    let config = Kubeconfig::read_from(own).expect("a configuration");
    let mut config = serde_json::to_value(config).expect("JSON");
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = server.into();
    if server.starts_with("http:") {
        // `kubectl proxy` authenticates itself.
        config["clusters"][0]["cluster"] = serde_json::json!({ "server": server });
        config["users"][0]["user"] = serde_json::json!({});
    }
    std::fs::write(path, config.to_string()).expect("written");
}
