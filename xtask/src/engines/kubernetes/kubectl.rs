//! Asking a cluster with its own command.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::layout::{Layout, NODE};
use super::output;
use crate::failure::{Failure, Result};
use crate::programs;

/// How long a request may take.
const TIMEOUT: &str = "--request-timeout=5s";

/// The annotation of a node whose kubelet is not as it was released; the tier's profile has its value.
const KUBELET: &str = "sandbox.test/kubelet";

/// The command, for one cluster.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: String,
}

impl Kubectl {
    /// For the cluster that we start; `None` where the command was not built, or the cluster never started.
    pub fn new(layout: &Layout) -> Option<Self> {
        let kubeconfig = layout.kubeconfig();
        if !kubeconfig.exists() {
            return None;
        }
        Self::of(layout, &kubeconfig.display().to_string())
    }

    /// For another one. `None` where there is neither our command nor one of the system's.
    pub fn of(layout: &Layout, kubeconfig: &str) -> Option<Self> {
        let ours = layout.program("kubectl");
        let program = match ours.exists() {
            true => ours,
            false => programs::find("kubectl")?,
        };
        Some(Self {
            program,
            kubeconfig: kubeconfig.to_owned(),
        })
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .arg(TIMEOUT)
            .args(arguments);
        output(&mut command)
    }

    /// Whether the API server is ready.
    pub fn api_is_ready(&self) -> bool {
        self.run(&["get", "--raw", "/readyz"]).is_ok()
    }

    /// Whether our node takes pods.
    pub fn node_is_ready(&self) -> bool {
        const READY: &str = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        self.run(&["get", "node", NODE, "-o", READY])
            .is_ok_and(|text| text == "True")
    }

    /// Has our node say what is changed in its kubelet.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn annotate_node(&self, changed: &str) -> Result<()> {
        let annotation = format!("{KUBELET}={changed}");
        self.run(&["annotate", "node", NODE, "--overwrite", &annotation])
            .map(drop)
    }

    /// Whether pods can be made: they need their namespace's own account.
    pub fn has_default_account(&self) -> bool {
        self.run(&["-n", "default", "get", "serviceaccount", "default"])
            .is_ok()
    }

    /// Deletes every pod, as far as that goes: the runtime is emptied afterwards whatever comes of it. Gives the names of the folders
    /// with their logs.
    pub fn delete_all_pods(&self) -> Vec<String> {
        const FOLDERS: &str = "jsonpath={range .items[*]}{.metadata.namespace}_{.metadata.name}_{.metadata.uid} {end}";
        let pods = |format: &str| self.run(&["get", "pods", "-A", "-o", format]);
        let folders = pods(FOLDERS).unwrap_or_default();
        let folders = folders.split_whitespace().map(ToOwned::to_owned).collect();
        // One that is forced is forgotten before its kubelet has ended it, and taken its network back.
        let delete = ["delete", "pods", "--all", "-A", "--wait=false"];
        if let Err(failure) = self.run(&[&delete[..], &["--grace-period=1"]].concat()) {
            eprintln!("k8s: pods were not deleted, and are ended without: {failure}");
            return folders;
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10)
            && pods("name").is_ok_and(|names| !names.is_empty())
        {
            std::thread::sleep(Duration::from_millis(200));
        }
        folders
    }

    /// The servers' version, how many nodes there are, and the kernel and runtime of the first.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn describe(&self) -> Result<String> {
        let failed = |failure: Failure| {
            Failure::new(format!(
                "the cluster of {} does not answer: {failure}",
                self.kubeconfig
            ))
            .with_fix("cargo xtask engines up k8s, or set KUBECONFIG to another one")
        };
        let text = self.run(&["get", "--raw", "/version"]).map_err(failed)?;
        let version: Value =
            serde_json::from_str(&text).map_err(|error| failed(Failure::new(error.to_string())))?;
        let version = version["gitVersion"].as_str().unwrap_or("unknown version");
        // Not every account may look at nodes.
        let nodes = match self.run(&["get", "nodes", "-o", "json"]) {
            Ok(text) => nodes(&text),
            Err(_) => "nodes that this account may not look at".to_owned(),
        };
        Ok(format!("{version}, {nodes}"))
    }
}

/// How many nodes there are, and what the first is.
fn nodes(listed: &str) -> String {
    let listed: Value = serde_json::from_str(listed).unwrap_or_default();
    let nodes = listed["items"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = nodes.first() else {
        return "no node".to_owned();
    };
    let of = |name: &str| {
        let value = first["status"]["nodeInfo"][name].as_str();
        value.unwrap_or("unknown").to_owned()
    };
    let (kernel, runtime) = (of("kernelVersion"), of("containerRuntimeVersion"));
    match nodes.len() {
        1 => format!("one node with Linux {kernel} and {runtime}"),
        count => format!("{count} nodes, the first with Linux {kernel} and {runtime}"),
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn nodes_are_described_by_the_first() {
        let node = r#"{"status":{"nodeInfo":{"kernelVersion":"6.1","containerRuntimeVersion":"containerd://1"}}}"#;
        let list = |nodes: &str| super::nodes(&format!("{{\"items\":[{nodes}]}}"));
        assert_eq!(list(node), "one node with Linux 6.1 and containerd://1");
        let text = list(&format!("{node},{node}"));
        assert!(
            text.starts_with("2 nodes, the first with Linux 6.1"),
            "{text}"
        );
        assert_eq!(list(""), "no node");
        assert_eq!(super::nodes("not JSON"), "no node");
    }
}
