//! Names and ports that rules allow and deny, and how connections to them end.

use super::exchanges::{self, Exchange, ExchangeAnswer, Transport};
use super::{names, rules};
use crate::egress_server::{EgressServer, UNTIL_END};
use crate::name_server::OPEN;
use crate::probes::prelude::*;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DestinationEnd {
    /// The server answers.
    Carried,
    /// The name does not exist.
    NoName,
    /// Nothing listens at the port of the name.
    NoPort,
    /// There is no route to the address.
    NoRoute,
    /// The host resets it.
    Reset,
}

use DestinationEnd::{Carried, NoName, NoPort, Reset};

/// A port of the suite's server, or one that the suite does not serve.
#[derive(Debug, Clone, Copy)]
enum Port {
    Open,
    Held,
    Public,
    OfAnother,
    Number(u16),
}

use Port::{Held, Number, OfAnother, Open, Public};

/// The longest part of a name that a wildcard takes: 100 characters.
const LONGEST: &str = "a123456789012345678901234567890123456789.\
                       b123456789012345678901234567890123456789.c12345678901234567";

/// Names, ports and ends of connections. The rules are those of [`deciding`]. The word `longest`
/// stands for [`LONGEST`], and `+` for one more character.
const ROWS: &[(&str, Port, DestinationEnd)] = &[
    ("x.open.test", Open, Carried),
    ("X.Open.TEST", Open, Carried),
    ("x.y.open.test", Open, Carried),
    ("x.open.test", Public, NoPort),
    ("open.test", Open, NoName),
    ("no.open.test", Open, NoName),
    ("x.no.open.test", Open, Carried),
    ("below.open.test", Open, Carried),
    ("x.below.open.test", Open, NoName),
    // Another rule allows it, and a denied port is not the other.
    ("port.open.test", Open, NoPort),
    ("port.open.test", Held, Carried),
    // Of two rules, the one with `private` applies.
    ("both.open.test", Open, Carried),
    // At most 8 labels and 100 characters are below a wildcard.
    ("1.2.3.4.5.6.7.8.open.test", Open, Carried),
    ("1.2.3.4.5.6.7.8.9.open.test", Open, Reset),
    ("longest.open.test", Open, Carried),
    ("longest+.open.test", Open, Reset),
    // A rule denies its address, or one beside it.
    ("net.open.test", OfAnother, Reset),
    ("near.open.test", Held, Carried),
    // Its address is private.
    ("public.open.test", Public, Reset),
    // Nobody knows its address.
    ("nowhere.test", Open, Reset),
    // A rule without a port allows two.
    ("default.test", Number(80), Reset),
    ("default.test", Number(443), Reset),
    ("default.test", Number(79), NoPort),
    ("default.test", Number(8080), NoPort),
];

/// Rules for the [`ROWS`].
pub(super) fn deciding() -> SandboxSetup {
    let server = EgressServer::get();
    let (open, held, public, another) =
        (server.open, server.held, server.public, server.of_another);
    rules(&[
        format!("both.open.test:{open} tcp"),
        format!("*.{OPEN}.:{open} tcp private"),
        "!no.open.test".to_owned(),
        "!*.below.open.test".to_owned(),
        format!("!port.open.test:{open}"),
        format!("Port.Open.Test:{held} tcp private"),
        format!("net.open.test:{another} tcp private"),
        format!("!127.0.0.0/31:{another}"),
        format!("near.open.test:{held} tcp private"),
        format!("!127.0.0.2/31:{held}"),
        format!("public.open.test:{public} tcp"),
        format!("nowhere.test:{open} tcp private"),
        "default.test".to_owned(),
    ])
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let token = context.token().to_owned();
    let marker = |number: usize| format!("{token}-{number}.");
    let exchanges: Vec<_> = ROWS
        .iter()
        .enumerate()
        .map(|(number, (name, port, _))| {
            let name = name.replace('+', "x").replace("longest", LONGEST);
            // The server answers when it learns that the client has ended its side.
            let message = format!("{UNTIL_END}{}", marker(number));
            Exchange::new(Transport::EndedStream, name, port.number(), message)
        })
        .collect();
    let deviation = exchanges::make(context, &exchanges).await.map(|answers| {
        let mut rows = ROWS.iter().enumerate().zip(&answers);
        rows.find_map(|((number, row @ (_, _, expected)), answer)| {
            let is_there = EgressServer::has_received(&marker(number));
            let is_right = end(answer) == Some(*expected) && is_there == (*expected == Carried);
            (!is_right).then(|| format!("{row:?}: {}", answer.text()))
        })
    });
    context.record_attack(behavior("connect to names and ports", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}

impl Port {
    fn number(self) -> u16 {
        let server = EgressServer::get();
        match self {
            Open => server.open,
            Held => server.held,
            Public => server.public,
            OfAnother => server.of_another,
            Number(number) => number,
        }
    }
}

/// How an exchange ended; `None` if in another way than all of these.
pub(super) fn end(answer: &ExchangeAnswer) -> Option<DestinationEnd> {
    match (&*answer.bytes, answer.error.as_deref()) {
        (b"here", None) => Some(Carried),
        (b"", Some("ENOENT")) => Some(NoName),
        (b"", Some("ECONNREFUSED")) => Some(NoPort),
        (b"", Some("ENETUNREACH")) => Some(DestinationEnd::NoRoute),
        // Sending or ending a side may be what notices it.
        (b"", Some("ECONNRESET" | "EPIPE" | "ENOTCONN")) => Some(Reset),
        _ => None,
    }
}
