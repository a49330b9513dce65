//! Kubernetes: the cluster that `KUBECONFIG` names, or a single node built from Debian's packages and its source package.
//!
//! The node is a real one: etcd, an API server with role-based access control, controller manager, scheduler, kubelet and
//! containerd, each a process of its own. What is built is kept in the cache folder, so that a later start takes seconds. Pods
//! reach each other over a bridge, and nothing else.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::{Engine, Status, daemon, service, sockets};
use crate::failure::{Failure, Result};
use crate::programs;

mod build;
mod certificates;
mod configuration;
mod containers;
mod daemons;
mod images;
mod kubectl;
mod layout;
mod network;
mod remains;

use kubectl::Kubectl;
use layout::Layout;

/// The engine's name, for messages and records.
const ENGINE: &str = "k8s";
/// The programs that a node needs, and Debian's packages of them.
const PACKAGES: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("etcd", "etcd-server"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("socat", "socat"),
    ("ip", "iproute2"),
    ("openssl", "openssl"),
];

/// Kubernetes.
#[derive(Debug)]
pub struct Kubernetes;

/// The cluster that tests are to use.
enum Cluster {
    /// The user's own, by its configuration.
    Named(String),
    /// The one that `up` starts.
    Ours(Layout),
}

impl Cluster {
    fn find() -> Result<Self> {
        let layout = Layout::of_this_user()?;
        Ok(match sockets::variable("KUBECONFIG") {
            Some(path) if layout.kubeconfig() != *Path::new(&path) => Self::Named(path),
            _ => Self::Ours(layout),
        })
    }
}

/// Whether `up` has started a cluster that `down` has not stopped.
///
/// # Errors
/// When the record of it cannot be read.
pub fn is_started() -> Result<bool> {
    Ok(service::record(daemons::LAST)?.read()?.is_some())
}

impl Engine for Kubernetes {
    fn up(&self) -> Result<Status> {
        if let Cluster::Ours(layout) = Cluster::find()? {
            // A user's own cluster is used as it is.
            let is_ready = |kubectl: Kubectl| kubectl.node_is_ready();
            if !daemons::all_run()? || !Kubectl::new(&layout).is_some_and(is_ready) {
                start(&layout)?;
            }
            daemons::describe_api_server(&layout)?;
            if let Some(kubectl) = Kubectl::new(&layout) {
                kubectl.annotate_node(build::CHANGED)?;
            }
        }
        Ok(self.status())
    }

    fn build(&self) -> Result<String> {
        let layout = Layout::of_this_user()?;
        build::build(&layout)?;
        images::archives(&layout)?;
        let folder = layout.cache.display();
        Ok(format!("programs and images are in {folder}"))
    }

    fn down(&self) -> Result<String> {
        let layout = Layout::of_this_user()?;
        let mut logs = Vec::new();
        if let Some(kubectl) = Kubectl::new(&layout)
            && is_started()?
        {
            logs = kubectl.delete_all_pods();
        }
        let ended = end(&layout)?;
        let left = remains::remove(&layout, &logs)?;
        Ok(match (ended.is_empty(), left) {
            (true, false) => "not started by us, nothing to stop".to_owned(),
            (true, true) => "nothing ran; removed what an earlier one has left".to_owned(),
            (false, _) => format!("stopped ({})", ended.join(", ")),
        })
    }

    fn status(&self) -> Status {
        describe().map_or_else(Status::Missing, Status::Running)
    }
}

fn describe() -> Result<String> {
    let (kubectl, kubeconfig, origin) = match Cluster::find()? {
        Cluster::Named(path) => (named(&path)?, path, "named by KUBECONFIG"),
        Cluster::Ours(layout) => {
            let kubectl = Kubectl::new(&layout).ok_or_else(|| {
                Failure::new("no cluster was started, and KUBECONFIG names none")
                    .with_fix("cargo xtask engines up k8s")
            })?;
            let path = layout.kubeconfig().display().to_string();
            (kubectl, path, "started by us")
        }
    };
    let described = kubectl.describe()?;
    Ok(format!("{described}, {origin}; KUBECONFIG={kubeconfig}"))
}

