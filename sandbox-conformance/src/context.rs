//! The context of one probe: its folders, its sandboxes, and the evidence that it records.

mod adopted;
mod folders;
mod sandboxes;

use std::sync::Arc;
use std::time::Instant;

use sandbox_core::matrix::Subject;
use sandbox_core::{Enforcement, ErrorKind, ExecResult, Mechanism};

use crate::evidence::{Attempt, Evidence, HostCheck, Step};
use crate::host;
use crate::host_fixture::{HostFixture, random_name};
use crate::host_leftovers::{self, name_with_pid};
use crate::pool::{CreateFailure, SandboxPool, SandboxSlot, SlotGuard};
use crate::probe::{Probe, ProbeError, SandboxSetup};
use crate::program::{Call, Run};

/// The number of bytes of an output that a step keeps as evidence.
const KEPT: usize = 2048;

/// The context of one probe on one tier.
#[derive(Debug)]
pub struct ProbeContext {
    subject: Subject,
    slug: String,
    token: String,
    fixture: Arc<HostFixture>,
    pool: Arc<SandboxPool>,
    attack_slot: Arc<SandboxSlot>,
    allow_slot: Arc<SandboxSlot>,
    assume_host_controls: bool,
    creations: u32,
    is_remote: bool,
    evidence: Evidence,
}

impl ProbeContext {
    /// Creates the context of `probe`.
    #[must_use]
    pub fn new(probe: &Probe, fixture: Arc<HostFixture>, pool: Arc<SandboxPool>) -> Self {
        let attack_slot = pool.slot((probe.setup)(&fixture));
        let allow_slot = match probe.allow_setup {
            Some(setup) => pool.slot(setup(&fixture)),
            None => Arc::clone(&attack_slot),
        };
        Self {
            subject: probe.subject,
            slug: probe.id.replace("::", "-"),
            token: name_with_pid(host_leftovers::TOKEN, &random_name()),
            fixture,
            pool,
            attack_slot,
            allow_slot,
            assume_host_controls: false,
            creations: crate::runner::CREATIONS,
            is_remote: false,
            evidence: Evidence::default(),
        }
    }

    /// Assumes that the host controls succeed; see [`crate::Options::assume_host_controls`].
    pub fn assume_host_controls(&mut self, assume: bool) {
        self.assume_host_controls = assume;
    }

    /// Sets how many sandboxes are created during an attack on their creation.
    pub fn set_creations(&mut self, creations: u32) {
        self.creations = creations;
    }

    /// The fixture on the host.
    #[must_use]
    pub fn fixture(&self) -> &HostFixture {
        &self.fixture
    }

    /// A random name for this run of this probe. It marks the probe's processes and messages.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A: runs the call on the host.
    ///
    /// # Errors
    ///
    /// If the program cannot run there.
    pub async fn host_control(&mut self, call: &Call) -> Result<Attempt, ProbeError> {
        if self.assume_host_controls {
            let attempt = Attempt::Succeeded {
                value: "assumed".into(),
            };
            self.record_host_control(Step::new(call.text(), attempt.clone()));
            return Ok(attempt);
        }
        let run = host::run(&self.fixture.program(), call).await?;
        let attempt = run.attempt(call.expected.as_deref());
        self.record_host_control(recorded(call, attempt.clone(), &run));
        Ok(attempt)
    }

    /// B: runs the call that the policy permits, inside the sandbox.
    pub async fn allow_control(&mut self, call: &Call) -> Attempt {
        let step = self.try_in(SlotRole::AllowControl, call).await;
        let attempt = step.attempt.clone();
        self.record_allow_control(step);
        attempt
    }

    /// C: runs the attack inside the sandbox.
    pub async fn attack(&mut self, call: &Call) -> Attempt {
        let step = self.try_in(SlotRole::Attack, call).await;
        let attempt = step.attempt.clone();
        self.record_attack(step);
        attempt
    }

    /// Records control A, if it is not a single call.
    pub fn record_host_control(&mut self, step: Step) {
        self.evidence.host_control = Some(step);
    }

    /// Records control B, if it is not a single call.
    pub fn record_allow_control(&mut self, step: Step) {
        self.evidence.allow_control = Some(step);
    }

    /// Records attack C, if it is not a single call.
    pub fn record_attack(&mut self, step: Step) {
        self.evidence.attack = Some(step);
    }

    /// O: records a check of the host. A probe may record several.
    pub fn host_check(&mut self, host_check: HostCheck) {
        self.evidence.host_checks.push(host_check);
    }

    /// O: records whether the checked part of the host is unchanged.
    pub fn check_host(&mut self, what: impl Into<String>, clean: bool) {
        let watched = what.into();
        self.host_check(if clean {
            HostCheck::Clean { watched }
        } else {
            HostCheck::Dirty { watched }
        });
    }

    /// O: records that the attack cannot affect the host, and why.
    pub fn no_host_effect(&mut self, reason: impl Into<String>) {
        self.host_check(HostCheck::Nothing {
            reason: reason.into(),
        });
    }

