//! The shared tests of what goes wrong around sandboxes, on Docker.

use std::path::Path;
use std::sync::Arc;

use bollard::Docker;
use sandbox_core::spi::Backend;
use sandbox_docker::{DockerBackend, DockerConfig};
use sandbox_testing::faults::{DaemonCommand, EngineLauncher};
use sandbox_testing::processes::{Signal, send};
use sandbox_testing::users::is_root;

struct Dockerd;

impl EngineLauncher for Dockerd {
    fn tier(&self) -> &'static str {
        "docker"
    }

    fn backend(&self, config: DockerConfig) -> Arc<dyn Backend> {
        Arc::new(DockerBackend::new(config))
    }

    fn programs(&self) -> &'static [&'static str] {
        &["dockerd", "unshare", "nsenter"]
    }

    fn user_remap_arguments(&self) -> &'static [&'static str] {
        &["--userns-remap", "sandboxremap"]
    }

    fn containers_outlive_engine(&self) -> bool {
        false
    }

    fn unavailable(&self) -> Option<String> {
        (!is_root()).then(|| "only root can".to_owned())
    }

    fn image_source(&self) -> Docker {
        Docker::connect_with_defaults().expect("an engine with the image")
    }

    fn prepare(&self, folder: &Path) {
        let settings = r#"{"exec-opts":["native.cgroupdriver=cgroupfs"]}"#;
        std::fs::write(folder.join("daemon.json"), settings).expect("written");
    }

    fn command(&self, folder: &Path, address: &str) -> DaemonCommand {
        let mut arguments = ["--bridge", "none", "--iptables=false", "--host", address]
            .map(str::to_owned)
            .to_vec();
        for (option, name) in [
            ("--config-file", "daemon.json"),
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            arguments.extend([option.to_owned(), folder.join(name).display().to_string()]);
        }
        DaemonCommand {
            program: "dockerd",
            arguments,
            environment: Vec::new(),
        }
    }

    /// Ends the killed daemon's containerd, which the next daemon would wait for, and removes both
    /// pid files.
    fn clear(&self, folder: &Path) {
        let containerd = folder.join("exec/containerd/containerd.pid");
        if let Ok(pid) = std::fs::read_to_string(&containerd) {
            pid.trim()
                .parse()
                .into_iter()
                .for_each(|pid| send(pid, Signal::Kill));
        }
        for file in [&containerd, &folder.join("pid")] {
            // Neither exists at the first start.
            let _ = std::fs::remove_file(file);
        }
    }
}

fn main() -> std::process::ExitCode {
    sandbox_testing::faults::main(&Dockerd)
}
