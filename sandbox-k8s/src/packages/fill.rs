//! Copies packages into the volumes of a pod, before its agent starts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::spi::Instance as _;
use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::{AgentInstance, Isolator};
use sandbox_lang::packages::send_packages;
use tokio::time::{Instant, sleep};

use super::failed;
use crate::cluster::Cluster;
use crate::connector::PodConnector;
use crate::error::{ClusterOperation, cluster_error};
use crate::isolator::PodIsolator;
use crate::launcher::{PodLauncher, PodPlan};
use crate::lowering::{FILL_CONTAINER, PodFolder};
use crate::requested::RequestedPod;
use crate::watch::PodSubscription;
use crate::{TIER, pod, wait};

/// How long a node may take to report the id of a running container's image.
const IMAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause between two looks for it.
const IMAGE_PAUSE: Duration = Duration::from_millis(200);

/// A pod whose packages are missing.
pub(crate) struct FillTarget<'a> {
    pub plan: &'a Plan,
    pub pod_plan: &'a PodPlan,
    pub isolator: &'a PodIsolator,
    pub requested: Option<&'a RequestedPod>,
    /// The id of the image that the packages are for.
    pub image: Option<&'a str>,
}

impl PodLauncher {
    /// Copies packages into the volumes of a pod, through an init container.
    pub(crate) async fn fill(
        &self,
        target: &FillTarget<'_>,
        cluster: &Cluster,
        subscription: &mut PodSubscription,
    ) -> Result<()> {
        let (pods, timeouts) = (cluster.pods(), self.timeouts());
        let FillTarget {
            requested,
            isolator,
            ..
        } = *target;
        wait::until_step_runs(&pods, subscription, timeouts, requested, FILL_CONTAINER).await?;
        if let Some(expected) = target.image {
            let found = self.image_id(cluster, &isolator.pod().name).await?;
            check_image(self, self.image(target.plan)?, expected, &found)?;
        }
        let sandbox = self.fill_sandbox(target.plan, target.pod_plan)?;
        let connector = Arc::new(PodConnector::new(pods, isolator).to(FILL_CONTAINER));
        let connected =
            AgentInstance::connect_by(Arc::clone(&connector) as _, sandbox, Box::new(FillStep))
                .await;
        let instance = connected.map_err(|error| connector.explain(error))?;
        self.send(&instance, &target.pod_plan.folders).await?;
        // Then the pod's next container starts.
        instance.stop(Duration::ZERO).await
    }

    /// The id of a pod's image, as its node reports it.
    pub(crate) async fn image_id(&self, cluster: &Cluster, name: &str) -> Result<String> {
        let deadline = Instant::now() + IMAGE_TIMEOUT;
        loop {
            let pod = cluster.pods().get(name).await;
            let pod = pod.map_err(|error| cluster_error(ClusterOperation::GetPod, error))?;
            if let Some(id) = pod::image_digest(&pod) {
                return Ok(id);
            }
            if Instant::now() > deadline {
                let context = "the node does not report the id of its image";
                return Err(Error::new(ErrorKind::SetupFailed, "start pod", context).on(TIER));
            }
            sleep(IMAGE_PAUSE).await;
        }
    }

    async fn send(&self, instance: &AgentInstance, folders: &[PodFolder]) -> Result<()> {
        for folder in folders {
            if let Some(source) = &folder.source {
                let timeout = self.config.packages.timeout;
                let sent = send_packages(instance, source, &folder.target, timeout).await;
                sent.map_err(|error| error.on(TIER))?;
            }
        }
        Ok(())
    }
}

/// Checks that a pod has the image that packages are for. Nodes may have different ones of a name,
/// and a name may get another one.
///
/// # Errors
///
/// `InstallFailed`. The next sandbox looks up the image anew.
pub(super) fn check_image(
    launcher: &PodLauncher,
    image: &str,
    expected: &str,
    found: &str,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    launcher.packages.forget(image);
    let context = format!("{image} was {expected} on one node, and is {found} on another or now");
    Err(failed(context).with_fix("try again, or name the image by its digest"))
}

/// Ends the container that fills folders, and nothing else: the pod goes on.
struct FillStep;

#[async_trait]
impl Isolator for FillStep {
    fn tier(&self) -> &str {
        TIER
    }

    async fn destroy(&self) -> Result<()> {
        Ok(())
    }

    fn destroy_soon(&self) {}

    async fn oom_kills(&self) -> Option<u64> {
        None
    }

    async fn post_mortem(&self) -> Option<String> {
        None
    }
}
