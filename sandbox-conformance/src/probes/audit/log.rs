//! The file of records.

use std::io::{Error, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandbox_core::audit::AuditLog;
use sandbox_core::{ErrorKind, SandboxHandle};
use serde_json::Value;

use super::{Records, difference};
use crate::probes::prelude::*;

/// How long the log may take to write what waits.
const LIMIT: Duration = Duration::from_secs(20);

/// How much of a line fits when the disk becomes full.
const PART: usize = 20;

/// A file that can be full.
#[derive(Clone, Default)]
struct Disk {
    content: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let is_full = self.is_full.load(Ordering::Relaxed);
        let mut content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match is_full {
            true if content.ends_with(b"\n") => &bytes[..bytes.len().min(PART)],
            true => return Err(Error::other("no space is left")),
            false => bytes,
        };
        content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Disk {
    /// Each line; `Null` for one that is not JSON.
    fn lines(&self) -> Vec<Value> {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&content);
        let lines = text.split_terminator('\n');
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_default())
            .collect()
    }
}

pub(super) async fn run(context: &mut ProbeContext) -> Result<(), ProbeError> {
    context.host_control(&Call::new(["alive"])).await?;
    context.allow_control(&Call::new(["alive"])).await;
    let disk = Disk::default();
    let log = Arc::new(AuditLog::new(disk.clone())?);
    let deviation = match context.client_and_spec().await {
        Err(declined) => Err(declined),
        Ok((client, spec)) => {
            let (client, records) = Records::beside(client, Some(log.clone()));
            Ok(match client.create(&spec).await {
                Err(error) => Err(error),
                Ok(sandbox) => {
                    let wrong = written(&sandbox, &log, &disk, &records).await;
                    sandbox.kill().await?;
                    wrong
                }
            })
        }
    };
    let deviation = if_offered(context, deviation);
    context.record_attack(behavior("fill the disk of the log", deviation));
    context.no_host_effect("the log is the probe's own");
    Ok(())
}

/// Runs programs before, while and after the disk is full.
async fn written(
    sandbox: &SandboxHandle,
    log: &AuditLog,
    disk: &Disk,
    records: &Records,
) -> Deviation {
    sandbox.shell("exit 1").await?;
    let finished = log.finish(LIMIT);
    let before = records.all();
    let differs = difference(&disk.lines(), &before);
    if differs.is_some() || finished.is_err() {
        return Ok(Some(format!("{differs:?}, {finished:?}")));
    }
    disk.is_full.store(true, Ordering::Relaxed);
    let outcome = sandbox.shell("exit 2").await?.outcome;
    let finished = log.finish(LIMIT);
    let count = records.all().len() - before.len();
    let lost = count as u64;
    let is_told = finished.as_ref().is_err_and(|loss| loss.records == lost);
    if outcome != (Outcome::Exited { code: 2 }) || !is_told || lost == 0 {
        return Ok(Some(format!(
            "with a full disk {outcome}, {finished:?} of {lost}"
        )));
    }
    disk.is_full.store(false, Ordering::Relaxed);
    // A program that does not start has records too.
    let missing = sandbox
        .exec(&sandbox_core::ExecRequest::new("/nonexistent/program"))
        .await;
    if !missing.is_err_and(|error| error.kind() == ErrorKind::ProgramNotFound) {
        return Ok(Some("a missing program ran".to_owned()));
    }
    // What was lost before stays known.
    let finished = log.finish(LIMIT);
    let after = records.all().split_off(before.len() + count);
    // The first line is the part that fitted.
    let mut lines = disk.lines().split_off(before.len() + 1);
    let mut told: Vec<Value> = Vec::new();
    lines.retain(|line| {
        let is_loss = line["event"] == "lost";
        told.extend(is_loss.then(|| line.clone()));
        !is_loss
    });
    let is_told = matches!(told.as_slice(), [line] if line["records"] == lost
        && line["time"].is_string() && line["sandbox"].is_null() && line["tier"].is_null());
    let differs = difference(&lines, &after);
    let is_right = is_told && differs.is_none() && finished.is_err_and(|loss| loss.records == lost);
    Ok((!is_right).then(|| format!("after a loss of {lost}: {told:?}, {differs:?}")))
}
