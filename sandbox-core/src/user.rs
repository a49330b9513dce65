//! Users inside a sandbox, as specifications and requests write them.

/// How a user is written, for errors.
pub(crate) const FORM: &str = "write it as root, uid or uid:gid";

/// A user, and a group if the text has one. `root` is user and group 0.
pub(crate) fn parse(text: &str) -> Option<(u32, Option<u32>)> {
    if text == "root" {
        return Some((0, Some(0)));
    }
    match text.split_once(':') {
        None => Some((text.parse().ok()?, None)),
        Some((user, group)) => Some((user.parse().ok()?, Some(group.parse().ok()?))),
    }
}
