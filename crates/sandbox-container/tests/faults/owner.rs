//! A process of its own that uses sandboxes, to be killed: this test program, started again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::{ExecRequest, SandboxSpec};

use super::engine::{IMAGE, client_of, run};
use crate::family::Config;

const ADDRESS: &str = "SANDBOX_FAULTS_ADDRESS";
const STATE: &str = "SANDBOX_FAULTS_STATE";
const NAME: &str = "SANDBOX_FAULTS_NAME";
const DETACHED: &str = "SANDBOX_FAULTS_DETACHED";

/// What an owner does: a whole life of a sandbox, and says where it is.
pub fn run_if_asked() -> Option<ExitCode> {
    let address = std::env::var(ADDRESS).ok()?;
    let done = run(async {
        let config = Config::default()
            .host(address)
            .default_image(IMAGE)
            .state_folder(std::env::var_os(STATE).expect("set"));
        let client = client_of(config);
        let detached = std::env::var_os(DETACHED).is_some();
        let mut spec = SandboxSpec::new(std::env::var(NAME).expect("set")).detached(detached);
        spec.lifetime = detached.then_some(Duration::from_secs(120));
        println!("create");
        let sandbox = client.create(&spec).await?;
        println!("exec");
        let burn = ExecRequest::shell("sleep 0.5; setsid sleep 300 & sleep 0.5");
        sandbox.exec(&burn).await?;
        println!("copy");
        for _ in 0..20 {
            let content = Box::new(std::io::Cursor::new(vec![7; 8 << 20]));
            sandbox.put("/workspace/file", 0o644, content).await?;
        }
        println!("remove");
        sandbox.kill().await?;
        println!("done");
        Ok(())
    });
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", error.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    })
}

/// A running owner. Dropping it kills it.
pub struct Owner {
    child: Child,
    said: std::io::Lines<BufReader<ChildStdout>>,
}

impl Owner {
    pub fn start(address: &str, state: &Path, name: &str, detached: bool) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .env(ADDRESS, address)
            .env(STATE, state)
            .env(NAME, name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if detached {
            command.env(DETACHED, "1");
        }
        let mut child = command.spawn().expect("an owner");
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
