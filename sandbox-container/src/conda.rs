//! Programs in a conda environment of the image.

use sandbox_core::{Error, ErrorKind, Plan, Result};
use sandbox_host::Sandbox;

use crate::Tier;

/// Where the images `mambaorg/micromamba` keep their environments. Images' own variables are not
/// passed on.
const ROOT: (&str, &str) = ("MAMBA_ROOT_PREFIX", "/opt/conda");

/// Makes the agent run every program in this environment.
///
/// # Errors
///
/// `InvalidSpec` for a name that no environment has. `Unsupported` if the plan denies subprocesses:
/// micromamba starts the program.
pub(crate) fn enter(
    tier: Tier,
    environment: &str,
    plan: &Plan,
    sandbox: Sandbox,
) -> Result<Sandbox> {
    let refused = |kind, context: String, fix: &str| {
        Err(Error::new(kind, "create sandbox", context)
            .on(tier)
            .with_fix(fix))
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if environment.is_empty() || environment.starts_with('-') || !environment.chars().all(is_name) {
        return refused(
            ErrorKind::InvalidSpec,
            format!("conda: {environment:?} is not the name of an environment"),
            "use letters, digits, '_', '-' and '.', such as base",
        );
    }
    if !plan.subprocess {
        return refused(
            ErrorKind::Unsupported,
            format!(
                "conda: micromamba starts the programs of {environment}, and the policy denies subprocesses"
            ),
            "allow subprocess_execution, or leave conda out",
        );
    }
    let mut sandbox = sandbox.launched_by(["micromamba", "run", "-n", environment]);
    let (name, value) = ROOT;
    let root = sandbox.env.entry(name.to_owned());
    root.or_insert_with(|| value.to_owned());
    Ok(sandbox)
}
