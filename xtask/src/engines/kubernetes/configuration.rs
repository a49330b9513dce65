//! What the node's daemons are told in files.

use std::fs;

use serde_json::{Value, json};

use super::layout::{BRIDGE, KUBELET_PORT, Layout, POD_RANGE};
use crate::failure::{Context, Result};

/// The image of the container that holds a pod's namespaces.
pub const PAUSE: &str = "localhost/pause:3.2";

/// How many processes a pod may have. A cluster's administrator sets this; a pod cannot ask for it.
const POD_PROCESSES: u32 = 1024;

/// Writes the files of a cluster.
///
/// # Errors
/// When one cannot be written.
pub fn write(layout: &Layout) -> Result<()> {
    let files = [
        ("cni/10-bridge.conflist", format!("{:#}\n", pods(layout))),
        ("containerd.toml", containerd(layout)),
        ("kubelet.yaml", format!("{:#}\n", kubelet(layout))),
    ];
    for (name, text) in files {
        let path = layout.configuration(name);
        let doing = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).context(doing)?;
        }
        fs::write(&path, text).context(doing)?;
    }
    Ok(())
}

/// How pods are connected.
fn pods(layout: &Layout) -> Value {
    json!({
        "cniVersion": "0.3.1",
        "name": "sandbox",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": layout.data("addresses"),
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

fn containerd(layout: &Layout) -> String {
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE nobody is made less likely to be killed for memory.
  restrict_oom_score_adj = true
  # Where nothing but this runtime's is, so that all of it can be found.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
        root = layout.data("containerd").display(),
        state = layout.runtime().join("containerd").display(),
        socket = layout.containerd().display(),
        opt = layout.data("containerd-opt").display(),
        networks = layout.configuration("cni").display(),
    )
}

fn kubelet(layout: &Layout) -> Value {
    let certificate = |name: &str| layout.certificate(name);
    // JSON is YAML.
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": super::layout::NODE_ADDRESS,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzPort": KUBELET_PORT + 1,
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": certificate("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": certificate("kubelet.crt"),
        "tlsPrivateKeyFile": certificate("kubelet.key"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failSwapOn": false,
        "podPidsLimit": POD_PROCESSES,
        // There are no services whose traffic it would mark, and the rules would stay when it goes.
        "makeIPTablesUtilChains": false,
        "resolvConf": "/dev/null",
        "clusterDomain": "cluster.local",
        "hairpinMode": "none",
        "serializeImagePulls": false,
        // Images come from an archive and from nowhere else: none is ever collected.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "imageMinimumGCAge": "8760h",
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1Gi",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1Gi",
        },
        "eventRecordQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "registryPullQPS": 0,
        "maxPods": 110,
        "oomScoreAdj": 0,
        "featureGates": {"SizeMemoryBackedVolumes": true},
        "nodeStatusUpdateFrequency": "2s",
        "volumeStatsAggPeriod": "10s",
        "containerLogMaxSize": "50Mi",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_lie_where_they_point_to_each_other() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let layout = Layout {
            cache: folder.path().join("cache"),
            state: folder.path().join("state"),
        };
        write(&layout).expect("written");
        let read = |name| fs::read_to_string(layout.configuration(name)).expect("file");
        let runtime = read("containerd.toml");
        assert!(runtime.contains(&*layout.configuration("cni").to_string_lossy()));
        assert!(runtime.contains(PAUSE));
        for name in ["cni/10-bridge.conflist", "kubelet.yaml"] {
            let value: Value = serde_json::from_str(&read(name)).expect("JSON");
            assert!(value.is_object(), "{name}");
        }
    }
}