/// The command for a cluster of the user's.
fn named(kubeconfig: &str) -> Result<Kubectl> {
    // Without any of them kubectl would ask whoever listens on this machine.
    if !std::env::split_paths(kubeconfig).any(|path| path.exists()) {
        return Err(
            Failure::new(format!("KUBECONFIG names {kubeconfig}, which is not there"))
                .with_fix("set it to a cluster's configuration, or unset it"),
        );
    }
    Kubectl::of(&Layout::of_this_user()?, kubeconfig).ok_or_else(|| {
        Failure::new(format!(
            "there is no kubectl to ask the cluster of {kubeconfig} with"
        ))
        .with_fix("install kubectl (Debian: kubernetes-client)")
    })
}

/// Ends the daemons and their containers, and gives the records of those that ran.
fn end(layout: &Layout) -> Result<Vec<&'static str>> {
    let mut ended = Vec::new();
    for (index, name) in daemons::IN_ORDER.iter().rev().enumerate() {
        // Behind the kubelet nobody starts containers again; before containerd ends, it can still end them.
        if index == 1 {
            containers::remove_all(layout);
        }
        if let daemon::Stopped::Ended(_) = daemon::stop(&service::record(name)?)? {
            ended.push(*name);
        }
    }
    Ok(ended)
}

/// The configuration of the cluster that tests use: the user's, else that of ours, whether it runs or not. Without a word from the user,
/// tests touch no cluster that `~/.kube/config` happens to name.
///
/// # Errors
/// When there is no place for ours.
pub fn kubeconfig() -> Result<String> {
    Ok(match Cluster::find()? {
        Cluster::Named(path) => path,
        Cluster::Ours(layout) => layout.kubeconfig().display().to_string(),
    })
}

/// The configuration of the node that `up` starts, whether it runs or not: for tasks that nobody asked to use the user's cluster.
///
/// # Errors
/// When there is no place for it.
pub fn own_kubeconfig() -> Result<String> {
    let layout = Layout::of_this_user()?;
    Ok(layout.kubeconfig().display().to_string())
}

/// Whether the cluster that tests use answers: that of `KUBECONFIG` only where that was `asked_for`, else the node that `up` starts.
///
/// # Errors
/// When it does not, with what to do.
pub fn check(asked_for: bool) -> Result<()> {
    if asked_for {
        return describe().map(drop);
    }
    let cluster = Cluster::find()?;
    match &cluster {
        Cluster::Named(path) => Err(Failure::new(format!(
            "KUBECONFIG names {path}, which nobody asked to use"
        ))
        .with_fix("--require k8s uses it; without KUBECONFIG the node of `cargo xtask engines up k8s` is used")),
        Cluster::Ours(_) => describe().map(drop),
    }
}

fn start(layout: &Layout) -> Result<()> {
    if !programs::is_root() {
        return Err(Failure::new("k8s: only root can start a node")
            .with_fix("set KUBECONFIG to a cluster's configuration"));
    }
    let begin = Instant::now();
    let say = |what: &str| eprintln!("k8s: {what} ({:.1} s)", begin.elapsed().as_secs_f64());
    service::install(&PACKAGES)?;
    build::build(layout)?;
    say("programs are there");
    let archives = images::archives(layout)?;
    if daemons::state_is_lost()? {
        eprintln!(
            "k8s: the earlier cluster has ended by itself, or with the machine: it is made anew"
        );
        end(layout)?;
        remains::remove(layout, &[])?;
        // The runtime still knows its containers, of which nothing is left.
        remains::forget_containers(layout)?;
    }
    certificates::make(layout)?;
    configuration::write(layout)?;
    network::up()?;
    daemons::containerd(layout)?;
    images::import(layout, &archives)?;
    say("images are there");
    daemons::control_plane(layout)?;
    say("the API server answers");
    daemons::kubelet(layout)?;
    say("the node is ready");
    Ok(())
}

/// Runs a program of the system, and gives what it wrote to standard output.
///
/// # Errors
/// When it cannot be started or fails, with the last line of what it says.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| Failure::new(format!("cannot start {name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().next_back().unwrap_or("it says nothing");
    Err(Failure::new(format!(
        "{name} failed with {}: {last}",
        output.status
    )))
}
