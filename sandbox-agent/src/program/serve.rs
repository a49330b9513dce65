//! From the first byte of the stream to the agent's end.

use alloc::vec::Vec;
use core::fmt::Write;

use crate::runtime::{
    Errno, Fd, fs, io,
    net::{self, SOCK_CLOEXEC, SOCK_NONBLOCK},
    signal::{self, SignalSet},
};

use super::{
    address,
    agent::{Agent, Carried},
    arguments::{Listener, Service},
    connection::{Chunk, Connection},
    cut_network::cut_network,
    descriptors::close_all_but,
    ending::{EXIT_SETUP, Ending},
    failing::failure,
    oom::OomScore,
    polling::{POLLIN, wait_for},
    prepare::{occupy_standard_streams, prepare},
    privilege,
    process_files::ProcessFiles,
    setup,
};
use crate::protocol::{FailStep, Header, Kind, Link, ProtocolError, Settings, Setup};

/// How long the host may take to say the next of its first messages, milliseconds: nobody may be there, where an engine keeps
/// the stream open for those who come later.
const FIRST_WORDS: u64 = 60_000;

/// How long nobody may come at all, where the first client comes by a name, milliseconds: whoever has started the agent may be gone.
const FIRST_VISITOR: u64 = 120_000;

/// How long the last words wait for the host to take them, milliseconds.
const LAST_WORDS: u64 = 1000;

/// Serves the host; gives the exit code.
pub(super) fn serve(service: &Service<'_>) -> i32 {
    let mut keep = Vec::from([0, 1, 2]);
    keep.extend(
        service
            .ends
            .iter()
            .flat_map(|ends| [ends.input, ends.output]),
    );
    if let Some(Listener::Descriptor(raw)) = service.listener {
        keep.push(raw);
    }
    close_all_but(&mut keep, None);
    if service.cut_network
        && let Err(failed) = cut_network()
    {
        // Nobody has come yet who could be told.
        let mut stderr = io::Writer::new(2);
        // Without a place to say it, the code says it.
        let _ = writeln!(
            stderr,
            "sandbox-agent: cannot take the network away: {failed}"
        );
        let _ = stderr.flush();
        return EXIT_SETUP;
    }
    if let Some(path) = service.close {
        // Whoever is not its owner may not do it, and the host looks for itself what came of it.
        let _ = fs::change_mode(fs::AT_FDCWD, path, 0o600);
    }
    let first = match service.ends {
        Some(ends) => Connection::new(ends)
            .map(|connection| (connection, None))
            .map_err(|errno| broken("stream", errno)),
        None => first_visitor(service),
    };
    let (mut connection, listener) = match first {
        Ok((connection, listener)) => (connection, listener),
        Err(ending) => return ending.exit_code(),
    };
    let ending = match establish(&mut connection, service, listener) {
        Ok(agent) => return agent.run(connection).exit_code(),
        Err(ending) => ending,
    };
    if let Some(failure) = ending.failure() {
        connection
            .outgoing
            .message(0, Kind::Failed, &failure.encode());
        connection.finish();
        connection.send_all(LAST_WORDS);
    }
    ending.exit_code()
}

/// Waits for the first client at the door, which has no key to ask for yet: no code runs before it has come.
fn first_visitor(service: &Service<'_>) -> Result<(Connection, Option<Fd>), Ending> {
    occupy_standard_streams().map_err(|errno| broken("standard streams", errno))?;
    let listener = listen(service)?;
    let Some(socket) = &listener else {
        return Err(broken("listening socket", Errno::EBADF));
    };
    if !wait_for(socket.as_raw(), POLLIN, Some(FIRST_VISITOR)) {
        return Err(Ending::LeaseOver);
    }
    let visitor = net::accept(socket, SOCK_CLOEXEC | SOCK_NONBLOCK)
        .map_err(|errno| broken("first client", errno))?;
    Ok((Connection::of_socket(visitor), listener))
}

