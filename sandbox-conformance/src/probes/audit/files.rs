//! The records of the caller's operations on files.

use std::time::Duration;

use sandbox_core::{ExecRequest, SandboxHandle};
use serde_json::{Value, json};

use super::{Records, difference, event_of, in_audited};
use crate::probes::prelude::*;

/// How long an operation without an end runs before the caller gives it up.
const PATIENCE: Duration = Duration::from_millis(200);

/// Places that the operations use.
struct Paths {
    /// A folder of the sandbox.
    folder: String,
    /// What the policy exports.
    pattern: String,
    /// A file of the host, one that is not there, and a folder for what is copied out.
    host: [String; 3],
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    let output = context.output_folder()?.display().to_string();
    let file = context.outside()?.join("copied");
    std::fs::write(&file, "content")?;
    let file = file.display().to_string();
    let missing = format!("{file}-not");
    let paths = Paths {
        folder: context.inside("files"),
        pattern: format!("{}/*.audited", context.fixture().export_folder()),
        host: [file, missing, output],
    };
    in_audited(context, "use files", async |sandbox, records| {
        let (found, expected) = operate(sandbox, records, &paths).await?;
        Ok(difference(&found, &expected))
    })
    .await
}

/// The record of an operation.
fn record(operation: &str, path: &str, host: Option<&str>, error: Option<String>) -> Value {
    json!({
        "event": "files", "operation": operation, "paths": [path], "host": host, "error": error,
    })
}

/// Uses files, and returns the records and those that are expected.
async fn operate(
    sandbox: &SandboxHandle,
    records: &Records,
    paths: &Paths,
) -> sandbox_core::Result<(Vec<Value>, Vec<Value>)> {
    let Paths {
        folder,
        pattern,
        host,
    } = paths;
    let [file, missing, output] = host;
    let inside = |name: &str| format!("{folder}/{name}");
    let (written, uploaded, copied) = (inside("written"), inside("uploaded"), inside("copied"));
    let mut expected = Vec::new();
    let mut ended = |operation: &str, path: &str, host: Option<&str>, error| {
        expected.push(record(operation, path, host, error));
    };

    sandbox.mkdir(folder).await?;
    ended("make_folder", folder, None, None);
    sandbox.write(&written, "content").await?;
    ended("write", &written, None, None);
    sandbox.upload(&uploaded, 0o600, &b"content"[..]).await?;
    ended("write", &uploaded, None, None);
    sandbox.read(&written).await?;
    ended("read", &written, None, None);
    sandbox.read_to_string(&written).await?;
    ended("read", &written, None, None);
    // The file was read as far as the limit.
    let _ = sandbox.read_limited(&written, ByteSize::bytes(1)).await;
    ended("read", &written, None, None);
    sandbox.download(&written, &mut Vec::new()).await?;
    ended("read", &written, None, None);
    sandbox.copy_in(file, &copied).await?;
    ended("copy_in", &copied, Some(file), None);
    sandbox.copy_out(&copied, output).await?;
    ended("copy_out", &copied, Some(output), None);
    sandbox.export(output).await?;
    ended("export", pattern, Some(output), None);
    sandbox.remove(&uploaded).await?;
    ended("remove", &uploaded, None, None);

    let error = |result: sandbox_core::Result<()>| {
        let text = result.err().map(|error| error.to_string());
        Some(text.unwrap_or("it succeeded".to_owned()))
    };
    let why = error(sandbox.read(&uploaded).await.map(drop));
    ended("read", &uploaded, None, why);
    let why = error(sandbox.remove(&uploaded).await);
    ended("remove", &uploaded, None, why);
    let why = error(sandbox.mkdir(&written).await);
    ended("make_folder", &written, None, why);
    let below = format!("{written}/below");
    let why = error(sandbox.write(&below, "x").await);
    ended("write", &below, None, why);
    let why = error(sandbox.copy_in(missing, &copied).await.map(drop));
    ended("copy_in", &copied, Some(missing), why);
    let why = error(sandbox.copy_out(&uploaded, output).await.map(drop));
    ended("copy_out", &uploaded, Some(output), why);
    let why = error(sandbox.export(file).await.map(drop));
    ended("export", pattern, Some(file), why);

    // What only looks, and what code does, is not recorded.
    sandbox.stat(&written).await?;
    sandbox.list_dir(folder).await?;
    sandbox.exists(&uploaded).await?;
    let code = ExecRequest::shell("echo more >> $0").arg(&written);
    sandbox.exec(&code).await?.check()?;

    let (source, _sender) = tokio::io::duplex(64);
    let upload = sandbox.upload(&uploaded, 0o644, source);
    let given_up = tokio::time::timeout(PATIENCE, upload).await.is_err();
    let found: Vec<_> = records
        .of_events(&["files"])
        .into_iter()
        .map(event_of)
        .collect();
    // The reason is a text of its own.
    let reason = found.last().and_then(|record| record["error"].as_str());
    let reason = reason.filter(|_| given_up).map(str::to_owned);
    ended("write", &uploaded, None, Some(reason.unwrap_or_default()));
    Ok((found, expected))
}