    /// Runs the probe program in the attacked sandbox and returns the whole result.
    ///
    /// # Errors
    ///
    /// If there is no sandbox, or if it fails.
    pub async fn execute(&mut self, call: &Call) -> Result<ExecResult, Attempt> {
        self.execute_in(SlotRole::Attack, call).await
    }

    /// Whether the enforcement that the backend declares for the probe's subject has such a
    /// mechanism.
    ///
    /// # Errors
    ///
    /// If there is no sandbox.
    pub async fn declares(&mut self, is: fn(&Mechanism) -> bool) -> Result<bool, Attempt> {
        self.with_sandbox(async |_| ()).await?;
        let declared = self.evidence.declared.as_ref();
        let mechanisms = declared.map_or(&[][..], Enforcement::mechanisms);
        Ok(mechanisms.iter().any(is))
    }

    /// What the backend declares as missing in the enforcement of the probe's subject.
    ///
    /// # Errors
    ///
    /// If there is no sandbox.
    pub async fn declared_gap(&mut self) -> Result<Option<String>, Attempt> {
        self.with_sandbox(async |_| ()).await?;
        let declared = self.evidence.declared.as_ref();
        let gap = declared.filter(|declared| !declared.is_enforced());
        Ok(gap.map(ToString::to_string))
    }

    /// Calls `act` with the attacked sandbox, under a lock.
    ///
    /// # Errors
    ///
    /// If there is no sandbox.
    pub async fn with_sandbox<T>(
        &mut self,
        act: impl AsyncFnOnce(&crate::pool::ProbeSandbox) -> T,
    ) -> Result<T, Attempt> {
        let pool = Arc::clone(&self.pool);
        let slot = Arc::clone(&self.attack_slot);
        let sandbox = self.enter(&pool, &slot, SlotRole::Attack).await?;
        Ok(act(&sandbox).await)
    }

