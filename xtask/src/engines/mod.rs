//! `cargo xtask engines up|down|status [ENGINE…]`: the container engines and the cluster that tests need.
//!
//! Only `up` changes the machine, and `down` only stops what `up` started.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use crate::failure::{Failure, Result};
use crate::http::Client;
use crate::lock::Lock;
use crate::places;

mod daemon;
mod docker;
mod kubernetes;
mod podman;
mod process;
mod record;
mod service;
mod sockets;

pub use daemon::Owner;
pub use kubernetes::{check as check_cluster, kubeconfig, own_kubeconfig};
pub use podman::rootless::owner as rootless_owner;

/// Whether the cluster that tests are to use answers.
pub fn has_cluster() -> bool {
    matches!(kubernetes::Kubernetes.status(), Status::Running(_))
}

/// What to do with which engines.
/// Checks that an engine answers and has the test images. Where it `is_required`, missing images
/// are built and imported.
///
/// # Errors
/// When it does not.
pub fn check(name: Name, is_required: bool) -> Result<()> {
    if name == Name::Kubernetes {
        return check_cluster(is_required);
    }
    name.connect(Duration::from_secs(5))?;
    let mut images = std::process::Command::new("/proc/self/exe");
    images.args(["images", "--engine", name.text()]);
    if !is_required {
        images.arg("--check");
    }
    crate::programs::run_with_progress(&mut images)
        .map_err(|failure| Failure::new(format!("no test images: {failure}")))
}

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Find the engine running, else install and start it (as root on a Debian-like system)
    Up {
        #[command(flatten)]
        selection: Selection,
        /// Give Docker gVisor's runtime as well; changes its daemon.json, and says so
        #[arg(long)]
        with_runsc: bool,
        /// Only build what Kubernetes runs, and start nothing
        #[arg(long)]
        build_only: bool,
    },
    /// Stop the engine if `up` started it
    Down(Selection),
    /// Print a line for each engine; exits with 1 when one is missing
    Status(Selection),
}

#[derive(Debug, Clone, clap::Args)]
struct Selection {
    /// The engines meant. When none is named: docker and podman, and what was started before
    #[arg(value_enum)]
    engines: Vec<Name>,
}

/// The engines that tasks know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Docker, over its Unix socket
    Docker,
    /// Podman, over its Unix socket
    Podman,
    /// Podman without root: the caller's own, or, for root, that of an account made for it
    PodmanRootless,
    /// Kubernetes: the cluster of `KUBECONFIG`, or, for root, a node of its own
    #[value(name = "k8s")]
    Kubernetes,
}

/// What a task can do with one engine. One small file implements it for each.
trait Engine {
    /// Makes sure that the engine answers, changing the machine where it must.
    fn up(&self) -> Result<Status>;
    /// Builds what it runs, and says in a line what there is.
    fn build(&self) -> Result<String> {
        Ok("comes as a package, there is nothing to build".to_owned())
    }
    /// Stops the engine if `up` started it, and says in a line what was done.
    fn down(&self) -> Result<String>;
    /// Looks for the engine, changing nothing.
    fn status(&self) -> Status;
}

/// What was found out about an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    /// It answers; the text says version, socket, and who started it.
    Running(String),
    /// It does not; the failure says why and what to do.
    Missing(Failure),
}

impl Name {
    /// A client of the running engine that allows `timeout` for each step of a request.
    ///
    /// # Errors
    /// When none answers, with the reason and the command that starts one.
    pub fn connect(self, timeout: Duration) -> Result<Client> {
        match self {
            Self::Docker => docker::connect(timeout),
            Self::Podman => podman::connect(timeout),
            Self::PodmanRootless => podman::rootless::connect(timeout),
            Self::Kubernetes => Err(Failure::new(
                "k8s: a cluster has no socket with Docker's API",
            )),
        }
    }

    fn engine(self) -> Box<dyn Engine> {
        match self {
            Self::Docker => Box::new(docker::Docker),
            Self::Podman => Box::new(podman::Podman),
            Self::PodmanRootless => Box::new(podman::rootless::Rootless),
            Self::Kubernetes => Box::new(kubernetes::Kubernetes),
        }
    }

    /// The name, as in arguments.
    pub fn text(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::PodmanRootless => "podman-rootless",
            Self::Kubernetes => "k8s",
        }
    }
}

/// The named engines, else those that change no more than a daemon and those that `up` started.
fn meant(named: &[Name]) -> Result<Vec<Name>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let mut meant = Vec::new();
    for name in Name::value_variants() {
        let usual = match name {
            Name::Docker | Name::Podman => true,
            Name::PodmanRootless => service::record(name.text())?.read()?.is_some(),
            Name::Kubernetes => kubernetes::is_started()?,
        };
        if usual {
            meant.push(*name);
        }
    }
    Ok(meant)
}

/// Does what the arguments ask for, engine by engine; results on stdout, a line each.
///
/// # Errors
/// When an engine cannot be started or stopped; engines after it are not touched. A `status` that
/// finds an engine missing is no error but exit code 1.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (Action::Up { selection, .. } | Action::Down(selection) | Action::Status(selection)) =
        &arguments.action;
    let names = meant(&selection.engines)?;
    let _lock = match arguments.action {
        Action::Status(_) => None,
        Action::Up { .. } | Action::Down(_) => Some(Lock::acquire(&places::state_folder()?)?),
    };
    let mut code = ExitCode::SUCCESS;
    for name in &names {
        let (text, engine) = (name.text(), name.engine());
        match arguments.action {
            Action::Down(_) => println!("{text}: {}", engine.down()?),
            Action::Up {
                build_only: true, ..
            } => println!("{text}: {}", engine.build()?),
            Action::Up { with_runsc, .. } => {
                match engine.up()? {
                    Status::Running(line) => println!("{text}: {line}"),
                    Status::Missing(failure) => return Err(failure),
                }
                if with_runsc && *name == Name::Docker {
                    println!("{text}: {}", docker::runsc::register()?);
                }
            }
            Action::Status(_) => match engine.status() {
                Status::Running(line) => println!("{text}: {line}"),
                Status::Missing(failure) => {
                    println!("{text}: not found: {failure}");
                    code = ExitCode::FAILURE;
                }
            },
        }
    }
    Ok(code)
}
