//! Whether a tier would create a sandbox on this host, and if not, why not.

use serde::Serialize;

use crate::matrix::{CompatibilityMatrix, ProfileKey};
use crate::registry::{self, Registration};
use crate::{
    Capability, CapabilityPolicy, Demand, Enforcement, EnforcementReport, ErrorKind, Plan, Result,
    SandboxClient, SandboxSpec, Unmet, admission,
};

/// The answer of a tier for one specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// The tier would create the sandbox.
    Accepted,
    /// The tier would refuse it: required demands are not enforced on this host.
    Refused {
        /// These demands.
        unmet: Vec<Unmet>,
        /// What the policy would have to accept.
        waiver: Waiver,
    },
    /// The backend cannot create it at all, or does not run on this host.
    Impossible {
        /// The kind of the error, as in JSON: [`ErrorKind::as_str`].
        kind: &'static str,
        /// Why.
        reason: String,
        /// What would help, if known.
        fix: Option<String>,
    },
}

/// What a policy has to accept so that a tier creates the sandbox.
///
/// A program can show it to its user and ask. To accept it once, create one client with
/// [`Waiver::applied_to`]. To accept it always, add both lists to the policy file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiver {
    /// Entries for `allow_partial`.
    pub allow_partial: Vec<Capability>,
    /// Entries for `allow_unenforced`.
    pub allow_unenforced: Vec<Capability>,
}

impl Waiver {
    /// The waiver that these demands need.
    #[must_use]
    pub fn of(unmet: &[Unmet]) -> Self {
        let mut waiver = Self::default();
        for Unmet {
            demand,
            enforcement,
        } in unmet
        {
            let list = match enforcement {
                Enforcement::Partial { .. } => &mut waiver.allow_partial,
                _ => &mut waiver.allow_unenforced,
            };
            list.push(demand.capability);
        }
        waiver
    }

    /// Adds the waiver to a policy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] if the policy may not waive one of the capabilities.
    pub fn applied_to(&self, mut policy: CapabilityPolicy) -> Result<CapabilityPolicy> {
        let lists = [
            (&mut policy.allow_partial, &self.allow_partial),
            (&mut policy.allow_unenforced, &self.allow_unenforced),
        ];
        for (list, more) in lists {
            for capability in more {
                if !list.contains(capability) {
                    list.push(*capability);
                }
            }
        }
        policy.validate()?;
        Ok(policy)
    }
}

/// A demand, and how this host enforces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SupportedDemand {
    /// The demand.
    #[serde(flatten)]
    pub demand: Demand,
    /// How the backend enforces it on this host.
    pub enforcement: Enforcement,
}

/// What a tier can do on this host for one specification under one policy.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use sandbox_core::fake::{FakeAnswer, FakeBackend};
/// use sandbox_core::{CapabilityPolicy, SandboxClient, SandboxSpec};
///
/// let backend = FakeBackend::new(|_| Ok(FakeAnswer::stdout("")));
/// let client = SandboxClient::with_backend(Arc::new(backend), CapabilityPolicy::new())?;
/// let support = client.check(&SandboxSpec::new("example")).await?;
/// assert!(support.is_accepted());
/// for supported in &support.demands {
///     println!("{}: {}", supported.demand.capability, supported.enforcement);
/// }
/// # Ok::<(), sandbox_core::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Support {
    /// The tier.
    pub tier: String,
    /// Whether the tier applies the policy. An `*_unsafe` tier accepts everything and enforces
    /// nothing.
    pub applies_policy: bool,
    /// Its answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// All demands of the specification and the policy. Empty for [`Answer::Impossible`].
    pub demands: Vec<SupportedDemand>,
    /// The whole report of the backend. Empty for [`Answer::Impossible`].
    #[serde(skip)]
    pub report: EnforcementReport,
    /// The published measurement of a host like this one, by its name in
    /// [`CompatibilityMatrix::linked`]. `None` if no such host was measured.
    pub measured_profile: Option<String>,
}

