//! Negotiates the API version.

use bollard::models::SystemVersion;
use bollard::{API_DEFAULT_VERSION, ClientVersion};

/// The lower of the engine's and the client's API version. `None` if the engine reports none.
pub(super) fn negotiated(version: &SystemVersion) -> Option<ClientVersion> {
    let (major_version, minor_version) = common(version.api_version.as_deref()?)?;
    Some(ClientVersion {
        major_version,
        minor_version,
    })
}

/// The same for a version as text ("1.41").
pub(super) fn common(theirs: &str) -> Option<(usize, usize)> {
    let (major, minor) = theirs.split_once('.')?;
    let theirs = (major.parse().ok()?, minor.parse().ok()?);
    let ours = API_DEFAULT_VERSION;
    Some(theirs.min((ours.major_version, ours.minor_version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_version_of_both_sides_is_spoken() {
        let of = |api: Option<&str>| {
            let version = SystemVersion {
                api_version: api.map(ToOwned::to_owned),
                ..SystemVersion::default()
            };
            negotiated(&version).map(|found| (found.major_version, found.minor_version))
        };
        assert_eq!(of(Some("1.41")), Some((1, 41)));
        let ours = (
            API_DEFAULT_VERSION.major_version,
            API_DEFAULT_VERSION.minor_version,
        );
        assert_eq!(of(Some("1.9999")), Some(ours));
        assert_eq!(of(Some("one")), None);
        assert_eq!(of(None), None);
    }
}
