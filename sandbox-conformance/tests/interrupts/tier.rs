//! What a suite has on a tier, read from the tier's own records without the suite's code.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

#[cfg(feature = "engines")]
use sandbox_testing::engine_api;
use serde_json::Value;

use crate::BOUND;
use crate::leftovers::named;
use crate::suite::SuiteProcess;

/// A tier that the suite measures.
pub struct Tier {
    pub name: &'static str,
    /// The engine's socket; `None` for the local kernel.
    pub socket: Option<PathBuf>,
}

impl Tier {
    /// Why the tier cannot be measured here.
    pub fn missing(&self) -> Option<String> {
        let socket = self.socket.as_ref()?;
        let error = UnixStream::connect(socket).err()?;
        Some(format!("{}: {error}", socket.display()))
    }

    /// Whether an attached sandbox of the suite runs.
    pub fn has_attached(&self, suite: SuiteProcess) -> bool {
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            return containers(socket, suite)
                .iter()
                .any(|container| !is_detached(container) && container["State"] == "running");
        }
        // Its first process is a child of the suite in another PID namespace, or with another
        // program.
        let all = SuiteProcess::all().into_iter();
        all.filter(|(_, parent)| *parent == suite.pid)
            .any(|(child, _)| {
                let link = |pid| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
                link(child.pid).is_some() && link(child.pid) != link(suite.pid)
            })
    }

    /// The suite's detached sandboxes, without those that will end by themselves in time.
    pub fn detached(&self, suite: SuiteProcess) -> Vec<String> {
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            let containers = containers(socket, suite).into_iter();
            let running = containers.filter(|container| {
                let lifetime = container["Labels"]["sandbox.lifetime"].as_str();
                is_detached(container)
                    && container["State"] == "running"
                    && lifetime.is_some_and(|seconds| is_long(seconds.parse().ok()))
            });
            return running.map(|container| describe(&container)).collect();
        }
        let records = records(suite).into_iter();
        let lifetime = |record: &Value| {
            let (created, expires) = (record["created"].as_u64()?, record["expires"].as_u64()?);
            expires.checked_sub(created)
        };
        let long = records.filter(|(_, record)| is_long(lifetime(record)));
        long.map(|(path, _)| path).collect()
    }

    /// The volumes of the suite's containers, without the agent's, which all sandboxes of an engine
    /// share.
    #[cfg_attr(
        not(feature = "engines"),
        expect(unused, reason = "no engine is linked")
    )]
    pub fn volumes(&self, suite: SuiteProcess) -> Vec<String> {
        let mut volumes = Vec::new();
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            for container in containers(socket, suite) {
                let id = container["Id"].as_str().expect("an id");
                // A removed container has no volumes.
                let seen =
                    engine_api::request(socket, "GET", &format!("/containers/{id}/json"), "");
                let seen = seen.unwrap_or_default();
                let mounts = seen["Mounts"].as_array().into_iter().flatten();
                let names = mounts.filter_map(|mount| mount["Name"].as_str());
                let own = names.filter(|name| !name.starts_with("sandbox-agent-"));
                volumes.extend(own.map(str::to_owned));
            }
        }
        volumes
    }

    /// Everything of the suite, as text, and those of `volumes` that exist.
    #[cfg_attr(
        not(feature = "engines"),
        expect(unused, reason = "no engine is linked")
    )]
    pub fn of(&self, suite: SuiteProcess, volumes: &[String]) -> Vec<String> {
        let records = records(suite).into_iter();
        let mut left: Vec<String> = records.map(|(path, _)| format!("record {path}")).collect();
        let mut folders = Vec::new();
        let owned = format!("-{}-{}-", suite.pid, suite.start);
        named(&state(), &owned, &mut folders);
        left.extend(
            folders
                .iter()
                .map(|path| format!("state {}", path.display())),
        );
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            left.extend(containers(socket, suite).iter().map(describe));
            let there = engine_api::volumes(socket).into_iter();
            let its = there.filter(|name| volumes.contains(name));
            left.extend(its.map(|name| format!("volume {name}")));
            // An image made from a container has the container's labels.
            let images = engine_api::list(socket, "/images/json?all=true");
            left.extend(of_suite(&images, suite).map(|one| format!("image {one}")));
        }
        left
    }
}

/// The state folder of this user.
pub fn state() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/run/sandbox".into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|folder| folder.is_dir()) {
        Some(folder) => folder.join("sandbox"),
        None => format!("/tmp/sandbox-{}", rustix::process::geteuid().as_raw()).into(),
    }
}

/// Whether this lifetime in seconds is longer than leftovers of a killed suite may exist.
fn is_long(seconds: Option<u64>) -> bool {
    seconds.is_some_and(|seconds| seconds > BOUND.as_secs())
}

/// The records of the suite's detached sandboxes in the state folder, of any tier.
fn records(suite: SuiteProcess) -> Vec<(String, Value)> {
    let run = format!("\"{}.{}.", suite.pid, suite.start);
    let mut found = Vec::new();
    walk(&state(), &mut |path, text| {
        if text.contains(&run) {
            // Includes records that are being written.
            let record = serde_json::from_str(text).unwrap_or_default();
            found.push((path.display().to_string(), record));
        }
    });
    found
}

fn walk(folder: &Path, seen: &mut dyn FnMut(&Path, &str)) {
    // The file may have been removed.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&path, seen),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|kind| kind == "json") => {
                seen(&path, &fs::read_to_string(&path).unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// The suite's containers: their owner label has its process id and start time.
#[cfg(feature = "engines")]
fn containers(socket: &Path, suite: SuiteProcess) -> Vec<Value> {
    let listed = engine_api::list(socket, "/containers/json?all=true");
    of_suite(&listed, suite).cloned().collect()
}

#[cfg(feature = "engines")]
fn of_suite(listed: &Value, suite: SuiteProcess) -> impl Iterator<Item = &Value> {
    let own = format!(":{}:{}:", suite.pid, suite.start);
    let all = listed.as_array().into_iter().flatten();
    all.filter(move |one| {
        let owner = one["Labels"]["sandbox.owner"].as_str();
        owner.is_some_and(|owner| owner.contains(&own))
    })
}

#[cfg(feature = "engines")]
fn is_detached(container: &Value) -> bool {
    container["Labels"]["sandbox.detached"].is_string()
}

#[cfg(feature = "engines")]
fn describe(container: &Value) -> String {
    let (names, state) = engine_api::names_and_state(container);
    format!("container {names}: {state}")
}

/// The tiers that are built in.
pub fn all() -> Vec<Tier> {
    vec![
        #[cfg(feature = "local")]
        Tier {
            name: "local",
            socket: None,
        },
        #[cfg(feature = "docker")]
        engine("docker", "DOCKER_HOST", "/run/docker.sock".into()),
        #[cfg(feature = "podman")]
        engine("podman", "CONTAINER_HOST", podman_socket()),
    ]
}

/// The socket of root, or of the current user.
#[cfg(feature = "podman")]
fn podman_socket() -> PathBuf {
    let runtime = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !rustix::process::geteuid().is_root() => PathBuf::from(folder),
        _ => "/run".into(),
    };
    runtime.join("podman/podman.sock")
}

#[cfg(feature = "engines")]
fn engine(name: &'static str, variable: &str, usual: PathBuf) -> Tier {
    let named = std::env::var(variable).ok();
    let socket = named.map_or(usual, |host| host.trim_start_matches("unix://").into());
    Tier {
        name,
        socket: Some(socket),
    }
}
