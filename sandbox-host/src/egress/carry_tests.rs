use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::policy::NetworkRule;
use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::hello::tests::hello;
use super::*;
use crate::lock;

#[path = "revoke_tests.rs"]
mod revoke;

const WAIT: Duration = Duration::from_secs(30);

/// Answers from a table, and the names that were asked for.
#[derive(Default)]
struct Table {
    answers: HashMap<String, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolver for Table {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        lock(&self.asked).push(name.to_owned());
        let answers = self.answers.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(answers
            .iter()
            .map(|ip| SocketAddr::new(*ip, port))
            .collect())
    }
}

fn table(answers: &[(&str, &[&str])]) -> Arc<Table> {
    let answers = answers.iter().map(|(name, addresses)| {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        ((*name).to_owned(), addresses.collect())
    });
    Arc::new(Table {
        answers: answers.collect(),
        ..Table::default()
    })
}

fn rules(rules: &[String]) -> EgressRules {
    EgressRules::parse(rules).unwrap()
}

fn egress(allowed: &[String], resolver: Arc<Table>) -> Arc<Egress> {
    let options = EgressOptions {
        resolver,
        ..EgressOptions::default()
    };
    Egress::with_options(rules(allowed), NetworkPolicy::Full, options)
}

fn name(host: &str, port: u16) -> CodeTarget {
    CodeTarget {
        host: TargetHost::Name(host.to_owned()),
        port,
    }
}

fn address(address: &str, port: u16) -> CodeTarget {
    CodeTarget {
        host: TargetHost::Address(address.parse().unwrap()),
        port,
    }
}

/// Code's end of a connection, and how it ends.
fn start(egress: &Arc<Egress>, target: CodeTarget) -> (DuplexStream, JoinHandle<CarryEnd>) {
    let (code, stream) = duplex(1 << 16);
    let egress = Arc::clone(egress);
    let carry = tokio::spawn(async move { egress.carry(target, stream, |_| {}).await });
    (code, carry)
}

async fn end(carry: JoinHandle<CarryEnd>) -> CarryEnd {
    tokio::time::timeout(WAIT, carry)
        .await
        .expect("it ends")
        .unwrap()
}

async fn denial(egress: &Arc<Egress>, target: CodeTarget) -> ConnectionDenial {
    let (_code, carry) = start(egress, target);
    match end(carry).await {
        CarryEnd::Denied(denial) => denial,
        other => panic!("{other:?}"),
    }
}

async fn carried(carry: JoinHandle<CarryEnd>) -> Carried {
    match end(carry).await {
        CarryEnd::Carried(carried) => carried,
        other => panic!("{other:?}"),
    }
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Sends all that it gets back once the client has ended.
async fn echo_at_end(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            stream.write_all(&all).await.unwrap();
        });
    }
}

async fn read_all(code: &mut DuplexStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = tokio::time::timeout(WAIT, code.read_to_end(&mut all));
    read.await.expect("it ends").unwrap();
    all
}

/// Nobody has connected: a connection would wait in the queue.
async fn assert_never_dialed(listener: &TcpListener) {
    let accepted = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(accepted.is_err(), "a connection was made");
}

