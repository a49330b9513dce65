//! What one claim of a pool leaves for the next.

use std::time::Duration;

use sandbox_core::{ExecRequest, Exhausted, PoolSettings, SandboxClient, SandboxPool, SandboxSpec};
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

/// How long a claim lasts, and how long its end may take.
const LIFETIME: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_secs(20);

pub(super) async fn lifetime(context: &mut ProbeContext) -> Result<(), ProbeError> {
    client_feature(context, "keep two claims", async |client, spec| {
        kept(&client, &spec).await
    })
    .await
}

/// How long a session of a pool waits for a cell.
const IDLE: Duration = Duration::from_secs(2);

pub(super) async fn idle(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let action = "claim a session that has ended";
    client_feature(context, action, async |client, spec| {
        ended(&client, &spec).await
    })
    .await
}

/// Claims from a pool whose session has ended in its sandbox, and fills one without any session.
async fn ended(client: &SandboxClient, spec: &SandboxSpec) -> Deviation {
    let request = SessionRequest::new("python").idle_timeout(IDLE);
    let pool = SessionPool::new(client, spec, &request, PoolSettings::new(1))?;
    let deadline = fits_until();
    loop {
        let filled = pool.filled().await;
        if !fits_later(&filled, deadline).await {
            break filled?;
        }
    }
    let ready = pool.status().ready;
    tokio::time::sleep(IDLE + Duration::from_millis(500)).await;
    let claimed = claim(&pool).await?;
    let cell = claimed.session().run("6 * 7").await;
    claimed.end().await?;
    pool.close().await?;
    if ready != 1 || !cell.as_ref().is_ok_and(|cell| cell.success()) {
        return Ok(Some(format!("of {ready} sessions: {cell:?}")));
    }
    let request = SessionRequest::new("python").preload(["no_such_module"]);
    let pool = SessionPool::new(client, spec, &request, PoolSettings::new(1))?;
    let filled = pool.filled().await;
    let failed = pool.status().failed.unwrap_or_default();
    pool.close().await?;
    let is_told = filled.is_err() && failed.contains("no_such_module");
    Ok((!is_told).then(|| format!("a pool without sessions: {filled:?}, {failed}")))
}

/// The second claim is beyond the pool's size.
async fn kept(client: &SandboxClient, spec: &SandboxSpec) -> Deviation {
    let settings = PoolSettings::new(0)
        .most(1)
        .lifetime(LIFETIME)
        .exhausted(Exhausted::Temporary);
    let pool = SandboxPool::new(client, spec, settings)?;
    let claims = [pool.claim().await?, pool.claim().await?];
    if claims.each_ref().map(|claim| claim.is_temporary()) != [false, true] {
        return Ok(Some("the second claim is not a temporary one".to_owned()));
    }
    let request = ExecRequest::shell("true");
    let mut deviation = None;
    for (which, claim) in ["a claim", "a temporary claim"].iter().zip(&claims) {
        let end = tokio::time::Instant::now() + LIFETIME + LATE;
        while claim.sandbox().exec(&request).await.is_ok() {
            if tokio::time::Instant::now() >= end {
                deviation = Some(format!("{which} is there after {:?}", LIFETIME + LATE));
                break;
            }
            tokio::time::sleep(LIFETIME / 10).await;
        }
    }
    for claim in claims {
        claim.end().await?;
    }
    pool.close().await?;
    Ok(deviation)
}

/// A claim. While its pod fits on no node, tries again.
async fn claim(pool: &SessionPool) -> sandbox_core::Result<PooledSession> {
    let deadline = fits_until();
    loop {
        let claimed = match tokio::time::timeout(START, pool.claim()).await {
            Ok(claimed) => claimed,
            Err(_) => Err(sandbox_core::Error::new(
                sandbox_core::ErrorKind::SetupFailed,
                "claim session",
                format!("none within {START:?}"),
            )),
        };
        if !fits_later(&claimed, deadline).await {
            return claimed;
        }
    }
}
