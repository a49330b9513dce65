//! Which rule of a policy decides about a path of this host, or about a destination.

use std::path::{Path, PathBuf};

use sandbox_core::policy::Explanation;
use sandbox_core::{CapabilityPolicy, Error, ErrorKind, Result};

/// Explains what code may do with `subject`: an HTTP request if it contains `://`, a path of this
/// host if it contains a `/` or is `.` or `..`, otherwise a host with or without a port. Relative
/// paths start in the current folder.
///
/// ```
/// use sandbox_core::CapabilityPolicy;
/// use sandbox_host::explain;
///
/// let policy = CapabilityPolicy::new().filesystem_read_root("/usr");
/// let decisions = explain(&policy, "/usr/bin")?;
/// assert_eq!(decisions[0].to_string(), "read /usr/bin: allowed: a read root covers it (filesystem_read_roots = /usr)");
/// # Ok::<(), sandbox_core::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`CapabilityPolicy::explain_host`] and [`CapabilityPolicy::explain_request`], and [`ErrorKind::Io`] without a current folder.
pub fn explain(policy: &CapabilityPolicy, subject: &str) -> Result<Vec<Explanation>> {
    if subject.contains("://") {
        return Ok(vec![policy.explain_request(subject)?]);
    }
    if !is_path(subject) {
        return policy.explain_host(subject);
    }
    let absolute = std::path::absolute(subject)
        .map_err(|error| Error::new(ErrorKind::Io, "explain policy", subject).with_source(error))?;
    Ok(policy.explain_path(&absolute, real).to_vec())
}

fn is_path(subject: &str) -> bool {
    subject.contains('/') || matches!(subject, "." | "..")
}

/// The path without links. Of what does not exist, only the existing folders are resolved.
fn real(path: &Path) -> PathBuf {
    path.ancestors()
        .find_map(|folder| {
            let rest = path.strip_prefix(folder).ok()?;
            Some(folder.canonicalize().ok()?.join(rest))
        })
        .unwrap_or_else(|| path.to_owned())
}
