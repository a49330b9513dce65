//! What one claim of a pool leaves for the next.

use std::time::Duration;

use sandbox_core::{PoolSettings, SandboxClient, SandboxSpec};
use sandbox_lang::{PooledSession, SessionPool, SessionRequest};

use super::{host_runs, value};
use crate::probes::prelude::*;

/// How long the start of a session may take.
const START: Duration = Duration::from_secs(120);

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    host_runs(context, "print(6 * 7)", "42\n").await;
    let file = context.inside("pool");
    let claims = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => claims(&client, &spec, &file)
            .await
            .map_err(|error| Attempt::unclear(error.to_string())),
    };
    let attempt = match claims {
        Err(declined) => declined,
        Ok([own, later]) => {
            let failure = (own != "(True, True, True, True)").then_some(own);
            context.record_allow_control(control("look for it in the same claim", failure));
            match later.as_str() {
                "(False, False, False, False)" => Attempt::blocked(["absent"]),
                seen if seen.contains("True") => Attempt::Succeeded { value: later },
                _ => Attempt::unclear(later),
            }
        }
    };
    context.record_attack(Step::new("look for it in the next claim", attempt));
    context.no_host_effect("the attack is what the next claim sees");
    Ok(())
}

/// Leaves a variable, a variable of the environment, a file and a process.
fn leave(file: &str) -> String {
    format!(
        "import os, subprocess, sys\nmine = 1\nos.environ['MINE'] = '1'\n\
         open('{file}', 'w').close()\n\
         child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{file}'])"
    )
}

/// Which of them are there.
fn see(file: &str) -> String {
    // The interpreter's own command line does not have its code.
    format!(
        "import os\ndef text(id):\n    try: return open('/proc/' + id + '/cmdline', 'rb').read()\n    \
         except OSError: return b''\n\
         found = [int(id) for id in os.listdir('/proc') if id.isdigit() and b'{file}' in text(id)]\n\
         ('mine' in globals(), 'MINE' in os.environ, os.path.exists('{file}'), len(found) > 0)"
    )
}

/// Ends the process that a sandbox without isolation has left on the host.
const END: &str = "import signal\nfor id in found: os.kill(id, signal.SIGKILL)";

/// What a claim sees of what it left, and what the next one sees of it.
async fn claims(
    client: &SandboxClient,
    spec: &SandboxSpec,
    file: &str,
) -> sandbox_core::Result<[String; 2]> {
    let request = SessionRequest::new("python");
    let pool = SessionPool::new(client, spec, &request, PoolSettings::new(1).most(1))?;
    let first = claim(&pool).await?;
    first.session().run(leave(file)).await?;
    let own = value(first.session(), &see(file)).await?;
    first.end().await?;
    let second = claim(&pool).await?;
    let later = value(second.session(), &see(file)).await?;
    second.session().run(END).await?;
    second.end().await?;
    pool.close().await?;
    Ok([own, later])
}

async fn claim(pool: &SessionPool) -> sandbox_core::Result<PooledSession> {
    match tokio::time::timeout(START, pool.claim()).await {
        Ok(claimed) => claimed,
        Err(_) => Err(sandbox_core::Error::new(
            sandbox_core::ErrorKind::SetupFailed,
            "claim session",
            format!("none within {START:?}"),
        )),
    }
}