#[tokio::test]
async fn bytes_are_carried_both_ways_and_ends_are_passed_on() {
    let (listener, port) = listener().await;
    tokio::spawn(echo_at_end(listener));
    let egress = egress(
        &[format!("a.org:{port} private")],
        table(&[("a.org", &["127.0.0.1"])]),
    );
    let (mut code, carry) = start(&egress, name("A.org.", port));
    let data = vec![7; 1 << 20];
    let (mut reader, mut writer) = tokio::io::split(&mut code);
    let writing = async {
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let reading = reader.read_to_end(&mut back);
    let (_, read) = tokio::join!(writing, reading);
    read.unwrap();
    assert!(back == data);
    let carried = carried(carry).await;
    assert_eq!((carried.sent, carried.received), (1 << 20, 1 << 20));
    assert_eq!(carried.reason, EndReason::Finished);
    assert_eq!(carried.address.port(), port);
    assert_eq!(egress.open_connections(), 0);
}

#[tokio::test]
async fn targets_of_a_hostile_agent_are_refused() {
    let (listener, port) = listener().await;
    let allowed = [
        format!("*.org:{port} private"),
        format!("127.0.0.2:{port} private"),
    ];
    let resolver = table(&[("b.net", &["127.0.0.1"]), ("127.0.0.1", &["127.0.0.1"])]);
    let egress = egress(&allowed, Arc::clone(&resolver));
    let long = "a".repeat(100_000);
    for (target, why) in [
        (name("b.net", port), "no rule allows it"),
        (name("", port), "host name"),
        (name("127.0.0.1", port), "an address is no name"),
        (name("[::1]", port), "an address is no name"),
        (name("2130706433", port), "another form"),
        (name("0x7f.1", port), "another form"),
        (name("a.org\n", port), "host name"),
        (name("a b.org", port), "host name"),
        (name("ä.org", port), "ASCII"),
        (name(&long, port), "at most 253"),
        (name("a.org", 0), "no port"),
        (name("a.org", 1), "is for other ports"),
        (address("127.0.0.1", port), "no rule allows it"),
        (address("::ffff:127.0.0.2", port), "no rule allows it"),
    ] {
        let denial = denial(&egress, target.clone()).await;
        assert!(denial.why.contains(why), "{target:?}: {}", denial.why);
        assert!(denial.host.len() < 300);
    }
    assert!(lock(&resolver.asked).is_empty());
    assert_never_dialed(&listener).await;
}

#[tokio::test]
async fn only_judged_addresses_are_dialed() {
    let (listener, port) = listener().await;
    // A public name that is rebound to the host's loopback.
    let resolver = table(&[
        (
            "rebound.org",
            &["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"],
        ),
        ("mixed.org", &["169.254.169.254", "127.0.0.1"]),
        ("denied.org", &["127.0.0.1"]),
    ]);
    let allowed = [
        format!("rebound.org:{port}"),
        format!("mixed.org:{port} private"),
        format!("denied.org:{port} private"),
    ];
    let egress = egress(&allowed, resolver);
    let refused = denial(&egress, name("rebound.org", port)).await;
    assert!(
        refused.why.contains("127.0.0.1 is a loopback address"),
        "{}",
        refused.why
    );
    assert_eq!(refused.rule, Some(allowed[0].parse().unwrap()));
    assert_never_dialed(&listener).await;

    // The metadata service is left out, and the other address is dialed.
    let (code, carry) = start(&egress, name("mixed.org", port));
    let (stream, _) = listener.accept().await.unwrap();
    drop((code, stream));
    let address = carried(carry).await.address;
    assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));

    let mut closed = allowed.to_vec();
    closed.push("!127.0.0.0/8".to_owned());
    egress.set(rules(&closed)).await.unwrap();
    let refused = denial(&egress, name("denied.org", port)).await;
    assert_eq!(refused.rule, Some("!127.0.0.0/8".parse().unwrap()));
    let denial = refused.to_denial();
    assert_eq!(denial.rule, "egress = !127.0.0.0/8");
    assert_never_dialed(&listener).await;
}

#[tokio::test]
async fn address_of_this_host_needs_private() {
    let (listener, port) = listener().await;
    let resolver = table(&[("a.org", &["8.8.8.8"])]);
    let allowed = [format!("a.org:{port}"), format!("8.8.8.8:{port}")];
    let mut egress = Arc::into_inner(egress(&allowed, resolver)).unwrap();
    // As on a host with this address.
    egress.own_networks = || Ok(vec![IpNetwork::single("8.8.8.8".parse().unwrap())]);
    let egress = Arc::new(egress);
    for target in [name("a.org", port), address("8.8.8.8", port)] {
        let denial = denial(&egress, target).await;
        assert!(
            denial.why.contains("8.8.8.8 is this host itself"),
            "{}",
            denial.why
        );
    }
    let mut unknown = Arc::into_inner(egress).unwrap();
    unknown.own_networks = || Err(io::Error::other("no table"));
    let (_code, carry) = start(&Arc::new(unknown), address("8.8.8.8", port));
    assert!(matches!(end(carry).await, CarryEnd::Unreachable(_)));
    assert_never_dialed(&listener).await;
}

#[tokio::test]
async fn client_must_ask_for_the_name_that_it_connected_to() {
    let (listener, port) = listener().await;
    let egress = egress(
        &[format!("a.org:{port} name private")],
        table(&[("a.org", &["127.0.0.1"])]),
    );
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    let ssh = b"SSH-2.0-client\r\n".to_vec();
    let refused: [(Vec<u8>, &str, &[u8]); 5] = [
        (
            hello("b.org", true),
            "asks for the server b.org",
            &b"\x15\x03\x03\0\x02\x02\x31"[..],
        ),
        (hello("a.org", false), "names no server", b"\x15\x03\x03"),
        (
            get("b.org"),
            "asks for the host b.org",
            b"HTTP/1.1 403 Forbidden\r\n",
        ),
        (ssh.clone(), "cannot be read", b""),
        (b"\0\x01binary".to_vec(), "neither TLS nor HTTP", b""),
    ];
    for (first, why, answer) in refused {
        let (mut code, carry) = start(&egress, name("a.org", port));
        code.write_all(&first).await.unwrap();
        let read = read_all(&mut code).await;
        assert!(
            read.starts_with(answer),
            "{why}: {}",
            String::from_utf8_lossy(&read)
        );
        match end(carry).await {
            CarryEnd::Denied(denial) => assert!(denial.why.contains(why), "{}", denial.why),
            other => panic!("{why}: {other:?}"),
        }
    }
    assert_never_dialed(&listener).await;
    let (code, carry) = start(&egress, name("a.org", port));
    drop(code);
    assert!(matches!(end(carry).await, CarryEnd::Closed));

    for first in [
        hello("a.org", true),
        get("a.org"),
        get(&format!("A.ORG:{port}")),
    ] {
        let (mut code, carry) = start(&egress, name("a.org", port));
        // In two pieces.
        code.write_all(&first[..10]).await.unwrap();
        tokio::task::yield_now().await;
        code.write_all(&first[10..]).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut seen = vec![0; first.len()];
        server.read_exact(&mut seen).await.unwrap();
        assert!(seen == first);
        server.write_all(b"ok").await.unwrap();
        drop(server);
        assert_eq!(read_all(&mut code).await, b"ok");
        drop(code);
        assert_eq!(carried(carry).await.sent, first.len() as u64);
    }
}

