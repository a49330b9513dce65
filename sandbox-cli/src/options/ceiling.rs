//! A policy from options, within the limits of the policy file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::policy::{PolicyFile, Requirement};
use sandbox::{
    ByteSize, Capability, CapabilityPolicy, Cpus, Error, ErrorKind, HostMount, MountSource,
    Storage, Workspace,
};

use super::paths::beneath;
use super::policy_file::{PolicySource, in_file};
use crate::command_error::CommandError;

/// A policy that options change. With a policy file, an option sets fields that the file leaves
/// open and narrows the others; an option that exceeds the file is refused. Only the file can
/// accept partial or missing enforcement.
#[derive(Debug)]
pub struct Ceiling {
    pub(super) policy: CapabilityPolicy,
    /// The policy before any option.
    origin: CapabilityPolicy,
    pub(super) file: Option<(PathBuf, PolicyFile)>,
}

/// A limit in the syntax of the options.
pub trait OptionText {
    /// As it is written in an option.
    fn option_text(&self) -> String;
}

macro_rules! option_text_is_display {
    ($($limit:ty),*) => {
        $(impl OptionText for $limit {
            fn option_text(&self) -> String {
                self.to_string()
            }
        })*
    };
}

option_text_is_display!(ByteSize, Cpus, u32);

impl OptionText for Duration {
    fn option_text(&self) -> String {
        humantime::format_duration(*self).to_string()
    }
}

impl Ceiling {
    /// A policy without a file: options may set any value.
    pub fn open(policy: CapabilityPolicy) -> Self {
        Self {
            origin: policy.clone(),
            policy,
            file: None,
        }
    }

    /// The policy of a file.
    pub fn of(source: &PolicySource) -> Result<Self, CommandError> {
        let (path, file) = (source.path(), source.file.clone());
        let policy = file.resolve().map_err(|error| in_file(path, &error))?;
        Ok(Self {
            origin: policy.clone(),
            policy,
            file: Some((path.to_owned(), file)),
        })
    }

    /// The storage that the policy names.
    pub fn storage(&self) -> &BTreeMap<String, Storage> {
        &self.policy.storage
    }

    /// The policy, with the options applied.
    pub fn into_policy(self) -> CapabilityPolicy {
        self.policy
    }

    /// Sets or lowers a limit.
    pub fn limit<T: PartialOrd + Copy + OptionText>(
        &mut self,
        option: &str,
        asked: Option<T>,
        field: impl Fn(&mut CapabilityPolicy) -> &mut Option<T>,
    ) -> Result<(), CommandError> {
        let Some(asked) = asked else { return Ok(()) };
        let field = field(&mut self.policy);
        if let (Some(allowed), Some((path, _))) = (&field, &self.file)
            && asked > *allowed
        {
            return Err(exceeded(
                path,
                format!("{option} {}", asked.option_text()),
                allowed.option_text(),
            ));
        }
        *field = Some(asked);
        Ok(())
    }

    /// Sets or narrows what can be read.
    pub fn read_roots(&mut self, asked: Vec<PathBuf>) -> Result<(), CommandError> {
        if asked.is_empty() {
            return Ok(());
        }
        if let (Some(allowed), Some((path, _))) = (self.readable(), &self.file) {
            all_beneath(path, "--read", &asked, &allowed)?;
        }
        self.policy.filesystem_read_roots = Some(asked);
        Ok(())
    }

    /// Sets or narrows what can be written.
    pub fn write_roots(&mut self, asked: Vec<PathBuf>) -> Result<(), CommandError> {
        if asked.is_empty() {
            return Ok(());
        }
        if let (Some(allowed), Some((path, _))) = (self.writable(), &self.file) {
            all_beneath(path, "--write", &asked, &allowed)?;
        }
        self.policy.filesystem_write_roots = Some(asked);
        Ok(())
    }

    /// Follows links that leave their folder, unless the file says that they are not followed.
    pub fn follow_links(&mut self, asked: bool) -> Result<(), CommandError> {
        if !asked {
            return Ok(());
        }
        if let (Some(false), Some((path, _))) = (self.policy.follow_links, &self.file) {
            let allowed = "follow_links = false".to_owned();
            return Err(exceeded(path, "--follow".to_owned(), allowed));
        }
        self.policy.follow_links = Some(true);
        Ok(())
    }

    /// Checks that a workspace is within the roots of the policy file.
    pub fn workspace(&self, workspace: &Workspace) -> Result<(), CommandError> {
        let Some((path, _)) = &self.file else {
            return Ok(());
        };
        let asked = std::slice::from_ref(&workspace.path);
        let allowed = match workspace.read_only {
            true => self.readable(),
            false => self.writable(),
        };
        match allowed {
            Some(allowed) => all_beneath(path, "--workspace", asked, &allowed),
            None => Ok(()),
        }
    }

    /// Checks that mounts are within what the policy file lets be mounted, and lets the library
    /// mount exactly these: the policy that it gets has the roots of the options.
    pub fn mounts(&mut self, mounts: &[HostMount]) -> Result<(), CommandError> {
        if mounts.is_empty() {
            return Ok(());
        }
        let CapabilityPolicy {
            filesystem_read_roots: read,
            filesystem_write_roots: write,
            mount_sources: sources,
            ..
        } = &self.origin;
        let is_limited = read.is_some() || write.is_some() || sources.is_some();
        if let (true, Some((path, _))) = (is_limited, &self.file) {
            for mount in mounts {
                let read = read.iter().flatten().filter(|_| mount.read_only);
                let sources = sources.iter().flatten();
                let sources = sources.filter(|it| mount.read_only || !it.read_only);
                let allowed = read.chain(write.iter().flatten());
                let allowed = allowed
                    .chain(sources.map(|it| &it.path))
                    .collect::<Vec<_>>();
                let asked = std::slice::from_ref(&mount.source);
                all_beneath(path, "--volume", asked, &allowed)?;
            }
        }
        let sources = mounts.iter().map(|mount| match mount.read_only {
            true => MountSource::read_only(&mount.source),
            false => MountSource::read_write(&mount.source),
        });
        self.policy.mount_sources = Some(sources.collect());
        Ok(())
    }

