//! What outlives the process of a run: detached sandboxes, host folders, and processes of host
//! controls.
//!
//! A label on each detached sandbox names the process of its run. This run and the next one can
//! therefore tell whether that process is still running.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sandbox_core::{Error, ErrorKind, SandboxClient};
use sandbox_host::process::{Era, ProcessId};

use crate::host_leftovers;
use crate::probe::ProbeError;
use crate::target::Target;

/// The label that names the run of a detached sandbox. Its value is valid on every engine and
/// cluster.
pub(crate) const LABEL: &str = "sandbox-conformance-run";

/// The process of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunId {
    pub(crate) process: ProcessId,
    /// The machine's boot and the process's PID namespace.
    era: String,
}

impl RunId {
    /// This process.
    pub(crate) fn current() -> Self {
        Self {
            // Without procfs the process id is unknown, and the run never counts as ended.
            process: ProcessId::current().unwrap_or(ProcessId { pid: 0, start: 0 }),
            era: era(),
        }
    }

    /// Encodes it as a label value.
    pub(crate) fn encode(&self) -> String {
        format!("{}.{}.{}", self.process.pid, self.process.start, self.era)
    }

    /// Decodes a label value.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, '.');
        Some(Self {
            process: ProcessId {
                pid: fields.next()?.parse().ok()?,
                start: fields.next()?.parse().ok()?,
            },
            era: fields.next()?.to_owned(),
        })
    }

    /// Whether its process has certainly ended. A process in another PID namespace counts as alive.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.pid > 0
            && self.era == era()
            && ProcessId::of(self.process.pid) != Some(self.process)
    }
}

/// Removes the characters that a cluster's label cannot contain.
fn era() -> String {
    Era::current().encode().replace('-', "").replace(':', ".")
}

/// Removes a tier's detached sandboxes that belong to the runs that `of` selects. Returns an error
/// text for each failure.
pub(crate) async fn remove_detached(target: &Target, of: impl Fn(&RunId) -> bool) -> Vec<String> {
    let failure = |error: Error| vec![format!("{}: {error}", target.name())];
    // Opening a client also removes attached sandboxes whose owner was killed.
    let client = match target.client(sandbox_core::CapabilityPolicy::new()) {
        Ok(client) => client,
        Err(error) => return failure(error),
    };
    let listed = match client.list().await {
        Ok(listed) => listed,
        Err(error) if is_without_detached(&error) => return Vec::new(),
        Err(error) => return failure(error),
    };
    let mut failures = Vec::new();
    for sandbox in listed {
        let run = sandbox.labels.get(LABEL).and_then(|run| RunId::decode(run));
        if run.is_some_and(|run| of(&run))
            && let Err(error) = remove(&client, &sandbox.name).await
        {
            failures.push(format!("{} stays: {error}", sandbox.name));
        }
    }
    failures
}

/// Removes a detached sandbox. One that has already ended is not an error.
///
/// # Errors
///
/// If the backend fails.
pub(crate) async fn remove(client: &SandboxClient, name: &str) -> Result<(), Error> {
    match client.remove(name).await {
        Err(error) if error.kind() != ErrorKind::SandboxNotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a tier cannot have detached sandboxes: it has none, or it cannot be reached.
fn is_without_detached(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::SandboxUnavailable
    )
}

/// Removes what killed runs left on a tier, once per process and tier. Failures are printed and do
/// not fail this run.
pub(crate) async fn remove_from_dead_runs(target: &Target) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = target.name().to_owned();
    if !SEEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name)
    {
        return;
    }
    for failures in remove_detached(target, RunId::has_ended).await {
        eprintln!(
            "cannot clean up after an earlier run: {}",
            crate::report::printable(&failures)
        );
    }
}

/// Removes what this process created, after all handles were dropped, and waits for removals in the
/// background.
pub async fn remove_all(targets: &[Target]) {
    let own = RunId::current();
    let print = |failures: &String| eprintln!("{}", crate::report::printable(failures));
    // Some host controls leave processes behind on purpose.
    host_leftovers::remove_from_run(own.process.pid)
        .iter()
        .for_each(print);
    for target in targets {
        let failures = remove_detached(target, |run| *run == own).await;
        failures.iter().for_each(print);
        // A tier that cannot be opened has no removals in the background.
        if let Ok(client) = target.client(sandbox_core::CapabilityPolicy::new()) {
            client.settle().await;
        }
    }
}

/// Decodes the name of a run.
pub(crate) fn parse_run_id(text: &str) -> Result<RunId, ProbeError> {
    RunId::decode(text).ok_or_else(|| ProbeError::new(format!("{text:?} is no valid run id")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_has_ended_only_if_its_process_has_certainly_ended() {
        let own = RunId::current();
        assert_eq!(RunId::decode(&own.encode()), Some(own.clone()));
        assert!(own.process.pid > 0 && !own.has_ended());
        let mut later = own.clone();
        later.process.start += 1;
        assert!(later.has_ended());
        let elsewhere = RunId {
            era: "another".into(),
            ..later.clone()
        };
        assert!(!elsewhere.has_ended());
        let unknown = RunId {
            process: ProcessId { pid: 0, start: 0 },
            ..later
        };
        assert!(!unknown.has_ended());
        for wrong in ["", "1", "1.2", "x.1.y", "1.-2.y"] {
            assert_eq!(RunId::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn encoded_run_id_fits_a_cluster_label() {
        let mut longest = RunId::current();
        longest.process = ProcessId {
            pid: 4_194_304,
            start: 9_999_999_999,
        };
        let text = longest.encode();
        assert!(text.len() <= 63, "{text}");
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
        assert!(text.bytes().all(fits), "{text}");
    }
}
