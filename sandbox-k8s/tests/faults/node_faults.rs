//! A node's own daemons that are killed in the middle of an execution and start again. They belong to everybody on the node: this needs
//! a cluster that is the test's alone, and somebody who says so.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandbox_core::{ErrorKind, ExecRequest, Outcome};
use sandbox_host::process;
use serde_json::Value;
use tokio::time::timeout;

use super::cluster::{Space, kubeconfig, run, spec};
use super::{Done, Test};

pub const TESTS: &[Test] = &[
    ("node::the_kubelet_is_killed_and_comes_back", kubelet),
    ("node::the_runtime_is_killed_and_comes_back", containerd),
];

/// Says that the cluster is this program's alone.
const OWN: &str = "SANDBOX_FAULTS_OWN_CLUSTER";

/// The longest that anybody may be left without a word.
const BOUND: Duration = Duration::from_secs(150);

/// Why nothing can be killed here.
pub fn missing() -> Option<String> {
    std::env::var_os(OWN).is_none().then(|| {
        format!("{OWN} is not set: set it where nobody else uses the cluster of KUBECONFIG")
    })
}

/// One of the node's daemons.
struct Daemon {
    record: PathBuf,
    pid: u32,
    command: Vec<String>,
}

impl Daemon {
    /// The one of which `cargo xtask engines up k8s` has a record.
    fn find(name: &str) -> Self {
        let folder = kubeconfig().expect("looked at before");
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

    /// Starts it again. It stays, as the one of which there is a record.
    fn resume(&mut self) {
        let again = Command::new(&self.command[0])
            .args(&self.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        self.pid = again.expect("the daemon").id();
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

fn kubelet() -> Done {
    killed("kubelet")
}

fn containerd() -> Done {
    killed("containerd")
}

fn killed(name: &str) -> Done {
    run(async {
        let mut daemon = Daemon::find(name);
        let space = Space::make().await;
        let client = space.sandboxes();
        let sandbox = Arc::new(client.create(&spec()).await?);
        let script = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.5; done; exit 9";
        let other = sandbox.clone();
        let execution = tokio::spawn(async move { other.exec(&ExecRequest::shell(script)).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        daemon.kill();
        let begin = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        daemon.resume();
        let end = timeout(BOUND, execution).await.expect("no hang");
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
        // Another one is made as before.
        let begin = Instant::now();
        let next = loop {
            match client.create(&spec()).await {
                Ok(next) => break next,
                Err(error) => assert!(begin.elapsed() < BOUND, "{error}"),
            }
        };
        assert_eq!(next.shell("exit 3").await?.exit_code(), Some(3));
        next.kill().await?;
        let has_ended = |phase: &str| ["Succeeded", "Failed"].contains(&phase);
        space.wait_for("afterwards", BOUND, has_ended).await;
        space.is_clean("afterwards").await?;
        Ok(())
    })
}
