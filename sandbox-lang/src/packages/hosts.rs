//! The hosts that an installer needs, as rules for connections.

use std::net::IpAddr;

use sandbox_core::policy::{Destination, Installer, NetworkRule};
use sandbox_core::{Error, ErrorKind, Plan, Result};

use super::recipe::{RecipeSource, recipe};
use super::{PackageSettings, plan};

/// The level at which the host reads each request, and the methods of requests that change nothing.
const DOWNLOADS: &str = "http GET,HEAD";

/// Registries, and the other hosts that their pages and redirects lead to.
const LINKS: [(&str, &[&str]); 5] = [
    ("index.crates.io", &["static.crates.io"]),
    ("proxy.golang.org", &["storage.googleapis.com"]),
    ("pypi.org", &["files.pythonhosted.org"]),
    ("rubygems.org", &["index.rubygems.org"]),
    ("test.pypi.org", &["test-files.pythonhosted.org"]),
];

/// The rules for the registries of a plan's packages. `None` if an installer must have the whole
/// network: it uses a proxy, a registry on the loopback, or an index of Python or cargo that may lead
/// to any host. [`PackageSettings::hosts`] names the hosts of such an index.
///
/// With `ends_tls`, the backend can enforce rules at level `http`.
#[must_use]
pub fn registry_rules(
    plan: &Plan,
    settings: &PackageSettings,
    ends_tls: bool,
) -> Option<Vec<NetworkRule>> {
    let mut all = Vec::new();
    for installer in plan::installers(plan) {
        let source = recipe(installer).source(settings);
        for rule in rules(installer, &source, settings, ends_tls)? {
            if !all.contains(&rule) {
                all.push(rule);
            }
        }
    }
    Some(all)
}

/// Refuses hosts at level `http` where the installer would not trust the authority of its sandbox.
pub(super) fn check(
    settings: &PackageSettings,
    source: &RecipeSource,
    ends_tls: bool,
) -> Result<()> {
    match settings.hosts.iter().find(|rule| rule.reads_requests()) {
        None => Ok(()),
        Some(_) if ends_tls && !source.has_own_trust => Ok(()),
        Some(rule) => {
            let why = match ends_tls {
                true => "the installer has certificates of its own",
                false => "it is not enforced here",
            };
            let context = format!("hosts of packages: {rule} is at level http, and {why}");
            let error = Error::new(ErrorKind::InvalidPolicy, "install packages", context);
            Err(error.with_fix("write it without http, so that its name is checked"))
        }
    }
}

/// The rules for the registries of one installer. Empty if it needs no network.
pub(super) fn rules(
    installer: Installer,
    source: &RecipeSource,
    settings: &PackageSettings,
    ends_tls: bool,
) -> Option<Vec<NetworkRule>> {
    if source.is_local {
        return Some(Vec::new());
    }
    if source.uses_proxy {
        return None;
    }
    let level = match ends_tls && !source.has_own_trust {
        true => DOWNLOADS,
        // Installers speak TLS or HTTP on every port.
        false => "name",
    };
    let mut rules = settings.hosts.clone();
    let recipe = recipe(installer);
    for url in recipe.registries(source) {
        let rule = rule(&url, level)?;
        let name = rule.destination().to_string();
        let links = LINKS.iter().find(|(registry, _)| *registry == name);
        if recipe.leads_to_any_host() && links.is_none() && settings.hosts.is_empty() {
            return None;
        }
        rules.push(rule);
        for host in links.map_or(&[][..], |(_, hosts)| hosts) {
            rules.push(self::rule(&format!("https://{host}"), level)?);
        }
    }
    Some(rules)
}

