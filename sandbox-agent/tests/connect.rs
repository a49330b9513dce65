//! Clients that connect through `sandbox-agent connect`.

mod common;

use std::{
    collections::BTreeMap,
    io::Read,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixStream,
        },
    },
    process::{Child, Command, ExitCode, Stdio},
};

use common::{
    FirstClient, TestStream, agent_command, command,
    listening::{detached, echo, last_failure, through_connect},
    processes::{alive, unique_seconds, wait_until},
    script, settings,
};
use sandbox_agent::protocol::{
    AgentSettings, ClientKey, EgressHost, EgressRule, EgressSettings, EgressTable, ExecRequest,
    ExitKind, FrameKind, IpRange,
};
use sandbox_testing::{named_tests, trials};

fn main() -> ExitCode {
    trials::main(&[
        (
            None,
            named_tests![
                connect_relays_both_directions,
                socket_belongs_to_its_owner_and_requires_the_key,
                connect_exits_when_its_reader_disconnects,
                connect_without_an_agent_reports_an_error,
                first_client_can_use_the_named_socket,
            ],
        ),
        (
            no_own_network().as_deref(),
            named_tests![
                network_is_cut_before_the_first_client_is_served,
                agent_that_cannot_cut_the_network_serves_no_client,
                capability_for_rules_ends_with_the_first_settings,
                settings_without_the_announced_rules_are_refused,
            ],
        ),
    ])
}

fn listening_on(name: &str) -> FirstClient {
    let mut client = FirstClient::launch(&[], &["--listen", name]);
    client.set_owned(false);
    client.hello(&detached()).unwrap();
    client
}

fn connect_relays_both_directions() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let abstract_name = format!("@sandbox-agent-test-{}", std::process::id());
    for name in [path.to_str().unwrap(), &abstract_name] {
        let mut first = listening_on(name);
        let (mut wire, mut connect) = through_connect(name);
        wire.attach(&settings().key).unwrap();
        let request = ExecRequest {
            stdin: true,
            ..command(&["cat"])
        };
        let stream = wire.exec(&request);
        let bytes: Vec<u8> = (0..200_000u32).map(|number| (number % 251) as u8).collect();
        for piece in bytes.chunks(50_000) {
            wire.send(stream, FrameKind::Stdin, piece);
        }
        wire.send(stream, FrameKind::StdinEnd, &[]);
        let outcome = wire.finish(stream);
        assert_eq!(outcome.kind(), ExitKind::Exited(0));
        assert!(outcome.stdout == bytes);
        // The client's disconnect ends `connect`.
        drop(wire);
        assert!(connect.wait().unwrap().success());
        // The agent's exit does too.
        let (mut wire, mut connect) = through_connect(name);
        wire.attach(&settings().key).unwrap();
        first.send(0, FrameKind::Stop, &0u32.to_le_bytes());
        assert_eq!(first.agent_end().code(), Some(0));
        last_failure(&mut wire);
        assert!(connect.wait().unwrap().success());
    }
}

fn socket_belongs_to_its_owner_and_requires_the_key() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let mut first = listening_on(path.to_str().unwrap());
    let facts = std::fs::metadata(&path).unwrap();
    assert!(facts.file_type().is_socket());
    assert_eq!(facts.mode() & 0o777, 0o600);
    let (mut wire, mut connect) = through_connect(path.to_str().unwrap());
    assert_eq!(
        wire.attach(&ClientKey::new([0; 32])).unwrap_err().detail,
        "wrong key"
    );
    assert!(connect.wait().unwrap().success());
    // The agent's umask is restored.
    let outcome = first.run(&command(&["sh", "-c", "umask"]));
    assert_eq!(outcome.text(), "0022\n");
    // A second agent cannot take over the name.
    let mut second = FirstClient::launch(&[], &["--listen", path.to_str().unwrap()]);
    let failure = last_failure(&mut second).unwrap();
    assert_eq!(failure.detail, "listening socket");
    assert_eq!(second.agent_end().code(), Some(71));
    echo(&mut first);
}

