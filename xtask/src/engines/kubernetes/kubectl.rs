//! Asking a cluster with its own command.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::layout::{Layout, NODE};
use super::output;
use crate::failure::{Failure, Result};
use crate::programs;

/// How long a request may take.
const TIMEOUT: &str = "--request-timeout=5s";

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

    /// Whether pods can be made: they need their namespace's own account.
    pub fn has_default_account(&self) -> bool {
        self.run(&["-n", "default", "get", "serviceaccount", "default"])
            .is_ok()
    }

    /// Deletes every pod, as far as that goes: the runtime is emptied afterwards whatever comes of it.
    pub fn delete_all_pods(&self) {
        let deleted = self.run(&[
            "delete",
            "pods",
            "--all",
            "-A",
            "--grace-period=0",
            "--force",
        ]);
        if let Err(failure) = deleted {
            eprintln!("k8s: pods were not deleted, and are ended without: {failure}");
            return;
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10)
            && self
                .run(&["get", "pods", "-A", "-o", "name"])
                .is_ok_and(|names| !names.is_empty())
        {
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The servers' version, and how many nodes there are.
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
        let version: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| failed(Failure::new(error.to_string())))?;
        Ok(version["gitVersion"]
            .as_str()
            .unwrap_or("unknown version")
            .to_owned())
    }
}
