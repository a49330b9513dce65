//! The package source: the part of the host's pip configuration that concerns the package index.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::super::recipe::RecipeSource;
use super::super::registry_source::{host_texts, is_proxy};
use super::{configuration, uv};

/// Proxy variables, which all installers read themselves.
pub(in super::super) const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Variables of certificates, which pip reads itself.
const CERTIFICATES: [&str; 4] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// The package index and how to reach it.
///
/// Only these settings reach a provision sandbox: no configuration file, `.netrc`, key ring or
/// client certificate. A password in an index URL is passed on, since the index requires it. It is
/// in the environment of the installer only, never in an argument, file, report or error.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageSource {
    /// URL of the index. Default: pip's own.
    pub index_url: Option<String>,
    /// URLs of additional indexes.
    pub extra_index_urls: Vec<String>,
    /// Folders and pages with wheels.
    pub find_links: Vec<String>,
    /// Use no index: wheels come from `find_links` only.
    pub no_index: bool,
    /// Hosts whose certificates are not checked.
    pub trusted_hosts: Vec<String>,
    /// File with the certificate authorities.
    pub certificates: Option<PathBuf>,
    /// URL of a proxy.
    pub proxy: Option<String>,
    /// pip's connection timeout in seconds.
    pub connect_timeout: Option<u32>,
    /// Proxy and certificate variables (`https_proxy`, `SSL_CERT_FILE`).
    pub variables: BTreeMap<String, String>,
}

impl fmt::Debug for PackageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses =
            |all: &[String]| all.iter().map(|a| without_password(a)).collect::<Vec<_>>();
        f.debug_struct("PackageSource")
            .field(
                "index_url",
                &self.index_url.as_deref().map(without_password),
            )
            .field("extra_index_urls", &addresses(&self.extra_index_urls))
            .field("find_links", &addresses(&self.find_links))
            .field("no_index", &self.no_index)
            .finish_non_exhaustive()
    }
}

