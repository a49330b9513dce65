//! Bare pods: one container each, restricted only in its size.

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Config};
use sandbox::spi::unique_name;
use sandbox::{ByteSize, Cpus};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::OPTIONS;
use crate::environments::{Engine, FILE};
use crate::workload::{MeasureError, Measured, Timings, expect_bytes};

/// When the cluster ends a pod that was not removed, in seconds.
const LIFETIME: i64 = 3600;

/// The memory limit of a pod.
pub const MEMORY: ByteSize = ByteSize::mib(128);

/// The processor limit of a pod.
pub const CPUS: Cpus = Cpus::milli(250);

/// Pods, by direct calls of the Kubernetes API.
pub struct BarePods(Api<Pod>);

impl Engine for BarePods {
    /// The name of a pod.
    type Environment = String;

    fn name(_backend: &'static str) -> &'static str {
        "bare pod"
    }

    async fn connect(_backend: &'static str) -> Measured<Self> {
        let client = Client::try_from(Config::infer().await?)?;
        Ok(Self(Api::default_namespaced(client)))
    }

    /// Starts a pod that waits, and returns its name once it runs.
    async fn create(&self) -> Measured<String> {
        let name = unique_name("bench").to_ascii_lowercase();
        let limits = json!({
            "memory": MEMORY.as_u64().to_string(),
            "cpu": format!("{}m", CPUS.as_milli()),
        });
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{
                    "name": "bare",
                    "image": OPTIONS.image,
                    "imagePullPolicy": "Never",
                    "command": ["sleep", LIFETIME.to_string()],
                    "resources": {"requests": limits, "limits": limits},
                }],
                "automountServiceAccountToken": false,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "activeDeadlineSeconds": LIFETIME,
            },
        }))?;
        let pod = self.0.create(&PostParams::default(), &pod).await?;
        let version = pod.metadata.resource_version.unwrap_or_default();
        if let Err(error) = wait_until_running(&self.0, &name, &version).await {
            // The first error is the one to report. The cluster ends a pod that stays.
            let _ = self.remove(&name).await;
            return Err(error);
        }
        Ok(name)
    }

    async fn exec(&self, pod: &String, program: &[&str]) -> Measured<usize> {
        exec(&self.0, pod, program, None).await
    }

    /// Copies by executions, as `kubectl cp` does.
    async fn copy(&self, pod: &String, bytes: u64, timings: &mut Timings) -> Measured {
        let content = vec![7; bytes as usize];
        // The program counts, because not every server reports the end of standard input.
        let write = ["sh", "-c", &format!("head -c {bytes} > {FILE}")];
        let copy_in = exec(&self.0, pod, &write, Some(&content));
        timings.time("copy in", copy_in).await?;
        let copy_out = self.exec(pod, &["cat", FILE]);
        expect_bytes(timings.time("copy out", copy_out).await?, bytes)
    }

    async fn remove(&self, pod: &String) -> Measured {
        let parameters = DeleteParams::default().grace_period(0);
        self.0.delete(pod, &parameters).await?;
        Ok(())
    }
}

async fn wait_until_running(api: &Api<Pod>, name: &str, version: &str) -> Measured {
    // The server ends the watch after this time: the node may be full.
    let parameters = WatchParams::default().timeout(60);
    let parameters = parameters.fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&parameters, version).await?.boxed();
    let mut phase = None;
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Modified(pod) = event {
            phase = pod.status.and_then(|status| status.phase);
            match phase.as_deref() {
                Some("Running") => return Ok(()),
                Some("Failed" | "Succeeded") => break,
                _ => {}
            }
        }
    }
    let reason = format!("pod {name} does not run after at most 60 s; its phase: {phase:?}");
    Err(MeasureError::Failed(reason))
}

/// Runs a program in a pod to its end, and returns how many bytes it wrote.
async fn exec(
    api: &Api<Pod>,
    pod: &str,
    program: &[&str],
    input: Option<&[u8]>,
) -> Measured<usize> {
    let parameters = AttachParams::default().stdin(input.is_some());
    let process = api.exec(pod, program.iter().copied(), &parameters).await;
    let mut process = process?;
    if let (Some(input), Some(mut stdin)) = (input, process.stdin()) {
        stdin.write_all(input).await?;
        stdin.flush().await?;
    }
    let mut output = Vec::new();
    if let Some(mut stdout) = process.stdout() {
        stdout.read_to_end(&mut output).await?;
    }
    let status = match process.take_status() {
        Some(status) => status.await.and_then(|status| status.status),
        None => None,
    };
    match status.as_deref() {
        Some("Success") => Ok(output.len()),
        _ => Err(MeasureError::Failed(format!(
            "{program:?} ended with {status:?}"
        ))),
    }
}
