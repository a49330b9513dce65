//! The shared tests of what goes wrong around sandboxes, on Docker.

#[path = "../../sandbox-container/tests/faults/mod.rs"]
mod suite;

/// How a Docker engine of a test's own is started, and what the tests have to know of the family.
mod family {
    use std::path::Path;

    pub use sandbox_docker::{DockerBackend as Backend, DockerConfig as Config};

    use crate::suite::engine::{Launch, is_root};
    use crate::suite::processes::{Signal, send};

    pub const TIER: &str = "docker";
    pub const PROGRAMS: &[&str] = &["dockerd", "unshare", "nsenter"];

    /// What gives all containers users of their own.
    pub const REMAP: &[&str] = &["--userns-remap", "sandboxremap"];

    /// Whether containers go on running while their engine does not.
    pub const OUTLIVE: bool = false;

    /// Why this user cannot start one.
    pub fn left_out() -> Option<String> {
        (!is_root()).then(|| "only root can".to_owned())
    }

    /// An engine that has the image.
    pub fn source() -> bollard::Docker {
        bollard::Docker::connect_with_defaults().expect("an engine with the image")
    }

    pub fn prepare(folder: &Path) {
        let settings = r#"{"exec-opts":["native.cgroupdriver=cgroupfs"]}"#;
        std::fs::write(folder.join("daemon.json"), settings).expect("written");
    }

    pub fn launch(folder: &Path, address: &str) -> Launch {
        let place = |name: &str| folder.join(name).display().to_string();
        let mut arguments = ["--bridge", "none", "--iptables=false", "--host", address]
            .map(str::to_owned)
            .to_vec();
        for (option, name) in [
            ("--config-file", "daemon.json"),
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            arguments.extend([option.to_owned(), place(name)]);
        }
        Launch {
            program: "dockerd",
            arguments,
            environment: Vec::new(),
        }
    }

    /// What a killed daemon leaves: its own number, and that of its containerd, which ends with it, and which the next one would
    /// wait for while nobody has taken note of its end.
    pub fn clear(folder: &Path) {
        let containerd = folder.join("exec/containerd/containerd.pid");
        if let Ok(pid) = std::fs::read_to_string(&containerd) {
            pid.trim()
                .parse()
                .into_iter()
                .for_each(|pid| send(pid, Signal::Kill));
        }
        for file in [&containerd, &folder.join("pid")] {
            // There is none the first time.
            let _ = std::fs::remove_file(file);
        }
    }

    /// Ends what does not name the folder.
    pub fn end(_folder: &Path) {}
}

fn main() -> std::process::ExitCode {
    suite::main()
}
