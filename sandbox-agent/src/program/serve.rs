//! The mode `serve`: from the first message of the first client to the agent's exit.

use alloc::vec::Vec;
use core::fmt::Write;

use crate::runtime::{
    Errno, Fd, FdWriter,
    credentials::CAP_NET_ADMIN,
    fs,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
    signal::{self, SignalSet},
};

use super::{
    address,
    agent::{Agent, ProxiedClients},
    arguments::{ListenEndpoint, ServeOptions},
    connection::{Connection, ReadBuffer},
    cut_network::{CutNetwork, CutNetworkError, cut_network, give_up_network},
    descriptors::close_all_but,
    egress::{Egress, add_routes},
    exit_reason::{EXIT_SETUP, ExitReason},
    failures::{failure, refusal},
    oom_score::OomScore,
    poll_set::{POLLIN, wait_for},
    prepare::{occupy_standard_streams, prepare},
    privilege,
    procfs::Procfs,
    setup,
};
use crate::protocol::{
    AgentSettings, BeginLink, EgressSettings, FailStep, Failure, FrameKind, Header, ProtocolError,
    Setup,
};

/// Timeout for each of the client's first messages, in milliseconds. An engine may keep the stream
/// open without a client.
const FIRST_MESSAGES_TIMEOUT_MS: u64 = 60_000;

/// Timeout for the first client where it connects to the listening socket, in milliseconds. The
/// process that started the agent may have died.
const FIRST_CLIENT_TIMEOUT_MS: u64 = 120_000;

/// Timeout for writing the last frames, in milliseconds.
const FLUSH_TIMEOUT_MS: u64 = 1000;

/// Serves clients and returns the exit code.
pub(super) fn serve(options: &ServeOptions<'_>) -> i32 {
    let mut keep_open = Vec::from([0, 1, 2]);
    keep_open.extend(
        options
            .stream
            .iter()
            .flat_map(|stream| [stream.input, stream.output]),
    );
    if let Some(ListenEndpoint::Descriptor(raw)) = options.listener {
        keep_open.push(raw);
    }
    close_all_but(&mut keep_open, None);
    if let Some(cut) = options.cut_network
        && let Err(error) = cut_network(cut)
    {
        // No client is connected yet that could get a failure message.
        let mut stderr = FdWriter::new(2);
        // A failure to write is visible in the exit code alone.
        let _ = writeln!(
            stderr,
            "sandbox-agent: cannot take the network away: {error}"
        );
        let _ = stderr.flush();
        return EXIT_SETUP;
    }
    if let Some(path) = options.close {
        // Fails where the agent does not own the file. The client checks the mode itself.
        let _ = fs::change_mode(fs::AT_FDCWD, path, 0o600);
    }
    let first = match options.stream {
        Some(stream) => Connection::new(stream)
            .map(|connection| (connection, None))
            .map_err(|errno| setup_failed("stream", errno)),
        None => accept_first_client(options),
    };
    let (mut connection, listener) = match first {
        Ok((connection, listener)) => (connection, listener),
        Err(ending) => return ending.exit_code(),
    };
    let ending = match establish(&mut connection, options, listener) {
        Ok(agent) => return agent.run(connection).exit_code(),
        Err(ending) => ending,
    };
    if let Some(failure) = ending.failure() {
        connection
            .outgoing
            .message(0, FrameKind::Failed, &failure.encode());
        connection.finish();
        connection.send_all(FLUSH_TIMEOUT_MS);
    }
    ending.exit_code()
}

/// Waits for the first client on the listening socket. It needs no key: no code runs before it has
/// connected.
fn accept_first_client(options: &ServeOptions<'_>) -> Result<(Connection, Option<Fd>), ExitReason> {
    occupy_standard_streams().map_err(|errno| setup_failed("standard streams", errno))?;
    let listener = listen(options)?;
    let Some(socket) = &listener else {
        return Err(setup_failed("listening socket", Errno::EBADF));
    };
    if !wait_for(socket.as_raw(), POLLIN, Some(FIRST_CLIENT_TIMEOUT_MS)) {
        return Err(ExitReason::LeaseOver);
    }
    let socket = net::accept(socket, SOCK_CLOEXEC | SOCK_NONBLOCK)
        .map_err(|errno| setup_failed("first client", errno))?;
    Ok((Connection::from_socket(socket), listener))
}

fn listen(options: &ServeOptions<'_>) -> Result<Option<Fd>, ExitReason> {
    Ok(match options.listener {
        None => None,
        Some(ListenEndpoint::Descriptor(raw)) => Some(Fd::from_raw(raw)),
        Some(ListenEndpoint::Name(name)) => {
            Some(address::listen(name).map_err(|errno| setup_failed("listening socket", errno))?)
        }
    })
}

fn setup_failed(what: &'static str, errno: Errno) -> ExitReason {
    ExitReason::Broken(failure(FailStep::Settings, errno, what))
}

