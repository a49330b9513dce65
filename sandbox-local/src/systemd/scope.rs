//! The scope of this process.

use std::io;
use std::path::{Path, PathBuf};

use sandbox_agent::runtime::Errno;
use sandbox_core::Mechanism;

use super::manager::Manager;
use crate::owned_name;
use crate::spawn::{self, ScopeHelper};

/// The scope of this process. It ends when this is dropped, unless a supervisor is still in it.
#[derive(Debug)]
pub(crate) struct Scope {
    folder: PathBuf,
    /// Whether it belongs to the system instance of systemd rather than the user's.
    of_machine: bool,
    helper: ScopeHelper,
}

/// Why there is no scope or group, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) reason: String,
    pub(crate) fix: String,
}

/// The leaf group of the helper and of supervisors.
const STARTER: &str = "starter";

/// The suffix of a scope's name.
pub(crate) const SUFFIX: &str = ".scope";

/// A scope whose first process is being started.
pub(crate) struct PendingScope {
    socket: PathBuf,
    user: u32,
    helper: Box<dyn FnOnce() -> io::Result<ScopeHelper>>,
}

impl PendingScope {
    /// Starts the scope's first process, if this user has a systemd instance.
    pub(crate) fn begin(user: u32) -> Result<Self, Unavailable> {
        let socket = socket(user);
        if let Err(cause) = std::fs::metadata(&socket) {
            return Err(no_manager(user, &cause));
        }
        let helper = spawn::run_on_spawner(ScopeHelper::start);
        let helper = move || {
            let failed = |errno: Errno| io::Error::from_raw_os_error(errno.0);
            helper().and_then(|helper| helper.map_err(failed))
        };
        Ok(Self {
            socket,
            user,
            helper: Box::new(helper),
        })
    }

    /// Asks systemd for the scope and prepares it. `folder_of` finds the group of a process.
    pub(crate) fn finish(
        self,
        folder_of: impl Fn(u32) -> io::Result<PathBuf>,
    ) -> Result<Scope, Unavailable> {
        let Self {
            socket,
            user,
            helper,
        } = self;
        let asked = Manager::connect(&socket, user);
        let mut manager = asked.map_err(|cause| no_manager(user, &cause))?;
        let refused = |cause: io::Error| Unavailable {
            reason: format!("{} did not start a scope: {cause}", manager_of(user == 0)),
            fix: match user {
                0 => "look into the journal (journalctl -b)".into(),
                _ => "look into the journal (journalctl --user -b)".into(),
            },
        };
        let helper = helper().map_err(refused)?;
        let pid = helper.pid().0.unsigned_abs();
        let name = format!("{}{SUFFIX}", owned_name::unique_name());
        manager
            .start_scope(&name, &description(), pid)
            .map_err(refused)?;
        let folder = folder_of(pid).map_err(refused)?;
        if folder.file_name() != Some(name.as_ref()) {
            let elsewhere = format!("its process is in {}", folder.display());
            return Err(refused(io::Error::other(elsewhere)));
        }
        prepare(&folder, pid).map_err(refused)?;
        Ok(Scope {
            folder,
            of_machine: user == 0,
            helper,
        })
    }
}

fn description() -> String {
    format!("Sandboxes of process {}", std::process::id())
}

/// Moves the first process into a leaf group and enables the controllers for groups below.
fn prepare(folder: &Path, pid: u32) -> io::Result<()> {
    let named = |path: &Path, result: io::Result<()>| {
        result.map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", path.display())))
    };
    let starter = folder.join(STARTER);
    named(&starter, std::fs::create_dir(&starter))?;
    let list = starter.join("cgroup.procs");
    named(&list, std::fs::write(&list, pid.to_string()))?;
    let there = folder.join("cgroup.controllers");
    let there = std::fs::read_to_string(&there)
        .map_err(|cause| io::Error::new(cause.kind(), format!("{}: {cause}", there.display())))?;
    let handed_down = folder.join("cgroup.subtree_control");
    for name in there.split_ascii_whitespace() {
        if ["memory", "cpu", "pids"].contains(&name) {
            named(
                &handed_down,
                std::fs::write(&handed_down, format!("+{name}")),
            )?;
        }
    }
    Ok(())
}

impl Scope {
    /// The folder in which groups are created. Its controllers are enabled for them.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process that clones processes in its groups.
    pub(crate) fn helper(&self) -> &ScopeHelper {
        &self.helper
    }

    /// Whether the scope was stopped.
    pub(crate) fn has_ended(&self) -> bool {
        self.helper.has_ended()
    }

    /// What would give it more controllers.
    pub(crate) fn fix(&self) -> &'static str {
        if self.of_machine {
            "use a kernel with the controllers cpu, memory and pids (and without cgroup_disable=)"
        } else {
            "sudo systemctl edit user@.service, with the lines [Service] and Delegate=cpu memory pids; then log in anew"
        }
    }

    /// The name of its manager, for messages.
    pub(crate) fn manager(&self) -> &'static str {
        manager_of(self.of_machine)
    }

    /// The scope in a report.
    pub(crate) fn mechanism(&self) -> Mechanism {
        match self.of_machine {
            true => Mechanism::SystemdScope,
            false => Mechanism::UserSystemdScope,
        }
    }
}

/// Two values are equal if they use the same groups.
impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.folder == other.folder
    }
}

impl Eq for Scope {}

fn manager_of(machine: bool) -> &'static str {
    if machine {
        "systemd"
    } else {
        "the user's systemd"
    }
}

/// The private socket of the manager; it needs no message bus.
fn socket(user: u32) -> PathBuf {
    let below = "systemd/private";
    if user == 0 {
        return Path::new("/run").join(below);
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|runtime| runtime.is_absolute());
    // The default of systemd, if the environment does not say otherwise.
    let runtime = runtime.unwrap_or_else(|| Path::new("/run/user").join(user.to_string()));
    runtime.join(below)
}

fn no_manager(user: u32, cause: &io::Error) -> Unavailable {
    let fix = match user {
        0 => NO_SYSTEMD.into(),
        _ => {
            format!("where systemd runs: sudo loginctl enable-linger $USER; elsewhere {NO_SYSTEMD}")
        }
    };
    Unavailable {
        reason: format!("{} does not answer ({cause})", manager_of(user == 0)),
        fix,
    }
}

const NO_SYSTEMD: &str =
    "have the administrator delegate a cgroup with the controllers cpu, memory and pids";
