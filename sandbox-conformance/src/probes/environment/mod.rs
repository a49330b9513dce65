//! Environment variables, inherited descriptors, and the working folder.

use std::time::Duration;

use sandbox_core::ExecRequest;

use crate::canary::Canary;
use crate::host_fixture::SECRET_VARIABLE;
use crate::probes::prelude::*;

mod control_groups;
mod secret_places;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    // Runtimes size their heaps and pools by it.
    Probe::behavior(
        "environment::control_groups",
        EXEC,
        "reads its limits in /sys/fs/cgroup, and looks whether that is mounted read-only",
        |context| Box::pin(control_groups::run(context)),
    )
    .setup(control_groups::limited),
    // Open files of the process that creates sandboxes.
    Probe::isolation(
        "environment::descriptors",
        ENV_VAR_ACCESS,
        "looks for open descriptors above standard error",
        signs::ABSENT,
        |context| {
            same_call(
                context,
                Call::new(["open-many", "8"]),
                Call::new(["descriptors"]),
            )
        },
    )
    .version(2),
    Probe::isolation(
        "environment::exact_set",
        ENV_VAR_ACCESS,
        "looks for variables besides PATH, HOME and what the specification names",
        signs::ABSENT,
        |context| {
            let call = Call::new(["variables", "PATH", "HOME", "PROBE_VISIBLE"]);
            Box::pin(same_call(context, Call::new(["variable", "PATH"]), call))
        },
    )
    .setup(with_one_variable),
    // A variable of the process that creates sandboxes.
    Probe::isolation(
        "environment::host_variable",
        ENV_VAR_ACCESS,
        "reads a secret variable of the host",
        signs::ABSENT,
        |context| Box::pin(host_variable(context)),
    )
    .setup(with_one_variable),
    // The variables of other processes.
    Probe::isolation(
        "environment::others_variables",
        ENV_VAR_ACCESS,
        "looks for a secret of the host in /proc/*/environ",
        signs::ABSENT,
        |context| Box::pin(others_variables(context)),
    )
    .setup(with_one_variable),
    Probe::behavior(
        "environment::secret_of_earlier",
        ENV_VAR_ACCESS,
        "looks for the secrets that an earlier execution was given, as a variable and as a file",
        |context| Box::pin(secret_of_earlier(context)),
    )
    .version(2)
    .setup(with_secrets),
    Probe::behavior(
        "environment::secret_places",
        ENV_VAR_ACCESS,
        "looks for the secrets of a running execution on the host and in what the library prints, and \
         for the file after its end",
        |context| Box::pin(secret_places::run(context)),
    )
    .setup(with_secrets),
    Probe::isolation(
        "environment::working_folder",
        ENV_VAR_ACCESS,
        "reads a file of the host by a relative path from its working folder",
        signs::UNREADABLE,
        |context| Box::pin(working_folder(context)),
    )
    .version(2)
    .setup(rooted_if_supported),
];

/// A sandbox with one environment variable.
fn with_one_variable(_: &HostFixture) -> SandboxSetup {
    let mut setup = SandboxSetup::default();
    setup.env.insert("PROBE_VISIBLE".into(), "yes".into());
    setup
}

/// The host secret in the suite's own environment.
fn secret(context: &ProbeContext) -> Result<String, ProbeError> {
    let secret = context.fixture().secret();
    if secret.is_empty() {
        return Err(ProbeError::new(format!(
            "{SECRET_VARIABLE} is not set in the suite's own environment"
        )));
    }
    Ok(secret.to_owned())
}

async fn host_variable(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let secret = secret(context)?;
    let call = Call::new(["variable", SECRET_VARIABLE]).expect(secret);
    let control = Call::new(["variable", "PROBE_VISIBLE"]).expect("yes");
    same_call(context, control, call).await
}

async fn others_variables(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let secret = secret(context)?;
    let control = Call::new(["variables-of-others", "PROBE_VISIBLE=yes"]);
    same_call(
        context,
        control,
        Call::new(["variables-of-others", &secret]),
    )
    .await
}

/// Deeper than any working folder.
const CLIMB: &str = "../../../../../../../../../../../../../../../..";

async fn working_folder(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let granted = Canary::plant(&context.read_folder()?.join("canary"), 0o644)?;
    let canary = context.canary(0o644)?;
    let read = |path: &std::path::Path, canary: &Canary| {
        Call::new(["read"])
            .and(format!("{CLIMB}{}", path.display()))
            .expect(canary.fingerprint())
    };
    let attack = read(canary.path(), &canary);
    context.host_control(&attack).await?;
    let readable = context.granted(&granted).await?;
    context.allow_control(&read(&readable, &granted)).await;
    context.attack(&attack).await;
    context.host_check(canary.host_check());
    Ok(())
}

/// The names of the secrets that executions get, as a variable and as a file.
pub(super) const SECRETS: [&str; 2] = ["PROBE_VARIABLE", "PROBE_KEPT"];

pub(super) fn with_secrets(_: &HostFixture) -> SandboxSetup {
    SandboxSetup::with(|policy| policy.secrets = SECRETS.map(str::to_owned).to_vec())
}

/// How long an execution takes at most to show its secrets.
const SECRET_SHOWN: Duration = Duration::from_secs(3);

async fn secret_of_earlier(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    let [value, kept] = ["variable", "kept"].map(|name| format!("{}-{name}", context.token()));
    feature(context, "look for earlier secrets", async |sandbox| {
        let show = "echo $PROBE_VARIABLE $PROBE_KEPT_FILE; cat $PROBE_KEPT_FILE";
        // One execution ends by itself, and one at its time limit.
        let ended = ExecRequest::shell(show);
        let timed_out = ExecRequest::shell(format!("{show}; sleep 60")).timeout(SECRET_SHOWN);
        for request in [ended, timed_out] {
            let with = request
                .secret(SECRETS[0], value.clone())
                .secret_file(SECRETS[1], kept.clone());
            let given = sandbox.handle().exec(&with).await?.stdout_text();
            let path = given.split_whitespace().nth(1).unwrap_or("none").to_owned();
            if given != format!("{value} {path}\n{kept}") {
                return Ok(Some(format!("the execution itself gets {given:?}")));
            }
            let look = format!("echo $PROBE_VARIABLE $PROBE_KEPT_FILE; cat {path}; env; echo end");
            let later = sandbox.handle().exec(&ExecRequest::shell(look)).await?;
            let output = later.stdout_text();
            let is_there = output.contains(&value) || output.contains(&kept);
            if is_there || !output.ends_with("end\n") {
                return Ok(Some(output));
            }
        }
        Ok(None)
    })
    .await;
    context.no_host_effect("the sandbox has no other place for a secret");
    Ok(())
}
