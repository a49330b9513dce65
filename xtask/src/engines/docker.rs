//! Docker: found over its Unix socket, or installed from Debian's packages and started.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::sockets::Candidate;
use super::daemon::{self, Daemon, Stopped};
use super::process;
use super::record::RecordFile;
use super::{Engine, Status};
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::http::Client;
use crate::places;
use crate::programs;

mod contexts;
mod sockets;

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
/// Present where systemd runs the machine's services.
const SYSTEMD: &str = "/run/systemd/system";
/// Most time for a service that its package has just started to answer.
const SERVICE_PATIENCE: Duration = Duration::from_secs(30);

/// The Docker engine.
#[derive(Debug)]
pub struct Docker;

/// A client of the running Docker engine that allows `timeout` for each step of a request.
///
/// # Errors
/// When none answers, with the reason and the command that starts one.
pub fn connect(timeout: Duration) -> Result<Client> {
    match find() {
        Ok(client) => Ok(Client::new(client.socket(), timeout)),
        Err(failure) => Err(Failure::new(format!("docker: {failure}"))),
    }
}

impl Engine for Docker {
    fn up(&self) -> Result<Status> {
        let candidates = sockets::candidates()?;
        if let Err(failure) = sockets::find(&candidates) {
            if !named_default(&candidates) || !programs::is_root() {
                return Err(Failure::new(format!("docker: {failure}")).with_fix(fix(&candidates)));
            }
            start()?;
        }
        Ok(self.status())
    }

    fn down(&self) -> Result<String> {
        Ok(match daemon::stop(&record()?)? {
            Stopped::NotOurs => "not started by us, nothing to stop".to_owned(),
            Stopped::AlreadyGone => "the daemon that we started is gone already".to_owned(),
            Stopped::Ended(pid) => format!("stopped (process {pid})"),
        })
    }

    fn status(&self) -> Status {
        match find().and_then(|client| describe(&client)) {
            Ok(line) => Status::Running(line),
            Err(failure) => Status::Missing(failure),
        }
    }
}

fn start() -> Result<()> {
    let default = Path::new(sockets::DEFAULT);
    let missing = missing_packages();
    if !missing.is_empty() {
        apt::install(&missing)?;
    }
    if Path::new(SYSTEMD).is_dir() {
        return await_service(if missing.is_empty() {
            Duration::ZERO
        } else {
            SERVICE_PATIENCE
        });
    }
    let program = programs::find("dockerd").ok_or_else(|| {
        Failure::new("docker: its package is installed, but there is no program dockerd")
    })?;
    write_configuration(Path::new(CONFIGURATION_FOLDER))?;
    for (path, program) in PID_FILES {
        remove_stale_pid_file(Path::new(path), program)?;
    }
    Daemon {
        engine: "docker",
        program: &program,
        arguments: &[],
        socket: default,
        log: places::state_folder()?.join("dockerd.log"),
        record: &record()?,
    }
    .start(|| sockets::ping(default).is_ok())
}

fn find() -> Result<Client> {
    let candidates = sockets::candidates()?;
    sockets::find(&candidates).map_err(|failure| failure.with_fix(fix(&candidates)))
}

/// False where the user named another engine, and so does not want the one that we could start.
fn named_default(candidates: &[Candidate]) -> bool {
    let default = Path::new(sockets::DEFAULT);
    candidates
        .iter()
        .any(|candidate| sockets::same_place(&candidate.socket, default))
}

fn fix(candidates: &[Candidate]) -> &'static str {
    if !named_default(candidates) {
        "start that engine, or unset what names it"
    } else if programs::is_root() {
        "cargo xtask engines up docker"
    } else {
        "start Docker as root and join the group that owns its socket"
    }
}

fn record() -> Result<RecordFile> {
    Ok(RecordFile::new(&places::state_folder()?, "docker"))
}

fn missing_packages() -> Vec<&'static str> {
    PACKAGES
        .into_iter()
        .filter(|(program, _)| programs::find(program).is_none())
        .map(|(_, package)| package)
        .collect()
}

/// Where systemd is in charge, a daemon of ours would fight with the unit over the socket.
fn await_service(patience: Duration) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        if sockets::ping(Path::new(sockets::DEFAULT)).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(250));
    }
    Err(
        Failure::new("docker: installed but not running, and systemd manages it")
            .with_fix("systemctl start docker"),
    )
}

/// Writes `daemon.json` only if there is none.
fn write_configuration(folder: &Path) -> Result<()> {
    let path = folder.join("daemon.json");
    let doing = || format!("cannot write {}", path.display());
    fs::create_dir_all(folder).context(doing)?;
    match fs::File::create_new(&path) {
        Ok(mut file) => {
            eprintln!("docker: writing {}", path.display());
            file.write_all(CONFIGURATION.as_bytes()).context(doing)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).context(doing),
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

fn describe(client: &Client) -> Result<String> {
    let doing = || {
        format!(
            "{} answers a ping, but not /version",
            client.socket().display()
        )
    };
    let answer = client.get("/version").context(doing)?;
    if !answer.is_success() {
        return Err(Failure::new(format!(
            "{}: {}",
            doing(),
            answer.error_message()
        )));
    }
    let version: Value = serde_json::from_slice(&answer.body).context(doing)?;
    let field = |name: &str| version[name].as_str().unwrap_or("unknown").to_owned();
    Ok(format!(
        "{} (API {}) at {}, {}",
        field("Version"),
        field("ApiVersion"),
        client.socket().display(),
        started_by(client.socket())?
    ))
}

fn started_by(socket: &Path) -> Result<String> {
    let ours = match record()?.read()? {
        Some(record) if sockets::same_place(&record.socket, socket) => record
            .process
            .open()
            .context(|| format!("cannot look at process {}", record.process.pid))?
            .map(|_| record.process.pid),
        _ => None,
    };
    Ok(match ours {
        Some(pid) => format!("started by us (process {pid})"),
        None => "not started by us".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_written_once_and_never_overwritten() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let below = folder.path().join("docker");
        assert_eq!(write_configuration(&below), Ok(()));
        let path = below.join("daemon.json");
        let written: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("file")).expect("json");
        assert_eq!(written["storage-driver"], "overlay2");
        fs::write(&path, "{}").expect("write");
        assert_eq!(write_configuration(&below), Ok(()));
        assert_eq!(fs::read_to_string(&path).expect("file"), "{}");
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
