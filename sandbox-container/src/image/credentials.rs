//! Registry credentials, as stored by the engines' own clients. Read on demand, sent to the engine,
//! and neither stored nor shown.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use sandbox_core::ImageReference;
use serde_json::Value;

/// The credentials for the image's registry, as written by `docker login` and `podman login`.
/// Credential helper programs are not run.
pub(super) fn of_clients(reference: &ImageReference) -> Option<DockerCredentials> {
    let registry = reference.name()?.split('/').next()?;
    files().iter().find_map(|file| read(file, registry))
}

/// The clients' credential files, in the order of lookup.
fn files() -> Vec<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = variable("HOME");
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    [
        variable("REGISTRY_AUTH_FILE"),
        variable("DOCKER_CONFIG")
            .map(|folder| folder.join("config.json"))
            .or_else(|| below_home(".docker/config.json")),
        variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        below_home(".config/containers/auth.json"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A missing or invalid file counts as empty, as in the clients.
fn read(file: &Path, registry: &str) -> Option<DockerCredentials> {
    let config: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let entries = config["auths"].as_object()?;
    let entry = entries
        .iter()
        .find(|(key, _)| is_of(key, registry))
        .map(|(_, entry)| entry)?;
    let token = entry["identitytoken"].as_str().map(ToOwned::to_owned);
    let pair = entry["auth"]
        .as_str()
        .and_then(|auth| STANDARD.decode(auth).ok())
        .and_then(|pair| String::from_utf8(pair).ok());
    let (username, password) = match pair.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((name, password)) => (
            Some(name.to_owned()),
            Some(password.trim_end_matches('\0').to_owned()),
        ),
        None => (None, None),
    };
    (token.is_some() || username.is_some()).then(|| DockerCredentials {
        username,
        password,
        identitytoken: token,
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

/// Whether an entry is for this registry, and not for a namespace in it.
fn is_of(key: &str, registry: &str) -> bool {
    let address = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let is_registry = matches!(path.trim_end_matches('/'), "" | "v1" | "v2");
    is_registry && (host == registry || known_as(host).is_some_and(|name| name == registry))
}

/// The registry's name in image references, if clients store it under another host name.
fn known_as(host: &str) -> Option<String> {
    // A word without a dot would be a namespace in the default registry.
    if !host.contains('.') {
        return None;
    }
    let image = format!("{host}/image").parse::<ImageReference>().ok()?;
    image.name()?.split('/').next().map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_selected_by_registry() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("config.json");
        // The default registry, and the older host name that clients store it under.
        let image = "image".parse::<ImageReference>().expect("a reference");
        let default_registry = image.name().and_then(|name| name.split('/').next());
        let default_registry = default_registry.expect("a registry");
        let auth = |auth: &str| serde_json::json!({ "auth": auth });
        let config = serde_json::json!({"auths": {
            format!("https://index.{default_registry}/v1/"): auth("aHViOnNlY3JldDp3aXRoOmNvbG9ucw=="),
            "127.0.0.1:5000": auth("bWU6cGFzcw=="),
            "example.org/team": auth("bWU6cGFzcw=="),
            "token.example.org": {"identitytoken": "t"},
            "empty.example.org": {},
            "folder": auth("bWU6cGFzcw=="),
        }});
        std::fs::write(&file, config.to_string()).expect("file");
        let user = |registry: &str| {
            let found = read(&file, registry)?;
            Some((found.username, found.password, found.identitytoken))
        };
        let pair = |name: &str, password: &str| {
            Some((Some(name.to_owned()), Some(password.to_owned()), None))
        };
        assert_eq!(user(default_registry), pair("hub", "secret:with:colons"));
        assert_eq!(user("127.0.0.1:5000"), pair("me", "pass"));
        assert_eq!(user("127.0.0.1:5001"), None);
        assert_eq!(user("example.org"), None);
        assert_eq!(user("empty.example.org"), None);
        assert_eq!(
            user("token.example.org"),
            Some((None, None, Some("t".to_owned())))
        );
        std::fs::write(&file, "no JSON").expect("file");
        assert_eq!(user(default_registry), None);
    }
}
