//! What a tier has of a suite, as the tier's own records say it, read without the suite's code.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "engines")]
use sandbox_testing::engine_api;
use serde_json::Value;

use crate::BOUND;
use crate::remains::named;
use crate::suite::Process;

/// A tier that is here.
pub struct Tier {
    pub name: &'static str,
    /// Where its engine listens; the local kernel is none.
    #[cfg_attr(
        not(feature = "engines"),
        expect(dead_code, reason = "no engine is linked")
    )]
    pub socket: Option<PathBuf>,
}

impl Tier {
    /// Whether an attached sandbox of the suite runs.
    pub fn has_attached(&self, suite: Process) -> bool {
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            return containers(socket, suite)
                .iter()
                .any(|container| !is_detached(container) && container["State"] == "running");
        }
        // Its first process is a child of the suite's, in a process namespace of its own, or has left the suite's program.
        let all = Process::all().into_iter();
        all.filter(|(_, parent)| *parent == suite.pid)
            .any(|(child, _)| {
                let link = |pid| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
                link(child.pid).is_some() && link(child.pid) != link(suite.pid)
            })
    }

    /// The suite's detached sandboxes, but for those that end by themselves before anybody is blamed for them.
    pub fn detached(&self, suite: Process) -> Vec<String> {
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            let containers = containers(socket, suite).into_iter();
            let running = containers.filter(|container| {
                let lifetime = container["Labels"]["sandbox.lifetime"].as_str();
                is_detached(container)
                    && container["State"] == "running"
                    && lifetime.is_some_and(|seconds| is_long(seconds.parse().ok()))
            });
            return running.map(|container| told(&container)).collect();
        }
        let records = records(suite).into_iter();
        let lifetime = |record: &Value| {
            let (created, expires) = (record["created"].as_u64()?, record["expires"].as_u64()?);
            expires.checked_sub(created)
        };
        let long = records.filter(|(_, record)| is_long(lifetime(record)));
        long.map(|(path, _)| path).collect()
    }

    /// The volumes of the suite's containers, but for the agent's, which the sandboxes of an engine share.
    #[cfg_attr(
        not(feature = "engines"),
        expect(unused, reason = "no engine is linked")
    )]
    pub fn volumes(&self, suite: Process) -> Vec<String> {
        let mut volumes = Vec::new();
        #[cfg(feature = "engines")]
        if let Some(socket) = &self.socket {
            for container in containers(socket, suite) {
                let id = container["Id"].as_str().expect("an id");
                // One that has gone since has taken its volumes along.
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

    /// Everything of the suite, as text, and those of its `volumes` that are there.
    #[cfg_attr(
        not(feature = "engines"),
        expect(unused, reason = "no engine is linked")
    )]
    pub fn of(&self, suite: Process, volumes: &[String]) -> Vec<String> {
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
            left.extend(containers(socket, suite).iter().map(told));
            let there = engine_api::volumes(socket).into_iter();
            let its = there.filter(|name| volumes.contains(name));
            left.extend(its.map(|name| format!("volume {name}")));
            // What is made of a container has its labels.
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

/// Whether so many seconds of life are more than anything of a killed suite may have.
fn is_long(seconds: Option<u64>) -> bool {
    seconds.is_some_and(|seconds| seconds > BOUND.as_secs())
}

/// The records of the suite's detached sandboxes in the state folder, of whatever tier: those that name its run.
fn records(suite: Process) -> Vec<(String, Value)> {
    let run = format!("\"{}.{}.", suite.pid, suite.start);
    let mut found = Vec::new();
    walk(&state(), &mut |path, text| {
        if text.contains(&run) {
            // One that is being written is there as well.
            let record = serde_json::from_str(text).unwrap_or_default();
            found.push((path.display().to_string(), record));
        }
    });
    found
}

fn walk(folder: &Path, seen: &mut dyn FnMut(&Path, &str)) {
    // What went meanwhile is not there any more.
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

/// The containers that the suite has made: its number and its start are in the label of their owner.
#[cfg(feature = "engines")]
fn containers(socket: &Path, suite: Process) -> Vec<Value> {
    let listed = engine_api::list(socket, "/containers/json?all=true");
    of_suite(&listed, suite).cloned().collect()
}

#[cfg(feature = "engines")]
fn of_suite(listed: &Value, suite: Process) -> impl Iterator<Item = &Value> {
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
fn told(container: &Value) -> String {
    let (names, state) = engine_api::names_and_state(container);
    format!("container {names}: {state}")
}

/// The local kernel, which is always here.
#[cfg(feature = "local")]
pub fn local() -> Option<Tier> {
    Some(Tier {
        name: "local",
        socket: None,
    })
}

#[cfg(feature = "docker")]
pub fn docker() -> Option<Tier> {
    engine("docker", "DOCKER_HOST", "/run/docker.sock".into())
}

/// Root's, or that of the user who runs this.
#[cfg(feature = "podman")]
pub fn podman() -> Option<Tier> {
    let runtime = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !rustix::process::geteuid().is_root() => PathBuf::from(folder),
        _ => "/run".into(),
    };
    engine(
        "podman",
        "CONTAINER_HOST",
        runtime.join("podman/podman.sock"),
    )
}

/// The engine, unless there is none.
#[cfg(feature = "engines")]
fn engine(name: &'static str, variable: &str, usual: PathBuf) -> Option<Tier> {
    let named = std::env::var(variable).ok();
    let socket = named.map_or(usual, |host| host.trim_start_matches("unix://").into());
    if let Err(error) = std::os::unix::net::UnixStream::connect(&socket) {
        let required = std::env::var("SANDBOX_REQUIRE").unwrap_or_default();
        let required = required.split(',').any(|one| one.trim() == name);
        let socket = socket.display();
        assert!(!required, "{name} is required: {socket}: {error}");
        println!("NOT RUN: interrupts on {name}: {socket}: {error}");
        return None;
    }
    Some(Tier {
        name,
        socket: Some(socket),
    })
}
