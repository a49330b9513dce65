//! Pods as another program creates them, for the conformance suite to adopt.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::error::{ClusterOperation, cluster_error};
use crate::{KubernetesBackend, TIER};

/// The label of these pods, by which a run finds those of killed runs.
const LABEL: &str = "sandbox-conformance-foreign";

/// The pause between two looks at a starting pod.
const PAUSE: Duration = Duration::from_millis(100);

impl KubernetesBackend {
    /// Starts a pod that is no sandbox, as this user, and returns its name. An `opened` one has a
    /// capability that runtimes do not give by default.
    ///
    /// # Errors
    ///
    /// Errors of the cluster; `SetupFailed` if the pod does not run in time.
    #[doc(hidden)]
    pub async fn start_foreign(
        &self,
        image: Option<&str>,
        user: u32,
        opened: bool,
    ) -> Result<String> {
        let pods = self.launcher.cluster().await?.pods();
        let ended = ListParams::default().labels(LABEL);
        let ended = ended.fields("status.phase=Succeeded");
        // If the account may not do this, the pods stay. Those that have ended take no room.
        let _ = pods
            .delete_collection(&DeleteParams::default(), &ended)
            .await;
        let config = &self.launcher.config;
        let name = unique_name("foreign");
        let added: &[&str] = if opened { &["SYS_PTRACE"] } else { &[] };
        let pod = json!({
            "metadata": {"name": name, "labels": {(LABEL): "1"}},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": image.unwrap_or(&config.default_image),
                    "imagePullPolicy": "Never",
                    // It ends by itself if the suite is killed.
                    "command": ["sleep", "300"],
                    "env": [{"name": "FOREIGN", "value": "1"}],
                    "securityContext": {
                        "runAsUser": user,
                        "runAsGroup": user,
                        "capabilities": {"add": added},
                    },
                }],
            },
        });
        let failed = |context: String| Error::new(ErrorKind::SetupFailed, "start pod", context);
        let pod = serde_json::from_value::<Pod>(pod);
        let pod = pod.map_err(|error| failed(error.to_string()).on(TIER))?;
        let created = pods.create(&PostParams::default(), &pod).await;
        created.map_err(|error| cluster_error(ClusterOperation::CreatePod, error))?;
        let end = Instant::now() + config.start_timeout;
        loop {
            let found = pods.get(&name).await;
            let found = found.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
            let status = found.status.unwrap_or_default();
            if status.phase.as_deref() == Some("Running") {
                return Ok(name);
            }
            if Instant::now() >= end {
                self.remove_foreign(&name).await?;
                return Err(failed(format!("{name} does not run: {status:?}")).on(TIER));
            }
            sleep(PAUSE).await;
        }
    }

    /// Removes a pod that [`Self::start_foreign`] started, if it is still there.
    ///
    /// # Errors
    ///
    /// Errors of the cluster.
    #[doc(hidden)]
    pub async fn remove_foreign(&self, name: &str) -> Result<()> {
        let pods = self.launcher.cluster().await?.pods();
        match pods.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(cluster_error(ClusterOperation::DeletePod, error)),
            Ok(_) => Ok(()),
        }
    }
}
