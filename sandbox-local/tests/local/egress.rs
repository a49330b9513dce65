//! Connections of unchanged programs to servers that rules allow. The servers are on this host's
//! loopback, so the rules say `private`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use sandbox_core::policy::{EgressRules, NetworkPolicy};
use sandbox_core::{
    Capability, CapabilityPolicy, DenialKind, ErrorKind, ExecEvent, ExecResult, Outcome,
    SandboxClient, SandboxHandle, Stdin,
};
use sandbox_local::LocalBackend;
use sandbox_testing::wait::wait_until;

use crate::harness::{Need, Test, test};
use crate::support::{config, sh, spec};

pub const TESTS: &[Test] = &[
    test!(threads unchanged_clients_reach_an_allowed_name, Need::Namespaces),
    test!(threads other_names_resolve_to_nothing_and_addresses_have_no_route, Need::Namespaces),
    test!(threads request_for_another_host_is_refused_with_the_reason, Need::Namespaces),
    test!(threads address_that_a_rule_allows_is_reached, Need::Namespaces),
    test!(threads revoked_connections_end_and_others_live_on, Need::Namespaces),
    test!(threads short_connections_leave_no_descriptors, Need::Namespaces),
    test!(threads connections_end_with_the_sandbox, Need::Namespaces),
    test!(threads code_gets_no_capability_by_rules, Need::Namespaces),
    test!(threads detached_sandbox_with_rules_is_refused, Need::Namespaces),
];

const ONE: &str = "one.test";
const OTHER: &str = "other.test";

fn policy(rules: &[&str]) -> CapabilityPolicy {
    let mut policy = crate::support::policy();
    policy
        .allow_partial
        .retain(|one| *one != Capability::Egress);
    policy
        .allow_unenforced
        .retain(|one| *one != Capability::Egress);
    let rules = EgressRules::parse(rules).expect("rules");
    policy.network = Some(NetworkPolicy::Allow(rules.into_rules()));
    policy
}

fn client(rules: &[&str]) -> SandboxClient {
    let here = Ipv4Addr::LOCALHOST.into();
    let config = config().host(ONE, here).host(OTHER, here);
    let backend = Arc::new(LocalBackend::new(config));
    SandboxClient::with_backend(backend, policy(rules)).expect("a policy")
}

async fn create(rules: &[&str]) -> SandboxHandle {
    client(rules).create(&spec()).await.expect("a sandbox")
}

async fn run(sandbox: &SandboxHandle, script: &str) -> ExecResult {
    let request = sh(script).timeout(Duration::from_secs(60));
    sandbox.exec(&request).await.expect("it runs")
}

/// The output of a script that succeeds.
async fn output(sandbox: &SandboxHandle, script: &str) -> String {
    let result = run(sandbox, script).await;
    assert!(result.success(), "{script}: {}", result.output());
    result.stdout_text()
}

/// A server that answers each request with `content`, as HTTP.
fn web_server(content: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && peer.read(&mut byte).is_ok_and(|n| n == 1) {
                request.push(byte[0]);
            }
            let length = content.len();
            // The client may have left.
            let _ = write!(
                peer,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{content}"
            );
        }
    });
    port
}

async fn unchanged_clients_reach_an_allowed_name() {
    let port = web_server("hello from outside");
    let sandbox = create(&[&format!("{ONE}:{port} tcp private")]).await;
    let report = sandbox
        .enforcement()
        .get(Capability::Egress)
        .expect("reported");
    assert!(report.is_enforced(), "{report:?}");
    let url = format!("http://ONE.test:{port}/");
    let clients = [
        ("/usr/bin/curl", format!("curl -sS {url}")),
        ("/usr/bin/curl", format!("curl -4 -sS {url}")),
        ("/usr/bin/wget", format!("wget -qO- {url}")),
        (
            "/usr/bin/python3",
            format!(
                "/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode())'"
            ),
        ),
        (
            "/usr/bin/node",
            format!("node -e 'fetch(\"{url}\").then(r => r.text()).then(console.log)'"),
        ),
        (
            "/usr/bin/perl",
            format!("perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->get(\"{url}\")->{{content}}'"),
        ),
    ];
    let mut ran = 0;
    for (program, script) in clients {
        if std::path::Path::new(program).exists() {
            let text = output(&sandbox, &script).await;
            assert_eq!(text.trim_end(), "hello from outside", "{script}");
            ran += 1;
        }
    }
    assert!(ran > 0, "no client is installed");
    // The name of the address, and `AI_ADDRCONFIG`, which asks for more than 127.0.0.1.
    let address = output(&sandbox, &format!("getent ahostsv4 {ONE}")).await;
    assert!(address.starts_with("198.18.0."), "{address}");
    assert_eq!(sandbox.denials().as_slice(), []);
    sandbox.kill().await.unwrap();
}

