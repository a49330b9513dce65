//! npm's configuration, limited to the options about registries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::RegistrySource;
use super::super::registry_source::{host_texts, unquoted};
use super::REGISTRY;

/// The options that are used, besides `@SCOPE:registry`.
const OPTIONS: [&str; 6] = [
    "registry",
    "cafile",
    "proxy",
    "https-proxy",
    "noproxy",
    "strict-ssl",
];

/// The start of npm's variables, in lower case.
const VARIABLE: &str = "npm_config_";

/// The settings of the host's npm.
pub(super) fn of_host() -> RegistrySource {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        Some((name, value))
    });
    let variables = variables.collect::<BTreeMap<_, _>>();
    read(&variables, host_texts(files(&variables)))
}

/// npm's configuration files, the lowest priority first.
fn files(variables: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let option = |name: &str| {
        let named = variables
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        named
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty())
    };
    let global = option("npm_config_globalconfig").map(PathBuf::from);
    let user = option("npm_config_userconfig").map(PathBuf::from);
    let home = variables.get("HOME").map(PathBuf::from);
    let global = match global {
        Some(file) => vec![file],
        None => {
            let path = variables
                .get("PATH")
                .map(String::as_str)
                .unwrap_or_default();
            // Debian's npm reads the first.
            let own = prefix(path).map(|prefix| prefix.join("etc/npmrc"));
            std::iter::once("/etc/npmrc".into()).chain(own).collect()
        }
    };
    let user = user.or_else(|| Some(home?.join(".npmrc")));
    global.into_iter().chain(user).collect()
}

/// The folder that Node.js is installed in.
fn prefix(path: &str) -> Option<PathBuf> {
    let mut nodes = path.split(':').map(|folder| Path::new(folder).join("node"));
    let node = nodes.find_map(|node| node.canonicalize().ok())?;
    Some(node.parent()?.parent()?.to_owned())
}

/// The settings in variables and file contents, the lowest priority first.
fn read(
    variables: &BTreeMap<String, String>,
    texts: impl IntoIterator<Item = String>,
) -> RegistrySource {
    let mut options = BTreeMap::new();
    for text in texts {
        options.extend(parse(&text, variables));
    }
    for (name, value) in variables {
        let start = name.get(..VARIABLE.len());
        if start.is_some_and(|start| start.eq_ignore_ascii_case(VARIABLE)) {
            let name = name[VARIABLE.len()..].to_lowercase();
            // As npm reads it: a scope may begin with an underscore.
            options.insert(name.replace('_', "-"), value.clone());
        }
    }
    let mut source = RegistrySource::default();
    for (name, value) in &options {
        if value.is_empty() || !is_used(name) {
            continue;
        }
        let variable = match name.as_str() {
            "registry" => REGISTRY.to_owned(),
            name => format!("{VARIABLE}{}", name.replace('-', "_")),
        };
        source = match name.as_str() {
            "cafile" => source.with_certificates(&variable, Path::new(value)),
            _ => source.variable(&variable, value),
        };
    }
    source.with_proxies(|name| variables.get(name).cloned())
}

fn is_used(option: &str) -> bool {
    OPTIONS.contains(&option) || (option.starts_with('@') && option.ends_with(":registry"))
}

/// The options of a file: `name = value` lines.
fn parse(text: &str, variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with(['#', ';', '[']));
    let options = lines.filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = expanded(unquoted(value), variables);
        Some((name.trim().to_lowercase(), value))
    });
    options.collect()
}

/// Replaces `${NAME}` by a variable. Unknown ones stay, as in npm.
fn expanded(value: &str, variables: &BTreeMap<String, String>) -> String {
    let mut done = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        done.push_str(before);
        let found = after
            .split_once('}')
            .and_then(|(name, after)| Some((variables.get(name)?, after)));
        rest = match found {
            Some((value, after)) => {
                done.push_str(value);
                after
            }
            None => {
                done.push_str("${");
                after
            }
        };
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let list = list.iter();
        list.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn variables_override_files_and_no_token_is_passed() {
        let variables = variables(&[
            ("NPM_CONFIG_REGISTRY", "https://a.example/"),
            ("npm_config__auth", "c2VjcmV0"),
            ("npm_config_node_options", "--require=/tmp/x.js"),
            ("https_proxy", "http://proxy:8080"),
            ("HOST", "b.example"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
        ]);
        let files = [
            "cafile = \"/etc/ca.pem\"\nregistry=https://machine.example/\nscript-shell=/tmp/x\n",
            "; mine\n@mine:registry=https://${HOST}/npm/\n//b.example/npm/:_authToken=${TOKEN}\n\
             strict-ssl=true\ngit=/tmp/x\nignore-scripts=false\nnonsense\n",
        ];
        let source = read(&variables, files.map(str::to_owned));
        let expected = [
            ("https_proxy", "http://proxy:8080"),
            ("npm_config_@mine:registry", "https://b.example/npm/"),
            ("npm_config_cafile", "/etc/ca.pem"),
            ("npm_config_registry", "https://a.example/"),
            ("npm_config_strict_ssl", "true"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(source.environment, BTreeMap::from(expected));
        assert_eq!(source.certificates, [PathBuf::from("/etc/ca.pem")]);
    }

    #[test]
    fn files_are_those_of_npm() {
        let with = |list: &[(&str, &str)]| files(&variables(list));
        let home = [("HOME", "/home/me"), ("PATH", "/no/such/folder")];
        assert_eq!(
            with(&home),
            ["/etc/npmrc", "/home/me/.npmrc"].map(PathBuf::from)
        );
        let named = [
            ("NPM_CONFIG_USERCONFIG", "/u"),
            ("npm_config_globalconfig", "/g"),
            ("HOME", "/home/me"),
        ];
        assert_eq!(with(&named), ["/g", "/u"].map(PathBuf::from));
        let folder = tempfile::tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        std::fs::create_dir(base.join("bin")).expect("made");
        std::fs::write(base.join("bin/node"), "").expect("written");
        let path = base.join("bin").display().to_string();
        let own = base.join("etc/npmrc");
        assert_eq!(with(&[("PATH", &path)]), [PathBuf::from("/etc/npmrc"), own]);
    }

    #[test]
    fn any_text_is_parsed_without_panic() {
        for text in [
            "",
            "=",
            "${",
            "a=${",
            "a=${}",
            "a=\"",
            "[x]\ny=1",
            "a=${b${c}",
        ] {
            parse(text, &BTreeMap::new());
        }
    }
}
