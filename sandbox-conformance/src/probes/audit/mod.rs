//! What an audited client records of its sandboxes, as docs/audit.md promises.

use sandbox_core::{SandboxClient, SandboxHandle, SandboxSpec};
use serde_json::Value;

use super::records::Records;
use crate::probes::prelude::*;

mod denials;
mod executions;
mod files;
mod log;
mod sandboxes;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "audit::denials",
        DENIALS,
        "is denied output, time, files and 70 artifacts, and compares what each result, the handle \
         and the records tell",
        |context| Box::pin(denials::run(context)),
    )
    .setup(limited),
    Probe::behavior(
        "audit::executions",
        EXEC,
        "runs, kills, gives up and drops executions in twelve ways, and compares their records",
        |context| Box::pin(executions::run(context)),
    )
    .setup(limited),
    Probe::behavior(
        "audit::files",
        FILES,
        "uses files in each way, also in vain, and compares the records",
        |context| Box::pin(files::run(context)),
    )
    .setup(limited),
    Probe::behavior(
        "audit::later_client",
        DETACHED,
        "runs and drops executions through a later client, drops its handle, and compares the records",
        |context| Box::pin(executions::later_client(context)),
    )
    .setup(limited),
    Probe::behavior(
        "audit::log",
        EXEC,
        "runs programs before, while and after the disk of the log is full, and compares its lines",
        |context| Box::pin(log::run(context)),
    )
    .setup(limited),
    Probe::behavior(
        "audit::sandboxes",
        EXEC,
        "ends sandboxes in five ways, is refused two, and compares the records",
        |context| Box::pin(sandboxes::run(context)),
    )
    .setup(limited),
];

/// The secrets that executions get: a variable and a file.
const SECRETS: [&str; 2] = ["PROBE_FILE", "PROBE_VALUE"];

/// How much of each stream is kept.
const KEPT: u64 = 4096;

/// One setup for all, with everything that they need.
fn limited(fixture: &HostFixture) -> SandboxSetup {
    let exported = format!("{}/*.audited", fixture.export_folder());
    SandboxSetup::with(|policy| {
        policy.stdout_max_bytes = Some(ByteSize::bytes(KEPT));
        policy.stderr_max_bytes = Some(ByteSize::bytes(KEPT));
        policy.artifact_export_paths = vec![exported];
        policy.secrets = SECRETS.map(str::to_owned).to_vec();
    })
}

/// Calls `act` with an audited client, a specification with a label, and the client's records.
async fn audited(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&SandboxClient, &SandboxSpec, &Records) -> Deviation,
) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let deviation = match context.client_and_spec().await {
        Ok((client, mut spec)) => {
            spec.labels.insert("probe".into(), context.token().into());
            let (client, records) = Records::of(client);
            // Clones are audited too.
            let deviation = act(&client.clone(), &spec, &records).await;
            Ok(deviation.map(|found| found.or_else(|| wrong_subject(&client, &spec, &records))))
        }
        Err(declined) => Err(declined),
    };
    let deviation = if_offered(context, deviation);
    context.record_attack(behavior(action, deviation));
    context.no_host_effect("records do not affect the host");
    Ok(())
}

/// As [`audited`], with a new sandbox, which it ends in any case.
async fn in_audited(
    context: &mut ProbeContext,
    action: &str,
    act: impl AsyncFnOnce(&SandboxHandle, &Records) -> Deviation,
) -> Result<(), ProbeError> {
    audited(context, action, async |client, spec, records| {
        let sandbox = client.create(spec).await?;
        let deviation = act(&sandbox, records).await;
        sandbox.kill().await?;
        deviation
    })
    .await
}

/// Each record names the tier, the sandbox and its labels.
fn wrong_subject(client: &SandboxClient, spec: &SandboxSpec, records: &Records) -> Option<String> {
    let labels = serde_json::json!(spec.labels);
    let is_right = |record: &Value| {
        // A probe that creates several adds to the name.
        let is_named = record["sandbox"]
            .as_str()
            .is_some_and(|name| name.starts_with(&spec.name));
        is_named && record["tier"] == client.tier() && record["labels"] == labels
    };
    let all = records.all();
    if all.is_empty() {
        return Some("nothing is recorded".to_owned());
    }
    let mut all = all.into_iter();
    all.find(|record| !is_right(record) || !record["time"].is_string())
        .map(|record| format!("the subject of {record}"))
}

/// A record without what all records have.
fn event_of(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        for field in ["time", "tier", "sandbox", "labels"] {
            fields.remove(field);
        }
    }
    record
}

/// The first difference of two lists of records.
fn difference(found: &[Value], expected: &[Value]) -> Option<String> {
    let at = (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at))?;
    let text = |list: &[Value]| list.get(at).map_or("nothing".to_owned(), Value::to_string);
    Some(format!(
        "record {at} of {}: {}, not {}",
        expected.len(),
        text(found),
        text(expected)
    ))
}
