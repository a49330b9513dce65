//! Clients of a detached sandbox that come and go, each a process of its own: this program, started again. How a client ends is its own
//! matter; none of them keeps another one out.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::{ExecEvent, ExecRequest, SandboxHandle, Stdin};
use sandbox_testing::owner::exit_code;

use crate::cluster::{client_in, output, run, small};
use crate::own_namespace::OwnNamespace;
use crate::{Done, Test};

pub const TESTS: &[Test] = &[
    (
        "visitors::fifty_in_a_row_are_served_however_they_end",
        in_a_row,
    ),
    ("visitors::code_at_the_door_keeps_nobody_out", besieged),
];

const NAME: &str = "SANDBOX_TEST_VISITED";
const NAMESPACE: &str = "SANDBOX_TEST_VISITED_NAMESPACE";
const FAREWELL: &str = "SANDBOX_TEST_FAREWELL";

/// What a visitor does: run something in the sandbox, say what it wrote, and end.
pub fn run_if_asked() -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let namespace = std::env::var(NAMESPACE).expect("a namespace");
    Some(exit_code(run(async {
        let client = client_in(&namespace);
        let sandbox = client.get(&name).await?;
        print!("{}", output(&sandbox, "echo served").await);
        if std::env::var_os(FAREWELL).is_some() {
            drop(sandbox);
            client.settle().await;
            return Ok(());
        }
        // As whoever is killed: nothing is dropped, and nothing is said.
        std::process::exit(0);
    })))
}

fn visit(place: &OwnNamespace, name: &str, farewell: bool) -> String {
    let mut visitor = Command::new(std::env::current_exe().expect("this program"));
    visitor
        .env(NAME, name)
        .env(NAMESPACE, &place.name)
        .stdin(Stdio::null());
    if farewell {
        visitor.env(FAREWELL, "1");
    }
    let done = visitor.output().expect("a visitor");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

async fn kept(place: &OwnNamespace, name: &str) -> Result<SandboxHandle, sandbox_core::Error> {
    let spec = small(name)
        .detached(true)
        .lifetime(Duration::from_secs(300));
    client_in(&place.name).create(&spec).await
}

fn in_a_row() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        let sandbox = kept(&place, "visited").await?;
        for number in 0..50 {
            // Twenty that are killed, and as many that say that they go, and so on.
            let farewell = number / 20 % 2 == 1;
            let said = tokio::task::block_in_place(|| visit(&place, "visited", farewell));
            assert_eq!(said, "served\n", "visitor {number}");
        }
        assert_eq!(output(&sandbox, "echo first").await, "first\n");
        sandbox.kill().await?;
        Ok(())
    })
}

/// Connects to the agent all the time, and holds as many connections as it may.
const SIEGE: &str = r#"
import socket, sys
print("here", flush=True)
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

/// Code cannot be kept from the agent's socket; what it takes there are its own places.
fn besieged() -> Done {
    run(async {
        let place = OwnNamespace::new().await;
        let spec = small("besieged")
            .image("python:3.11-slim")
            .detached(true)
            .lifetime(Duration::from_secs(300));
        let sandbox = client_in(&place.name).create(&spec).await?;
        let request = ExecRequest::new("python3")
            .args(["-c", SIEGE])
            .timeout(Duration::from_secs(120));
        let mut attack = sandbox.start(&request, Stdin::Null).await?;
        loop {
            match attack.next().await?.expect("it goes on") {
                ExecEvent::Stdout(said) => {
                    assert!(said.starts_with(b"here"), "{said:?}");
                    break;
                }
                ExecEvent::Exited(ended) => panic!("{ended:?}"),
                _ => {}
            }
        }
        for number in 0..5 {
            let said = tokio::task::block_in_place(|| visit(&place, "besieged", true));
            assert_eq!(said, "served\n", "visitor {number}");
        }
        attack.kill().await;
        let ended = attack.wait().await?;
        assert_eq!(
            ended.stdout.total, 5,
            "the siege went on until then: {ended:?}"
        );
        sandbox.kill().await?;
        Ok(())
    })
}
