//! Bare pods, as rivals: one container each, without any restriction but its size.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Config};
use sandbox::unique_name;
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::super::{BUSYBOX, PYTHON, Stopwatch, failed};
use super::{LARGE, SMALL, Size, TINY};
use crate::case::{CROWD, PROGRAM, Task};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

/// A cluster that is there answers within this time.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a pod may take to run.
const START: Duration = Duration::from_secs(60);
/// What ends a pod that nobody has removed, seconds.
const LIFETIME: i64 = 3600;

/// A client of the cluster and the pods that run, all made when first needed.
#[derive(Default)]
pub struct Pods {
    api: Option<Api<Pod>>,
    /// Names, by the image.
    running: BTreeMap<&'static str, String>,
    opened: Option<String>,
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pods")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl Pods {
    /// Does `task` once.
    pub async fn run(&mut self, task: Task) -> Result<Sample> {
        match task {
            Task::Exec => self.exec(BUSYBOX, SMALL, &["true"]).await,
            Task::Python => self.exec(PYTHON, LARGE, &["python3", "-c", PROGRAM]).await,
            Task::Open => self.open().await,
            Task::Close => self.close().await,
            Task::Crowd => self.crowd().await,
            Task::OneShot | Task::Echo => Err(failed(format!("the API is not asked for {task:?}"))),
        }
    }

    async fn exec(&mut self, image: &'static str, size: Size, program: &[&str]) -> Result<Sample> {
        let api = self.api().await?;
        let name = match self.running.get(image) {
            Some(name) => name.clone(),
            None => {
                let name = start(&api, image, size).await?;
                self.running.insert(image, name.clone());
                name
            }
        };
        let watch = Stopwatch::start();
        exec(&api, &name, program).await?;
        Ok(watch.stop())
    }

    async fn open(&mut self) -> Result<Sample> {
        let api = self.api().await?;
        if let Some(earlier) = self.opened.take() {
            remove(&api, &earlier).await?;
        }
        let watch = Stopwatch::start();
        self.opened = Some(start(&api, BUSYBOX, SMALL).await?);
        Ok(watch.stop())
    }

    async fn close(&mut self) -> Result<Sample> {
        if self.opened.is_none() {
            self.open().await?;
        }
        let api = self.api().await?;
        let opened = self.opened.take();
        let opened = opened.ok_or_else(|| failed("nothing is open"))?;
        let watch = Stopwatch::start();
        remove(&api, &opened).await?;
        Ok(watch.stop())
    }

    /// [`CROWD`] of them at the same time, each used once; the share of one.
    async fn crowd(&mut self) -> Result<Sample> {
        let api = &self.api().await?;
        let watch = Stopwatch::start();
        let cycles = (0..CROWD).map(async |_| {
            let name = start(api, BUSYBOX, TINY).await?;
            let used = exec(api, &name, &["true"]).await;
            used.and(remove(api, &name).await)
        });
        try_join_all(cycles).await?;
        Ok(watch.stop().share(CROWD))
    }

    /// Removes the pods that run.
    pub async fn end(self) -> Result<()> {
        let Some(api) = self.api else {
            return Ok(());
        };
        let mut result = Ok(());
        for name in self.running.into_values().chain(self.opened) {
            result = result.and(remove(&api, &name).await);
        }
        result
    }

    /// A client of a cluster that answers.
    async fn api(&mut self) -> Result<Api<Pod>> {
        if let Some(api) = &self.api {
            return Ok(api.clone());
        }
        let missing = |error: &dyn std::fmt::Display| {
            Failure::Missing(format!(
                "no cluster: {error}; fix: cargo xtask engines up k8s"
            ))
        };
        let config = Config::infer().await.map_err(|error| missing(&error))?;
        let client = Client::try_from(config).map_err(|error| missing(&error))?;
        tokio::time::timeout(PATIENCE, client.apiserver_version())
            .await
            .map_err(|error| missing(&error))?
            .map_err(|error| missing(&error))?;
        Ok(self.api.insert(Api::default_namespaced(client)).clone())
    }
}

/// A pod that waits, once it runs.
async fn start(api: &Api<Pod>, image: &str, size: Size) -> Result<String> {
    let name = unique_name("bench").to_ascii_lowercase();
    let limits = json!({
        "memory": size.memory.as_u64().to_string(),
        "cpu": format!("{}m", size.cpus.as_milli()),
    });
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{
                "name": "bare",
                "image": image,
                "imagePullPolicy": "Never",
                "command": ["sleep", LIFETIME.to_string()],
                "resources": {"requests": limits, "limits": limits},
            }],
            "automountServiceAccountToken": false,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "activeDeadlineSeconds": LIFETIME,
        },
    });
    let pod: Pod = serde_json::from_value(pod).context("describe a pod")?;
    let made = api.create(&PostParams::default(), &pod).await;
    let made = made.context("create a pod")?;
    let version = made.metadata.resource_version.unwrap_or_default();
    let started = until_running(api, &name, &version).await;
    if started.is_err() {
        // The failure counts; what cannot be removed after it ends by itself.
        let _ = remove(api, &name).await;
    }
    started.map(|()| name)
}

async fn until_running(api: &Api<Pod>, name: &str, version: &str) -> Result<()> {
    // Where other pods fill the nodes, it may never run: those of a run that was killed live for an hour.
    let mut last = "no change was seen".to_owned();
    let waited = tokio::time::timeout(START, follow(api, name, version, &mut last)).await;
    waited.unwrap_or_else(|_| {
        Err(failed(format!(
            "the pod {name} does not run after {START:?}: {last}"
        )))
    })
}

async fn follow(api: &Api<Pod>, name: &str, version: &str, last: &mut String) -> Result<()> {
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let watch = api.watch(&parameters, version).await;
    let mut events = watch.context("watch a pod")?.boxed();
    while let Some(event) = events.try_next().await.context("watch a pod")? {
        let WatchEvent::Modified(pod) = event else {
            continue;
        };
        let status = pod.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        if let Some(words) = conditions.find_map(|condition| condition.message) {
            *last = words;
        }
        match status.phase.as_deref() {
            Some("Running") => return Ok(()),
            Some("Failed" | "Succeeded") => break,
            _ => {}
        }
    }
    Err(failed(format!("the pod {name} does not run: {last}")))
}

async fn exec(api: &Api<Pod>, name: &str, program: &[&str]) -> Result<()> {
    let parameters = AttachParams::default().stdin(false);
    let words = program.iter().copied();
    let process = api.exec(name, words, &parameters).await;
    let mut process = process.context("start an exec")?;
    let mut output = Vec::new();
    if let Some(mut stdout) = process.stdout() {
        let read = stdout.read_to_end(&mut output).await;
        read.context("read an exec's output")?;
    }
    let status = match process.take_status() {
        Some(status) => status.await,
        None => None,
    };
    match status.as_ref().and_then(|status| status.status.as_deref()) {
        Some("Success") => Ok(()),
        _ => Err(failed(format!("the exec ended with {status:?}"))),
    }
}

async fn remove(api: &Api<Pod>, name: &str) -> Result<()> {
    let parameters = DeleteParams::default().grace_period(0);
    api.delete(name, &parameters)
        .await
        .map(|_| ())
        .context("delete a pod")
}
