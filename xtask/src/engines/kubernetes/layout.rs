//! Where things of the cluster lie, and its addresses.

use std::path::{Path, PathBuf};

use crate::failure::Result;
use crate::places;

/// The node's name.
pub const NODE: &str = "node1";
/// The bridge that pods are connected to, with the node's own address.
pub const BRIDGE: &str = "k8s0";
/// The node's address on the bridge.
pub const NODE_ADDRESS: &str = "10.244.0.1";
/// The bridge's own address, locally administered: the network plugins' prefix, and [`NODE_ADDRESS`].
pub const NODE_HARDWARE_ADDRESS: &str = "0a:58:0a:f4:00:01";
/// Out of which pods get their addresses.
pub const POD_RANGE: &str = "10.244.0.0/24";
/// An interface that leads nowhere: service addresses, which nothing translates, must not leave by the machine's own.
pub const SERVICES: &str = "k8ssvc";
/// Out of which services get their addresses.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The address of the API server's own service.
pub const SERVICE_ADDRESS: &str = "10.96.0.1";
/// The API server's port.
pub const API_PORT: u16 = 16443;
/// etcd's port; the next one is for its peers.
pub const ETCD_PORT: u16 = 12379;
/// The kubelet's port; the next one tells of its health.
pub const KUBELET_PORT: u16 = 20250;
/// Where the node's container runtime lives while it runs.
const RUNTIME: &str = "/run/sandbox-k8s";

/// Where things of the cluster lie.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What was built, and is kept.
    pub cache: PathBuf,
    /// What belongs to one cluster: certificates, configuration, logs, the kubelet's and the runtime's folders.
    pub state: PathBuf,
}

impl Layout {
    /// The caller's own.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn of_this_user() -> Result<Self> {
        Ok(Self {
            cache: places::cache_folder("k8s")?,
            state: places::state_folder()?.join("k8s"),
        })
    }

    /// A program that was built.
    pub fn program(&self, name: &str) -> PathBuf {
        self.cache.join("bin").join(name)
    }

    /// The folder in which Go looks for the source.
    pub fn go_path(&self) -> PathBuf {
        self.cache.join("gopath")
    }

    /// Where Go keeps what it has compiled.
    pub fn go_cache(&self) -> PathBuf {
        self.cache.join("gocache")
    }

    /// A file of the certificates' folder.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.state.join("pki").join(name)
    }

    /// A configuration file.
    pub fn configuration(&self, name: &str) -> PathBuf {
        self.state.join("conf").join(name)
    }

    /// The folder in which `name` keeps its state.
    pub fn data(&self, name: &str) -> PathBuf {
        self.state.join("data").join(name)
    }

    /// The administrator's way in.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// The way in of a component.
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.state.join(format!("{user}.kubeconfig"))
    }

    /// A daemon's log.
    pub fn log(&self, daemon: &str) -> PathBuf {
        self.state.join("log").join(format!("{daemon}.log"))
    }

    /// Where the runtime lives while it runs.
    pub fn runtime(&self) -> &'static Path {
        Path::new(RUNTIME)
    }

    /// The runtime's socket.
    pub fn containerd(&self) -> PathBuf {
        self.runtime().join("containerd.sock")
    }
}
