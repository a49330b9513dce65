//! Bare pods: one container each, restricted only in its size.

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Config};
use sandbox::spi::unique_name;
use sandbox::{ByteSize, Cpus};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::workload::{Choices, Contender, MeasureError, Timings, Workload, expect_bytes, timed};

/// When the cluster ends a pod that was not removed, in seconds.
const LIFETIME: i64 = 3600;

/// The memory limit of a pod.
pub const MEMORY: ByteSize = ByteSize::mib(128);

/// The processor limit of a pod.
pub const CPUS: Cpus = Cpus::milli(250);

/// Pods, by direct calls of the Kubernetes API.
pub struct BarePods {
    /// How many bytes a transfer moves.
    bytes: u64,
    api: Option<Api<Pod>>,
    /// The name of the pod that runs until the end of the benchmark.
    warm: Option<String>,
}

impl BarePods {
    /// Connects when first needed.
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            api: None,
            warm: None,
        }
    }

    async fn api(&mut self) -> Result<Api<Pod>, MeasureError> {
        if let Some(api) = &self.api {
            return Ok(api.clone());
        }
        let config = Config::infer().await?;
        let api = Api::default_namespaced(Client::try_from(config)?);
        Ok(self.api.insert(api).clone())
    }

    async fn warm(&mut self, api: &Api<Pod>) -> Result<String, MeasureError> {
        if let Some(name) = &self.warm {
            return Ok(name.clone());
        }
        let name = start(api).await?;
        Ok(self.warm.insert(name).clone())
    }

    /// Copies by executions, as `kubectl cp` does.
    async fn copy(&self, api: &Api<Pod>, pod: &str) -> Timings {
        let bytes = self.bytes;
        let content = vec![7; bytes as usize];
        // The program counts, because not every server reports the end of standard input.
        let write = format!("head -c {bytes} > /tmp/file");
        let write = ["sh", "-c", &write];
        let (_, copy_in) = timed(exec(api, pod, &write, Some(&content))).await?;
        let (received, copy_out) = timed(exec(api, pod, &["cat", "/tmp/file"], None)).await?;
        expect_bytes(received, bytes)?;
        exec(api, pod, &["rm", "/tmp/file"], None).await?;
        Ok(vec![("copy in", copy_in), ("copy out", copy_out)])
    }
}

#[async_trait(?Send)]
impl Contender for BarePods {
    fn name(&self) -> &'static str {
        "bare pod"
    }

    async fn run(&mut self, workload: Workload) -> Timings {
        let api = &self.api().await?;
        let elapsed = match workload {
            Workload::OneShot => timed(run_to_end(api)).await?.1,
            Workload::Create => {
                let (pod, create) = timed(start(api)).await?;
                let ((), remove) = timed(remove(api, &pod)).await?;
                return Ok(vec![("create", create), ("remove", remove)]);
            }
            Workload::Copy => {
                let pod = self.warm(api).await?;
                return self.copy(api, &pod).await;
            }
            Workload::Output => {
                let (pod, bytes) = (self.warm(api).await?, self.bytes);
                let program = ["head", "-c", &bytes.to_string(), "/dev/zero"];
                let (received, elapsed) = timed(exec(api, &pod, &program, None)).await?;
                expect_bytes(received, bytes)?;
                elapsed
            }
            Workload::WarmCell | Workload::ForkedCell | Workload::Claim => {
                unreachable!("it supports none of them")
            }
            Workload::WarmExec => {
                let pod = self.warm(api).await?;
                timed(exec(api, &pod, &["true"], None)).await?.1
            }
        };
        Ok(vec![(workload.measurement(), elapsed)])
    }

    async fn finish(&mut self) -> Result<(), MeasureError> {
        match (&self.api, self.warm.take()) {
            (Some(api), Some(pod)) => remove(api, &pod).await,
            _ => Ok(()),
        }
    }
}

/// Starts a pod, runs `true` in it, and removes it.
async fn run_to_end(api: &Api<Pod>) -> Result<(), MeasureError> {
    let name = start(api).await?;
    let used = exec(api, &name, &["true"], None).await;
    used.map(drop).and(remove(api, &name).await)
}

/// Starts a pod that waits, and returns its name once it runs.
async fn start(api: &Api<Pod>) -> Result<String, MeasureError> {
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
                "image": Choices::get().image,
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
    let pod = api.create(&PostParams::default(), &pod).await?;
    let version = pod.metadata.resource_version.unwrap_or_default();
    if let Err(error) = wait_until_running(api, &name, &version).await {
        // The first error is the one to report. The cluster ends a pod that stays.
        let _ = remove(api, &name).await;
        return Err(error);
    }
    Ok(name)
}

async fn wait_until_running(api: &Api<Pod>, name: &str, version: &str) -> Result<(), MeasureError> {
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
) -> Result<usize, MeasureError> {
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

async fn remove(api: &Api<Pod>, name: &str) -> Result<(), MeasureError> {
    let parameters = DeleteParams::default().grace_period(0);
    api.delete(name, &parameters).await?;
    Ok(())
}
