//! The subcommands.

pub mod check;
mod check_all;
pub mod commit;
pub mod conformance;
pub mod cp;
pub mod create;
pub mod doctor;
pub mod end;
pub mod exec;
pub mod image;
mod kept;
pub mod logs;
pub mod ls;
pub mod matrix;
pub mod policy;
pub mod run;

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// A runtime on this thread: one sandbox needs no more, and threads would cost start-up time.
fn runtime() -> Result<Runtime, Failure> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    Ok(runtime()?.block_on(future))
}
