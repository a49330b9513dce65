//! Modules of Go.
//!
//! The folder has a workspace (`go.work`) with one module, which requires the packages, and a
//! module cache. `GOWORK` and `GOMODCACHE` name them, so Go finds the packages for code in any
//! folder, and downloads nothing. The go command runs no code of a module while it downloads it; no
//! program for repositories runs either.

mod configuration;
mod failure;

use std::path::PathBuf;

use sandbox_core::ExecRequest;
use sandbox_core::policy::Requirement;

use super::interpreter::Home;
use super::recipe::{InstallPlace, Recipe, RecipeFailure, RecipeSource, text};
use super::{PackageSettings, RegistrySource};

/// The variable that names the module proxies, separated by `,` or `|`.
pub(super) const PROXY: &str = "GOPROXY";

/// The variable that names the database of checksums.
pub(super) const CHECKSUMS: &str = "GOSUMDB";

/// Where Go is, in images that do not have it in the usual folders.
const PROGRAMS: &str = "/usr/local/go/bin:/usr/lib/go/bin";

/// The module proxies as configured on the host.
pub(super) fn of_host() -> RegistrySource {
    configuration::of_host()
}

pub(super) struct Go;

impl Recipe for Go {
    fn programs(&self) -> &'static [&'static str] {
        &["go"]
    }

    fn target(&self) -> &'static str {
        "/go-packages"
    }

    fn bin(&self, _seen: &str) -> String {
        PROGRAMS.to_owned()
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        vec![
            ("GOWORK", format!("{seen}/go.work")),
            ("GOMODCACHE", format!("{seen}/cache")),
            // Without a network, an error about a missing module should say that it is missing.
            (PROXY, "off".to_owned()),
            (CHECKSUMS, "off".to_owned()),
        ]
    }

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        let mut urls: Vec<String> = match source.variable(PROXY) {
            Some(_) => source.urls(PROXY).collect(),
            None => vec!["https://proxy.golang.org".to_owned()],
        };
        match source.variable(CHECKSUMS).unwrap_or("sum.golang.org") {
            "off" => {}
            // A key, and where the database is.
            database if database.contains("://") => urls.extend(source.urls(CHECKSUMS)),
            // The name in front of a key is the host.
            database => {
                let host = database.split(['+', ' ']).next().unwrap_or_default();
                urls.push(format!("https://{host}"));
            }
        }
        urls
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        let source = match &settings.go {
            Some(source) => source.resolved(),
            None => of_host().resolved(),
        };
        with_folders(source)
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        let go = |arguments: &[&str]| {
            let temporary = place.staging.temporary();
            let in_temporary = |name: &str| text(&temporary.join(name));
            let base = place.staging.base();
            place
                .program()
                .args(arguments)
                .workdir(text(&base))
                .env("PATH", format!("{}:{PROGRAMS}", super::recipe::PATH))
                .env("GOMODCACHE", text(&base.join("cache")))
                .env("GOPATH", in_temporary("go"))
                .env("GOCACHE", in_temporary("go-build"))
                .env("GOTMPDIR", text(&temporary))
                // Otherwise only root can remove the folder.
                .env("GOFLAGS", "-modcacherw")
                .env("GO111MODULE", "on")
                // No file of the platform adds to the source settings.
                .env("GOENV", "off")
                // A repository's own files can make its program run code.
                .env("GOVCS", "*:off")
                // Go would download the version that a module asks for, and run it.
                .env("GOTOOLCHAIN", "local")
                .env("GOTELEMETRY", "off")
                // The provision sandbox limits threads, and Go starts some for each processor.
                .env("GOMAXPROCS", "4")
        };
        let mut get = go(&["get", "-d"]).env("GOWORK", "off");
        get = get.args(place.packages.iter().map(argument));
        vec![
            go(&["mod", "init", "sandbox.packages"]).env("GOWORK", "off"),
            get,
            // Not written by this library: it names the version of Go.
            go(&["work", "init", "."]),
        ]
    }

    fn classify(&self, stderr: &str, _log: &str, home: Home) -> RecipeFailure {
        failure::classify(stderr, home)
    }

    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str> {
        failure::errors(stderr).collect()
    }

    fn provide_program(&self, home: Home) -> &'static str {
        match home {
            Home::Host => {
                "install Go 1.18 or newer where sandboxes see it, in /usr (Debian: apt-get install golang-go)"
            }
            Home::Image => "use an image that has Go 1.18 or newer, such as golang:1.23",
        }
    }
}

/// All packages below this path, so that Go also gets the modules that each of them needs.
fn argument(package: &Requirement) -> String {
    let mut versions = package.versions().map(|(_, version)| version);
    let version = versions.next().unwrap_or("latest");
    format!("{}/...@{version}", package.name())
}

/// Adds the folders of proxies that are some. Without any other address, no network is needed.
fn with_folders(mut source: RecipeSource) -> RecipeSource {
    let value = |name: &str| source.environment.get(name).map(String::as_str);
    let proxies = value(PROXY).unwrap_or_default();
    let proxies = proxies.split([',', '|']).map(str::trim);
    let proxies = proxies.filter(|proxy| !proxy.is_empty());
    let folder = |proxy: &str| proxy.strip_prefix("file://").map(PathBuf::from);
    let mut is_local = value(CHECKSUMS) == Some("off") && proxies.clone().count() > 0;
    let mut folders = Vec::new();
    for proxy in proxies {
        match folder(proxy) {
            Some(folder) => folders.push(folder),
            None => is_local &= proxy == "off",
        }
    }
    folders.retain(|folder| folder.is_absolute() && folder.exists());
    source.read_roots.extend(folders);
    source.is_local = is_local;
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_packages_of_a_path_are_asked_for() {
        for (text, expected) in [
            ("go:example.org/a", "example.org/a/...@latest"),
            ("go:example.org/a@v1.2.3", "example.org/a/...@v1.2.3"),
        ] {
            assert_eq!(argument(&text.parse().expect("valid")), expected);
        }
    }

    #[test]
    fn only_proxies_that_are_folders_need_no_network() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = format!("file://{}", folder.path().display());
        let source = |proxies: &str, checksums: &str| {
            let source = RegistrySource::go(proxies).variable(CHECKSUMS, checksums);
            with_folders(source.resolved())
        };
        let local = source(&format!("{own},off"), "off");
        assert!(local.is_local);
        assert_eq!(local.read_roots, [folder.path().to_owned()]);
        let mixed = source(&format!("{own}|https://proxy.example"), "off");
        assert!(!mixed.is_local);
        assert_eq!(mixed.read_roots, [folder.path().to_owned()]);
        assert!(!source(&own, "sum.example").is_local);
        assert!(!source(&format!("{own},direct"), "off").is_local);
        assert!(!source("", "off").is_local);
        assert!(
            source("file:///no/such/folder", "off")
                .read_roots
                .is_empty()
        );
    }
}
