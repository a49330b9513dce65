//! Inspects a foreign container.

use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};
use sandbox_core::{Error, ErrorKind, ImageReference, Plan, Result};

use super::masks::unmasked;
use crate::Tier;
use crate::engine::{Engine, inspect};
use crate::error::{Operation, engine_error, has_status};
use crate::labels;
use crate::verify::{ObservedProcess, first_process};

/// Byte limit of a container's name or id.
const MAX_NAME_LENGTH: usize = 255;

/// A running foreign container.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForeignContainer {
    pub id: String,
    /// The container's user; empty for its image's user, or root.
    pub user: String,
    /// The container's working folder.
    pub workdir: String,
    pub host: HostConfig,
    pub mounts: Vec<MountPoint>,
    /// Its first process, if this host's kernel shows it.
    pub process: Option<ObservedProcess>,
    /// The kernel files that are open in it, as text for the report.
    pub unmasked: Option<String>,
}

impl ForeignContainer {
    /// Inspects a container by id or name.
    ///
    /// # Errors
    ///
    /// `SandboxNotFound`; `SandboxEnded` if it does not run; `InvalidRequest` if it is a sandbox;
    /// `PolicyExceeded` for an image that the plan does not allow.
    pub(crate) async fn inspect(
        tier: Tier,
        engine: &Engine,
        container: &str,
        plan: &Plan,
    ) -> Result<Self> {
        let error = |kind, context: String| Error::new(kind, "adopt container", context).on(tier);
        let plain = |c: u8| c.is_ascii_alphanumeric() || b"_.-".contains(&c);
        let first = container.bytes().next();
        if !first.is_some_and(|c| c.is_ascii_alphanumeric())
            || !container.bytes().all(plain)
            || container.len() > MAX_NAME_LENGTH
        {
            let context = format!("{container:?} is neither an id nor a name of a container");
            return Err(error(ErrorKind::InvalidRequest, context));
        }
        let command = tier.family.command;
        let inspected = match inspect(&engine.client, container).await {
            Ok(inspected) => inspected,
            Err(response) if has_status(&response, 404) => {
                let context = format!("the engine has no container {container:?}");
                return Err(error(ErrorKind::SandboxNotFound, context)
                    .with_fix(format!("name one of `{command} ps`")));
            }
            Err(response) => return Err(engine_error(tier, Operation::Adopt, response)),
        };
        let state = inspected.state.as_ref();
        let is = |flag: Option<bool>| flag == Some(true);
        if !state.is_some_and(|state| is(state.running) && !is(state.paused)) {
            let context = format!("container {container:?} does not run");
            return Err(error(ErrorKind::SandboxEnded, context).with_fix(format!(
                "`{command} start {container}` or `{command} unpause {container}`"
            )));
        }
        let config = inspected.config.as_ref();
        let is_sandbox = config
            .and_then(|config| config.labels.as_ref())
            .is_some_and(|labels| labels.contains_key(labels::TIER));
        if is_sandbox {
            let context = format!("container {container:?} is a sandbox");
            return Err(error(ErrorKind::InvalidRequest, context)
                .with_fix("get a detached sandbox by its name; others belong to their handle"));
        }
        check_image(&inspected, plan).map_err(|error| error.on(tier))?;
        Self::new(inspected).ok_or_else(|| {
            let context =
                format!("the engine does not say how container {container:?} is configured");
            error(ErrorKind::Io, context).with_fix(format!("see `{command} inspect {container}`"))
        })
    }

    /// `None` if the response lacks a field that the report needs: it must not look like a default.
    fn new(inspected: ContainerInspectResponse) -> Option<Self> {
        let config = inspected.config?;
        let text = |value: Option<String>| value.filter(|value| !value.is_empty());
        let (id, host) = (inspected.id?, inspected.host_config?);
        let process = inspected.state.and_then(|state| state.pid);
        let process = process.and_then(|process| first_process(&id, process));
        Some(Self {
            user: config.user.unwrap_or_default(),
            workdir: text(config.working_dir).unwrap_or_else(|| "/".into()),
            unmasked: unmasked(&host, process.as_ref()),
            process,
            host,
            id,
            mounts: inspected.mounts.unwrap_or_default(),
        })
    }
}

impl ForeignContainer {
    /// Whether `USER[:GROUP]`, in the engines' notation, is the container's root.
    pub(super) fn is_root(user: &str) -> bool {
        let user = user.split(':').next().unwrap_or_default();
        user.is_empty() || user == "root" || user.parse::<u32>() == Ok(0)
    }
}

/// Checks the image name that the container was created with, else its image's id.
fn check_image(inspected: &ContainerInspectResponse, plan: &Plan) -> Result<()> {
    if plan.images.is_none() {
        return Ok(());
    }
    let name = inspected
        .config
        .as_ref()
        .and_then(|config| config.image.clone());
    let name = name.or_else(|| inspected.image.clone()).unwrap_or_default();
    plan.check_image(&name.parse::<ImageReference>()?)
}
