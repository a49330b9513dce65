//! Installs the agent's program in a foreign container.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use sandbox_core::spi::unique_name;
use sandbox_core::{Error, ErrorKind, Result};
use sandbox_host::adopted::{ForeignProgram, InstalledAgent};

use super::{ForeignPodContainer, script};
use crate::TIER;
use crate::cluster::Cluster;
use crate::error::{ClusterOperation, cluster_error};
use crate::pod::REMOVER;

/// The programs that the scripts need from the image.
const PROGRAMS: &str = "sh, mkdir, chmod, head and rm";

/// Installs a program of `$2` bytes in a new folder `$1`, in the first place that allows writing
/// and executing. `head` may read past the program, since no input follows it.
const INSTALL: &str = r#"
umask 077
for place in /tmp /var/tmp /run /dev/shm ""; do
    folder=$place/$1
    mkdir "$folder" 2>/dev/null || continue
    if printf '#!/bin/sh\n:\n' >"$folder/agent" && chmod 700 "$folder/agent" && "$folder/agent"; then
        if ! head -c "$2" >"$folder/agent"; then output=full
        elif ! "$folder/agent" --version >/dev/null; then output=unfit
        else echo installed; echo "$folder"; pwd; exit 0; fi
        rm -r "$folder"; echo "$output"; exit 0
    fi 2>/dev/null
    rm -r "$folder"
done
echo nowhere
"#;

/// Removes the folder `$1` wherever it was created.
const REMOVE: &str = r#"
for place in /tmp /var/tmp /run /dev/shm ""; do
    if [ -d "$place/$1" ]; then rm -r "$place/$1" || exit 0; fi
done
echo removed
"#;

/// The agent's program in a container.
#[derive(Debug, Clone)]
pub(super) struct PodProgram {
    cluster: Cluster,
    container: ForeignPodContainer,
    /// The name of its folder, unique in the container.
    name: String,
}

/// Where the program was installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProgramFolders {
    folder: String,
    /// The container's working directory.
    pub(super) workdir: String,
}

impl ProgramFolders {
    /// The program's path in the container.
    pub(super) fn program(&self) -> String {
        format!("{}/agent", self.folder)
    }
}

impl PodProgram {
    /// Installs the program in a folder with an unpredictable name that only the container's user
    /// may enter.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a container without the required programs, or without a place to write and
    /// execute.
    pub(super) async fn install(
        cluster: &Cluster,
        container: &ForeignPodContainer,
        program: &[u8],
    ) -> Result<(InstalledAgent<Self>, ProgramFolders)> {
        let name = unique_name(".sandbox-agent");
        let installed = Self {
            cluster: cluster.clone(),
            container: container.clone(),
            name: name.clone(),
        };
        let mut installed = InstalledAgent::new(installed, &REMOVER);
        let size = program.len().to_string();
        let arguments = [&*name, &*size];
        let pods = cluster.pods();
        let (output, stderr) = script::run(&pods, container, INSTALL, &arguments, program).await?;
        match read(&output) {
            InstallOutcome::Installed(folders) => Ok((installed, folders)),
            InstallOutcome::Refused(why) => {
                installed.set_removed();
                Err(refused(container, why, stderr))
            }
            // The script may have left something, so the drop cleans up.
            InstallOutcome::None => Err(refused(
                container,
                &format!("it has no shell that can install the agent, which needs {PROGRAMS}"),
                stderr,
            )),
        }
    }

    /// The folder's name, unique in the container.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    async fn remove_with(&self, pods: &Api<Pod>) -> Result<()> {
        let Self {
            container, name, ..
        } = self;
        let (output, stderr) = script::run(pods, container, REMOVE, &[name], b"").await?;
        if output.trim_ascii() == "removed" {
            return Ok(());
        }
        let stderr = stderr.unwrap_or_default();
        let context = format!("the folder {name} could not be removed from {container}: {stderr}");
        let error = Error::new(ErrorKind::Io, "adopt pod", context).on(TIER);
        Err(error.with_fix("find it in /tmp, /var/tmp, /run, /dev/shm or / there, and remove it"))
    }
}

