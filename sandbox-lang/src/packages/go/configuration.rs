//! Go's configuration (`go env -w`), limited to the module proxies and the database of checksums.

use std::path::{Path, PathBuf};

use super::super::RegistrySource;
use super::super::registry_source::host_texts;

/// The settings that are used.
const SETTINGS: [&str; 6] = [
    super::PROXY,
    super::CHECKSUMS,
    "GOPRIVATE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOINSECURE",
];

/// The settings of the host's Go.
pub(super) fn of_host() -> RegistrySource {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    read(variable, host_texts(file(variable).into_iter().collect()))
}

/// The file of `go env -w`; `None` if there is none.
fn file(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    match variable("GOENV").as_deref() {
        Some("off") => return None,
        Some(file) => return Some(PathBuf::from(file)),
        None => {}
    }
    let shared = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let shared = shared.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    Some(shared?.join("go/env"))
}

fn read(
    variable: impl Fn(&str) -> Option<String> + Copy,
    texts: impl IntoIterator<Item = String>,
) -> RegistrySource {
    let texts = texts.into_iter().collect::<String>();
    let configured = |name: &str| {
        let mut lines = texts.lines();
        // Lines are not quoted. Go ignores those that start with other characters.
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.filter(|value| !value.is_empty()).map(str::to_owned)
    };
    let mut source = RegistrySource::default();
    for name in SETTINGS {
        if let Some(value) = variable(name).or_else(|| configured(name)) {
            source = source.variable(name, value);
        }
    }
    if let Some(file) = variable("SSL_CERT_FILE") {
        source = source.with_certificates("SSL_CERT_FILE", Path::new(&file));
    }
    source.with_proxies(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_precede_the_file_and_only_registries_are_used() {
        let variable = |name: &str| match name {
            "GOPROXY" => Some("https://u:p@mine.example".to_owned()),
            "SSL_CERT_FILE" => Some("/etc/ca.pem".to_owned()),
            "GOFLAGS" => Some("-toolexec=/bin/false".to_owned()),
            _ => None,
        };
        let text = "# mine\nGOPROXY=https://file.example\nGOSUMDB=off\nGOFLAGS=-toolexec=x\nGONOPROXY=\n CC=x\n";
        let source = read(variable, [text.to_owned()]);
        let names = source.environment.keys().map(String::as_str);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["GOPROXY", "GOSUMDB", "SSL_CERT_FILE"]
        );
        assert_eq!(source.environment["GOPROXY"], "https://u:p@mine.example");
        assert_eq!(source.environment["GOSUMDB"], "off");
        assert_eq!(source.certificates, [PathBuf::from("/etc/ca.pem")]);
        assert!(!format!("{source:?}").contains("u:p"), "{source:?}");
        let file = read(|_| None, [text.to_owned()]);
        assert_eq!(file.environment["GOPROXY"], "https://file.example");
    }

    #[test]
    fn file_is_that_of_go() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        assert_eq!(file(home), Some("/home/me/.config/go/env".into()));
        assert_eq!(file(|name| (name == "GOENV").then(|| "off".into())), None);
        let named = file(|name| (name == "GOENV").then(|| "/x/env".into()));
        assert_eq!(named, Some("/x/env".into()));
        assert_eq!(file(|_| None), None);
    }
}
