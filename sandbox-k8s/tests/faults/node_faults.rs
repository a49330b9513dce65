//! A node's daemons that are killed during an execution and start again. All users of the node are
//! affected, so the tests only run if `SANDBOX_FAULTS_OWN_CLUSTER` is set.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, ExecRequest, Outcome};
use sandbox_host::process;
use serde_json::Value;
use tokio::time::timeout;

use super::cluster::{kubeconfig, run, spec};
use super::{ClusterTest, TestResult};
use crate::test_namespace::TestNamespace;

pub const TESTS: &[ClusterTest] = &[
    ("node::a_restarted_kubelet_runs_new_sandboxes", kubelet),
    ("node::a_restarted_runtime_runs_new_sandboxes", containerd),
];

/// Set if only this program uses the cluster.
const OWN: &str = "SANDBOX_FAULTS_OWN_CLUSTER";

/// The longest wait for an outcome or an error.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(150);

/// Why the tests cannot run; `None` if they can.
pub fn missing() -> Option<String> {
    std::env::var_os(OWN).is_none().then(|| {
        format!("{OWN} is not set: set it if only the tests use the cluster of KUBECONFIG")
    })
}

/// A daemon of the node.
struct Daemon {
    record: PathBuf,
    pid: u32,
    command: Vec<String>,
}

impl Daemon {
    /// The daemon that `cargo xtask engines up k8s` has recorded.
    fn find(name: &str) -> Self {
        let folder = kubeconfig().expect("checked by missing()");
        let records = folder.parent().and_then(Path::parent);
        let record = records.expect("a folder").join(format!("k8s-{name}.json"));
        let pid = read(&record)["process"]["pid"].as_u64().expect("a number");
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        let words = line.split(|byte| *byte == 0);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        let mut command = words.collect::<Vec<_>>();
        command.pop();
        Self {
            record,
            pid: u32::try_from(pid).expect("a process"),
            command,
        }
    }

    fn kill(&self) {
        let status = Command::new("kill")
            .args(["-KILL", &self.pid.to_string()])
            .status();
        assert!(status.expect("kill").success());
    }

    /// Starts it again and updates the record, so that it outlives the test.
    fn resume(&mut self) {
        let started = Command::new(&self.command[0])
            .args(&self.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        self.pid = started.expect("the daemon").id();
        let mut record = read(&self.record);
        record["process"]["pid"] = self.pid.into();
        record["process"]["start_ticks"] = process::start_of(self.pid).expect("it runs").into();
        std::fs::write(&self.record, record.to_string()).expect("written");
    }
}

fn read(record: &Path) -> Value {
    let text = std::fs::read_to_string(record).expect("a record");
    serde_json::from_str(&text).expect("JSON")
}

fn kubelet() -> TestResult {
    killed("kubelet")
}

fn containerd() -> TestResult {
    killed("containerd")
}

fn killed(name: &str) -> TestResult {
    run(async {
        let mut daemon = Daemon::find(name);
        let namespace = TestNamespace::new().await;
        let client = namespace.sandboxes();
        let sandbox = Arc::new(client.create(&spec()).await?);
        let script = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.5; done; exit 9";
        let other = sandbox.clone();
        let execution = tokio::spawn(async move { other.exec(&ExecRequest::shell(script)).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        daemon.kill();
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        daemon.resume();
        let end = timeout(OUTCOME_TIMEOUT, execution).await.expect("no hang");
        eprintln!("the execution: {:?}: {end:?}", begin.elapsed());
        let all = (0..40).map(|line| format!("{line}\n")).collect::<String>();
        match end.expect("no panic") {
            Ok(result) => match result.outcome {
                Outcome::Exited { code } => {
                    assert_eq!((code, &*result.stdout_text()), (9, &*all));
                }
                Outcome::Unknown { .. } => {
                    assert!(all.starts_with(&*result.stdout_text()), "{result:?}");
                }
                _ => panic!("{result:?}"),
            },
            Err(error) => assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}"),
        }
        drop(sandbox);
        // New sandboxes can be created again, once the daemon has started.
        let begin = Instant::now();
        let next = loop {
            match client.create(&spec()).await {
                Ok(next) => break next,
                Err(error) => assert!(begin.elapsed() < OUTCOME_TIMEOUT, "{error}"),
            }
        };
        assert_eq!(next.shell("exit 3").await?.exit_code(), Some(3));
        next.kill().await?;
        let has_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
        namespace
            .wait_for("after the restart", OUTCOME_TIMEOUT, has_ended)
            .await;
        namespace.wait_clean("after the restart").await?;
        Ok(())
    })
}