fn connect_exits_when_its_reader_disconnects() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let mut first = listening_on(path.to_str().unwrap());
    let (mut wire, mut connect) = through_connect(path.to_str().unwrap());
    wire.attach(&settings().key).unwrap();
    let mark = unique_seconds();
    let stream = wire.exec(&script(&format!("setsid sleep {mark} & yes")));
    assert_eq!(wire.wait(stream).kind, FrameKind::Started);
    wait_until("it runs", || alive(&mark) == 1);
    drop(wire);
    assert!(connect.wait().unwrap().success());
    // The agent has lost the client too.
    wait_until("its execution is killed", || alive(&mark) == 0);
    echo(&mut first);
}

fn connect_without_an_agent_reports_an_error() {
    let (_wire, mut connect) = through_connect("/no/such/socket");
    assert_eq!(connect.wait().unwrap().code(), Some(68));
    let mut message = String::new();
    connect
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut message)
        .unwrap();
    assert_eq!(
        message,
        "sandbox-agent: no connection to /no/such/socket: ENOENT\n"
    );
}

/// A waiting `connect` process, and a client over it.
fn through_waiting_connect(name: &str) -> (TestStream, Child) {
    let (socket, agent_socket) = UnixStream::pair().unwrap();
    let agent_socket = OwnedFd::from(agent_socket);
    let connect = agent_command(&[], None, &[])
        .args(["connect", "--wait", name])
        .stdin(agent_socket.try_clone().unwrap())
        .stdout(agent_socket)
        .spawn()
        .unwrap();
    (TestStream::over(socket), connect)
}

fn first_client_can_use_the_named_socket() {
    let name = format!("@sandbox-agent-first-{}", std::process::id());
    // `connect` waits for the agent.
    let (mut first, mut connect) = through_waiting_connect(&name);
    let mut agent = agent_command(&[], None, &[])
        .args(["serve", "--listen", &name])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    first.hello(&settings()).unwrap();
    echo(&mut first);
    // Later clients authenticate with the key.
    let (mut later, mut other) = through_waiting_connect(&name);
    later.attach(&settings().key).unwrap();
    echo(&mut later);
    // The first client owns the sandbox: its disconnect ends it.
    drop(first);
    assert!(connect.wait().unwrap().success());
    last_failure(&mut later);
    assert!(other.wait().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

/// A network namespace with one interface besides the loopback.
const SET_UP: &str =
    "ip link set lo up && ip link add d0 type bridge && ip link set d0 up && ip -o link show up";

/// A script in its own user and network namespace. Its name is the agent's path.
fn in_namespaces(script: &str) -> Command {
    let wrapper = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"];
    agent_command(&[&wrapper[..], &[script]].concat(), None, &[])
}

/// Why this user cannot create a network namespace with an interface; `None` if it can.
fn no_own_network() -> Option<String> {
    match in_namespaces(SET_UP).output() {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("d0:"));
            None
        }
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            Some(format!("needs its own network namespace: {}", error.trim()))
        }
        Err(error) => Some(format!("needs its own network namespace: {error}")),
    }
}

/// The agent, started by a script in its own user and network namespace.
fn in_own_network(script: &str) -> Command {
    in_namespaces(&format!("{SET_UP} >/dev/null && {script}"))
}

fn network_is_cut_before_the_first_client_is_served() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let name = path.to_str().unwrap();
    let serve = format!("exec \"$0\" serve --cut-network --listen {name}");
    let mut command = in_own_network(&serve);
    let mut agent = command.spawn().unwrap();
    wait_until("it listens", || path.exists());
    assert_eq!(sets_with_net_admin(&agent), [""; 0]);
    // The other capabilities are needed until the first client has connected.
    assert_ne!(capability_sets(&agent)["CapPrm"], 0);
    let (mut first, mut connect) = through_waiting_connect(name);
    first.hello(&settings()).unwrap();
    let up = first.run(&script(
        "ip -o link show up; ip link set d0 up || echo refused",
    ));
    assert!(up.text().contains("lo:"), "{}", up.text());
    assert!(!up.text().contains("d0"), "{}", up.text());
    assert!(up.text().ends_with("refused\n"), "{}", up.text());
    drop(first);
    assert!(connect.wait().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

/// The capability sets of a process, by their names in `/proc`.
fn capability_sets(process: &Child) -> BTreeMap<String, u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let sets: BTreeMap<_, _> = status
        .lines()
        .filter(|line| line.starts_with("Cap"))
        .map(|line| {
            let (name, set) = line.split_once(":\t").unwrap();
            (name.to_owned(), u64::from_str_radix(set, 16).unwrap())
        })
        .collect();
    assert_eq!(sets.len(), 5, "{status}");
    sets
}

