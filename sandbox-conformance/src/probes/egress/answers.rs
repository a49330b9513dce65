//! What the sandbox's name server answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use simple_dns::rdata::{OPTCode, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::exchanges::{self, Exchange, ExchangeAnswer, Transport};
use super::{names, rules};
use crate::egress_server::EgressServer;
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// The name server of a sandbox with rules.
pub(super) const SERVER: &str = "198.18.0.1";
pub(super) const PORT: u16 = 53;

/// A name with a rule of its own.
pub(super) const EXACT: &str = "exact.test";

/// What a question must be answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// An address of this type, or none of IPv6 where the sandbox has no IPv6.
    Address,
    /// The name exists, and has no record of the type.
    NoRecord,
    /// The name does not exist.
    NoName,
}

use Expected::{Address, NoName, NoRecord};

/// Names, types of records, and the answers. The rules are those of [`answering`].
const QUESTIONS: &[(&str, TYPE, Expected)] = &[
    (EXACT, TYPE::A, Address),
    (EXACT, TYPE::AAAA, Address),
    (EXACT, TYPE::TXT, NoRecord),
    (EXACT, TYPE::MX, NoRecord),
    (EXACT, TYPE::HTTPS, NoRecord),
    ("x.exact.test", TYPE::A, NoName),
    ("notexact.test", TYPE::A, NoName),
    ("exact.test.test", TYPE::A, NoName),
    ("test", TYPE::A, NoName),
    ("open.test", TYPE::A, NoName),
    ("xopen.test", TYPE::A, NoName),
    ("notopen.test", TYPE::A, NoName),
    ("x.open.test", TYPE::A, Address),
    ("x.y.open.test", TYPE::A, Address),
    ("_x-1.open.test", TYPE::A, Address),
    ("a b.open.test", TYPE::A, NoName),
    // Beyond the bounds of a wildcard: its connections are reset.
    ("1.2.3.4.5.6.7.8.9.open.test", TYPE::A, Address),
    ("closed.open.test", TYPE::A, NoName),
    ("closed.open.test", TYPE::AAAA, NoName),
    ("closed.open.test", TYPE::TXT, NoName),
    ("x.closed.open.test", TYPE::A, Address),
    ("below.open.test", TYPE::A, Address),
    ("x.below.open.test", TYPE::A, NoName),
    // Their only port is denied, and another one.
    ("port.open.test", TYPE::A, NoName),
    ("other.open.test", TYPE::A, Address),
    ("other.open.test", TYPE::AAAA, Address),
];

/// Rules for the [`QUESTIONS`].
pub(super) fn answering() -> SandboxSetup {
    let server = EgressServer::get();
    let (open, held) = (server.open, server.held);
    rules(&[
        format!("{EXACT}:{open} tcp private"),
        format!("*.{OPEN}:{open} tcp private"),
        "!closed.open.test".to_owned(),
        "!*.below.open.test".to_owned(),
        format!("!port.open.test:{open}"),
        format!("!other.open.test:{held}"),
    ])
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let deviation = ask_all(context).await;
    context.record_attack(behavior("ask the sandbox's name server", deviation));
    context.no_host_effect("questions stay in the sandbox");
    Ok(())
}

async fn ask_all(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let questions: Vec<Vec<u8>> = QUESTIONS
        .iter()
        .enumerate()
        .map(|(number, (name, kind, _))| question(number, name, *kind, number % 2 == 1))
        .collect();
    let datagrams = questions
        .iter()
        .map(|message| Exchange::new(Transport::Datagram, SERVER, PORT, &**message));
    // All of them over one connection, cut within a question.
    let framed = questions.iter().map(|message| framed(message));
    let framed = framed.collect::<Vec<_>>().concat();
    let stream = Exchange::new(Transport::EndedStream, SERVER, PORT, framed).cut(45);
    let upper = question(100, &EXACT.to_ascii_uppercase(), TYPE::A, false);
    let upper = Exchange::new(Transport::Datagram, SERVER, PORT, upper);
    let exchanges: Vec<_> = datagrams.chain([stream, upper]).collect();
    let answers = exchanges::make(context, &exchanges).await?;
    let [datagrams @ .., stream, upper] = &answers[..] else {
        return Err(Attempt::unclear("too few answers"));
    };
    let mut addresses = Vec::new();
    for ((number, row), answer) in QUESTIONS.iter().enumerate().zip(datagrams) {
        match check(number, row, &answer.bytes) {
            Ok(found) => addresses.push(found),
            Err(why) => return Ok(Some(format!("{}: {why}", row.0))),
        }
    }
    if unframed(stream) != Some(datagrams.iter().map(|answer| &*answer.bytes).collect()) {
        return Ok(Some(format!("over TCP: {}", stream.text())));
    }
    let again = address(&upper.bytes);
    if again.is_none() || again != addresses[0] {
        return Ok(Some(format!("another address in upper case: {again:?}")));
    }
    let mut distinct: Vec<_> = addresses.iter().flatten().collect();
    let all = distinct.len();
    distinct.sort();
    distinct.dedup();
    if distinct.len() != all {
        return Ok(Some(format!("one address for two names: {addresses:?}")));
    }
    names_of(context, &addresses[..2]).await
}

