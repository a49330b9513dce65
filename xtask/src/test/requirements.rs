//! What tests need beyond this machine's kernel, and what to do where it is missing.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

use super::THIS_PROGRAM;
use super::summary::Summary;
use crate::engines;
use crate::failure::{Failure, Result};
use crate::programs;

/// The names that are required, separated by commas. A test that finds one of them here and cannot
/// use it fails instead of printing `NOT RUN`.
const VARIABLE: &str = "SANDBOX_REQUIRE";
/// The cluster's configuration, for the client of our own as for others.
const KUBECONFIG: &str = "KUBECONFIG";
/// What is measured by another step, separated by commas: test programs make no trials of such tiers, and leave the suite's own
/// proof to it.
const ELSEWHERE: &str = "SANDBOX_MEASURED_ELSEWHERE";
/// Most time for an engine's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What can be required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Requirement {
    /// The local tier: measured, and with a committed profile of such a host
    Local,
    /// The Docker engine, with the test images
    Docker,
    /// The Podman engine, with the test images
    Podman,
    /// Podman without root, with the test images
    PodmanRootless,
    /// A Kubernetes cluster: that of `KUBECONFIG`, with the test images on its nodes, else the one of `cargo xtask engines up k8s`
    #[value(name = "k8s")]
    Kubernetes,
    /// Chromium or Chrome, to look at the page of a report with
    Browser,
    /// Being root, so that tests run as root and as an ordinary user
    Root,
}

impl Requirement {
    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::PodmanRootless => "podman-rootless",
            Self::Kubernetes => "k8s",
            Self::Browser => "browser",
            Self::Root => "root",
        }
    }

    /// Looks whether it can be used. Where it `is_required`, the test images are put into an engine that runs, with what that takes of
    /// packages, and the cluster of `KUBECONFIG` is used; else nothing is changed, and nothing that is not ours is used.
    fn provide(self, is_required: bool) -> Result<()> {
        match self {
            // Whether it can be measured, and what is committed, shows when it is measured; the test that starts a browser looks for one.
            Self::Local | Self::Browser => Ok(()),
            Self::Docker => engine(engines::Name::Docker, is_required),
            Self::Podman => engine(engines::Name::Podman, is_required),
            Self::PodmanRootless => engine(engines::Name::PodmanRootless, is_required),
            // Its images came with it, or are the user's own.
            Self::Kubernetes => engines::check_cluster(is_required),
            Self::Root if programs::is_root() => Ok(()),
            Self::Root => Err(
                Failure::new("this user is not root: nothing is tested as root")
                    .with_fix("run it as root as well"),
            ),
        }
    }
}

/// What was asked for.
#[derive(Debug)]
pub struct Requirements {
    required: Vec<Requirement>,
    /// What `KUBECONFIG` is for programs.
    kubeconfig: String,
}

impl Requirements {
    /// Looks for everything that `required` names, and for the engines where `with_engines`. What
    /// is missing and not required goes to the summary.
    ///
    /// # Errors
    /// When something that is required is missing.
    pub fn find(
        required: &[Requirement],
        with_engines: bool,
        summary: &mut Summary,
    ) -> Result<Self> {
        for requirement in Requirement::value_variants() {
            let is_required = required.contains(requirement);
            if !is_required && !with_engines {
                continue;
            }
            if let Err(failure) = requirement.provide(is_required) {
                let name = requirement.name();
                if is_required {
                    return Err(Failure::new(format!("{name} is required, but: {failure}")));
                }
                eprintln!("NOT RUN: {name}: {failure}");
                summary.not_run(name, &failure.to_string());
            }
        }
        Ok(Self {
            required: required.to_vec(),
            kubeconfig: match required.contains(&Requirement::Kubernetes) {
                true => engines::kubeconfig()?,
                false => engines::own_kubeconfig()?,
            },
        })
    }

    /// Whether it was asked for.
    pub fn requires(&self, requirement: Requirement) -> bool {
        self.required.contains(&requirement)
    }

    /// Tells a program what is required, and which cluster to use.
    pub fn tell(&self, command: &mut Command) {
        command.env(KUBECONFIG, &self.kubeconfig);
        self.tell_those(command, |_| true);
    }

    /// Tells a program of an ordinary user, who is not root and may not reach root's engines.
    pub fn tell_ordinary_user(&self, command: &mut Command) {
        self.tell_those(command, |requirement| requirement == Requirement::Local);
    }

    /// Tells a program of the user of rootless Podman, for whom that is what `podman` names.
    pub fn tell_rootless(&self, command: &mut Command) {
        let required = self.requires(Requirement::PodmanRootless);
        let name = Requirement::Podman.name();
        command.env(VARIABLE, if required { name } else { "" });
    }

    /// Tells tests what another step measures for the same user, so that nothing is attacked twice.
    pub fn leave_out(command: &mut Command, elsewhere: &[&str]) {
        command.env(ELSEWHERE, elsewhere.join(","));
    }

    fn tell_those(&self, command: &mut Command, applies: impl Fn(Requirement) -> bool) {
        let required = self
            .required
            .iter()
            .copied()
            .filter(|&requirement| applies(requirement));
        let names: Vec<_> = required.map(Requirement::name).collect();
        command.env(VARIABLE, names.join(","));
    }
}

/// Makes sure that the engine answers, and has its test images; only where it `is_required`, they are made.
fn engine(name: engines::Name, is_required: bool) -> Result<()> {
    name.connect(TIMEOUT)?;
    let mut images = Command::new(THIS_PROGRAM);
    images
        .args(["images", "--engine", name.text()])
        .stdin(Stdio::null());
    if !is_required {
        images.arg("--check");
    }
    programs::run_with_progress(&mut images)
        .map_err(|failure| Failure::new(format!("no test images: {failure}")))
}
