//! What a sandbox has used.

use std::time::Duration;

use serde::Serialize;

/// What a sandbox has used since it was created, as the kernel counts it: all its processes, those
/// that have ended, and the agent. A value that this host cannot measure is `None`, never zero.
///
/// In JSON, `cpu_time_ms`, and sizes in bytes.
///
/// ```no_run
/// # async fn example(sandbox: sandbox_core::SandboxHandle) -> sandbox_core::Result<()> {
/// let stats = sandbox.stats().await?;
/// match stats.memory_peak {
///     Some(bytes) => println!("at most {bytes} bytes"),
///     None => println!("unknown on {}", sandbox.tier()),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxStats {
    /// Processor time, of all processors together.
    #[serde(
        rename = "cpu_time_ms",
        serialize_with = "crate::exec::optional_milliseconds"
    )]
    pub cpu_time: Option<Duration>,
    /// Memory in use now, with the page cache, in bytes.
    #[serde(rename = "memory_bytes")]
    pub memory: Option<u64>,
    /// The most memory that was in use at once.
    #[serde(rename = "memory_peak_bytes")]
    pub memory_peak: Option<u64>,
    /// Processes and threads that exist now.
    pub processes: Option<u64>,
    /// Bytes that were read from block devices. What is in the page cache is not read again.
    #[serde(rename = "read_bytes")]
    pub read: Option<u64>,
    /// Bytes that were written to block devices.
    #[serde(rename = "written_bytes")]
    pub written: Option<u64>,
    /// Bytes that connections of code have sent, as the host passed them on. `None` without rules
    /// for connections: the host does not see them then.
    #[serde(rename = "egress_sent_bytes")]
    pub egress_sent: Option<u64>,
    /// Bytes that servers have sent to code.
    #[serde(rename = "egress_received_bytes")]
    pub egress_received: Option<u64>,
}