/// Checks an answer, and returns the address in it.
fn check(
    number: usize,
    (name, kind, expected): &(&str, TYPE, Expected),
    answer: &[u8],
) -> Result<Option<IpAddr>, String> {
    let packet = Packet::parse(answer).map_err(|error| error.to_string())?;
    let repeats = packet.questions.first().is_some_and(|question| {
        question.qname.to_string() == *name
            && question.qtype == QTYPE::TYPE(*kind)
            && question.qclass == QCLASS::CLASS(CLASS::IN)
    });
    let is_answer = packet.has_flags(PacketFlag::RESPONSE) && usize::from(packet.id()) == number;
    if !is_answer || !repeats || packet.has_flags(PacketFlag::TRUNCATION) {
        return Err("it answers another question".to_owned());
    }
    let with_options = number % 2 == 1;
    // RFC 8914: a program can tell a name that the policy blocks from one that does not exist.
    let blocked = packet
        .opt()
        .is_some_and(|options| options.opt_codes.iter().any(|option| is_blocked(option)));
    if packet.opt().is_some() != with_options || blocked != (with_options && *expected == NoName) {
        return Err(format!("options: {:?}", packet.opt()));
    }
    let own = packet.answers.iter().all(|record| {
        record.name.to_string() == *name && record.class == CLASS::IN && record.ttl > 0
    });
    let found = match &packet.answers[..] {
        [record] if own => match (&record.rdata, kind) {
            (RData::A(a), TYPE::A) => Some(Ipv4Addr::from(a.address).into()),
            (RData::AAAA(aaaa), TYPE::AAAA) => Some(Ipv6Addr::from(aaaa.address).into()),
            _ => None,
        },
        _ => None,
    };
    let is_expected = match (packet.rcode(), expected) {
        (RCODE::NoError, Address) => match found {
            Some(address) => is_in_range(address),
            // Some containers have no IPv6.
            None => packet.answers.is_empty() && *kind == TYPE::AAAA,
        },
        (RCODE::NoError, NoRecord) | (RCODE::NameError, NoName) => packet.answers.is_empty(),
        _ => false,
    };
    match is_expected {
        true => Ok(found),
        false => Err(format!("{:?}, {:?}", packet.rcode(), packet.answers)),
    }
}

/// Whether an option is the extended error "blocked".
fn is_blocked(option: &OPTCode<'_>) -> bool {
    option.code == 15 && option.data.starts_with(&[0, 15])
}

/// Whether an address is one of those for names.
fn is_in_range(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            a == 198 && b & !1 == 18 && address.to_string() != SERVER
        }
        IpAddr::V6(address) => address.segments()[..4] == [0xfd00, 0x5b, 0, 0],
    }
}

/// An address has its name, and others have none.
async fn names_of(
    context: &mut ProbeContext,
    own: &[Option<IpAddr>],
) -> Result<Option<String>, Attempt> {
    let others = ["198.19.255.255", "192.0.2.1"].map(|other| other.parse().ok());
    let addresses: Vec<IpAddr> = own.iter().chain(&others).flatten().copied().collect();
    let questions: Vec<_> = addresses
        .iter()
        .map(|address| question(7, &reversed(*address), TYPE::PTR, false))
        .map(|question| Exchange::new(Transport::Datagram, SERVER, PORT, question))
        .collect();
    let answers = exchanges::make(context, &questions).await?;
    for (address, answer) in addresses.iter().zip(&answers) {
        let Ok(packet) = Packet::parse(&answer.bytes) else {
            return Ok(Some(format!("{address}: {}", answer.text())));
        };
        let is_right = match (packet.rcode(), &packet.answers[..]) {
            (RCODE::NoError, [record]) => {
                own.contains(&Some(*address))
                    && matches!(&record.rdata, RData::PTR(name) if name.0.to_string() == EXACT)
            }
            (RCODE::NameError, []) => !own.contains(&Some(*address)),
            _ => false,
        };
        if !is_right {
            return Ok(Some(format!("the name of {address}: {:?}", packet.answers)));
        }
    }
    Ok(None)
}

/// The name that stands for an address.
fn reversed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", address.to_bits());
            let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", labels.join("."))
        }
    }
}

/// The address in an answer.
fn address(answer: &[u8]) -> Option<IpAddr> {
    match &Packet::parse(answer).ok()?.answers[..] {
        [record] => match &record.rdata {
            RData::A(a) => Some(Ipv4Addr::from(a.address).into()),
            _ => None,
        },
        _ => None,
    }
}

/// A question with this number.
pub(super) fn question(number: usize, name: &str, kind: TYPE, with_options: bool) -> Vec<u8> {
    let mut packet = Packet::new_query(u16::try_from(number).expect("a short table"));
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new_unchecked(name);
    let question = Question::new(name, kind.into(), CLASS::IN.into(), false);
    packet.questions.push(question);
    let mut message = packet.build_bytes_vec().expect("a short question");
    if with_options {
        // One more record: the root's name, the type, 1,232 bytes, no flags, and a cookie.
        message[11] = 1;
        message.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 12]);
        message.extend_from_slice(&[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    message
}

/// A message behind its length.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a short question");
    [&length.to_be_bytes()[..], message].concat()
}

/// The messages of a connection. `None` if the last is not complete.
fn unframed(answer: &ExchangeAnswer) -> Option<Vec<&[u8]>> {
    let mut messages = Vec::new();
    let mut rest = &answer.bytes[..];
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (message, behind) = behind.split_at_checked(u16::from_be_bytes(*length).into())?;
        messages.push(message);
        rest = behind;
    }
    rest.is_empty().then_some(messages)
}
