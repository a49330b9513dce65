//! The user that code runs as, in the container and on the host.

use std::path::{Path, PathBuf};

use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::confinement::Mode;

use crate::Tier;
use crate::engine::EngineFacts;
use crate::folders::HostFolders;

/// The default user of code, unless the specification or a host folder decides otherwise.
const DEFAULT_USER: (u32, u32) = (1000, 1000);

/// The container's root.
const ROOT: (u32, u32) = (0, 0);

/// The user that code runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeIdentity {
    /// User and group ids in the container.
    pub code: (u32, u32),
    /// Whether the engine's user keeps its uid in the container (`keep-id`), instead of becoming
    /// root.
    pub keep_id: bool,
}

impl CodeIdentity {
    /// Chooses the user that code runs as.
    ///
    /// Code runs as the owner of the host folders that it sees, with the owner's rights there. If
    /// the owner runs the engine and would be the container's root, the engine is asked to keep the
    /// uid.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a user that the engine's containers do not have. `InvalidSpec` if code
    /// could not write to a folder that the plan makes writable: engines do not change permissions.
    pub(crate) fn of(
        tier: Tier,
        plan: &Plan,
        facts: &EngineFacts,
        opened: &HostFolders,
    ) -> Result<Self> {
        let identity = match plan.user {
            Some(user) => Self::requested(tier, user, facts)?,
            None if facts.rootless => Self::rootless(tier, plan, facts, opened),
            None => {
                let owner =
                    folders_owner(plan, opened).and_then(|owner| in_containers(owner, facts));
                Self::unmapped(owner.unwrap_or(DEFAULT_USER))
            }
        };
        identity.check_writable(tier, plan, facts, opened)?;
        Ok(identity)
    }

    /// This user, without `keep-id`.
    pub(crate) const fn unmapped(code: (u32, u32)) -> Self {
        Self {
            code,
            keep_id: false,
        }
    }

    /// The user that the specification names.
    fn requested(tier: Tier, user: (u32, u32), facts: &EngineFacts) -> Result<Self> {
        if user.0 != 0 && is_engine_user(user.0, facts) && can_keep_id(tier, facts) {
            return Ok(Self {
                code: user,
                keep_id: true,
            });
        }
        if user.0.max(user.1) < facts.ids {
            return Ok(Self::unmapped(user));
        }
        let context = format!(
            "user: {}:{} is not there, the engine's containers have {} users only",
            user.0, user.1, facts.ids
        );
        let error = Error::new(ErrorKind::Unsupported, "create sandbox", context);
        Err(error.on(tier).with_fix(
            "give the engine's user subordinate ids (`usermod --add-subuids`), or leave `user` out",
        ))
    }

    /// The user on a rootless engine.
    fn rootless(tier: Tier, plan: &Plan, facts: &EngineFacts, opened: &HostFolders) -> Self {
        let is_engine_users = |folder: &Path| {
            let owned = opened.owned(folder);
            owned.is_ok_and(|folder| is_engine_user(folder.user, facts))
        };
        match facts.engine_user {
            Some(user) if visible_folders(plan).any(is_engine_users) => {
                if can_keep_id(tier, facts) {
                    Self {
                        code: user,
                        keep_id: true,
                    }
                } else {
                    Self::unmapped(ROOT)
                }
            }
            _ if facts.ids <= DEFAULT_USER.0 => Self::unmapped(ROOT),
            _ => Self::unmapped(DEFAULT_USER),
        }
    }

    /// Whether agent and code have different users: if code runs as the container's root, they
    /// share it.
    pub(crate) fn mode(&self) -> Mode {
        match self.code {
            (0, _) => Mode::Shared,
            (uid, gid) => Mode::Split { uid, gid },
        }
    }

    /// The code's user and group on the host; `None` if no other process has them, or unknown.
    fn on_host(&self, facts: &EngineFacts) -> Option<(u32, u32)> {
        match facts.rootless {
            false if !facts.user_namespace => Some(self.code),
            false => facts.engine_user.map(|first| {
                (
                    first.0.saturating_add(self.code.0),
                    first.1.saturating_add(self.code.1),
                )
            }),
            true if self.keep_id || self.code.0 == 0 => facts.engine_user,
            true => None,
        }
    }

