//! The defaults of values that neither the specification nor the policy sets.

use std::time::Duration;

use crate::{ByteSize, Cpus};

/// The time to live of a detached sandbox: long enough for work, and short enough for a
/// forgotten sandbox.
pub const DETACHED_LIFETIME: Duration = Duration::from_secs(3600);
/// The time limit of an execution in an attached sandbox. In a detached one it is the time to
/// live.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit of one file operation.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(600);
/// The number of bytes kept of each stream.
pub const OUTPUT: ByteSize = ByteSize::mib(64);
/// Memory of a sandbox.
pub const MEMORY: ByteSize = ByteSize::mib(512);
/// Processors of a sandbox.
pub const CPUS: Cpus = Cpus::whole(1);
/// Processes of a sandbox.
pub const PIDS: u32 = 256;
/// Storage of a sandbox.
pub const DISK: ByteSize = ByteSize::mib(256);
/// Open descriptors of a process.
pub const OPEN_FILES: u32 = 1024;