/// The names of the sets that contain `CAP_NET_ADMIN`.
fn sets_with_net_admin(process: &Child) -> Vec<String> {
    const NET_ADMIN: u64 = 1 << 12;
    let sets = capability_sets(process).into_iter();
    let with = sets.filter(|(_, set)| set & NET_ADMIN != 0);
    with.map(|(name, _)| name).collect()
}

/// Settings with rules for a name and for a network of addresses.
fn settings_with_rules() -> AgentSettings {
    let range = IpRange {
        address: [203, 0, 113, 0].into(),
        prefix: 24,
    };
    let rule = |host, port| EgressRule {
        denies: false,
        host,
        ports: vec![port],
    };
    let rules = vec![
        rule(EgressHost::Name(b"one.test".to_vec()), 8080),
        rule(EgressHost::Range(range), 9000),
    ];
    AgentSettings {
        egress: Some(EgressSettings {
            table: EgressTable { rules },
            ranges: vec![range],
        }),
        ..settings()
    }
}

fn capability_for_rules_ends_with_the_first_settings() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let name = path.to_str().unwrap();
    let serve = format!("exec \"$0\" serve --cut-network-until-rules --listen {name}");
    let mut agent = in_own_network(&serve).spawn().unwrap();
    wait_until("it listens", || path.exists());
    assert_eq!(
        sets_with_net_admin(&agent),
        ["CapBnd", "CapEff", "CapPrm"],
        "only the routes need it"
    );
    let (mut first, mut connect) = through_waiting_connect(name);
    first.hello(&settings_with_rules()).unwrap();
    assert_eq!(sets_with_net_admin(&agent), [""; 0]);
    let up = first.run(&script(
        "ip -o link show up; ip link set d0 up || echo refused",
    ));
    assert!(!up.text().contains("d0"), "{}", up.text());
    assert!(up.text().ends_with("refused\n"), "{}", up.text());
    let routes = first.run(&script("ip route show table local type local dev lo"));
    for range in ["198.18.0.0/15", "203.0.113.0/24"] {
        assert!(routes.text().contains(range), "{}", routes.text());
    }
    drop(first);
    assert!(connect.wait().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(0));
}

fn settings_without_the_announced_rules_are_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let name = path.to_str().unwrap();
    let serve = format!("exec \"$0\" serve --cut-network-until-rules --listen {name}");
    let mut agent = in_own_network(&serve).spawn().unwrap();
    let (mut first, mut connect) = through_waiting_connect(name);
    let failure = first.hello(&settings()).unwrap_err();
    assert!(failure.detail.contains("egress rules"), "{failure:?}");
    assert!(connect.wait().unwrap().success());
    assert_eq!(agent.wait().unwrap().code(), Some(71));
}

fn agent_that_cannot_cut_the_network_serves_no_client() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path = temp_dir.path().join("agent");
    let name = path.to_str().unwrap();
    for (missing, message) in [
        ("net_admin", "d0: EPERM"),
        ("setpcap", "give up CAP_NET_ADMIN: EPERM"),
    ] {
        let script = format!(
            "exec setpriv --bounding-set=-{missing} \"$0\" serve --listen {name} --cut-network"
        );
        let mut command = in_own_network(&script);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(71), "{missing}: {output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            format!("sandbox-agent: cannot take the network away: {message}\n")
        );
        assert!(!path.exists());
    }
}
