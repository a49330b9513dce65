//! The process that owns something on this host: a folder, a control group or a container.
//!
//! Names and labels contain the owner, so that leftovers of a killed process can be distinguished
//! from what is in use. A process id alone does not suffice: ids are reused, and each PID namespace
//! has its own.

use crate::process::{Era, ProcessId};
use crate::state;
use crate::sync::PerProcess;

/// A process that owns something, recognizable after its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    user: u32,
    process: ProcessId,
    era: Era,
}

/// What is known of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerStatus {
    /// It is this process.
    ThisProcess,
    /// It runs.
    Running,
    /// It has ended.
    Gone,
    /// It cannot be checked from here: it belongs to another machine, boot, PID namespace or user.
    Unknown,
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        static CURRENT: PerProcess<Owner> = PerProcess::new();
        CURRENT.get_or_create(|| {
            let pid = std::process::id().cast_signed();
            Self {
                user: state::user(),
                // Without procfs the start time is 0, and the status of the owner is unknown.
                process: ProcessId::of(pid).unwrap_or(ProcessId { pid, start: 0 }),
                era: Era::current(),
            }
        })
    }

    /// Encodes it for a label: `USER:PID:START:BOOT:NAMESPACE`.
    #[must_use]
    pub fn to_label(&self) -> String {
        let Self { user, process, era } = self;
        format!("{user}:{}:{}:{}", process.pid, process.start, era.encode())
    }

    /// Decodes [`Owner::to_label`]. `None` if it is invalid.
    #[must_use]
    pub fn from_label(label: &str) -> Option<Self> {
        let mut fields = label.splitn(4, ':');
        Some(Self {
            user: fields.next()?.parse().ok()?,
            process: ProcessId {
                pid: fields.next()?.parse().ok()?,
                start: fields.next()?.parse().ok()?,
            },
            era: Era::decode(fields.next()?)?,
        })
    }

    /// A name for a folder or control group of this owner: `sandbox-NAMESPACE-PID-START-NUMBER`.
    #[must_use]
    pub fn file_name(&self, number: u64) -> String {
        let Self { process, era, .. } = self;
        let namespace = era.namespace();
        format!(
            "sandbox-{namespace:x}-{}-{}-{number}",
            process.pid, process.start
        )
    }

    /// Decodes [`Owner::file_name`]. `None` if the name has another form.
    ///
    /// The name has no user and no boot id; those of this process are assumed. An owner from an
    /// earlier boot counts as gone anyway, since its start time does not match.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let mut fields = name.strip_prefix("sandbox-")?.split('-');
        let namespace = u64::from_str_radix(fields.next()?, 16).ok()?;
        let process = ProcessId {
            pid: fields.next()?.parse().ok()?,
            start: fields.next()?.parse().ok()?,
        };
        fields.next()?.parse::<u64>().ok()?;
        fields.next().is_none().then(|| Self {
            user: state::user(),
            process,
            era: Era::current().in_namespace(namespace),
        })
    }

    /// Its process id in its own PID namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid.cast_unsigned()
    }

    /// Its process id, if it is a process of this host that runs.
    #[must_use]
    pub fn pid_on_this_host(&self) -> Option<u32> {
        match self.status() {
            OwnerStatus::ThisProcess | OwnerStatus::Running => Some(self.pid()),
            OwnerStatus::Gone | OwnerStatus::Unknown => None,
        }
    }

    /// Whether it belongs to the user of this process.
    #[must_use]
    pub fn is_of_current_user(&self) -> bool {
        self.user == state::user()
    }

    /// Checks whether it runs.
    #[must_use]
    pub fn status(&self) -> OwnerStatus {
        // The processes of other users may be hidden.
        let visible = self.is_of_current_user() || state::user() == 0;
        if self.process.start == 0 || self.era != Era::current() || !visible {
            return OwnerStatus::Unknown;
        }
        if *self == Self::current() {
            return OwnerStatus::ThisProcess;
        }
        match ProcessId::of(self.process.pid) {
            Some(process) if process == self.process => OwnerStatus::Running,
            _ => OwnerStatus::Gone,
        }
    }

    /// An owner that is gone, for tests: this process with another start time.
    #[doc(hidden)]
    #[must_use]
    pub fn ended_for_tests() -> Self {
        let mut owner = Self::current();
        owner.process.start += 1;
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_and_file_name_contain_the_owner() {
        let current = Owner::current();
        assert_eq!(
            Owner::from_label(&current.to_label()),
            Some(current.clone())
        );
        assert_eq!(Owner::from_file_name(&current.file_name(7)), Some(current));
    }

    #[test]
    fn only_an_ended_process_of_this_boot_and_namespace_is_gone() {
        let current = Owner::current();
        assert_eq!(current.status(), OwnerStatus::ThisProcess);
        assert_eq!(Owner::ended_for_tests().status(), OwnerStatus::Gone);
        let first = Owner {
            user: current.user,
            process: ProcessId::of(1).expect("process 1"),
            era: Era::current(),
        };
        assert_eq!(first.status(), OwnerStatus::Running);
        let other_boot = Owner::from_label("0:1:2:another-boot:1").expect("an owner");
        assert_eq!(other_boot.status(), OwnerStatus::Unknown);
        let other_namespace = Owner {
            era: Era::current().in_namespace(1),
            ..Owner::ended_for_tests()
        };
        assert_eq!(other_namespace.status(), OwnerStatus::Unknown);
        let without_procfs = Owner {
            process: ProcessId { pid: 7, start: 0 },
            ..current
        };
        assert_eq!(without_procfs.status(), OwnerStatus::Unknown);
    }

    #[test]
    fn invalid_labels_and_names_have_no_owner() {
        for label in [
            "",
            "0",
            "0:1:2",
            "x:1:2:boot:3",
            "0:1:2:boot:not hexadecimal",
        ] {
            assert_eq!(Owner::from_label(label), None, "{label}");
        }
        for name in [
            "sandbox",
            "sandbox-1",
            "sandbox-x-1-2-3",
            "sandbox-1-2-3-4-5",
            "docker",
            "sandbox-1-2-3-x",
        ] {
            assert_eq!(Owner::from_file_name(name), None, "{name}");
        }
    }
}
