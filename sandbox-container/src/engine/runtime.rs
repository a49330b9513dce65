//! How far an OCI runtime separates code from the host's kernel.

/// How far an OCI runtime separates code from the host's kernel, by the runtime's name and program.
/// The names come from the engine's configuration, which is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelIsolation {
    /// Namespaces of the host's kernel, as runc, crun and youki create them.
    Namespaces,
    /// A kernel in a host process (gVisor's runsc) handles the code's system calls.
    UserKernel,
    /// A virtual machine with a separate kernel (Kata Containers, libkrun).
    Machine,
}

impl KernelIsolation {
    /// Classifies a runtime by name and program. Unknown ones count as namespaces, which require
    /// the most enforcement.
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

    /// Whether the code's kernel accepts this resource limit (`RLIMIT_*`). A user-space kernel
    /// refuses limits of features it lacks: message queues, priorities.
    pub(crate) fn takes_limit(self, resource: u32) -> bool {
        const MESSAGE_QUEUES: u32 = 12;
        self != Self::UserKernel || resource < MESSAGE_QUEUES
    }

    /// Whether the code runs on the host's kernel, so that its counters, filters and limits apply
    /// to the code.
    pub(crate) fn shares_kernel(self) -> bool {
        self == Self::Namespaces
    }
}

#[cfg(test)]
mod tests {
    use super::KernelIsolation;

    #[test]
    fn runtime_is_classified_by_name_or_program() {
        for (name, program, isolation) in [
            ("runc", "runc", KernelIsolation::Namespaces),
            ("io.containerd.runc.v2", "", KernelIsolation::Namespaces),
            ("runsc", "/usr/bin/runsc", KernelIsolation::UserKernel),
            ("secure", "/opt/runsc-kvm", KernelIsolation::UserKernel),
            ("kata-fc", "io.containerd.kata.v2", KernelIsolation::Machine),
            ("mine", "/opt/mine", KernelIsolation::Namespaces),
        ] {
            assert_eq!(
                KernelIsolation::of(name, program),
                isolation,
                "{name} {program}"
            );
        }
    }
}
