//! The agent's volume as tar archives for the engine.

use std::io::Read;

use super::VolumeContent;

/// A file of the volume. Everyone may read it, and no user may write it.
#[derive(Debug, Clone, Copy)]
pub(super) struct VolumeFile<'a> {
    pub name: &'a str,
    /// Permission bits.
    pub mode: u32,
    pub content: &'a [u8],
}

/// Builds an archive of these files.
pub(super) fn build(files: &[VolumeFile<'_>]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(file.content.len() as u64);
        header.set_mode(file.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, file.name, file.content)?;
    }
    archive.into_inner()
}

/// Compares the engine's archive with the expected content: the folder and exactly these files,
/// owned by root. `root` is root's user and group on the engine's host, which some engines report
/// instead.
pub(super) fn compare(bytes: &[u8], files: &[VolumeFile<'_>], root: (u32, u32)) -> VolumeContent {
    match read(bytes, files, root) {
        Ok(content) => content,
        Err(error) => VolumeContent::Other(format!("unreadable archive: {error}")),
    }
}

fn read(
    bytes: &[u8],
    files: &[VolumeFile<'_>],
    root: (u32, u32),
) -> std::io::Result<VolumeContent> {
    let roots = [(0, 0), (root.0.into(), root.1.into())];
    let mut archive = tar::Archive::new(bytes);
    let mut missing = files.to_vec();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let header = entry.header();
        let parts = path.components().count();
        if parts == 1 && header.entry_type().is_dir() {
            continue;
        }
        let name = path.file_name().unwrap_or_default();
        let Some(index) = missing
            .iter()
            .position(|file| parts == 2 && name == file.name)
        else {
            return Ok(VolumeContent::Other(format!(
                "there is also {:?}",
                path.display().to_string()
            )));
        };
        let file = missing.swap_remove(index);
        let (mode, owner) = (header.mode()? & 0o7777, (header.uid()?, header.gid()?));
        if !header.entry_type().is_file() || mode != file.mode || !roots.contains(&owner) {
            let what = format!(
                "{} has type {:?}, mode {mode:o}, owner {owner:?}",
                file.name,
                header.entry_type()
            );
            return Ok(VolumeContent::Other(what));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if content != file.content {
            return Ok(VolumeContent::Other(format!(
                "the bytes of {} differ",
                file.name
            )));
        }
    }
    Ok(match missing.first() {
        None => VolumeContent::Agent,
        Some(_) if missing.len() == files.len() => VolumeContent::Empty,
        Some(file) => VolumeContent::Other(format!("{} is missing", file.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (u32, u32) = (0, 0);

    const PROGRAM: &[u8] = b"\x7fELF and more";

    const AGENT: VolumeFile<'_> = VolumeFile {
        name: "agent",
        mode: 0o555,
        content: PROGRAM,
    };

    const BOTH: [VolumeFile<'_>; 2] = [
        AGENT,
        VolumeFile {
            name: "other",
            mode: 0o444,
            content: b"{}",
        },
    ];

    /// An archive as the engine returns it: the folder, then its files.
    fn given(files: &[(&str, u32, u64, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        archive
            .append_data(&mut header, ".sandbox-agent/", std::io::empty())
            .expect("folder");
        for (name, mode, uid, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(*mode);
            header.set_uid(*uid);
            header.set_gid(0);
            archive
                .append_data(&mut header, format!(".sandbox-agent/{name}"), *content)
                .expect("file");
        }
        archive.into_inner().expect("archive")
    }

    #[test]
    fn content_must_be_exactly_the_agent() {
        let right = ("agent", 0o555, 0, PROGRAM);
        assert_eq!(
            compare(&given(&[right]), &[AGENT], ROOT),
            VolumeContent::Agent
        );
        assert_eq!(compare(&given(&[]), &[AGENT], ROOT), VolumeContent::Empty);
        for wrong in [
            vec![("agent", 0o555, 0, &PROGRAM[1..])],
            vec![("agent", 0o755, 0, PROGRAM)],
            vec![("agent", 0o4555, 0, PROGRAM)],
            vec![("agent", 0o555, 1, PROGRAM)],
            vec![right, ("other", 0o555, 0, b"")],
            vec![("agent2", 0o555, 0, PROGRAM)],
        ] {
            let found = compare(&given(&wrong), &[AGENT], ROOT);
            assert!(
                matches!(found, VolumeContent::Other(_)),
                "{wrong:?}: {found:?}"
            );
        }
    }

    #[test]
    fn owner_may_be_root_by_its_host_uid() {
        let agent = given(&[("agent", 0o555, 100_000, PROGRAM)]);
        assert!(matches!(
            compare(&agent, &[AGENT], ROOT),
            VolumeContent::Other(_)
        ));
        assert_eq!(
            compare(&agent, &[AGENT], (100_000, 0)),
            VolumeContent::Agent
        );
    }

    #[test]
    fn every_file_must_be_present() {
        let (agent, other) = (
            ("agent", 0o555, 0, PROGRAM),
            ("other", 0o444, 0, b"{}".as_slice()),
        );
        assert_eq!(
            compare(&given(&[other, agent]), &BOTH, ROOT),
            VolumeContent::Agent
        );
        assert_eq!(compare(&given(&[]), &BOTH, ROOT), VolumeContent::Empty);
        for wrong in [vec![agent], vec![other], vec![agent, agent]] {
            let found = compare(&given(&wrong), &BOTH, ROOT);
            assert!(
                matches!(found, VolumeContent::Other(_)),
                "{wrong:?}: {found:?}"
            );
        }
    }

    #[test]
    fn invalid_archive_is_not_the_agent() {
        let mut cut = given(&[("agent", 0o555, 0, PROGRAM)]);
        cut.truncate(1024 + 5);
        assert!(matches!(
            compare(&cut, &[AGENT], ROOT),
            VolumeContent::Other(_)
        ));
        assert!(matches!(
            compare(&[7; 4096], &[AGENT], ROOT),
            VolumeContent::Other(_)
        ));
    }

    #[test]
    fn sent_archive_has_the_expected_files() {
        let sent = build(&BOTH).expect("archive");
        let mut archive = tar::Archive::new(sent.as_slice());
        let entries = archive.entries().expect("entries");
        let found = entries.map(|entry| {
            let entry = entry.expect("entry");
            (entry.header().mode().expect("mode"), entry.size())
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            [(0o555, PROGRAM.len() as u64), (0o444, 2)]
        );
    }
}
