//! A Docker engine of a test's own, in a network and a mount namespace of its own: it can be killed, and nobody else has anything
//! on it.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::{
    ImportImageOptions, ListContainersOptions, ListNetworksOptions, ListVolumesOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec, unique_name};
use sandbox_docker::{DockerBackend, DockerConfig};

const IMAGE: &str = "sandbox-test/busybox:latest";

/// How long a daemon may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why no engine can be started here; `None` where one can.
pub fn missing() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|found| {
        use std::os::unix::fs::MetadataExt;
        found.uid() == 0
    });
    if !is_root {
        return Some("only root can".into());
    }
    for program in ["dockerd", "unshare", "nsenter"] {
        let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists());
        if !found {
            return Some(format!("no {program}"));
        }
    }
    let looked = runtime().map_err(|failed| failed.message().unwrap_or_default().to_owned());
    let image = looked.and_then(|runtime| {
        let image = runtime.block_on(async {
            let engine = Docker::connect_with_defaults()?;
            engine.inspect_image(IMAGE).await
        });
        image.map_err(|error| format!("image {IMAGE}: {error}; build it with `cargo xtask images`"))
    });
    image.err()
}

fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string().into())
}

/// Runs a test for at most five minutes.
pub fn run<F>(test: F) -> Result<(), Failed>
where
    F: Future<Output = sandbox_core::Result<()>>,
{
    let bounded = async { tokio::time::timeout(Duration::from_secs(300), test).await };
    match runtime()?.block_on(bounded) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err("took longer than five minutes".into()),
    }
}

/// An engine. Dropping it ends it with all that it has started.
pub struct Engine {
    folder: tempfile::TempDir,
    /// Holds the namespaces while no daemon runs.
    holder: Child,
    daemon: Option<Child>,
}

