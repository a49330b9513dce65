//! What a run makes that does not end with its process: detached sandboxes, folders of the host, and processes of its host controls.
//!
//! A detached sandbox has a label with the process that its run is, so that those of a run that was killed are told from those of
//! one that goes on, here and by the next run.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sandbox_core::{Error, ErrorKind, SandboxClient};
use sandbox_host::process::{Era, ProcessId};

use crate::host_remains;
use crate::probe::Trouble;
use crate::target::Target;

/// The label of a detached sandbox that says whose it is. Its value may stand in a label of any engine and cluster.
pub(crate) const LABEL: &str = "sandbox-conformance-run";

/// The process that a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunId {
    pub(crate) process: ProcessId,
    /// The start of the machine, and the namespace that the process' number is one of.
    era: String,
}

impl RunId {
    /// This process.
    pub(crate) fn current() -> Self {
        Self {
            // Without procfs it is nobody's number, and so a run that nobody takes for ended.
            process: ProcessId::current().unwrap_or(ProcessId { pid: 0, start: 0 }),
            era: era(),
        }
    }

    /// As a label has it.
    pub(crate) fn encode(&self) -> String {
        format!("{}.{}.{}", self.process.pid, self.process.start, self.era)
    }

    /// Reads a label.
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

    /// Whether its process is known to have ended. In doubt it has not: its number may be one of another namespace.
    pub(crate) fn is_over(&self) -> bool {
        self.process.pid > 0
            && self.era == era()
            && ProcessId::of(self.process.pid) != Some(self.process)
    }
}

/// Without what a label of a cluster cannot hold.
fn era() -> String {
    Era::current().encode().replace('-', "").replace(':', ".")
}

/// Removes the detached sandboxes of the runs that `of` names from a tier. What the tier does not tell or remove is given back as text.
pub(crate) async fn remove_detached(target: &Target, of: impl Fn(&RunId) -> bool) -> Vec<String> {
    let told = |error: Error| vec![format!("{}: {error}", target.name())];
    // A client of its own looks at the tier anew, and removes what killed owners of attached sandboxes left.
    let client = match target.client(sandbox_core::CapabilityPolicy::new()) {
        Ok(client) => client,
        Err(error) => return told(error),
    };
    let listed = match client.list().await {
        Ok(listed) => listed,
        Err(error) if has_none(&error) => return Vec::new(),
        Err(error) => return told(error),
    };
    let mut stays = Vec::new();
    for sandbox in listed {
        let run = sandbox.labels.get(LABEL).and_then(|run| RunId::decode(run));
        if run.is_some_and(|run| of(&run))
            && let Err(error) = remove(&client, &sandbox.name).await
        {
            stays.push(format!("{} stays: {error}", sandbox.name));
        }
    }
    stays
}

/// Removes a detached sandbox that may have ended by itself.
///
/// # Errors
///
/// What the backend finds.
pub(crate) async fn remove(client: &SandboxClient, name: &str) -> Result<(), Error> {
    match client.remove(name).await {
        Err(error) if error.kind() != ErrorKind::SandboxNotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a tier has no detached sandboxes, because it knows none or cannot be reached.
fn has_none(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Unsupported | ErrorKind::SandboxUnavailable
    )
}

/// Removes what earlier runs left on a tier that were killed, the first time that this process measures it. What stays is told and
/// no failure of this run.
pub(crate) async fn remove_of_killed(target: &Target) {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = target.name().to_owned();
    if !SEEN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(name)
    {
        return;
    }
    for stays in remove_detached(target, RunId::is_over).await {
        eprintln!("of an earlier run: {}", crate::report::printable(&stays));
    }
}

/// Removes what this process has made, after everything that holds it was dropped, and waits for what is removed in the background.
pub async fn leave_nothing(targets: &[Target]) {
    let own = RunId::current();
    let tell = |stays: &String| eprintln!("{}", crate::report::printable(stays));
    // What host controls have left behind, which is what some are there for.
    host_remains::remove_of(own.process.pid)
        .iter()
        .for_each(tell);
    for target in targets {
        let stays = remove_detached(target, |run| *run == own).await;
        stays.iter().for_each(tell);
        // A tier that cannot be opened has nothing to wait for.
        if let Ok(client) = target.client(sandbox_core::CapabilityPolicy::new()) {
            client.settle().await;
        }
    }
}

/// What can be wrong with a text that should name a run.
pub(crate) fn decoded(text: &str) -> Result<RunId, Trouble> {
    RunId::decode(text).ok_or_else(|| Trouble::new(format!("{text:?} names no run")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_over_when_its_process_is_known_to_have_ended() {
        let own = RunId::current();
        assert_eq!(RunId::decode(&own.encode()), Some(own.clone()));
        assert!(own.process.pid > 0 && !own.is_over());
        let mut later = own.clone();
        later.process.start += 1;
        assert!(later.is_over());
        let elsewhere = RunId {
            era: "another".into(),
            ..later.clone()
        };
        assert!(!elsewhere.is_over());
        let unknown = RunId {
            process: ProcessId { pid: 0, start: 0 },
            ..later
        };
        assert!(!unknown.is_over());
        for wrong in ["", "1", "1.2", "x.1.y", "1.-2.y"] {
            assert_eq!(RunId::decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_label_of_a_cluster_can_hold_it() {
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
