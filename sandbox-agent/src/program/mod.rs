//! The program: process 1 of a sandbox.
//!
//! One thread, one `ppoll` loop over all clients, no C runtime. For each execution the agent forks a supervisor, which forks the program;
//! the supervisor adopts every orphan below it, so that it can kill the whole tree. Nothing waits for a program or for the
//! host: a pipe is read only while the host has granted credit for its bytes, and the stream is written as it takes them.

mod address;
mod agent;
mod applicant;
mod arguments;
mod builtin;
mod client;
mod common;
mod connect;
mod connection;
mod cut_network;
mod descriptors;
mod dial;
mod door;
mod ending;
mod exec;
mod exec_once;
mod failing;
mod interface;
mod keep;
mod link;
mod log;
mod make_dirs;
mod memory_kills;
mod oom;
mod outgoing;
mod placed;
mod polling;
mod prepare;
mod privilege;
mod process_files;
mod reaping;
mod region;
mod remove;
mod replay;
mod reserve;
mod sandbox;
mod serve;
mod setup;

use core::fmt::Write;

use crate::runtime::{environment::Environment, io::Writer};

use arguments::Task;

/// Runs the agent; gives its exit code.
pub fn main(environment: Environment) -> i32 {
    match arguments::parse(environment.arguments().skip(1)) {
        Some(Task::Serve(service)) => serve::serve(&service),
        Some(Task::Connect { name, wait }) => connect::connect(name, wait),
        Some(Task::Answer(port)) => dial::answer(port),
        Some(Task::Dial { until_denied }) => dial::dial(environment, until_denied),
        Some(Task::Keep) => keep::keep(),
        Some(Task::Remove(folder)) => remove::remove(folder),
        Some(Task::Version) => {
            let mut stdout = Writer::new(1);
            let written = writeln!(
                stdout,
                "sandbox-agent {} (protocol {})",
                option_env!("CARGO_PKG_VERSION").unwrap_or("unknown"),
                crate::protocol::VERSION
            );
            i32::from(written.is_err() || stdout.flush().is_err())
        }
        None => {
            let mut stderr = Writer::new(2);
            // Without a place to say it, the code says it.
            let _ = stderr.write_str(arguments::USAGE);
            ending::EXIT_USAGE
        }
    }
}
