//! Packages of cargo.
//!
//! The folder has the sources of all packages (`cargo vendor`), and a home folder of cargo whose
//! configuration names them instead of a registry. Cargo runs no code of a package while it
//! downloads it. Build scripts and macros run when the code is compiled, in its own sandbox: see
//! [`crate::Project`].

mod configuration;
mod failure;
mod manifest;

use std::path::PathBuf;

use sandbox_core::ExecRequest;
use sandbox_core::policy::Requirement;

use super::interpreter::Home;
use super::recipe::{InstallPlace, Recipe, RecipeFailure, RecipeSource, text};
use super::{PackageSettings, RegistrySource};

pub(crate) use manifest::program_manifest;

/// The variable that names where packages come from, as a key and a value of a source in cargo's
/// configuration: `registry=sparse+https://index.example/`.
pub(super) const SOURCE: &str = "SANDBOX_CARGO_SOURCE";

/// Where Rust is, in images that do not have it in the usual folders.
const PROGRAMS: &str = "/usr/local/cargo/bin";

/// The source in cargo's configuration: paths in it begin in the folder above that of the file.
const OFFLINE: &str = "[source.crates-io]\nreplace-with = \"sandbox-packages\"\n\n\
    [source.sandbox-packages]\ndirectory = \"vendor\"\n";

/// The registry as configured on the host.
pub(super) fn of_host() -> RegistrySource {
    configuration::of_host()
}

pub(super) struct Cargo;

impl Recipe for Cargo {
    fn programs(&self) -> &'static [&'static str] {
        &["cargo"]
    }

    fn target(&self) -> &'static str {
        "/cargo-packages"
    }

    fn bin(&self, _seen: &str) -> String {
        PROGRAMS.to_owned()
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        vec![
            ("CARGO_HOME", format!("{seen}/home")),
            ("CARGO_NET_OFFLINE", "true".to_owned()),
        ]
    }

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        let url = match source.variable(SOURCE).and_then(pair) {
            Some(("registry", url)) => url.trim_start_matches("sparse+"),
            Some(_) => return Vec::new(),
            None => "https://index.crates.io/",
        };
        vec![url.to_owned()]
    }

    fn leads_to_any_host(&self) -> bool {
        true
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        let source = match &settings.cargo {
            Some(source) => source.resolved(),
            None => of_host().resolved(),
        };
        with_folder(source)
    }

    fn files(&self, packages: &[Requirement]) -> Vec<(&'static str, String)> {
        vec![
            ("Cargo.toml", manifest::library_manifest(packages)),
            ("lib.rs", String::new()),
            ("home/config.toml", OFFLINE.to_owned()),
        ]
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        let temporary = place.staging.temporary();
        let mut vendor = place
            .program()
            .args(["vendor", "--versioned-dirs", "--respect-source-config"])
            .args(["--quiet", "--color=never"]);
        if let Some((key, value)) = place.source.environment.get(SOURCE).and_then(|it| pair(it)) {
            // As JSON it is a text of TOML, too.
            let value = serde_json::Value::from(value);
            let replace = "source.crates-io.replace-with=\"sandbox-registry\"";
            let source = format!("source.sandbox-registry.{key}={value}");
            vendor = vendor.args(["--config", replace, "--config", source.as_str()]);
        }
        let vendor = vendor
            .arg("vendor")
            .workdir(text(&place.staging.base()))
            .env("PATH", format!("{}:{PROGRAMS}", super::recipe::PATH))
            // No file of the platform adds to the source settings.
            .env("CARGO_HOME", text(&temporary.join("cargo-home")))
            .env("CARGO_NET_RETRY", "2")
            // cargo's own client for repositories runs no program.
            .env("CARGO_NET_GIT_FETCH_WITH_CLI", "false");
        vec![vendor]
    }

    fn classify(&self, stderr: &str, _log: &str, home: Home) -> RecipeFailure {
        failure::classify(stderr, home)
    }

    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str> {
        failure::errors(stderr)
    }

    fn provide_program(&self, home: Home) -> &'static str {
        match home {
            Home::Host => {
                "install cargo where sandboxes see it, in /usr (Debian: apt-get install cargo); what rustup installs in a home is not seen"
            }
            Home::Image => "use an image that has cargo, such as rust:1-slim",
        }
    }
}

/// The key and the value of a source, if it is one that packages are downloaded from.
fn pair(source: &str) -> Option<(&str, &str)> {
    let (key, value) = source.split_once('=')?;
    matches!(key, "registry" | "local-registry").then_some((key, value))
}

/// Adds the folder of a registry on the disk, which needs no network.
fn with_folder(mut source: RecipeSource) -> RecipeSource {
    let named = source.environment.get(SOURCE).and_then(|it| pair(it));
    if let Some(("local-registry", folder)) = named {
        let folder = PathBuf::from(folder);
        source.is_local = true;
        if folder.is_absolute() && folder.exists() {
            source.read_roots.push(folder);
        }
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_on_the_disk_needs_no_network() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = |text: String| {
            let source = RegistrySource::default().variable(SOURCE, text);
            with_folder(source.resolved())
        };
        let local = source(format!("local-registry={}", folder.path().display()));
        assert!(local.is_local);
        assert_eq!(local.read_roots, [folder.path().to_owned()]);
        let remote = with_folder(RegistrySource::cargo("sparse+https://r.example/").resolved());
        assert!(!remote.is_local && remote.read_roots.is_empty());
        assert_eq!(pair("git=https://r.example/"), None);
    }
}
