//! Connections of the host to a server inside.

use std::time::Duration;

use sandbox_core::{ErrorKind, ExecEvent, ExecRequest, SandboxHandle, Stdin};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::probes::prelude::*;

/// Answers one connection with what it sent, in capitals. Exits with 3 without such an address.
const SERVER: &str = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
server = socket.socket(family)
try: server.bind((sys.argv[1], int(sys.argv[2])))
except OSError: sys.exit(3)
server.listen()
print('listening', flush=True)
connection, _ = server.accept()
said = b''
while piece := connection.recv(4096): said += piece
connection.sendall(said.upper())
";

/// The loopback of each family, and a port.
const SERVERS: [(&str, u16); 2] = [("127.0.0.1", 18_001), ("::1", 18_002)];

/// A port that no server has.
const NOBODY: u16 = 18_006;

/// How long one exchange may take.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "connect to a server inside", async |sandbox| {
        for (address, port) in SERVERS {
            let wrong = exchange(sandbox.handle(), address, port).await?;
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        closed(sandbox.handle()).await
    })
    .await;
    context.no_host_effect("the attack itself reads the answers");
    Ok(())
}

async fn exchange(sandbox: &SandboxHandle, address: &str, port: u16) -> Deviation {
    let number = port.to_string();
    let server = ExecRequest::new("python3").args(["-c", SERVER, address, &number]);
    let mut server = sandbox.start(&server.timeout(LIMIT), Stdin::Null).await?;
    loop {
        match server.next_event().await? {
            Some(ExecEvent::Stdout(_)) => break,
            Some(ExecEvent::Started) => {}
            // A kernel without IPv6 has no second address.
            Some(ExecEvent::Exited(result)) if result.exit_code() == Some(3) => return Ok(None),
            other => return Ok(Some(format!("{address}: {other:?}"))),
        }
    }
    let forward = sandbox.forward(port).await?;
    let answer = async {
        let mut connection = TcpStream::connect(forward.address()).await?;
        connection.write_all(b"hello").await?;
        connection.shutdown().await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(LIMIT, answer).await;
    let result = server.wait().await?;
    let is_right = matches!(&answer, Ok(Ok(answer)) if answer == "HELLO") && result.success();
    Ok((!is_right).then(|| format!("{address}: {answer:?}, {}", result.outcome)))
}

/// A port that nobody listens on, one that does not exist, and one that was closed.
async fn closed(sandbox: &SandboxHandle) -> Deviation {
    match sandbox.forward(0).await {
        Err(error) if error.kind() == ErrorKind::InvalidRequest => {}
        opened => return Ok(Some(format!("port 0: {opened:?}"))),
    }
    let forward = sandbox.forward(NOBODY).await?;
    let address = forward.address();
    let mut bytes = Vec::new();
    let answer = async {
        let mut connection = TcpStream::connect(address).await?;
        connection.read_to_end(&mut bytes).await
    };
    let answer = tokio::time::timeout(LIMIT, answer).await;
    if !matches!(&answer, Ok(Err(_))) || !address.ip().is_loopback() || forward.port() != NOBODY {
        return Ok(Some(format!(
            "{address}, which nobody listens behind: {answer:?}"
        )));
    }
    drop(forward);
    // The listener's task closes it.
    for _ in 0..250 {
        if TcpStream::connect(address).await.is_err() {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Some(format!("{address} is open after it was closed")))
}
