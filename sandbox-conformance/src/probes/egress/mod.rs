//! Connections to hosts that rules allow, and to all others.
//!
//! The name `localhost` is the one that every host resolves, and its addresses are private. So the
//! rules say `private` where a connection must work.

mod answers;
mod compared;
mod destinations;
mod detached;
mod earlier_secrets;
mod exchanges;
mod first_requests;
mod idle_askers;
mod judged_requests;
mod messages;
mod names;
mod narrowed;
mod own_addresses;
mod own_ports;
mod records;
mod redirected;
mod refused_secrets;
mod reported;
mod revoked;
mod secrets;
mod setups;
mod unusual_questions;

use crate::egress_server::EgressServer;
use crate::probes::prelude::*;
pub use compared::COMPARED;
use messages::{Attempted, FirstMessage, Hello};
use setups::{rules, with_a_wildcard, with_names, with_requests, with_rules, without_the_name};

/// The name that leads to the suite's server.
const NAME: &str = "localhost";

/// A name that rules allow, and that leads nowhere.
const ANOTHER: &str = "allowed.test";

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // The agent carries what code names. An address that no rule lists has no route.
    Probe::isolation(
        "egress::address_literal",
        EGRESS,
        "connects to this host's loopback by its address, while a rule allows its name",
        signs::UNREACHABLE,
        |context| {
            let port = EgressServer::get().open;
            let permitted = Attempted::to(port);
            let attack = permitted.by_address();
            Box::pin(connect(context, permitted, attack))
        },
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::climbing_path",
        EGRESS,
        "asks, at level http, for a path that leaves the allowed one for servers that decode it",
        REFUSED_REQUEST,
        |context| Box::pin(climb(context)),
    )
    .version(2)
    .setup(|_| with_requests()),
    Probe::isolation(
        "egress::connect_method",
        EGRESS,
        "asks an allowed server, at level http, for a tunnel to another one",
        REFUSED_REQUEST,
        |context| judged(context, &[("CONNECT allowed.test:443", NAME)]),
    )
    .setup(|_| with_requests()),
    // A question is a message to the owner of the name.
    Probe::isolation(
        "egress::denied_lookup",
        EGRESS,
        "connects to names that no rule allows: of another zone, with many labels, and a long one",
        names::NOT_ASKED,
        |context| Box::pin(names::denied_lookup(context)),
    )
    .setup(|_| with_names()),
    Probe::behavior(
        "egress::detached",
        EGRESS,
        "connects from a detached sandbox to a port of another rule, and to one whose rule another \
         client has revoked",
        |context| Box::pin(detached::connect(context)),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::encrypted_hello",
        EGRESS,
        "asks for an allowed name with TLS whose real server name is encrypted",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Encrypted),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::http2_authority",
        EGRESS,
        "connects to an allowed name, and asks for another host over HTTP/2 without TLS",
        REFUSED_REQUEST,
        |context| {
            let permitted = Attempted::to(EgressServer::get().named);
            let attack = permitted.saying(FirstMessage::Http2 { host: ANOTHER });
            let permitted = permitted.saying(FirstMessage::Http { host: NAME });
            Box::pin(connect(context, permitted, attack))
        },
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::http2_request",
        EGRESS,
        "asks an allowed server, at level http, over HTTP/2 without TLS",
        REFUSED_REQUEST,
        |context| {
            let permitted = Attempted::to(EgressServer::get().read);
            let attack = permitted.saying(FirstMessage::Http2 { host: NAME });
            let permitted = permitted.saying(FirstMessage::Requests(&[("GET /allowed/", NAME)]));
            Box::pin(connect(context, permitted, attack))
        },
    )
    .setup(|_| with_requests()),
    Probe::isolation(
        "egress::later_host",
        EGRESS,
        "makes an allowed request at level http, and asks for another host on the same connection",
        REFUSED_REQUEST,
        |context| {
            judged(
                context,
                &[("GET /allowed/", NAME), ("GET /allowed/", ANOTHER)],
            )
        },
    )
    .setup(|_| with_requests()),
    // Upper and lower case are bits that the owner of a name can read.
    Probe::isolation(
        "egress::name_case",
        EGRESS,
        "connects to an allowed name in upper case, and reads what the name server was asked",
        names::IN_LOWER_CASE,
        |context| Box::pin(names::case(context)),
    )
    .setup(|_| with_names()),
    Probe::isolation(
        "egress::no_server_name",
        EGRESS,
        "connects to an allowed name with TLS that names no server",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Unnamed),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::number_forms",
        EGRESS,
        "connects to this host's loopback by names that libraries take for its address",
        NO_SUCH_NAME,
        |context| {
            let permitted = Attempted::to(EgressServer::get().open);
            let attack = permitted.named("2130706433,127.1,0x7f.1,0177.0.0.1,127.0.0.1");
            Box::pin(connect(context, permitted, attack))
        },
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::other_host",
        EGRESS,
        "connects to an allowed name, and asks for another host over HTTP",
        REFUSED_REQUEST,
        |context| {
            let permitted = Attempted::to(EgressServer::get().named);
            let http = |host: &'static str| permitted.saying(FirstMessage::Http { host });
            Box::pin(connect(context, http(NAME), http(ANOTHER)))
        },
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::other_method",
        EGRESS,
        "asks for an allowed path at level http with a method that is not",
        REFUSED_REQUEST,
        |context| judged(context, &[("POST /allowed/", NAME)]),
    )
    .setup(|_| with_requests()),
    Probe::isolation(
        "egress::other_name",
        EGRESS,
        "connects to a name that a rule denies, on a port that is allowed for another name",
        NO_SUCH_NAME,
        |context| {
            let permitted = Attempted::to(EgressServer::get().open);
            Box::pin(connect(context, permitted, permitted))
        },
    )
    .setup(|_| without_the_name())
    .allow_setup(|_| with_rules()),
    Probe::isolation(
        "egress::other_path",
        EGRESS,
        "asks for a path at level http that no rule allows",
        REFUSED_REQUEST,
        |context| judged(context, &[("GET /denied", NAME)]),
    )
    .setup(|_| with_requests()),
    Probe::isolation(
        "egress::other_port",
        EGRESS,
        "connects to an allowed name on a port that is allowed for another name",
        NO_SUCH_PORT,
        |context| {
            let server = EgressServer::get();
            let attack = Attempted::to(server.of_another);
            Box::pin(connect(context, Attempted::to(server.open), attack))
        },
    )
    .setup(|_| with_rules()),
    Probe::behavior(
        "egress::own_ports",
        EGRESS,
        "listens on ports of a name that it uses, and connects to its own loopback by a name that has a \
         rule",
        |context| Box::pin(own_ports::run(context)),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::other_server_name",
        EGRESS,
        "connects to an allowed name, and asks for another server with TLS",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Named(ANOTHER)),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::other_forms",
        EGRESS,
        "connects to allowed names whose addresses are other forms of this host's loopback",
        PRIVATE,
        |context| Box::pin(names::other_forms(context)),
    )
    .setup(|_| with_names()),
    Probe::isolation(
        "egress::private_address",
        EGRESS,
        "connects to an allowed name whose address is private, which its rule does not allow",
        PRIVATE,
        |context| {
            let server = EgressServer::get();
            let attack = Attempted::to(server.public);
            Box::pin(connect(context, Attempted::to(server.open), attack))
        },
    )
    .setup(|_| with_rules()),
    // The host must dial the address that it judged.
    Probe::isolation(
        "egress::rebound_name",
        EGRESS,
        "connects twice to an allowed name, whose second address a rule denies",
        names::REBINDING,
        |context| Box::pin(names::rebound(context)),
    )
    .setup(|_| with_names()),
    Probe::isolation(
        "egress::redirection",
        EGRESS,
        "follows an allowed server's redirection to a private address, which no rule allows",
        PRIVATE,
        |context| Box::pin(redirected::follow(context)),
    )
    .setup(|_| with_rules()),
    Probe::behavior(
        "egress::reported",
        EGRESS,
        "reads what a report names for rules of each level, with and without a wildcard",
        |context| Box::pin(reported::run(context)),
    )
    .setup(|_| with_rules()),
    Probe::isolation(
        "egress::revoked_address",
        EGRESS,
        "holds a connection and opens another one after a new rule has denied its address",
        revoked::ENDED,
        |context| Box::pin(revoked::hold(context, revoked::Revoked::Address)),
    )
    .version(2)
    .waits()
    .setup(|_| with_rules().fresh()),
    Probe::isolation(
        "egress::revoked_rule",
        EGRESS,
        "holds a connection and opens another one after its rule was revoked",
        revoked::ENDED,
        |context| Box::pin(revoked::hold(context, revoked::Revoked::Name)),
    )
    .version(2)
    .waits()
    .setup(|_| with_rules().fresh()),
    Probe::behavior(
        "egress::secret_for_a_host",
        EGRESS,
        "sends a secret for one host in headers, queries and bodies to it and to another one, and reads \
         what arrives",
        |context| Box::pin(secrets::arrives_at_its_host(context, secrets::Use::Everywhere)),
    )
    .version(2)
    .setup(|_| secrets::with_secret()),
    Probe::behavior(
        "egress::secret_of_earlier",
        EGRESS,
        "keeps the text that stands for a secret, and sends it after its execution has ended, was \
         killed or dropped, also as a second client",
        |context| Box::pin(earlier_secrets::run(context)),
    )
    .version(3)
    .setup(|_| secrets::with_secret()),
    Probe::behavior(
        "egress::refused_secrets",
        EGRESS,
        "executes with secrets for no host, for a host without a rule, and with other characters",
        |context| Box::pin(refused_secrets::run(context)),
    )
    .setup(|_| secrets::with_secret()),
    Probe::behavior(
        "egress::secret_for_signatures",
        EGRESS,
        "signs requests in eighteen ways, as SDKs of AWS do, with a secret for one host and with \
         another key, and sends them to it and to another one",
        |context| {
            let kind = secrets::Use::Signature;
            Box::pin(secrets::arrives_at_its_host(context, kind))
        },
    )
    .version(3)
    .setup(|_| secrets::with_secret()),
    Probe::behavior(
        "egress::special_addresses",
        EGRESS,
        "connects to allowed names whose addresses are private or special, and reads what is told as \
         denied",
        |context| Box::pin(names::special_addresses(context)),
    )
    .setup(|_| with_names().fresh()),
    Probe::isolation(
        "egress::stricter_rule",
        EGRESS,
        "holds a connection and opens another one after its rule asks for its name to be said",
        revoked::ENDED,
        |context| Box::pin(revoked::hold(context, revoked::Revoked::Level)),
    )
    .waits()
    .setup(|_| with_rules().fresh()),
    Probe::isolation(
        "egress::udp",
        EGRESS,
        "sends a datagram to an allowed name and port",
        NO_SUCH_PORT,
        |context| {
            let permitted = Attempted::to(EgressServer::get().open);
            Box::pin(connect(context, permitted, permitted.with_a_datagram()))
        },
    )
    .setup(|_| with_rules()),
    // Each name below a wildcard is a message to the owner of its suffix.
    Probe::isolation(
        "egress::wildcard_names",
        EGRESS,
        "connects to 120 names below a wildcard at once",
        names::TOO_MANY,
        |context| Box::pin(names::many(context)),
    )
    .setup(|_| with_a_wildcard().fresh()),
];

