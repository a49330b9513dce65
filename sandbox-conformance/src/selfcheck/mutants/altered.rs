//! A backend that alters results.

use std::sync::Arc;

use async_trait::async_trait;
use sandbox_core::spi::{Backend, Detached, Finding, Instance};
use sandbox_core::{EnforcementReport, ExecEnd, ExecRequest, Outcome, Plan, Result};

use super::instance::AlteredInstance;
use crate::host_fixture::SECRET_VARIABLE;

/// How an execution is altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecAlteration {
    /// Unaltered.
    Straight,
    /// The execution continues after the receiver of output has asked to stop.
    Unstoppable,
    /// Standard error arrives as standard output.
    OneStream,
    /// Only the first 4 KiB of each stream arrive.
    CutShort,
    /// The execution continues after it was dropped or timed out.
    GoesOn,
    /// At the time limit, only the program's process group is killed.
    GroupKilled,
    /// Standard input is empty.
    NoInput,
    /// The time limit of a program with standard input is three times as long.
    PatientWithInput,
    /// Files that are not programs are written with the same mode.
    SameMode,
    /// Signals and new sizes of terminals do not arrive.
    Deaf,
    /// Executions keep the variables of those before.
    KeepsVariables,
    /// An execution that exceeds a limit ends the sandbox.
    EndsSandbox,
}

/// How exports are altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportAlteration {
    /// Unaltered.
    Straight,
    /// Every export returns the files of the first one.
    Stale,
    /// The limit of the number of files is doubled.
    TwiceAsMany,
    /// Hidden files are left out.
    NotHidden,
}

/// How secrets for hosts are altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretAlteration {
    /// Unaltered.
    Straight,
    /// Code gets the value.
    Told,
    /// Every host with a rule at level `http` gets it.
    ForAllHosts,
}

/// The alterations of a backend.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alteration {
    /// Alters the plan.
    pub(super) plan: fn(&mut Plan),
    /// Alters a request.
    pub(super) request: fn(&mut ExecRequest),
    /// Alters the end of an execution.
    pub(super) end: fn(&mut ExecEnd),
    /// Alters the execution.
    pub(super) exec: ExecAlteration,
    /// Alters exports.
    pub(super) exports: ExportAlteration,
    /// Alters secrets for hosts.
    pub(super) secrets: SecretAlteration,
    /// Whether ending a sandbox is only reported.
    pub(super) immortal: bool,
    /// Whether every sandbox is the first one.
    pub(super) recycled: bool,
    /// Whether new egress rules are only reported.
    pub(super) keeps_rules: bool,
}

impl Alteration {
    /// No alteration.
    pub(super) const NONE: Self = Self {
        plan: |_| (),
        request: |_| (),
        end: |_| (),
        exec: ExecAlteration::Straight,
        exports: ExportAlteration::Straight,
        secrets: SecretAlteration::Straight,
        immortal: false,
        recycled: false,
        keeps_rules: false,
    };
}

/// Every end of a program becomes a success.
pub(super) fn lose_exit_code(end: &mut ExecEnd) {
    if matches!(
        end.outcome,
        Outcome::Exited { .. } | Outcome::Signaled { .. }
    ) {
        end.outcome = Outcome::Exited { code: 0 };
    }
}

/// Passes the host's secret on, as a backend that spawns without clearing the environment does.
pub(super) fn inherit_environment(request: &mut ExecRequest) {
    for (name, value) in std::env::vars() {
        if name == SECRET_VARIABLE || !request.env.contains_key(&name) && name != "PATH" {
            request.env.insert(name, value);
        }
    }
}

/// Leaves another descriptor open in the executed program.
pub(super) fn leave_open(request: &mut ExecRequest) {
    let mut argv: Vec<Vec<u8>> = [
        "/bin/sh",
        "-c",
        "exec 9</; unset PWD OLDPWD; exec \"$0\" \"$@\"",
    ]
    .map(Into::into)
    .into();
    argv.append(&mut request.argv);
    request.argv = argv;
}

/// A backend that builds something else than the plan, and claims what the inner backend claims for
/// the plan.
pub(super) struct AlteredBackend<B> {
    backend: B,
    alteration: Alteration,
    /// The first sandbox, if it is used again.
    first: tokio::sync::OnceCell<Arc<dyn Instance>>,
}

impl<B> AlteredBackend<B> {
    pub(super) fn new(backend: B, alteration: Alteration) -> Self {
        Self {
            backend,
            alteration,
            first: tokio::sync::OnceCell::new(),
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for AlteredBackend<B> {
    fn name(&self) -> &str {
        self.backend.name()
    }

    async fn assess(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend.assess(plan).await
    }

    async fn measure(&self, plan: &Plan) -> Result<EnforcementReport> {
        self.backend.measure(plan).await
    }

    async fn create(&self, plan: &Plan) -> Result<Box<dyn Instance>> {
        let claims = self.backend.assess(plan).await?;
        let mut altered = plan.clone();
        (self.alteration.plan)(&mut altered);
        let create = async || Ok(Arc::from(self.backend.create(&altered).await?));
        let instance = match self.alteration.recycled {
            true => Arc::clone(self.first.get_or_try_init(create).await?),
            false => create().await?,
        };
        Ok(Box::new(AlteredInstance::new(
            instance,
            self.alteration,
            claims,
        )))
    }

    async fn diagnose(&self) -> Vec<Finding> {
        self.backend.diagnose().await
    }

    async fn profile(&self) -> Result<Vec<(String, String)>> {
        self.backend.profile().await
    }

    fn detached(&self) -> Option<&dyn Detached> {
        self.backend.detached()
    }
}
