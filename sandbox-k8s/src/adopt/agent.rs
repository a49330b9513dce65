//! Observes the agent in a foreign container through the container's shell.

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::StderrTail;
use sandbox_host::adopted::ForeignAgent;

use super::{ForeignPodContainer, PodProgram, script};
use crate::TIER;
use crate::cluster::Cluster;

/// Prints whether a process runs whose command line contains `$2$1`. The name is passed in swapped
/// halves, so that this script's own command line does not match.
const LOOK: &str = r#"
for process in /proc/[0-9]*/cmdline; do
    case "$(head -c 4096 "$process" 2>/dev/null)" in *"$2$1"*) echo runs; exit 0;; esac
done 2>/dev/null
echo ended
"#;

/// The agent in a foreign container.
#[derive(Debug)]
pub(super) struct ForeignPodAgent {
    cluster: Cluster,
    container: ForeignPodContainer,
    /// A string that occurs only in the command lines of the agent's processes.
    name: String,
    stderr_tail: StderrTail,
}

impl ForeignPodAgent {
    pub(super) fn new(
        cluster: &Cluster,
        container: &ForeignPodContainer,
        program: &PodProgram,
        stderr_tail: StderrTail,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            container: container.clone(),
            name: program.name().to_owned(),
            stderr_tail,
        }
    }
}

#[async_trait]
impl ForeignAgent for ForeignPodAgent {
    fn tier(&self) -> &str {
        TIER
    }

    fn place(&self) -> String {
        self.container.to_string()
    }

    async fn runs(&self) -> Result<bool> {
        if !self.container.still_runs(&self.cluster).await? {
            // The container is gone, and the agent with it.
            return Ok(false);
        }
        let (one, two) = self.name.split_at(self.name.len() / 2);
        let pods = self.cluster.pods();
        let (output, stderr) = script::run(&pods, &self.container, LOOK, &[two, one], b"").await?;
        match output.trim_ascii() {
            "runs" => Ok(true),
            "ended" => Ok(false),
            _ => {
                let stderr = stderr.unwrap_or_default();
                let context = format!(
                    "{}: cannot tell whether the agent has ended: {stderr}",
                    self.container
                );
                Err(Error::new(ErrorKind::Io, "leave container", context).on(TIER))
            }
        }
    }

    fn stderr_tail(&self) -> &StderrTail {
        &self.stderr_tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_named_process_is_found() {
        let look = |name: &str| {
            let (one, two) = name.split_at(name.len() / 2);
            let output = Command::new("sh")
                .args(["-c", LOOK, "sh", two, one])
                .output();
            String::from_utf8(output.expect("a shell").stdout).expect("text")
        };
        let name = sandbox_core::spi::unique_name("looked-for");
        assert_eq!(look(&name), "ended\n");
        let mut held = Command::new("sh")
            .args(["-c", "read x; :", &name])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        assert_eq!(look(&name), "runs\n");
        held.kill().expect("killed");
        held.wait().expect("its end");
        assert_eq!(look(&name), "ended\n");
    }
}
