//! What the preset `coding` adds to a specification: the current folder, this user's toolchains and
//! the settings of git.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{HostMount, SandboxSpec, Workspace};
use sandbox_host::PATH;

use super::paths;
use super::toolchains::Toolchains;
use crate::command_error::CommandError;
use crate::commands::run::siblings::is_broad;

/// The mounts of the toolchains, except those that overlap with what the sandbox has anyway.
pub fn mounts(toolchains: &Toolchains, others: &[HostMount], roots: &[&PathBuf]) -> Vec<HostMount> {
    let overlap = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
    let is_free = |mount: &&HostMount| {
        let targets = others.iter().map(|other| &other.target);
        let mut taken = targets.chain(roots.iter().copied());
        !taken.any(|path| overlap(&mount.target, path))
    };
    toolchains.mounts.iter().filter(is_free).cloned().collect()
}

/// Sets the variables of the toolchains and of git that the caller has not set.
pub fn set_variables(spec: &mut SandboxSpec, toolchains: &Toolchains) {
    let mut set = |name: &str, value: String| {
        spec.env.entry(name.to_owned()).or_insert(value);
    };
    for (name, value) in &toolchains.variables {
        // Other bytes cannot be in a specification.
        if let Some(value) = value.to_str() {
            set(name, value.to_owned());
        }
    }
    let path = toolchains.path.iter().filter_map(|path| path.to_str());
    let path = path.chain([PATH]).collect::<Vec<_>>().join(":");
    set("PATH", path);
    // An image may not know the code's user by its number.
    for name in ["LOGNAME", "USER"] {
        set(name, "sandbox".into());
    }
    // Settings in variables take precedence over files, and nothing is written.
    let settings = [
        // In a sandbox, files of the host's root may belong to nobody.
        ("safe.directory", "*".to_owned()),
        ("user.name", of_git("user.name", "sandbox")),
        ("user.email", of_git("user.email", "sandbox@localhost")),
    ];
    if spec.env.contains_key("GIT_CONFIG_COUNT") {
        return;
    }
    let mut set = |name: String, value: String| {
        spec.env.entry(name).or_insert(value);
    };
    set("GIT_CONFIG_COUNT".into(), settings.len().to_string());
    for (number, (name, value)) in settings.into_iter().enumerate() {
        set(format!("GIT_CONFIG_KEY_{number}"), name.into());
        set(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
}

/// A setting of this user's git. Those of the current folder's repository do not count: code of an
/// earlier run may have written them.
fn of_git(setting: &str, default: &str) -> String {
    let output = Command::new("git")
        .args(["config", "--global", "--get", setting])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let value = output.ok().filter(|output| output.status.success());
    let value = value.and_then(|output| String::from_utf8(output.stdout).ok());
    let value = value.map(|value| value.trim_end().to_owned());
    value
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| default.to_owned())
}

/// The current folder, unless it holds much more than a project.
pub fn workspace() -> Result<Workspace, CommandError> {
    let folder = paths::existing("--workspace", Path::new("."))?;
    let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
    if is_broad(&real) {
        let why = format!(
            "the preset coding makes the current folder writable, and {} holds more than a project",
            folder.display()
        );
        return Err(CommandError::argument(why)
            .with_fix("go to the project's folder, or name it with --workspace"));
    }
    Ok(Workspace::read_write(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_caller_take_precedence() {
        let toolchains = Toolchains {
            path: vec!["/home/me/.cargo/bin".into()],
            variables: vec![("CARGO_HOME", "/tmp/cargo".into())],
            ..Toolchains::default()
        };
        let mut spec = SandboxSpec::new("sb").env("CARGO_HOME", "/mine");
        set_variables(&mut spec, &toolchains);
        assert_eq!(spec.env["CARGO_HOME"], "/mine");
        assert_eq!(spec.env["PATH"], format!("/home/me/.cargo/bin:{PATH}"));
        assert_eq!(spec.env["GIT_CONFIG_COUNT"], "3");
        assert_eq!(spec.env["GIT_CONFIG_KEY_0"], "safe.directory");
        let mut spec = SandboxSpec::new("sb").env("GIT_CONFIG_COUNT", "0");
        set_variables(&mut spec, &toolchains);
        assert!(!spec.env.contains_key("GIT_CONFIG_KEY_0"));
    }

    #[test]
    fn toolchains_make_room_for_other_mounts_and_roots() {
        let tool = |path: &str| HostMount::read_only(path, path);
        let toolchains = Toolchains {
            mounts: vec![tool("/a/bin"), tool("/b/bin"), tool("/c/bin")],
            ..Toolchains::default()
        };
        let others = [HostMount::read_write("/x", "/a/bin/deep")];
        let roots = PathBuf::from("/b");
        let left = mounts(&toolchains, &others, &[&roots]);
        assert_eq!(left, [tool("/c/bin")]);
    }
}
