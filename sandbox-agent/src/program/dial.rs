//! The modes `dial`, `await-denial` and `answer`: test which connections a pod's network allows. No
//! data is sent: the connection itself is the result.

use alloc::vec::Vec;
use core::{
    ffi::CStr,
    fmt::Write,
    net::{IpAddr, SocketAddr},
};

use crate::runtime::{
    Errno, Fd, FdWriter,
    environment::Environment,
    fs, io,
    net::{
        self, AF_INET, AF_INET6, Ipv4Address, Ipv6Address, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM,
    },
    time,
};

use super::{
    exit_reason::{EXIT_SETUP, EXIT_USAGE},
    poll_set::{MonotonicMicros, POLLOUT, PollSet, after, now},
};

/// Timeout of one attempt, in milliseconds. The peer's kernel accepts a connection, even if its
/// processes are busy.
const ATTEMPT_TIMEOUT_MS: u64 = 1000;
/// The pause between two rounds, in microseconds.
const ROUND_INTERVAL_US: u64 = 50_000;
/// The variable with the address of the cluster's API server, which the kubelet sets in every
/// container.
const API_VARIABLE: &[u8] = b"KUBERNETES_SERVICE_HOST=";
/// The port of the API server's service.
const API_PORT: u16 = 443;
/// The file that lists the name servers, and their port.
const RESOLV_CONF: &CStr = c"/etc/resolv.conf";
const DNS_PORT: u16 = 53;
/// The largest size of the file, in bytes.
const MAX_RESOLV_CONF: usize = 64 * 1024;
/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 64;

/// Accepts and closes every connection to a port, over IPv4 and IPv6. Returns only on failure, with
/// the exit code.
pub(super) fn answer(port: u16) -> i32 {
    match listen_forever(port) {
        Ok(never) => match never {},
        Err(errno) => fail(
            format_args!("cannot listen on port {port}: {errno}"),
            EXIT_SETUP,
        ),
    }
}

fn listen_forever(port: u16) -> Result<core::convert::Infallible, Errno> {
    let socket = match net::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) {
        // Accepts IPv4 as well.
        Ok(socket) => net::bind(&socket, &Ipv6Address::new([0; 16], port)).map(|()| socket),
        Err(errno) => Err(errno),
    };
    let socket = match socket {
        Ok(socket) => socket,
        Err(_) => {
            let socket = net::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)?;
            net::bind(&socket, &Ipv4Address::new([0; 4], port))?;
            socket
        }
    };
    net::listen(&socket, BACKLOG)?;
    loop {
        match net::accept(&socket, SOCK_CLOEXEC) {
            Ok(connection) => drop(connection),
            // The connection was aborted before it was accepted.
            Err(_) => pause(),
        }
    }
}

/// Connects to all targets, round after round. Ends when each has succeeded once; with
/// `until_denied`, when every attempt of a round failed. The first argument bounds the time, in
/// milliseconds.
///
/// Prints one line for each address: the target, the address, and `open` or the error. Returns the
/// exit code; with `until_denied`, it says whether all connections were denied in time.
pub(super) fn dial(environment: Environment, until_denied: bool) -> i32 {
    // After the program's name and the mode.
    let mut arguments = environment.arguments().skip(2);
    let time = arguments
        .next()
        .and_then(|word| word.to_str().ok()?.parse().ok());
    let Some(time) = time else {
        return fail(format_args!("no time to dial for"), EXIT_USAGE);
    };
    let mut attempts = Vec::new();
    for target in arguments {
        let Ok(name) = target.to_str() else {
            return fail(format_args!("a target is no text"), EXIT_USAGE);
        };
        match addresses(name, environment) {
            Ok(addresses) => {
                attempts.extend(addresses.into_iter().map(|to| DialAttempt::new(name, to)))
            }
            Err(errno) => return fail(format_args!("no target {name}: {errno}"), EXIT_USAGE),
        }
    }
    let end = after(now(), time);
    loop {
        let result = if until_denied {
            attempts.iter_mut().for_each(DialAttempt::reset);
            try_all(&mut attempts, after(now(), ATTEMPT_TIMEOUT_MS))
        } else {
            try_all(&mut attempts, after(now(), ATTEMPT_TIMEOUT_MS).min(end))
        };
        if let Err(errno) = result {
            return fail(format_args!("cannot dial: {errno}"), EXIT_SETUP);
        }
        let open = attempts.iter().filter(|attempt| attempt.is_open()).count();
        let done = if until_denied {
            open == 0
        } else {
            open == attempts.len()
        };
        if done || now() >= end {
            break;
        }
        pause();
    }
    let mut stdout = FdWriter::new(1);
    let written = attempts
        .iter()
        .try_for_each(|attempt| writeln!(stdout, "{attempt}"));
    if written.is_err() || stdout.flush().is_err() {
        return EXIT_SETUP;
    }
    if until_denied && attempts.iter().any(DialAttempt::is_open) {
        return fail(format_args!("the network is not denied"), EXIT_SETUP);
    }
    0
}

fn pause() {
    // A signal only shortens the pause.
    let _ = time::sleep_microseconds(ROUND_INTERVAL_US);
}

fn fail(message: core::fmt::Arguments<'_>, code: i32) -> i32 {
    let mut stderr = FdWriter::new(2);
    // A failure to write is visible in the exit code alone.
    let _ = writeln!(stderr, "sandbox-agent: {message}");
    let _ = stderr.flush();
    code
}

