//! Kills for memory as the sandbox's own kernel counts them, where the host cannot see its control groups: an engine on another
//! machine, or in a virtual one.

use std::time::Duration;

use async_trait::async_trait;
use sandbox_agent::protocol::{Builtin, ExitKind};
use sandbox_core::spi::{Flow, OutputSink, OutputStream};

use crate::AgentInstance;

/// How long the agent may take to read a file of the kernel's.
const READ: Duration = Duration::from_secs(2);

/// No such file is longer.
const LONGEST: usize = 4096;

/// The code of a shell whose command was killed.
const CHILD_KILLED: u8 = 128 + 9;

/// Whether something of an execution that ended so may have been killed for memory: reading takes a file operation, which no other
/// execution shall pay for.
pub(crate) fn likely(end: ExitKind) -> bool {
    matches!(
        end,
        ExitKind::Signaled(9) | ExitKind::Exited(CHILD_KILLED) | ExitKind::Lost
    )
}

/// The count in the first of these files that says one; `None` where none does.
pub(crate) async fn inside(instance: &AgentInstance, files: &[&str]) -> Option<u64> {
    for file in files {
        let mut content = Content(Vec::new());
        let builtin = Builtin::Get {
            path: (*file).into(),
        };
        let read = instance.builtin(builtin, None, &mut content);
        if let Ok(Ok(())) = tokio::time::timeout(READ, read).await
            && let Some(count) = count(&content.0)
        {
            return Some(count);
        }
    }
    None
}

fn count(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

struct Content(Vec<u8>);

#[async_trait]
impl OutputSink for Content {
    async fn write(&mut self, _stream: OutputStream, bytes: &[u8]) -> Flow {
        let room = LONGEST - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Flow::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_both_versions() {
        assert_eq!(
            count(b"low 0\noom 2\noom_kill 1\noom_group_kill 0\n"),
            Some(1)
        );
        assert_eq!(
            count(b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            Some(3)
        );
        for wrong in [
            b"oom_kill x\n".as_slice(),
            b"",
            b"\xff\xfe",
            b"oom_kill_disable 0\n",
        ] {
            assert_eq!(count(wrong), None);
        }
    }

    #[test]
    fn only_suspicious_ends_are_looked_into() {
        assert!(likely(ExitKind::Signaled(9)) && likely(ExitKind::Exited(137)));
        assert!(!likely(ExitKind::Exited(0)) && !likely(ExitKind::Exited(1)));
        assert!(!likely(ExitKind::Signaled(15)) && !likely(ExitKind::TimedOut));
    }
}
