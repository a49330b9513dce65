//! Several exchanges with servers, whose answers another program compares.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::runtime::Errno;

use crate::ProbeArguments;
use crate::call::{close, now, pause, poll};
use crate::call_result::{self, CallResult};
use crate::kernel;
use crate::named::{NAME_SERVER, digits, look_up, send};
use crate::network::{Address, DATAGRAM, STREAM, connect};

/// The longest wait for an answer, in milliseconds. A busy host carries connections late.
const WAIT: usize = 10_000;

/// The most bytes of all answers on a connection.
const LONGEST_ANSWER: usize = 16 * 1024;

/// The pause between two pieces of a message, and between two idle connections, in milliseconds.
const BETWEEN: usize = 10;

/// How a message is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Datagram,
    Stream,
    /// The client ends its side after the message.
    EndedStream,
}

/// What came back, and the error that ended it.
struct ExchangeAnswer {
    bytes: Vec<u8>,
    error: Option<Errno>,
}

/// Sends each message, and prints what comes back: hexadecimal digits, and the error that ended the
/// exchange, separated by commas. After one that takes too long, no other is made. Arguments, three
/// for each: `udp`, `tcp` or `ended`; a name or an address with a port; the message in hexadecimal
/// digits, whose pieces are separated by commas.
pub fn exchanges(arguments: &ProbeArguments) -> CallResult {
    let mut printed = Vec::new();
    let mut is_silent = false;
    for first in (0..arguments.count()).step_by(3) {
        let transport = match arguments.text(first) {
            "udp" => Transport::Datagram,
            "tcp" => Transport::Stream,
            "ended" => Transport::EndedStream,
            _ => call_result::give_up("not_a_transport"),
        };
        let pieces: Vec<_> = arguments.text(first + 2).split(',').map(digits).collect();
        // Where one has no end, the others would take as long.
        let reached = match is_silent {
            true => Err(Errno::ETIMEDOUT),
            false => target(arguments.text(first + 1)),
        };
        let answer = match reached {
            Ok(address) => exchange(&address, transport, &pieces),
            Err(error) => ExchangeAnswer {
                bytes: Vec::new(),
                error: Some(error),
            },
        };
        is_silent |= answer.error == Some(Errno::ETIMEDOUT);
        let mut text: String = answer
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if let Some(error) = answer.error {
            text.push_str(&format!("!{error}"));
        }
        printed.push(text);
    }
    Ok(printed.join(","))
}

/// An address, or that of a name.
fn target(text: &str) -> Result<Address, Errno> {
    match (Address::parse(text), text.split_once('/')) {
        (Some(address), _) => Ok(address),
        (None, Some((name, port))) => look_up(name, port),
        (None, None) => call_result::give_up("not_an_address"),
    }
}

fn exchange(address: &Address, transport: Transport, pieces: &[Vec<u8>]) -> ExchangeAnswer {
    let mut bytes = Vec::new();
    let kind = match transport {
        Transport::Datagram => DATAGRAM,
        Transport::Stream | Transport::EndedStream => STREAM,
    };
    let error = match connect(address, kind) {
        Ok(socket) => {
            let end = talk(socket, transport, pieces, &mut bytes);
            close(socket);
            end.err()
        }
        Err(error) => Some(error),
    };
    ExchangeAnswer { bytes, error }
}

fn talk(
    socket: i32,
    transport: Transport,
    pieces: &[Vec<u8>],
    answer: &mut Vec<u8>,
) -> Result<(), Errno> {
    const SHUT_WR: usize = 1;
    for (index, piece) in pieces.iter().enumerate() {
        if index > 0 {
            pause(BETWEEN);
        }
        send(socket, piece)?;
    }
    if transport == Transport::EndedStream {
        match kernel!(SHUTDOWN, socket, SHUT_WR) {
            // The peer has closed the connection already. Its answer can still be read.
            Ok(_) | Err(Errno::ENOTCONN) => {}
            Err(error) => return Err(error),
        }
    }
    while answer.len() < LONGEST_ANSWER {
        if !poll(socket, 1, WAIT)? {
            return Err(Errno::ETIMEDOUT);
        }
        let mut piece = [0u8; 2048];
        let length = kernel!(READ, socket, piece.as_mut_slice(), piece.len())?;
        answer.extend_from_slice(&piece[..length]);
        if length == 0 || transport == Transport::Datagram {
            return Ok(());
        }
    }
    Ok(())
}

/// Connects also to a busy server, whose queue of connections is full for a moment.
fn connect_in_time(address: &Address) -> Result<i32, Errno> {
    const TRIES: usize = 10;
    for _ in 1..TRIES {
        match connect(address, STREAM) {
            Err(Errno::ETIMEDOUT) => {}
            done => return done,
        }
    }
    connect(address, STREAM)
}

/// Opens connections to the sandbox's name server that say nothing, and then asks a question over
/// another one. The value is the time until the answer, in milliseconds. Arguments: how many
/// connections, the longest time, the question in hexadecimal digits.
pub fn ask_behind(arguments: &ProbeArguments) -> CallResult {
    let server = Address::parse(NAME_SERVER).ok_or(Errno::EINVAL)?;
    for _ in 0..arguments.number(0) {
        // The end of the program closes it.
        connect_in_time(&server)?;
        // So the server accepts it, and its queue is not full.
        pause(BETWEEN);
    }
    let question = digits(arguments.text(2));
    let start = now();
    let socket = connect_in_time(&server)?;
    send(socket, &question)?;
    if !poll(socket, 1, arguments.number(1))? {
        return Err(Errno::ETIMEDOUT.into());
    }
    let mut answer = [0u8; 512];
    match kernel!(READ, socket, answer.as_mut_slice(), answer.len())? {
        0 => Err(Errno::ECONNRESET.into()),
        _ => Ok(format!("{}", now() - start)),
    }
}
