//! Building the sandbox's environment in new namespaces, with the host's files still visible.

mod bind;
mod classic;
mod loopback;
mod low_ports;
mod mount_point;
mod private_procfs;
mod root;
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
    connection::{Connection, ReadBuffer},
    egress::add_routes,
    exit_reason::ExitReason,
    failures::{failure, refusal},
    privilege,
    procfs::Procfs,
    serve::expect,
};
use crate::protocol::{AGENT_ID, FailStep, Failure, FrameKind, Setup};

/// Builds the environment. Returns a procfs of the sandbox's processes, if one could be mounted, and
/// whether names have IPv6 addresses, if they have addresses.
///
/// # Errors
///
/// The failure to report, or the client's protocol violation.
pub(super) fn build(
    setup: &Setup,
    connection: &mut Connection,
    read_buffer: &mut ReadBuffer,
) -> Result<(Option<Procfs>, Option<bool>), ExitReason> {
    if setup.die_with_parent {
        privilege::die_with_parent().map_err(|errno| setup_failed("PR_SET_PDEATHSIG", errno))?;
    }
    if setup.pid_one && process::current() != Pid(1) {
        let detail = "the agent is not the first process of its process namespace";
        return Err(ExitReason::Refused(refusal(FailStep::Setup, detail)));
    }
    if !setup.new_root && !setup.mounts.is_empty() {
        let detail = "mounts without a new root would be mounts on the host";
        return Err(ExitReason::Refused(refusal(FailStep::Setup, detail)));
    }
    // While the agent still has privileges over the namespaces. Otherwise the sandbox's own /proc
    // is tried later.
    let procfs = private_procfs::mount_detached();
    let limits_procfs = user_limits::open_procfs(&setup.user_limits, procfs.as_ref())
        .map_err(|errno| setup_failed("/proc", errno))?;
    if setup.egress.is_some() {
        low_ports::open(procfs.as_ref())
            .map_err(|errno| setup_failed(low_ports::SETTING, errno))?;
    }
    if setup.new_root {
        root::build(&setup.mounts).map_err(ExitReason::Refused)?;
    }
    if !setup.hostname.is_empty() {
        terminated(Vec::from(&setup.hostname[..]))
            .and_then(|name| set_host_name(&name))
            .map_err(|errno| setup_failed("sethostname", errno))?;
    }
    if setup.loopback {
        loopback::bring_up().map_err(|errno| setup_failed("loopback interface", errno))?;
    }
    let ipv6 = match &setup.egress {
        None => None,
        Some(ranges) => Some(
            add_routes(ranges).map_err(|errno| setup_failed("routes for allowed hosts", errno))?,
        ),
    };
    if setup.user_namespace {
        enter_user_namespace(connection, read_buffer)?;
    }
    if let Some(procfs) = limits_procfs {
        user_limits::set(&setup.user_limits, &procfs).map_err(ExitReason::Refused)?;
    }
    // Leaves the caller's keys behind. May fail at the user's limit of keyrings, or be denied by a
    // filter. Code cannot see or use a key in either case.
    let _ = keyring::join_new_session();
    Ok((procfs, ipv6))
}

fn setup_failed(what: &'static str, errno: Errno) -> ExitReason {
    ExitReason::Refused(failure(FailStep::Setup, errno, what))
}

/// Enters the user namespace last: the mount and network namespaces belong to the user namespace in
/// which they were made, so root of this one has no privileges over them.
fn enter_user_namespace(
    connection: &mut Connection,
    read_buffer: &mut ReadBuffer,
) -> Result<(), ExitReason> {
    let failed = |what: &'static str| {
        move |errno| -> ExitReason { ExitReason::Refused(failure(FailStep::Identity, errno, what)) }
    };
    unshare(CLONE_NEWUSER).map_err(failed("unshare(CLONE_NEWUSER)"))?;
    connection.outgoing.message(0, FrameKind::NeedMaps, &[]);
    connection.send_all(WRITE_TIMEOUT_MS);
    let message = expect(connection, read_buffer, FrameKind::Mapped)?;
    if !message.is_empty() {
        return Err(ExitReason::Protocol(
            crate::protocol::ProtocolError::TrailingBytes,
        ));
    }
    set_groups(&[]).map_err(failed("setgroups"))?;
    set_group(AGENT_ID).map_err(failed("setresgid"))?;
    // The capabilities stay: the old user was not user 0 of this namespace.
    set_user(AGENT_ID).map_err(failed("setresuid"))
}

/// How long the client may take to read a message during setup, in milliseconds.
const WRITE_TIMEOUT_MS: u64 = 3000;

/// The failure of a step with its mount target.
fn step_failure(target: &[u8], what: &str, errno: Errno) -> Failure {
    let detail = alloc::format!("{}: {what}", super::failures::text(target));
    failure(FailStep::Setup, errno, detail)
}
