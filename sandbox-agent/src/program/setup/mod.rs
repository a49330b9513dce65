//! Building the place that the sandbox runs in, out of new namespaces with the host's files still in view.

mod bind;
mod classic;
mod loopback;
mod place;
mod root;
mod tree_files;
mod user_limits;

use alloc::vec::Vec;

use crate::runtime::{
    Errno, Pid,
    credentials::{set_group, set_groups, set_user},
    keyring,
    namespace::{CLONE_NEWUSER, set_host_name, unshare},
    path::terminated,
    process,
};

use super::{
    connection::{Chunk, Connection},
    ending::Ending,
    failing::{failure, refusal},
    privilege,
    process_files::ProcessFiles,
    serve::expect,
};
use crate::protocol::{FailStep, Failure, Kind, Setup};

/// Builds the place; gives a procfs of the sandbox's processes, if one could be made.
///
/// # Errors
///
/// The failure to report, or the host's breach of the protocol.
pub(super) fn build(
    setup: &Setup,
    connection: &mut Connection,
    chunk: &mut Chunk,
) -> Result<Option<ProcessFiles>, Ending> {
    if setup.die_with_parent {
        privilege::die_with_parent().map_err(|errno| refused("PR_SET_PDEATHSIG", errno))?;
    }
    if setup.pid_one && process::current() != Pid(1) {
        let detail = "the agent is not the first process of its process namespace";
        return Err(Ending::Refused(refusal(FailStep::Setup, detail)));
    }
    if !setup.new_root && !setup.mounts.is_empty() {
        let detail = "mounts without a new root would be mounts on the host";
        return Err(Ending::Refused(refusal(FailStep::Setup, detail)));
    }
    // While the namespaces are the agent's to rule. Without one, whatever the sandbox shows on /proc is tried later.
    let files = tree_files::mount_nowhere();
    let kernel_settings = user_limits::settings(&setup.user_limits, files.as_ref())
        .map_err(|errno| refused("/proc", errno))?;
    if setup.new_root {
        root::build(&setup.mounts, setup.owner).map_err(Ending::Refused)?;
    }
    if !setup.hostname.is_empty() {
        terminated(Vec::from(&setup.hostname[..]))
            .and_then(|name| set_host_name(&name))
            .map_err(|errno| refused("sethostname", errno))?;
    }
    if setup.loopback {
        loopback::bring_up().map_err(|errno| refused("loopback interface", errno))?;
    }
    if setup.user_namespace {
        enter_user_namespace(connection, chunk)?;
    }
    if let Some(settings) = kernel_settings {
        user_limits::set(&setup.user_limits, &settings).map_err(Ending::Refused)?;
    }
    // The caller's own keys stay behind. Refused where the user has no room for another key ring, or by a filter around us; code
    // can neither see nor use a key either way.
    let _ = keyring::join_new_session();
    Ok(files)
}

fn refused(what: &'static str, errno: Errno) -> Ending {
    Ending::Refused(failure(FailStep::Setup, errno, what))
}

/// Entered last: the mount and network namespaces belong to the user namespace in which they were made, so that root of
/// this one has no power over them.
fn enter_user_namespace(connection: &mut Connection, chunk: &mut Chunk) -> Result<(), Ending> {
    let failed = |what: &'static str| {
        move |errno| -> Ending { Ending::Refused(failure(FailStep::Identity, errno, what)) }
    };
    unshare(CLONE_NEWUSER).map_err(failed("unshare(CLONE_NEWUSER)"))?;
    connection.outgoing.message(0, Kind::NeedMaps, &[]);
    connection.send_all(ANSWER_BOUND);
    let message = expect(connection, chunk, Kind::Mapped)?;
    if !message.is_empty() {
        return Err(Ending::Protocol(
            crate::protocol::ProtocolError::TrailingBytes,
        ));
    }
    set_groups(&[]).map_err(failed("setgroups"))?;
    set_group(0).map_err(failed("setresgid to 0"))?;
    set_user(0).map_err(failed("setresuid to 0"))
}

/// How long the host may take to take a message during setup, milliseconds.
const ANSWER_BOUND: u64 = 3000;

/// The failure of a step on one mount target.
fn step_failure(target: &[u8], what: &str, errno: Errno) -> Failure {
    let detail = alloc::format!("{}: {what}", super::failing::text(target));
    failure(FailStep::Setup, errno, detail)
}
