//! The shared tests of what goes wrong around sandboxes, on Podman, with root or without.

#[path = "../../sandbox-container/tests/faults/mod.rs"]
mod suite;

/// How a Podman service of a test's own is started, and what the tests have to know of the family.
mod family {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    pub use sandbox_podman::{PodmanBackend as Backend, PodmanConfig as Config};

    use crate::suite::engine::{Launch, is_root};
    use crate::suite::processes::{Signal, send};

    pub const TIER: &str = "podman";
    pub const PROGRAMS: &[&str] = &["podman", "unshare", "nsenter"];

    /// What gives all containers users of their own: each asks for them itself, here.
    pub const REMAP: &[&str] = &[];

    /// Whether containers go on running while their engine does not: each has a monitor of its own.
    pub const OUTLIVE: bool = true;

    /// Why this user cannot start one.
    pub fn left_out() -> Option<String> {
        None
    }

    /// An engine that has the image.
    pub fn source() -> bollard::Docker {
        let socket = match std::env::var("CONTAINER_HOST") {
            Ok(host) => host.trim_start_matches("unix://").to_owned(),
            Err(_) if is_root() => "/run/podman/podman.sock".to_owned(),
            Err(_) => {
                let folder = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
                format!("{folder}/podman/podman.sock")
            }
        };
        bollard::Docker::connect_with_unix(&socket, 60, bollard::API_DEFAULT_VERSION)
            .expect("an engine with the image")
    }

    /// The machine's configuration, but with locks in the engine's own folder: those in shared memory are every engine's, and a new one
    /// would begin by freeing them all.
    pub fn prepare(folder: &Path) {
        let users =
            std::env::var("HOME").map(|home| PathBuf::from(home).join(".config/containers"));
        let found = users
            .into_iter()
            .chain(["/etc/containers".into(), "/usr/share/containers".into()])
            .find_map(|folder| std::fs::read_to_string(folder.join("containers.conf")).ok());
        let mut settings = found
            .unwrap_or_default()
            .parse::<toml::Table>()
            .expect("Podman reads it");
        let engine = settings
            .entry("engine")
            .or_insert_with(|| toml::Table::new().into());
        let engine = engine.as_table_mut().expect("a table");
        engine.insert("lock_type".into(), "file".into());
        std::fs::write(folder.join("containers.conf"), settings.to_string()).expect("written");
        // Where a user's engine looks for the process that holds its namespaces: not at another engine's.
        std::fs::create_dir(folder.join("user")).expect("a folder");
    }

    pub fn launch(folder: &Path, address: &str) -> Launch {
        let mut arguments = options(folder);
        arguments.extend(["system", "service", "--time=0", address].map(str::to_owned));
        Launch {
            program: "podman",
            arguments,
            environment: environment(folder).to_vec(),
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
            let place = folder.join(name).display().to_string();
            [option.to_owned(), place]
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

    /// What a killed service leaves.
    pub fn clear(folder: &Path) {
        // There is none the first time.
        let _ = std::fs::remove_file(folder.join("engine.sock"));
    }

    /// Without root: removes what only the user's other numbers may remove, and ends the process that holds the user's namespaces.
    pub fn end(folder: &Path) {
        if is_root() {
            return;
        }
        // Its storage is mounted onto itself in the user's own mounts, on some drivers.
        let script = "umount \"$1/overlay\" 2>/dev/null; rm -rf \"$@\"";
        let mut podman = Command::new("podman");
        podman
            .args(options(folder))
            .args(["unshare", "sh", "-c", script, "sh"])
            .args([folder.join("data"), folder.join("run")])
            .envs(environment(folder));
        if !podman.status().is_ok_and(|status| status.success()) {
            eprintln!("something is left in {}", folder.display());
        }
        for place in ["tmp/pause.pid", "user/libpod/tmp/pause.pid"] {
            if let Ok(pid) = std::fs::read_to_string(folder.join(place)) {
                pid.trim()
                    .parse()
                    .into_iter()
                    .for_each(|pid| send(pid, Signal::Kill));
            }
        }
    }
}

fn main() -> std::process::ExitCode {
    suite::main()
}
