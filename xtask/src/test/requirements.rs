//! The requirements of tests besides this machine's kernel, and which of them may be used.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::engines;
use crate::failure::Failure;
use crate::process;

/// What can be required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Requirement {
    /// The local backend, measured, with a committed profile of such a host
    Local,
    /// The Docker engine, with the test images
    Docker,
    /// The Podman engine, with the test images
    Podman,
    /// Rootless Podman, with the test images
    PodmanRootless,
    /// The cluster of `KUBECONFIG`, or else the node of `cargo xtask engines up k8s`
    #[value(name = "k8s")]
    Kubernetes,
    /// Chromium or Chrome, to open a report in
    Browser,
    /// Root, so that tests run as root and as an ordinary user
    Root,
}

impl Requirement {
    /// The name, as in the arguments and in `SANDBOX_REQUIRE`.
    pub fn name(self) -> &'static str {
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

    /// Whether it is an engine, or a cluster.
    fn is_engine(self) -> bool {
        !matches!(self, Self::Local | Self::Browser | Self::Root)
    }

    /// Checks that it can be used. If it `is_required`, missing test images are built into a
    /// running engine, and the cluster of `KUBECONFIG` may be used.
    fn check(self, is_required: bool) -> Result<(), Failure> {
        match self {
            engine if engine.is_engine() => engines::check(engine.name(), is_required),
            Self::Root if !process::is_root() => Err(Failure::new(
                "nothing is tested as root, because this user is not",
            )
            .with_fix("run it as root as well")),
            // The suite says whether the local backend can be measured, and the test whether
            // there is a browser.
            _ => Ok(()),
        }
    }
}

/// What was requested, and which of it is usable.
#[derive(Debug, Default)]
pub struct Requirements {
    required: BTreeSet<Requirement>,
    usable: BTreeSet<Requirement>,
    /// What is not usable or was not requested, and why: `NAME: REASON`.
    pub not_run: Vec<String>,
}

impl Requirements {
    /// Checks everything that is `required`, and the engines that are `wanted`.
    ///
    /// # Errors
    ///
    /// If something that is required is missing.
    pub fn check(required: &[Requirement], wanted: &[Requirement]) -> Result<Self, Failure> {
        let mut result = Self {
            required: required.iter().copied().collect(),
            ..Self::default()
        };
        for requirement in Requirement::value_variants() {
            let name = requirement.name();
            let is_required = result.required.contains(requirement);
            if !is_required && !wanted.contains(requirement) {
                if requirement.is_engine() {
                    let reason = format!("not asked for; fix: --engines {name}");
                    result.not_run.push(format!("{name}: {reason}"));
                }
                continue;
            }
            match requirement.check(is_required) {
                Ok(()) => drop(result.usable.insert(*requirement)),
                Err(failure) if is_required => {
                    return Err(Failure::new(format!("{name} is required, but: {failure}")));
                }
                Err(failure) => result.not_run.push(format!("{name}: {failure}")),
            }
        }
        Ok(result)
    }

    /// Whether a missing one is a failure.
    pub fn requires(&self, requirement: Requirement) -> bool {
        self.required.contains(&requirement)
    }

    /// Whether an engine was requested and can be used.
    pub fn uses(&self, requirement: Requirement) -> bool {
        self.usable.contains(&requirement)
    }

    /// The value of `SANDBOX_REQUIRE` for tests that may use these.
    pub fn names(&self, of: &[Requirement]) -> String {
        let names = of.iter().filter(|name| self.requires(**name));
        names.map(|name| name.name()).collect::<Vec<_>>().join(",")
    }
}
