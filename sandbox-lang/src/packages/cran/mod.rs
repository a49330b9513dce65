//! CRAN's packages, of R.
//!
//! Programs that come with this library drive R. One downloads the sources of the packages and of
//! what they need; it runs no code of a package. The other installs them, which runs their code, in
//! a sandbox without a network. The folder is an R library (`R_LIBS`).

mod configuration;

use sandbox_core::policy::Requirement;
use sandbox_core::{ErrorKind, ExecRequest};

use super::interpreter::Home;
use super::recipe::{self, InstallPlace, Recipe, RecipeFailure, RecipeSource, text};
use super::{PackageSettings, RegistrySource};

/// The variable that names the repositories, separated by blanks.
pub(super) const REPOSITORIES: &str = "SANDBOX_CRAN_REPOSITORIES";

/// What the programs write before the kind of a failure.
const KIND: &str = "sandbox-cran: ";

/// The programs, by the names of their files.
const FILES: [(&str, &str); 2] = [
    ("download.R", include_str!("download.R")),
    ("build.R", include_str!("build.R")),
];

/// The repositories as configured on the host.
pub(super) fn of_host() -> RegistrySource {
    configuration::of_host()
}

pub(super) struct Cran;

impl Recipe for Cran {
    fn programs(&self) -> &'static [&'static str] {
        &["Rscript"]
    }

    fn target(&self) -> &'static str {
        "/r-packages"
    }

    fn part(&self) -> &'static str {
        "library"
    }

    fn variables(&self, seen: &str) -> Vec<(&'static str, String)> {
        vec![("R_LIBS", seen.to_owned())]
    }

    fn registries(&self, source: &RecipeSource) -> Vec<String> {
        match source.variable(REPOSITORIES) {
            Some(_) => source.urls(REPOSITORIES).collect(),
            None => vec!["https://cloud.r-project.org/".to_owned()],
        }
    }

    fn source(&self, settings: &PackageSettings) -> RecipeSource {
        let source = match &settings.cran {
            Some(source) => source.resolved(),
            None => of_host().resolved(),
        };
        with_folders(source)
    }

    fn files(&self, _packages: &[Requirement]) -> Vec<(&'static str, String)> {
        FILES.map(|(name, text)| (name, text.to_owned())).into()
    }

    fn commands(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        let arguments = place.packages.iter().map(argument);
        vec![run(place, "download.R").args(arguments)]
    }

    fn builds(&self, place: &InstallPlace<'_>) -> Vec<ExecRequest> {
        vec![run(place, "build.R")]
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
                "install R where sandboxes see it, in /usr (Debian: apt-get install r-base-core)"
            }
            Home::Image => "use an image that has R, such as rocker/r-ver:4.5",
        }
    }
}

/// One of the programs, in the folder with its files.
fn run(place: &InstallPlace<'_>, program: &str) -> ExecRequest {
    let base = place.staging.base();
    place
        .program()
        .arg("--vanilla")
        .arg(text(&base.join(program)))
        .workdir(text(&base))
}

/// A name and comparisons as the program reads them.
fn argument(package: &Requirement) -> String {
    let mut argument = package.name().to_owned();
    for (operator, version) in package.versions() {
        argument += &format!(",{operator} {version}");
    }
    argument
}

/// Adds the folders of repositories that are some. Without any other address, no network is needed.
fn with_folders(mut source: RecipeSource) -> RecipeSource {
    let all = source.variable(REPOSITORIES).unwrap_or_default();
    let all = all.split_ascii_whitespace();
    let folders = all.clone().filter_map(|url| url.strip_prefix("file://"));
    let folders: Vec<std::path::PathBuf> = folders.map(Into::into).collect();
    source.is_local = !folders.is_empty() && folders.len() == all.count();
    let seen = folders.into_iter();
    let seen = seen.filter(|folder| folder.is_absolute() && folder.exists());
    source.read_roots.extend(seen);
    source
}

fn classify(stderr: &str, home: Home) -> RecipeFailure {
    if RecipeFailure::is_no_space(stderr) {
        return RecipeFailure::no_space();
    }
    match recipe::told(stderr, KIND).next() {
        Some("needs-build") => RecipeFailure::new(
            ErrorKind::PackageNeedsBuild,
            "a package must be compiled, and a compiler or make is missing",
        )
        .fix(match home {
            Home::Host => {
                "install them where sandboxes see them (Debian: apt-get install r-base-dev)"
            }
            Home::Image => "use an image that has them, such as rocker/r-ver:4.5",
        }),
        Some("not-found") => RecipeFailure::new(
            ErrorKind::PackageNotFound,
            "the repository has no such package for this R",
        ),
        Some("unreachable") => RecipeFailure::unreachable("see R's message", home),
        _ => RecipeFailure::new(ErrorKind::InstallFailed, "R failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_separated_by_commas() {
        for (text, expected) in [
            ("cran:R6", "R6"),
            ("cran:R6==2.5.1", "R6,== 2.5.1"),
            ("cran:R6>=2,>=2.5", "R6,>= 2,>= 2.5"),
        ] {
            assert_eq!(argument(&text.parse().expect("valid")), expected);
        }
    }

    #[test]
    fn kind_of_failure_is_what_the_programs_write() {
        for (word, kind) in [
            ("needs-build", ErrorKind::PackageNeedsBuild),
            ("not-found", ErrorKind::PackageNotFound),
            ("unreachable", ErrorKind::RegistryUnreachable),
            ("failed", ErrorKind::InstallFailed),
        ] {
            let stderr = format!("{KIND}{word}\nerror: why\n");
            assert_eq!(classify(&stderr, Home::Image).kind, kind);
            let quoted = format!("\"{word}\"");
            assert!(
                FILES.iter().any(|(_, text)| text.contains(&quoted)),
                "{word}"
            );
        }
        let full = "error: cannot write: No space left on device";
        assert_eq!(classify(full, Home::Host).kind, ErrorKind::StorageFull);
    }

    #[test]
    fn only_repositories_that_are_folders_need_no_network() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = format!("file://{}", folder.path().display());
        let source =
            |urls: &[&str]| with_folders(RegistrySource::cran(urls.iter().copied()).resolved());
        let local = source(&[&own]);
        assert!(local.is_local);
        assert_eq!(local.read_roots, [folder.path().to_owned()]);
        assert!(!source(&[&own, "https://cran.example"]).is_local);
        assert!(!source(&[]).is_local);
        assert!(!with_folders(RegistrySource::default().resolved()).is_local);
    }
}
