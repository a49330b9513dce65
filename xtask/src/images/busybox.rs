//! The smallest root that has a shell: this machine's static busybox and a link for each applet.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::archive::Entry;
use super::recipe::Contents;
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::programs;

const PACKAGE: &str = "busybox-static";
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
                      guest:x:1000:1000:guest:/home/guest:/bin/sh\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
const GROUP: &str = "root:x:0:\nguest:x:1000:\nnogroup:x:65534:\n";
/// ELF's program header type of the path of a dynamic linker.
const PT_INTERP: usize = 3;

/// The image's files, but for the program itself.
pub fn contents() -> Contents {
    let folders = [
        "bin", "dev", "etc", "home", "proc", "run", "sbin", "sys", "usr", "usr/bin",
    ];
    let more_folders = ["usr/sbin", "var"];
    let mut entries: Vec<_> = folders
        .iter()
        .chain(&more_folders)
        .map(|path| Entry::folder(path, 0o755))
        .collect();
    entries.extend([
        Entry::folder("root", 0o700),
        Entry::folder("tmp", 0o1777),
        Entry::folder("var/tmp", 0o1777),
        Entry::folder("home/guest", 0o755).owned_by(1000),
        Entry::file("etc/passwd", 0o644, PASSWD),
        Entry::file("etc/group", 0o644, GROUP),
    ]);
    Contents::Entries {
        name: "busybox",
        busybox: true,
        entries,
    }
}

/// The program, and a link for each of its applets at the path where it is looked for. Installs
/// the package where this machine has no static busybox.
///
/// # Errors
/// When there is none and it cannot be installed, or when it does not run.
pub fn program() -> Result<Vec<Entry>> {
    let path = match find_static()? {
        Some(path) => path,
        None => {
            apt::install(&[PACKAGE])?;
            find_static()?.ok_or_else(|| {
                Failure::new(format!(
                    "{PACKAGE} is installed, but no static busybox was found"
                ))
            })?
        }
    };
    let doing = || format!("cannot read {}", path.display());
    let mut entries = vec![Entry::file(
        "bin/busybox",
        0o755,
        fs::read(&path).context(doing)?,
    )];
    let listed = Command::new(&path)
        .arg("--list-full")
        .output()
        .context(|| format!("cannot run {}", path.display()))?;
    let list = String::from_utf8_lossy(&listed.stdout);
    if !listed.status.success() || !list.lines().any(|line| line == "bin/sh") {
        return Err(Failure::new(format!(
            "{} --list-full lists no bin/sh ({})",
            path.display(),
            listed.status
        )));
    }
    entries.extend(links(&list));
    Ok(entries)
}

fn links(list: &str) -> Vec<Entry> {
    list.lines()
        .filter(|line| *line != "bin/busybox" && *line != "linuxrc")
        .map(|line| Entry::link(line, "/bin/busybox"))
        .collect()
}

fn find_static() -> Result<Option<PathBuf>> {
    let Some(path) = programs::find("busybox") else {
        return Ok(None);
    };
    let bytes = fs::read(&path).context(|| format!("cannot read {}", path.display()))?;
    Ok(is_static(&bytes).then_some(path))
}

/// True for a 64-bit little-endian ELF program that needs no dynamic linker: in an image without
/// libraries any other one fails, with "no such file" about a file that is there.
fn is_static(program: &[u8]) -> bool {
    let number = |offset: usize, size: usize| -> Option<usize> {
        let bytes = program.get(offset..offset.checked_add(size)?)?;
        bytes.iter().rev().try_fold(0, |sum: usize, byte| {
            sum.checked_mul(256)?.checked_add(usize::from(*byte))
        })
    };
    let headers = || -> Option<bool> {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        for index in 0..count {
            let kind = number(table.checked_add(index * size)?, 4)?;
            if kind == PT_INTERP {
                return Some(false);
            }
        }
        Some(count > 0)
    };
    program.starts_with(b"\x7fELF\x02\x01") && headers() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_leave_out_the_program_itself() {
        let entries = links("bin/busybox\nbin/sh\nlinuxrc\nusr/bin/env\n");
        let link = |path| Entry::link(path, "/bin/busybox");
        assert_eq!(entries, [link("bin/sh"), link("usr/bin/env")]);
    }

    /// An ELF head with one program header of this kind.
    fn program(kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, kind);
        bytes
    }

    #[test]
    fn a_dynamic_or_broken_program_is_not_static() {
        assert!(is_static(&program(1)));
        assert!(!is_static(&program(3)), "asks for a dynamic linker");
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b""));
        let whole = program(1);
        assert!(!is_static(&whole[..65]), "cut off within the table");
        let mut far = program(1);
        far[32..40].fill(0xff);
        assert!(!is_static(&far), "a table beyond the end");
    }
}
