//! The profile key: the host features that change what is enforced.

use super::Host;

/// Ordered pairs without names, dates or paths of the host.
pub(crate) fn profile(tier: &str, host: &Host) -> Vec<(String, String)> {
    let backend = tier.strip_suffix("_unsafe").unwrap_or(tier);
    let yes = |there: bool| if there { "yes" } else { "no" }.to_owned();
    let pairs = [
        ("backend", backend.to_owned()),
        (
            "user",
            if host.user.id == 0 { "root" } else { "user" }.to_owned(),
        ),
        ("cgroup", host.cgroups.summary()),
        ("user_namespaces", yes(host.namespaces.is_present())),
        ("landlock", host.landlock_abi.to_string()),
        ("seccomp", yes(host.seccomp.filters)),
        ("seccomp_notification", yes(host.seccomp.notification)),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
