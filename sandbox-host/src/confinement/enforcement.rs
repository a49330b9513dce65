//! What the confinement of executions enforces, for a backend's report.

use sandbox_core::{Capability, Enforcement, Mechanism, Mechanisms};

use super::{Kernel, Mode};

const NO_FILTER: &str = "the kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)";

/// The enforcement of [`sandbox_core::Capability::Privileges`] if the environment gives code no
/// capabilities. In [`Mode::Split`] the agent ensures that, in [`Mode::Shared`] the backend must.
#[must_use]
pub fn privileges(kernel: &Kernel, mode: Mode) -> Enforcement {
    use Mechanism::{EmptyBoundingSet, NoCapabilities, NoNewPrivileges, OwnUser};
    let capabilities = match mode {
        Mode::Split { .. } => Mechanisms::from([NoNewPrivileges, OwnUser, EmptyBoundingSet]),
        Mode::Shared => [NoNewPrivileges, NoCapabilities].into(),
    };
    if kernel.seccomp {
        Enforcement::enforced(capabilities).and(Mechanism::Seccomp)
    } else {
        let gap = format!(
            "{NO_FILTER}: every system call that needs no capability is open, user namespaces too"
        );
        Enforcement::partial(capabilities, gap)
    }
}

/// The enforcement of [`sandbox_core::Capability::SubprocessExecution`] for a plan that denies it.
#[must_use]
pub fn subprocess_execution(kernel: &Kernel) -> Enforcement {
    match (kernel.seccomp, kernel.seccomp_notify) {
        (true, true) => Enforcement::enforced([Mechanism::Seccomp, Mechanism::SeccompNotification]),
        (true, false) => Enforcement::partial(
            Mechanism::Seccomp,
            "a program can replace itself by another one, again and again: to let through only the first execve takes seccomp \
             notification (Linux 5.5)",
        ),
        (false, _) => Enforcement::unenforced(NO_FILTER),
    }
}

/// The entry of a capability that the agent enforces alike with every backend, or that no backend
/// knows.
#[must_use]
pub fn by_agent(capability: Capability, kernel: &Kernel, mode: Mode) -> Enforcement {
    let unless_disturbed = |enforced: Enforcement| match disturbance(kernel, mode) {
        None => enforced,
        Some(gap) => enforced.weakened(gap),
    };
    match capability {
        Capability::EnvVarAccess => Enforcement::enforced(Mechanism::FreshEnvironment),
        Capability::Secrets => Enforcement::enforced(Mechanism::SecretsPerExecution),
        Capability::SubprocessExecution => subprocess_execution(kernel),
        Capability::Timeout => unless_disturbed(Enforcement::enforced([
            Mechanism::Agent,
            Mechanism::HostClock,
        ])),
        Capability::OpenFiles => unless_disturbed(Enforcement::enforced(Mechanism::RlimitNofile)),
        // The host counts what it reads from the stream.
        Capability::StdoutMaxBytes | Capability::StderrMaxBytes => {
            Enforcement::enforced(Mechanism::BoundedCapture)
        }
        Capability::ArtifactExportPaths => {
            Enforcement::enforced([Mechanism::CopiedByAgent, Mechanism::OpenedBeneathFolder])
        }
        _ => Enforcement::unenforced("this backend does not know the capability"),
    }
}

/// The gap of capabilities that depend on the agent (the end, the time and the output of an
/// execution), because code can disturb the agent. `None` if code has its own user.
///
/// The isolation itself does not depend on the agent.
#[must_use]
pub fn disturbance(kernel: &Kernel, mode: Mode) -> Option<String> {
    let Mode::Shared = mode else { return None };
    let missing = match (kernel.seccomp, kernel.landlock_abi) {
        (true, 6..) => "it can use up what the kernel counts by user",
        (true, _) => {
            "it can signal its supervisor and the code of other executions (only Landlock ABI 6 would confine signals)"
        }
        (false, _) => {
            "it can signal the agent and lower its limits and priority (no seccomp filters)"
        }
    };
    Some(format!("code runs as the agent's user: {missing}"))
}
