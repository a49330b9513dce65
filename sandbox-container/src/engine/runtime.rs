//! What an OCI runtime puts between code and the host's kernel.

use std::fmt;

/// What an OCI runtime puts between code and the host's kernel. Told by its name and its program: a name is the engine's owner's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// Nothing: namespaces of the host's kernel, as runc, crun and youki make them.
    Namespaces,
    /// A kernel in a process of the host (gVisor's runsc): it answers the code's system calls by itself.
    UserKernel,
    /// A virtual machine with a kernel of its own (Kata Containers, libkrun).
    Machine,
}

impl Shell {
    /// What a runtime of this name, with this program, is. An unknown one counts as namespaces, of which the most is asked.
    pub(crate) fn of(name: &str, program: &str) -> Self {
        let is = |words: &[&str]| {
            [name, program]
                .iter()
                .any(|text| words.iter().any(|word| text.contains(word)))
        };
        if is(&["runsc", "gvisor"]) {
            Self::UserKernel
        } else if is(&["kata", "krun", "qemu", "firecracker"]) {
            Self::Machine
        } else {
            Self::Namespaces
        }
    }

    /// Whether the code's kernel takes this resource limit (`RLIMIT_*`). A kernel in user space refuses those of what it does not have:
    /// message queues, priorities.
    pub(crate) fn takes_limit(self, resource: u32) -> bool {
        const MESSAGE_QUEUES: u32 = 12;
        self != Self::UserKernel || resource < MESSAGE_QUEUES
    }

    /// Whether the code's kernel is the host's: what that counts, filters and limits by process is then the code's.
    pub(crate) fn shares_kernel(self) -> bool {
        self == Self::Namespaces
    }
}

impl fmt::Display for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::UserKernel => "a kernel in user space",
            Self::Machine => "a virtual machine",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Shell;

    #[test]
    fn runtimes_are_known_by_name_or_program() {
        for (name, program, shell) in [
            ("runc", "runc", Shell::Namespaces),
            ("io.containerd.runc.v2", "", Shell::Namespaces),
            ("runsc", "/usr/bin/runsc", Shell::UserKernel),
            ("secure", "/opt/runsc-kvm", Shell::UserKernel),
            ("kata-fc", "io.containerd.kata.v2", Shell::Machine),
            ("mine", "/opt/mine", Shell::Namespaces),
        ] {
            assert_eq!(Shell::of(name, program), shell, "{name} {program}");
        }
    }
}