    fn check_writable(
        &self,
        tier: Tier,
        plan: &Plan,
        facts: &EngineFacts,
        opened: &HostFolders,
    ) -> Result<()> {
        let host_user = self.on_host(facts);
        for path in plan.writable_sources() {
            // A path that was not opened is reported elsewhere.
            let Ok(folder) = opened.owned(path) else {
                continue;
            };
            let bits = folder.mode;
            let owns = host_user.is_some_and(|(uid, _)| folder.user == uid) && bits & 0o200 != 0;
            let shares = host_user.is_some_and(|(_, gid)| folder.group == gid) && bits & 0o020 != 0;
            if owns || shares || bits & 0o002 != 0 {
                continue;
            }
            let code = match host_user {
                Some((uid, _)) => format!("runs as user {uid}"),
                None => "runs as a user that only the engine has".to_owned(),
            };
            let context = format!(
                "{} belongs to user {}, and the code, which {code}, could not write to it",
                path.display(),
                folder.user
            );
            let fix = match facts.engine_user.filter(|_| facts.rootless) {
                Some((uid, _)) => format!("give the folder to user {uid}, which runs the engine"),
                None if facts.user_namespace => format!(
                    "the engine gives its containers users of their own (userns-remap): give the folder to one of them{}",
                    host_user.map_or_else(String::new, |(uid, _)| format!(", {uid} for one"))
                ),
                None => "give the folder to an ordinary user, or name its owner as the specification's user".into(),
            };
            let error = Error::new(ErrorKind::InvalidSpec, "create sandbox", context);
            return Err(error.on(tier).with_fix(fix));
        }
        Ok(())
    }
}

/// The container's ids for a host user; `None` if it has none.
fn in_containers(host: (u32, u32), facts: &EngineFacts) -> Option<(u32, u32)> {
    if !facts.user_namespace {
        return Some(host);
    }
    let first = facts.engine_user?;
    let inside = |id: u32, first: u32| id.checked_sub(first).filter(|id| *id < facts.ids);
    Some((inside(host.0, first.0)?, inside(host.1, first.1)?))
}

fn is_engine_user(user: u32, facts: &EngineFacts) -> bool {
    facts.rootless && facts.engine_user.is_some_and(|(uid, _)| uid == user)
}

/// `keep-id` needs at least one more user id besides the engine's user.
fn can_keep_id(tier: Tier, facts: &EngineFacts) -> bool {
    tier.family.keeps_ids && facts.ids > 1
}

/// The host folders that code sees.
fn visible_folders(plan: &Plan) -> impl Iterator<Item = &Path> {
    let workspace = plan.workspace.iter();
    let workspace = workspace.map(|workspace| workspace.path.as_path());
    let roots = plan.write_roots.iter().chain(&plan.read_roots);
    let roots = roots.chain(plan.mounts.iter().map(|mount| &mount.source));
    workspace.chain(roots.map(PathBuf::as_path))
}

