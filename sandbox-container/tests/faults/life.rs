//! A process of its own that uses sandboxes, to be killed: the test program, started again. What it does is the same on every backend.

use std::io::{BufRead, BufReader, Cursor};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use sandbox_core::{ExecRequest, Result, SandboxClient, SandboxSpec};

/// A whole life of a sandbox, which says where it is.
pub async fn live(client: &SandboxClient, spec: &SandboxSpec) -> Result<()> {
    println!("create");
    let sandbox = client.create(spec).await?;
    println!("exec");
    let burn = ExecRequest::shell("sleep 0.5; setsid sleep 300 & sleep 0.5");
    sandbox.exec(&burn).await?;
    println!("copy");
    for _ in 0..20 {
        let content = Box::new(Cursor::new(vec![7; 8 << 20]));
        sandbox.put("/workspace/file", 0o644, content).await?;
    }
    println!("remove");
    sandbox.kill().await?;
    println!("done");
    Ok(())
}

/// How such a process ends.
pub fn end(done: std::result::Result<(), libtest_mimic::Failed>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", error.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// A running owner. Dropping it kills it.
pub struct Owner {
    child: Child,
    said: std::io::Lines<BufReader<ChildStdout>>,
}

impl Owner {
    /// Starts the test program again, with what tells it that it is one; waits for nothing.
    pub fn spawn<'a>(environment: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an owner");
        let said = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, said }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it says this.
    pub fn wait_until(&mut self, word: &str) {
        for line in self.said.by_ref() {
            let line = line.expect("a line");
            assert!(!line.starts_with("failed"), "{line}");
            if line == word {
                return;
            }
        }
        panic!("the owner ended before {word:?}");
    }

    /// Kills it with SIGKILL, where that has not been done.
    pub fn kill(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        self.child.wait().expect("wait");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.kill();
    }
}