#[async_trait]
impl ForeignProgram for PodProgram {
    fn place(&self) -> String {
        self.container.to_string()
    }

    async fn remove(&self) -> Result<()> {
        self.remove_with(&self.cluster.pods()).await
    }

    async fn remove_in_background(&self) -> Result<()> {
        let pods = self.cluster.background_pods();
        let pods = pods.map_err(|error| cluster_error(ClusterOperation::Exec, error))?;
        self.remove_with(&pods).await
    }
}

fn refused(container: &ForeignPodContainer, why: &str, stderr: Option<String>) -> Error {
    let stderr = stderr.map_or_else(String::new, |stderr| format!(" ({stderr})"));
    let context = format!("{container}: {why}{stderr}");
    Error::new(ErrorKind::Unsupported, "adopt pod", context)
        .on(TIER)
        .with_fix(
            "make a sandbox of its image, or add an image with a shell to the pod as a container",
        )
}

/// The outcome of the install script.
#[derive(Debug, PartialEq, Eq)]
enum InstallOutcome {
    Installed(ProgramFolders),
    Refused(&'static str),
    /// There is no shell, or it was killed.
    None,
}

fn read(text: &str) -> InstallOutcome {
    let mut lines = text.lines();
    match lines.next() {
        Some("installed") => match (lines.next(), lines.next(), lines.next()) {
            (Some(folder), Some(workdir), None)
                if folder.starts_with('/') && workdir.starts_with('/') =>
            {
                InstallOutcome::Installed(ProgramFolders {
                    folder: folder.to_owned(),
                    workdir: workdir.to_owned(),
                })
            }
            _ => InstallOutcome::None,
        },
        Some("nowhere") => InstallOutcome::Refused(
            "nothing can be written and executed in any of /tmp, /var/tmp, /run, /dev/shm and /",
        ),
        Some("full") => InstallOutcome::Refused("its storage has no room for the agent"),
        Some("unfit") => InstallOutcome::Refused(
            "the agent does not run there: it was built for this machine's architecture",
        ),
        _ => InstallOutcome::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn only_known_script_output_is_accepted() {
        let installed = InstallOutcome::Installed(ProgramFolders {
            folder: "/tmp/x".into(),
            workdir: "/".into(),
        });
        assert_eq!(read("installed\n/tmp/x\n/\n"), installed);
        assert!(matches!(read("nowhere\n"), InstallOutcome::Refused(_)));
        for other in [
            "",
            "installed\n",
            "installed\nx\n/\n",
            "installed\n/x\n/\n/\n",
            "else",
        ] {
            assert_eq!(read(other), InstallOutcome::None, "{other:?}");
        }
    }

    /// Uses the shell of the test machine.
    #[test]
    fn scripts_install_and_remove_the_agent() {
        let name = unique_name(".sandbox-agent-test");
        let run = |script: &str, arguments: &[&str], input: &[u8]| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, "sh"]).args(arguments);
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = shell.spawn().expect("a shell");
            let mut stdin = child.stdin.take().expect("its input");
            stdin.write_all(input).expect("written");
            // The input stays open, as in a pod.
            let output = child.wait_with_output().expect("its end");
            drop(stdin);
            String::from_utf8(output.stdout).expect("text")
        };
        let program = b"#!/bin/sh\nexit 0\n";
        let size = program.len().to_string();
        let output = run(INSTALL, &[&name, &size], program);
        let InstallOutcome::Installed(ProgramFolders { folder, .. }) = read(&output) else {
            panic!("{output:?}");
        };
        let agent = std::path::Path::new(&folder).join("agent");
        assert_eq!(std::fs::read(&agent).expect("there"), program);
        assert_eq!(run(REMOVE, &[&name], b""), "removed\n");
        assert!(!agent.exists());
        let unfit = b"#!/bin/sh\nexit 1\n";
        assert!(matches!(
            read(&run(INSTALL, &[&name, &size], unfit)),
            InstallOutcome::Refused(_)
        ));
        assert!(!agent.exists());
    }
}
