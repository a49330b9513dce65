//! npm, of JavaScript and TypeScript.
//!
//! The folder is a `node_modules`. Sandboxes with their own root see it at `/node_modules`, which
//! every `require` and `import` finds: Node.js looks into the `node_modules` of all folders above a
//! file. No install script runs, and nothing is installed from a Git repository.

mod configuration;
mod failure;
mod inspect;

use std::path::Path;

use sandbox_core::policy::Requirement;
use sandbox_core::{ExecRequest, Result};

use super::interpreter::Home;
use super::recipe::{InstallPlace, Recipe, RecipeFailure, RecipeSource, text};
use super::{PackageSettings, RegistrySource};

/// The variable that names the registry.
pub(super) const REGISTRY: &str = "npm_config_registry";

/// The registry as configured on the host.
pub(super) fn of_host() -> RegistrySource {
    configuration::of_host()
}

pub(super) struct Npm;

impl Recipe for Npm {
    fn programs(&self) -> &'static [&'static str] {
        &["npm"]
    }

    fn target(&self) -> &'static str {
        "/node_modules"
    }

    fn part(&self) -> &'static str {
        "node_modules"
    }

    fn bin(&self, seen: &str) -> String {
        format!("{seen}/.bin")
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        vec![("NODE_PATH", seen.to_owned())]
    }

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        let scopes = source.environment.keys();
        let scopes = scopes.filter(|name| name.ends_with(":registry"));
        let mut urls: Vec<String> = scopes.flat_map(|name| source.urls(name)).collect();
        match source.variable(REGISTRY) {
            Some(_) => urls.extend(source.urls(REGISTRY)),
            None => urls.push("https://registry.npmjs.org/".to_owned()),
        }
        urls
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        match &settings.npm {
            Some(source) => source.resolved(),
            None => of_host().resolved(),
        }
    }

    /// The packages are in a file: npm reads a name in an argument as an address, a file or a
    /// repository if it can.
    fn files(&self, packages: &[Requirement]) -> Vec<(&'static str, String)> {
        let dependencies = packages.iter();
        let dependencies =
            dependencies.map(|package| (package.name().to_owned(), range(package).into()));
        let content = serde_json::json!({
            "name": "sandbox-packages",
            "version": "1.0.0",
            "private": true,
            "dependencies": dependencies.collect::<serde_json::Map<_, _>>(),
        });
        vec![("package.json", format!("{content:#}\n"))]
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        let temporary = place.staging.temporary();
        let in_temporary = |name: &str| text(&temporary.join(name));
        let install = place
            .program()
            .arg("install")
            .arg("--prefix")
            .arg(text(&place.staging.base()))
            .args([
                "--ignore-scripts",
                "--no-save",
                "--no-package-lock",
                "--omit=dev",
                "--no-audit",
                "--no-fund",
                "--no-progress",
                "--loglevel=error",
            ])
            // Variables also reach an npm that npm starts.
            .env("npm_config_ignore_scripts", "true")
            // If a script ran after all.
            .env("npm_config_script_shell", "/bin/false")
            // A repository's own files can make npm run its code.
            .env("npm_config_git", "/bin/false")
            .env("npm_config_allow_git", "none")
            .env("npm_config_update_notifier", "false")
            .env("npm_config_fetch_retries", "2")
            .env("npm_config_fetch_retry_mintimeout", "1000")
            .env("npm_config_fetch_retry_maxtimeout", "5000")
            .env("npm_config_cache", in_temporary("npm-cache"))
            // No file of the platform adds to the source settings. npm refuses one path for both.
            .env("npm_config_userconfig", in_temporary("no-user-config"))
            .env("npm_config_globalconfig", in_temporary("no-global-config"));
        vec![install]
    }

    fn classify(&self, stderr: &str, _log: &str, home: Home) -> RecipeFailure {
        failure::classify(stderr, home)
    }

    fn inspect(&self, folder: &Path) -> Result<Option<String>> {
        inspect::inspect(folder)
    }

    /// The first ones: advice follows them.
    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str> {
        let lines = failure::errors(stderr);
        let is_message = |line: &&str| !line.starts_with("code ") && line.trim() != "404";
        lines.filter(is_message).take(3).collect()
    }

    fn provide_program(&self, home: Home) -> &'static str {
        match home {
            Home::Host => {
                "install Node.js with npm where sandboxes see it, in /usr (Debian: apt-get install npm)"
            }
            Home::Image => "use an image that has Node.js and npm, such as node:22-slim",
        }
    }
}

/// The versions as npm writes them.
fn range(package: &Requirement) -> String {
    let versions = package
        .versions()
        .map(|(operator, version)| match operator {
            "==" => version.to_owned(),
            operator => format!("{operator}{version}"),
        });
    match versions.collect::<Vec<_>>().join(" ") {
        any if any.is_empty() => "*".to_owned(),
        range => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_dependencies_of_a_file() {
        let packages = [
            "npm:@types/node@^20",
            "npm:a",
            "npm:b>=1,<2",
            "npm:c==1.0.0",
        ]
        .map(|text| text.parse::<Requirement>().expect("valid"));
        let [(name, content)] = Npm.files(&packages).try_into().expect("one file");
        assert_eq!(name, "package.json");
        let read = serde_json::from_str::<serde_json::Value>(&content).expect("JSON");
        let expected = serde_json::json!({
            "@types/node": "^20", "a": "*", "b": "<2 >=1", "c": "1.0.0",
        });
        assert_eq!(read["dependencies"], expected);
    }
}