/// The addresses of a target: `api`, `dns`, or an address with a port. Empty if the pod has none
/// configured.
fn addresses(name: &str, environment: Environment) -> Result<Vec<SocketAddr>, Errno> {
    match name {
        "api" => {
            let mut variables = environment.variables();
            let addresses =
                variables.find_map(|text| address(text.to_bytes().strip_prefix(API_VARIABLE)?));
            Ok(addresses
                .map(|ip| SocketAddr::new(ip, API_PORT))
                .into_iter()
                .collect())
        }
        "dns" => match read(RESOLV_CONF) {
            Ok(text) => Ok(resolvers(&text)),
            Err(Errno::ENOENT) => Ok(Vec::new()),
            Err(errno) => Err(errno),
        },
        _ => name
            .parse()
            .map(|to| Vec::from([to]))
            .map_err(|_| Errno::EINVAL),
    }
}

fn read(path: &CStr) -> Result<Vec<u8>, Errno> {
    let file = fs::open(path, fs::O_RDONLY | fs::O_CLOEXEC, 0)?;
    let mut text = Vec::new();
    io::read_to_end(&file, &mut text, MAX_RESOLV_CONF)?;
    Ok(text)
}

fn address(text: &[u8]) -> Option<IpAddr> {
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The name servers in a `resolv.conf`.
fn resolvers(text: &[u8]) -> Vec<SocketAddr> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let rest = line.trim_ascii_start().strip_prefix(b"nameserver")?;
            Some(SocketAddr::new(address(rest)?, DNS_PORT))
        })
        .collect()
}

/// One address of a target, and the result.
#[derive(Debug)]
struct DialAttempt<'a> {
    target: &'a str,
    to: SocketAddr,
    /// The connection in progress.
    socket: Option<Fd>,
    outcome: Result<(), Errno>,
}

impl<'a> DialAttempt<'a> {
    fn new(target: &'a str, to: SocketAddr) -> Self {
        Self {
            target,
            to,
            socket: None,
            outcome: Err(Errno::ETIMEDOUT),
        }
    }

    fn is_open(&self) -> bool {
        self.outcome.is_ok()
    }

    fn reset(&mut self) {
        self.outcome = Err(Errno::ETIMEDOUT);
    }

    /// Starts or continues to connect.
    fn advance(&mut self) -> Result<(), Errno> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => {
                let family = if self.to.is_ipv4() { AF_INET } else { AF_INET6 };
                match net::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) {
                    Ok(socket) => socket,
                    // Without the address family, no connection is possible.
                    Err(errno @ Errno::EAFNOSUPPORT) => {
                        self.outcome = Err(errno);
                        return Ok(());
                    }
                    Err(errno) => return Err(errno),
                }
            }
        };
        let connected = match self.to {
            SocketAddr::V4(to) => {
                net::connect(&socket, &Ipv4Address::new(to.ip().octets(), to.port()))
            }
            SocketAddr::V6(to) => {
                net::connect(&socket, &Ipv6Address::new(to.ip().octets(), to.port()))
            }
        };
        match connected {
            Err(Errno::EINPROGRESS | Errno::EALREADY) => self.socket = Some(socket),
            Ok(()) | Err(Errno::EISCONN) => self.outcome = Ok(()),
            Err(errno) => self.outcome = Err(errno),
        }
        Ok(())
    }
}

impl core::fmt::Display for DialAttempt<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {} ", self.target, self.to)?;
        match self.outcome {
            Ok(()) => f.write_str("open"),
            Err(errno) => write!(f, "{errno}"),
        }
    }
}

/// Tries every attempt that has not succeeded yet once.
fn try_all(attempts: &mut [DialAttempt<'_>], until: MonotonicMicros) -> Result<(), Errno> {
    for attempt in attempts.iter_mut().filter(|attempt| !attempt.is_open()) {
        attempt.advance()?;
    }
    let mut set = PollSet::new();
    while now() < until {
        set.clear();
        for (index, attempt) in attempts.iter().enumerate() {
            if let Some(socket) = &attempt.socket {
                set.add(socket.as_raw(), POLLOUT, index);
            }
        }
        if set.is_empty() {
            break;
        }
        set.wait(Some(until))?;
        let ready: Vec<_> = set.ready().map(|(index, _)| index).collect();
        for index in ready {
            attempts[index].advance()?;
        }
    }
    for attempt in attempts.iter_mut() {
        if attempt.socket.take().is_some() {
            attempt.outcome = Err(Errno::ETIMEDOUT);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(to: SocketAddr) -> DialAttempt<'static> {
        DialAttempt::new("t", to)
    }

    #[test]
    fn open_and_refused_ports_are_distinguished() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = closed.local_addr().unwrap();
        drop(closed);
        let mut attempts = [attempt(open), attempt(refused)];
        try_all(&mut attempts, after(now(), 5000)).unwrap();
        assert!(attempts[0].is_open());
        assert_eq!(attempts[1].outcome, Err(Errno::ECONNREFUSED));
        let line = alloc::format!("{}", attempts[0]);
        assert_eq!(line, alloc::format!("t {open} open"));
        // A successful attempt is not repeated until it is reset.
        drop(listener);
        try_all(&mut attempts, after(now(), 5000)).unwrap();
        assert!(attempts[0].is_open());
        attempts[0].reset();
        try_all(&mut attempts, after(now(), 5000)).unwrap();
        assert!(!attempts[0].is_open());
    }

    #[test]
    fn name_servers_are_read_from_resolv_conf() {
        let addresses =
            resolvers(b"search a b\nnameserver 10.96.0.10\n nameserver fd00::a\nnameserver x\n");
        let expected: [SocketAddr; 2] = [
            "10.96.0.10:53".parse().unwrap(),
            "[fd00::a]:53".parse().unwrap(),
        ];
        assert_eq!(addresses, expected);
    }
}
