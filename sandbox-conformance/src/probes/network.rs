//! Network access.

use std::collections::BTreeSet;
use std::path::Path;

use sandbox_core::policy::NetworkPolicy;

use crate::canary::Canary;
use crate::pool::MOUNTED;
use crate::probes::prelude::*;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::isolation(
        "network::host_names",
        NETWORK_ACCESS,
        "finds names of the host in the file of host names",
        signs::ABSENT,
        |context| Box::pin(host_names(context)),
    ),
    Probe::isolation(
        "network::netlink_audit",
        NETWORK_ACCESS,
        "binds a netlink socket for audit",
        signs::NO_SUCH_SOCKET,
        |context| {
            same_call(
                context,
                Call::new(["netlink", "0"]),
                Call::new(["netlink", "9"]),
            )
        },
    ),
    // The list of all sockets.
    Probe::isolation(
        "network::netlink_diag",
        NETWORK_ACCESS,
        "binds a netlink socket for socket diagnostics",
        signs::NO_SUCH_SOCKET,
        |context| {
            same_call(
                context,
                Call::new(["netlink", "0"]),
                Call::new(["netlink", "4"]),
            )
        },
    ),
    Probe::isolation(
        "network::packet_socket",
        NETWORK_ACCESS,
        "opens a packet socket",
        signs::NO_SUCH_SOCKET,
        |context| same_call(context, Call::new(["tcp-loopback"]), Call::new(["packet"])),
    ),
    Probe::isolation(
        "network::raw_socket",
        NETWORK_ACCESS,
        "opens a raw ICMP socket",
        signs::NO_SUCH_SOCKET,
        |context| same_call(context, Call::new(["tcp-loopback"]), Call::new(["raw"])),
    ),
    Probe::isolation(
        "network::socket_families",
        NETWORK_ACCESS,
        "creates a socket of each family besides Unix, IP and netlink, of each type",
        NO_SUCH_FAMILY,
        |context| {
            same_call(
                context,
                Call::new(["tcp-loopback"]),
                Call::new(["socket-families"]),
            )
        },
    ),
    Probe::isolation(
        "network::tcp4_host_listener",
        NETWORK_ACCESS,
        "connects to a listener of the host through its loopback and each of its other addresses",
        signs::UNREACHABLE,
        |context| Box::pin(tcp4_host_listener(context)),
    )
    .version(2),
    Probe::isolation(
        "network::tcp6_host_listener",
        NETWORK_ACCESS,
        "connects to a listener of the host over IPv6",
        signs::UNREACHABLE,
        |context| Box::pin(tcp6_host_listener(context)),
    )
    .version(2),
    Probe::isolation(
        "network::udp4_host_listener",
        NETWORK_ACCESS,
        "sends a datagram to a listener of the host and waits for the answer",
        signs::UNREACHABLE,
        |context| Box::pin(udp4_host_listener(context)),
    )
    .version(2),
    // Only a network namespace or Landlock separates abstract names.
    Probe::isolation(
        "network::unix_abstract",
        NETWORK_ACCESS,
        "connects to an abstract unix socket of the host",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_abstract(context)),
    ),
    // With the network granted, the subject is access to the host's IPC objects.
    Probe::isolation(
        "network::unix_abstract_full",
        PROCESSES,
        "connects to an abstract unix socket of the host, with network access",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_abstract_full(context)),
    )
    .setup(|_| SandboxSetup::with(|policy| policy.network = Some(NetworkPolicy::Full))),
    // A datagram socket of a pair can be connected again, to another socket's path.
    Probe::isolation(
        "network::unix_pair_read_root",
        NETWORK_ACCESS,
        "sends a datagram from a socket of a pair to a unix socket of the host in a read root",
        NO_PAIR,
        |context| Box::pin(unix_pair_read_root(context)),
    )
    .setup(reading),
    // A read-only mount does not prevent connecting.
    Probe::behavior(
        "network::unix_path_mount",
        NETWORK_ACCESS,
        "reads a file in a folder of the host that is mounted at another path, and connects to a unix \
         socket in it",
        |context| Box::pin(unix_path_mount(context)),
    )
    .setup(mounting),
    // Such as the socket of an engine.
    Probe::isolation(
        "network::unix_path_outside",
        NETWORK_ACCESS,
        "connects to a unix socket of the host outside of the read roots",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_path_outside(context)),
    ),
    // A read-only mount does not prevent connecting.
    Probe::isolation(
        "network::unix_path_read_root",
        NETWORK_ACCESS,
        "connects to a unix socket of the host in a read root",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_path_read_root(context)),
    )
    .setup(reading),
    Probe::isolation(
        "network::unix_path_write_root",
        NETWORK_ACCESS,
        "connects to a unix socket of the host in a write root",
        signs::NO_SUCH_PEER,
        |context| Box::pin(unix_path_write_root(context)),
    )
    .setup(rooted),
    // No network namespace separates virtual machine sockets.
    Probe::isolation(
        "network::vsock",
        NETWORK_ACCESS,
        "binds a port for virtual machine sockets",
        signs::NO_SUCH_SOCKET,
        |context| same_call(context, Call::new(["tcp-loopback"]), Call::new(["vsock"])),
    ),
];

