//! The kernel's count of out-of-memory kills, which both agent and client read.

/// Parses how many processes of a control group the kernel has killed for memory, from
/// `memory.events` (version 2) or `memory.oom_control` (version 1). `None` if the text has no such
/// count.
#[must_use]
pub fn memory_kills(text: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let count = line.strip_prefix(b"oom_kill ")?;
        core::str::from_utf8(count).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_count_is_read_from_both_cgroup_versions() {
        assert_eq!(
            memory_kills(b"low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 0\n"),
            Some(2)
        );
        assert_eq!(
            memory_kills(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            Some(3)
        );
        for wrong in [
            b"oom_kill x\n".as_slice(),
            b"",
            b"oom_kill \xff\n",
            b"oom_kill_disable 0\nunder_oom 0\n",
        ] {
            assert_eq!(memory_kills(wrong), None);
        }
    }
}
