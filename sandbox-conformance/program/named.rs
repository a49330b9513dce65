//! Calls on hosts by their names, which only the name server of a sandbox with egress rules knows.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{close, pause, poll};
use crate::call_result::{self, CallResult, Denied, any, done};
use crate::kernel;
use crate::network::{Address, DATAGRAM, STREAM, addresses, connect};

/// The name server of a sandbox with egress rules.
pub const NAME_SERVER: &str = "198.18.0.1/53";

/// The longest wait for an answer, in milliseconds. A busy host carries connections late.
const WAIT: usize = 10_000;

/// The answer of the suite's server. Others may answer in its place.
const ANSWER: &[u8] = b"here";

/// The most bytes of all answers on a connection.
const LONGEST_ANSWER: usize = 4096;

/// The addresses of names, and then others. Arguments from `first` on: names separated by commas or
/// nothing, their port, addresses.
fn targets(
    arguments: &ProbeArguments,
    first: usize,
) -> impl Iterator<Item = Result<Address, Errno>> + '_ {
    let (names, port) = (arguments.text(first), arguments.text(first + 1));
    let names = names.split(',').filter(|name| !name.is_empty());
    let named = names.map(move |name| look_up(name, port));
    named.chain(addresses(arguments, first + 2).map(Ok))
}

/// Sends a message in hexadecimal digits to each of the targets, until the suite's server answers.
fn reach(arguments: &ProbeArguments, kind: usize) -> CallResult {
    let message = digits(arguments.text(0));
    any(targets(arguments, 1).map(|address| exchange(&address?, kind, &message)))
}

/// Sends a message to every target. Success if the suite's server answers each. It ends early where
/// there is no name server.
pub fn each(arguments: &ProbeArguments) -> CallResult {
    let message = digits(arguments.text(0));
    let mut errors = Vec::new();
    for target in targets(arguments, 1) {
        match target {
            Ok(address) => errors.extend(exchange(&address, STREAM, &message).err()),
            Err(Errno::ENOENT) => errors.push(Errno::ENOENT),
            Err(error) => return Err(error.into()),
        }
    }
    match errors.is_empty() {
        true => done(),
        false => Err(Denied::Errors(errors)),
    }
}

/// Sends a message again and again over one connection. Success if the suite's server answers each
/// time. Arguments: how often, the message, targets, of which the first counts that accepts.
pub fn held(arguments: &ProbeArguments) -> CallResult {
    /// The pause between two messages, in milliseconds.
    const BETWEEN: usize = 50;
    let times = arguments.number(0);
    let message = digits(arguments.text(1));
    let mut refused = Vec::new();
    let mut connected = targets(arguments, 2).filter_map(|target| {
        let socket = target.and_then(|address| connect(&address, STREAM));
        socket.map_err(|error| refused.push(error)).ok()
    });
    let Some(socket) = connected.next() else {
        drop(connected);
        return Err(Denied::Errors(refused));
    };
    for _ in 0..times {
        if !ask(socket, &message)?.ends_with(ANSWER) {
            return Err(Errno::EACCES.into());
        }
        pause(BETWEEN);
    }
    done()
}

/// Sends a request to the first target that answers, and follows its redirection as HTTP clients do.
pub fn followed(arguments: &ProbeArguments) -> CallResult {
    let message = digits(arguments.text(0));
    let answers = targets(arguments, 1).filter_map(|address| {
        let socket = connect(&address.ok()?, STREAM).ok()?;
        let answer = ask(socket, &message).and_then(|answer| to_its_end(socket, answer));
        close(socket);
        answer.ok()
    });
    let answer = answers
        .map(|answer| String::from_utf8_lossy(&answer).into_owned())
        .next();
    let answer = answer.unwrap_or_default();
    let location = answer.split("Location: http://").nth(1);
    let location = location.and_then(|rest| rest.split("\r\n").next());
    let parsed = location.and_then(|location| {
        let (server, path) = location.split_once('/')?;
        let (host, port) = server.split_once(':')?;
        Some((host, port, path))
    });
    let Some((host, port, path)) = parsed else {
        return Err(Denied::Word("not_redirected"));
    };
    // Clients find the name `localhost` in a file, too.
    let own = Address::parse(&format!("127.0.0.1/{port}")).ok_or(Errno::EINVAL);
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let there = match Address::parse(&format!("{host}/{port}")) {
        Some(address) => Ok(address),
        None => look_up(host, port),
    };
    let tried = [there, own].into_iter();
    any(tried.map(|address| exchange(&address?, STREAM, request.as_bytes())))
}

