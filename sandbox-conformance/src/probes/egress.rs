//! Connections to hosts that rules allow, and to all others.
//!
//! The name `localhost` is the one that every host resolves, and its addresses are private. So the
//! rules say `private` where a connection must work.

use sandbox_core::policy::{EgressRules, NetworkPolicy};

use crate::egress_server::EgressServer;
use crate::probes::prelude::*;

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
        |context| judged(context, &[("GET /allowed/%2e%2e/denied", NAME)]),
    )
    .setup(|_| with_requests()),
    Probe::isolation(
        "egress::encrypted_hello",
        EGRESS,
        "asks for an allowed name with TLS whose real server name is encrypted",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Encrypted),
    )
    .setup(|_| with_rules()),
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
    Probe::isolation(
        "egress::no_server_name",
        EGRESS,
        "connects to an allowed name with TLS that names no server",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Unnamed),
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
    Probe::isolation(
        "egress::other_server_name",
        EGRESS,
        "connects to an allowed name, and asks for another server with TLS",
        REFUSED_REQUEST,
        |context| requests(context, Hello::Named(ANOTHER)),
    )
    .setup(|_| with_rules()),
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
    Probe::isolation(
        "egress::udp",
        EGRESS,
        "sends a datagram to an allowed name and port",
        NO_SUCH_PORT,
        |context| {
            let permitted = Attempted::to(EgressServer::get().open);
            let attack = Attempted {
                subcommand: "udp-named",
                ..permitted
            };
            Box::pin(connect(context, permitted, attack))
        },
    )
    .setup(|_| with_rules()),
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

fn rules(rules: &[String]) -> SandboxSetup {
    let rules = EgressRules::parse(rules.iter().map(String::as_str));
    let rules = rules.expect("the suite's own rules").into_rules();
    SandboxSetup::with(|policy| policy.network = Some(NetworkPolicy::Allow(rules)))
}

/// Each port of the server has a rule of another kind.
fn with_rules() -> SandboxSetup {
    let server = EgressServer::get();
    rules(&[
        format!("{NAME}:{} tcp private", server.open),
        format!("{NAME}:{} tcp", server.public),
        format!("{ANOTHER}:{} tcp private", server.of_another),
        format!("{NAME}:{} name private", server.named),
    ])
}

/// A rule at level `http`.
fn with_requests() -> SandboxSetup {
    let port = EgressServer::get().read;
    rules(&[format!("{NAME}:{port} http GET /allowed/* private")])
}

/// The name is denied, and its port is allowed for another one.
fn without_the_name() -> SandboxSetup {
    let open = EgressServer::get().open;
    rules(&[format!("{ANOTHER}:{open} tcp private"), format!("!{NAME}")])
}

/// What a client sends. The suite's server recognizes the marker.
#[derive(Debug, Clone, Copy)]
enum FirstMessage {
    /// The marker alone.
    Plain,
    /// A request for this host.
    Http { host: &'static str },
    /// Requests, each with a method, a path and a host.
    Requests(&'static [(&'static str, &'static str)]),
    /// The first message of TLS.
    Tls(Hello),
}

/// How a TLS client names its server.
#[derive(Debug, Clone, Copy)]
enum Hello {
    Named(&'static str),
    Unnamed,
    /// The readable name is the allowed one.
    Encrypted,
}

impl FirstMessage {
    fn bytes(self, marker: &str) -> Vec<u8> {
        match self {
            Self::Plain => marker.into(),
            Self::Http { host } => {
                format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Probe: {marker}\r\n\r\n").into()
            }
            Self::Requests([earlier @ .., last]) => {
                // The server must not take them for the attack.
                let before = marker.replace('.', "-before.");
                let request = |(line, host): &(&str, &str), marker: &str, end: &str| {
                    format!("{line} HTTP/1.1\r\nHost: {host}\r\nX-Probe: {marker}\r\n{end}\r\n")
                };
                let earlier = earlier.iter().map(|asked| request(asked, &before, ""));
                let last = request(last, marker, "Connection: close\r\n");
                earlier.chain([last]).collect::<String>().into()
            }
            Self::Requests([]) => Vec::new(),
            Self::Tls(hello) => hello.bytes(marker),
        }
    }
}

impl Hello {
    /// A client's hello, with the marker in an extension that servers ignore.
    fn bytes(self, marker: &str) -> Vec<u8> {
        const SERVER_NAME: u16 = 0;
        const ENCRYPTED_HELLO: u16 = 0xfe0d;
        const IGNORED: u16 = 0xaaaa;
        let server_name = |name: &str| {
            let entry = [&[0][..], &counted(name.as_bytes())].concat();
            extension(SERVER_NAME, &counted(&entry))
        };
        let named = match self {
            Self::Named(name) => server_name(name),
            Self::Unnamed => Vec::new(),
            Self::Encrypted => {
                let outer = server_name(NAME);
                [outer, extension(ENCRYPTED_HELLO, &[0; 40])].concat()
            }
        };
        let extensions = [named, extension(IGNORED, marker.as_bytes())].concat();
        let body = [
            // The version and a random number.
            &[3, 3][..],
            &[7; 32],
            // No session, one cipher suite, no compression.
            &[0],
            &counted(&[0x13, 0x01]),
            &[1, 0],
            &counted(&extensions),
        ];
        let body = body.concat();
        // A length of 24 bits.
        let handshake = [&[1, 0][..], &counted(&body)].concat();
        [&[22, 3, 1][..], &counted(&handshake)].concat()
    }
}

/// Bytes after their number.
fn counted(bytes: &[u8]) -> Vec<u8> {
    let count = u16::try_from(bytes.len()).expect("a short message");
    [&count.to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &counted(content)].concat()
}

/// A connection to a port of [`NAME`], and without a sandbox to that of the loopback.
#[derive(Debug, Clone, Copy)]
struct Attempted {
    subcommand: &'static str,
    /// The name to look up. Empty for the address alone.
    name: &'static str,
    port: u16,
    message: FirstMessage,
}

impl Attempted {
    fn to(port: u16) -> Self {
        Self {
            subcommand: "tcp-named",
            name: NAME,
            port,
            message: FirstMessage::Plain,
        }
    }

    fn saying(self, message: FirstMessage) -> Self {
        Self { message, ..self }
    }

    fn by_address(self) -> Self {
        Self { name: "", ..self }
    }

    fn call(self, marker: &str) -> Call {
        let message = self.message.bytes(marker);
        let digits: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
        let port = self.port.to_string();
        Call::new([self.subcommand, &digits, self.name, &port]).and(format!("127.0.0.1/{port}"))
    }
}

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
    // Without a sandbox, the attack says why.
    if let Ok(Some(gap)) = context.declared_gap().await {
        context.not_offered(format!("egress rules: {gap}"));
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