impl PackageSource {
    /// Wheels of one folder, without an index.
    #[must_use]
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            find_links: vec![folder.into().to_string_lossy().into_owned()],
            no_index: true,
            ..Self::default()
        }
    }

    /// The settings of the host's pip: variables of the caller, then the files of the user and of
    /// the machine. Where they name no index, folder or page, those of the host's uv count.
    #[must_use]
    pub fn of_host() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let home = variable("HOME").map(PathBuf::from);
        let mut source = Self::read(variable, host_texts(files(variable, home.as_deref())));
        uv::add_to(&mut source, variable, host_texts(uv::files(variable)));
        source
    }

    /// The same from the given variables and file contents, the lowest priority first.
    fn read(
        variable: impl Fn(&str) -> Option<String>,
        texts: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut options = BTreeMap::new();
        for text in texts {
            options.extend(configuration::options(&text));
        }
        let option = |name: &str| {
            let variable_name = format!("PIP_{}", name.to_uppercase().replace('-', "_"));
            variable(&variable_name)
                .or_else(|| options.get(name).cloned())
                .filter(|value| !value.is_empty())
        };
        let list = |name: &str| {
            let value = option(name).unwrap_or_default();
            value.split_whitespace().map(str::to_owned).collect()
        };
        // Paths in a file may contain blanks; in a variable pip splits at blanks.
        let find_links = match variable("PIP_FIND_LINKS").filter(|value| !value.is_empty()) {
            Some(value) => value.split_whitespace().map(str::to_owned).collect(),
            None => lines(options.get("find-links")),
        };
        let is_true = |value: String| {
            matches!(
                value.to_lowercase().as_str(),
                "1" | "true" | "yes" | "on" | "y" | "t"
            )
        };
        let known = PROXIES.iter().chain(&CERTIFICATES);
        Self {
            index_url: option("index-url"),
            extra_index_urls: list("extra-index-url"),
            find_links,
            no_index: option("no-index").is_some_and(is_true),
            trusted_hosts: list("trusted-host"),
            certificates: option("cert").map(PathBuf::from),
            proxy: option("proxy"),
            connect_timeout: option("timeout")
                .or_else(|| option("default-timeout"))
                .and_then(|value| value.parse().ok()),
            variables: known
                .filter_map(|name| Some(((*name).to_owned(), variable(name)?)))
                .filter(|(_, value)| !value.is_empty())
                .collect(),
        }
    }

    /// What an installation needs of these settings.
    pub(in super::super) fn resolved(&self) -> RecipeSource {
        RecipeSource {
            environment: self.environment(),
            folders: self.folders(),
            read_roots: self.read_roots(),
            is_local: self.is_of_folders_alone(),
            uses_proxy: self.proxy.is_some() || self.variables.keys().any(|name| is_proxy(name)),
            has_own_trust: self.certificates.is_some()
                || !self.trusted_hosts.is_empty()
                || CERTIFICATES
                    .iter()
                    .any(|name| self.variables.contains_key(*name)),
            identity: self.identity(),
        }
    }

    /// The environment of the installer.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.variables.clone();
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                environment.insert(format!("PIP_{name}"), value);
            }
        };
        let remote = self.find_links.iter().filter(|link| local(link).is_none());
        set("INDEX_URL", self.index_url.clone());
        set("EXTRA_INDEX_URL", Some(self.extra_index_urls.join(" ")));
        set(
            "FIND_LINKS",
            Some(remote.cloned().collect::<Vec<_>>().join(" ")),
        );
        set("NO_INDEX", self.no_index.then(|| "1".to_owned()));
        set("TRUSTED_HOST", Some(self.trusted_hosts.join(" ")));
        let certificates = self.certificates.as_ref();
        set(
            "CERT",
            certificates.map(|path| path.to_string_lossy().into_owned()),
        );
        set("PROXY", self.proxy.clone());
        set(
            "TIMEOUT",
            self.connect_timeout.map(|seconds| seconds.to_string()),
        );
        environment
    }

    /// The existing host folders in `find_links`.
    fn folders(&self) -> Vec<PathBuf> {
        let local = self.find_links.iter().filter_map(|link| local(link));
        local.filter(|path| path.exists()).collect()
    }

    /// Whether all wheels come from host folders, so that the installer needs no network. A page of
    /// links may lead anywhere.
    fn is_of_folders_alone(&self) -> bool {
        let is_page = |link: &String| local(link).is_none_or(|path| path.is_file());
        self.no_index && !self.find_links.iter().any(is_page)
    }

    /// Files and folders of the host that the installer must read, if they exist.
    fn read_roots(&self) -> Vec<PathBuf> {
        let certificates = CERTIFICATES
            .iter()
            .filter_map(|name| self.variables.get(*name));
        let registries = self.index_url.iter().chain(&self.extra_index_urls);
        let mut roots = certificates
            .map(PathBuf::from)
            .chain(self.certificates.clone())
            .filter(|path| path.is_absolute() && path.exists())
            .chain(self.folders())
            .chain(
                registries
                    .filter_map(|url| local(url))
                    .filter(|p| p.exists()),
            )
            .collect::<Vec<_>>();
        roots.sort();
        roots.dedup();
        roots
    }

    /// Identifies a set of indexes and how to reach them, for the cache key.
    fn identity(&self) -> String {
        let mut parts = vec![self.index_url.clone().unwrap_or_default()];
        parts.push(self.extra_index_urls.join(" "));
        parts.push(self.find_links.join(" "));
        parts.push(self.no_index.to_string());
        // Trusted hosts count: packages from an unchecked connection are not reused for a checked
        // one.
        parts.push(self.trusted_hosts.join(" "));
        let certificates = self.certificates.iter();
        parts.extend(certificates.map(|path| path.to_string_lossy().into_owned()));
        parts.push(without_password(self.proxy.as_deref().unwrap_or_default()));
        let variables = self.variables.iter();
        parts.extend(variables.map(|(name, value)| format!("{name}={}", without_password(value))));
        parts.join("\n")
    }
}