pub fn tcp(arguments: &ProbeArguments) -> CallResult {
    reach(arguments, STREAM)
}

pub fn udp(arguments: &ProbeArguments) -> CallResult {
    reach(arguments, DATAGRAM)
}

/// The bytes of hexadecimal digits. Malformed ones end the program: they would be another message.
pub fn digits(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes = (0..text.len()).step_by(2).map(byte);
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.unwrap_or_else(|| call_result::give_up("not_a_number"))
}

fn exchange(address: &Address, kind: usize, message: &[u8]) -> Result<(), Errno> {
    let socket = connect(address, kind)?;
    let answer = ask(socket, message).and_then(|answer| match kind {
        STREAM => to_its_end(socket, answer),
        _ => Ok(answer),
    });
    close(socket);
    // The last of several answers counts. Somebody else may have given it, who says why not.
    match answer?.ends_with(ANSWER) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// The rest of an answer that has begun. Who answers also ends the connection.
fn to_its_end(socket: i32, mut answer: Vec<u8>) -> Result<Vec<u8>, Errno> {
    while answer.len() < LONGEST_ANSWER {
        if !poll(socket, 1, WAIT)? {
            return Err(Errno::ETIMEDOUT);
        }
        let mut piece = [0u8; 512];
        match kernel!(READ, socket, piece.as_mut_slice(), piece.len()) {
            // It was complete before the reset.
            Ok(0) | Err(Errno::ECONNRESET) => return Ok(answer),
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Sends a message without SIGPIPE.
pub fn send(socket: i32, message: &[u8]) -> Result<(), Errno> {
    const NO_SIGNAL: usize = 0o40000;
    kernel!(
        SENDTO,
        socket,
        message,
        message.len(),
        NO_SIGNAL,
        0usize,
        0usize
    )?;
    Ok(())
}

/// Sends a message and reads the beginning of the answer.
fn ask(socket: i32, message: &[u8]) -> Result<Vec<u8>, Errno> {
    send(socket, message)?;
    if !poll(socket, 1, WAIT)? {
        return Err(Errno::ETIMEDOUT);
    }
    let mut answer = [0u8; 512];
    match kernel!(READ, socket, answer.as_mut_slice(), answer.len())? {
        0 => Err(Errno::ECONNRESET),
        length => Ok(Vec::from(&answer[..length])),
    }
}

/// Asks the sandbox's name server for the IPv4 address of a name. `ENOENT` means that it has none.
pub fn look_up(name: &str, port: &str) -> Result<Address, Errno> {
    let server = Address::parse(NAME_SERVER).ok_or(Errno::EINVAL)?;
    // A number; the wish for recursion; one question, for an IPv4 address.
    let mut question = Vec::from([0x50, 0x52, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    let socket = connect(&server, DATAGRAM)?;
    let answer = ask(socket, &question);
    close(socket);
    // Behind the repeated question: a pointer to the name, type, class, time to live, length.
    let record = answer?.get(question.len()..).map(Vec::from);
    match record.as_deref() {
        Some([_, _, 0, 1, 0, 1, _, _, _, _, 0, 4, a, b, c, d, ..]) => {
            Address::parse(&format!("{a}.{b}.{c}.{d}/{port}")).ok_or(Errno::EINVAL)
        }
        _ => Err(Errno::ENOENT),
    }
}
