//! Where the cgroup hierarchies are mounted, and which group of each contains this process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A mounted hierarchy whose mount contains our group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// The controllers; empty for v2.
    pub(super) controllers: Vec<String>,
    /// The mount point.
    pub(super) mount: PathBuf,
    /// The folder of our group, at or below `mount`.
    pub(super) own: PathBuf,
}

/// The hierarchies of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    pub(super) v1: Vec<Hierarchy>,
    pub(super) v2: Option<Hierarchy>,
}

impl Hierarchies {
    /// Parses `/proc/self/cgroup` and `/proc/self/mountinfo`.
    pub(super) fn parse(own: &str, mountinfo: &str) -> Self {
        let own = own.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            Some((controllers.split(',').collect::<Vec<_>>(), path))
        });
        let own = own.collect::<Vec<_>>();
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some(mount) = CgroupMount::parse(line) else {
                continue;
            };
            let ours = own.iter().find(|(controllers, _)| match mount.version {
                1 => controllers.iter().any(|name| mount.options.contains(name)),
                _ => *controllers == [""],
            });
            let Some((_, path)) = ours else { continue };
            let Some(own) = mount.folder_of(path) else {
                continue;
            };
            let hierarchy = Hierarchy {
                controllers: match mount.version {
                    1 => mount
                        .options
                        .iter()
                        .map(|option| (*option).to_owned())
                        .collect(),
                    _ => Vec::new(),
                },
                mount: mount.at.clone(),
                own,
            };
            match mount.version {
                1 => mounts.v1.push(hierarchy),
                _ => mounts.v2 = Some(hierarchy),
            }
        }
        mounts
    }
}

struct CgroupMount<'a> {
    version: u8,
    root: PathBuf,
    at: PathBuf,
    options: Vec<&'a str>,
}

impl<'a> CgroupMount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, at) = (unescape(before.next()?), unescape(before.next()?));
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup" => 1,
            "cgroup2" => 2,
            _ => return None,
        };
        let options = after.nth(1)?.split(',').collect();
        Some(Self {
            version,
            root,
            at,
            options,
        })
    }

    /// The folder under this mount of the hierarchy's group `path`.
    fn folder_of(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        let outside = below.components().any(|part| part.as_os_str() == "..");
        (!outside).then(|| self.at.join(below))
    }
}

/// Decodes the kernel's escapes: a backslash and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail
            .first_chunk::<3>()
            .filter(|_| *first == b'\\')
            .and_then(|digits| {
                std::str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| u8::from_str_radix(digits, 8).ok())
            });
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_host_has_v1_and_v2_hierarchies() {
        let own = "8:pids:/\n4:memory:/jobs/a\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n";
        let mountinfo = "\
            30 1 0:1 / / rw - ext4 /dev/vda rw\n\
            31 30 0:25 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            32 30 0:26 / /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory\n\
            33 30 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let mounts = Hierarchies::parse(own, mountinfo);
        assert_eq!(mounts.v1.len(), 2);
        assert_eq!(mounts.v1[0].own, Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(mounts.v1[1].own, Path::new("/sys/fs/cgroup/memory/jobs/a"));
        let v2 = mounts.v2.expect("a unified hierarchy");
        assert_eq!(v2.own, Path::new("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn partially_visible_hierarchy_is_resolved() {
        let own = "0::/docker/abc/init\n";
        let mountinfo = "31 30 0:25 /docker/abc /sys/fs/cg\\040roup rw - cgroup2 cgroup rw\n";
        let v2 = Hierarchies::parse(own, mountinfo).v2.expect("a hierarchy");
        assert_eq!(v2.mount, Path::new("/sys/fs/cg roup"));
        assert_eq!(v2.own, Path::new("/sys/fs/cg roup/init"));

        let elsewhere = "31 30 0:25 /docker/other /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(Hierarchies::parse(own, elsewhere).v2, None);
        let outside = "0::/../x\n";
        let mountinfo = "31 30 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(Hierarchies::parse(outside, mountinfo).v2, None);
    }
}
