//! cargo's configuration, limited to the source of packages, a proxy and certificate authorities.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::RegistrySource;
use super::super::pip::without_password;
use super::super::registry_source::host_texts;

/// How often a source may be replaced by another.
const MOST_REPLACEMENTS: usize = 8;

#[derive(Default, Deserialize)]
struct Configuration {
    #[serde(default)]
    source: BTreeMap<String, Replacement>,
    #[serde(default)]
    http: Http,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Replacement {
    replace_with: Option<String>,
    registry: Option<String>,
    local_registry: Option<String>,
}

#[derive(Default, Deserialize)]
struct Http {
    proxy: Option<String>,
    cainfo: Option<String>,
}

/// The settings of the host's cargo.
pub(super) fn of_host() -> RegistrySource {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let files = home(variable).map_or_else(Vec::new, |home| {
        // cargo reads the first that exists.
        let names = ["config", "config.toml"].map(|name| home.join(name));
        names
            .into_iter()
            .find(|file| file.exists())
            .into_iter()
            .collect()
    });
    let text = host_texts(files).next().unwrap_or_default();
    read(variable, &text, &home(variable).unwrap_or_default())
}

fn home(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable("CARGO_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cargo")))
}

/// The settings in variables and in the file of `home`. A file that is not valid is left out, as
/// one that cannot be read: cargo itself says what is wrong with it.
fn read(
    variable: impl Fn(&str) -> Option<String> + Copy,
    text: &str,
    home: &Path,
) -> RegistrySource {
    let file = toml::from_str::<Configuration>(text).unwrap_or_else(|error| {
        tracing::warn!(%error, "cargo's configuration is left out");
        Configuration::default()
    });
    let mut source = RegistrySource::default();
    if let Some(named) = replacement(&file.source, home) {
        source = source.variable(super::SOURCE, named);
    }
    if let Some(proxy) = variable("CARGO_HTTP_PROXY").or(file.http.proxy) {
        source = source.variable("CARGO_HTTP_PROXY", proxy);
    }
    if let Some(file) = variable("CARGO_HTTP_CAINFO").or(file.http.cainfo) {
        source = source.with_certificates("CARGO_HTTP_CAINFO", Path::new(&file));
    }
    source.with_proxies(variable)
}

/// What replaces the registry crates.io. Its address is in an argument, so a password is removed.
fn replacement(sources: &BTreeMap<String, Replacement>, home: &Path) -> Option<String> {
    let mut own = sources.get("crates-io")?;
    for _ in 0..MOST_REPLACEMENTS {
        match own.replace_with.as_deref() {
            Some(name) => own = sources.get(name)?,
            None => break,
        }
    }
    let folder = own.local_registry.as_ref();
    // Paths begin in the folder above that of the file.
    let folder = folder.map(|path| home.parent().unwrap_or(home).join(path));
    match (&own.registry, folder) {
        (Some(registry), _) => Some(format!("registry={}", without_user(registry))),
        (None, Some(folder)) => Some(format!("local-registry={}", folder.display())),
        (None, None) => None,
    }
}

/// A URL without its user and password.
fn without_user(url: &str) -> String {
    // What stands for them would be a user.
    without_password(url).replace("…@", "")
}

#[cfg(test)]
mod tests {
    use super::super::SOURCE;
    use super::*;

    #[test]
    fn source_that_replaces_crates_io_is_used_and_no_program() {
        let text = "[build]\nrustc-wrapper = \"/bin/false\"\n[source.crates-io]\nreplace-with = \"a\"\n\
            [source.a]\nreplace-with = \"b\"\n[source.b]\nregistry = \"sparse+https://u:p@r.example/\"\n\
            [http]\ncainfo = \"/etc/ca.pem\"\nproxy = \"proxy.example:8080\"\n\
            [registries.own]\ntoken = \"secret\"\n";
        let source = read(|_| None, text, Path::new("/home/me/.cargo"));
        let names = source.environment.keys().map(String::as_str);
        let expected = ["CARGO_HTTP_CAINFO", "CARGO_HTTP_PROXY", SOURCE];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(
            source.environment[SOURCE],
            "registry=sparse+https://r.example/"
        );
        assert_eq!(source.certificates, [PathBuf::from("/etc/ca.pem")]);
        let variable = |name: &str| (name == "CARGO_HTTP_PROXY").then(|| "mine".to_owned());
        let source = read(variable, text, Path::new("/"));
        assert_eq!(source.environment["CARGO_HTTP_PROXY"], "mine");
    }

    #[test]
    fn folders_begin_above_the_file() {
        let text =
            "[source.crates-io]\nreplace-with = \"a\"\n[source.a]\nlocal-registry = \"crates\"\n";
        let source = read(|_| None, text, Path::new("/home/me/.cargo"));
        assert_eq!(source.environment[SOURCE], "local-registry=/home/me/crates");
    }

    #[test]
    fn endless_and_invalid_configurations_end() {
        let endless = "[source.crates-io]\nreplace-with = \"crates-io\"\n";
        for text in [endless, "", "[", "source = 1", "[source.crates-io]\n"] {
            let source = read(|_| None, text, Path::new("/"));
            assert!(source.environment.is_empty(), "{text}");
        }
    }
}