fn listen(service: &Service<'_>) -> Result<Option<Fd>, Ending> {
    Ok(match service.listener {
        None => None,
        Some(Listener::Descriptor(raw)) => Some(Fd::from_raw(raw)),
        Some(Listener::Name(name)) => {
            Some(address::listen(name).map_err(|errno| broken("listening socket", errno))?)
        }
    })
}

fn broken(what: &'static str, errno: Errno) -> Ending {
    Ending::Broken(failure(FailStep::Settings, errno, what))
}

fn establish(
    connection: &mut Connection,
    service: &Service<'_>,
    listener: Option<Fd>,
) -> Result<Agent, Ending> {
    let mut chunk = Chunk::new().map_err(|errno| broken("memory", errno))?;
    occupy_standard_streams().map_err(|errno| broken("standard streams", errno))?;
    // Behind the standard streams, so that it does not become one.
    let listener = match listener {
        Some(listener) => Some(listener),
        None => listen(service)?,
    };
    default_signals().map_err(|errno| broken("signals", errno))?;
    fs::set_umask(0);
    // Before a change of identity takes the file out of reach. Without a procfs, agent and code are equal victims.
    let oom = OomScore::open().ok();
    let mut files = None;
    let mut die_with_parent = false;
    if service.setup {
        let message = expect(connection, &mut chunk, Kind::Setup)?;
        let setup = Setup::decode(&message)?;
        die_with_parent = setup.die_with_parent;
        files = setup::build(&setup, connection, &mut chunk)?;
    }
    let message = expect_settings(connection, &mut chunk, listener.is_some())?;
    let settings = Settings::decode(&message)?;
    let files = files.or_else(|| ProcessFiles::open().ok());
    let (sandbox, welcome) = prepare(&settings, files, oom).map_err(Ending::Refused)?;
    let agent =
        Agent::new(sandbox, &settings, welcome, listener, chunk).map_err(Ending::Refused)?;
    // A socket with a name is for those who can only start a program beside the agent.
    let agent = agent.carried(match (service.listener, service.ends) {
        (Some(Listener::Name(_)), None) => Carried::All,
        (Some(Listener::Name(_)), Some(_)) => Carried::Later,
        _ => Carried::Nobody,
    });
    if die_with_parent {
        privilege::die_with_parent().map_err(|errno| broken("PR_SET_PDEATHSIG", errno))?;
    }
    Ok(agent)
}

/// The settings. They may come over a link where its stream `may_return`: by the listener.
fn expect_settings(
    connection: &mut Connection,
    chunk: &mut Chunk,
    may_return: bool,
) -> Result<Vec<u8>, Ending> {
    let (header, message) = next_message(connection, chunk)?;
    match header.kind {
        Kind::Hello => Ok(message),
        Kind::Link if may_return => {
            connection.begin_link(Link::decode(&message)?.secret)?;
            expect(connection, chunk, Kind::Hello)
        }
        _ => Err(unexpected()),
    }
}

/// The next message, which must be of this kind.
pub(super) fn expect(
    connection: &mut Connection,
    chunk: &mut Chunk,
    kind: Kind,
) -> Result<Vec<u8>, Ending> {
    match next_message(connection, chunk)? {
        (header, message) if header.kind == kind => Ok(message),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Ending {
    Ending::Protocol(ProtocolError::Unexpected("first message"))
}

fn next_message(
    connection: &mut Connection,
    chunk: &mut Chunk,
) -> Result<(Header, Vec<u8>), Ending> {
    match connection.wait_message(chunk, FIRST_WORDS)? {
        None if connection.is_alive() => Err(Ending::LeaseOver),
        None => Err(Ending::Protocol(ProtocolError::Truncated)),
        Some((header, message)) if header.stream == 0 => Ok((header, message)),
        Some(_) => Err(unexpected()),
    }
}

/// Blocks every signal, so that none that a terminal or an engine sends ends the agent, and gives each its default effect,
/// which programs inherit.
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
