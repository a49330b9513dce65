//! Many consecutive clients of a detached sandbox, each a separate process that runs this test
//! program. A client that ends in any way does not block the next one.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};
use sandbox_testing::owner::exit_code;

use crate::cluster::{client_in, output, run, small};
use crate::test_namespace::TestNamespace;
use crate::{ClusterTest, TestResult};

pub const TESTS: &[ClusterTest] = &[
    (
        "many_clients::fifty_consecutive_clients_are_served",
        consecutive,
    ),
    (
        "many_clients::code_that_fills_the_socket_blocks_no_client",
        flooded,
    ),
];

const SANDBOX: &str = "SANDBOX_TEST_CLIENT_OF";
const NAMESPACE: &str = "SANDBOX_TEST_CLIENT_NAMESPACE";
const DISCONNECT: &str = "SANDBOX_TEST_CLIENT_DISCONNECTS";

/// The `main` of a client: runs a program in the sandbox, prints its output, and ends.
pub fn run_if_asked() -> Option<ExitCode> {
    let name = std::env::var(SANDBOX).ok()?;
    let namespace = std::env::var(NAMESPACE).expect("a namespace");
    Some(exit_code(run(async {
        let client = client_in(&namespace);
        let sandbox = client.get(&name).await?;
        print!("{}", output(&sandbox, "echo served").await);
        if std::env::var_os(DISCONNECT).is_some() {
            drop(sandbox);
            client.settle().await;
            return Ok(());
        }
        // As if killed: without a disconnect.
        std::process::exit(0);
    })))
}

fn run_client(namespace: &TestNamespace, name: &str, disconnects: bool) -> String {
    let mut client = Command::new(std::env::current_exe().expect("this program"));
    client
        .env(SANDBOX, name)
        .env(NAMESPACE, &namespace.name)
        .stdin(Stdio::null());
    if disconnects {
        client.env(DISCONNECT, "1");
    }
    let done = client.output().expect("a client");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

async fn detached(
    namespace: &TestNamespace,
    name: &str,
) -> Result<SandboxHandle, sandbox_core::Error> {
    let spec = small(name)
        .detached(true)
        .lifetime(Duration::from_secs(300));
    client_in(&namespace.name).create(&spec).await
}

fn consecutive() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let sandbox = detached(&namespace, "shared").await?;
        for number in 0..50 {
            // Twenty are killed, the next twenty disconnect, and so on.
            let disconnects = number / 20 % 2 == 1;
            let printed =
                tokio::task::block_in_place(|| run_client(&namespace, "shared", disconnects));
            assert_eq!(printed, "served\n", "client {number}");
        }
        assert_eq!(output(&sandbox, "echo first").await, "first\n");
        sandbox.kill().await?;
        Ok(())
    })
}

/// Connects to the agent continuously, and holds as many connections as possible.
const FLOOD: &str = r#"
import socket, sys
print("open", flush=True)
held = []
while True:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        one.connect("\0sandbox-agent")
    except OSError as error:
        print("failed", error, flush=True)
        sys.exit(1)
    held.append(one)
    if len(held) > 60:
        held.pop(0).close()
"#;

/// Code can connect to the agent's socket, but only takes the places of unauthenticated clients.
fn flooded() -> TestResult {
    run(async {
        let namespace = TestNamespace::new().await;
        let spec = small("flooded")
            .image("python:3.11-slim")
            .detached(true)
            .lifetime(Duration::from_secs(300));
        let sandbox = client_in(&namespace.name).create(&spec).await?;
        let request = ExecRequest::new("python3")
            .args(["-c", FLOOD])
            .timeout(Duration::from_secs(120));
        let mut attack = sandbox.start(&request, Stdin::Null).await?;
        loop {
            match attack.next_event().await?.expect("it goes on") {
                ExecEvent::Stdout(printed) => {
                    assert!(printed.starts_with(b"open"), "{printed:?}");
                    break;
                }
                ExecEvent::Exited(ended) => panic!("{ended:?}"),
                _ => {}
            }
        }
        for number in 0..5 {
            let printed = tokio::task::block_in_place(|| run_client(&namespace, "flooded", true));
            assert_eq!(printed, "served\n", "client {number}");
        }
        attack.kill().await;
        let ended = attack.wait().await?;
        assert_eq!(ended.stdout.total, 5, "the flood stopped early: {ended:?}");
        sandbox.kill().await?;
        Ok(())
    })
}
