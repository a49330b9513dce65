//! What the engines share: who started one, what it says about itself, how it is waited for.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::daemon::{self, Stopped};
use super::record::RecordFile;
use super::sockets::{self, Candidate};
use crate::apt;
use crate::failure::{Context, Failure, Result};
use crate::http::Client;
use crate::places;
use crate::programs;

/// Present where systemd runs the machine's services.
const SYSTEMD: &str = "/run/systemd/system";
/// Most time for a service that its package has just started to answer.
const SERVICE_PATIENCE: Duration = Duration::from_secs(30);

/// A client of the engine that was found, which allows `timeout` for each step of a request.
///
/// # Errors
/// What was found in its place, with the engine's name.
pub fn connect(engine: &str, found: Result<Client>, timeout: Duration) -> Result<Client> {
    found
        .map(|client| Client::new(client.socket(), timeout))
        .context(|| engine.to_owned())
}

/// Has `start` start an engine of root's that was not `found`.
///
/// # Errors
/// What was found in its place, where this user is not root, or has named another engine than the one at `default`: whoever did
/// that does not want the one that we could start.
pub fn ensure(
    engine: &str,
    found: Result<Client>,
    candidates: impl FnOnce() -> Result<Vec<Candidate>>,
    default: &str,
    start: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let Err(failure) = found else {
        return Ok(());
    };
    let default = Path::new(default);
    if !sockets::include(&candidates()?, default) || !programs::is_root() {
        return Err(failure).context(|| engine.to_owned());
    }
    start(default)
}

/// Installs an engine's packages. Gives whether it answers at `socket`, because systemd runs its `unit`.
///
/// # Errors
/// When packages cannot be installed, or systemd's unit does not answer.
pub fn install_engine(
    engine: &str,
    unit: &str,
    socket: &Path,
    packages: &[(&str, &'static str)],
) -> Result<bool> {
    let installed_now = install(packages)?;
    if !has_systemd() {
        return Ok(false);
    }
    await_systemd(engine, unit, socket, installed_now)?;
    Ok(true)
}

/// True where a daemon of ours would fight with a unit of systemd's over the socket.
pub fn has_systemd() -> bool {
    Path::new(SYSTEMD).is_dir()
}

/// Waits for the service that a package has just started, where `installed_now`, and looks once
/// where it has not.
///
/// # Errors
/// When nobody answers at `socket`; the fix is the command that starts `unit`.
fn await_systemd(engine: &str, unit: &str, socket: &Path, installed_now: bool) -> Result<()> {
    let patience = if installed_now {
        SERVICE_PATIENCE
    } else {
        Duration::ZERO
    };
    let begin = Instant::now();
    while sockets::ping(socket).is_err() {
        if begin.elapsed() >= patience {
            return Err(Failure::new(format!(
                "{engine}: installed but not running, and systemd manages it"
            ))
            .with_fix(format!("systemctl start {unit}")));
        }
        thread::sleep(Duration::from_millis(250));
    }
    Ok(())
}

/// Installs the packages out of pairs of program and package whose program this machine lacks, and gives whether there were any.
///
/// # Errors
/// As [`apt::install`].
pub fn install(needed: &[(&str, &'static str)]) -> Result<bool> {
    let missing = missing_packages(needed);
    if missing.is_empty() {
        return Ok(false);
    }
    apt::install(&missing)?;
    Ok(true)
}

fn missing_packages(needed: &[(&str, &'static str)]) -> Vec<&'static str> {
    needed
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect()
}

/// A program is named, or its path is given where it lies outside of every search path.
fn is_installed(program: &str) -> bool {
    let path = Path::new(program);
    if path.is_absolute() {
        path.exists()
    } else {
        programs::find(program).is_some()
    }
}

/// Writes the file `name` in `folder`, which is made, only if there is no such file, and says so.
///
/// # Errors
/// When it cannot be written.
pub fn write_once(engine: &str, folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    let doing = || format!("cannot write {}", path.display());
    fs::create_dir_all(folder).context(doing)?;
    match fs::File::create_new(&path) {
        Ok(mut file) => {
            eprintln!("{engine}: writing {}", path.display());
            file.write_all(text.as_bytes()).context(doing)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).context(doing),
    }
}

/// The record of what `up` started of this engine.
///
/// # Errors
/// When there is no place for it.
pub fn record(engine: &str) -> Result<RecordFile> {
    Ok(RecordFile::new(&places::state_folder()?, engine))
}

/// Stops what `up` started and says in a line what was done.
///
/// # Errors
/// As [`daemon::stop`].
pub fn down(engine: &str) -> Result<String> {
    Ok(match daemon::stop(&record(engine)?)? {
        Stopped::NotOurs => "not started by us, nothing to stop".to_owned(),
        Stopped::AlreadyGone => "the daemon that we started is gone already".to_owned(),
        Stopped::Ended(pid) => format!("stopped (process {pid})"),
    })
}

/// What the engine says at `/version`.
///
/// # Errors
/// When it says nothing that can be read.
pub fn version(client: &Client) -> Result<Value> {
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
    serde_json::from_slice(&answer.body).context(doing)
}

/// The line about an engine that runs: its version, its socket, and who started it.
///
/// # Errors
/// When the record of what we started cannot be read.
pub fn line(engine: &str, client: &Client, version: &Value) -> Result<String> {
    let field = |name: &str| version[name].as_str().unwrap_or("unknown").to_owned();
    Ok(format!(
        "{} (API {}) at {}, {}",
        field("Version"),
        field("ApiVersion"),
        client.socket().display(),
        started_by(engine, client.socket())?
    ))
}

fn started_by(engine: &str, socket: &Path) -> Result<String> {
    let ours = match record(engine)?.read()? {
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
        let below = folder.path().join("engine");
        assert_eq!(write_once("test", &below, "file", "ours"), Ok(()));
        let path = below.join("file");
        assert_eq!(fs::read_to_string(&path).expect("file"), "ours");
        fs::write(&path, "theirs").expect("write");
        assert_eq!(write_once("test", &below, "file", "ours"), Ok(()));
        assert_eq!(fs::read_to_string(&path).expect("file"), "theirs");
    }

    #[test]
    fn a_program_is_looked_for_by_name_or_by_path() {
        let needed = [
            ("sh", "one"),
            ("/bin/sh", "two"),
            ("no-such-program", "three"),
            ("/nonexistent/program", "four"),
        ];
        assert_eq!(missing_packages(&needed), ["three", "four"]);
    }
}
