//! Addresses of this host on other interfaces than its loopback. Packets to them stay on this host.

use std::net::{IpAddr, Ipv4Addr};

use sandbox_core::policy::AddressClass;

use super::destinations::{self, DestinationEnd};
use super::exchanges::{self, Exchange, Transport};
use super::{names, offered, rules};
use crate::addresses;
use crate::egress_server::EgressServer;
use crate::name_server::{self, OPEN, OWN};
use crate::probes::prelude::*;

pub(super) const REFUSED: &[ExpectedDenial] = &[
    denied("ECONNRESET", "the host refuses its own addresses"),
    denied("ENETUNREACH", "the sandbox has no route to the address"),
];

/// Rules for names of these addresses: one that allows public addresses alone, and one that allows
/// all.
pub(super) fn named() -> SandboxSetup {
    let server = EgressServer::get();
    rules(&[
        format!("*.{OPEN}:{} tcp private", server.open),
        format!("*.{OWN}:{} tcp", server.everywhere),
        format!("*.private.{OWN}:{} tcp private", server.everywhere),
    ])
}

/// The addresses that are public and of this host, with their numbers at the name server. A rule
/// without `private` refuses all others by their class alone.
fn public() -> Vec<(usize, IpAddr)> {
    let all = addresses::of_host(true).into_iter();
    let all = all.chain(addresses::of_host(false)).enumerate();
    let is_public = |address: IpAddr| AddressClass::of(address) == AddressClass::Global;
    all.filter(|(_, address)| is_public(*address)).collect()
}

pub(super) async fn connect(context: &mut ProbeContext) -> Result<(), ProbeError> {
    name_server::started()?;
    let own = public();
    if own.is_empty() {
        return Err(ProbeError::new(
            "this host has no public address on an interface of its own",
        ));
    }
    let token = context.token().to_owned();
    let port = EgressServer::get().everywhere;
    let call = |word: &str, names: &str| {
        let message = format!("{token}-{word}.");
        let call = Call::new(["tcp-named", &super::messages::digits(message.as_bytes())]);
        let call = call.and(names).and(port.to_string());
        own.iter().fold(call, |call, (_, address)| {
            call.and(program_address(*address, port))
        })
    };
    context.host_control(&call("host", "")).await?;
    if !offered(context).await {
        return Ok(());
    }
    let below = |suffix: &str| {
        let names = own.iter().map(|(number, _)| format!("{number}.{suffix}"));
        names.collect::<Vec<_>>().join(",")
    };
    let private = format!("private.{OWN}");
    context
        .allow_control(&call("permitted", &below(&private)))
        .await;
    context.attack(&call("denied", &below(OWN))).await;
    let untouched = !EgressServer::has_received(&format!("{token}-denied."));
    context.check_host("messages at the host's server", untouched);
    Ok(())
}

/// An address and a port as the probe program reads them.
fn program_address(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}/{port}"),
        IpAddr::V6(address) => format!("{:032x}/{port}", address.to_bits()),
    }
}

/// Two addresses of this host in IPv4, the second outside of the first one's network of two bits.
fn two() -> Option<(Ipv4Addr, Option<Ipv4Addr>)> {
    let all = addresses::of_host(true).into_iter();
    let mut all = all.filter_map(|address| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    let own = all.next()?;
    Some((
        own,
        all.find(|other| network(*other, 30) != network(own, 30)),
    ))
}

/// The network of an address with a prefix, as a rule has it.
fn network(address: Ipv4Addr, prefix: u32) -> String {
    let address = Ipv4Addr::from_bits(address.to_bits() >> (32 - prefix) << (32 - prefix));
    format!("{address}/{prefix}")
}

/// Rules for addresses, which code connects to without a name.
pub(super) fn by_address() -> SandboxSetup {
    let server = EgressServer::get();
    let mut all = vec![format!("*.{OPEN}:{} tcp private", server.open)];
    if let Some((own, _)) = two() {
        all.extend([
            format!("{}:{} private", network(own, 30), server.everywhere),
            format!("{own}:{} tcp", server.public),
            format!("{own}:{} private", server.held),
            format!("!{}:{}", network(own, 31), server.held),
        ]);
    }
    rules(&all)
}

pub(super) async fn connect_by_address(context: &mut ProbeContext) -> Result<(), ProbeError> {
    names::controls(context)?;
    let Some((own, other)) = two() else {
        return Err(ProbeError::new(
            "this host has no IPv4 address on an interface of its own",
        ));
    };
    if !offered(context).await {
        return Ok(());
    }
    names::permitted(context).await;
    let token = context.token().to_owned();
    let server = EgressServer::get();
    let marker = |number: usize| format!("{token}-{number}.");
    // Addresses, ports, and what comes back.
    let mut rows = vec![
        (own, server.everywhere, DestinationEnd::Carried),
        // The address is not public, or this host's own.
        (own, server.public, DestinationEnd::Reset),
        // A rule denies it.
        (own, server.held, DestinationEnd::Reset),
        // No rule has the port.
        (own, server.of_another, DestinationEnd::NoPort),
    ];
    // No rule has the address.
    rows.extend(other.map(|other| (other, server.everywhere, DestinationEnd::NoRoute)));
    let exchanges: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(number, (address, port, _))| {
            let host = address.to_string();
            Exchange::new(Transport::EndedStream, host, *port, marker(number))
        })
        .collect();
    let deviation = exchanges::make(context, &exchanges).await.map(|answers| {
        let mut rows = rows.iter().enumerate().zip(&answers);
        rows.find_map(|((number, (address, port, expected)), answer)| {
            let is_right = destinations::end(answer) == Some(*expected);
            let arrived = EgressServer::has_received(&marker(number));
            (!is_right || arrived != (*expected == DestinationEnd::Carried))
                .then(|| format!("{address}:{port} must be {expected:?}: {}", answer.text()))
        })
    });
    context.record_attack(behavior("connect to addresses", deviation));
    context.no_host_effect("the attack itself reads what the server gets");
    Ok(())
}
