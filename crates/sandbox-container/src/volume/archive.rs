//! The agent's volume as the tar archives that the engine takes and gives.

use std::io::Read;

use super::Content;

/// Permission bits of the agent: everyone may execute it, nobody write it.
const MODE: u32 = 0o555;

/// An archive with the agent alone.
pub(super) fn build(program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(program.len() as u64);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, "agent", program)?;
    archive.into_inner()
}

/// Compares what the engine gave with what must be there: the folder, and in it the agent alone.
pub(super) fn compare(bytes: &[u8], program: &[u8]) -> Content {
    match read(bytes, program) {
        Ok(content) => content,
        Err(error) => Content::Other(format!("unreadable archive: {error}")),
    }
}

fn read(bytes: &[u8], program: &[u8]) -> std::io::Result<Content> {
    let mut archive = tar::Archive::new(bytes);
    let mut found = Content::Empty;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let header = entry.header();
        match path.components().count() {
            1 if header.entry_type().is_dir() => continue,
            2 if path.file_name().is_some_and(|name| name == "agent") => {}
            _ => {
                return Ok(Content::Other(format!(
                    "there is also {:?}",
                    path.display().to_string()
                )));
            }
        }
        let (mode, owner) = (header.mode()? & 0o7777, (header.uid()?, header.gid()?));
        if !header.entry_type().is_file() || mode != MODE || owner != (0, 0) {
            let what = format!(
                "the agent has type {:?}, mode {mode:o}, owner {owner:?}",
                header.entry_type()
            );
            return Ok(Content::Other(what));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if content != program {
            return Ok(Content::Other("the agent's bytes differ".into()));
        }
        found = Content::Agent;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &[u8] = b"\x7fELF and more";

    /// An archive as the engine gives it: the folder, then what is in it.
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
    fn only_the_agent_alone_is_right() {
        let right = ("agent", 0o555, 0, PROGRAM);
        assert_eq!(compare(&given(&[right]), PROGRAM), Content::Agent);
        assert_eq!(compare(&given(&[]), PROGRAM), Content::Empty);
        for wrong in [
            vec![("agent", 0o555, 0, &PROGRAM[1..])],
            vec![("agent", 0o755, 0, PROGRAM)],
            vec![("agent", 0o4555, 0, PROGRAM)],
            vec![("agent", 0o555, 1, PROGRAM)],
            vec![right, ("other", 0o555, 0, b"")],
            vec![("agent2", 0o555, 0, PROGRAM)],
        ] {
            let found = compare(&given(&wrong), PROGRAM);
            assert!(matches!(found, Content::Other(_)), "{wrong:?}: {found:?}");
        }
    }

    #[test]
    fn garbage_is_not_the_agent() {
        let mut cut = given(&[("agent", 0o555, 0, PROGRAM)]);
        cut.truncate(1024 + 5);
        assert!(matches!(compare(&cut, PROGRAM), Content::Other(_)));
        assert!(matches!(compare(&[7; 4096], PROGRAM), Content::Other(_)));
    }

    #[test]
    fn what_is_sent_is_what_is_expected_back() {
        let sent = build(PROGRAM).expect("archive");
        let mut archive = tar::Archive::new(sent.as_slice());
        let mut entries = archive.entries().expect("entries");
        let entry = entries.next().expect("one").expect("entry");
        assert_eq!(entry.header().mode().expect("mode"), MODE);
        assert_eq!(entry.size(), PROGRAM.len() as u64);
        assert!(entries.next().is_none());
    }
}
