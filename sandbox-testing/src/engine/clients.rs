//! Successive clients of a detached sandbox, each in its own process. The agent frees a client's
//! slot as soon as it disconnects.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use sandbox_core::{CapabilityPolicy, SandboxSpec, unique_name};

use super::{EngineTest, TestEngine};
use crate::contract::{TestResult, client_of, output, run};

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
    let said = run(async {
        let state = std::env::var_os(STATE).expect("a state folder");
        let sandbox = client_in(engine, state.as_ref()).get(&name).await?;
        print!("{}", output(&sandbox, "echo alive").await?);
        Ok(())
    });
    Some(match said {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {}", error.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    })
}

fn client_in(engine: &'static TestEngine, state: &Path) -> sandbox_core::SandboxClient {
    let backend = engine.backend(engine.config().state_folder(state));
    client_of(backend, CapabilityPolicy::new())
}

fn in_a_row(engine: &'static TestEngine) -> TestResult {
    let place = tempfile::tempdir().expect("a folder");
    let state = place.path().join("state");
    let name = unique_name("asked");
    run(async {
        let spec = SandboxSpec::new(&name)
            .detached(true)
            .lifetime(Duration::from_secs(3600));
        client_in(engine, &state).create(&spec).await.map(drop)
    })?;
    let more = std::env::var("SANDBOX_TEST_CLIENTS").ok();
    let clients = more.and_then(|more| more.parse().ok()).unwrap_or(CLIENTS);
    let program = std::env::current_exe().expect("this program");
    let ask = || {
        let mut command = Command::new(&program);
        command.env(NAME, &name).env(STATE, &state);
        command.stdin(Stdio::null()).output().expect("a client")
    };
    let failed = (0..clients).find_map(|client| {
        let asked = ask();
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        (!asked.status.success() || said != "alive\n").then(|| format!("client {client}: {said}"))
    });
    run(async { client_in(engine, &state).remove(&name).await })?;
    failed.map_or(Ok(()), |said| Err(said.into()))
}
