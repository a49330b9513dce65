//! The engines' own commands, as rivals.

use std::process::Command;

use super::{BUSYBOX, Stopwatch, plain};
use crate::case::{CROWD, Engine};
use crate::failure::{Context, Failure, Result};
use crate::protocol::Sample;

/// A container of its own for `true`: `docker run --rm`.
pub async fn run(engine: Engine) -> Result<Sample> {
    ask(engine)?;
    blocking(move || one(engine)).await
}

/// [`CROWD`] of them at the same time; the share of one.
pub async fn crowd(engine: Engine) -> Result<Sample> {
    ask(engine)?;
    let watch = Stopwatch::start();
    let begun: Vec<_> = (0..CROWD)
        .map(|_| tokio::task::spawn_blocking(move || one(engine)))
        .collect();
    for one in begun {
        one.await.context("wait for a client")??;
    }
    Ok(watch.stop().share(CROWD))
}

/// A program in a container that runs: `docker exec`.
pub async fn exec(engine: Engine, container: String, program: &[&str]) -> Result<Sample> {
    let mut command = Command::new(engine.name());
    command.args(["exec", &container]).args(program);
    blocking(move || plain::timed(&mut command)).await
}

/// Whether the engine's command is there.
pub fn ask(engine: Engine) -> Result<()> {
    let name = engine.name();
    plain::timed(Command::new(name).arg("--version"))
        .map(|_| ())
        .map_err(|failure| Failure::Missing(format!("{failure}; fix: install the {name} command")))
}

fn one(engine: Engine) -> Result<Sample> {
    let words = ["run", "--rm", "--pull=never", "--network=none", BUSYBOX];
    plain::timed(Command::new(engine.name()).args(words).arg("true"))
}

/// Apart from the runtime, whose warm sandboxes must be heard meanwhile.
async fn blocking(work: impl FnOnce() -> Result<Sample> + Send + 'static) -> Result<Sample> {
    tokio::task::spawn_blocking(work)
        .await
        .context("wait for a client")?
}