fn establish(
    connection: &mut Connection,
    options: &ServeOptions<'_>,
    listener: Option<Fd>,
) -> Result<Agent, ExitReason> {
    let mut read_buffer = ReadBuffer::new().map_err(|errno| setup_failed("memory", errno))?;
    occupy_standard_streams().map_err(|errno| setup_failed("standard streams", errno))?;
    // Only now, so that the socket does not get a number from 0 to 2.
    let listener = match listener {
        Some(listener) => Some(listener),
        None => listen(options)?,
    };
    default_signals().map_err(|errno| setup_failed("signals", errno))?;
    fs::set_umask(0);
    // Before the change of identity, which makes the file inaccessible. Without procfs, agent and
    // code have the same score.
    let oom = OomScore::open().ok();
    let (mut procfs, mut ipv6) = (None, None);
    let (mut die_with_parent, mut own_users) = (false, false);
    if options.setup {
        let message = expect(connection, &mut read_buffer, FrameKind::Setup)?;
        let setup = Setup::decode(&message)?;
        die_with_parent = setup.die_with_parent;
        own_users = setup.user_namespace;
        (procfs, ipv6) = setup::build(&setup, connection, &mut read_buffer)?;
    }
    let message = expect_settings(connection, &mut read_buffer, listener.is_some())?;
    let settings = AgentSettings::decode(&message)?;
    let procfs = procfs.or_else(|| Procfs::open().ok());
    // First of all, because it takes a capability that code must not have.
    let egress = start_egress(&settings, ipv6, options.cut_network).map_err(ExitReason::Refused)?;
    let (sandbox, welcome) =
        prepare(&settings, procfs, oom, own_users).map_err(ExitReason::Refused)?;
    let agent = Agent::new(sandbox, &settings, welcome, listener, read_buffer, egress)
        .map_err(ExitReason::Refused)?;
    // Clients connect to a named socket through `sandbox-agent connect`, a process beside the
    // agent.
    let agent = agent.with_proxied(match (options.listener, options.stream) {
        (Some(ListenEndpoint::Name(_)), None) => ProxiedClients::All,
        (Some(ListenEndpoint::Name(_)), Some(_)) => ProxiedClients::Later,
        _ => ProxiedClients::None,
    });
    if die_with_parent {
        privilege::die_with_parent().map_err(|errno| setup_failed("PR_SET_PDEATHSIG", errno))?;
    }
    Ok(agent)
}

/// Makes the way out, if there is one. Without a setup, the routes are added here.
fn start_egress(
    settings: &AgentSettings,
    ipv6: Option<bool>,
    cut: Option<CutNetwork>,
) -> Result<Option<Egress>, Failure> {
    let failed = |what: &'static str| move |errno| failure(FailStep::Settings, errno, what);
    let Some(EgressSettings { table, ranges }) = &settings.egress else {
        return match cut {
            // The capability that waits for rules would stay.
            Some(CutNetwork::UntilRules) => Err(refusal(
                FailStep::Settings,
                "the agent was started for egress rules, and the settings have none",
            )),
            Some(CutNetwork::Forever) | None => Ok(None),
        };
    };
    let ipv6 = match ipv6 {
        Some(ipv6) => ipv6,
        None => {
            let added = add_routes(ranges).map_err(failed("routes for allowed hosts"))?;
            if cut.is_some() {
                give_up_network().map_err(CutNetworkError::into_failure)?;
            } else {
                privilege::drop_capability(CAP_NET_ADMIN)
                    .map_err(failed("give up CAP_NET_ADMIN"))?;
            }
            added
        }
    };
    Egress::new(table.clone(), ipv6).map(Some)
}

/// Reads the settings. Where `resumable`, the stream may begin a link first: the listening socket
/// can accept its replacement.
fn expect_settings(
    connection: &mut Connection,
    read_buffer: &mut ReadBuffer,
    resumable: bool,
) -> Result<Vec<u8>, ExitReason> {
    let (header, message) = next_message(connection, read_buffer)?;
    match header.kind {
        FrameKind::Hello => Ok(message),
        FrameKind::Link if resumable => {
            connection.begin_link(BeginLink::decode(&message)?.secret)?;
            expect(connection, read_buffer, FrameKind::Hello)
        }
        _ => Err(unexpected()),
    }
}

/// Reads the next message, which must be of this kind.
pub(super) fn expect(
    connection: &mut Connection,
    read_buffer: &mut ReadBuffer,
    kind: FrameKind,
) -> Result<Vec<u8>, ExitReason> {
    match next_message(connection, read_buffer)? {
        (header, message) if header.kind == kind => Ok(message),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> ExitReason {
    ExitReason::Protocol(ProtocolError::Unexpected("first message"))
}

fn next_message(
    connection: &mut Connection,
    read_buffer: &mut ReadBuffer,
) -> Result<(Header, Vec<u8>), ExitReason> {
    match connection.wait_message(read_buffer, FIRST_MESSAGES_TIMEOUT_MS)? {
        None if connection.is_alive() => Err(ExitReason::LeaseOver),
        None => Err(ExitReason::Protocol(ProtocolError::Truncated)),
        Some((header, message)) if header.stream == 0 => Ok((header, message)),
        Some(_) => Err(unexpected()),
    }
}

/// Blocks every signal, so that no signal of a terminal or an engine ends the agent. Resets every
/// signal's action, which programs inherit.
fn default_signals() -> Result<(), Errno> {
    signal::set_mask(SignalSet::ALL)?;
    for number in 1..=64 {
        match signal::set_default(number) {
            // SIGKILL and SIGSTOP.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
