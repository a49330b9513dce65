//! Reads a container's mounts.

/// A mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedMount {
    /// The mounted path in its file system.
    pub root: String,
    /// The mount point.
    pub target: String,
    pub read_only: bool,
}

/// Trees that a runtime fills: kernel file systems and devices, some bound from the host.
const RUNTIME_TREES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Files that engines mount over an image's files.
const ENGINE_FILES: [&str; 5] = [
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/.containerenv",
    "/run/.init",
];

/// Files that Podman generates for a user that the image does not know, and the suffix of their
/// source.
const GENERATED_USER_FILES: [(&str, &str); 2] = [
    ("/etc/group", "/userdata/group"),
    ("/etc/passwd", "/userdata/passwd"),
];

/// Parses a mount table (`mountinfo`).
pub(crate) fn parse_mounts(table: &str) -> Vec<ObservedMount> {
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(3);
            let (root, target, options) = (fields.next()?, fields.next()?, fields.next()?);
            Some(ObservedMount {
                root: root.to_owned(),
                target: target.to_owned(),
                read_only: options.split(',').any(|option| option == "ro"),
            })
        })
        .collect()
}

/// Whether the root is read-only; `None` if the table has none.
pub(super) fn root_is_read_only(mounts: &[ObservedMount]) -> Option<bool> {
    // A later mount covers an earlier one.
    let root = mounts.iter().rev().find(|mount| mount.target == "/")?;
    Some(root.read_only)
}

/// Mounts that were not requested: an engine's configuration can add host folders to every
/// container.
pub(super) fn unexpected_mounts<'a>(
    mounts: &'a [ObservedMount],
    requested: &[String],
) -> Vec<&'a ObservedMount> {
    let is_expected = |mount: &&ObservedMount| {
        let target = mount.target.as_str();
        // The kernel escapes spaces and similar characters.
        let is_requested = |requested: &String| escaped(requested.trim_end_matches('/')) == target;
        let is_inside = |tree: &str| sandbox_host::disk_split::is_below(target, tree);
        target == "/"
            || ENGINE_FILES.contains(&target)
            || GENERATED_USER_FILES
                .iter()
                .any(|(file, source)| target == *file && mount.root.ends_with(source))
            || RUNTIME_TREES.iter().any(|tree| is_inside(tree))
            || requested.iter().any(is_requested)
    };
    mounts.iter().filter(|mount| !is_expected(mount)).collect()
}

/// The path as in a mount table.
pub(crate) fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    for character in path.chars() {
        match character {
            ' ' => escaped.push_str("\\040"),
            '\t' => escaped.push_str("\\011"),
            '\n' => escaped.push_str("\\012"),
            '\\' => escaped.push_str("\\134"),
            plain => escaped.push(plain),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
600 599 0:77 / / ro,relatime - overlay overlay rw,lowerdir=x
601 600 0:78 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=1024k
602 600 0:79 / /proc rw,nosuid - proc proc rw
603 602 0:79 /sys /proc/sys ro - proc proc rw
604 600 254:1 /x/hosts /etc/hosts ro - ext4 /dev/vda rw
605 600 254:1 /srv/a\\040b /srv/a\\040b ro - ext4 /dev/vda rw
606 600 254:1 /srv/secrets /run/secrets rw - ext4 /dev/vda rw
";

    #[test]
    fn unrequested_mounts_are_found() {
        let mounts = parse_mounts(TABLE);
        assert_eq!(mounts.len(), 7);
        assert_eq!(root_is_read_only(&mounts), Some(true));
        let requested = ["/tmp".to_owned(), "/srv/a b/".to_owned()];
        let unexpected_mounts = unexpected_mounts(&mounts, &requested);
        let found = unexpected_mounts
            .iter()
            .map(|mount| (mount.root.as_str(), mount.read_only));
        assert_eq!(found.collect::<Vec<_>>(), [("/srv/secrets", false)]);
    }

    #[test]
    fn generated_user_files_are_expected_and_the_hosts_are_not() {
        let line = |root: &str| format!("607 600 254:1 {root} /etc/group ro - ext4 /dev/vda rw\n");
        let generated = parse_mounts(&line("/storage/overlay-containers/0123/userdata/group"));
        assert!(unexpected_mounts(&generated, &[]).is_empty());
        assert_eq!(
            unexpected_mounts(&parse_mounts(&line("/etc/group")), &[]).len(),
            1
        );
    }

    #[test]
    fn last_mounted_root_decides() {
        let table = format!("{TABLE}700 600 0:90 / / rw - tmpfs tmpfs rw\n");
        assert_eq!(root_is_read_only(&parse_mounts(&table)), Some(false));
        assert_eq!(root_is_read_only(&[]), None);
    }
}