/// The loopback of the sandbox has no such listener. The attack tries it after the name.
const OWN_LOOPBACK: ExpectedDenial = denied(
    "ECONNREFUSED",
    "nothing listens on the sandbox's own loopback",
);

const NO_SUCH_NAME: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox's name server does not know the name"),
    OWN_LOOPBACK,
];

const NO_SUCH_PORT: &[ExpectedDenial] = &[OWN_LOOPBACK];

const PRIVATE: &[ExpectedDenial] = &[
    denied("ECONNRESET", "the host refuses the name's addresses"),
    OWN_LOOPBACK,
];

const REFUSED_REQUEST: &[ExpectedDenial] = &[
    denied("EACCES", "the host answers that the rules do not allow it"),
    denied("ECONNRESET", "the host refuses the request"),
    OWN_LOOPBACK,
];

/// At level `http`: an allowed request, and these.
fn judged<'a>(
    context: &'a mut ProbeContext,
    requests: &'static [(&'static str, &'static str)],
) -> crate::probe::ProbeFuture<'a> {
    let permitted = Attempted::to(EgressServer::get().read);
    let attack = permitted.saying(FirstMessage::Requests(requests));
    let permitted = permitted.saying(FirstMessage::Requests(&[("GET /allowed/", NAME)]));
    Box::pin(connect(context, permitted, attack))
}

