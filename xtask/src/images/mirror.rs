//! The Debian mirror that this machine's own apt uses, in both of apt's formats.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};

const SOURCES: &str = "/etc/apt/sources.list";
const SOURCES_FOLDER: &str = "/etc/apt/sources.list.d";
const OS_RELEASE: &str = "/etc/os-release";
/// Names of Debian's main archive, for machines that run another release than the image.
const RELEASES: [&str; 9] = [
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
];

/// One enabled source of binary packages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Source {
    addresses: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// Path of the keyring, where one is named; a key that is written out is not kept.
    keyring: Option<String>,
}

/// One-line sources for `release` out of this machine's apt configuration: those of that release,
/// else its Debian mirror with the release put in.
///
/// # Errors
/// When the configuration cannot be read, or names no Debian mirror.
pub fn of_this_machine(release: &str) -> Result<String> {
    let mut sources = Vec::new();
    for path in source_files()? {
        let text =
            fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.extend(text.lines().filter_map(one_line)),
            Some("sources") => sources.extend(stanzas(&text)),
            _ => {}
        }
    }
    let system = fs::read_to_string(OS_RELEASE).unwrap_or_default();
    let is_debian = system.lines().any(|line| line.trim() == "ID=debian");
    choose(&sources, release, is_debian).ok_or_else(|| {
        Failure::new(format!(
            "this machine's apt sources name no Debian mirror for {release}"
        ))
        .with_fix("cargo xtask images --mirror URL")
    })
}

fn source_files() -> Result<Vec<PathBuf>> {
    let mut files = vec![PathBuf::from(SOURCES)];
    match fs::read_dir(SOURCES_FOLDER) {
        Ok(entries) => {
            for entry in entries {
                files.push(
                    entry
                        .context(|| format!("cannot read {SOURCES_FOLDER}"))?
                        .path(),
                );
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).context(|| format!("cannot read {SOURCES_FOLDER}")),
    }
    files.retain(|file| file.is_file());
    files.sort();
    Ok(files)
}

fn choose(sources: &[Source], release: &str, is_debian: bool) -> Option<String> {
    let with_main = || {
        sources
            .iter()
            .filter(|source| source.components.iter().any(|c| c == "main"))
    };
    let ours = [
        release.to_owned(),
        format!("{release}-updates"),
        format!("{release}-security"),
    ];
    let exact: String = with_main()
        .flat_map(|source| {
            let suites = source.suites.iter().filter(|suite| ours.contains(suite));
            suites.map(|suite| source.lines(suite))
        })
        .collect();
    // Updates and fixes alone are no release.
    let has_release = with_main().any(|source| source.suites.iter().any(|suite| suite == release));
    if has_release {
        return Some(exact);
    }
    let is_main_archive = |source: &&Source| {
        source
            .suites
            .iter()
            .any(|suite| RELEASES.contains(&suite.as_str()))
    };
    // A descendant's mirror does not hold Debian's releases.
    with_main()
        .find(|source| is_debian && is_main_archive(source))
        .map(|source| source.lines(release))
}

impl Source {
    fn lines(&self, suite: &str) -> String {
        let option = match &self.keyring {
            Some(path) => format!("[signed-by={path}] "),
            None => String::new(),
        };
        let line = |address: &String| format!("deb {option}{address} {suite} main\n");
        self.addresses.iter().map(line).collect()
    }
}

/// Parses a line such as `deb [option=value] address suite component…`.
fn one_line(line: &str) -> Option<Source> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let keyring = options
        .split_whitespace()
        .find_map(|option| option.strip_prefix("signed-by="))
        .and_then(keyring_path);
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (address, suite) = (words.next()?, words.next()?);
    usable(Source {
        addresses: vec![address],
        suites: vec![suite],
        components: words.collect(),
        keyring,
    })
}

/// Parses the stanzas of apt's newer format, which are separated by empty lines.
fn stanzas(text: &str) -> Vec<Source> {
    let mut stanza: Vec<(String, String)> = Vec::new();
    let mut sources = Vec::new();
    for line in text
        .lines()
        .chain([""])
        .filter(|line| !line.starts_with('#'))
    {
        if line.trim().is_empty() {
            sources.extend(source_of(&std::mem::take(&mut stanza)));
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            stanza.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    sources
}

fn source_of(stanza: &[(String, String)]) -> Option<Source> {
    let words = |name: &str| -> Vec<String> {
        let values = stanza
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value);
        values
            .flat_map(|value| value.split_whitespace())
            .map(str::to_owned)
            .collect()
    };
    let disabled = words("enabled").first().is_some_and(|value| {
        ["no", "false", "0"]
            .iter()
            .any(|no| value.eq_ignore_ascii_case(no))
    });
    if disabled || !words("types").contains(&"deb".to_owned()) {
        return None;
    }
    usable(Source {
        addresses: words("uris"),
        suites: words("suites"),
        components: words("components"),
        keyring: words("signed-by")
            .first()
            .and_then(|path| keyring_path(path)),
    })
}

/// A source on a disc cannot be read by another tool than the apt that mounted it.
fn usable(mut source: Source) -> Option<Source> {
    source
        .addresses
        .retain(|address| !address.starts_with("cdrom:"));
    (!source.addresses.is_empty()).then_some(source)
}

fn keyring_path(value: &str) -> Option<String> {
    Path::new(value).is_absolute().then(|| value.to_owned())
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
