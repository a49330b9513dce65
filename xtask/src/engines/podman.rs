//! Podman as root: found over its Unix socket, or installed from Debian's packages and started.

use std::path::Path;
use std::time::Duration;

use super::daemon::Daemon;
use super::sockets;
use super::{Engine, Status, service};
use crate::failure::{Failure, Result};
use crate::http::Client;
use crate::places;
use crate::programs;

mod account;
mod candidates;
mod configuration;
pub mod rootless;

/// The engine's name, for messages and records.
const ENGINE: &str = "podman";
/// The unit of Debian's package.
const UNIT: &str = "podman.socket";
/// What the service needs, by program or path, and Debian's packages of it. Without netavark
/// before the first use Podman stays on its older networks for good.
const PACKAGES: [(&str, &str); 4] = [
    ("podman", "podman"),
    ("runc", "runc"),
    ("/usr/lib/podman/netavark", "netavark"),
    ("/usr/lib/podman/aardvark-dns", "aardvark-dns"),
];

/// The Podman engine.
#[derive(Debug)]
pub struct Podman;

/// A client of the running engine that allows `timeout` for each step of a request.
///
/// # Errors
/// When none answers, with the reason and the command that starts one.
pub fn connect(timeout: Duration) -> Result<Client> {
    service::connect(ENGINE, find(), timeout)
}

impl Engine for Podman {
    fn up(&self) -> Result<Status> {
        service::ensure(ENGINE, find(), candidates::find, candidates::DEFAULT, start)?;
        Ok(self.status())
    }

    fn down(&self) -> Result<String> {
        service::down(ENGINE)
    }

    fn status(&self) -> Status {
        let described = find().and_then(|client| describe(ENGINE, &client));
        described.map_or_else(Status::Missing, Status::Running)
    }
}

fn start(socket: &Path) -> Result<()> {
    if service::install_engine(ENGINE, UNIT, socket, &PACKAGES)? {
        return Ok(());
    }
    configuration::write(ENGINE)?;
    let address = format!("unix://{}", socket.display());
    if let Some(folder) = socket.parent() {
        configuration::make_runtime_folder(folder)?;
    }
    Daemon {
        engine: ENGINE,
        program: &program()?,
        arguments: &["system", "service", "--time=0", &address],
        socket,
        log: places::state_folder()?.join("podman.log"),
        record: &service::record(ENGINE)?,
        owner: None,
    }
    .start(|| sockets::ping(socket).is_ok())
}

fn program() -> Result<std::path::PathBuf> {
    programs::find("podman").ok_or_else(|| {
        Failure::new("podman: its package is installed, but there is no program podman")
    })
}

fn find() -> Result<Client> {
    let candidates = candidates::find()?;
    sockets::find(&candidates).map_err(|failure| failure.with_fix(fix()))
}

fn fix() -> &'static str {
    if sockets::variable(candidates::VARIABLE).is_some() {
        "start that engine, or unset what names it"
    } else if programs::is_root() {
        "cargo xtask engines up podman"
    } else {
        "cargo xtask engines up podman-rootless"
    }
}

/// The line about the engine behind `client`.
///
/// # Errors
/// When it is no Podman.
fn describe(engine: &str, client: &Client) -> Result<String> {
    let version = service::version(client)?;
    let is_podman = version["Components"][0]["Name"]
        .as_str()
        .is_some_and(|name| name.starts_with("Podman"));
    if is_podman {
        return service::line(engine, client, &version);
    }
    Err(Failure::new(format!(
        "the engine at {} is no Podman",
        client.socket().display()
    )))
}