async fn other_names_resolve_to_nothing_and_addresses_have_no_route() {
    let sandbox = create(&[
        &format!("{ONE}:1 tcp private"),
        "*.wild.test",
        "!no.wild.test",
    ])
    .await;
    for name in [
        OTHER,
        "x.one.test",
        "wild.test",
        "no.wild.test",
        "localhost.test",
    ] {
        let result = run(&sandbox, &format!("getent hosts {name}")).await;
        assert_eq!(
            result.outcome,
            Outcome::Exited { code: 2 },
            "{name}: {}",
            result.output()
        );
    }
    output(&sandbox, "getent hosts a.b.wild.test").await;
    let dial = "import socket, errno, sys\n\
        for address in ('1.1.1.1', '169.254.169.254', '10.0.0.1', '192.0.2.1'):\n\
        \x20   for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n\
        \x20       try:\n\
        \x20           socket.socket(socket.AF_INET, kind).connect((address, 443))\n\
        \x20           print(address, 'is open')\n\
        \x20       except OSError as error:\n\
        \x20           if error.errno != errno.ENETUNREACH: print(address, error)\n";
    let seen = output(&sandbox, &format!("/usr/bin/python3 -c \"{dial}\"")).await;
    assert_eq!(seen, "");
    // A free address of the names, and a port without a rule.
    let refused = run(
        &sandbox,
        "/usr/bin/python3 -c \"import socket; socket.create_connection(('198.18.9.9', 443), 5)\"",
    )
    .await;
    assert!(
        refused.stderr_text().contains("ConnectionRefused"),
        "{}",
        refused.output()
    );
    sandbox.kill().await.unwrap();
}

async fn request_for_another_host_is_refused_with_the_reason() {
    // Level `name` on port 80, which the agent can listen on.
    let sandbox = create(&[ONE]).await;
    let script = format!("curl -sS -H 'Host: {OTHER}' http://{ONE}/");
    let text = output(&sandbox, &script).await;
    assert!(text.contains(OTHER) && text.contains("denied"), "{text}");
    // The address is private, and the rule does not say so.
    let text = output(&sandbox, &format!("curl -sS http://{ONE}/")).await;
    assert!(text.contains("private"), "{text}");
    let denials = sandbox.denials();
    let connections = denials
        .iter()
        .filter(|denial| denial.kind == DenialKind::Network);
    assert_eq!(connections.count(), 2, "{denials:?}");
    sandbox.kill().await.unwrap();
}

async fn address_that_a_rule_allows_is_reached() {
    // An address of this host that is not 127.0.0.1, which code's own loopback has as well.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let rule = format!("203.0.113.7:{port}");
    let sandbox = create(&[&rule, "203.0.113.16/28:9999"]).await;
    let probe = |address: &str, port: u16| {
        format!(
            "/usr/bin/python3 -c \"
import socket
try:
    socket.create_connection(('{address}', {port}), 5)
except ConnectionResetError:
    pass
print('accepted')
\""
        )
    };
    // The agent accepts it. It is reset as soon as the host finds no route to it.
    assert_eq!(
        output(&sandbox, &probe("203.0.113.7", port)).await,
        "accepted\n"
    );
    assert_eq!(
        output(&sandbox, &probe("203.0.113.20", 9999)).await,
        "accepted\n"
    );
    for (address, port) in [
        ("203.0.113.8", port),
        ("203.0.113.7", 9998),
        ("203.0.113.32", 9999),
    ] {
        let result = run(&sandbox, &probe(address, port)).await;
        assert!(!result.success(), "{address} {port}");
    }
    sandbox.kill().await.unwrap();
}

/// A server that sends a byte every 10 ms until the client has left. Returns its port.
fn endless_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            std::thread::spawn(move || {
                for _ in 0..10_000 {
                    if peer.write_all(b"x").is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
    });
    port
}

/// Reads from a server until the connection breaks, and says `reset` or `end`.
fn reading(name: &str, port: u16) -> String {
    format!(
        "exec /usr/bin/python3 -uc \"
import socket
peer = socket.create_connection(('{name}', {port}))
print('reading' if peer.recv(1) else 'nothing')
try:
    while peer.recv(100): pass
    print('end')
except ConnectionResetError:
    print('reset')
\""
    )
}

