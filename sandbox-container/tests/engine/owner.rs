//! A process of its own that holds a sandbox, to be killed: this test program, started again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::{CapabilityPolicy, SandboxSpec};

use crate::family::Backend;
use crate::suite::{engine, packages};

const NAME: &str = "SANDBOX_TEST_OWNER";
const AGENT: &str = "SANDBOX_TEST_AGENT";
const STATE: &str = "SANDBOX_TEST_STATE";
const REGISTRY: &str = "SANDBOX_TEST_REGISTRY";
const CACHE: &str = "SANDBOX_TEST_CACHE";

/// What an owner does: make the sandbox, say so, and hold it until it is killed.
pub fn run_if_asked() -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let held = engine::run(async {
        let mut config = engine::config();
        if let Ok(path) = std::env::var(AGENT) {
            config = config.agent(std::fs::read(path).expect("the agent's program"));
        }
        let mut spec = SandboxSpec::new(name);
        if let Some(state) = std::env::var_os(STATE) {
            config = config.state_folder(state);
            spec = spec.detached(true).lifetime(Duration::from_secs(60));
        }
        let mut policy = CapabilityPolicy::new();
        if let (Ok(registry), Some(cache)) = (std::env::var(REGISTRY), std::env::var_os(CACHE)) {
            policy.packages = vec!["demo".into()];
            config = packages::over_the_host(config, &registry, cache.as_ref());
        }
        let client = engine::client_of(Backend::new(config), policy);
        let sandbox = client.create(&spec).await?;
        println!("ready");
        tokio::time::sleep(Duration::from_secs(60)).await;
        sandbox.kill().await
    });
    if let Err(error) = &held {
        println!("failed: {}", error.message().unwrap_or_default());
    }
    Some(if held.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A running owner. Dropping it kills it.
pub struct Owner {
    child: Child,
    line: String,
}

impl Owner {
    /// Starts an owner and waits until it has its sandbox.
    pub fn start(name: &str) -> Self {
        let mut owner = Self::spawn(name, None);
        owner.wait_ready();
        owner
    }

    /// Starts an owner, with another agent where one is given.
    pub fn spawn(name: &str, agent: Option<&std::path::Path>) -> Self {
        let mut command = Self::command(name);
        if let Some(agent) = agent {
            command.env(AGENT, agent);
        }
        Self::started(&mut command)
    }

    fn command(name: &str) -> Command {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .env(NAME, name)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    fn started(command: &mut Command) -> Self {
        Self {
            child: command.spawn().expect("an owner"),
            line: String::new(),
        }
    }

    /// Starts the creator of a detached sandbox.
    pub fn detached(name: &str, state: &std::path::Path) -> Self {
        Self::started(Self::command(name).env(STATE, state))
    }

    /// Starts the creator of a sandbox with the package `demo` of a registry on this host.
    pub fn installing(name: &str, registry: &str, cache: &std::path::Path) -> Self {
        let mut command = Self::command(name);
        Self::started(command.env(REGISTRY, registry).env(CACHE, cache))
    }

    /// Waits until the sandbox is there.
    pub fn wait_ready(&mut self) {
        let stdout = self.child.stdout.take().expect("its output");
        BufReader::new(stdout)
            .read_line(&mut self.line)
            .expect("a line");
        assert_eq!(self.line, "ready\n");
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have been killed and waited for before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
