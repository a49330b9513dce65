//! The records of the creation and the end of sandboxes.

use std::time::{Duration, SystemTime};

use sandbox_core::{
    Error, ErrorKind, ExecRequest, SandboxClient, SandboxHandle, SandboxSpec, Stdin,
};
use serde_json::{Value, json};

use super::{Records, audited, difference, event_of};
use crate::probes::prelude::*;

/// How long the executions of a dropped handle may go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a sandbox ends.
#[derive(Debug, Clone, Copy)]
enum Way {
    Kill,
    Stop,
    DropLast,
    Remove,
    KillThroughAnother,
}

const WAYS: [Way; 5] = [
    Way::Kill,
    Way::Stop,
    Way::DropLast,
    Way::Remove,
    Way::KillThroughAnother,
];

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    audited(
        context,
        "create and end each",
        async |client, spec, records| {
            let mut before = 0;
            for (number, way) in WAYS.into_iter().enumerate() {
                let mut spec = spec.clone();
                spec.name = format!("{}-{number}", spec.name);
                let start = SystemTime::now();
                if let Some(wrong) = ended(client, &spec, records, before, way).await? {
                    return Ok(Some(format!("{way:?}: {wrong}")));
                }
                let times = records.times().split_off(before);
                if times
                    .iter()
                    .any(|time| *time < start || *time > SystemTime::now())
                {
                    return Ok(Some(format!("{way:?}: {times:?}, not after {start:?}")));
                }
                before += times.len();
            }
            let mut excessive = spec.clone();
            // The policy does not name it.
            excessive.secrets.push("UNNAMED".into());
            let mut invalid = spec.clone();
            invalid.name += "!";
            for spec in [excessive, invalid] {
                let Err(error) = client.create(&spec).await else {
                    return Ok(Some("an excessive or invalid specification".to_owned()));
                };
                let wrong = refused(&error, &records.all()[before..]);
                before += 1;
                if wrong.is_some() {
                    return Ok(wrong);
                }
            }
            Ok(None)
        },
    )
    .await
}

/// The records of a sandbox that was refused.
fn refused(error: &Error, found: &[Value]) -> Option<String> {
    let found: Vec<_> = found.iter().cloned().map(event_of).collect();
    let expected = json!({
        "event": "not_created", "kind": error.kind().as_str(), "reason": error.to_string(),
    });
    difference(&found, &[expected])
}

/// Creates a sandbox, opens a port, and ends it. Compares all its records.
async fn ended(
    client: &SandboxClient,
    spec: &SandboxSpec,
    records: &Records,
    before: usize,
    way: Way,
) -> Deviation {
    let sandbox = client.create(spec).await?;
    let enforcement = json!(sandbox.enforcement());
    let mut expected = vec![
        json!({"event": "admitted", "enforcement": enforcement}),
        json!({"event": "created", "enforcement": enforcement}),
    ];
    if client.tier().ends_with("_unsafe") {
        expected.remove(0);
    }
    match sandbox.forward(18_003).await {
        Ok(forward) => expected.push(json!({
            "event": "forwarded", "address": forward.address(), "port": 18_003,
        })),
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        Err(error) => return Err(error),
    }
    let wrong = end(client, sandbox, records, before, way).await?;
    if wrong.is_some() {
        return Ok(wrong);
    }
    client.settle().await;
    expected.push(json!({"event": "removed"}));
    let mut found: Vec<_> = records.all().split_off(before);
    found = found.into_iter().map(event_of).collect();
    found.retain(|record| record["event"] != "exec_started" && record["event"] != "exec_ended");
    // What was assessed before is not always what the new sandbox enforces.
    if found
        .first()
        .is_some_and(|first| first["event"] == "admitted")
    {
        if !found[0]["enforcement"].is_object() {
            return Ok(Some(format!("{}", found[0])));
        }
        found[0]["enforcement"] = enforcement;
    }
    Ok(difference(&found, &expected))
}

async fn end(
    client: &SandboxClient,
    sandbox: SandboxHandle,
    records: &Records,
    before: usize,
    way: Way,
) -> Deviation {
    match way {
        Way::Kill => {
            sandbox.kill().await?;
            // There is nothing left to end, and nothing to record.
            sandbox.kill().await?;
        }
        Way::Stop => sandbox.stop().await?,
        Way::Remove => client.remove(sandbox.name()).await?,
        Way::KillThroughAnother => client.get(sandbox.name()).await?.kill().await?,
        Way::DropLast => {
            let last = client.get(sandbox.name()).await?;
            let request = ExecRequest::new("sleep").arg("60");
            let mut own = sandbox.start(&request, Stdin::Null).await?;
            let mut others = last.start(&request, Stdin::Null).await?;
            drop(sandbox);
            match tokio::time::timeout(PATIENCE, own.wait()).await {
                Ok(Err(_)) => {}
                ended => {
                    return Ok(Some(format!(
                        "the execution of a dropped handle: {ended:?}"
                    )));
                }
            }
            others.signal(15).await?;
            let ended = others.wait().await?.outcome;
            if ended != (Outcome::Signaled { signal: 15 }) {
                return Ok(Some(format!("the execution of another handle: {ended}")));
            }
            if records.all()[before..]
                .iter()
                .any(|record| record["event"] == "removed")
            {
                return Ok(Some("removed while it has a handle".to_owned()));
            }
            drop(last);
        }
    }
    Ok(None)
}
