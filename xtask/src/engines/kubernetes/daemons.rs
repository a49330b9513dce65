//! The node's daemons, each a process that outlives this program.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::kubectl::Kubectl;
use super::layout::{API_PORT, ETCD_PORT, KUBELET_PORT, Layout, NODE, NODE_ADDRESS, SERVICE_RANGE};
use super::output;
use crate::engines::daemon::{self, Daemon};
use crate::engines::record::RecordFile;
use crate::engines::service;
use crate::failure::{Context, Failure, Result};
use crate::programs;

/// The records of the daemons, in the order in which they start.
pub const IN_ORDER: [&str; 6] = [
    "k8s-containerd",
    "k8s-etcd",
    "k8s-kube-apiserver",
    "k8s-kube-controller-manager",
    "k8s-kube-scheduler",
    LAST,
];
/// Those that hold the cluster's state.
const STATEFUL: [&str; 2] = ["k8s-containerd", "k8s-etcd"];
/// The record of the daemon that starts last.
pub const LAST: &str = "k8s-kubelet";

/// How long a daemon that runs may be too busy to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Room for the cluster's state, which lives in memory: to flush each write to a disk is most of what etcd does.
const ETCD_MEMORY: &str = "size=1g,mode=700";

/// Starts a daemon, unless it runs.
fn start(
    layout: &Layout,
    name: &str,
    program: &Path,
    arguments: &[String],
    answers: impl Fn() -> bool,
) -> Result<()> {
    let record = service::record(&format!("k8s-{name}"))?;
    if runs(&record)? {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if answers() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(500));
        }
        eprintln!("k8s: {name} runs and does not answer: it is started again");
        daemon::stop(&record)?;
    }
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    Daemon {
        engine: super::ENGINE,
        program,
        arguments: &arguments,
        socket: &layout.containerd(),
        log: layout.log(name),
        record: &record,
        owner: None,
    }
    .start(answers)
}

/// Whether the recorded process is there.
fn runs(record: &RecordFile) -> Result<bool> {
    let Some(earlier) = record.read()? else {
        return Ok(false);
    };
    let process = earlier.process.open();
    Ok(process
        .context(|| format!("cannot look at process {}", earlier.process.pid))?
        .is_some())
}

