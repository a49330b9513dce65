//! Ruby's gem.
//!
//! The folder is a gem home (`GEM_PATH`). A program that comes with this library drives gem's own
//! code, because `gem install` compiles native extensions and loads plugins: both would run code of
//! a package. A hook of gem refuses such a package before anything of it is unpacked.

mod configuration;

use sandbox_core::policy::Requirement;
use sandbox_core::{ErrorKind, ExecRequest};

use super::interpreter::Home;
use super::recipe::{self, InstallPlace, Recipe, RecipeFailure, RecipeSource, text};
use super::{PackageSettings, RegistrySource};

/// The variable that names the sources, separated by blanks.
pub(super) const SOURCES: &str = "SANDBOX_GEM_SOURCES";

/// The program that installs.
const INSTALL: &str = include_str!("install.rb");

/// What the program writes before the kind of a failure.
const KIND: &str = "sandbox-gem: ";

/// The sources as configured on the host.
pub(super) fn of_host() -> RegistrySource {
    configuration::of_host()
}

pub(super) struct Gem;

impl Recipe for Gem {
    fn programs(&self) -> &'static [&'static str] {
        &["ruby"]
    }

    fn target(&self) -> &'static str {
        "/gems"
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        // The colon at the end stands for Ruby's own folders.
        vec![("GEM_PATH", format!("{seen}:"))]
    }

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        match source.variable(SOURCES) {
            Some(_) => source.urls(SOURCES).collect(),
            None => vec!["https://rubygems.org/".to_owned()],
        }
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        match &settings.gem {
            Some(source) => source.resolved(),
            None => of_host().resolved(),
        }
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        let arguments = place.packages.iter().map(argument);
        let install = place
            .program()
            .args(["-e", INSTALL, "--"])
            .args(arguments)
            .env("GEM_HOME", text(&place.staging.base()))
            .env(
                "GEM_SPEC_CACHE",
                text(&place.staging.temporary().join("specs")),
            );
        vec![install]
    }

    fn classify(&self, stderr: &str, _log: &str, home: Home) -> RecipeFailure {
        classify(stderr, home)
    }

    fn errors<'a>(&self, stderr: &'a str) -> Vec<&'a str> {
        recipe::told(stderr, "error: ").collect()
    }

    fn provide_program(&self, home: Home) -> &'static str {
        match home {
            Home::Host => {
                "install Ruby where sandboxes see it, in /usr (Debian: apt-get install ruby)"
            }
            Home::Image => "use an image that has Ruby, such as ruby:3.3-slim",
        }
    }
}

/// A name and requirements as the program reads them.
fn argument(package: &Requirement) -> String {
    let mut argument = package.name().to_owned();
    for (operator, version) in package.versions() {
        let operator = if operator == "==" { "=" } else { operator };
        argument += &format!(",{operator} {version}");
    }
    argument
}

fn classify(stderr: &str, home: Home) -> RecipeFailure {
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    match recipe::told(stderr, KIND).next() {
        Some("needs-build") => RecipeFailure::new(
            ErrorKind::PackageNeedsBuild,
            "a package would run its own code with the network while it is installed",
        )
        .fix("name a version that is only Ruby, or use an image that has it"),
        Some("not-found") => RecipeFailure::new(
            ErrorKind::PackageNotFound,
            "the registry has no such package for this Ruby and machine",
        ),
        Some("unreachable") => RecipeFailure::unreachable("see gem's message", home),
        Some("conflict") => RecipeFailure::new(
            ErrorKind::InstallFailed,
            "the packages contradict each other",
        ),
        _ => RecipeFailure::new(ErrorKind::InstallFailed, "gem failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_separated_by_commas() {
        for (text, expected) in [
            ("gem:rack", "rack"),
            ("gem:rack==3.0", "rack,= 3.0"),
            ("gem:rack>=2,<4", "rack,< 4,>= 2"),
        ] {
            assert_eq!(argument(&text.parse().expect("valid")), expected);
        }
    }

    #[test]
    fn kind_of_failure_is_what_the_program_writes() {
        for (word, kind) in [
            ("needs-build", ErrorKind::PackageNeedsBuild),
            ("not-found", ErrorKind::PackageNotFound),
            ("unreachable", ErrorKind::RegistryUnreachable),
            ("conflict", ErrorKind::InstallFailed),
            ("failed", ErrorKind::InstallFailed),
        ] {
            let stderr = format!("{KIND}{word}\nerror: why\n");
            assert_eq!(classify(&stderr, Home::Host).kind, kind);
            assert!(INSTALL.contains(&format!("fail_with \"{word}\"")), "{word}");
        }
        let full = "error: Errno::ENOSPC: No space left on device";
        assert_eq!(classify(full, Home::Host).kind, ErrorKind::StorageFull);
        assert_eq!(classify("", Home::Host).kind, ErrorKind::InstallFailed);
    }
}