/// The kernel's answer for a family that it does not have is one of these.
const NO_SUCH_FAMILY: &[ExpectedDenial] = &[
    denied("EPERM", "no capability, or seccomp"),
    denied("EACCES", "seccomp"),
    denied("EAFNOSUPPORT", "seccomp, or the kernel"),
    denied("EINVAL", "the kernel: no such family"),
    denied("ENOSYS", "seccomp"),
];

/// Where programs look up names first.
const HOSTS: &str = "/etc/hosts";

/// The names in a file of host names.
fn names(hosts: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(hosts);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.flat_map(|line| line.split_whitespace().skip(1));
    names.map(ToOwned::to_owned).collect()
}

async fn host_names(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let mut of_host = names(&std::fs::read(HOSTS).unwrap_or_default());
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    of_host.insert(own.trim().to_owned());
    // Every system has these, and a container its own.
    of_host.retain(|name| {
        !name.contains("localhost") && !name.starts_with("ip6-") && name != "sandbox"
    });
    let failure = of_host
        .is_empty()
        .then(|| "the host has no name".to_owned());
    context.record_host_control(control("find names of the host", failure));
    context.allow_control(&Call::new(["alive"])).await;
    let read = context.with_sandbox(async |sandbox| sandbox.handle().read(HOSTS).await);
    let attempt = match read.await {
        Ok(Ok(found)) => match names(&found).intersection(&of_host).next() {
            Some(name) => Attempt::Succeeded {
                value: name.clone(),
            },
            None => Attempt::blocked(["absent"]),
        },
        Ok(Err(error)) => Attempt::unclear(error.to_string()),
        Err(attempt) => attempt,
    };
    context.record_attack(Step::new(format!("read {HOSTS}"), attempt));
    context.no_host_effect("reading a file has no effect");
    Ok(())
}

async fn tcp4_host_listener(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::tcp4().await?;
    let call = listener.call("tcp", context.token());
    let permitted = Call::new(["tcp-loopback"]);
    reach_address(context, &listener, call, permitted).await
}

async fn tcp6_host_listener(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::tcp6().await?;
    let call = listener.call("tcp", context.token());
    let permitted = Call::new(["tcp-loopback"]);
    reach_address(context, &listener, call, permitted).await
}

async fn udp4_host_listener(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::udp4().await?;
    let call = listener.call("udp", context.token());
    let permitted = Call::new(["udp-loopback"]);
    reach_address(context, &listener, call, permitted).await
}

