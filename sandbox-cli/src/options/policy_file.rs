//! Reads a policy file, whose path an earlier run may have changed.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use sandbox::policy::PolicyFile;
use sandbox::{CapabilityPolicy, Error, SandboxSpec};
use sandbox_host::safe_path::{Identity, LinkRule, Opened};

use crate::command_error::CommandError;

/// The longest policy file, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

/// A policy file that was read.
#[derive(Debug)]
pub struct PolicySource {
    path: PathBuf,
    /// The file itself; `None` for a descriptor of this process.
    opened: Option<Opened>,
    /// Its content.
    pub file: PolicyFile,
}

impl PolicySource {
    /// Reads a policy file: JSON if its name ends in `.json`, otherwise TOML. Refuses a symbolic
    /// link that leaves its folder unless `follow` is set; links of the system are always followed.
    pub fn read(path: &Path, follow: bool) -> Result<Self, CommandError> {
        let failed = |error: std::io::Error| {
            CommandError::io(format!("policy file {}", path.display()), &error)
        };
        let (opened, file) = if is_descriptor(path) {
            (None, std::fs::File::open(path).map_err(failed)?)
        } else {
            let opened = LinkRule::new(follow).open(path);
            let opened = opened.map_err(|error| error.into_error("read policy file", path))?;
            let file = opened.open_for_reading().map_err(failed)?;
            (Some(opened), file.into())
        };
        let mut text = String::new();
        file.take(LONGEST)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let is_json = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let file = if is_json {
            PolicyFile::from_json(&text)
        } else {
            PolicyFile::from_toml(&text)
        };
        Ok(Self {
            path: path.to_owned(),
            opened,
            file: file.map_err(|error| in_file(path, &error))?,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a file that was reached through a link in a folder that the code can write to under
    /// this policy. Warns if the code can write to the file itself: it could change the next run's
    /// policy.
    pub fn check(&self, policy: &CapabilityPolicy, spec: &SandboxSpec) -> Result<(), CommandError> {
        let Some(opened) = &self.opened else {
            return Ok(());
        };
        let writable = Identity::of_paths(writable(policy, spec).iter().map(PathBuf::as_path));
        let links = opened.refuse_links_in(&writable);
        links.map_err(|error| error.into_error("read policy file", &self.path))?;
        if writable.iter().any(|folder| opened.is_within(*folder)) {
            crate::print_status(format_args!(
                "warning: the code can change the policy file {}: move it out of the writable folders",
                self.path.display()
            ));
        }
        Ok(())
    }
}

/// The paths of the host that code can write to.
pub fn writable(policy: &CapabilityPolicy, spec: &SandboxSpec) -> Vec<PathBuf> {
    let workspace = spec.workspace.iter().filter(|it| !it.read_only);
    let mounts = spec.mounts.iter().filter(|it| !it.read_only);
    let roots = policy.filesystem_write_roots.iter().flatten();
    let roots = roots.chain(workspace.map(|it| &it.path));
    roots.chain(mounts.map(|it| &it.source)).cloned().collect()
}

/// Whether a path is an open file of this process, as with `<(…)` in a shell.
fn is_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || path.starts_with("/proc/self/fd")
}

/// Adds the file's name to an error.
pub fn in_file(path: &Path, error: &Error) -> CommandError {
    Error::new(
        error.kind(),
        "read policy",
        format!("{}: {}", path.display(), error.context()),
    )
    .into()
}
