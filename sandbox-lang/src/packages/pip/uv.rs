//! uv's configuration, limited to the indexes. It is used where pip's names none.

use std::path::PathBuf;

use serde::Deserialize;

use super::PackageSource;

/// The settings of one `uv.toml`. Unknown ones are uv's business.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Configuration {
    index: Vec<Index>,
    index_url: Option<String>,
    extra_index_url: Vec<String>,
    find_links: Vec<String>,
    no_index: bool,
}

#[derive(Deserialize)]
struct Index {
    url: String,
    #[serde(default)]
    default: bool,
}

/// The files of the machine and of the user, the lowest priority first.
pub(super) fn files(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = |name: &str| variable(name).map(PathBuf::from);
    if let Some(file) = named("UV_CONFIG_FILE") {
        return vec![file];
    }
    let home = || named("HOME").map(|home| home.join(".config"));
    let user = named("XDG_CONFIG_HOME").or_else(home);
    std::iter::once(PathBuf::from("/etc/uv/uv.toml"))
        .chain(user.map(|folder| folder.join("uv/uv.toml")))
        .collect()
}

/// Adds the indexes of uv to a source that has none. A file that is not valid is left out, as one
/// that cannot be read: uv itself says what is wrong with it.
pub(super) fn add_to(
    source: &mut PackageSource,
    variable: impl Fn(&str) -> Option<String>,
    texts: impl IntoIterator<Item = String>,
) {
    if source.index_url.is_some() || source.no_index || !source.find_links.is_empty() {
        return;
    }
    let mut index = None;
    let mut more = Vec::new();
    for text in texts {
        let Ok(file) = toml::from_str::<Configuration>(&text) else {
            continue;
        };
        let (default, others): (Vec<_>, Vec<_>) =
            file.index.into_iter().partition(|index| index.default);
        let default = default.into_iter().next().map(|index| index.url);
        index = default.or(file.index_url).or(index);
        let others = others.into_iter().map(|index| index.url);
        more.extend(others.chain(file.extra_index_url));
        source.find_links.extend(file.find_links);
        source.no_index |= file.no_index;
    }
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let address = |text: &str| match text.split_once('=') {
        // An index may have a name in front.
        Some((name, url)) if !name.contains(':') => url.to_owned(),
        _ => text.to_owned(),
    };
    let list = |value: String| value.split_whitespace().map(address).collect::<Vec<_>>();
    source.index_url = set("UV_DEFAULT_INDEX")
        .or_else(|| set("UV_INDEX_URL"))
        .map(|url| address(&url))
        .or(index);
    let named = ["UV_INDEX", "UV_EXTRA_INDEX_URL"]
        .into_iter()
        .filter_map(set);
    source
        .extra_index_urls
        .extend(named.flat_map(list).chain(more));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], texts: &[&str]) -> PackageSource {
        let mut source = PackageSource::default();
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(own, _)| *own == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        add_to(&mut source, variable, texts.iter().map(ToString::to_string));
        source
    }

    #[test]
    fn indexes_are_those_of_uv() {
        let machine = "index-url = \"https://machine.example/simple\"\nextra-index-url = [\"https://more.example\"]\n";
        let user = "[[index]]\nname = \"own\"\nurl = \"https://own.example\"\n\n[[index]]\nurl = \"https://first.example\"\ndefault = true\n";
        let source = read(&[], &[machine, user]);
        assert_eq!(source.index_url.as_deref(), Some("https://first.example"));
        let more = ["https://more.example", "https://own.example"];
        assert_eq!(source.extra_index_urls, more);
        let variables = [
            ("UV_DEFAULT_INDEX", "mine=https://u:p@set.example?a=b"),
            ("UV_INDEX", "x=https://x.example https://y.example"),
        ];
        let source = read(&variables, &[machine]);
        let set = "https://u:p@set.example?a=b";
        assert_eq!(source.index_url.as_deref(), Some(set));
        assert!(!format!("{source:?}").contains("u:p"), "{source:?}");
        let more = [
            "https://x.example",
            "https://y.example",
            "https://more.example",
        ];
        assert_eq!(source.extra_index_urls, more);
        let folder = read(&[], &["no-index = true\nfind-links = [\"/wheels\"]\n"]);
        assert!(folder.no_index && folder.find_links == ["/wheels"]);
        assert_eq!(read(&[], &["no-index = ", "["]), PackageSource::default());
    }

    #[test]
    fn settings_of_pip_are_not_mixed_with_those_of_uv() {
        let mut source = PackageSource::folder("/wheels");
        let before = source.clone();
        add_to(&mut source, |_| Some("https://uv.example".into()), []);
        assert_eq!(source, before);
    }

    #[test]
    fn files_are_those_of_uv() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        let expected = ["/etc/uv/uv.toml", "/home/me/.config/uv/uv.toml"];
        assert_eq!(files(home), expected.map(PathBuf::from));
        let named = |name: &str| (name == "UV_CONFIG_FILE").then(|| "/x.toml".to_owned());
        assert_eq!(files(named), [PathBuf::from("/x.toml")]);
    }
}
