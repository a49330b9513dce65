//! Podman without root: a service of the caller's own, or, where root asks, of an account that is
//! made for it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::account::Account;
use super::{PACKAGES, candidates, configuration, describe, program};
use crate::engines::daemon::{Daemon, Owner};
use crate::engines::{Engine, Status, service, sockets};
use crate::failure::{Failure, Result};
use crate::http::Client;
use crate::places;
use crate::programs;

/// The engine's name, for messages and records.
const ENGINE: &str = "podman-rootless";
/// What it needs besides what root's Podman needs: the programs that map subordinate users, and the one that gives its containers a
/// network.
const MORE_PACKAGES: [(&str, &str); 2] = [("newuidmap", "uidmap"), ("slirp4netns", "slirp4netns")];

/// Podman as an ordinary user.
#[derive(Debug)]
pub struct Rootless;

/// A client of the running service that allows `timeout` for each step of a request.
///
/// # Errors
/// When none answers, with the reason and the command that starts one.
pub fn connect(timeout: Duration) -> Result<Client> {
    service::connect(ENGINE, find(), timeout)
}

/// As whom the service runs that answers, with the environment in which its socket is found.
///
/// # Errors
/// When none answers, with the reason and the command that starts one.
pub fn owner() -> Result<Owner> {
    find().map_err(|failure| Failure::new(format!("{ENGINE}: {failure}")))?;
    let account = Account::find()?;
    account
        .map(|account| account.owner())
        .ok_or_else(|| Failure::new(format!("{ENGINE}: there is no account for it")))
}

impl Engine for Rootless {
    fn up(&self) -> Result<Status> {
        if find().is_err() {
            start()?;
        }
        Ok(self.status())
    }

    fn down(&self) -> Result<String> {
        let said = service::down(ENGINE)?;
        if programs::is_root()
            && let Some(account) = Account::find()?
        {
            end_user_namespace(&account)?;
        }
        Ok(said)
    }

    fn status(&self) -> Status {
        let described = find().and_then(|client| describe(ENGINE, &client));
        described.map_or_else(Status::Missing, Status::Running)
    }
}

fn start() -> Result<()> {
    let needed: Vec<_> = PACKAGES.into_iter().chain(MORE_PACKAGES).collect();
    service::install(&needed)?;
    let account = Account::find_or_make()?;
    account.ensure_subordinates()?;
    account.make_folder(&account.home)?;
    configuration::write_for(ENGINE, &account)?;
    let socket = socket(&account);
    if let Some(folder) = socket.parent() {
        account.make_folder(folder)?;
    }
    let address = format!("unix://{}", socket.display());
    Daemon {
        engine: ENGINE,
        program: &program()?,
        arguments: &["system", "service", "--time=0", &address],
        socket: &socket,
        log: places::state_folder()?.join("podman-rootless.log"),
        record: &service::record(ENGINE)?,
        owner: programs::is_root().then(|| account.owner()).as_ref(),
    }
    .start(|| sockets::ping(&socket).is_ok())
}

fn socket(account: &Account) -> PathBuf {
    account
        .runtime_folder()
        .join(candidates::BELOW_RUNTIME_FOLDER)
}

fn find() -> Result<Client> {
    let fix = "cargo xtask engines up podman-rootless";
    let account =
        Account::find()?.ok_or_else(|| Failure::new("root has no account for it").with_fix(fix))?;
    let found = sockets::find(&sockets::by_default([socket(&account)]));
    found.map_err(|failure| failure.with_fix(fix))
}

/// Podman leaves a process behind that holds the user namespace open, for all later commands of the
/// user. An account that is nobody's has no later commands.
fn end_user_namespace(account: &Account) -> Result<()> {
    let owner = account.owner();
    let mut command = Command::new(program()?);
    command.args(["system", "migrate"]).stdin(Stdio::null());
    owner.apply(&mut command);
    programs::run_with_progress(command.current_dir("/"))
}
