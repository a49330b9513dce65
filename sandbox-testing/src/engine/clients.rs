//! Successive clients of a detached sandbox, each in its own process. The agent frees a client's
//! slot as soon as it disconnects.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::spi::unique_name;
use sandbox_core::{CapabilityPolicy, SandboxSpec};

use super::{EngineTest, TestEngine};
use crate::contract::{TestResult, client_of, output, run};
use crate::owner::exit_code;

pub const TESTS: &[EngineTest] = &[(
    "clients::successive_client_processes_can_all_execute",
    in_a_row,
)];

/// The number of clients, unless `SANDBOX_TEST_CLIENTS` is set.
const CLIENTS: usize = 50;

const NAME: &str = "SANDBOX_TEST_CLIENT";
const STATE: &str = "SANDBOX_TEST_CLIENT_STATE";

/// Runs a client, where this process was started as one: finds the sandbox by its name and executes
/// `echo`.
pub fn run_if_asked(engine: &'static TestEngine) -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let result = run(async {
        let state = std::env::var_os(STATE).expect("a state folder");
        let sandbox = client_in(engine, state.as_ref()).get(&name).await?;
        print!("{}", output(&sandbox, "echo alive").await?);
        Ok(())
    });
    Some(exit_code(result))
}

fn client_in(engine: &'static TestEngine, state: &Path) -> sandbox_core::SandboxClient {
    let backend = engine.backend(engine.config().state_folder(state));
    client_of(backend, CapabilityPolicy::new())
}

fn in_a_row(engine: &'static TestEngine) -> TestResult {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let name = unique_name("shared");
    run(async {
        let spec = SandboxSpec::new(&name)
            .detached(true)
            .lifetime(Duration::from_secs(3600));
        client_in(engine, &state).create(&spec).await.map(drop)
    })?;
    let setting = std::env::var("SANDBOX_TEST_CLIENTS").ok();
    let clients = setting
        .and_then(|number| number.parse().ok())
        .unwrap_or(CLIENTS);
    let program = std::env::current_exe().expect("this program");
    let start_client = || {
        let mut command = Command::new(&program);
        command.env(NAME, &name).env(STATE, &state);
        command.stdin(Stdio::null()).output().expect("a client")
    };
    let failed = (0..clients).find_map(|client| {
        let client_output = start_client();
        let printed = String::from_utf8_lossy(&client_output.stdout).into_owned();
        (!client_output.status.success() || printed != "alive\n")
            .then(|| format!("client {client}: {printed}"))
    });
    run(async { client_in(engine, &state).remove(&name).await })?;
    failed.map_or(Ok(()), |message| Err(message.into()))
}
