//! Names that only the suite's name server knows, and what it was asked.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::messages::{digits, message_call};
use super::{OWN_LOOPBACK, offered};
use crate::egress_server::EgressServer;
use crate::name_server::{
    self, ANOTHER_ADDRESS, MANY, MAPPED, OPEN, REBOUND, SPECIAL, SPECIAL_ADDRESSES, UNSPECIFIED,
};
use crate::probes::prelude::*;

pub(super) const NOT_ASKED: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's name server does not know the name"),
    denied(
        "ECONNRESET",
        "the host refuses names beyond a wildcard's bounds",
    ),
    OWN_LOOPBACK,
];

pub(super) const IN_LOWER_CASE: &[ExpectedDenial] =
    &[denied("lower_case", "names are asked for in lower case")];

pub(super) const REBINDING: &[ExpectedDenial] = &[
    denied("ECONNRESET", "the host judges the address that it dials"),
    denied("first_address", "the host keeps the address that it judged"),
    OWN_LOOPBACK,
];

pub(super) const TOO_MANY: &[ExpectedDenial] = &[
    denied("ECONNRESET", "the host looks up some names at once"),
    denied(
        "ENOENT",
        "the sandbox's name server knows some names at once",
    ),
    denied("at_the_rate", "so slowly, each name may be looked up"),
    OWN_LOOPBACK,
];

/// The documented bound: new names below wildcards at once, and then one in this time.
const AT_ONCE: u64 = 64;
const INTERVAL: Duration = Duration::from_secs(1);

/// The name server has read every question after this time.
const SETTLED: Duration = Duration::from_millis(200);

/// How many names the probe of wildcards connects to.
const NAMES: usize = 120;

/// The markers of a probe's messages and names. The dot is the end of a message.
struct Markers(String);

impl Markers {
    fn of(context: &ProbeContext) -> Self {
        Self(context.token().to_owned())
    }

    fn word(&self, word: &str) -> String {
        format!("{}-{word}", self.0)
    }

    fn message(&self, word: &str) -> Vec<u8> {
        format!("{}.", self.word(word)).into_bytes()
    }

    fn received(&self, word: &str) -> bool {
        EgressServer::has_received(&format!("{}.", self.word(word)))
    }

    /// Connects to names at a port, and to that port of this address.
    fn call(&self, word: &str, names: &str, address: (Ipv4Addr, u16)) -> Call {
        message_call("tcp-named", &self.message(word), names, address)
    }

    /// Without a sandbox, a question reaches the server as it is.
    fn host_control(&self, context: &mut ProbeContext) -> Result<(), ProbeError> {
        name_server::started()?;
        let label = self.word("host").to_ascii_uppercase();
        let name = format!("{label}.{OPEN}");
        let is_there = name_server::ask(&name)? && name_server::asked(&name) == [name.clone()];
        let attempt = Attempt::leak_if(is_there, "not_asked");
        context.record_host_control(Step::new(format!("ask for {name}"), attempt));
        Ok(())
    }

    /// Asks the server itself, without the sandbox's.
    async fn ask_directly(
        &self,
        context: &mut ProbeContext,
        names: &[String],
    ) -> Result<(), ProbeError> {
        let questions = names.iter().map(|name| name_server::question(name));
        let questions = questions.collect::<Result<Vec<_>, _>>()?.concat();
        let address = name_server::address()?;
        let call = Call::new(["tcp-named", &digits(&questions), "", ""]);
        // What the server was asked is the result.
        let _ = context
            .execute(&call.and(format!("{}/{}", address.ip(), address.port())))
            .await;
        tokio::time::sleep(SETTLED).await;
        Ok(())
    }

    /// Connects to an allowed name.
    async fn allow_control(&self, context: &mut ProbeContext, suffix: &str) {
        let name = format!("{}.{suffix}", self.word("permitted"));
        let open = (Ipv4Addr::LOCALHOST, EgressServer::get().open);
        let call = self.call("permitted", &name, open);
        context.allow_control(&call).await;
    }
}

/// Host control: without a sandbox, a question reaches the suite's name server.
pub(super) fn controls(context: &mut ProbeContext) -> Result<(), ProbeError> {
    Markers::of(context).host_control(context)
}

/// The host control and the allow control. `false` if the backend offers no rules.
pub(super) async fn prepared(context: &mut ProbeContext) -> Result<bool, ProbeError> {
    controls(context)?;
    let is_offered = offered(context).await;
    if is_offered {
        permitted(context).await;
    }
    Ok(is_offered)
}

/// Allow control: connects to a name below [`OPEN`].
pub(super) async fn permitted(context: &mut ProbeContext) {
    Markers::of(context).allow_control(context, OPEN).await;
}

