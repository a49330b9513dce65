//! Ports of the host that lead into a sandbox.

use std::time::Duration;

use sandbox_core::{Execution, Forward, SandboxHandle, Stdin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Need, Test, test};
use crate::support::{create, policy, sh};

pub const TESTS: &[Test] = &[
    test!(async forwarded_port_carries_both_directions, Need::Namespaces),
    test!(async program_that_ends_first_still_receives, Need::Namespaces),
    test!(async forwarded_ports_of_two_sandboxes_are_apart, Need::Namespaces),
];

/// Serves one connection after the other on port 8080 with this Python code.
async fn serve(sandbox: &SandboxHandle, code: &str) -> Execution {
    let script = format!(
        "exec /usr/bin/python3 -c '\nimport socket\n\
         listener = socket.create_server((\"127.0.0.1\", 8080))\n\
         while True:\n  peer, _ = listener.accept()\n{code}\n'"
    );
    let request = sh(&script).timeout(Duration::from_secs(60));
    sandbox
        .start(&request, Stdin::Null)
        .await
        .expect("it starts")
}

/// Connects as soon as the program listens: until then, connections are reset.
async fn connected(forward: &Forward) -> TcpStream {
    for _ in 0..300 {
        let mut client = TcpStream::connect(forward.address()).await.expect("a port");
        client.write_all(b"?").await.expect("a connection");
        if client.read_exact(&mut [0]).await.is_ok() {
            return client;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no program listens");
}

async fn forwarded_port_carries_both_directions() {
    let sandbox = create(policy()).await;
    let code = "  peer.sendall(peer.recv(1))\n  with peer.makefile(\"rb\") as reader: data = reader.read()\n  peer.sendall(data[::-1])\n  peer.close()";
    let _server = serve(&sandbox, code).await;
    let forward = sandbox.forward(8080).await.expect("a port");
    let question: Vec<u8> = (0..2_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let mut client = connected(&forward).await;
    client.write_all(&question).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    answer.reverse();
    assert!(answer == question, "{} bytes", answer.len());
    sandbox.kill().await.unwrap();
}

async fn program_that_ends_first_still_receives() {
    let sandbox = create(policy()).await;
    let code = "  peer.sendall(peer.recv(1))\n  peer.shutdown(socket.SHUT_WR)\n  with peer.makefile(\"rb\") as reader: print(reader.read().decode(), flush=True)";
    let mut server = serve(&sandbox, code).await;
    let forward = sandbox.forward(8080).await.expect("a port");
    let mut client = connected(&forward).await;
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 0);
    client.write_all(b"late").await.unwrap();
    drop(client);
    let mut printed = Vec::new();
    while printed != b"late\n" {
        match server.next_event().await.expect("the sandbox works") {
            Some(sandbox_core::ExecEvent::Stdout(bytes)) => printed.extend_from_slice(&bytes),
            Some(sandbox_core::ExecEvent::Started) => {}
            other => panic!("{other:?} after {printed:?}"),
        }
    }
    sandbox.kill().await.unwrap();
}

async fn forwarded_ports_of_two_sandboxes_are_apart() {
    let mut answers = Vec::new();
    let (one, other) = (create(policy()).await, create(policy()).await);
    for (sandbox, name) in [(&one, "one"), (&other, "two")] {
        let code =
            format!("  peer.sendall(peer.recv(1))\n  peer.sendall(b\"{name}\")\n  peer.close()");
        let _server = serve(sandbox, &code).await;
        let forward = sandbox.forward(8080).await.expect("a port");
        let mut answer = String::new();
        let mut client = connected(&forward).await;
        client.read_to_string(&mut answer).await.unwrap();
        answers.push(answer);
    }
    assert_eq!(answers, ["one", "two"]);
    one.kill().await.unwrap();
    other.kill().await.unwrap();
}
