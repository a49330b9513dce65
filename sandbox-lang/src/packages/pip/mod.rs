//! Python's pip.
//!
//! The folder is a Python *user base* (`PYTHONUSERBASE`): it comes after the standard library in the
//! search order, unlike `PYTHONPATH`, and its `.pth` files are read. Only wheels are installed:
//! building a package would run its code.

mod configuration;
mod failure;
mod source;
mod uv;

use sandbox_core::ExecRequest;
use sandbox_core::policy::Requirement;

use super::PackageSettings;
use super::interpreter::Home;
use super::recipe::{InstallPlace, Recipe, RecipeFailure, RecipeSource, text};

pub use source::PackageSource;
pub(super) use source::{PROXIES, without_password};

/// The variable that tells Python its user base.
const USER_BASE: &str = "PYTHONUSERBASE";

/// A file with the packages and their hashes.
const LOCK_FILE: &str = "requirements.txt";

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

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        let mut urls: Vec<String> = source.urls("PIP_FIND_LINKS").collect();
        if source.variable("PIP_NO_INDEX").is_none() {
            match source.variable("PIP_INDEX_URL") {
                Some(_) => urls.extend(source.urls("PIP_INDEX_URL")),
                None => urls.push("https://pypi.org/simple".to_owned()),
            }
            urls.extend(source.urls("PIP_EXTRA_INDEX_URL"));
        }
        urls
    }

    fn leads_to_any_host(&self) -> bool {
        true
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        match &settings.source {
            Some(source) => source.resolved(),
            None => PackageSource::of_host().resolved(),
        }
    }

    /// pip reads hashes from a file alone.
    fn files(&self, packages: &[Requirement]) -> Vec<(&'static str, String)> {
        if !has_hashes(packages) {
            return Vec::new();
        }
        let lines = packages.iter().map(|package| {
            let hashes = package
                .hashes()
                .map(|hash| format!(" --hash=sha256:{hash}"));
            let hashes = hashes.collect::<String>();
            format!("{}{hashes}\n", package.without_hashes())
        });
        vec![(LOCK_FILE, lines.collect())]
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
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
        if has_hashes(place.packages) {
            let file = text(&place.staging.base().join(LOCK_FILE));
            request = request.args(["--require-hashes", "--requirement", file.as_str()]);
        } else {
            let packages = place.packages.iter().map(ToString::to_string);
            request = request.arg("--").args(packages);
        }
        request = request
            .env(USER_BASE, text(&place.staging.base()))
            // No platform file adds to the source settings.
            .env("PIP_CONFIG_FILE", "/dev/null")
            // A user base must not use the platform's packages.
            .env("PIP_BREAK_SYSTEM_PACKAGES", "1");
        vec![request]
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

/// Whether the packages come from a lock file: then all of them have hashes.
fn has_hashes(packages: &[Requirement]) -> bool {
    packages
        .iter()
        .any(|package| package.hashes().next().is_some())
}
