//! Installs the agent's program in a foreign container while it starts.

use sandbox_core::{Error, ErrorKind, Result, unique_name};

use super::{Found, script};
use crate::TIER;
use crate::cluster::Cluster;

/// The programs that the scripts need from the image.
const PROGRAMS: &str = "sh, mkdir, chmod, head and rm";

/// Installs a program of `$2` bytes in a new folder `$1`, in the first place that allows writing
/// and executing. `head` may read past the program, since no input follows it.
const PLANT: &str = r#"
umask 077
for place in /tmp /var/tmp /run /dev/shm ""; do
    folder=$place/$1
    mkdir "$folder" 2>/dev/null || continue
    if printf '#!/bin/sh\n:\n' >"$folder/agent" && chmod 700 "$folder/agent" && "$folder/agent"; then
        if ! head -c "$2" >"$folder/agent"; then answer=full
        elif ! "$folder/agent" --version >/dev/null; then answer=unfit
        else echo planted; echo "$folder"; pwd; exit 0; fi
        rm -r "$folder"; echo "$answer"; exit 0
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

/// The agent's program in a container. Removed by [`InstalledAgent::remove`], or in the background
/// on drop.
#[derive(Debug)]
pub(super) struct Planted {
    cluster: Cluster,
    found: Found,
    name: String,
    folder: String,
    workdir: String,
    gone: bool,
}

impl Planted {
    /// Installs the program in a folder with an unpredictable name that only the container's user
    /// may enter.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a container without the required programs, or without a place to write and
    /// execute.
    pub(super) async fn put(cluster: &Cluster, found: &Found, program: &[u8]) -> Result<Self> {
        let mut planted = Self {
            cluster: cluster.clone(),
            found: found.clone(),
            name: unique_name(".sandbox-agent"),
            folder: String::new(),
            workdir: String::new(),
            gone: false,
        };
        let size = program.len().to_string();
        let arguments = [&*planted.name, &*size];
        let (answer, words) = script::run(cluster, found, PLANT, &arguments, program).await?;
        match read(&answer) {
            Answer::Planted { folder, workdir } => {
                (planted.folder, planted.workdir) = (folder, workdir);
                Ok(planted)
            }
            Answer::Refused(why) => {
                planted.gone = true;
                Err(refused(found, why, words))
            }
            // The script may have left something, so the drop cleans up.
            Answer::None => Err(refused(
                found,
                &format!("it has no shell that can bring the agent, which takes {PROGRAMS}"),
                words,
            )),
        }
    }

    /// The program's path in the container.
    pub(super) fn program(&self) -> String {
        format!("{}/agent", self.folder)
    }

    /// The folder's name, unique in the container.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The container's working directory.
    pub(super) fn workdir(&self) -> &str {
        &self.workdir
    }

    /// Removes the program. A running agent continues.
    pub(super) async fn remove(mut self) -> Result<()> {
        self.gone = true;
        remove(&self.cluster, &self.found, &self.name).await
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let (cluster, found, name) = (self.cluster.clone(), self.found.clone(), self.name.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::error!(
                pod = found.pod,
                name,
                "no runtime to take the agent out of a pod with"
            );
            return;
        };
        runtime.spawn(async move {
            if let Err(error) = remove(&cluster, &found, &name).await {
                tracing::error!(pod = found.pod, %error, "the agent's program may be left in a pod");
            }
        });
    }
}

async fn remove(cluster: &Cluster, found: &Found, name: &str) -> Result<()> {
    let (answer, words) = script::run(cluster, found, REMOVE, &[name], b"").await?;
    if answer.trim_ascii() == "removed" {
        return Ok(());
    }
    let words = words.unwrap_or_default();
    let context = format!("the folder {name} could not be removed from {found}: {words}");
    let error = Error::new(ErrorKind::Io, "adopt pod", context).on(TIER);
    Err(error.with_fix("find it in /tmp, /var/tmp, /run, /dev/shm or / there, and remove it"))
}

fn refused(found: &Found, why: &str, words: Option<String>) -> Error {
    let words = words.map_or_else(String::new, |words| format!(" ({words})"));
    let context = format!("{found}: {why}{words}");
    Error::new(ErrorKind::Unsupported, "adopt pod", context)
        .on(TIER)
        .with_fix(
            "make a sandbox of its image, or add an image with a shell to the pod as a container",
        )
}

/// The outcome of the install script.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Planted {
        folder: String,
        workdir: String,
    },
    Refused(&'static str),
    /// There is no shell, or it was killed.
    None,
}

fn read(text: &str) -> Answer {
    let mut lines = text.lines();
    match lines.next() {
        Some("planted") => match (lines.next(), lines.next(), lines.next()) {
            (Some(folder), Some(workdir), None)
                if folder.starts_with('/') && workdir.starts_with('/') =>
            {
                Answer::Planted {
                    folder: folder.to_owned(),
                    workdir: workdir.to_owned(),
                }
            }
            _ => Answer::None,
        },
        Some("nowhere") => Answer::Refused(
            "nothing can be written and executed in any of /tmp, /var/tmp, /run, /dev/shm and /",
        ),
        Some("full") => Answer::Refused("its storage has no room for the agent"),
        Some("unfit") => Answer::Refused(
            "the agent does not run there: it is built for this machine's architecture",
        ),
        _ => Answer::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn only_what_the_script_says_is_an_answer() {
        let planted = Answer::Planted {
            folder: "/tmp/x".into(),
            workdir: "/".into(),
        };
        assert_eq!(read("planted\n/tmp/x\n/\n"), planted);
        assert!(matches!(read("nowhere\n"), Answer::Refused(_)));
        for other in [
            "",
            "planted\n",
            "planted\nx\n/\n",
            "planted\n/x\n/\n/\n",
            "else",
        ] {
            assert_eq!(read(other), Answer::None, "{other:?}");
        }
    }

    /// Uses the shell of the test machine.
    #[test]
    fn the_scripts_do_what_they_say() {
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
        let answer = run(PLANT, &[&name, &size], program);
        let Answer::Planted { folder, .. } = read(&answer) else {
            panic!("{answer:?}");
        };
        let agent = std::path::Path::new(&folder).join("agent");
        assert_eq!(std::fs::read(&agent).expect("there"), program);
        assert_eq!(run(REMOVE, &[&name], b""), "removed\n");
        assert!(!agent.exists());
        let unfit = b"#!/bin/sh\nexit 1\n";
        assert!(matches!(
            read(&run(PLANT, &[&name, &size], unfit)),
            Answer::Refused(_)
        ));
        assert!(!agent.exists());
    }
}