async fn started(sandbox: &SandboxHandle, script: &str) -> sandbox_core::Execution {
    let request = sh(script).timeout(Duration::from_secs(60));
    let mut execution = sandbox
        .start(&request, Stdin::Null)
        .await
        .expect("it starts");
    until(&mut execution, "reading\n").await;
    execution
}

async fn until(execution: &mut sandbox_core::Execution, expected: &str) {
    let mut text = String::new();
    while text != expected {
        match execution.next_event().await.expect("the sandbox works") {
            Some(ExecEvent::Stdout(bytes)) => text += &String::from_utf8_lossy(&bytes),
            Some(ExecEvent::Started) => {}
            other => panic!("{other:?} instead of {expected:?}, after {text:?}"),
        }
    }
}

async fn revoked_connections_end_and_others_live_on() {
    let port = endless_server();
    let (one, other) = (
        format!("{ONE}:{port} tcp private"),
        format!("{OTHER}:{port} tcp private"),
    );
    let sandbox = create(&[&one, &other]).await;
    let mut revoked = started(&sandbox, &reading(ONE, port)).await;
    let mut kept = started(&sandbox, &reading(OTHER, port)).await;
    let rules = EgressRules::parse([&other]).unwrap();
    sandbox.set_egress(rules).await.expect("they change");
    until(&mut revoked, "reset\n").await;
    let gone = run(&sandbox, &format!("getent hosts {ONE}")).await;
    assert_eq!(
        gone.outcome,
        Outcome::Exited { code: 2 },
        "{}",
        gone.output()
    );
    // It comes back, with the same address.
    let rules = EgressRules::parse([&one, &other]).unwrap();
    sandbox.set_egress(rules).await.expect("they change");
    let _again = started(&sandbox, &reading(ONE, port)).await;
    let more = EgressRules::parse(["third.test"]).unwrap();
    let refused = sandbox
        .set_egress(more)
        .await
        .expect_err("above the policy");
    assert_eq!(refused.kind(), ErrorKind::PolicyExceeded);
    // The other connection has lived through all of it; now nothing is allowed.
    sandbox
        .set_egress(EgressRules::default())
        .await
        .expect("they change");
    until(&mut kept, "reset\n").await;
    sandbox.kill().await.unwrap();
}

async fn short_connections_leave_no_descriptors() {
    let port = web_server("x");
    let sandbox = create(&[&format!("{ONE}:{port} tcp private")]).await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("procfs").count();
    let request = |count: u32| {
        format!(
            "/usr/bin/python3 -c \"
import socket
for _ in range({count}):
    with socket.create_connection(('{ONE}', {port})) as peer:
        peer.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
        while peer.recv(1000): pass
\""
        )
    };
    output(&sandbox, &request(1)).await;
    let before = descriptors();
    output(&sandbox, &request(1000)).await;
    // Other tests of this process open some, too, so some more are fine.
    wait_until("connections close", Duration::from_secs(30), || {
        descriptors() < before + 200
    });
    sandbox.kill().await.unwrap();
}

async fn connections_end_with_the_sandbox() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let sandbox = create(&[&format!("{ONE}:{port} tcp private")]).await;
    let script = format!(
        "exec /usr/bin/python3 -uc \"import socket; peer = socket.create_connection(('{ONE}', {port})); peer.sendall(b'x'); print('reading'); peer.recv(1)\""
    );
    let _running = started(&sandbox, &script).await;
    let (mut peer, _) = listener.accept().expect("a connection");
    peer.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    assert_eq!(peer.read(&mut [0; 8]).expect("a byte"), 1);
    sandbox.kill().await.unwrap();
    // A server that took the end for that of the data would keep half of an upload.
    let end = peer.read(&mut [0; 8]).expect_err("a reset");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}

async fn code_gets_no_capability_by_rules() {
    let sandbox = create(&["one.test", "203.0.113.0/24:443"]).await;
    let sets = output(&sandbox, "grep ^Cap /proc/self/status").await;
    for line in sets.lines() {
        assert!(line.ends_with("\t0000000000000000"), "{sets}");
    }
    let failed = run(
        &sandbox,
        "ip link set lo down || ip route add local 8.8.8.8/32 dev lo",
    )
    .await;
    assert!(!failed.success(), "{}", failed.output());
    sandbox.kill().await.unwrap();
}

async fn detached_sandbox_with_rules_is_refused() {
    let mut spec = spec();
    spec.detached = true;
    let error = client(&[ONE]).create(&spec).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NotEnforceable, "{error}");
}
