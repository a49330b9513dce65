//! What the kernel starts with: a shell that loads the disk's driver and hands over to the system on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure, Result};

/// The drivers of the disk, as modules are called.
const DRIVERS: [&str; 2] = ["virtio_pci", "virtio_blk"];
const BUSYBOX: &str = "bin/busybox";
/// The first program.
pub const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox modprobe virtio_pci
/bin/busybox modprobe virtio_blk
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox umount /proc
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
";

/// The archive, out of an unpacked system with one kernel and a static busybox.
///
/// # Errors
/// When the system lacks something of it.
pub fn build(system: &Path) -> Result<Vec<u8>> {
    let modules = only_folder(&system.join("usr/lib/modules"))?;
    let release = modules.file_name().unwrap_or_default().to_string_lossy();
    let inside = format!("lib/modules/{release}");
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "root"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes());
    archive.file(BUSYBOX, &read(&system.join(BUSYBOX))?);
    let table = read(&modules.join("modules.dep"))?;
    archive.folders_above(&format!("{inside}/x"));
    archive.file(&format!("{inside}/modules.dep"), &table);
    for module in needed(&String::from_utf8_lossy(&table))? {
        let path = format!("{inside}/{module}");
        archive.folders_above(&path);
        archive.file(&path, &read(&modules.join(&module))?);
    }
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).context(|| format!("cannot read {}", path.display()))
}

fn only_folder(path: &Path) -> Result<PathBuf> {
    let doing = || format!("cannot read {}", path.display());
    let entries = fs::read_dir(path).context(doing)?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    match (folders.pop(), folders.is_empty()) {
        (Some(folder), true) => Ok(folder),
        _ => Err(Failure::new(format!(
            "{} does not hold the modules of exactly one kernel",
            path.display()
        ))),
    }
}

/// The files of the drivers and of what they depend on, by `modules.dep`.
fn needed(table: &str) -> Result<Vec<String>> {
    let mut files: Vec<String> = Vec::new();
    for driver in DRIVERS {
        let end = format!("/{driver}.ko");
        let line = table
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(module, _)| module.ends_with(&end));
        let (module, dependencies) =
            line.ok_or_else(|| Failure::new(format!("the kernel has no module {driver}")))?;
        for file in dependencies.split_whitespace().chain([module]) {
            if !files.iter().any(|known| known == file) {
                files.push(file.to_owned());
            }
        }
    }
    Ok(files)
}

/// An archive in cpio's format "newc".
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: Vec<String>,
}

impl Archive {
    fn folder(&mut self, path: &str) {
        if !self.folders.iter().any(|known| known == path) {
            self.folders.push(path.to_owned());
            self.entry(path, 0o040_755, &[]);
        }
    }

    fn folders_above(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            self.folder(&path[..end]);
        }
    }

    fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, 0o100_755, content);
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("files of an initrd are small");
        let name = u32::try_from(path.len() + 1).expect("a short path");
        // Number, mode, user, group, links, time, size, four numbers of devices, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_come_with_what_they_need_and_once() {
        let table = "kernel/virtio/virtio.ko:\n\
            kernel/virtio/virtio_pci.ko: kernel/virtio/ring.ko kernel/virtio/virtio.ko\n\
            kernel/block/virtio_blk.ko: kernel/virtio/ring.ko\n";
        let expected = [
            "kernel/virtio/ring.ko",
            "kernel/virtio/virtio.ko",
            "kernel/virtio/virtio_pci.ko",
            "kernel/block/virtio_blk.ko",
        ];
        assert_eq!(needed(table), Ok(expected.map(str::to_owned).to_vec()));
        assert!(needed("").is_err());
    }

    #[test]
    fn entries_are_aligned_and_name_their_folders() {
        let mut archive = Archive::default();
        archive.folders_above("a/b/c");
        archive.folders_above("a/b/d");
        archive.file("a/b/c", b"12345");
        assert_eq!(archive.folders, ["a", "a/b"]);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("070701").count(), 4);
        assert!(text.contains("a/b/c\0"));
    }
}
