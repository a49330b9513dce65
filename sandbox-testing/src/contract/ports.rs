//! Ports of the host that lead into a sandbox.

use std::time::Duration;

use sandbox_core::{ErrorKind, ExecRequest, Forward, SandboxHandle, Stdin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ContractTest, TestBackend, TestResult, run};

pub const TESTS: &[ContractTest] = &[("ports::only_a_port_with_a_program_is_reached", reached)];

/// Attempts to reach a program that is starting.
const ATTEMPTS: u32 = 300;

/// Sends `question`, ends that direction, and reads the whole answer.
async fn ask(forward: &Forward, question: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut client = TcpStream::connect(forward.address()).await?;
    client.write_all(question).await?;
    client.shutdown().await?;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// As [`ask`], as soon as the program listens.
pub(crate) async fn ask_when_ready(forward: &Forward, question: &[u8]) -> Vec<u8> {
    for _ in 0..ATTEMPTS {
        if let Ok(answer) = ask(forward, question).await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no program answers on {forward:?}");
}

async fn serve(sandbox: &SandboxHandle) -> sandbox_core::Result<sandbox_core::Execution> {
    // Reads to the end of the client's direction, and then answers.
    let script = "exec busybox nc -ll -p 8080 -e busybox md5sum";
    let request = ExecRequest::shell(script).timeout(Duration::from_secs(60));
    sandbox.start(&request, Stdin::Null).await
}

fn reached(backend: &'static dyn TestBackend) -> TestResult {
    run(async {
        let sandbox = backend.sandbox().await?;
        let server = serve(&sandbox).await?;
        let forward = sandbox.forward(8080).await?;
        assert!(forward.address().ip().is_loopback(), "{forward:?}");
        let answer = ask_when_ready(&forward, b"hello").await;
        assert_eq!(answer, b"5d41402abc4b2a76b9719d911017c592  -\n");
        let question = vec![b'x'; 1_000_000];
        let answer = ask(&forward, &question).await.expect("an answer");
        assert_eq!(answer, b"ec78dbd963d2fc01e51176ed4dec299e  -\n");
        drop(server);
        let empty = sandbox.forward(9).await?;
        let error = ask(&empty, b"").await.expect_err("nobody listens");
        let kind = error.kind();
        assert_eq!(kind, std::io::ErrorKind::ConnectionReset, "{error}");
        sandbox.kill().await?;
        let error = sandbox.forward(8080).await.expect_err("ended");
        assert_eq!(error.kind(), ErrorKind::SandboxEnded, "{error}");
        Ok(())
    })
}