async fn unix_abstract(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let listener = Listener::unix_abstract(context.token())?;
    let call = Call::new(["unix-abstract", context.token()]);
    let permitted = Call::new(["unix-own", &context.inside("socket")]);
    reach(context, &listener, call, permitted).await
}

async fn unix_abstract_full(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if let Err(Attempt::Unclear { detail }) = context.with_sandbox(async |_| ()).await {
        // A rootless engine cannot provide a network on every host.
        context.not_offered(format!("a sandbox with network access: {detail}"));
        return Ok(());
    }
    let listener = Listener::unix_abstract(context.token())?;
    let call = Call::new(["unix-abstract", context.token()]);
    reach(context, &listener, call, Call::new(["tcp-loopback"])).await
}

async fn unix_path_outside(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.outside()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    let permitted = Call::new(["unix-own", &context.inside("socket")]);
    reach(context, &listener, call, permitted).await
}

/// The read root alone; a socket in a write root is another probe.
fn reading(fixture: &HostFixture) -> SandboxSetup {
    let root = fixture.read_root();
    SandboxSetup::with(|policy| policy.filesystem_read_roots = Some(vec![root]))
}

/// Without sockets, and without pairs of datagram sockets.
const NO_PAIR: &[ExpectedDenial] = &[
    denied(
        "ESOCKTNOSUPPORT",
        "seccomp: only connected pairs where a folder of the host is granted",
    ),
    denied("ENOENT", "the sandbox's file system does not contain it"),
    denied("EPERM", "Landlock scope, or seccomp"),
    denied("EACCES", "Landlock, or seccomp"),
];

async fn unix_pair_read_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.read_folder()?.join("datagrams");
    let listener = Listener::unix_datagrams(&path)?;
    let call = Call::new(["unix-pair"]).and(&path);
    context.host_control(&call).await?;
    // There is no answer to wait for.
    listener.first_hit().await?;
    let before = listener.hits();
    context.allow_control(&Call::new(["tcp-loopback"])).await;
    context.attack(&call).await;
    context.check_host("messages at the host's listener", listener.hits() == before);
    Ok(())
}

async fn unix_path_mount(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let folder = context.read_folder()?;
    let path = folder.join("socket");
    let listener = Listener::unix(&path)?;
    let visible = Canary::plant(&folder.join("visible"), 0o644)?;
    let root = context.fixture().read_root();
    let inside = Path::new(MOUNTED).join(folder.strip_prefix(&root)?);
    context
        .host_control(&Call::new(["unix"]).and(&path))
        .await?;
    let before = listener.hits();
    let read = Call::new(["read"])
        .and(inside.join("visible"))
        .expect(visible.fingerprint());
    let connect = Call::new(["unix"]).and(inside.join("socket"));
    feature(context, "read a file, and connect", async |sandbox| {
        let read = sandbox.run(&read).await?.attempt(read.expected.as_deref());
        let connected = sandbox.run(&connect).await?.attempt(None);
        let accepted = |sign: &String| signs::NO_SUCH_PEER.iter().any(|it| it.sign == sign);
        Ok(match (&read, &connected) {
            (Attempt::Succeeded { .. }, Attempt::Blocked { signature })
                if signature.iter().all(accepted) =>
            {
                None
            }
            _ => Some(format!("reading: {read:?}, connecting: {connected:?}")),
        })
    })
    .await;
    context.check_host("messages at the host's listener", listener.hits() == before);
    Ok(())
}

async fn unix_path_read_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.read_folder()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    // Without network access a policy promises a loopback, but no Unix sockets.
    let permitted = Call::new(["tcp-loopback"]);
    reach(context, &listener, call, permitted).await
}

async fn unix_path_write_root(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let path = context.write_folder()?.join("socket");
    let listener = Listener::unix(&path)?;
    let call = Call::new(["unix"]).and(&path);
    // Without network access a policy promises a loopback, but no Unix sockets.
    let permitted = Call::new(["tcp-loopback"]);
    reach(context, &listener, call, permitted).await
}