/// Each leads out of `/allowed/` on a server that decodes it, takes a backslash for a separator, or
/// cuts parameters off.
const CLIMBING: [&[(&str, &str)]; 7] = [
    &[("GET /allowed/../denied", NAME)],
    &[("GET /allowed/%2e%2e/denied", NAME)],
    &[("GET /allowed/%252e%252e/denied", NAME)],
    &[("GET /allowed/..%2fdenied", NAME)],
    &[("GET /allowed/x\\..\\..\\denied", NAME)],
    &[("GET /allowed/x%5c..%5c..%5cdenied", NAME)],
    &[("GET /allowed/..;x/denied", NAME)],
];

/// Asks for each of these paths, until one is not denied.
async fn climb(context: &mut ProbeContext) -> Result<(), ProbeError> {
    for requests in CLIMBING {
        judged(context, requests).await?;
        if !context.attack_ended_by("EACCES") {
            break;
        }
    }
    Ok(())
}

/// At level `name`: a request for the allowed name, and one with this hello.
fn requests(context: &mut ProbeContext, hello: Hello) -> crate::probe::ProbeFuture<'_> {
    let permitted = Attempted::to(EgressServer::get().named);
    let tls = |hello| permitted.saying(FirstMessage::Tls(hello));
    Box::pin(connect(context, tls(Hello::Named(NAME)), tls(hello)))
}

/// Makes the attack's connection without a sandbox, the permitted one inside, and the attack's.
async fn connect(
    context: &mut ProbeContext,
    permitted: Attempted,
    attack: Attempted,
) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let marker = |word: &str| format!("{token}-{word}.");
    context
        .host_control(&attack.by_address().call(&marker("host")))
        .await?;
    if !offered(context).await {
        return Ok(());
    }
    context
        .allow_control(&permitted.call(&marker("permitted")))
        .await;
    let denied = marker("denied");
    context.attack(&attack.call(&denied)).await;
    let untouched = !EgressServer::has_received(&denied);
    context.check_host("messages at the host's server", untouched);
    Ok(())
}

/// Whether the tier enforces rules; otherwise records that it does not. Without a sandbox, the attack
/// says why.
async fn offered(context: &mut ProbeContext) -> bool {
    let gap = context.declared_gap().await;
    if let Ok(Some(gap)) = &gap {
        context.not_offered(format!("egress rules: {gap}"));
    }
    !matches!(gap, Ok(Some(_)))
}
