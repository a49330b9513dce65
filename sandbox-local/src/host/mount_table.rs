//! The mount table of the host.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// The mount point.
    pub(crate) at: PathBuf,
    /// The file system type.
    pub(crate) kind: String,
}

/// Every mount that this process sees, in mount order.
pub(crate) fn mount_table() -> std::io::Result<Vec<MountEntry>> {
    Ok(parse(&std::fs::read("/proc/thread-self/mountinfo")?))
}

/// The mounts of a path: the one that contains it, and those below it.
pub(crate) fn mounts_of<'a>(table: &'a [MountEntry], path: &Path) -> Vec<&'a MountEntry> {
    let above = table.iter().filter(|mount| path.starts_with(&mount.at));
    // The last mount at the deepest mount point hides the others.
    let own = above.max_by_key(|mount| mount.at.components().count());
    let below = table
        .iter()
        .filter(|mount| mount.at.starts_with(path) && mount.at != path);
    own.into_iter().chain(below).collect()
}

/// A line: id, parent, device, root, mount point, options, optional fields, `-`, type, source,
/// options.
fn parse(table: &[u8]) -> Vec<MountEntry> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let at = unescape(fields.nth(4)?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some(MountEntry {
            at: PathBuf::from(OsString::from_vec(at)),
            kind: String::from_utf8_lossy(kind).into_owned(),
        })
    };
    table
        .split(|byte| *byte == b'\n')
        .filter_map(mount)
        .collect()
}

/// The kernel escapes blanks, line feeds and backslashes as a backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:5 / /srv/a\\040b/proc rw - proc proc rw\n\
        31 22 0:6 / /srv rw master:2 propagate_from:3 - tmpfs tmpfs rw\n\
        nonsense\n";

    #[test]
    fn mounts_of_a_path_include_its_own_and_nested_ones() {
        let table = parse(TABLE);
        assert_eq!(table.len(), 3);
        let kinds = |path: &str| {
            let found = mounts_of(&table, Path::new(path));
            found.iter().map(|m| m.kind.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(kinds("/home"), ["ext4"]);
        assert_eq!(kinds("/srv"), ["tmpfs", "proc"]);
        assert_eq!(kinds("/srv/a b"), ["tmpfs", "proc"]);
        assert_eq!(kinds("/srv/a b/proc/1"), ["proc"]);
    }

    #[test]
    fn mount_table_of_this_machine_is_readable() {
        let table = mount_table().expect("procfs");
        assert!(!mounts_of(&table, Path::new("/usr")).is_empty());
    }
}
