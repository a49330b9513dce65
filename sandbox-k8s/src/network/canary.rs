//! The three canary pods that show whether a NetworkPolicy is enforced.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::future::{try_join, try_join3};
use k8s_openapi::api::core::v1::Pod;
use sandbox_core::{Error, ErrorKind, Result};

use super::policy;
use super::verdict::{self, CanaryAddresses, PolicyVerdict};
use crate::agent::AgentConfigMap;
use crate::cluster::Cluster;
use crate::identity::PodIdentity;
use crate::lowering::{self, AGENT, PodInputs};
use crate::pod::{self, PodGuard, PodRef};
use crate::requested::RequestedPod;
use crate::wait::{self, StartTimeouts};
use crate::{TIER, labels, stream};

/// The port that all three listen on.
const PORT: u16 = 7070;
/// The default port of a node's kubelet.
const KUBELET: u16 = 10250;
/// How long a policy may take to come into force, in milliseconds.
const IN_FORCE: &str = "3000";
/// How long to retry each address, in milliseconds, which detects intermittent access, too.
const ATTEMPTS: &str = "2000";
/// The timeout for the results of all attempts of one pod.
const PATIENCE: Duration = Duration::from_secs(30);

/// The inputs of the test.
#[derive(Clone, Copy)]
pub(crate) struct NetworkCanary<'a> {
    pub cluster: &'a Cluster,
    pub agent: &'a AgentConfigMap,
    /// As for the sandbox, so that the pods are scheduled to the same nodes.
    pub inputs: &'a PodInputs<'a>,
    /// More reachable addresses that must be denied.
    pub targets: &'a [SocketAddr],
    pub timeouts: StartTimeouts,
}

/// One of the three pods.
struct CanaryPod {
    name: String,
    target: PodRef,
    address: SocketAddr,
    node: Option<SocketAddr>,
    guard: PodGuard,
}

impl NetworkCanary<'_> {
    /// The cache key: the result holds only for pods with the same cluster, namespace, targets and
    /// template.
    pub(super) fn cache_key(&self) -> String {
        let Self {
            cluster,
            inputs,
            targets,
            ..
        } = self;
        format!(
            "{} {} {targets:?} {} {:?}",
            cluster.cache_key(),
            cluster.namespace,
            inputs.detached,
            inputs.template
        )
    }

    /// Runs the test and removes the pods.
    ///
    /// # Errors
    ///
    /// Errors of the cluster, and why a pod does not run.
    pub(super) async fn run(&self) -> Result<PolicyVerdict> {
        policy::provide(self.cluster).await?;
        self.agent.provide(self.cluster).await?;
        let (listener, outside, inside) = try_join3(
            self.start("listener", false),
            self.start("outside", false),
            self.start("inside", true),
        )
        .await?;
        let verdict = self.observe(&listener, &outside, &inside).await;
        for pod in [listener, outside, inside] {
            pod::remove(&self.cluster.pods(), &pod.target).await?;
            pod.guard.release();
        }
        verdict
    }

    async fn start(&self, role: &str, denied: bool) -> Result<CanaryPod> {
        let identity = PodIdentity::canary(role)?;
        let mut asked = lowering::canary(self.inputs, &identity, PORT, denied)?;
        labels::add_client(&mut asked, &self.cluster.owner);
        let mut subscription = self
            .cluster
            .watch
            .subscribe(&identity.pod, &identity.creation);
        let asked_for = RequestedPod::of(&asked)?;
        let (made, guard) = pod::create(self.cluster, asked, Some(&asked_for)).await?;
        subscription.mark_created();
        let pods = self.cluster.pods();
        let asked = Some(&asked_for);
        let running =
            wait::until_running(&pods, &mut subscription, self.timeouts, asked, None).await?;
        let target = pod::reference(&made)?;
        let (address, node) = addresses(&running);
        let address = address.ok_or_else(|| {
            let context = format!("the pod {} runs and has no address", identity.pod);
            Error::new(ErrorKind::SetupFailed, "try the network", context).on(TIER)
        })?;
        Ok(CanaryPod {
            name: identity.pod,
            target,
            address: SocketAddr::new(address, PORT),
            node: node.map(|node| SocketAddr::new(node, KUBELET)),
            guard,
        })
    }

    async fn observe(
        &self,
        listener: &CanaryPod,
        outside: &CanaryPod,
        inside: &CanaryPod,
    ) -> Result<PolicyVerdict> {
        let mut targets = vec![
            "api".to_owned(),
            "dns".to_owned(),
            listener.address.to_string(),
        ];
        targets.extend(
            [listener, outside, inside]
                .iter()
                .filter_map(|pod| pod.node)
                .map(|node| node.to_string()),
        );
        targets.extend(self.targets.iter().map(SocketAddr::to_string));
        targets.sort();
        targets.dedup();
        // A policy may take a moment: each sandbox waits for it, too.
        self.dial(inside, "await-denial", IN_FORCE, &targets)
            .await?;
        let mut inwards = targets.clone();
        inwards.push(inside.address.to_string());
        let (without, under) = try_join(
            self.dial(outside, "dial", ATTEMPTS, &inwards),
            self.dial(inside, "dial", ATTEMPTS, &targets),
        )
        .await?;
        let parties = CanaryAddresses {
            listener: listener.address,
            denied: inside.address,
            named: self.targets,
        };
        let attempts = (verdict::attempts(&without), verdict::attempts(&under));
        Ok(match attempts {
            (Ok(without), Ok(under)) => verdict::verdict(&without, &under, &parties),
            (Err(why), _) | (_, Err(why)) => PolicyVerdict::Inconclusive(why),
        })
    }

    async fn dial(
        &self,
        from: &CanaryPod,
        how: &str,
        time: &str,
        targets: &[String],
    ) -> Result<String> {
        let mut command = vec![AGENT, how, time];
        command.extend(targets.iter().map(String::as_str));
        stream::output(&self.cluster.pods(), &from.name, &command, PATIENCE).await
    }
}

/// The addresses of a pod and of its node.
fn addresses(pod: &Pod) -> (Option<IpAddr>, Option<IpAddr>) {
    let status = pod.status.as_ref();
    let parse = |text: Option<&String>| text.and_then(|text| text.parse().ok());
    (
        parse(status.and_then(|status| status.pod_ip.as_ref())),
        parse(status.and_then(|status| status.host_ip.as_ref())),
    )
}
