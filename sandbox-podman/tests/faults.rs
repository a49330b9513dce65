//! The shared tests of what goes wrong around sandboxes, on Podman, with root or without.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bollard::{API_DEFAULT_VERSION, Docker};
use sandbox_core::spi::Backend;
use sandbox_podman::{PodmanBackend, PodmanConfig};
use sandbox_testing::faults::{DaemonCommand, EngineLauncher};
use sandbox_testing::processes::{Signal, send};
use sandbox_testing::users::is_root;

struct PodmanService;

impl EngineLauncher for PodmanService {
    fn tier(&self) -> &'static str {
        "podman"
    }

    fn backend(&self, config: PodmanConfig) -> Arc<dyn Backend> {
        Arc::new(PodmanBackend::new(config))
    }

    fn programs(&self) -> &'static [&'static str] {
        &["podman", "unshare", "nsenter"]
    }

    /// Each container asks for its own user namespace instead.
    fn user_remap_arguments(&self) -> &'static [&'static str] {
        &[]
    }

    /// Each container has its own monitor process.
    fn containers_outlive_engine(&self) -> bool {
        true
    }

    fn image_source(&self) -> Docker {
        let socket = match std::env::var("CONTAINER_HOST") {
            Ok(host) => host.trim_start_matches("unix://").to_owned(),
            Err(_) if is_root() => "/run/podman/podman.sock".to_owned(),
            Err(_) => {
                let folder = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
                format!("{folder}/podman/podman.sock")
            }
        };
        Docker::connect_with_unix(&socket, 60, API_DEFAULT_VERSION)
            .expect("an engine with the image")
    }

    /// Writes the host's configuration, but with locks in the engine's folder. All engines share
    /// the locks in shared memory, and a new engine would free them.
    fn prepare(&self, folder: &Path) {
        let of_user =
            std::env::var("HOME").map(|home| PathBuf::from(home).join(".config/containers"));
        let configuration = of_user
            .into_iter()
            .chain(["/etc/containers".into(), "/usr/share/containers".into()])
            .find_map(|folder| std::fs::read_to_string(folder.join("containers.conf")).ok());
        let mut settings = configuration
            .unwrap_or_default()
            .parse::<toml::Table>()
            .expect("Podman reads it");
        let engine = settings
            .entry("engine")
            .or_insert_with(|| toml::Table::new().into());
        let engine = engine.as_table_mut().expect("a table");
        engine.insert("lock_type".into(), "file".into());
        std::fs::write(folder.join("containers.conf"), settings.to_string()).expect("written");
        // A rootless engine looks here for the process that keeps its namespaces.
        std::fs::create_dir(folder.join("user")).expect("a folder");
    }

    fn command(&self, folder: &Path, address: &str) -> DaemonCommand {
        let mut arguments = options(folder);
        arguments.extend(["system", "service", "--time=0", address].map(str::to_owned));
        DaemonCommand {
            program: "podman",
            arguments,
            environment: environment(folder).to_vec(),
        }
    }

    fn clear(&self, folder: &Path) {
        // There is no socket at the first start.
        let _ = std::fs::remove_file(folder.join("engine.sock"));
    }

    /// Without root: removes the files of subordinate users, and ends the process that keeps the
    /// user's namespaces.
    fn clean_up(&self, folder: &Path) {
        if is_root() {
            return;
        }
        // Some storage drivers mount the storage onto itself in the user's mount namespace.
        let script = "umount \"$1/overlay\" 2>/dev/null; rm -rf \"$@\"";
        let mut podman = Command::new("podman");
        podman
            .args(options(folder))
            .args(["unshare", "sh", "-c", script, "sh"])
            .args([folder.join("data"), folder.join("run")])
            .envs(environment(folder));
        if !podman.status().is_ok_and(|status| status.success()) {
            eprintln!("{} cannot be removed as a whole", folder.display());
        }
        for file in ["tmp/pause.pid", "user/libpod/tmp/pause.pid"] {
            if let Ok(pid) = std::fs::read_to_string(folder.join(file)) {
                pid.trim()
                    .parse()
                    .into_iter()
                    .for_each(|pid| send(pid, Signal::Kill));
            }
        }
    }
}

fn options(folder: &Path) -> Vec<String> {
    let options = [
        ("--root", "data"),
        ("--runroot", "run"),
        ("--tmpdir", "tmp"),
        ("--network-config-dir", "networks"),
    ];
    let options = options.map(|(option, name)| {
        let path = folder.join(name).display().to_string();
        [option.to_owned(), path]
    });
    options.into_iter().flatten().collect()
}

fn environment(folder: &Path) -> [(&'static str, String); 2] {
    [
        ("CONTAINERS_CONF", "containers.conf"),
        ("XDG_RUNTIME_DIR", "user"),
    ]
    .map(|(variable, name)| (variable, folder.join(name).display().to_string()))
}

fn main() -> std::process::ExitCode {
    sandbox_testing::faults::main(&PodmanService)
}
