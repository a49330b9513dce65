//! Python's pip.
//!
//! The folder is a Python *user base* (`PYTHONUSERBASE`): it comes after the standard library in the
//! search order, unlike `PYTHONPATH`, and its `.pth` files are read. Only wheels are installed:
//! building a package would run its code.

mod configuration;
mod failure;
mod source;

use sandbox_core::ExecRequest;

use super::PackageSettings;
use super::interpreter::Home;
use super::recipe::{InstallPlace, Recipe, RecipeFailure, Source, text};

pub use source::PackageSource;
pub(super) use source::{PROXIES, without_password};

/// The variable that tells Python its user base.
const USER_BASE: &str = "PYTHONUSERBASE";

pub(super) struct Pip;

impl Recipe for Pip {
    fn programs(&self) -> &'static [&'static str] {
        &["python3", "python"]
    }

    fn target(&self) -> &'static str {
        "/packages"
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        vec![(USER_BASE, seen.to_owned())]
    }

    fn source(&self, settings: &PackageSettings) -> Source {
        match &settings.source {
            Some(source) => source.resolved(),
            None => PackageSource::of_host().resolved(),
        }
    }

    fn command(&self, place: &InstallPlace<'_>) -> ExecRequest {
        let mut request = place.program().args([
            "-m",
            "pip",
            "install",
            "--user",
            "--ignore-installed",
            "--only-binary=:all:",
            "--no-input",
            "--no-cache-dir",
            "--no-warn-script-location",
            "--disable-pip-version-check",
            "--progress-bar=off",
            "--retries=2",
            "--log",
        ]);
        request = request.arg(text(&place.staging.log()));
        for folder in &place.source.folders {
            request = request.arg("--find-links").arg(text(folder));
        }
        request = request.arg("--");
        for package in place.packages {
            request = request.arg(package.to_string());
        }
        request
            .env(USER_BASE, text(&place.staging.base()))
            // No platform file adds to the source settings.
            .env("PIP_CONFIG_FILE", "/dev/null")
            // A user base must not use the platform's packages.
            .env("PIP_BREAK_SYSTEM_PACKAGES", "1")
    }

    fn classify(&self, stderr: &str, log: &str, home: Home) -> RecipeFailure {
        failure::classify(stderr, log, home)
    }

    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str> {
        let lines = stderr.lines();
        lines
            .filter_map(|line| line.strip_prefix("ERROR: "))
            .collect()
    }

    fn provide_program(&self, home: Home) -> &'static str {
        match home {
            Home::Host => {
                "install Python 3 with pip where sandboxes see it (Debian: apt-get install python3-pip)"
            }
            Home::Image => "use an image that has Python and pip",
        }
    }
}
