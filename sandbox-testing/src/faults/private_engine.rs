//! An engine that one test starts and may kill. As root, it runs in its own network and mount
//! namespaces.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bollard::query_parameters::ImportImageOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use sandbox_container::ContainerConfig;
use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};

use super::EngineLauncher;
use super::removed_containers::{is_removed, trace_of};
use crate::contract::{BUSYBOX, TestResult, client_of};
use crate::engine_api;
use crate::processes::{Signal, containing, send};
use crate::users::is_root;

pub const IMAGE: &str = BUSYBOX;

/// The longest that a daemon may take to answer, or to end.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(30);

/// The name of the folder of clients' records, in an engine's folder.
pub const CLIENT_STATE: &str = "state";

/// What an engine is started with, beside what its launcher says. Needs root.
#[derive(Debug, Clone, Default)]
pub struct EngineSetup {
    /// Arguments before the launcher's.
    pub arguments: &'static [&'static str],
    /// A shell script that runs in the engine's mount namespace before the first start. Its `$1` is
    /// the engine's folder.
    pub script: String,
}

/// Why no engine can be started here; `None` where one can.
pub fn missing(launcher: &dyn EngineLauncher) -> Option<String> {
    if let Some(reason) = launcher.unavailable() {
        return Some(reason);
    }
    for program in launcher.programs() {
        let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists());
        if !found {
            return Some(format!("no {program}"));
        }
    }
    let looked = runtime().map_err(|failed| failed.message().unwrap_or_default().to_owned());
    let image = looked.and_then(|runtime| {
        let image = runtime.block_on(async { launcher.image_source().inspect_image(IMAGE).await });
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
pub fn run<F>(test: F) -> TestResult
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

/// A running engine. Dropping it ends its daemon and its containers.
pub struct PrivateEngine {
    launcher: &'static dyn EngineLauncher,
    folder: tempfile::TempDir,
    /// Keeps the namespaces of root's engine while no daemon runs.
    holder: Option<Child>,
    daemon: Option<Child>,
    setup: EngineSetup,
}

impl PrivateEngine {
    /// Starts an engine that has the test image and nothing else.
    pub async fn start(launcher: &'static dyn EngineLauncher) -> Self {
        Self::start_with(launcher, EngineSetup::default()).await
    }

    /// As [`PrivateEngine::start`], with a setup.
    pub async fn start_with(launcher: &'static dyn EngineLauncher, setup: EngineSetup) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("sandbox-{}-", launcher.tier()))
            // Not in TMPDIR: Podman's run root may have 50 characters at most.
            .tempdir_in("/tmp")
            .expect("a folder");
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).expect("mode");
        launcher.prepare(folder.path());
        let holder = is_root().then(|| {
            let holder = Command::new("unshare")
                .args(["--net", "--mount", "--", "sleep", "3600"])
                .stdin(Stdio::null())
                .spawn();
            holder.expect("namespaces")
        });
        let mut engine = Self {
            launcher,
            folder,
            holder,
            daemon: None,
            setup,
        };
        engine.wait_for_namespaces();
        engine.set_up();
        engine.resume().await;
        engine.load_image().await;
        engine
    }

    /// `unshare` executes `sleep` once it is in the new namespaces.
    fn wait_for_namespaces(&self) {
        let Some(holder) = &self.holder else { return };
        let start = Instant::now();
        let name = format!("/proc/{}/comm", holder.id());
        while std::fs::read_to_string(&name).is_ok_and(|name| name.trim() != "sleep") {
            assert!(start.elapsed() < DAEMON_TIMEOUT, "no namespaces");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn set_up(&self) {
        if self.setup.script.is_empty() {
            return;
        }
        let done = self
            .inside("sh")
            .args(["-c", &self.setup.script, "sh"])
            .arg(self.folder.path())
            .output()
            .expect("a shell");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {stderr}", self.setup.script);
    }

    /// A command in the engine's namespaces.
    fn inside(&self, program: &str) -> Command {
        let Some(holder) = &self.holder else {
            return Command::new(program);
        };
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", holder.id()))
            .arg(format!("--mount=/proc/{}/ns/mnt", holder.id()))
            .args(["--", program]);
        command
    }

    /// Starts the daemon, also after it has ended, and waits until it answers.
    pub async fn resume(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log");
        self.launcher.clear(self.folder.path());
        let command = self.launcher.command(self.folder.path(), &self.address());
        let daemon = self
            .inside(command.program)
            .args(self.setup.arguments)
            .args(command.arguments)
            .envs(command.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a daemon");
        self.daemon = Some(daemon);
        let start = Instant::now();
        while !self.answers().await {
            assert!(
                start.elapsed() < DAEMON_TIMEOUT,
                "no answer: {}",
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
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
        let image = self
            .launcher
            .image_source()
            .export_image(IMAGE)
            .try_collect::<Vec<_>>()
            .await;
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

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The engine's API, for what the backend has made.
    pub fn api(&self) -> Docker {
        api(&self.socket())
    }

    /// The folder of the engine's data, and of its clients' keys to detached sandboxes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends the daemon and its helpers a signal.
    pub fn signal(&self, signal: Signal) {
        assert!(self.daemon.is_some(), "it runs");
        for pid in self.processes() {
            send(pid, signal);
        }
    }

    /// The daemon and its helpers.
    pub fn processes(&self) -> Vec<u32> {
        containing(&self.address())
    }

    /// Waits until the daemon has ended.
    pub async fn wait_ended(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        let start = Instant::now();
        while daemon.try_wait().expect("a child").is_none() || !self.processes().is_empty() {
            assert!(start.elapsed() < DAEMON_TIMEOUT, "the daemon does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The backend's configuration for this engine.
    pub fn config(&self) -> ContainerConfig {
        self.config_at(&self.address())
    }

    /// The backend's configuration, with the socket of a proxy.
    pub fn config_at(&self, address: &str) -> ContainerConfig {
        ContainerConfig::default()
            .host(address)
            .default_image(IMAGE)
            .state_folder(self.state())
    }

    /// Whether containers keep running while the engine does not.
    pub fn containers_outlive_it(&self) -> bool {
        self.launcher.containers_outlive_engine()
    }

    /// The folder of the clients' records of detached sandboxes.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join(CLIENT_STATE)
    }

    pub fn client(&self) -> SandboxClient {
        self.client_with(self.config())
    }

    pub fn client_with(&self, config: ContainerConfig) -> SandboxClient {
        self.client_under(config, CapabilityPolicy::new())
    }

    pub fn client_under(&self, config: ContainerConfig, policy: CapabilityPolicy) -> SandboxClient {
        client_of(self.launcher.backend(config), policy)
    }

    /// The names and states of all containers.
    pub fn containers(&self) -> Vec<(String, String)> {
        let listed = engine_api::list(&self.socket(), "/containers/json?all=true");
        let listed = listed.as_array().expect("a list").iter();
        listed
            .filter(|container| !is_removed(&self.socket(), self.folder(), container))
            .map(engine_api::names_and_state)
            .collect()
    }

    /// The IDs of the containers that the engine lists as dead, and what exists of each.
    pub fn dead(&self) -> Vec<(String, Option<String>)> {
        let listed = engine_api::list(&self.socket(), "/containers/json?all=true");
        let listed = listed.as_array().expect("a list").iter();
        listed
            .filter(|container| container["State"] == "dead")
            .map(|container| {
                let id = container["Id"].as_str().expect("an id");
                (id.to_owned(), trace_of(&self.socket(), self.folder(), id))
            })
            .collect()
    }

    /// The names of the volumes.
    pub fn volumes(&self) -> Vec<String> {
        engine_api::volumes(&self.socket())
    }

    /// The number of networks.
    pub fn networks(&self) -> usize {
        engine_api::networks(&self.socket())
    }

    /// The end of the daemon's log.
    pub fn log_tail(&self) -> String {
        const LINES: usize = 40;
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Waits until all containers are in a state for which `wanted` is true.
    pub async fn wait_for(&self, what: &str, bound: Duration, wanted: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let left = self.containers();
            let left = left
                .iter()
                .filter(|(_, state)| !wanted(state))
                .collect::<Vec<_>>();
            if left.is_empty() {
                return;
            }
            assert!(
                start.elapsed() < bound,
                "{what}: {left:?} after {bound:?}; what exists of the dead ones: {:?}; the engine logged:\n{}",
                self.dead(),
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // Some engines' containers keep running without them.
            engine_api::remove_all(&self.socket());
            send(daemon.id(), Signal::Term);
            let start = Instant::now();
            while start.elapsed() < DAEMON_TIMEOUT && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            // It may have ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // Processes of a killed daemon have its folder in their arguments.
        for pid in containing(&self.folder.path().display().to_string()) {
            send(pid, Signal::Kill);
        }
        self.launcher.clean_up(self.folder.path());
        if let Some(holder) = &mut self.holder {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

pub fn api(socket: &Path) -> Docker {
    let socket = socket.to_string_lossy();
    Docker::connect_with_unix(&socket, 60, API_DEFAULT_VERSION).expect("a client")
}

pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("fault"))
}
