//! What clients send to the suite's server.

use std::net::Ipv4Addr;

use super::NAME;
use crate::program::Call;

/// What a client sends. The suite's server recognizes the marker.
#[derive(Debug, Clone, Copy)]
pub(super) enum FirstMessage {
    /// The marker alone.
    Plain,
    /// A request for this host.
    Http { host: &'static str },
    /// Requests, each with a method, a path and a host.
    Requests(&'static [(&'static str, &'static str)]),
    /// The first message of TLS.
    Tls(Hello),
    /// A request of HTTP/2 without TLS for this host, from a client that knows that the server
    /// understands it.
    Http2 { host: &'static str },
}

/// How a TLS client names its server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hello {
    Named(&'static str),
    Unnamed,
    /// The readable name is the allowed one.
    Encrypted,
    /// It has two names, in an extension each.
    Twice(&'static str, &'static str),
    /// The message is spread over two records.
    InRecords(&'static str),
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
            Self::Http2 { host } => http2(host, marker),
        }
    }
}

impl Hello {
    /// A client's hello, with the marker in an extension that servers ignore.
    pub(super) fn bytes(self, marker: &str) -> Vec<u8> {
        const SERVER_NAME: u16 = 0;
        const ENCRYPTED_HELLO: u16 = 0xfe0d;
        const IGNORED: u16 = 0xaaaa;
        let server_name = |name: &str| {
            let entry = [&[0][..], &counted(name.as_bytes())].concat();
            extension(SERVER_NAME, &counted(&entry))
        };
        let named = match self {
            Self::Named(name) | Self::InRecords(name) => server_name(name),
            Self::Twice(one, other) => [server_name(one), server_name(other)].concat(),
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
        let record = |content: &[u8]| [&[22, 3, 1][..], &counted(content)].concat();
        match self {
            Self::InRecords(_) => {
                let (first, rest) = handshake.split_at(60);
                [record(first), record(rest)].concat()
            }
            _ => record(&handshake),
        }
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
pub(super) struct Attempted {
    subcommand: &'static str,
    /// The names to look up, separated by commas. Empty for the address alone.
    name: &'static str,
    port: u16,
    message: FirstMessage,
}

impl Attempted {
    pub(super) fn to(port: u16) -> Self {
        Self {
            subcommand: "tcp-named",
            name: NAME,
            port,
            message: FirstMessage::Plain,
        }
    }

    pub(super) fn saying(self, message: FirstMessage) -> Self {
        Self { message, ..self }
    }

    pub(super) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(super) fn with_a_datagram(self) -> Self {
        Self {
            subcommand: "udp-named",
            ..self
        }
    }

    pub(super) fn by_address(self) -> Self {
        Self { name: "", ..self }
    }

    pub(super) fn call(self, marker: &str) -> Call {
        let message = self.message.bytes(marker);
        let address = (Ipv4Addr::LOCALHOST, self.port);
        message_call(self.subcommand, &message, self.name, address)
    }
}

/// Sends a message to the names, separated by commas, at the address's port, and then to the address.
pub(super) fn message_call(
    subcommand: &str,
    message: &[u8],
    names: &str,
    (address, port): (Ipv4Addr, u16),
) -> Call {
    let call = Call::new([subcommand, &digits(message), names, &port.to_string()]);
    call.and(format!("{address}/{port}"))
}

/// The bytes in hexadecimal digits.
pub(super) fn digits(message: &[u8]) -> String {
    message.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The preface of RFC 9113, empty settings, and the headers of one request with the marker.
fn http2(host: &str, marker: &str) -> Vec<u8> {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    /// They are complete, and nothing follows.
    const END_HEADERS_AND_STREAM: u8 = 5;
    let frame = |kind: u8, flags: u8, stream: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], content].concat()
    };
    // Each text is shorter than 127 bytes, so its length is one byte of RFC 7541.
    let text = |text: &str| {
        let length = u8::try_from(text.len()).expect("a short text");
        [&[length], text.as_bytes()].concat()
    };
    let fields = [
        // `GET`, `http` and `/` of the static table.
        vec![0x82, 0x86, 0x84],
        // `:authority`, not indexed.
        [vec![0x01], text(host)].concat(),
        [vec![0x00], text("x-probe"), text(marker)].concat(),
    ];
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS_AND_STREAM, 1, &fields.concat()),
    ]
    .concat()
}
