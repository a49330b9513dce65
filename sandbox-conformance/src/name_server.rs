//! A name server on this host's loopback. It answers for the names of probes, and keeps what it was
//! asked.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};

use sandbox_host::egress::{NAME_SERVERS, NameServers};
use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, ResourceRecord, TYPE};

use crate::addresses;
use crate::host_fixture::random_name;
use crate::probe::ProbeError;

/// Names below it have the address of the loopback.
pub const OPEN: &str = "open.test";

/// The same, with a rule that a probe uses up.
pub const MANY: &str = "many.test";

/// Names below it have the address of the loopback at first, and then [`ANOTHER_ADDRESS`].
pub const REBOUND: &str = "rebound.test";

/// Names below it have an address that means the loopback to this host.
pub const UNSPECIFIED: &str = "unspecified.test";

/// Names below it have the loopback's address in the form of IPv6.
pub const MAPPED: &str = "mapped.test";

/// The names `0.own.test`, `1.own.test` and so on, and those names below `private.own.test`, have
/// the addresses of this host: those of IPv4, then those of IPv6.
pub const OWN: &str = "own.test";

/// The names `0.special.test`, `1.special.test` and so on have the [`SPECIAL_ADDRESSES`].
pub const SPECIAL: &str = "special.test";

/// Addresses that no rule without `private` allows: of IANA's registries of special-purpose
/// addresses, and those at which clouds serve metadata.
pub const SPECIAL_ADDRESSES: [&str; 30] = [
    "0.0.0.1",
    "10.255.255.254",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.3",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.251",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "64:ff9b::127.0.0.1",
    "100::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
];

/// Another address of the loopback.
pub const ANOTHER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The questions of this process, as they were asked.
static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How often the address of a name was asked for.
static COUNTS: LazyLock<Mutex<HashMap<String, usize>>> = LazyLock::new(Mutex::default);

/// The variable that makes this process ask the suite's server. Its address is chosen before the
/// process starts, and no other run has it.
#[must_use]
pub fn name_server_variable() -> (&'static str, String) {
    let random = random_name();
    let byte = |at: usize| u8::from_str_radix(&random[at..at + 2], 16).unwrap_or_default();
    // Not the part of the loopback that services use.
    let address = Ipv4Addr::new(127, byte(0) | 0x80, byte(2), byte(4).max(1));
    (
        NAME_SERVERS,
        SocketAddr::new(address.into(), 5300).to_string(),
    )
}

/// Starts the server at the address in [`NAME_SERVERS`], once.
///
/// # Errors
///
/// If this process was started without the variable, or if the address is in use.
pub(crate) fn started() -> Result<(), ProbeError> {
    static STARTED: LazyLock<Result<(), String>> = LazyLock::new(start);
    let failed = |error| ProbeError::new(format!("the suite's name server: {error}"));
    STARTED.clone().map_err(failed)
}

fn start() -> Result<(), String> {
    let address = address().map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let accept = move || {
        for peer in listener.incoming().flatten() {
            // Without a thread the client sees the end, and no probe takes that for an answer.
            let _ = std::thread::Builder::new().spawn(move || serve(peer));
        }
    };
    let started = std::thread::Builder::new().spawn(accept);
    started.map(drop).map_err(|error| error.to_string())
}

