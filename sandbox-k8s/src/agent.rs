//! Brings the agent into a namespace: an immutable ConfigMap named by the agent's hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use sandbox_core::{Error, ErrorKind, Result};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::lowering::AGENT_KEY;
use crate::{TIER, creation, labels};

/// A ConfigMap holds at most 1 MiB in all.
const MAX_BYTES: usize = 1_000_000;

/// The agent's program and its ConfigMap.
#[derive(Debug)]
pub(crate) struct AgentConfigMap {
    /// The ConfigMap's name.
    pub name: String,
    program: Arc<[u8]>,
    /// Set once the namespace's ConfigMap was compared with the program.
    verified: OnceCell<()>,
}

impl AgentConfigMap {
    /// For this build of the agent.
    pub(crate) fn new(program: Arc<[u8]>) -> Self {
        let hash = blake3::hash(&program).to_hex();
        Self {
            name: format!("sandbox-agent-{}", &hash[..32]),
            program,
            verified: OnceCell::new(),
        }
    }

    pub(crate) fn program(&self) -> &[u8] {
        &self.program
    }

    /// Fails if the program is missing or too large for a ConfigMap.
    pub(crate) fn check(&self) -> Result<()> {
        let (reason, fix) = match self.program.len() {
            0 => (
                "this build has no agent (it was compiled for documentation only)",
                "build with a C linker for Linux on x86_64 or aarch64",
            ),
            MAX_BYTES.. => (
                "the configured agent is too large for a ConfigMap",
                "configure a release build of it, below 1 MB",
            ),
            _ => return Ok(()),
        };
        Err(Error::unavailable(TIER, reason, fix))
    }

    /// Creates the ConfigMap if it is missing, and verifies it once.
    ///
    /// # Errors
    ///
    /// Errors of the cluster; `SetupFailed` if the ConfigMap has other content.
    pub(crate) async fn provide(&self, cluster: &Cluster) -> Result<()> {
        let provided = self
            .verified
            .get_or_try_init(|| self.create_or_compare(cluster));
        provided.await.copied()
    }

    async fn create_or_compare(&self, cluster: &Cluster) -> Result<()> {
        let maps = cluster.config_maps();
        // It usually exists, so look before sending a megabyte.
        let found = maps
            .get_opt(&self.name)
            .await
            .map_err(|error| cluster_error(ClusterOperation::GetAgent, error))?;
        let found = match found {
            Some(found) => found,
            None => match creation::create(&maps, &self.map()).await {
                Ok(made) => made,
                // Another client was faster.
                Err(kube::Error::Api(status)) if creation::is_taken(&status) => maps
                    .get(&self.name)
                    .await
                    .map_err(|error| cluster_error(ClusterOperation::GetAgent, error))?,
                Err(error) => return Err(cluster_error(ClusterOperation::CreateAgent, error)),
            },
        };
        if self.is_ours(&found) {
            return Ok(());
        }
        let name = &self.name;
        let context = format!("the ConfigMap {name} does not contain this build of the agent");
        let fix =
            format!("find out what created it, and remove it (`kubectl delete configmap {name}`)");
        Err(
            Error::new(ErrorKind::SetupFailed, "install the agent", context)
                .on(TIER)
                .with_fix(fix),
        )
    }

    fn map(&self) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels::ours().into()),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            binary_data: Some(BTreeMap::from([(
                AGENT_KEY.to_owned(),
                ByteString(self.program.to_vec()),
            )])),
            data: None,
        }
    }

    /// Whether a map is immutable and holds exactly this program.
    fn is_ours(&self, map: &ConfigMap) -> bool {
        let empty =
            |data: &Option<BTreeMap<String, String>>| data.as_ref().is_none_or(BTreeMap::is_empty);
        let ours = map.binary_data.as_ref().is_some_and(|data| {
            data.len() == 1
                && data
                    .get(AGENT_KEY)
                    .is_some_and(|bytes| *bytes.0 == *self.program)
        });
        ours && empty(&map.data) && map.immutable == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_immutable_map_with_same_program_is_accepted() {
        let agent = AgentConfigMap::new((*b"\x7fELF").into());
        let right = agent.map();
        assert!(agent.is_ours(&right));
        let mut changeable = right.clone();
        changeable.immutable = None;
        let mut more = right.clone();
        more.data = Some(BTreeMap::from([("x".to_owned(), "y".to_owned())]));
        let other = AgentConfigMap::new((*b"\x7fELG").into()).map();
        for wrong in [changeable, more, other, ConfigMap::default()] {
            assert!(!agent.is_ours(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn missing_or_oversized_agent_is_refused() {
        assert!(AgentConfigMap::new(Vec::new().into()).check().is_err());
        assert!(
            AgentConfigMap::new(vec![0; 1 << 20].into())
                .check()
                .is_err()
        );
        assert!(
            AgentConfigMap::new(sandbox_agent::program().into())
                .check()
                .is_ok()
        );
    }
}
