//! A tutor: interpreters that are ready before pupils come, one sandbox for each, and a state that
//! survives an endless loop. Two answers to one question begin with the same state.
//!
//! ```console
//! $ cargo run --example sessions
//! ```

use std::time::Duration;

use sandbox::{
    CapabilityPolicy, CellOutcome, CellRequest, Exhausted, PoolSettings, Result, SandboxSpec,
    Session, SessionPool, SessionRequest, SessionState,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let client = sandbox::local(CapabilityPolicy::new())?;
    let request = SessionRequest::new("python").preload(["statistics"]);
    let settings = PoolSettings::new(2)
        .most(20)
        .lifetime(Duration::from_secs(3600))
        .exhausted(Exhausted::Wait(Duration::from_secs(30)));
    let pool = SessionPool::new(&client, &SandboxSpec::new("pupil"), &request, settings)?;
    pool.filled().await?;
    println!("{} sessions are ready", pool.status().ready);

    let pupil = pool.claim().await?;
    let session = pupil.session();
    show(session, "import statistics\nmarks = [2, 3, 5]").await?;
    show(session, "statistics.mean(marks)").await?;
    show(session, "while True: pass").await?;
    show(session, "marks").await?;

    let other = session.branch().await?;
    show(session, "marks.append(1); statistics.mean(marks)").await?;
    show(&other, "marks.remove(5); statistics.mean(marks)").await?;

    pupil.end().await?;
    pool.close().await
}

async fn show(session: &Session, code: &str) -> Result<()> {
    let cell = CellRequest::new(code).timeout(Duration::from_millis(500));
    let cell = session.run(cell).await?;
    let value = cell
        .result
        .as_ref()
        .and_then(|value| value.text("text/plain"));
    let state = match cell.session {
        SessionState::Kept => "kept",
        _ => "lost",
    };
    match (&cell.outcome, value) {
        (CellOutcome::Completed, Some(value)) => println!("{value}"),
        (CellOutcome::Completed, None) => {}
        (outcome, _) => println!("{outcome}; its variables are {state}"),
    }
    Ok(())
}
