//! The records of an audited client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sandbox_core::SandboxClient;
use sandbox_core::audit::{Audit, AuditRecord};
use serde_json::Value;

/// How long a record is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records in the order in which they were made.
#[derive(Debug, Clone, Default)]
pub(super) struct Records(Arc<Mutex<Vec<AuditRecord>>>);

impl Records {
    /// This client, audited, and its records.
    pub(super) fn of(client: SandboxClient) -> (SandboxClient, Self) {
        Self::beside(client, None)
    }

    /// As [`Records::of`], beside another receiver.
    pub(super) fn beside(
        client: SandboxClient,
        other: Option<Arc<dyn Audit>>,
    ) -> (SandboxClient, Self) {
        let records = Self::default();
        let kept = records.clone();
        let audit = move |record: AuditRecord| {
            // Under the lock, so that both get the same order.
            let mut all = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(other) = &other {
                other.record(record.clone());
            }
            all.push(record);
        };
        (client.audited(Arc::new(audit)), records)
    }

    /// All records so far, in JSON as a file has them.
    pub(super) fn all(&self) -> Vec<Value> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let json = |record| serde_json::to_value(record).unwrap_or_default();
        all.iter().map(json).collect()
    }

    /// The records of these events so far.
    pub(super) fn of_events(&self, events: &[&str]) -> Vec<Value> {
        let mut records = self.all();
        records.retain(|record| events.iter().any(|event| record["event"] == *event));
        records
    }

    /// When the records were made.
    pub(super) fn times(&self) -> Vec<SystemTime> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|record| record.time).collect()
    }
}

/// Whether a condition holds in time.
pub(super) async fn within_patience(is_met: impl Fn() -> bool) -> bool {
    let pause = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while !is_met() {
        if waited >= PATIENCE {
            return false;
        }
        waited += pause;
        tokio::time::sleep(pause).await;
    }
    true
}