/// The host must deny each address. A failed connection is not enough: most of these addresses cannot
/// be reached from a test host anyway.
pub(super) async fn special_addresses(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    markers.host_control(context)?;
    if !offered(context).await {
        return Ok(());
    }
    markers.allow_control(context, OPEN).await;
    let names: Vec<String> = (0..SPECIAL_ADDRESSES.len())
        .map(|number| format!("{number}.{SPECIAL}"))
        .collect();
    let none = (Ipv4Addr::LOCALHOST, EgressServer::get().public);
    let call = markers.call("special", &names.join(","), none);
    let deviation = context.execute(&call).await.map(|result| {
        let told: Vec<&str> = result.denials.iter().map(|denial| &*denial.what).collect();
        let is_told = |name: &String| told.iter().any(|what| what.contains(&format!(" {name}")));
        let missing = names.iter().zip(SPECIAL_ADDRESSES);
        let mut missing = missing.filter(|(name, _)| !is_told(name));
        missing
            .next()
            .map(|(name, address)| format!("{name} ({address}): {told:?}"))
    });
    context.record_attack(behavior("connect to special addresses", deviation));
    let untouched = !markers.received("special");
    context.check_host("messages at the host's server", untouched);
    Ok(())
}

pub(super) async fn denied_lookup(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    markers.host_control(context)?;
    if !offered(context).await {
        return Ok(());
    }
    markers.allow_control(context, OPEN).await;
    let label = markers.word("denied");
    let long = "x".repeat(60);
    let names = [
        format!("{label}.closed.test"),
        format!("{label}.1.2.3.4.5.6.7.8.{OPEN}"),
        format!("{label}.{long}.{long}.{OPEN}"),
    ];
    let open = (Ipv4Addr::LOCALHOST, EgressServer::get().open);
    let call = markers.call("denied", &names.join(","), open);
    context.attack(&call).await;
    markers.ask_directly(context, &names).await?;
    let untouched = name_server::asked(&label).is_empty() && !markers.received("denied");
    context.check_host("questions at the name server, and messages", untouched);
    Ok(())
}

pub(super) async fn case(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    markers.host_control(context)?;
    if !offered(context).await {
        return Ok(());
    }
    markers.allow_control(context, OPEN).await;
    let name = format!("{}.{OPEN}", markers.word("case"));
    let open = (Ipv4Addr::LOCALHOST, EgressServer::get().open);
    let call = markers.call("case", &name.to_ascii_uppercase(), open);
    let executed = context.execute(&call).await;
    markers
        .ask_directly(context, &[name.to_ascii_uppercase()])
        .await?;
    let attempt = match (executed, name_server::asked(&name).as_slice()) {
        (Err(attempt), _) => attempt,
        (Ok(_), []) => Attempt::blocked(["not_asked"]),
        (Ok(_), [one]) if *one == name => Attempt::blocked(["lower_case"]),
        _ => Attempt::succeeded(),
    };
    context.record_attack(Step::new(call.text(), attempt));
    context.no_host_effect("the name server has the questions");
    Ok(())
}

pub(super) async fn many(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    markers.host_control(context)?;
    if !offered(context).await {
        return Ok(());
    }
    markers.allow_control(context, MANY).await;
    let label = markers.word("many");
    let names: Vec<String> = (0..NAMES).map(|n| format!("{n}.{label}.{MANY}")).collect();
    let message = markers.message("many");
    let port = EgressServer::get().open.to_string();
    let start = Instant::now();
    let call = Call::new(["tcp-each", &digits(&message), &names.join(","), &port]);
    // A slow machine takes half a minute.
    let attempt = context.attack(&call.clone().timeout(INTERVAL * 60)).await;
    markers.ask_directly(context, &names).await?;
    // The name of the control is one of them, and one more may just be ready.
    let ready = start.elapsed().as_secs() / INTERVAL.as_secs() + 1;
    let asked = name_server::asked(&label).len() as u64;
    let is_bounded = asked <= AT_ONCE + ready;
    if attempt.is_success() && is_bounded {
        let attempt = Attempt::blocked(["at_the_rate"]);
        context.record_attack(Step::new(call.text(), attempt));
    }
    context.check_host(format!("{asked} questions below the wildcard"), is_bounded);
    Ok(())
}

pub(super) async fn rebound(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    name_server::started()?;
    let port = EgressServer::get().open;
    let control = markers.call("host", "", (ANOTHER_ADDRESS, port));
    context.host_control(&control).await?;
    if !offered(context).await {
        return Ok(());
    }
    let name = format!("{}.{REBOUND}", markers.word("name"));
    let first = markers.call("permitted", &name, (Ipv4Addr::LOCALHOST, port));
    context.allow_control(&first).await;
    let second = markers.call("denied", &name, (ANOTHER_ADDRESS, port));
    let attempt = context.attack(&second).await;
    let marker = format!("{}.", markers.word("denied"));
    let untouched = !EgressServer::has_received_at_another(&marker);
    if attempt.is_success() && untouched {
        let attempt = Attempt::blocked(["first_address"]);
        context.record_attack(Step::new(second.text(), attempt));
    }
    context.check_host("messages at the name's second address", untouched);
    Ok(())
}

pub(super) async fn other_forms(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let markers = Markers::of(context);
    name_server::started()?;
    let unspecified = (Ipv4Addr::UNSPECIFIED, EgressServer::get().public);
    let control = markers.call("host", "", unspecified);
    context.host_control(&control).await?;
    if !offered(context).await {
        return Ok(());
    }
    markers.allow_control(context, OPEN).await;
    let label = markers.word("denied");
    let names = format!("{label}.{UNSPECIFIED},{label}.{MAPPED}");
    context
        .attack(&markers.call("denied", &names, unspecified))
        .await;
    context.check_host("messages at the host's server", !markers.received("denied"));
    Ok(())
}
