//! Clients of a sandbox that come one after the other, each a process of its own: who goes is gone at once.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use sandbox_core::{CapabilityPolicy, SandboxSpec, unique_name};

use crate::family::Backend;
use crate::suite::Test;
use crate::suite::engine::{client_of, config, output, run};

pub const TESTS: &[Test] = &[(
    "clients::executions_by_name_in_a_row_from_processes_of_their_own_all_work",
    in_a_row,
)];

/// How many come, unless `SANDBOX_TEST_CLIENTS` says more.
const CLIENTS: usize = 50;

const NAME: &str = "SANDBOX_TEST_CLIENT";
const STATE: &str = "SANDBOX_TEST_CLIENT_STATE";

/// What a client does: find the sandbox by its name, and have it say something.
pub fn run_if_asked() -> Option<ExitCode> {
    let name = std::env::var(NAME).ok()?;
    let said = run(async {
        let state = std::env::var_os(STATE).expect("a state folder");
        let sandbox = client_in(state.as_ref()).get(&name).await?;
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

fn client_in(state: &Path) -> sandbox_core::SandboxClient {
    let backend = Backend::new(config().state_folder(state));
    client_of(backend, CapabilityPolicy::new())
}

fn in_a_row() -> Result<(), Failed> {
    let place = tempfile::tempdir().expect("a folder");
    let state = place.path().join("state");
    let name = unique_name("asked");
    run(async {
        let spec = SandboxSpec::new(&name)
            .detached(true)
            .lifetime(Duration::from_secs(3600));
        client_in(&state).create(&spec).await.map(drop)
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
    run(async { client_in(&state).remove(&name).await })?;
    failed.map_or(Ok(()), |said| Err(said.into()))
}
