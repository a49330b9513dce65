//! Where one probe plays: its folders, its sandboxes, and the record of what it saw.

mod folders;
mod own;

use std::sync::Arc;
use std::time::Instant;

use sandbox_core::matrix::Subject;
use sandbox_core::{Enforcement, ErrorKind, ExecResult};

use crate::evidence::{Attempt, Evidence, Oracle, Step};
use crate::grounds::{Grounds, random_name};
use crate::host;
use crate::host_remains::{self, own_name};
use crate::pool::{Declined, Guard, Place, Pool};
use crate::probe::{Probe, Setting, Trouble};
use crate::program::{Call, Run};

/// How much of an output a step keeps as evidence.
const KEPT: usize = 2048;

/// The stage of one probe on one tier.
#[derive(Debug)]
pub struct Stage {
    subject: Subject,
    slug: String,
    token: String,
    grounds: Arc<Grounds>,
    pool: Arc<Pool>,
    attacked: Arc<Place>,
    permitting: Arc<Place>,
    assume_host_controls: bool,
    creations: u32,
    is_elsewhere: bool,
    evidence: Evidence,
}

impl Stage {
    /// The stage of `probe`.
    #[must_use]
    pub fn new(probe: &Probe, grounds: Arc<Grounds>, pool: Arc<Pool>) -> Self {
        let attacked = pool.place((probe.setting)(&grounds));
        let permitting = match probe.permitting {
            Some(setting) => pool.place(setting(&grounds)),
            None => Arc::clone(&attacked),
        };
        Self {
            subject: probe.subject,
            slug: probe.id.replace("::", "-"),
            token: own_name(host_remains::TOKEN, &random_name()),
            grounds,
            pool,
            attacked,
            permitting,
            assume_host_controls: false,
            creations: crate::runner::CREATIONS,
            is_elsewhere: false,
            evidence: Evidence::default(),
        }
    }

    /// Takes the host controls for granted; see [`crate::Options::assume_host_controls`].
    pub fn assume_host_controls(&mut self, assume: bool) {
        self.assume_host_controls = assume;
    }

    /// Sets how many sandboxes an attack on their creation meets.
    pub fn meet(&mut self, creations: u32) {
        self.creations = creations;
    }

