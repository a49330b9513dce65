//! The program: process 1 of a sandbox.
//!
//! One thread runs one `ppoll` loop over all clients. For each execution the agent forks a
//! supervisor, which forks the program. The supervisor is a child subreaper: it adopts every
//! orphaned descendant and can kill the whole tree. The agent never blocks on a program or a
//! client. It reads a pipe only while the client has granted credit, and writes only what the
//! stream accepts.

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
mod egress;
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
mod tcp;

use core::fmt::Write;

use crate::runtime::{FdWriter, environment::Environment};

use arguments::AgentCommand;

/// Runs the agent and returns its exit code.
pub fn main(environment: Environment) -> i32 {
    match arguments::parse(environment.arguments().skip(1)) {
        Some(AgentCommand::Serve(options)) => serve::serve(&options),
        Some(AgentCommand::Connect { name, wait }) => relay::connect(name, wait),
        Some(AgentCommand::Answer(port)) => dial::answer(port),
        Some(AgentCommand::Dial { until_denied }) => dial::dial(environment, until_denied),
        Some(AgentCommand::Detached) => detached::supervise(),
        Some(AgentCommand::Remove(folder)) => remove_agent::remove_agent(folder),
        Some(AgentCommand::Version) => {
            let mut stdout = FdWriter::new(1);
            let result = writeln!(
                stdout,
                "sandbox-agent {} (protocol {})",
                option_env!("CARGO_PKG_VERSION").unwrap_or("unknown"),
                crate::protocol::VERSION
            );
            i32::from(result.is_err() || stdout.flush().is_err())
        }
        None => {
            let mut stderr = FdWriter::new(2);
            // A failure to write is visible in the exit code alone.
            let _ = stderr.write_str(arguments::USAGE);
            exit_reason::EXIT_USAGE
        }
    }
}
