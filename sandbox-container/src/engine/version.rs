//! Negotiates the API version.

use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, ClientVersion};

/// The lower of the engine's and the client's API version. `None` if the engine reports none.
pub(super) fn negotiated(version: &SystemVersion) -> Option<ClientVersion> {
    let (major_version, minor_version) = common_version(version.api_version.as_deref()?)?;
    Some(ClientVersion {
        major_version,
        minor_version,
    })
}

/// The same for a version as text ("1.41").
pub(super) fn common_version(engine_version: &str) -> Option<(usize, usize)> {
    let (major, minor) = engine_version.split_once('.')?;
    let engine_version = (major.parse().ok()?, minor.parse().ok()?);
    let client_version = API_DEFAULT_VERSION;
    Some(engine_version.min((client_version.major_version, client_version.minor_version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_version_is_negotiated() {
        let of = |api: Option<&str>| {
            let version = SystemVersion {
                api_version: api.map(ToOwned::to_owned),
                ..SystemVersion::default()
            };
            negotiated(&version).map(|found| (found.major_version, found.minor_version))
        };
        assert_eq!(of(Some("1.41")), Some((1, 41)));
        let client_version = (
            API_DEFAULT_VERSION.major_version,
            API_DEFAULT_VERSION.minor_version,
        );
        assert_eq!(of(Some("1.9999")), Some(client_version));
        assert_eq!(of(Some("one")), None);
        assert_eq!(of(None), None);
    }
}
