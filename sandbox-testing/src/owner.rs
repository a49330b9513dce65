//! A process that owns sandboxes, and that a test kills: the test program, started again.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::Failed;
use sandbox_core::{ExecRequest, SandboxClient, SandboxSpec};

/// Creates a sandbox, uses it, and removes it. Prints the name of each phase before it begins:
/// `create`, `exec`, `copy`, `remove`, `done`.
///
/// # Errors
///
/// The first error of the backend.
pub async fn use_sandbox(client: &SandboxClient, spec: &SandboxSpec) -> sandbox_core::Result<()> {
    println!("create");
    let sandbox = client.create(spec).await?;
    println!("exec");
    let script = ExecRequest::shell("sleep 0.5; setsid sleep 300 & sleep 0.5");
    sandbox.exec(&script).await?;
    println!("copy");
    for _ in 0..20 {
        sandbox.write("/workspace/file", vec![7; 8 << 20]).await?;
    }
    println!("remove");
    sandbox.kill().await?;
    println!("done");
    Ok(())
}

/// The exit code of such a process. Prints a failure for [`OwnerProcess::wait_until`].
pub fn exit_code(result: Result<(), Failed>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", error.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// A running owner. Dropping it kills it.
pub struct OwnerProcess {
    child: Child,
    output: std::io::Lines<BufReader<ChildStdout>>,
}

impl OwnerProcess {
    /// Starts the test program again, with variables that tell it to be an owner. Does not wait for
    /// its sandbox.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn spawn<'a>(environment: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an owner");
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, output }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints this line.
    ///
    /// # Panics
    ///
    /// If it fails or ends before that.
    pub fn wait_until(&mut self, expected: &str) {
        for line in self.output.by_ref() {
            let line = line.expect("a line");
            assert!(!line.starts_with("failed"), "{line}");
            if line == expected {
                return;
            }
        }
        panic!("the owner ended before {expected:?}");
    }

    /// Kills it with SIGKILL. Does nothing where it has been killed.
    ///
    /// # Panics
    ///
    /// If the operating system does not report its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("wait");
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
