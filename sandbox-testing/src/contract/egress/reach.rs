//! What code reaches, and what it does not.

use sandbox_core::{Capability, DenialKind, Outcome, SandboxHandle};

use super::servers::{listener, web_server};
use super::{EgressBackend, ONE, OTHER, shell};
use crate::contract::{TestResult, output, run};

/// A Python client connects, and so does each other client that is installed.
///
/// # Errors
///
/// The backend's.
pub fn unchanged_clients_reach_an_allowed_name(backend: &'static dyn EgressBackend) -> TestResult {
    run(async {
        let port = web_server("hello from outside");
        let sandbox = backend
            .create(&[&format!("{ONE}:{port} tcp private")])
            .await?;
        let report = sandbox.enforcement().get(Capability::Egress);
        assert!(
            report.is_some_and(sandbox_core::Enforcement::is_enforced),
            "{report:?}"
        );
        let url = format!("http://ONE.test:{port}/");
        let code = format!("import urllib.request as u; print(u.urlopen('{url}').read().decode())");
        assert_eq!(
            backend.python_output(&sandbox, &code).await?,
            "hello from outside\n"
        );
        // Not every client tries the second address, so each must work.
        let each = format!(
            "
import socket
for family, kind, protocol, _, address in socket.getaddrinfo('{ONE}', {port}, type=socket.SOCK_STREAM):
    with socket.socket(family, kind, protocol) as peer: peer.connect(address)
print('connected')
"
        );
        assert_eq!(backend.python_output(&sandbox, &each).await?, "connected\n");
        for (program, arguments) in [
            ("curl", format!("-sS {url}")),
            ("curl", format!("-4 -sS {url}")),
            ("wget", format!("-qO- {url}")),
            (
                "node",
                format!("-e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'"),
            ),
            (
                "perl",
                format!("-MHTTP::Tiny -e 'print HTTP::Tiny->new->get(\"{url}\")->{{content}}'"),
            ),
        ] {
            let installed = format!("command -v {program} || echo none");
            if output(&sandbox, &installed).await? != "none\n" {
                let text = output(&sandbox, &format!("{program} {arguments}")).await?;
                assert_eq!(text.trim_end(), "hello from outside", "{program}");
            }
        }
        // The name of the address, and `AI_ADDRCONFIG`, which asks for more than 127.0.0.1.
        let address = output(&sandbox, &format!("getent ahostsv4 {ONE}")).await?;
        assert!(address.starts_with("198.18.0."), "{address}");
        assert_eq!(sandbox.denials().as_slice(), []);
        sandbox.kill().await
    })
}

/// Names that no rule allows do not exist, and addresses have no route, at once.
///
/// # Errors
///
/// The backend's.
pub fn other_names_resolve_to_nothing_and_addresses_have_no_route(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let rules = [
            &format!("{ONE}:1 tcp private"),
            "*.wild.test",
            "!no.wild.test",
        ];
        let sandbox = backend.create(&rules).await?;
        for name in [
            OTHER,
            "x.one.test",
            "wild.test",
            "no.wild.test",
            "localhost.test",
        ] {
            let result = shell(&sandbox, &format!("getent hosts {name}")).await?;
            let none = Outcome::Exited { code: 2 };
            assert_eq!(result.outcome, none, "{name}: {}", result.output());
        }
        output(&sandbox, "getent hosts a.b.wild.test").await?;
        let dial = "
import socket, errno
for address in ('1.1.1.1', '169.254.169.254', '10.0.0.1', '192.0.2.1'):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            socket.socket(socket.AF_INET, kind).connect((address, 443))
            print(address, 'is open')
        except OSError as error:
            # gVisor misses the host, Linux the network.
            if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH): print(address, error)
";
        assert_eq!(backend.python_output(&sandbox, dial).await?, "");
        // A free address of the names, and a port without a rule.
        let free = "import socket; socket.create_connection(('198.18.9.9', 443), 5)";
        let refused = sandbox.exec(&backend.program(free)).await?;
        assert!(
            refused.stderr_text().contains("ConnectionRefused"),
            "{}",
            refused.output()
        );
        sandbox.kill().await
    })
}

/// Requests for other hosts, other addresses and other ports are refused, and code gets no
/// capability by its rules.
///
/// # Errors
///
/// The backend's.
pub fn rules_allow_their_hosts_and_addresses_alone(
    backend: &'static dyn EgressBackend,
) -> TestResult {
    run(async {
        let (_, port) = listener();
        let address = format!("203.0.113.7:{port}");
        // Level `name` on port 80, which the agent can listen on.
        let rules = [ONE, address.as_str(), "203.0.113.16/28:9999"];
        let sandbox = backend.create(&rules).await?;
        assert_other_hosts_are_refused(backend, &sandbox).await?;
        assert_other_addresses_are_refused(backend, &sandbox, port).await?;
        assert_no_power_over_the_network(backend, &sandbox).await?;
        sandbox.kill().await
    })
}

