//! Where npm, gem, Go, cargo and R get packages.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::pip::{PROXIES, without_password};
use super::recipe::RecipeSource;
use super::{cargo, cran, gem, go, npm};

/// The registry of an installer other than pip, and how to reach it.
///
/// Only these settings reach a provision sandbox: no configuration file, token, key or client
/// certificate. A password in a URL is passed on. It is in the environment of the installer only,
/// never in an argument, file, report or error.
///
/// ```
/// use sandbox_lang::packages::{PackageSettings, RegistrySource};
///
/// let mut settings = PackageSettings::default();
/// settings.npm = Some(RegistrySource::npm("https://npm.example.org/"));
/// settings.gem = Some(RegistrySource::gem(["https://gems.example.org/"]));
/// settings.go = Some(RegistrySource::go("https://go.example.org,https://proxy.golang.org"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistrySource {
    /// Variables of the installer.
    pub environment: BTreeMap<String, String>,
    /// Files of the host with certificate authorities.
    pub certificates: Vec<PathBuf>,
}

impl fmt::Debug for RegistrySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.environment.iter();
        let shown = shown.map(|(name, value)| (name, without_password(value)));
        f.debug_struct("RegistrySource")
            .field("environment", &shown.collect::<BTreeMap<_, _>>())
            .field("certificates", &self.certificates)
            .finish()
    }
}

impl RegistrySource {
    /// This registry of npm.
    #[must_use]
    pub fn npm(url: impl Into<String>) -> Self {
        Self::default().variable(npm::REGISTRY, url)
    }

    /// The settings of the host's npm: variables of the caller, then the files of the user and of
    /// the machine. Used are the registries, also of scopes, proxies and certificate authorities.
    #[must_use]
    pub fn npm_of_host() -> Self {
        npm::of_host()
    }

    /// These sources of gem.
    #[must_use]
    pub fn gem(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let urls = urls.into_iter().map(Into::into).collect::<Vec<String>>();
        Self::default().variable(gem::SOURCES, urls.join(" "))
    }

    /// The settings of the host's gem: its `gemrc` files. Used are the sources and the certificate
    /// authorities.
    #[must_use]
    pub fn gem_of_host() -> Self {
        gem::of_host()
    }

    /// These module proxies of Go, as in `GOPROXY`: addresses and folders (`file:///…`) separated by
    /// `,` or `|`. Go checks modules with its database of checksums unless the variable `GOSUMDB` of
    /// [`RegistrySource::environment`] is `off`.
    #[must_use]
    pub fn go(proxies: impl Into<String>) -> Self {
        Self::default().variable(go::PROXY, proxies)
    }

    /// The settings of the host's Go: variables of the caller, then the file of `go env -w`. Used are
    /// the module proxies, the database of checksums, the modules that they are not for, proxies and
    /// certificate authorities.
    #[must_use]
    pub fn go_of_host() -> Self {
        go::of_host()
    }

    /// This registry in place of crates.io, as the key `registry` of a source in cargo's
    /// configuration: `sparse+https://index.example/`. The address is in an argument of cargo, so it
    /// must have no password.
    #[must_use]
    pub fn cargo(registry: impl AsRef<str>) -> Self {
        let registry = without_password(registry.as_ref());
        Self::default().variable(cargo::SOURCE, format!("registry={registry}"))
    }

    /// The settings of the host's cargo: variables of the caller, then `config.toml` in its home
    /// folder. Used are the registry, or folder with one (`local-registry`), that replaces crates.io,
    /// the proxy and certificate authorities.
    #[must_use]
    pub fn cargo_of_host() -> Self {
        cargo::of_host()
    }

    /// These repositories of R, in the form of CRAN.
    #[must_use]
    pub fn cran(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let urls = urls.into_iter().map(Into::into).collect::<Vec<String>>();
        Self::default().variable(cran::REPOSITORIES, urls.join(" "))
    }

    /// The settings of the host's R: the addresses in `options(repos = …)` of its `.Rprofile` files,
    /// which are read and not run, proxies and certificate authorities.
    #[must_use]
    pub fn cran_of_host() -> Self {
        cran::of_host()
    }

    /// Adds a variable of the installer.
    #[must_use]
    pub(super) fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.insert(name.to_owned(), value.into());
        self
    }

    /// Adds those proxy variables that are set.
    #[must_use]
    pub(super) fn with_proxies(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        for name in PROXIES {
            if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
                self.environment.insert(name.to_owned(), value);
            }
        }
        self
    }

    /// Adds a file with certificate authorities, which this variable names.
    #[must_use]
    pub(super) fn with_certificates(mut self, variable: &str, file: &Path) -> Self {
        self.certificates.push(file.to_owned());
        self.variable(variable, file.to_string_lossy())
    }

    /// What an installation needs of these settings.
    pub(super) fn resolved(&self) -> RecipeSource {
        let variables = self.environment.iter();
        let variables =
            variables.map(|(name, value)| format!("{name}={}", without_password(value)));
        let files = self.certificates.iter();
        let files = files.filter(|path| path.is_absolute() && path.exists());
        RecipeSource {
            environment: self.environment.clone(),
            folders: Vec::new(),
            read_roots: files.cloned().collect(),
            is_local: false,
            uses_proxy: self.environment.keys().any(|name| is_proxy(name)),
            has_own_trust: !self.certificates.is_empty()
                || self.environment.keys().any(|name| is_trust(name)),
            identity: variables.collect::<Vec<_>>().join("\n"),
        }
    }
}

/// Whether a variable turns the check of certificates off.
fn is_trust(name: &str) -> bool {
    [
        "npm_config_strict_ssl",
        "GOINSECURE",
        "NODE_TLS_REJECT_UNAUTHORIZED",
    ]
    .contains(&name)
}

/// Whether a variable names a proxy: the usual ones, npm's and cargo's.
pub(super) fn is_proxy(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("_proxy") && name != "no_proxy"
}

/// The contents of an installer's configuration files. Files that are missing or cannot be read are
/// left out, as the installers do.
pub(super) fn host_texts(files: Vec<PathBuf>) -> impl Iterator<Item = String> {
    let files = files.into_iter();
    files.filter_map(|file| std::fs::read_to_string(file).ok())
}

/// A value of a configuration file without space around it, and without a pair of quotes.
pub(super) fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let quoted = |sign| value.strip_prefix(sign)?.strip_suffix(sign);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_of_equal_quotes_is_removed() {
        for (value, expected) in [
            (" a ", "a"),
            ("\"a b\"", "a b"),
            ("'a'", "a"),
            ("'\"a\"'", "\"a\""),
            ("'a\"", "'a\""),
            ("'", "'"),
            ("", ""),
        ] {
            assert_eq!(unquoted(value), expected, "{value:?}");
        }
    }

    #[test]
    fn missing_configuration_files_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let (present, missing) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&present, "registry=x").expect("written");
        let texts = host_texts(vec![missing, present]).collect::<Vec<_>>();
        assert_eq!(texts, ["registry=x"]);
    }

    #[test]
    fn passwords_are_in_the_environment_alone() {
        let source = RegistrySource::npm("https://u:p@r.example/");
        let resolved = source.resolved();
        assert!(
            resolved
                .environment
                .values()
                .any(|value| value.contains("u:p"))
        );
        assert!(!resolved.identity.contains("u:p") && !format!("{source:?}").contains("u:p"));
        let other = RegistrySource::npm("https://other.example/").resolved();
        assert_ne!(resolved.identity, other.identity);
    }
}