impl Support {
    /// Whether the tier would create the sandbox.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.answer == Answer::Accepted
    }

    /// Whether the tier would create the sandbox and apply the policy.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.applies_policy && self.is_accepted()
    }

    /// The required demands that are not enforced.
    #[must_use]
    pub fn unmet(&self) -> &[Unmet] {
        match &self.answer {
            Answer::Refused { unmet, .. } => unmet,
            Answer::Accepted | Answer::Impossible { .. } => &[],
        }
    }

    fn new(
        client: &SandboxClient,
        plan: Plan,
        report: EnforcementReport,
        measured_profile: Option<String>,
    ) -> Self {
        let unmet = match client.applies_policy() {
            true => admission::unmet(&plan, client.policy(), &report),
            false => Vec::new(),
        };
        let answer = match unmet.is_empty() {
            true => Answer::Accepted,
            false => Answer::Refused {
                waiver: Waiver::of(&unmet),
                unmet,
            },
        };
        let supported = |demand: Demand| SupportedDemand {
            enforcement: admission::enforcement(&report, demand.capability),
            demand,
        };
        Self {
            tier: client.tier().to_owned(),
            applies_policy: client.applies_policy(),
            answer,
            demands: plan.demands.into_iter().map(supported).collect(),
            report,
            measured_profile,
        }
    }

    fn impossible(tier: &str, applies_policy: bool, error: &crate::Error) -> Self {
        Self {
            tier: tier.to_owned(),
            applies_policy,
            answer: Answer::Impossible {
                kind: error.kind().as_str(),
                reason: error.context().to_owned(),
                fix: error.fix().map(str::to_owned),
            },
            demands: Vec::new(),
            report: EnforcementReport::new(),
            measured_profile: None,
        }
    }
}

impl SandboxClient {
    /// Reports whether [`SandboxClient::create`] would create this sandbox on this host. Creates
    /// nothing: what only a trial can show is reported as partial.
    ///
    /// # Errors
    ///
    /// As [`SandboxClient::create`], except [`ErrorKind::NotEnforceable`], which is
    /// [`Answer::Refused`].
    pub async fn check(&self, spec: &SandboxSpec) -> Result<Support> {
        let plan = self.plan(spec)?;
        let report = self.assess(&plan).await?;
        let measured = measured_profile(self.tier(), self.profile().await.ok());
        Ok(Support::new(self, plan, report, measured))
    }

    /// Like [`SandboxClient::check`], but an error of the backend is [`Answer::Impossible`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] and [`ErrorKind::PolicyExceeded`] if no tier could create the
    /// sandbox.
    pub async fn supports(&self, spec: &SandboxSpec) -> Result<Support> {
        Plan::resolve(spec, self.policy())?;
        Ok(self.check(spec).await.unwrap_or_else(|error| {
            Support::impossible(self.tier(), self.applies_policy(), &error)
        }))
    }
}

/// Asks all linked tiers, sorted by name.
///
/// # Errors
///
/// As [`SandboxClient::supports`], and [`ErrorKind::InvalidPolicy`].
pub async fn linked(policy: &CapabilityPolicy, spec: &SandboxSpec) -> Result<Vec<Support>> {
    policy.validate()?;
    let mut supports = Vec::new();
    for registration in registry::tiers()? {
        supports.push(support_of(registration, policy, spec).await?);
    }
    Ok(supports)
}

async fn support_of(
    registration: &Registration,
    policy: &CapabilityPolicy,
    spec: &SandboxSpec,
) -> Result<Support> {
    match SandboxClient::open(registration.tier, policy.clone()) {
        Ok(client) => client.supports(spec).await,
        Err(error) if error.kind() == ErrorKind::InvalidPolicy => Err(error),
        Err(error) => Ok(Support::impossible(
            registration.tier,
            registration.applies_policy,
            &error,
        )),
    }
}

fn measured_profile(tier: &str, key: Option<ProfileKey>) -> Option<String> {
    let key = key?;
    // A profile that cannot be read is an error of `CompatibilityMatrix::linked`.
    let matrix = CompatibilityMatrix::linked().ok()?;
    matrix.of_host(tier, &key).map(|(name, _)| name.to_owned())
}
