//! One tmpfs of a container, in the options that its engine takes.

use std::collections::HashMap;

use crate::Family;

/// A tmpfs: `nosuid` and `nodev` always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tmpfs {
    pub writable: bool,
    pub executable: bool,
    /// Bytes.
    pub size: u64,
    /// How many files and folders it may have, itself included.
    pub inodes: u64,
    /// Permission bits.
    pub mode: u32,
    /// User and group of the folder itself, where that is not root.
    pub owner: Option<(u32, u32)>,
}

impl Tmpfs {
    /// The engine's text for it.
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

/// The tmpfs mounts of a container, by the folder that each covers.
#[derive(Debug, Clone, Default)]
pub(crate) struct TmpfsMounts(HashMap<String, Tmpfs>);

impl TmpfsMounts {
    /// Covers a folder, unless it is covered already.
    pub(crate) fn cover(&mut self, folder: impl Into<String>, tmpfs: Tmpfs) {
        self.0.entry(folder.into()).or_insert(tmpfs);
    }

    /// Whether nothing is covered.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The engine's `Tmpfs` field.
    pub(crate) fn options(&self, family: &Family) -> HashMap<String, String> {
        let options = |(folder, tmpfs): (&String, &Tmpfs)| (folder.clone(), tmpfs.options(family));
        self.0.iter().map(options).collect()
    }

    /// The folders that the engine leaves to root and the agent has to give to the code, sorted.
    pub(crate) fn to_give(&self, family: &Family) -> Vec<String> {
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
    fn what_an_engine_cannot_mount_is_left_to_the_agent() {
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
        assert!(mounts.to_give(FAMILY).is_empty());
        assert_eq!(
            mounts.options(OTHER)["/workspace"],
            "rw,exec,nosuid,nodev,size=4096,mode=0755,notmpcopyup"
        );
        assert_eq!(mounts.to_give(OTHER), ["/workspace"]);
    }
}
