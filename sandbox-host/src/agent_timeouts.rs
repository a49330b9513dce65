//! How long the host waits for an agent before it acts without it.
//!
//! Each limit is longer than the agent's own limits for the same work. So a working agent always
//! reports the end itself, and the host's limit only meets one that is stuck or hostile. Time in
//! which the host was paused, had no stream, or waited for the receiver of output does not count.
//!
//! The agent's own limits are in `program/agent/shutdown.rs` and `program/exec/supervisor.rs` of
//! `sandbox-agent`.

use std::time::Duration;

/// For the end of an execution after its time limit or a kill, and of an agent after its stream.
/// The agent's limits for killing and reporting add up to 6 s; the rest is for a busy host.
pub(crate) const KILL: Duration = Duration::from_secs(10);

/// For the agent's answer to a stop, after the grace period. The agent gives up after 3.5 s.
pub(crate) const STOP: Duration = Duration::from_secs(4);

/// For the answer to the first message, which the agent sends before any other work.
pub(crate) const WELCOME: Duration = Duration::from_secs(10);

/// For the answer to a ping, and for any progress of a write. A working agent needs milliseconds.
pub(crate) const STALL: Duration = Duration::from_secs(10);

/// For the log, of 8 MiB, over a slow stream.
pub(crate) const LOG: Duration = Duration::from_secs(60);
