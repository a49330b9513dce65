//! gem's configuration files, limited to the sources and the certificate authorities.

use std::path::{Path, PathBuf};

use super::super::RegistrySource;
use super::super::registry_source::{host_texts, unquoted};

/// The settings of the host's gem.
pub(super) fn of_host() -> RegistrySource {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    read(variable, host_texts(files(variable)))
}

/// gem's configuration files, the lowest priority first.
fn files(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/gemrc")];
    if let Some(home) = variable("HOME").map(PathBuf::from) {
        let shared = variable("XDG_CONFIG_HOME").map(PathBuf::from);
        files.push(
            shared
                .unwrap_or_else(|| home.join(".config"))
                .join("gem/gemrc"),
        );
        files.push(home.join(".gemrc"));
    }
    if let Some(named) = variable("GEMRC") {
        files.extend(named.split([':', ';']).map(PathBuf::from));
    }
    files
}

fn read(
    variable: impl Fn(&str) -> Option<String> + Copy,
    texts: impl IntoIterator<Item = String>,
) -> RegistrySource {
    let mut sources = Vec::new();
    let mut certificates = None;
    for text in texts {
        let found = list(&text, "sources");
        if !found.is_empty() {
            sources = found;
        }
        certificates = list(&text, "ssl_ca_cert")
            .into_iter()
            .next()
            .or(certificates);
    }
    let source = match sources.is_empty() {
        true => RegistrySource::default(),
        false => RegistrySource::gem(sources),
    };
    let certificates = certificates.or_else(|| variable("SSL_CERT_FILE"));
    let source = match certificates {
        Some(file) => source.with_certificates("SSL_CERT_FILE", Path::new(&file)),
        None => source,
    };
    source.with_proxies(variable)
}

/// The texts of a key in a file of YAML: one, or a list in lines or in brackets.
fn list(text: &str, key: &str) -> Vec<String> {
    let unquoted = |text: &str| unquoted(text).to_owned();
    let mut lines = text.lines();
    let value = lines.by_ref().find_map(|line| {
        let line = line.strip_prefix(':').unwrap_or(line);
        line.strip_prefix(key)?.strip_prefix(':').map(str::trim)
    });
    let texts = match value {
        None => Vec::new(),
        Some("") => {
            let items = lines.map_while(|line| {
                let line = line.trim();
                let is_comment = line.is_empty() || line.starts_with('#');
                match line.strip_prefix('-') {
                    Some(item) => Some(unquoted(item)),
                    None => is_comment.then(String::new),
                }
            });
            items.collect()
        }
        Some(value) => match value
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(items) => items.split(',').map(unquoted).collect(),
            None => vec![unquoted(value)],
        },
    };
    texts.into_iter().filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::SOURCES;
    use super::*;

    #[test]
    fn sources_are_those_of_the_last_file() {
        let none = |_: &str| None;
        let texts = [
            "---\n:sources:\n- https://machine.example/\n:verbose: true\n",
            ":backtrace: false\n:sources:\n  # mine\n  - \"https://u:p@a.example/\"\n  - https://b.example/\n:ssl_ca_cert: /etc/ca.pem\n:rubygems_api_key: secret\n",
        ];
        let source = read(none, texts.map(str::to_owned));
        let sources = "https://u:p@a.example/ https://b.example/";
        assert_eq!(source.environment[SOURCES], sources);
        assert_eq!(source.certificates, [PathBuf::from("/etc/ca.pem")]);
        assert!(!format!("{source:?}").contains("u:p"), "{source:?}");
        assert!(
            !source
                .environment
                .values()
                .any(|value| value.contains("secret"))
        );
        let one = read(none, ["sources: ['https://c.example/']".to_owned()]);
        assert_eq!(one.environment[SOURCES], "https://c.example/");
        assert!(read(none, [String::new()]).environment.is_empty());
    }

    #[test]
    fn any_text_is_parsed_without_panic() {
        for text in [
            "",
            ":sources:",
            ":sources: [",
            ":sources:\n-",
            "sources:\n\n\n-'",
            ":",
        ] {
            list(text, "sources");
        }
    }

    #[test]
    fn files_are_those_of_gem() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        let expected = [
            "/etc/gemrc",
            "/home/me/.config/gem/gemrc",
            "/home/me/.gemrc",
        ];
        assert_eq!(files(home), expected.map(PathBuf::from));
    }
}