    /// The host folders whose contents may be readable; `None` if the file does not limit them.
    fn readable(&self) -> Option<Vec<&PathBuf>> {
        let read = self.origin.filesystem_read_roots.as_ref()?;
        let write = self.origin.filesystem_write_roots.iter().flatten();
        Some(read.iter().chain(write).collect())
    }

    /// The same for writing. If the file sets only read roots, code may write only below these.
    fn writable(&self) -> Option<Vec<&PathBuf>> {
        match &self.origin.filesystem_write_roots {
            Some(write) => Some(write.iter().collect()),
            None => self.readable(),
        }
    }

    /// Sets or narrows what may be exported.
    pub fn export_paths(&mut self, asked: Vec<String>) -> Result<(), CommandError> {
        if asked.is_empty() {
            return Ok(());
        }
        if let Some((
            path,
            PolicyFile {
                artifact_export_paths: Some(allowed),
                ..
            },
        )) = &self.file
            && let Some(more) = asked
                .iter()
                .find(|asked| !allowed.iter().any(|allowed| covers(allowed, asked)))
        {
            return Err(exceeded(path, format!("--artifact {more}"), list(allowed)));
        }
        self.policy.artifact_export_paths = asked;
        Ok(())
    }

    /// Sets or narrows which packages are there.
    pub fn packages(&mut self, asked: &[Requirement]) -> Result<(), CommandError> {
        if asked.is_empty() {
            return Ok(());
        }
        if let Some((path, file)) = &self.file {
            let allowed = self.policy.requirements()?;
            let may_install = self.policy.package_installation != Some(false);
            let is_set = file.packages.is_some() || !allowed.is_empty();
            let more = asked.iter().find(|asked| {
                !may_install || (is_set && !allowed.iter().any(|own| own.allows(asked)))
            });
            if let Some(more) = more {
                return Err(exceeded(path, format!("--package {more}"), list(&allowed)));
            }
        }
        self.policy.packages = asked.iter().map(ToString::to_string).collect();
        Ok(())
    }

    /// Allows secrets that no file allows already.
    pub fn secrets(&mut self, asked: &[String]) -> Result<(), CommandError> {
        for name in asked {
            let allowed = &mut self.policy.secrets;
            if allowed.contains(name) {
                continue;
            }
            if let Some((path, _)) = &self.file {
                return Err(exceeded(path, format!("--secret {name}"), list(allowed)));
            }
            allowed.push(name.clone());
        }
        Ok(())
    }

    /// Whether neither option nor file sets the artifact paths; an empty list in the file forbids
    /// all.
    pub fn exports_are_open(&self) -> bool {
        let file_says = self
            .file
            .as_ref()
            .is_some_and(|(_, file)| file.artifact_export_paths.is_some());
        self.policy.artifact_export_paths.is_empty() && !file_says
    }

    /// Accepts weaker enforcement of capabilities.
    pub fn accept(
        &mut self,
        option: &str,
        asked: &[Capability],
        field: impl Fn(&mut CapabilityPolicy) -> &mut Vec<Capability>,
    ) -> Result<(), CommandError> {
        let field = field(&mut self.policy);
        for capability in asked {
            if field.contains(capability) {
                continue;
            }
            if let Some((path, _)) = &self.file {
                return Err(exceeded(
                    path,
                    format!("{option} {capability}"),
                    list(field),
                ));
            }
            field.push(*capability);
        }
        Ok(())
    }
}

/// Whether an allowed artifact path covers another one. A pattern covers itself, and `/a/**`
/// covers everything below `/a`.
fn covers(allowed: &str, asked: &str) -> bool {
    let folder = allowed.strip_suffix("/**").unwrap_or(allowed);
    let is_literal = !folder.contains(['*', '?', '[', '{']);
    allowed == asked
        || (is_literal
            && asked
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/')))
}

fn all_beneath(
    file: &Path,
    option: &str,
    asked: &[PathBuf],
    allowed: &[&PathBuf],
) -> Result<(), CommandError> {
    let more = asked
        .iter()
        .find(|path| !allowed.iter().any(|root| beneath(path, root).is_some()));
    match more {
        None => Ok(()),
        Some(more) => {
            let allowed = allowed
                .iter()
                .map(|root| root.display())
                .collect::<Vec<_>>();
            Err(exceeded(
                file,
                format!("{option} {}", more.display()),
                list(&allowed),
            ))
        }
    }
}

pub(super) fn list(items: &[impl fmt::Display]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn exceeded(file: &Path, asked: String, allowed: String) -> CommandError {
    let context = format!(
        "asked for {asked}, the policy {} allows {allowed}",
        file.display()
    );
    Error::new(ErrorKind::PolicyExceeded, "apply options", context)
        .with_fix("request less, or raise the limit in the policy file")
        .into()
}

#[cfg(test)]
#[path = "ceiling_tests.rs"]
mod tests;