/// The names with this text that were asked for, each once, as they were asked. Case is ignored.
#[must_use]
pub fn asked(text: &str) -> Vec<String> {
    let text = text.to_ascii_lowercase();
    let asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut names: Vec<String> = asked
        .iter()
        .filter(|name| name.to_ascii_lowercase().contains(&text))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Where the server is.
pub(crate) fn address() -> Result<SocketAddr, ProbeError> {
    let servers = NameServers::from_environment()?;
    let address = servers.and_then(|servers| servers.addresses().first().copied());
    address.ok_or_else(|| ProbeError::new(format!("{NAME_SERVERS} is not set")))
}

/// Asks the server for the address of a name, as a resolver does. Returns whether it has one.
///
/// # Errors
///
/// If the server does not answer.
pub(crate) fn ask(name: &str) -> Result<bool, ProbeError> {
    let mut server = TcpStream::connect(address()?)?;
    server.write_all(&question(name)?)?;
    let answer = receive(&mut server)?;
    Ok(!Packet::parse(&answer)?.answers.is_empty())
}

/// A question for the address of a name, behind its length.
pub(crate) fn question(name: &str) -> Result<Vec<u8>, ProbeError> {
    let mut packet = Packet::new_query(1);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Question::new(Name::new(name)?, TYPE::A.into(), CLASS::IN.into(), false);
    packet.questions.push(question);
    Ok(framed(&packet)?)
}

/// Answers questions until the client ends.
fn serve(mut peer: TcpStream) -> io::Result<()> {
    loop {
        let question = receive(&mut peer)?;
        let mut reply = Packet::parse(&question)
            .map_err(io::Error::other)?
            .into_reply();
        let Some(question) = reply.questions.first().cloned() else {
            return Ok(());
        };
        let name = question.qname.to_string();
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(name.clone());
        drop(asked);
        match records(&name.to_ascii_lowercase(), &question) {
            Some(records) => {
                let record = |data| ResourceRecord::new(question.qname.clone(), CLASS::IN, 0, data);
                reply.answers.extend(records.into_iter().map(record));
            }
            None => *reply.rcode_mut() = RCODE::NameError,
        }
        // The client may have left, and its other questions count.
        let _ = peer.write_all(&framed(&reply)?);
    }
}

/// The answer to a question; `None` for an unknown name.
fn records(name: &str, question: &Question<'_>) -> Option<Vec<RData<'static>>> {
    let below = |suffix: &str| {
        let label = name.strip_suffix(suffix);
        label.is_some_and(|label| label.ends_with('.'))
    };
    let is_ipv4 = question.qtype == TYPE::A.into();
    let ipv4 = |address: Ipv4Addr| match is_ipv4 {
        true => vec![RData::A(A {
            address: address.into(),
        })],
        false => Vec::new(),
    };
    let record = |address: IpAddr| match address {
        IpAddr::V4(address) => ipv4(address),
        IpAddr::V6(_) if is_ipv4 => Vec::new(),
        IpAddr::V6(address) => vec![RData::AAAA(AAAA {
            address: address.into(),
        })],
    };
    if below(OPEN) || below(MANY) {
        Some(ipv4(Ipv4Addr::LOCALHOST))
    } else if below(REBOUND) {
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(name.to_owned()).or_default();
        *count += usize::from(is_ipv4);
        Some(ipv4(match *count <= 1 {
            true => Ipv4Addr::LOCALHOST,
            false => ANOTHER_ADDRESS,
        }))
    } else if below(SPECIAL) {
        let number: usize = name.split('.').next()?.parse().ok()?;
        Some(record(SPECIAL_ADDRESSES.get(number)?.parse().ok()?))
    } else if below(OWN) {
        let number: usize = name.split('.').next()?.parse().ok()?;
        let mut all = addresses::of_host(true);
        all.extend(addresses::of_host(false));
        Some(record(*all.get(number)?))
    } else if below(UNSPECIFIED) {
        Some(ipv4(Ipv4Addr::UNSPECIFIED))
    } else if below(MAPPED) {
        let address = Ipv4Addr::LOCALHOST.to_ipv6_mapped().into();
        Some(match is_ipv4 {
            true => Vec::new(),
            false => vec![RData::AAAA(AAAA { address })],
        })
    } else {
        None
    }
}

/// A message behind its length, by RFC 1035.
fn framed(packet: &Packet<'_>) -> io::Result<Vec<u8>> {
    let message = packet.build_bytes_vec().map_err(io::Error::other)?;
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes()[..], &message].concat())
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message)?;
    Ok(message)
}
