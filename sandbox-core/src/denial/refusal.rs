//! What a backend knows about denials during an execution.

/// An action of code that the agent or the kernel denied, as the backend reports it. The core knows
/// the policy and adds the text and the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Executing another program, where only one is allowed.
    Program,
    /// Starting another process, where only one is allowed.
    Process,
    /// A process or thread above the sandbox's limit.
    ProcessLimit,
    /// Memory above the sandbox's limit: the kernel killed a process.
    Memory,
    /// A destination outside the sandbox's network.
    Network,
}
