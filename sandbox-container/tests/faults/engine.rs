//! An engine of a test's own: it can be killed, and nobody else has anything on it. Root's is in a network and a mount namespace of
//! its own.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::ImportImageOptions;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::{StreamExt, TryStreamExt};
use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec, unique_name};

use super::listing;
use super::phantom::is_phantom;
use super::processes::{Signal, naming, send};
use crate::family::{self, Backend, Config};

pub const IMAGE: &str = "sandbox-test/busybox:latest";

/// How long a daemon may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a family starts an engine.
pub struct Launch {
    pub program: &'static str,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
}

/// What an engine of root's is started with beside what its family says.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Arguments before the family's own.
    pub arguments: &'static [&'static str],
    /// A script that prepares the engine's folder, its first argument, in the engine's own mounts.
    pub script: String,
}

/// Why no engine can be started here; `None` where one can.
pub fn missing() -> Option<String> {
    if let Some(reason) = family::left_out() {
        return Some(reason);
    }
    for program in family::PROGRAMS {
        let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists());
        if !found {
            return Some(format!("no {program}"));
        }
    }
    let looked = runtime().map_err(|failed| failed.message().unwrap_or_default().to_owned());
    let image = looked.and_then(|runtime| {
        let image = runtime.block_on(async { family::source().inspect_image(IMAGE).await });
        image.map_err(|error| format!("image {IMAGE}: {error}; build it with `cargo xtask images`"))
    });
    image.err()
}

/// Whether this is root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
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
    /// Holds root's namespaces while no daemon runs.
    holder: Option<Child>,
    daemon: Option<Child>,
    setup: Setup,
}

impl Engine {
    /// Starts one that has the test image and nothing else.
    pub async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    /// As [`Engine::start`], otherwise set up.
    pub async fn start_with(setup: Setup) -> Self {
        let folder = tempfile::Builder::new()
            .prefix(&format!("sandbox-{}-", family::TIER))
            // Wherever else there are temporary files: the path of Podman's run root has 50 characters at most.
            .tempdir_in("/tmp")
            .expect("a folder");
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(folder.path(), open).expect("mode");
        family::prepare(folder.path());
        let holder = is_root().then(|| {
            let holder = Command::new("unshare")
                .args(["--net", "--mount", "--", "sleep", "3600"])
                .stdin(Stdio::null())
                .spawn();
            holder.expect("namespaces")
        });
        let mut engine = Self {
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

    /// `unshare` is `sleep` once it has left ours.
    fn wait_for_namespaces(&self) {
        let Some(holder) = &self.holder else { return };
        let start = Instant::now();
        let name = format!("/proc/{}/comm", holder.id());
        while std::fs::read_to_string(&name).is_ok_and(|name| name.trim() != "sleep") {
            assert!(start.elapsed() < PATIENCE, "no namespaces");
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
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{}: {said}", self.setup.script);
    }

    /// A program in the engine's namespaces.
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

    /// Starts its daemon, as after an end, and waits until it answers.
    pub async fn resume(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .expect("a log");
        family::clear(self.folder.path());
        let launch = family::launch(self.folder.path(), &self.address());
        let daemon = self
            .inside(launch.program)
            .args(self.setup.arguments)
            .args(launch.arguments)
            .envs(launch.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("a daemon");
        self.daemon = Some(daemon);
        let start = Instant::now();
        while !self.answers().await {
            assert!(start.elapsed() < PATIENCE, "no answer: {}", self.said());
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
        let image = family::source()
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

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// Its own API, to look at what the backend has made.
    pub fn api(&self) -> Docker {
        api(&self.socket())
    }

    /// Where it keeps everything, and its clients the keys of detached sandboxes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends its processes a signal.
    pub fn signal(&self, signal: Signal) {
        assert!(self.daemon.is_some(), "it runs");
        for pid in self.processes() {
            send(pid, signal);
        }
    }

    /// The daemon, and those of its processes that serve for it.
    pub fn processes(&self) -> Vec<u32> {
        naming(&self.address())
    }

    /// Waits until the daemon has ended.
    pub async fn wait_ended(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        let start = Instant::now();
        while daemon.try_wait().expect("a child").is_none() || !self.processes().is_empty() {
            assert!(start.elapsed() < PATIENCE, "the daemon does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What a client of it needs. The keys of detached sandboxes go with the engine.
    pub fn config(&self) -> Config {
        self.config_at(&self.address())
    }

    /// The same, by way of another socket.
    pub fn config_at(&self, address: &str) -> Config {
        Config::default()
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
    pub fn containers(&self) -> Vec<(String, String)> {
        let listed = listing::list(&self.socket(), "/containers/json?all=true");
        let listed = listed.as_array().expect("a list").iter();
        let there = listed.filter(|one| !is_phantom(&self.socket(), self.folder(), one));
        there.map(listing::described).collect()
    }

    /// The names of its volumes.
    pub fn volumes(&self) -> Vec<String> {
        listing::volumes(&self.socket())
    }

    /// How many networks it has.
    pub fn networks(&self) -> usize {
        listing::networks(&self.socket())
    }

    /// The end of its daemon's log.
    fn said(&self) -> String {
        const LINES: usize = 40;
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Waits until it has no container that is not in `wanted`.
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
                "{what}: {left:?} after {bound:?}; the engine said:\n{}",
                self.said()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // An engine whose containers outlive it would leave them.
            listing::remove_all(&self.socket());
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
        for pid in naming(&self.folder.path().display().to_string()) {
            send(pid, Signal::Kill);
        }
        family::end(self.folder.path());
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

pub fn client_of(config: Config) -> SandboxClient {
    client_under(config, CapabilityPolicy::new())
}

pub fn client_under(config: Config, policy: CapabilityPolicy) -> SandboxClient {
    let backend = Arc::new(Backend::new(config));
    SandboxClient::with_backend(backend, policy).expect("a valid policy")
}

pub fn spec() -> SandboxSpec {
    SandboxSpec::new(unique_name("fault"))
}