#[tokio::test]
async fn first_request_is_bounded_in_size_pieces_and_time() {
    let egress = egress(&["a.org".to_owned()], table(&[]));
    let head = b"GET / HTTP/1.1\r\nX: ".to_vec();
    let long = [head.clone(), vec![b'x'; limits::MAX_FIRST_FLIGHT]].concat();
    let (mut code, carry) = start(&egress, name("a.org", 80));
    // It is not read to its end.
    let _ = code.write_all(&long).await;
    let CarryEnd::Denied(denial) = end(carry).await else {
        panic!("it is too long");
    };
    assert!(
        denial.why.contains("longer than 16384 bytes"),
        "{}",
        denial.why
    );

    let (mut code, stream) = duplex(1);
    let target = name("a.org", 80);
    let carry = egress.carry(target, stream, |_| {});
    let writing = async {
        let _ = code.write_all(&head).await;
        let _ = code.write_all(&[b'x'; 1000]).await;
        let _ = read_all(&mut code).await;
    };
    let (end, ()) = tokio::join!(carry, writing);
    let CarryEnd::Denied(denial) = end else {
        panic!("it is in too many pieces");
    };
    assert!(denial.why.contains("256 pieces"), "{}", denial.why);
}

#[tokio::test(start_paused = true)]
async fn client_that_asks_for_nothing_is_refused_after_a_while() {
    let egress = egress(&["a.org".to_owned()], table(&[]));
    let (_code, carry) = start(&egress, name("a.org", 443));
    let CarryEnd::Denied(denial) = carry.await.unwrap() else {
        panic!("it is too slow");
    };
    assert!(denial.why.contains("longer than 10s"), "{}", denial.why);
}

#[tokio::test]
async fn rules_stay_within_the_ceiling() {
    let ceiling: Vec<NetworkRule> = vec!["*.a.org".parse().unwrap(), "!x.a.org".parse().unwrap()];
    let start = rules(&["y.a.org".to_owned()]);
    let egress = Egress::new(start.clone(), NetworkPolicy::Allow(ceiling));
    for more in ["b.org", "y.a.org:22", "x.a.org"] {
        let error = egress.set(rules(&[more.to_owned()])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PolicyExceeded);
        assert_eq!(egress.rules(), start);
    }
    egress.set(rules(&["*.a.org".to_owned()])).await.unwrap();
    let denial = denial(&egress, name("x.a.org", 443)).await;
    assert_eq!(denial.why, "the rule !x.a.org denies it");
    egress.set(EgressRules::default()).await.unwrap();
    assert!(egress.rules().is_empty());
}

#[tokio::test]
async fn wildcard_is_no_channel_for_many_names() {
    let port = 22;
    let resolver = table(&[]);
    let egress = egress(&[format!("*.a.org:{port}")], Arc::clone(&resolver));
    for number in 0..limits::WILDCARD_BURST {
        let (_code, carry) = start(&egress, name(&format!("n{number}.a.org"), port));
        assert!(matches!(end(carry).await, CarryEnd::Unreachable(_)));
    }
    let mut refused = 0;
    for number in 0..20 {
        let (_code, carry) = start(&egress, name(&format!("m{number}.a.org"), port));
        refused += usize::from(matches!(end(carry).await, CarryEnd::Denied(_)));
    }
    // Each second lets one pass.
    assert!(refused >= 10, "{refused}");
    let asked = lock(&resolver.asked).len();
    assert_eq!(asked, 64 + 20 - refused);
}

#[tokio::test]
async fn next_address_is_tried_after_one_that_fails() {
    let (listener, port) = listener().await;
    tokio::spawn(echo_at_end(listener));
    // Nothing listens on the first.
    let resolver = table(&[("a.org", &["127.0.0.77", "127.0.0.1"])]);
    let egress = egress(&[format!("a.org:{port} private")], resolver);
    let (code, carry) = start(&egress, name("a.org", port));
    drop(code);
    let address = carried(carry).await.address;
    assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
}

#[tokio::test]
async fn dropped_task_leaves_no_connection() {
    let (listener, port) = listener().await;
    let egress = egress(&[format!("127.0.0.1:{port} private")], table(&[]));
    let (_code, carry) = start(&egress, address("127.0.0.1", port));
    let (mut server, _) = listener.accept().await.unwrap();
    carry.abort();
    let ended = tokio::time::timeout(WAIT, server.read_u8()).await;
    assert!(ended.expect("it ends").is_err());
    assert_eq!(egress.open_connections(), 0);
}

#[test]
fn name_server_file_names_the_agent() {
    let agent = sandbox_agent::protocol::NAME_SERVER;
    assert_eq!(RESOLV_CONF, format!("nameserver {agent}\n"));
}
