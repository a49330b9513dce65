//! Docker: found over its Unix socket, or installed from Debian's packages and started.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::daemon::Daemon;
use super::sockets::{self, Candidate};
use super::{Engine, Status, process, service};
use crate::failure::{Context, Failure, Result};
use crate::http::Client;
use crate::places;
use crate::programs;

mod candidates;
mod contexts;
pub mod runsc;

/// The engine's name, for messages and records.
const ENGINE: &str = "docker";
/// The programs that a daemon needs, and Debian's packages of them.
const PACKAGES: [(&str, &str); 2] = [("dockerd", "docker.io"), ("iptables", "iptables")];
const CONFIGURATION_FOLDER: &str = "/etc/docker";
/// Works where no systemd manages cgroups. A file that is already there is left alone.
const CONFIGURATION: &str = "{\n  \"storage-driver\": \"overlay2\",\n  \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"]\n}\n";
/// Records that make dockerd refuse to start, or wait in vain, when their process number has been
/// given to another program since.
const PID_FILES: [(&str, &str); 2] = [
    ("/run/docker.pid", "dockerd"),
    ("/run/docker/containerd/containerd.pid", "containerd"),
];

/// The Docker engine.
#[derive(Debug)]
pub struct Docker;

/// A client of the running engine that allows `timeout` for each step of a request.
///
/// # Errors
/// When none answers, with the reason and the command that starts one.
pub fn connect(timeout: Duration) -> Result<Client> {
    service::connect(ENGINE, find(), timeout)
}

impl Engine for Docker {
    fn up(&self) -> Result<Status> {
        service::ensure(ENGINE, find(), candidates::find, candidates::DEFAULT, start)?;
        Ok(self.status())
    }

    fn down(&self) -> Result<String> {
        service::down(ENGINE)
    }

    fn status(&self) -> Status {
        let described = find().and_then(|client| {
            let version = service::version(&client)?;
            service::line(ENGINE, &client, &version)
        });
        described.map_or_else(Status::Missing, Status::Running)
    }
}

fn start(socket: &Path) -> Result<()> {
    if service::install_engine(ENGINE, ENGINE, socket, &PACKAGES)? {
        return Ok(());
    }
    let program = programs::find("dockerd").ok_or_else(|| {
        Failure::new("docker: its package is installed, but there is no program dockerd")
    })?;
    service::write_once(
        ENGINE,
        Path::new(CONFIGURATION_FOLDER),
        "daemon.json",
        CONFIGURATION,
    )?;
    for (path, program) in PID_FILES {
        remove_stale_pid_file(Path::new(path), program)?;
    }
    Daemon {
        engine: ENGINE,
        program: &program,
        arguments: &[],
        socket,
        log: places::state_folder()?.join("dockerd.log"),
        record: &service::record(ENGINE)?,
        owner: None,
    }
    .start(|| sockets::ping(socket).is_ok())
}

fn find() -> Result<Client> {
    let candidates = candidates::find()?;
    sockets::find(&candidates).map_err(|failure| failure.with_fix(fix(&candidates)))
}

fn fix(candidates: &[Candidate]) -> &'static str {
    if !sockets::include(candidates, Path::new(candidates::DEFAULT)) {
        "start that engine, or unset what names it"
    } else if programs::is_root() {
        "cargo xtask engines up docker"
    } else {
        "start Docker as root and join the group that owns its socket"
    }
}

/// Removes the file at `path` unless the process that it names runs `program`.
fn remove_stale_pid_file(path: &Path, program: &str) -> Result<()> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(|| format!("cannot read {}", path.display())),
    };
    if text
        .trim()
        .parse()
        .is_ok_and(|pid| process::runs(pid, program))
    {
        return Ok(());
    }
    eprintln!("docker: removing {}, whose process is gone", path.display());
    fs::remove_file(path).context(|| format!("cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_json() {
        let parsed: serde_json::Value = serde_json::from_str(CONFIGURATION).expect("json");
        assert_eq!(parsed["storage-driver"], "overlay2");
    }

    #[test]
    fn a_pid_file_of_another_program_is_removed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("docker.pid");
        assert_eq!(
            remove_stale_pid_file(&path, "dockerd"),
            Ok(()),
            "none is no error"
        );
        for stale in [
            std::process::id().to_string(),
            "garbage".to_owned(),
            String::new(),
        ] {
            fs::write(&path, stale).expect("write");
            assert_eq!(remove_stale_pid_file(&path, "dockerd"), Ok(()));
            assert!(!path.exists());
        }
        let own = std::env::current_exe().expect("own program");
        let own = own
            .file_name()
            .and_then(|name| name.to_str())
            .expect("name");
        fs::write(&path, format!("{}\n", std::process::id())).expect("write");
        assert_eq!(remove_stale_pid_file(&path, own), Ok(()));
        assert!(path.exists());
    }
}