    /// Whether the sandboxes run on a cluster.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.pool.is_cluster()
    }

    /// Whether the attack was denied with this sign.
    #[must_use]
    pub fn attack_ended_by(&self, sign: &str) -> bool {
        let attack = self.evidence.attack.as_ref().map(|step| &step.attempt);
        matches!(attack, Some(Attempt::Blocked { signature }) if signature.iter().any(|one| one == sign))
    }

    /// Whether the attack was denied.
    #[must_use]
    pub fn attack_is_blocked(&self) -> bool {
        let attack = self.evidence.attack.as_ref();
        attack.is_some_and(|step| matches!(step.attempt, Attempt::Blocked { .. }))
    }

    /// On a cluster, checks that a pod with network access reaches the target of a denied attack.
    /// Otherwise the denial proves nothing about the policy.
    ///
    /// # Errors
    ///
    /// If such a pod does not reach the target either.
    pub async fn reachable_with_network(&mut self, call: &Call) -> Result<(), ProbeError> {
        if self.attack_succeeded() || !self.pool.is_cluster() {
            return Ok(());
        }
        let network = sandbox_core::policy::NetworkPolicy::Full;
        let setup = SandboxSetup::with(|policy| policy.network = Some(network));
        let (pool, slot) = (Arc::clone(&self.pool), self.pool.slot(setup));
        let attempt = match self.enter(&pool, &slot, SlotRole::AllowControl).await {
            Ok(sandbox) => match sandbox.run(call).await {
                Ok(run) => run.attempt(call.expected.as_deref()),
                Err(error) => Attempt::unclear(error.to_string()),
            },
            Err(declined) => declined,
        };
        match attempt {
            Attempt::Succeeded { .. } => Ok(()),
            other => Err(ProbeError::new(format!(
                "a pod with network access does not reach this host either: {other:?}"
            ))),
        }
    }

    /// Whether the demand of a rule such as `memory = 64MiB` was waived for the attacked sandbox.
    #[must_use]
    pub fn is_waived(&self, rule: &str) -> bool {
        let capability = rule.split_whitespace().next();
        let mut waived = self.evidence.waived.iter();
        waived.any(|unmet| Some(unmet.demand.capability.as_str()) == capability)
    }

    /// Records why the backend does not offer the feature. The probe is then refused.
    pub fn not_offered(&mut self, reason: impl Into<String>) {
        self.evidence.refused.get_or_insert(reason.into());
    }

    /// Ends the attacked sandbox.
    ///
    /// # Errors
    ///
    /// If the sandbox cannot be ended.
    pub async fn end_sandbox(&self) -> Result<(), ProbeError> {
        Ok(self.attack_slot.end().await?)
    }

    /// Ends the sandboxes that only this probe uses, and returns the evidence.
    pub async fn finish(mut self, error: Option<ProbeError>) -> Evidence {
        for slot in [&self.attack_slot, &self.allow_slot] {
            if slot.is_fresh()
                && let Err(error) = slot.end().await
            {
                self.evidence
                    .error
                    .get_or_insert(format!("cannot end the sandbox: {error}"));
            }
        }
        self.remove_leftover_files();
        let mut host_checks = self.evidence.host_checks.iter();
        if self.is_remote
            && host_checks.any(|host_check| matches!(host_check, HostCheck::Clean { .. }))
        {
            let what = "the sandbox runs on another machine, so an unchanged host proves nothing";
            self.evidence.error.get_or_insert(what.to_owned());
        }
        if let Some(error) = error {
            self.evidence.error.get_or_insert(error.to_string());
        }
        self.evidence
    }

    /// Removes files that a backend without isolation left in the host's /tmp.
    fn remove_leftover_files(&self) {
        for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.token) {
                let path = entry.path();
                // One of the two calls fits. A file that stays in /tmp is not a finding.
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
        }
        // This succeeds after the last probe that exports.
        let exported = std::path::PathBuf::from(self.fixture.export_folder());
        for entry in std::fs::read_dir(&exported).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&self.token) {
                let path = entry.path();
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
        }
        let _ = std::fs::remove_dir(exported);
    }

    /// A denied attack must leave a sandbox that works. Otherwise the denial is not explained.
    pub async fn attack_leaves_a_sandbox(&mut self) {
        let alive = Call::new(["alive"]);
        let ran = self.with_sandbox(async |sandbox| sandbox.run(&alive).await);
        let problem = match ran.await {
            Ok(Ok(run)) => match run.attempt(None) {
                Attempt::Succeeded { .. } => return,
                failed => format!("{failed:?}"),
            },
            Ok(Err(error)) => error.to_string(),
            // The evidence has the reason.
            Err(_) => return,
        };
        let attack = self.evidence.attack.as_mut();
        if let Some(step) = attack.filter(|step| matches!(step.attempt, Attempt::Blocked { .. })) {
            let context = format!("the sandbox does not work after the attack: {problem}");
            step.attempt = Attempt::unclear(context);
        }
    }

    /// Whether the attack succeeded.
    #[must_use]
    pub fn attack_succeeded(&self) -> bool {
        let attack = self.evidence.attack.as_ref();
        attack.is_some_and(|step| step.attempt.is_success())
    }

    async fn enter<'a>(
        &mut self,
        pool: &SandboxPool,
        slot: &'a SandboxSlot,
        role: SlotRole,
    ) -> Result<SlotGuard<'a>, Attempt> {
        match pool.enter(slot).await {
            Ok(sandbox) => {
                if role == SlotRole::Attack {
                    self.record_enforcement(pool, &sandbox);
                }
                Ok(sandbox)
            }
            Err(declined) => Err(self.declined(&declined)),
        }
    }

    /// Records what the backend declares for the attacked sandbox.
    fn record_enforcement(&mut self, pool: &SandboxPool, sandbox: &crate::pool::ProbeSandbox) {
        self.is_remote = sandbox.is_remote();
        self.evidence.gated = pool.target().applies_policy();
        self.evidence.waived = sandbox.waived().to_vec();
        self.evidence.broken_claims = sandbox.broken_claims().to_vec();
        self.evidence.declared = self.subject.capability().and_then(|c| sandbox.declared(c));
    }

    fn declined(&mut self, declined: &CreateFailure) -> Attempt {
        match declined {
            CreateFailure::Refused(why) => {
                self.evidence.refused.get_or_insert(why.clone());
                Attempt::unclear("refused")
            }
            CreateFailure::Unavailable(why) => {
                self.evidence.not_run.get_or_insert(why.clone());
                Attempt::unclear("unavailable")
            }
            CreateFailure::Failed(why) => Attempt::unclear(format!("no sandbox: {why}")),
        }
    }

    async fn try_in(&mut self, role: SlotRole, call: &Call) -> Step {
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

    async fn execute_in(&mut self, role: SlotRole, call: &Call) -> Result<ExecResult, Attempt> {
        let pool = Arc::clone(&self.pool);
        let slot = match role {
            SlotRole::Attack => Arc::clone(&self.attack_slot),
            SlotRole::AllowControl => Arc::clone(&self.allow_slot),
        };
        let mut is_new = false;
        loop {
            let sandbox = self.enter(&pool, &slot, role).await?;
            let error = match sandbox.execute(call).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            drop(sandbox);
            self.replace(&slot).await;
            // Probes share a sandbox, so an earlier probe may have ended it. That shows nothing
            // about this call.
            if error.kind() != ErrorKind::SandboxEnded || is_new {
                return Err(Attempt::unclear(error.to_string()));
            }
            is_new = true;
        }
    }

    /// Ends a failed sandbox, so that the next probe gets a new one.
    async fn replace(&mut self, slot: &SandboxSlot) {
        if let Err(error) = slot.end().await {
            self.evidence
                .error
                .get_or_insert(format!("cannot end the failed sandbox: {error}"));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotRole {
    Attack,
    AllowControl,
}

/// A step that ran the probe program.
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