/// Level `name` answers a request for another host, and one whose address is private.
async fn assert_other_hosts_are_refused(
    backend: &'static dyn EgressBackend,
    sandbox: &SandboxHandle,
) -> sandbox_core::Result<()> {
    let ask = |host: &str| {
        format!(
            "
import http.client
client = http.client.HTTPConnection('{ONE}')
client.request('GET', '/', headers={{'Host': '{host}'}})
answer = client.getresponse()
print(answer.status, answer.read().decode())
"
        )
    };
    let text = backend.python_output(sandbox, &ask(OTHER)).await?;
    assert!(
        text.starts_with("403") && text.contains(OTHER) && text.contains("denied"),
        "{text}"
    );
    // The address is private, and the rule does not say so.
    let text = backend.python_output(sandbox, &ask(ONE)).await?;
    assert!(text.contains("private"), "{text}");
    let denials = sandbox.denials();
    let connections = denials
        .iter()
        .filter(|denial| denial.kind == DenialKind::Network)
        .inspect(|denial| assert!(denial.to_string().contains(ONE), "{denial}"));
    assert_eq!(connections.count(), 2, "{denials:?}");
    Ok(())
}

/// A rule for an address has a route and a listener, and only for its ports.
async fn assert_other_addresses_are_refused(
    backend: &'static dyn EgressBackend,
    sandbox: &SandboxHandle,
    port: u16,
) -> sandbox_core::Result<()> {
    let probe = |address: &str, port: u16| {
        backend.program(&format!(
            "
import socket
try:
    socket.create_connection(('{address}', {port}), 5)
except ConnectionResetError:
    pass
print('accepted')
"
        ))
    };
    // The agent accepts it. It is reset as soon as the host finds no route to it.
    for (address, port) in [("203.0.113.7", port), ("203.0.113.20", 9999)] {
        let result = sandbox.exec(&probe(address, port)).await?;
        assert_eq!(result.stdout_text(), "accepted\n", "{}", result.output());
    }
    for (address, port) in [
        ("203.0.113.8", port),
        ("203.0.113.7", 9998),
        ("203.0.113.32", 9999),
    ] {
        let result = sandbox.exec(&probe(address, port)).await?;
        assert!(!result.success(), "{address} {port}");
    }
    Ok(())
}

/// Code has no capability, and no power over its loopback. Checks it for two executions, and that
/// the agent lacks `CAP_NET_ADMIN` (bit 12), too.
pub(crate) async fn assert_no_power_over_the_network(
    backend: &'static dyn EgressBackend,
    sandbox: &SandboxHandle,
) -> sandbox_core::Result<()> {
    for _ in 0..2 {
        let sets = output(sandbox, "grep ^Cap /proc/self/status").await?;
        // gVisor shows no ambient set.
        let count = if sets.contains("CapAmb") { 5 } else { 4 };
        assert_eq!(sets.lines().count(), count, "{sets}");
        for line in sets.lines() {
            assert!(line.ends_with("\t0000000000000000"), "{sets}");
        }
        let sets = output(sandbox, "grep ^Cap /proc/1/status | cut -f 2").await?;
        assert_eq!(sets.lines().count(), count, "{sets}");
        for set in sets.lines() {
            let set = u64::from_str_radix(set, 16).expect("a bit set");
            assert_eq!(set >> 12 & 1, 0, "{sets}");
        }
        // SIOCSIFFLAGS and SIOCSIFADDR: take `lo` down, and give it another address.
        let change = "
import errno, fcntl, socket, struct
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name, number, rest in (
    (b'lo', 0x8914, struct.pack('H22x', 0)),
    (b'lo:9', 0x8916, struct.pack('HH4s16x', socket.AF_INET, 0, bytes([8, 8, 8, 8]))),
):
    try:
        fcntl.ioctl(control, number, struct.pack('16s', name) + rest)
        print('changed', name)
    except OSError as error:
        # gVisor has no such requests.
        if error.errno not in (errno.EPERM, errno.ENOTTY): print(name, error)
";
        assert_eq!(backend.python_output(sandbox, change).await?, "");
        let low = "import socket; socket.create_server(('127.0.0.1', 81)); print('listens')";
        assert_eq!(backend.python_output(sandbox, low).await?, "listens\n");
    }
    Ok(())
}