/// The owner of the first writable folder that does not belong to root. Root, if all belong to root
/// and only root can write to one of them. Code then runs with root's uid but without capabilities;
/// the report says what it can disturb.
fn folders_owner(plan: &Plan, opened: &HostFolders) -> Option<(u32, u32)> {
    let folders = plan
        .writable_sources()
        .filter_map(|folder| opened.owned(folder).ok());
    let folders = folders.collect::<Vec<_>>();
    let ordinary = folders.iter().find(|folder| folder.user != 0);
    let roots = folders.iter().any(|folder| folder.mode & 0o002 == 0);
    match ordinary {
        Some(folder) => Some((folder.user, folder.group)),
        None => roots.then_some(ROOT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::samples::{OTHER, TIER};
    use crate::lowering::samples::plan;
    use std::os::unix::fs::MetadataExt;

    use sandbox_core::{CapabilityPolicy, SandboxSpec, Workspace};

    /// The user that would be chosen before a sandbox is created.
    fn choose(tier: Tier, plan: &Plan, facts: &EngineFacts) -> Result<CodeIdentity> {
        let opened = HostFolders::open(tier, plan, facts)?;
        CodeIdentity::of(tier, plan, facts, &opened)
    }

    const PODMAN: Tier = OTHER.confined();

    /// A rootless engine of the user that runs this test.
    fn rootless(owner: &std::fs::Metadata, ids: u32) -> EngineFacts {
        EngineFacts {
            rootless: true,
            engine_user: Some((owner.uid(), owner.gid())),
            ids,
            ..EngineFacts::sample()
        }
    }

    fn with_workspace(folder: &Path) -> Plan {
        let spec = SandboxSpec::new("sb").workspace(Workspace::read_write(folder));
        plan(&spec, &CapabilityPolicy::new())
    }

    fn without() -> Plan {
        plan(&SandboxSpec::new("sb"), &CapabilityPolicy::new())
    }

    #[test]
    fn default_user_is_ordinary_if_the_engine_has_one() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let owner = folder.path().metadata().expect("metadata");
        let of = |facts: &EngineFacts| choose(PODMAN, &without(), facts).expect("identity");
        assert_eq!(
            of(&EngineFacts::sample()),
            CodeIdentity::unmapped(DEFAULT_USER)
        );
        assert_eq!(
            of(&rootless(&owner, 65537)),
            CodeIdentity::unmapped(DEFAULT_USER)
        );
        assert_eq!(of(&rootless(&owner, 1)), CodeIdentity::unmapped(ROOT));
        assert_eq!(of(&rootless(&owner, 1)).mode(), Mode::Shared);
    }

    #[test]
    fn code_runs_as_the_engine_user_for_its_folders() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let owner = folder.path().metadata().expect("metadata");
        let plan = with_workspace(folder.path());
        let kept = choose(PODMAN, &plan, &rootless(&owner, 65537)).expect("identity");
        assert!(kept.keep_id && kept.code == (owner.uid(), owner.gid()));
        // If the engine cannot keep the uid or has no other ids, its user is the container's root.
        for (tier, ids) in [(TIER, 65537), (PODMAN, 1)] {
            let root = choose(tier, &plan, &rootless(&owner, ids)).expect("identity");
            assert_eq!(root, CodeIdentity::unmapped(ROOT));
        }
    }

    #[test]
    fn rootless_engine_refuses_writable_folders_of_other_users() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let owner = folder.path().metadata().expect("metadata");
        let mut facts = rootless(&owner, 65537);
        facts.engine_user = Some((owner.uid() + 1, owner.gid() + 1));
        let error = choose(PODMAN, &with_workspace(folder.path()), &facts);
        let error = error.expect_err("another's folder");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(
            error
                .fix()
                .is_some_and(|fix| fix.contains("runs the engine"))
        );
    }

    #[test]
    fn remapped_ids_are_relative_to_the_first_id() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let owner = folder.path().metadata().expect("metadata");
        let plan = with_workspace(folder.path());
        let remapped = |first: (u32, u32)| EngineFacts {
            user_namespace: true,
            engine_user: Some(first),
            ids: 65_536,
            ..EngineFacts::sample()
        };
        let engine = remapped((owner.uid(), owner.gid()));
        let identity = choose(TIER, &plan, &engine).expect("the folder's owner");
        assert_eq!(identity, CodeIdentity::unmapped(ROOT));
        let engine = remapped((owner.uid() + 1, owner.gid() + 1));
        let error = choose(TIER, &plan, &engine).expect_err("of nobody there");
        assert!(error.fix().is_some_and(|fix| fix.contains("userns-remap")));
    }

    #[test]
    fn missing_folder_is_refused_before_the_engine_is_asked() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let plan = with_workspace(&folder.path().join("missing"));
        let error = choose(TIER, &plan, &EngineFacts::sample()).expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::InvalidSpec);
        assert!(error.to_string().contains("missing"), "{error}");
    }

    #[test]
    fn user_beyond_the_id_range_is_refused() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let owner = folder.path().metadata().expect("metadata");
        let named = |user: &str| {
            let spec = SandboxSpec::new("sb").user(user);
            plan(&spec, &CapabilityPolicy::new())
        };
        let facts = rootless(&owner, 65537);
        let identity = choose(PODMAN, &named("7:8"), &facts).expect("identity");
        assert_eq!(identity, CodeIdentity::unmapped((7, 8)));
        let error = choose(PODMAN, &named("70000:70000"), &facts).expect_err("too high");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
