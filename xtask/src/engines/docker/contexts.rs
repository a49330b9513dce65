//! Docker contexts: named engines in the client's configuration folder.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use crate::failure::{Context, Failure, Result};

/// The context that stands for "no context".
const DEFAULT: &str = "default";

/// The chosen context's name and the host that it names, or `None` where none is chosen.
///
/// `chosen` (from `DOCKER_CONTEXT`) comes before the `currentContext` of `config.json` in the
/// `configuration` folder.
///
/// # Errors
/// When a file cannot be read or parsed, or when the chosen context does not exist.
pub fn host(
    configuration: Option<&Path>,
    chosen: Option<String>,
) -> Result<Option<(String, String)>> {
    let Some(folder) = configuration else {
        return Ok(None);
    };
    let name = match chosen {
        Some(name) => Some(name),
        None => read(&folder.join("config.json"))?
            .and_then(|file| file["currentContext"].as_str().map(str::to_owned)),
    };
    let Some(name) = name.filter(|name| !name.is_empty() && name != DEFAULT) else {
        return Ok(None);
    };
    // A context's folder is named by a hash; looking into each of the few spares us computing it.
    let contexts = folder.join("contexts/meta");
    let entries = match fs::read_dir(&contexts) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown(&name)),
        Err(error) => return Err(error).context(|| format!("cannot read {}", contexts.display())),
    };
    for entry in entries {
        let entry = entry.context(|| format!("cannot read {}", contexts.display()))?;
        let Some(file) = read(&entry.path().join("meta.json"))? else {
            continue;
        };
        if file["Name"].as_str() == Some(&name) {
            return match file["Endpoints"]["docker"]["Host"].as_str() {
                Some(host) => Ok(Some((name, host.to_owned()))),
                None => Err(Failure::new(format!(
                    "the Docker context '{name}' names no host"
                ))),
            };
        }
    }
    Err(unknown(&name))
}

fn unknown(name: &str) -> Failure {
    Failure::new(format!("the Docker context '{name}' does not exist"))
        .with_fix("docker context use default")
}

fn read(path: &Path) -> Result<Option<Value>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context(|| format!("cannot read {}", path.display())),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .context(|| format!("cannot parse {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (hash, text) in [
            (
                "aa",
                r#"{"Name":"other","Endpoints":{"docker":{"Host":"tcp://x"}}}"#,
            ),
            (
                "bb",
                r#"{"Name":"mine","Endpoints":{"docker":{"Host":"unix:///m.sock"}}}"#,
            ),
            ("cc", r#"{"Name":"empty","Endpoints":{}}"#),
        ] {
            let meta = folder.path().join("contexts/meta").join(hash);
            fs::create_dir_all(&meta).expect("folder");
            fs::write(meta.join("meta.json"), text).expect("meta");
        }
        fs::write(
            folder.path().join("config.json"),
            r#"{"currentContext":"mine"}"#,
        )
        .expect("file");
        folder
    }

    #[test]
    fn the_current_context_names_the_host() {
        let folder = configuration();
        let mine = ("mine".to_owned(), "unix:///m.sock".to_owned());
        assert_eq!(host(Some(folder.path()), None), Ok(Some(mine)));
    }

    #[test]
    fn the_variable_beats_the_file() {
        let folder = configuration();
        let chosen = |name: &str| host(Some(folder.path()), Some(name.to_owned()));
        let other = ("other".to_owned(), "tcp://x".to_owned());
        assert_eq!(chosen("other"), Ok(Some(other)));
        assert_eq!(chosen("default"), Ok(None));
        assert!(chosen("empty").is_err());
        assert!(chosen("absent").is_err());
    }

    #[test]
    fn no_configuration_is_no_context() {
        let folder = tempfile::tempdir().expect("temporary folder");
        assert_eq!(host(Some(folder.path()), None), Ok(None));
        assert_eq!(host(None, None), Ok(None));
        assert!(host(Some(folder.path()), Some("mine".to_owned())).is_err());
        fs::write(folder.path().join("config.json"), "{").expect("file");
        assert!(host(Some(folder.path()), None).is_err());
    }
}
