//! A detached sandbox of a test, and the commands that use it.

use std::path::PathBuf;

use sandbox_testing::users::{current_user, is_root};
use serde_json::Value;

use crate::common;

/// A detached sandbox, removed when dropped.
pub struct DetachedSandbox {
    pub name: String,
}

impl DetachedSandbox {
    /// A unique name, without a sandbox.
    pub fn name(what: &str) -> Self {
        let name = format!("{what}-{}", common::unique_seconds().replace('.', "-"));
        Self { name }
    }

    /// Creates a sandbox with these options.
    pub fn create(what: &str, options: &[&str]) -> Self {
        let sandbox = Self::name(what);
        let arguments = [
            &["create", "--name", &sandbox.name, "--ttl", "2m", "-q"],
            options,
        ]
        .concat();
        let (code, stdout, stderr) = run(&arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert_eq!(stdout, format!("{}\n", sandbox.name));
        sandbox
    }

    pub fn exec(&self, command: &[&str]) -> (Option<i32>, String, String) {
        run(&[&["exec", &self.name, "--"], command].concat())
    }

    /// Runs a script that must succeed without a message. Returns its output.
    pub fn sh(&self, script: &str) -> String {
        let (code, stdout, stderr) = self.exec(&["sh", "-c", script]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{script}");
        stdout
    }

    /// Its entry in `sandbox ls`.
    pub fn listed(&self) -> Option<Value> {
        let (code, stdout, _) = run(&["ls", "-b", "local", "-o", "json"]);
        assert_eq!(code, Some(0));
        let list: Value = serde_json::from_str(&stdout).unwrap();
        let is_ours = |sandbox: &&Value| sandbox["name"] == self.name.as_str();
        list["sandboxes"]
            .as_array()
            .unwrap()
            .iter()
            .find(is_ours)
            .cloned()
    }

    /// The folder of its record.
    pub fn folder(&self) -> PathBuf {
        state_folder().join("sandboxes").join(&self.name)
    }

    /// The content of its record.
    pub fn record(&self) -> Value {
        let text = std::fs::read_to_string(self.folder().join("sandbox.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The process ID of its supervisor.
    pub fn supervisor(&self) -> u32 {
        u32::try_from(self.record()["parts"]["keeper"]["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for DetachedSandbox {
    fn drop(&mut self) {
        // Most tests have already removed it.
        let _ = run(&["rm", "-b", "local", &self.name]);
    }
}

/// Where the local backend keeps its records.
fn state_folder() -> PathBuf {
    if is_root() {
        return "/run/sandbox".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) => PathBuf::from(runtime).join("sandbox"),
        None => format!("/tmp/sandbox-{}", current_user()).into(),
    }
}

/// Runs the command. Returns its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    common::run_text(arguments)
}

/// Runs a command with `-o json` that must fail. Returns its error.
pub fn error(arguments: &[&str]) -> Value {
    let output = common::run(arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["error"].clone()
}
