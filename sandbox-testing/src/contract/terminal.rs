//! Executions with a terminal.

use std::time::Duration;

use sandbox_core::{
    CapabilityPolicy, ExecEvent, ExecRequest, Execution, Outcome, SandboxHandle, Stdin,
    TerminalSize,
};
use tokio::io::AsyncWriteExt as _;

use super::{ContractTest, run};

pub const TESTS: &[ContractTest] = &[(
    "terminal::streams_are_one_and_get_keys_and_sizes",
    |backend| {
        run(async {
            let client = backend.client(CapabilityPolicy::new());
            let sandbox = client.create(&backend.spec()).await?;
            standard_streams(&sandbox).await?;
            keys_and_sizes(&sandbox).await?;
            sandbox.kill().await
        })
    },
)];

const SIZE: TerminalSize = TerminalSize::new(33, 101);

async fn standard_streams(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && : </dev/tty && \
                  echo $TERM >&2; seq 1 5000; cat; exit 9";
    // The second one would otherwise be forked ahead of time, with pipes.
    for _ in 0..2 {
        let request = ExecRequest::shell(script).terminal(SIZE);
        let result = sandbox.exec(&request).await?;
        let text = result.stdout_text();
        assert!(text.starts_with("33 101\r\nxterm\r\n1\r\n2\r\n"), "{text}");
        assert!(text.ends_with("\r\n4999\r\n5000\r\n"), "{text}");
        assert_eq!((result.stderr.total, result.exit_code()), (0, Some(9)));
        assert!(sandbox.shell("! test -t 1").await?.success());
    }
    let late = ExecRequest::shell("sleep 60").terminal(SIZE);
    let late = sandbox.exec(&late.timeout(Duration::from_secs(1))).await?;
    assert_eq!(late.outcome, Outcome::TimedOut);
    Ok(())
}

/// Reads until the screen shows `text`, and forgets everything up to it.
async fn expect(
    execution: &mut Execution,
    screen: &mut String,
    text: &str,
) -> sandbox_core::Result<()> {
    loop {
        if let Some(at) = screen.find(text) {
            screen.drain(..at + text.len());
            return Ok(());
        }
        match execution.next_event().await? {
            Some(ExecEvent::Stdout(bytes)) => *screen += &String::from_utf8_lossy(&bytes),
            Some(ExecEvent::Started) => {}
            other => panic!("{other:?} instead of {text:?}; shown: {screen:?}"),
        }
    }
}

async fn keys_and_sizes(sandbox: &SandboxHandle) -> sandbox_core::Result<()> {
    let script = "trap 'echo size $(stty size)' WINCH; trap 'echo interrupted' INT; \
                  echo ready; while :; do read line && echo got $line; \
                  test \"$line\" = end && exit 4; done";
    let request = ExecRequest::shell(script).terminal(SIZE);
    let mut execution = sandbox.start(&request, Stdin::Piped).await?;
    let mut keyboard = execution.take_stdin().expect("it is piped");
    let screen = &mut String::new();
    expect(&mut execution, screen, "ready").await?;
    execution.resize(TerminalSize::new(11, 222)).await?;
    // A shell handles the signal after its input.
    keyboard.write_all(b"one\r").await.expect("written");
    expect(&mut execution, screen, "size 11 222").await?;
    keyboard.write_all(b"\x03").await.expect("written");
    expect(&mut execution, screen, "^C").await?;
    keyboard.write_all(b"two\r").await.expect("written");
    expect(&mut execution, screen, "interrupted").await?;
    keyboard.write_all(b"end\r").await.expect("written");
    expect(&mut execution, screen, "got end").await?;
    assert_eq!(execution.wait().await?.exit_code(), Some(4));
    Ok(())
}
