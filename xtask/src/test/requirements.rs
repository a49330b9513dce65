//! The requirements of tests besides this machine's kernel, and which of them may be used.

use std::collections::BTreeSet;

use clap::ValueEnum;

use super::name_of;
use crate::engines;
use crate::failure::Failure;

/// What can be required. The names are those in `SANDBOX_REQUIRE`.
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
    /// Whether it is an engine, or a cluster.
    fn is_engine(self) -> bool {
        !matches!(self, Self::Local | Self::Browser | Self::Root)
    }

    /// Checks that it can be used. If it `is_required`, missing test images are built into a
    /// running engine, and the cluster of `KUBECONFIG` may be used.
    fn check(self, is_required: bool) -> Result<(), Failure> {
        match self {
            engine if engine.is_engine() => engines::check(&name_of(&engine), is_required),
            Self::Root if !rustix::process::geteuid().is_root() => Err(Failure::new(
                "nothing is tested as root, because this user is not; fix: run it as root as well",
            )),
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
            let name = name_of(requirement);
            let is_required = result.required.contains(requirement);
            if !is_required && !wanted.contains(requirement) {
                if requirement.is_engine() {
                    let line = format!("{name}: not asked for; fix: --engines {name}");
                    result.not_run.push(line);
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
        let required = of.iter().filter(|requirement| self.requires(**requirement));
        required.map(name_of).collect::<Vec<_>>().join(",")
    }
}
