//! A container's tmpfs mount as an engine option.

use std::collections::HashMap;

use crate::Family;

/// A tmpfs, always `nosuid` and `nodev`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tmpfs {
    pub writable: bool,
    pub executable: bool,
    /// Bytes.
    pub size: u64,
    /// Limit of files and folders, including the root folder.
    pub inodes: u64,
    /// Permission bits.
    pub mode: u32,
    /// User and group of the root folder; `None` for root.
    pub owner: Option<(u32, u32)>,
}

impl Tmpfs {
    /// The engine's option string.
    fn options(&self, family: &Family) -> String {
        let yes_no = |yes: bool, text: &'static str, other| if yes { text } else { other };
        let mut options = vec![
            yes_no(self.writable, "rw", "ro").to_owned(),
            yes_no(self.executable, "exec", "noexec").to_owned(),
            "nosuid".to_owned(),
            "nodev".to_owned(),
            format!("size={}", self.size),
            format!("mode={:04o}", self.mode),
        ];
        if family.full_tmpfs {
            options.push(format!("nr_inodes={}", self.inodes));
            if let Some((user, group)) = self.owner {
                options.push(format!("uid={user}"));
                options.push(format!("gid={group}"));
            }
        } else {
            options.push("notmpcopyup".to_owned());
        }
        options.join(",")
    }
}

/// The tmpfs mounts of a container, by mount point.
#[derive(Debug, Clone, Default)]
pub(crate) struct TmpfsMounts(HashMap<String, Tmpfs>);

impl TmpfsMounts {
    /// Adds a mount unless the folder has one.
    pub(crate) fn cover(&mut self, folder: impl Into<String>, tmpfs: Tmpfs) {
        self.0.entry(folder.into()).or_insert(tmpfs);
    }

    /// Whether there is no mount.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The engine's `Tmpfs` field.
    pub(crate) fn options(&self, family: &Family) -> HashMap<String, String> {
        let options = |(folder, tmpfs): (&String, &Tmpfs)| (folder.clone(), tmpfs.options(family));
        self.0.iter().map(options).collect()
    }

    /// The folders that the engine leaves to root and the agent must give to the code, sorted.
    pub(crate) fn folders_to_chown(&self, family: &Family) -> Vec<String> {
        let owned = self.0.iter().filter(|(_, tmpfs)| tmpfs.owner.is_some());
        let mut folders = owned
            .map(|(folder, _)| folder.clone())
            .filter(|_| !family.full_tmpfs)
            .collect::<Vec<_>>();
        folders.sort();
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples::{FAMILY, OTHER};

    #[test]
    fn agent_sets_the_owner_if_the_engine_cannot() {
        let tmpfs = Tmpfs {
            writable: true,
            executable: true,
            size: 4096,
            inodes: 7,
            mode: 0o755,
            owner: Some((1000, 100)),
        };
        let mut mounts = TmpfsMounts::default();
        mounts.cover("/workspace", tmpfs.clone());
        mounts.cover(
            "/tmp",
            Tmpfs {
                owner: None,
                ..tmpfs
            },
        );
        assert_eq!(
            mounts.options(FAMILY)["/workspace"],
            "rw,exec,nosuid,nodev,size=4096,mode=0755,nr_inodes=7,uid=1000,gid=100"
        );
        assert!(mounts.folders_to_chown(FAMILY).is_empty());
        assert_eq!(
            mounts.options(OTHER)["/workspace"],
            "rw,exec,nosuid,nodev,size=4096,mode=0755,notmpcopyup"
        );
        assert_eq!(mounts.folders_to_chown(OTHER), ["/workspace"]);
    }
}