/// Whether one of those daemons has ended without `down` that hold the cluster's state: its objects, its containers. The others find all
/// that they need when they start again.
///
/// # Errors
/// When a record cannot be read.
pub fn state_is_lost() -> Result<bool> {
    for name in STATEFUL {
        let record = service::record(name)?;
        if record.read()?.is_some() && !runs(&record)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all of them run that `up` starts.
///
/// # Errors
/// When a record cannot be read.
pub fn all_run() -> Result<bool> {
    for name in IN_ORDER {
        if !runs(&service::record(name)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn installed(name: &str) -> Result<std::path::PathBuf> {
    programs::find(name).ok_or_else(|| {
        Failure::new(format!(
            "k8s: there is no program {name}, whose package is installed"
        ))
    })
}

/// Starts the container runtime.
///
/// # Errors
/// When it does not answer.
pub fn containerd(layout: &Layout) -> Result<()> {
    let folder = layout.runtime();
    fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
    let arguments = [
        "--config".to_owned(),
        layout
            .configuration("containerd.toml")
            .display()
            .to_string(),
    ];
    let socket = layout.containerd();
    start(
        layout,
        "containerd",
        &installed("containerd")?,
        &arguments,
        || output(Command::new("ctr").arg("-a").arg(&socket).arg("version")).is_ok(),
    )
}

/// Starts etcd, the API server, the controller manager and the scheduler.
///
/// # Errors
/// When one does not answer.
pub fn control_plane(layout: &Layout) -> Result<()> {
    etcd(layout)?;
    let kubectl = Kubectl::new(layout)
        .ok_or_else(|| Failure::new("k8s: there is no kubectl, though it was built"))?;
    let program = |name: &str| layout.program(name);
    start(
        layout,
        "kube-apiserver",
        &program("kube-apiserver"),
        &api_server(layout),
        || kubectl.api_is_ready(),
    )?;
    let common = |name: &str, port: u16| {
        vec![
            format!("--kubeconfig={}", layout.kubeconfig_of(name).display()),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--port=0".to_owned(),
            format!("--cert-dir={}", layout.certificate("").display()),
            "--profiling=false".to_owned(),
        ]
    };
    let certificate = |name: &str| layout.certificate(name).display().to_string();
    let mut manager = common("kube-controller-manager", 20257);
    manager.extend([
        "--use-service-account-credentials=true".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            certificate("sa.key")
        ),
        format!("--root-ca-file={}", certificate("ca.crt")),
        "--node-monitor-grace-period=60s".to_owned(),
        "--terminated-pod-gc-threshold=200".to_owned(),
    ]);
    let name = "kube-controller-manager";
    start(layout, name, &program(name), &manager, || {
        kubectl.has_default_account()
    })?;
    let name = "kube-scheduler";
    // Whether it works shows when the first pod is placed.
    start(layout, name, &program(name), &common(name, 20259), || true)
}

fn etcd(layout: &Layout) -> Result<()> {
    let folder = layout.data("etcd");
    fs::create_dir_all(&folder).context(|| format!("cannot create {}", folder.display()))?;
    if !is_mounted(&folder)? {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", ETCD_MEMORY, "sandbox-etcd"]);
        output(mount.arg(&folder))?;
    }
    let (clients, peers) = (
        format!("http://127.0.0.1:{ETCD_PORT}"),
        format!("http://127.0.0.1:{}", ETCD_PORT + 1),
    );
    let arguments = [
        "--name=sandbox".to_owned(),
        format!("--data-dir={}", folder.join("data").display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=sandbox={peers}"),
        "--logger=zap".to_owned(),
    ];
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], ETCD_PORT));
    start(layout, "etcd", &installed("etcd")?, &arguments, || {
        TcpStream::connect(address).is_ok()
    })
}

fn api_server(layout: &Layout) -> Vec<String> {
    let certificate = |name: &str| layout.certificate(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{ETCD_PORT}"),
        // Pods reach it at the node's address: a sandbox that does is a finding of the suite.
        "--bind-address=0.0.0.0".to_owned(),
        format!("--advertise-address={NODE_ADDRESS}"),
        format!("--secure-port={API_PORT}"),
        format!("--tls-cert-file={}", certificate("apiserver.crt")),
        format!("--tls-private-key-file={}", certificate("apiserver.key")),
        format!("--client-ca-file={}", certificate("ca.crt")),
        format!("--cert-dir={}", certificate("")),
        format!("--kubelet-certificate-authority={}", certificate("ca.crt")),
        format!(
            "--kubelet-client-certificate={}",
            certificate("kubelet-client.crt")
        ),
        format!("--kubelet-client-key={}", certificate("kubelet-client.key")),
        // The node's name resolves nowhere.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", certificate("sa.pub")),
        format!(
            "--service-account-signing-key-file={}",
            certificate("sa.key")
        ),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--anonymous-auth=false".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
        "--event-ttl=1h".to_owned(),
    ]
}

/// Writes down how the API server is started, beside the administrator's configuration. Tests start another one on the same state, which
/// they may kill.
///
/// # Errors
/// When it cannot be written.
pub fn describe_api_server(layout: &Layout) -> Result<()> {
    let path = layout.state.join("api-server.json");
    let text = serde_json::json!({
        "program": layout.program("kube-apiserver"),
        "arguments": api_server(layout),
    });
    fs::write(&path, format!("{text:#}\n")).context(|| format!("cannot write {}", path.display()))
}

/// Starts the kubelet, and waits until the node takes pods.
///
/// # Errors
/// When it does not within the time that a daemon has.
pub fn kubelet(layout: &Layout) -> Result<()> {
    let kubectl = Kubectl::new(layout)
        .ok_or_else(|| Failure::new("k8s: there is no kubectl, though it was built"))?;
    let socket = layout.containerd().display().to_string();
    let arguments = [
        format!(
            "--config={}",
            layout.configuration("kubelet.yaml").display()
        ),
        format!("--kubeconfig={}", layout.kubeconfig_of("kubelet").display()),
        format!("--hostname-override={NODE}"),
        format!("--node-ip={NODE_ADDRESS}"),
        format!("--root-dir={}", layout.data("kubelet").display()),
        format!("--cert-dir={}", layout.certificate("").display()),
        "--container-runtime=remote".to_owned(),
        format!("--container-runtime-endpoint=unix://{socket}"),
        format!("--image-service-endpoint=unix://{socket}"),
        format!("--containerd={socket}"),
    ];
    start(
        layout,
        "kubelet",
        &layout.program("kubelet"),
        &arguments,
        // The API server believes in a node that has gone for a while.
        || TcpStream::connect((NODE_ADDRESS, KUBELET_PORT)).is_ok() && kubectl.node_is_ready(),
    )
}

/// Whether something is mounted at exactly this folder.
pub fn is_mounted(folder: &Path) -> Result<bool> {
    Ok(mounts_below(folder)?.iter().any(|place| place == folder))
}

/// What is mounted at or below a folder, the latest first.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn mounts_below(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    const MOUNTS: &str = "/proc/self/mounts";
    let text = fs::read_to_string(MOUNTS).context(|| format!("cannot read {MOUNTS}"))?;
    let places = text.lines().filter_map(|line| line.split(' ').nth(1));
    let mut found: Vec<_> = places
        .map(std::path::PathBuf::from)
        .filter(|place| place.starts_with(folder))
        .collect();
    found.reverse();
    Ok(found)
}