impl Engine {
    /// Starts one that has the test image and nothing else.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sandbox-dockerd-")
            .tempdir()
            .expect("a folder");
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).expect("mode");
        let settings = r#"{"exec-opts":["native.cgroupdriver=cgroupfs"]}"#;
        std::fs::write(folder.path().join("daemon.json"), settings).expect("written");
        let holder = Command::new("unshare")
            .args(["--net", "--mount", "--", "sleep", "3600"])
            .stdin(Stdio::null())
            .spawn()
            .expect("namespaces");
        let mut engine = Self {
            folder,
            holder,
            daemon: None,
        };
        engine.wait_for_namespaces();
        engine.resume().await;
        engine.load_image().await;
        engine
    }

    /// `unshare` is `sleep` once it has left ours.
    fn wait_for_namespaces(&self) {
        let start = Instant::now();
        let name = format!("/proc/{}/comm", self.holder.id());
        while std::fs::read_to_string(&name).is_ok_and(|name| name.trim() != "sleep") {
            assert!(start.elapsed() < PATIENCE, "no namespaces");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts its daemon, as after an end, and waits until it answers.
    pub async fn resume(&mut self) {
        let place = |name: &str| self.folder.path().join(name).display().to_string();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log");
        let holder = self.holder.id();
        self.clear_numbers();
        let daemon = Command::new("nsenter")
            .arg(format!("--net=/proc/{holder}/ns/net"))
            .arg(format!("--mount=/proc/{holder}/ns/mnt"))
            .args(["--", "dockerd"])
            .args(["--config-file", &place("daemon.json")])
            .args(["--data-root", &place("data"), "--exec-root", &place("exec")])
            .args(["--pidfile", &place("pid"), "--bridge", "none"])
            .args(["--iptables=false", "--host", &self.address()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a daemon");
        self.daemon = Some(daemon);
        let start = Instant::now();
        while !self.answers().await {
            assert!(
                start.elapsed() < PATIENCE,
                "no answer: {}",
                std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What a killed daemon leaves: its own number, and that of its containerd, which ends with it, and which the next one would
    /// wait for while nobody has taken note of its end.
    fn clear_numbers(&self) {
        let containerd = self.folder.path().join("exec/containerd/containerd.pid");
        if let Ok(pid) = std::fs::read_to_string(&containerd) {
            pid.trim()
                .parse()
                .into_iter()
                .for_each(|pid| send(pid, Signal::Kill));
        }
        for file in [&containerd, &self.folder.path().join("pid")] {
            // There is none the first time.
            let _ = std::fs::remove_file(file);
        }
    }

    async fn answers(&self) -> bool {
        let socket = self.socket();
        let api = Docker::connect_with_unix(&socket.to_string_lossy(), 5, API_DEFAULT_VERSION);
        match api {
            Ok(api) => api.ping().await.is_ok(),
            // No socket yet.
            Err(_) => false,
        }
    }

    async fn load_image(&self) {
        let from = Docker::connect_with_defaults().expect("an engine with the image");
        let image = from.export_image(IMAGE).try_collect::<Vec<_>>().await;
        let image = image.expect("exported").concat();
        let options = ImportImageOptions::default();
        let mut loaded = std::pin::pin!(self.api().import_image(
            options,
            bollard::body_full(image.into()),
            None
        ));
        while let Some(line) = loaded.next().await {
            line.expect("loaded");
        }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("docker.sock")
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Its own API, to look at what the backend has made.
    pub fn api(&self) -> Docker {
        api(&self.socket())
    }

    /// Sends the daemon a signal.
    pub fn signal(&self, signal: Signal) {
        let daemon = self.daemon.as_ref().expect("it runs").id();
        send(daemon, signal);
    }

    /// Waits until the daemon has ended.
    pub async fn wait_ended(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        let start = Instant::now();
        while daemon.try_wait().expect("a child").is_none() {
            assert!(start.elapsed() < PATIENCE, "the daemon does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What a client of it needs. The keys of detached sandboxes go with the engine.
    pub fn config(&self) -> DockerConfig {
        self.config_at(&self.address())
    }

    /// The same, by way of another socket.
    pub fn config_at(&self, address: &str) -> DockerConfig {
        DockerConfig::default()
            .host(address)
            .default_image(IMAGE)
            .state_folder(self.state())
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub fn client(&self) -> SandboxClient {
        client_of(self.config())
    }

    /// The containers that it has, of any state: their names and states.
    pub async fn containers(&self) -> Vec<(String, String)> {
        let options = ListContainersOptions {
            all: true,
            ..Default::default()
        };
        let listed = self.api().list_containers(Some(options)).await;
        let listed = listed.expect("listed").into_iter().map(|container| {
            let names = container.names.unwrap_or_default().join(",");
            let state = container.state.map(|state| state.to_string());
            (names, state.unwrap_or_default())
        });
        listed.collect()
    }

    /// The names of its volumes.
    pub async fn volumes(&self) -> Vec<String> {
        let listed = self.api().list_volumes(None::<ListVolumesOptions>).await;
        let volumes = listed.expect("listed").volumes.unwrap_or_default();
        volumes.into_iter().map(|volume| volume.name).collect()
    }

    /// How many networks it has.
    pub async fn networks(&self) -> usize {
        let listed = self.api().list_networks(None::<ListNetworksOptions>).await;
        listed.expect("listed").len()
    }

    /// Waits until it has no container that is not in `wanted`.
    pub async fn wait_for(&self, what: &str, bound: Duration, wanted: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let left = self.containers().await;
            let left = left
                .iter()
                .filter(|(_, state)| !wanted(state))
                .collect::<Vec<_>>();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < bound, "{what}: {left:?} after {bound:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// What a daemon is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Term,
    Kill,
}

fn send(pid: u32, signal: Signal) {
    let signal = match signal {
        Signal::Term => "-TERM",
        Signal::Kill => "-KILL",
    };
    // It may have ended by itself.
    let _ = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            send(daemon.id(), Signal::Term);
            let start = Instant::now();
            while start.elapsed() < PATIENCE && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            // It may have ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // What a killed daemon has started names its folder.
        let folder = self.folder.path().display().to_string();
        for pid in processes_of(&folder) {
            send(pid, Signal::Kill);
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The processes that were started with this in their arguments, but for this one.
fn processes_of(text: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != std::process::id() && String::from_utf8_lossy(&arguments).contains(text)
        })
        .collect()
}

pub fn api(socket: &Path) -> Docker {
    let socket = socket.to_string_lossy();
    Docker::connect_with_unix(&socket, 60, API_DEFAULT_VERSION).expect("a client")
}

pub fn client_of(config: DockerConfig) -> SandboxClient {
    let backend = Arc::new(DockerBackend::new(config));
    SandboxClient::with_backend(backend, CapabilityPolicy::new()).expect("a valid policy")
}

pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("fault"))
}