    /// The host's part of the stage.
    #[must_use]
    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }

    /// A word that only this run of this probe knows, to recognise its processes and messages by.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A: tries on the host.
    ///
    /// # Errors
    ///
    /// When the program cannot be run there.
    pub async fn host_control(&mut self, call: &Call) -> Result<Attempt, Trouble> {
        if self.assume_host_controls {
            let attempt = Attempt::Succeeded {
                value: "assumed".into(),
            };
            self.host_control_was(Step::new(call.text(), attempt.clone()));
            return Ok(attempt);
        }
        let run = host::run(&self.grounds.program(), call).await?;
        let attempt = run.attempt(call.expected.as_deref());
        self.host_control_was(recorded(call, attempt.clone(), &run));
        Ok(attempt)
    }

    /// B: tries what the policy permits, inside of the sandbox.
    pub async fn allow_control(&mut self, call: &Call) -> Attempt {
        let step = self.try_in(Role::Permitting, call).await;
        let attempt = step.attempt.clone();
        self.allow_control_was(step);
        attempt
    }

    /// C: attacks.
    pub async fn attack(&mut self, call: &Call) -> Attempt {
        let step = self.try_in(Role::Attacked, call).await;
        let attempt = step.attempt.clone();
        self.attack_was(step);
        attempt
    }

    /// A, tried in another way.
    pub fn host_control_was(&mut self, step: Step) {
        self.evidence.host_control = Some(step);
    }

    /// B, tried in another way.
    pub fn allow_control_was(&mut self, step: Step) {
        self.evidence.allow_control = Some(step);
    }

    /// C, tried in another way.
    pub fn attack_was(&mut self, step: Step) {
        self.evidence.attack = Some(step);
    }

    /// O: what the host looks like afterwards. Several may be watched.
    pub fn oracle(&mut self, oracle: Oracle) {
        self.evidence.oracles.push(oracle);
    }

    /// O: watched, and found untouched or not.
    pub fn watched(&mut self, what: impl Into<String>, clean: bool) {
        let watched = what.into();
        self.oracle(if clean {
            Oracle::Clean { watched }
        } else {
            Oracle::Dirty { watched }
        });
    }

    /// O: there is nothing to watch, and why.
    pub fn nothing_to_watch(&mut self, reason: impl Into<String>) {
        self.oracle(Oracle::Nothing {
            reason: reason.into(),
        });
    }

    /// Runs the probe program in the sandbox that is attacked, with everything that the sandbox tells about it.
    ///
    /// # Errors
    ///
    /// When there is no sandbox or it failed.
    pub async fn execute(&mut self, call: &Call) -> Result<ExecResult, Attempt> {
        self.execute_in(Role::Attacked, call).await
    }

    /// Whether what the backend declares of the probe's subject names this layer of a mechanism.
    ///
    /// # Errors
    ///
    /// When there is no sandbox.
    pub async fn declares(&mut self, layer: &str) -> Result<bool, Attempt> {
        self.with_sandbox(async |_| ()).await?;
        let mechanism = match &self.evidence.declared {
            Some(Enforcement::Enforced { mechanism } | Enforcement::Partial { mechanism, .. }) => {
                mechanism.as_str()
            }
            Some(Enforcement::Unenforced { .. }) | None => "",
        };
        Ok(mechanism.contains(layer))
    }

    /// Does something with the sandbox that is attacked, under a lock.
    ///
    /// # Errors
    ///
    /// When there is no sandbox.
    pub async fn with_sandbox<T>(
        &mut self,
        act: impl AsyncFnOnce(&crate::pool::Sandbox) -> T,
    ) -> Result<T, Attempt> {
        let pool = Arc::clone(&self.pool);
        let place = Arc::clone(&self.attacked);
        let sandbox = self.enter(&pool, &place, Role::Attacked).await?;
        Ok(act(&sandbox).await)
    }

    /// Whether sandboxes are a cluster's.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.pool.is_cluster()
    }

    /// Whether this is a sign by which the attack was stopped.
    #[must_use]
    pub fn attack_ended_by(&self, sign: &str) -> bool {
        let attack = self.evidence.attack.as_ref().map(|step| &step.attempt);
        matches!(attack, Some(Attempt::Blocked { signature }) if signature.iter().any(|one| one == sign))
    }

    /// On a cluster, where the attack was stopped: that a sandbox with the whole network reaches what was attacked, so that a cluster
    /// whose pods do not reach this host anyway earns nothing.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub async fn reachable_with_network(&mut self, call: &Call) -> Result<(), Trouble> {
        if self.attack_went_through() || !self.pool.is_cluster() {
            return Ok(());
        }
        let network = sandbox_core::policy::NetworkPolicy::Full;
        let setting = Setting::with(|policy| policy.network = Some(network));
        let (pool, place) = (Arc::clone(&self.pool), self.pool.place(setting));
        let attempt = match self.enter(&pool, &place, Role::Permitting).await {
            Ok(sandbox) => match sandbox.run(call).await {
                Ok(run) => run.attempt(call.expected.as_deref()),
                Err(error) => Attempt::unclear(error.to_string()),
            },
            Err(declined) => declined,
        };
        match attempt {
            Attempt::Succeeded { .. } => Ok(()),
            other => Err(Trouble::new(format!(
                "a pod with the whole network does not reach this host either: {other:?}"
            ))),
        }
    }

    /// Whether the backend had to be let off the demand of a rule, `memory = 64MiB`, before it made the sandbox that is attacked.
    #[must_use]
    pub fn is_waived(&self, rule: &str) -> bool {
        let capability = rule.split_whitespace().next();
        let mut waived = self.evidence.waived.iter();
        waived.any(|unmet| Some(unmet.demand.capability.as_str()) == capability)
    }

    /// The backend does not offer what the probe is about, and so earns nothing: why.
    pub fn not_offered(&mut self, reason: impl Into<String>) {
        self.evidence.refused.get_or_insert(reason.into());
    }

    /// Ends the sandbox that is attacked, as its user would.
    ///
    /// # Errors
    ///
    /// When it cannot be ended.
    pub async fn end_sandbox(&self) -> Result<(), Trouble> {
        Ok(self.attacked.end().await?)
    }

    /// The setting's own sandboxes are ended; what was seen is handed over.
    pub async fn leave(mut self, trouble: Option<Trouble>) -> Evidence {
        for place in [&self.attacked, &self.permitting] {
            if place.is_fresh()
                && let Err(error) = place.end().await
            {
                self.evidence
                    .trouble
                    .get_or_insert(format!("end sandbox: {error}"));
            }
        }
        self.sweep();
        let mut oracles = self.evidence.oracles.iter();
        if self.is_elsewhere && oracles.any(|oracle| matches!(oracle, Oracle::Clean { .. })) {
            let what =
                "the sandbox runs on another machine: that this host is untouched says nothing";
            self.evidence.trouble.get_or_insert(what.to_owned());
        }
        if let Some(trouble) = trouble {
            self.evidence.trouble.get_or_insert(trouble.to_string());
        }
        self.evidence
    }

    /// Removes what a backend without isolation left in the host's /tmp.
    fn sweep(&self) {
        for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.token) {
                let path = entry.path();
                // A file, or a folder: one of the two removes it, and a leftover in /tmp is no finding.
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
        }
        // Empty once the last probe that exports has gone.
        let exported = std::path::PathBuf::from(self.grounds.export_folder());
        for entry in std::fs::read_dir(&exported).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.token) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let _ = std::fs::remove_dir(exported);
    }

    /// Whether the attack went through.
    #[must_use]
    pub fn attack_went_through(&self) -> bool {
        let attack = self.evidence.attack.as_ref();
        attack.is_some_and(|step| step.attempt.is_success())
    }

    async fn enter<'a>(
        &mut self,
        pool: &Pool,
        place: &'a Place,
        role: Role,
    ) -> Result<Guard<'a>, Attempt> {
        match pool.enter(place).await {
            Ok(sandbox) => {
                if role == Role::Attacked {
                    self.note(pool, &sandbox);
                }
                Ok(sandbox)
            }
            Err(declined) => Err(self.declined(&declined)),
        }
    }

    /// What the backend says of the sandbox that is attacked.
    fn note(&mut self, pool: &Pool, sandbox: &crate::pool::Sandbox) {
        self.is_elsewhere = sandbox.is_elsewhere();
        self.evidence.gated = pool.target().applies_policy();
        self.evidence.waived = sandbox.waived().to_vec();
        self.evidence.unkept = sandbox.unkept().to_vec();
        self.evidence.declared = self.subject.capability().and_then(|c| sandbox.declared(c));
    }

    fn declined(&mut self, declined: &Declined) -> Attempt {
        match declined {
            Declined::Refused(why) => {
                self.evidence.refused.get_or_insert(why.clone());
                Attempt::unclear("refused")
            }
            Declined::Unavailable(why) => {
                self.evidence.not_run.get_or_insert(why.clone());
                Attempt::unclear("unavailable")
            }
            Declined::Failed(why) => Attempt::unclear(format!("no sandbox: {why}")),
        }
    }

    async fn try_in(&mut self, role: Role, call: &Call) -> Step {
        let start = Instant::now();
        let mut step = match self.execute_in(role, call).await {
            Ok(result) => {
                let run = Run::from(result);
                recorded(call, run.attempt(call.expected.as_deref()), &run)
            }
            Err(attempt) => Step::new(call.text(), attempt),
        };
        step.milliseconds = milliseconds(start);
        step
    }

    async fn execute_in(&mut self, role: Role, call: &Call) -> Result<ExecResult, Attempt> {
        let pool = Arc::clone(&self.pool);
        let place = match role {
            Role::Attacked => Arc::clone(&self.attacked),
            Role::Permitting => Arc::clone(&self.permitting),
        };
        let mut is_new = false;
        loop {
            let sandbox = self.enter(&pool, &place, role).await?;
            let error = match sandbox.execute(call).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            drop(sandbox);
            self.replace(&place).await;
            // One that had ended before says nothing about this call: probes share it, and what another did may have ended it.
            if error.kind() != ErrorKind::SandboxEnded || is_new {
                return Err(Attempt::unclear(error.to_string()));
            }
            is_new = true;
        }
    }

    /// Ends a sandbox that failed, so that the next probe does not suffer from it.
    async fn replace(&mut self, place: &Place) {
        if let Err(error) = place.end().await {
            self.evidence
                .trouble
                .get_or_insert(format!("end the sandbox that failed: {error}"));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Attacked,
    Permitting,
}

/// The step that ran the probe program.
#[must_use]
pub fn recorded(call: &Call, attempt: Attempt, run: &Run) -> Step {
    Step {
        action: call.text(),
        attempt,
        outcome: Some(run.outcome.to_string()),
        stdout: tail(&run.stdout),
        stderr: tail(&run.stderr),
        milliseconds: u64::try_from(run.duration.as_millis()).unwrap_or(u64::MAX),
    }
}

fn tail(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(KEPT);
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}

fn milliseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