fn lines(value: Option<&String>) -> Vec<String> {
    let lines = value.map(String::as_str).unwrap_or_default().lines();
    lines
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// The host path in a URL: absolute and without `..`.
fn local(link: &str) -> Option<PathBuf> {
    let path = match link.strip_prefix("file://") {
        Some(path) => path.to_owned(),
        None if link.contains("://") => return None,
        None => match link.strip_prefix("~/") {
            Some(rest) => format!("{}/{rest}", std::env::var("HOME").ok()?),
            None => link.to_owned(),
        },
    };
    let path = std::path::absolute(path).ok()?;
    path.canonicalize().ok().or(Some(path))
}

/// pip's configuration files, the lowest priority first.
fn files(variable: impl Fn(&str) -> Option<String>, home: Option<&Path>) -> Vec<PathBuf> {
    let named = variable("PIP_CONFIG_FILE").filter(|file| !file.is_empty());
    if named.as_deref() == Some("/dev/null") {
        return Vec::new();
    }
    let shared = variable("XDG_CONFIG_DIRS").filter(|folders| !folders.is_empty());
    let shared = shared.unwrap_or_else(|| "/etc/xdg".to_owned());
    let mut files = shared
        .split(':')
        .map(|folder| Path::new(folder).join("pip/pip.conf"))
        .collect::<Vec<_>>();
    files.push("/etc/pip.conf".into());
    files.extend(home.map(|home| home.join(".pip/pip.conf")));
    let own = variable("XDG_CONFIG_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| home.map(|home| home.join(".config")));
    files.extend(own.map(|folder| folder.join("pip/pip.conf")));
    files.extend(named.map(PathBuf::from));
    files
}

/// A URL without its user and password.
pub(in super::super) fn without_password(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || c == '\'' || c == '"')
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(sign) => {
                clean.push_str("…@");
                &after[sign + 1..]
            }
            None => after,
        };
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], texts: &[&str]) -> PackageSource {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        PackageSource::read(variable, texts.iter().map(|text| (*text).to_owned()))
    }

    #[test]
    fn variables_override_files_and_nothing_else_is_passed() {
        let source = read(
            &[
                ("PIP_INDEX_URL", "https://u:p@a.example/simple"),
                ("PIP_CLIENT_CERT", "/home/me/key.pem"),
                ("PIP_KEYRING_PROVIDER", "subprocess"),
                ("https_proxy", "http://proxy:8080"),
                ("HOME", "/home/me"),
                ("AWS_SECRET_ACCESS_KEY", "x"),
            ],
            &[
                "[global]\nindex-url = https://b.example\ncert = /etc/ca.pem\ntarget = /tmp",
                "[install]\nextra-index-url =\n  https://c.example\n  https://d.example\nno-index = false",
            ],
        );
        let environment = source.environment();
        let expected = [
            ("PIP_CERT", "/etc/ca.pem"),
            ("PIP_EXTRA_INDEX_URL", "https://c.example https://d.example"),
            ("PIP_INDEX_URL", "https://u:p@a.example/simple"),
            ("https_proxy", "http://proxy:8080"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(environment, BTreeMap::from(expected));
        assert!(!format!("{source:?}").contains("u:p"), "{source:?}");
    }

    #[test]
    fn wheel_folders_become_read_roots() {
        let folder = tempfile::tempdir().expect("a folder");
        let spaced = folder.path().join("my wheels");
        std::fs::create_dir(&spaced).expect("made");
        let text = format!(
            "[global]\nfind-links =\n  {}\n  /no/such/folder\n  https://w.example/",
            spaced.display()
        );
        let source = read(&[], &[&text]);
        assert_eq!(source.folders(), [spaced.canonicalize().expect("there")]);
        assert_eq!(source.read_roots(), source.folders());
        assert_eq!(source.environment()["PIP_FIND_LINKS"], "https://w.example/");

        // The installer needs no network only if nothing else is used.
        let page = folder.path().join("page.html");
        std::fs::write(&page, "").expect("written");
        assert!(!source.is_of_folders_alone());
        assert!(PackageSource::folder(&spaced).is_of_folders_alone());
        assert!(!PackageSource::folder(&page).is_of_folders_alone());
        let with_registry = PackageSource {
            no_index: false,
            ..PackageSource::folder(&spaced)
        };
        assert!(!with_registry.is_of_folders_alone());
    }

    #[test]
    fn configuration_files_are_found_like_pip() {
        let none = |_: &str| None;
        let home = Path::new("/home/me");
        let expected = [
            "/etc/xdg/pip/pip.conf",
            "/etc/pip.conf",
            "/home/me/.pip/pip.conf",
            "/home/me/.config/pip/pip.conf",
        ];
        assert_eq!(files(none, Some(home)), expected.map(PathBuf::from));
        let off = |name: &str| (name == "PIP_CONFIG_FILE").then(|| "/dev/null".to_owned());
        assert!(files(off, Some(home)).is_empty());
    }

    #[test]
    fn passwords_are_removed_from_urls() {
        for (text, clean) in [
            ("https://u:p@h.example/x", "https://…@h.example/x"),
            (
                "see https://t@h/ and http://h/@x",
                "see https://…@h/ and http://h/@x",
            ),
            ("https://u:p@w@h/x", "https://…@h/x"),
            ("no address", "no address"),
        ] {
            assert_eq!(without_password(text), clean);
        }
    }
}
