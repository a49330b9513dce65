//! What one claim leaves for the next one.

use sandbox_core::{PoolSettings, SandboxHandle, Stdin};

use super::Template;
use crate::pool::request;
use crate::probes::prelude::*;
use crate::program::{PROGRAM, Run};

pub(super) const NOT_THERE: &[ExpectedDenial] = &[
    denied("ENOENT", "the sandbox is new"),
    denied("absent", "the sandbox is new"),
];

/// How long a left process sleeps.
const SLEEP_MS: &str = "60000";

/// The files that a claim leaves.
fn files(token: &str) -> [String; 2] {
    ["/tmp", "/dev/shm"].map(|folder| format!("{folder}/{token}-claim"))
}

/// The calls that find what [`leave`] leaves.
fn finds(token: &str) -> Vec<Call> {
    let files = files(token).map(|path| Call::new(["shared", "file", &path]));
    files
        .into_iter()
        .chain([Call::new(["find", token])])
        .collect()
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let token = context.token().to_owned();
    let program = context.fixture().program();
    let sleep = Call::new(["sleep", &token, SLEEP_MS]);
    let mut failure = None;
    let left = host::spawn(&program, &sleep).await?;
    for path in files(&token) {
        host::run(&program, &Call::new(["share", "file", &path])).await?;
    }
    for find in finds(&token) {
        let found = host::run(&program, &find).await?.attempt(None);
        if !found.is_success() {
            failure = Some(format!("{}: {found:?}", find.text()));
        }
    }
    drop(left);
    clean_up(context).await?;
    context.record_host_control(control("look for it on the host", failure));
    let claims = match Template::of(context).await {
        Err(declined) => Err(declined),
        Ok(template) => claims(
            &template,
            ["first", "second"].map(|name| context.inside(name)),
        )
        .await
        .map_err(|error| Attempt::unclear(error.to_string())),
    };
    let attempt = match claims {
        Err(declined) => declined,
        Ok([own, later]) => {
            let failure = own.iter().find(|attempt| !attempt.is_success());
            let failure = failure.map(|attempt| format!("{attempt:?}"));
            context.record_allow_control(control("look for it in the same claim", failure));
            let is_blocked = |attempt: &&Attempt| matches!(attempt, Attempt::Blocked { .. });
            // The first that is there, or else the last that is not.
            let there = later.iter().find(|attempt| !is_blocked(attempt));
            let shown = there.or(later.last()).cloned();
            shown.unwrap_or_else(|| Attempt::unclear("nothing was looked for"))
        }
    };
    context.record_attack(Step::new("look for it in the next claim", attempt));
    clean_up(context).await?;
    context.no_host_effect("the attack is what the next claim sees");
    Ok(())
}

/// Removes what is left on the host: by the control, or without isolation.
async fn clean_up(context: &ProbeContext) -> Result<(), ProbeError> {
    let program = context.fixture().program();
    for path in files(context.token()) {
        host::run(&program, &Call::new(["unshare", "file", &path])).await?;
    }
    host::kill_all_with(context.token())
}

/// What a claim sees of what it left, and what the next one sees of it. Each has its own program:
/// without isolation, the first one can still run when the second one is written.
async fn claims(
    template: &Template,
    programs: [String; 2],
) -> sandbox_core::Result<[Vec<Attempt>; 2]> {
    let [program, next_program] = &programs;
    let pool = template.pool(PoolSettings::new(1).most(1))?;
    let first = template.claim(&pool).await?;
    let sandbox = first.sandbox();
    sandbox.upload(program, 0o755, PROGRAM).await?;
    for path in files(&template.token) {
        let share = Call::new(["share", "file", &path]);
        sandbox.exec(&request(program, &share)).await?;
    }
    let sleep = Call::new(["sleep", &template.token, SLEEP_MS]);
    let running = sandbox
        .start(&request(program, &sleep), Stdin::Null)
        .await?;
    let own = look(sandbox, program, &template.token).await?;
    first.end().await?;
    drop(running);
    let second = template.claim(&pool).await?;
    let sandbox = second.sandbox();
    sandbox.upload(next_program, 0o755, PROGRAM).await?;
    let later = look(sandbox, next_program, &template.token).await?;
    second.end().await?;
    pool.close().await?;
    Ok([own, later])
}

async fn look(
    sandbox: &SandboxHandle,
    program: &str,
    token: &str,
) -> sandbox_core::Result<Vec<Attempt>> {
    let mut seen = Vec::new();
    for find in finds(token) {
        let result = sandbox.exec(&request(program, &find)).await?;
        seen.push(Run::from(result).attempt(None));
    }
    Ok(seen)
}