/// A rule for the host of a URL. The operator's configuration names it, so its address may be
/// private. `None` if no rule leads there.
fn rule(url: &str, level: &str) -> Option<NetworkRule> {
    let (scheme, rest) = url.split_once("://")?;
    let default_port = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    // A bracket ends an IPv6 address.
    let has_port = place
        .rfind(':')
        .is_some_and(|colon| !place[colon..].contains(']'));
    let place = match has_port {
        true => place.to_owned(),
        false => format!("{place}:{default_port}"),
    };
    let rule: NetworkRule = format!("{place} private").parse().ok()?;
    match rule.destination() {
        Destination::Network(network) if is_loopback(network.address()) => None,
        Destination::Network(_) => Some(rule),
        Destination::Name(name) if name.as_str() == "localhost" => None,
        _ => format!("{place} {level} private").parse().ok(),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::{PackageSource, RegistrySource, cargo, go};

    fn of(installer: Installer, settings: &PackageSettings) -> Option<Vec<String>> {
        let source = recipe(installer).source(settings);
        let rules = rules(installer, &source, settings, false)?;
        Some(rules.iter().map(ToString::to_string).collect())
    }

    fn pip(source: PackageSource) -> PackageSettings {
        PackageSettings {
            source: Some(source),
            ..PackageSettings::default()
        }
    }

    fn npm(url: &str) -> PackageSettings {
        PackageSettings {
            npm: Some(RegistrySource::npm(url)),
            ..PackageSettings::default()
        }
    }

    #[test]
    fn known_registries_have_their_hosts() {
        let expected = ["pypi.org:443 private", "files.pythonhosted.org:443 private"];
        let own = pip(PackageSource::default());
        assert_eq!(of(Installer::Pip, &own).unwrap(), expected);
        let default = PackageSettings {
            npm: Some(RegistrySource::default()),
            gem: Some(RegistrySource::default()),
            go: Some(RegistrySource::default()),
            cargo: Some(RegistrySource::default()),
            ..PackageSettings::default()
        };
        let expected = [
            "index.crates.io:443 private",
            "static.crates.io:443 private",
        ];
        assert_eq!(of(Installer::Cargo, &default).unwrap(), expected);
        let expected = ["registry.npmjs.org:443 private"];
        assert_eq!(of(Installer::Npm, &default).unwrap(), expected);
        let expected = ["rubygems.org:443 private", "index.rubygems.org:443 private"];
        assert_eq!(of(Installer::Gem, &default).unwrap(), expected);
        let expected = [
            "proxy.golang.org:443 private",
            "storage.googleapis.com:443 private",
            "sum.golang.org:443 private",
        ];
        assert_eq!(of(Installer::Go, &default).unwrap(), expected);
    }

    #[test]
    fn registry_of_the_operator_has_its_host_alone() {
        for (url, expected) in [
            ("https://u:p@npm.a.org/x", Some("npm.a.org:443 private")),
            ("http://npm.a.org:4873", Some("npm.a.org:4873 name private")),
            ("http://10.0.0.7/x", Some("10.0.0.7:80 private")),
            (
                "https://[2001:db8::7]:8443/",
                Some("[2001:db8::7]:8443 private"),
            ),
            // The loopback of a sandbox is its own.
            ("http://127.0.0.1:4873", None),
            ("http://localhost:4873", None),
            ("http://[::1]:4873", None),
            ("git://a.org/x", None),
        ] {
            let rules = of(Installer::Npm, &npm(url));
            let expected = expected.map(|rule| vec![rule.to_owned()]);
            assert_eq!(rules, expected, "{url}");
        }
    }

    #[test]
    fn other_index_of_python_needs_the_hosts_of_its_files() {
        let index = PackageSource {
            index_url: Some("https://pip.a.org/simple".into()),
            ..PackageSource::default()
        };
        let mut settings = pip(index);
        assert_eq!(of(Installer::Pip, &settings), None);
        settings.hosts = vec!["files.a.org".parse().unwrap()];
        let expected = ["files.a.org", "pip.a.org:443 private"];
        assert_eq!(of(Installer::Pip, &settings).unwrap(), expected);
        let folder = pip(PackageSource::folder("/wheels"));
        assert_eq!(
            of(Installer::Pip, &folder).unwrap(),
            <[String; 0]>::default()
        );
    }

    #[test]
    fn other_index_of_cargo_needs_the_hosts_of_its_files() {
        let source = RegistrySource::default();
        let source = source.variable(cargo::SOURCE, "registry=sparse+https://cargo.a.org/x/");
        let mut settings = PackageSettings {
            cargo: Some(source),
            ..PackageSettings::default()
        };
        assert_eq!(of(Installer::Cargo, &settings), None);
        settings.hosts = vec!["files.a.org".parse().unwrap()];
        let expected = ["files.a.org", "cargo.a.org:443 private"];
        assert_eq!(of(Installer::Cargo, &settings).unwrap(), expected);
    }

    #[test]
    fn database_of_checksums_is_one_of_the_registries() {
        let of_go = |database: &str| {
            let source = RegistrySource::go("https://go.a.org,direct");
            let settings = PackageSettings {
                go: Some(source.variable(go::CHECKSUMS, database)),
                ..PackageSettings::default()
            };
            of(Installer::Go, &settings).unwrap()
        };
        let proxy = "go.a.org:443 private";
        assert_eq!(of_go("off"), [proxy]);
        for named in ["sum.a.org", "sum.a.org+0123+key", "key https://sum.a.org/x"] {
            assert_eq!(of_go(named), [proxy, "sum.a.org:443 private"], "{named}");
        }
    }

    #[test]
    fn installer_without_certificates_of_its_own_only_downloads() {
        let downloads = |source: PackageSource| {
            let settings = pip(source);
            let source = recipe(Installer::Pip).source(&settings);
            let rules = rules(Installer::Pip, &source, &settings, true).unwrap();
            rules.iter().all(NetworkRule::reads_requests)
        };
        assert!(downloads(PackageSource::default()));
        let trusting = PackageSource {
            trusted_hosts: vec!["pip.a.org".into()],
            ..PackageSource::default()
        };
        assert!(!downloads(trusting));
        let own = PackageSource {
            certificates: Some("/etc/ca.pem".into()),
            ..PackageSource::default()
        };
        assert!(!downloads(own));
        let of_npm = |source: RegistrySource| {
            let source = source.resolved();
            let settings = PackageSettings::default();
            let rules = rules(Installer::Npm, &source, &settings, true).unwrap();
            rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let npm = RegistrySource::npm("https://npm.a.org");
        let expected = ["npm.a.org:443 http GET,HEAD private"];
        assert_eq!(of_npm(npm.clone()), expected);
        let expected = ["npm.a.org:443 private"];
        assert_eq!(
            of_npm(npm.clone().variable("npm_config_strict_ssl", "false")),
            expected
        );
        let own = npm.with_certificates("npm_config_cafile", "/etc/ca.pem".as_ref());
        assert_eq!(of_npm(own), expected);
    }

    #[test]
    fn hosts_at_level_http_need_an_installer_that_trusts_its_sandbox() {
        let mut settings = npm("https://npm.a.org");
        let source = recipe(Installer::Npm).source(&settings);
        settings.hosts = vec!["files.a.org".parse().unwrap()];
        assert!(check(&settings, &source, false).is_ok());
        settings.hosts = vec!["files.a.org http".parse().unwrap()];
        assert!(check(&settings, &source, true).is_ok());
        let error = check(&settings, &source, false).unwrap_err();
        assert!(error.to_string().contains("files.a.org http"), "{error}");
        let own = RecipeSource {
            has_own_trust: true,
            ..source
        };
        let error = check(&settings, &own, true).unwrap_err();
        assert!(
            error.to_string().contains("certificates of its own"),
            "{error}"
        );
    }

    #[test]
    fn proxy_needs_the_whole_network() {
        for (installer, name) in [
            (Installer::Npm, "https_proxy"),
            (Installer::Npm, "npm_config_https_proxy"),
            (Installer::Gem, "ALL_PROXY"),
            (Installer::Cargo, "CARGO_HTTP_PROXY"),
        ] {
            let source = Some(RegistrySource::default().variable(name, "proxy.a.org:3128"));
            let settings = PackageSettings {
                npm: source.clone(),
                gem: source.clone(),
                cargo: source,
                ..PackageSettings::default()
            };
            assert_eq!(of(installer, &settings), None, "{name}");
        }
        let source = PackageSource {
            proxy: Some("http://proxy.a.org:3128".into()),
            ..PackageSource::default()
        };
        assert_eq!(of(Installer::Pip, &pip(source)), None);
    }
}
