//! The program: process 1 of a sandbox.
//!
//! One thread, one `ppoll` loop over all clients, no C runtime. For each execution the agent forks a supervisor, which forks the program;
//! the supervisor adopts every orphan below it, so that it can kill the whole tree. Nothing waits for a program or for the
//! host: a pipe is read only while the host has granted credit for its bytes, and the stream is written as it takes them.

mod address;
mod agent;
mod agent_link;
mod arguments;
mod builtin;
mod client;
mod connection;
mod control_listener;
mod cut_network;
mod descriptors;
mod detached;
mod dial;
mod exec;
mod exec_once;
mod exit_reason;
mod expected_objects;
mod failures;
mod interface;
mod make_dirs;
mod memory_kills;
mod oom_score;
mod outgoing_frames;
mod output_log;
mod pending_client;
mod poll_set;
mod prefork_pool;
mod prepare;
mod prepared_sandbox;
mod private_memory;
mod privilege;
mod procfs;
mod reaping;
mod relay;
mod remove_agent;
mod replay;
mod serve;
mod setup;
mod shared;

use core::fmt::Write;

use crate::runtime::{environment::Environment, io::Writer};

use arguments::AgentCommand;

/// Runs the agent; gives its exit code.
pub fn main(environment: Environment) -> i32 {
    match arguments::parse(environment.arguments().skip(1)) {
        Some(AgentCommand::Serve(options)) => serve::serve(&options),
        Some(AgentCommand::Connect { name, wait }) => relay::connect(name, wait),
        Some(AgentCommand::Answer(port)) => dial::answer(port),
        Some(AgentCommand::Dial { until_denied }) => dial::dial(environment, until_denied),
        Some(AgentCommand::Detached) => detached::supervise(),
        Some(AgentCommand::Remove(folder)) => remove_agent::remove_agent(folder),
        Some(AgentCommand::Version) => {
            let mut stdout = Writer::new(1);
            let result = writeln!(
                stdout,
                "sandbox-agent {} (protocol {})",
                option_env!("CARGO_PKG_VERSION").unwrap_or("unknown"),
                crate::protocol::VERSION
            );
            i32::from(result.is_err() || stdout.flush().is_err())
        }
        None => {
            let mut stderr = Writer::new(2);
            // Without a place to say it, the code says it.
            let _ = stderr.write_str(arguments::USAGE);
            exit_reason::EXIT_USAGE
        }
    }
}
