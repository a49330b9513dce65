//! Finding processes by descent, in a procfs of the agent's own PID namespace.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::runtime::{
    Errno, Pid,
    directory::Directory,
    fs, io,
    path::{PathBuffer, decimal},
};

use crate::program::procfs::Procfs;

/// A process as procfs shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) struct ProcessInfo {
    /// Its PID.
    pub(in crate::program) pid: Pid,
    /// Its parent's PID.
    pub(in crate::program) parent: Pid,
    /// Whether it is a zombie.
    pub(in crate::program) ended: bool,
}

/// Appends every process that is not in `known`.
///
/// # Errors
///
/// When procfs cannot be listed.
pub(in crate::program) fn snapshot(
    procfs: &Procfs,
    known: &BTreeSet<Pid>,
    processes: &mut Vec<ProcessInfo>,
) -> Result<(), Errno> {
    // The read position belongs to the open file, which supervisors share: open the folder anew.
    let folder = fs::open_at(
        procfs,
        c".",
        fs::O_RDONLY | fs::O_DIRECTORY | fs::O_CLOEXEC,
        0,
    )?;
    let mut entries = Directory::new(&folder);
    while let Some(entry) = entries.next_entry()? {
        let name = entry.name.to_bytes();
        let Some(pid) = number(name) else { continue };
        if known.contains(&pid) {
            continue;
        }
        // It may have ended since the folder was read.
        if let Ok(process) = read_process(procfs, pid, name) {
            processes.push(process);
        }
    }
    Ok(())
}

/// Whether a process has a parent in this PID namespace. A process that an engine or a kubelet
/// starts in a container has none.
///
/// # Errors
///
/// When the process has ended.
pub(in crate::program) fn has_parent(procfs: &Procfs, pid: Pid) -> Result<bool, Errno> {
    let mut digits = [0; 20];
    let number = u64::from(pid.0.unsigned_abs());
    let process = read_process(procfs, pid, decimal(number, &mut digits))?;
    Ok(process.parent != Pid(0))
}

fn read_process(procfs: &Procfs, pid: Pid, name: &[u8]) -> Result<ProcessInfo, Errno> {
    let path = PathBuffer::concat(&[name, b"/stat"])?;
    let file = fs::open_at(procfs, &path, fs::O_RDONLY | fs::O_CLOEXEC, 0)?;
    let mut text = [0; 256];
    let count = io::read(&file, &mut text)?;
    parse_stat(pid, &text[..count]).ok_or(Errno::EIO)
}

/// Parses `pid (name) state parent …`; the name may contain parentheses.
fn parse_stat(pid: Pid, text: &[u8]) -> Option<ProcessInfo> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text[close + 1..].split(|byte| *byte == b' ').skip(1);
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    Some(ProcessInfo {
        pid,
        parent,
        ended: matches!(state, b'Z' | b'X'),
    })
}

fn number(digits: &[u8]) -> Option<Pid> {
    core::str::from_utf8(digits).ok()?.parse().ok().map(Pid)
}

/// The processes that descend from one of `roots`, without the roots themselves, and without the
/// processes in `pruned` and their descendants.
pub(in crate::program) fn descendants(
    processes: &[ProcessInfo],
    roots: &BTreeSet<Pid>,
    pruned: &BTreeSet<Pid>,
) -> Vec<ProcessInfo> {
    let mut lineage = roots.clone();
    let mut descendants = Vec::new();
    // Children mostly have larger PIDs than their parents, so one round finds nearly all. Repeats
    // until a round finds none.
    loop {
        let before = descendants.len();
        for process in processes {
            if lineage.contains(&process.parent)
                && !pruned.contains(&process.pid)
                && lineage.insert(process.pid)
            {
                descendants.push(*process);
            }
        }
        if descendants.len() == before {
            return descendants;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> ProcessInfo {
        ProcessInfo {
            pid: Pid(pid),
            parent: Pid(parent),
            ended: false,
        }
    }

    #[test]
    fn process_names_with_parentheses_are_parsed() {
        assert_eq!(
            parse_stat(Pid(7), b"7 (a) Z 1 (b) S 3 4) R 42 7 7"),
            Some(ProcessInfo {
                pid: Pid(7),
                parent: Pid(42),
                ended: false
            })
        );
        assert_eq!(
            parse_stat(Pid(7), b"7 (x) Z 1 7 7"),
            Some(ProcessInfo {
                pid: Pid(7),
                parent: Pid(1),
                ended: true
            })
        );
        for text in [
            &b""[..],
            b"7 (x",
            b"7 (x)",
            b"7 (x) ",
            b"7 (x) R",
            b"7 (x) R -1x",
        ] {
            assert_eq!(parse_stat(Pid(7), text), None);
        }
    }

    #[test]
    fn this_process_has_a_parent() {
        let procfs = Procfs::open().unwrap();
        let pid = crate::runtime::process::current();
        assert_eq!(has_parent(&procfs, pid), Ok(true));
        assert!(has_parent(&procfs, Pid(i32::MAX)).is_err());
    }

    #[test]
    fn descendants_are_found_and_pruned() {
        let processes = [
            process(9, 5),
            process(5, 2),
            process(2, 1),
            process(3, 1),
            process(4, 3),
        ];
        let pids = |roots: &[i32], pruned: &[i32]| {
            let set = |pids: &[i32]| pids.iter().copied().map(Pid).collect();
            let mut pids: Vec<i32> = descendants(&processes, &set(roots), &set(pruned))
                .iter()
                .map(|process| process.pid.0)
                .collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(&[1], &[]), [2, 3, 4, 5, 9]);
        assert_eq!(pids(&[2], &[]), [5, 9]);
        assert_eq!(pids(&[1], &[2]), [3, 4]);
        assert_eq!(pids(&[9], &[]), [] as [i32; 0]);
    }
}
