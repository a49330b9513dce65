//! The time that programs have to end.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use sandbox_core::spi::{Flow, OutputSink};
use sandbox_core::{
    ErrorKind, ExecEvent, ExecRequest, Execution, OutputStream, SandboxHandle, Stdin, TerminalSize,
};

use crate::probes::prelude::*;

/// A program with a child. Each needs SIGTERM to end, and the program needs half a second more.
/// Where nothing is isolated, the child outlives it, and ends after half a minute.
const SCRIPT: &str = "
(trap 'echo child; exit' TERM; echo ready; for i in $(seq 600); do sleep 0.05; done) &
trap 'wait; sleep 0.5; echo ended; exit 3' TERM
echo ready
while :; do sleep 0.05; done
";

/// A program that does not end, which has two seconds.
const DEAF: &str = "trap '' TERM; echo ready; echo ready; while :; do sleep 0.05; done";
const GRACE: RangeInclusive<Duration> = Duration::from_millis(1900)..=Duration::from_secs(12);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    feature(context, "stop it", async |sandbox| {
        stop(sandbox.handle()).await
    })
    .await;
    context.no_host_effect("the program only writes");
    Ok(())
}

async fn stop(sandbox: &SandboxHandle) -> Deviation {
    let request = ExecRequest::shell(SCRIPT);
    let terminal = request.clone().terminal(TerminalSize::default());
    let mut plain = Program::start(sandbox, &request).await?;
    let mut on_terminal = match Program::start(sandbox, &terminal).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        started => Some(started?),
    };
    let mut deaf = Program::start(sandbox, &ExecRequest::shell(DEAF)).await?;
    let mut log = Log::new(usize::MAX);
    let start = Instant::now();
    let (followed, stopped, killed, plain, on_terminal) = tokio::join!(
        sandbox.follow_logs(None, &mut log),
        async { sandbox.stop().await.map(|()| start.elapsed()) },
        deaf.execution.wait(),
        plain.end(),
        async {
            match &mut on_terminal {
                Some(program) => program.end().await,
                None => Ok(None),
            }
        }
    );
    followed?;
    let took = stopped?;
    // Its agent may be killed with it.
    let is_killed = killed
        .as_ref()
        .map_or(true, |result| result.exit_code().is_none());
    if !is_killed || !GRACE.contains(&took) {
        return Ok(Some(format!("after {took:?}: {killed:?}")));
    }
    if let Some(wrong) = plain?.or(on_terminal?) {
        return Ok(Some(wrong));
    }
    let is_whole = log.text().trim_end().ends_with("ended");
    Ok((!is_whole).then(|| format!("its log ends with {:?}", log.text())))
}

/// A started program, and what it wrote.
struct Program {
    execution: Execution,
    text: String,
}

impl Program {
    /// Starts the script, and waits until the program and its child are ready.
    async fn start(sandbox: &SandboxHandle, request: &ExecRequest) -> sandbox_core::Result<Self> {
        let mut program = Self {
            execution: sandbox.start(request, Stdin::Null).await?,
            text: String::new(),
        };
        while program.text.matches("ready").count() < 2 {
            match program.execution.next_event().await? {
                Some(ExecEvent::Stdout(bytes)) => program.text += &String::from_utf8_lossy(&bytes),
                Some(ExecEvent::Started) => {}
                _ => break,
            }
        }
        Ok(program)
    }

    async fn end(&mut self) -> Deviation {
        let result = self.execution.wait().await?;
        self.text += &result.stdout_text();
        // On a terminal, a shell may also tell what ended its `sleep`.
        let has = |line| self.text.lines().any(|other| other.trim_end() == line);
        let is_right = has("child") && has("ended") && result.exit_code() == Some(3);
        Ok((!is_right).then(|| format!("{:?}, {}", self.text, result.outcome)))
    }
}

/// What a follower of the log is shown, until it has so many bytes.
pub(in crate::probes) struct Log {
    bytes: Vec<u8>,
    wanted: usize,
}

impl Log {
    pub(in crate::probes) fn new(wanted: usize) -> Self {
        Self {
            bytes: Vec::new(),
            wanted,
        }
    }

    pub(in crate::probes) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[async_trait::async_trait]
impl OutputSink for Log {
    async fn write(&mut self, _: OutputStream, bytes: &[u8]) -> Flow {
        self.bytes.extend_from_slice(bytes);
        match self.bytes.len() >= self.wanted {
            true => Flow::Stop,
            false => Flow::Continue,
        }
    }
}
