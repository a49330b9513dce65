//! How many sandboxes a pool has, and what becomes of them.

use std::time::Duration;

use sandbox_core::{Error, ErrorKind, ExecRequest, Exhausted, PoolSettings, Stdin};
use tokio::time::Instant;

use super::Template;
use crate::pool::request;
use crate::probes::prelude::*;
use crate::program::PROGRAM;

/// How long a claim waits for the end of another one.
const WAIT: Duration = Duration::from_secs(2);

/// How long a removal may take that nobody waits for.
const LATE: Duration = Duration::from_secs(20);

/// Removes one of two sandboxes that wait. Claims get others.
pub(super) async fn ended(template: &Template) -> Deviation {
    let pool = template.pool(PoolSettings::new(2))?;
    pool.filled().await?;
    let names = template.names().await?;
    let Some(removed) = names.first() else {
        return Ok(Some("no sandbox waits".to_owned()));
    };
    template.client.remove(removed).await?;
    let mut deviation = None;
    for _ in 0..2 {
        let claim = template.claim(&pool).await?;
        let sandbox = claim.sandbox();
        let answer = sandbox.exec(&ExecRequest::shell("true")).await;
        let is_alive = answer.as_ref().is_ok_and(|result| result.success());
        if sandbox.name() == removed || !is_alive {
            deviation = Some(format!("claimed {}: {answer:?}", sandbox.name()));
        }
        claim.end().await?;
    }
    pool.close().await?;
    Ok(deviation)
}

/// How long a sandbox waits.
const AGE: Duration = Duration::from_secs(2);

/// Lets a sandbox wait for too long. Another one takes its place.
pub(super) async fn max_age(template: &Template) -> Deviation {
    let pool = template.pool(PoolSettings::new(1).max_age(AGE))?;
    let deadline = fits_until();
    loop {
        let filled = pool.filled().await;
        if !fits_later(&filled, deadline).await {
            break filled?;
        }
    }
    let old = template.names().await?;
    let end = Instant::now() + AGE + LATE;
    let is_old = |name: &String| old.contains(name);
    let mut names = old.clone();
    while names.is_empty() || names.iter().any(is_old) {
        if Instant::now() >= end {
            pool.close().await?;
            return Ok(Some(format!("{names:?} after {:?}, not new", AGE + LATE)));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        names = template.names().await?;
    }
    let claim = template.claim(&pool).await?;
    let answer = claim.sandbox().exec(&ExecRequest::shell("true")).await;
    let name = claim.sandbox().name().to_owned();
    claim.end().await?;
    pool.close().await?;
    // Closing a pool waits for the end of what it had.
    let left = template.names().await?;
    let is_right = answer.as_ref().is_ok_and(|result| result.success())
        && !is_old(&name)
        && old.len() == 1
        && left.is_empty();
    Ok((!is_right).then(|| format!("{name} after {old:?}: {answer:?}, left: {left:?}")))
}

/// Claims two of one sandbox, with each answer.
pub(super) async fn exhausted(template: &Template) -> Deviation {
    for exhausted in [Exhausted::Fail, Exhausted::Wait(WAIT), Exhausted::Temporary] {
        let pool = template.pool(PoolSettings::new(0).most(1).exhausted(exhausted))?;
        let first = template.claim(&pool).await?;
        let start = Instant::now();
        let second = pool.claim().await;
        let waited = start.elapsed();
        let is_refused = |second: &Error| second.kind() == ErrorKind::PoolExhausted;
        let is_right = match (&second, exhausted) {
            (Err(error), Exhausted::Fail) => is_refused(error) && waited < WAIT,
            (Err(error), Exhausted::Wait(_)) => is_refused(error) && waited >= WAIT,
            (Ok(claim), Exhausted::Temporary) => {
                claim.is_temporary() && claim.sandbox().name() != first.sandbox().name()
            }
            _ => false,
        };
        if !is_right {
            let what = second.map(|claim| claim.sandbox().name().to_owned());
            return Ok(Some(format!("{exhausted:?}: {what:?} after {waited:?}")));
        }
        if let Ok(second) = second {
            second.end().await?;
        }
        // Its place is free again.
        first.end().await?;
        template.claim(&pool).await?.end().await?;
        pool.close().await?;
    }
    Ok(None)
}

/// Drops a pool with a sandbox that waits, and a claim in which a program runs.
pub(super) async fn removed(template: &Template) -> Deviation {
    let pool = template.pool(PoolSettings::new(1))?;
    let claim = template.claim(&pool).await?;
    pool.filled().await?;
    let program = format!("/tmp/{}-probe", template.token);
    claim.sandbox().upload(&program, 0o755, PROGRAM).await?;
    let sleep = Call::new(["sleep", &template.token, "60000"]);
    let sleep = request(&program, &sleep);
    let running = claim.sandbox().start(&sleep, Stdin::Null).await?;
    let before = template.names().await?.len();
    if before != 2 {
        return Ok(Some(format!("{before} sandboxes instead of 2")));
    }
    drop(pool);
    drop((claim, running));
    let end = Instant::now() + LATE;
    loop {
        let names = template.names().await?;
        let processes = host::processes_with(&template.token);
        let is_gone = names.is_empty() && processes.as_ref().is_ok_and(Vec::is_empty);
        if is_gone {
            return Ok(None);
        }
        if Instant::now() >= end {
            // Without isolation the program is on the host.
            let killed = host::kill_all_with(&template.token);
            let left = format!("left: {names:?}, processes {processes:?}, {killed:?}");
            return Ok(Some(left));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
