//! What a backend knows of an execution that code was refused.

/// Something that the agent, or the kernel for it, refused code during an execution, and that the backend knows of. The words
/// and the rule for it are found by the core, which knows the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// Another program, where only one is allowed.
    Program,
    /// Another process, where only one is allowed.
    Process,
    /// A process or thread beyond the sandbox's limit.
    ProcessLimit,
    /// Memory beyond the sandbox's limit, so that the kernel killed a process.
    Memory,
    /// A destination that the sandbox's network does not lead to.
    Network,
}
