//! Which backend can run something here, and why another cannot: as data that a program can put before its user.

use serde::Serialize;

use crate::matrix::{CompatibilityMatrix, ProfileKey};
use crate::registry::{self, Registration};
use crate::{
    Capability, CapabilityPolicy, Demand, Enforcement, EnforcementReport, ErrorKind, Plan, Result,
    SandboxClient, SandboxSpec, Unmet,
};

/// What a tier says of a specification under a policy on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// It would be created.
    Accepted,
    /// It would be refused, for what is required and not enforced here.
    Refused {
        /// What that is.
        unmet: Vec<Unmet>,
        /// What would have to be accepted.
        waiver: Waiver,
    },
    /// The backend has no way to build it at all, or does not run on this host.
    Impossible {
        /// The kind of the error, as in documents.
        kind: &'static str,
        /// Why.
        reason: String,
        /// What would help, where that is known.
        fix: Option<String>,
    },
}

/// What has to be added to a policy so that a tier takes it. A program can show it and ask: once is a policy with it for one
/// client ([`Waiver::applied_to`]), always is these two lists in the policy's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiver {
    /// For `allow_partial`.
    pub allow_partial: Vec<Capability>,
    /// For `allow_unenforced`.
    pub allow_unenforced: Vec<Capability>,
}

impl Waiver {
    /// What would let these demands pass.
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

    /// The policy with it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPolicy`] where one of the capabilities is never optional.
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

/// One demand, and how far it is enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SupportedDemand {
    /// The demand.
    #[serde(flatten)]
    pub demand: Demand,
    /// What the backend enforces of it on this host.
    pub enforcement: Enforcement,
}

/// What a tier can do for a specification under a policy on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Support {
    /// The tier.
    pub tier: String,
    /// Whether it applies the policy at all; an `*_unsafe` tier takes everything and enforces nothing.
    pub applies_policy: bool,
    /// Its answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// Every demand; empty where the answer is that it is impossible.
    pub demands: Vec<SupportedDemand>,
    /// The committed profile of hosts like this one, by its name in [`CompatibilityMatrix::linked`]: what was measured there. `None`
    /// where no host like this one was measured.
    pub measured_profile: Option<String>,
}

impl Support {
    /// Whether it would be created, with its policy applied.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.applies_policy && self.answer == Answer::Accepted
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
            measured_profile: None,
        }
    }
}

impl SandboxClient {
    /// Whether this tier would create this sandbox under this policy on this host, and if not, why not and what would have to be
    /// accepted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] and [`ErrorKind::PolicyExceeded`]: those are the caller's on every tier. What the backend itself
    /// cannot do is an answer.
    pub async fn supports(&self, spec: &SandboxSpec) -> Result<Support> {
        Plan::resolve(spec, self.policy())?;
        let (plan, report, unmet) = match self.check(spec).await {
            Ok(checked) => checked,
            Err(error) => {
                return Ok(Support::impossible(
                    self.tier(),
                    self.applies_policy(),
                    &error,
                ));
            }
        };
        let answer = match unmet.is_empty() {
            true => Answer::Accepted,
            false => Answer::Refused {
                waiver: Waiver::of(&unmet),
                unmet,
            },
        };
        Ok(Support {
            tier: self.tier().to_owned(),
            applies_policy: self.applies_policy(),
            answer,
            demands: demands(plan, &report),
            measured_profile: measured_profile(self.tier(), self.profile().await.ok()),
        })
    }
}

/// Asks every linked tier, sorted by name.
///
/// # Errors
///
/// As [`SandboxClient::supports`], and [`ErrorKind::InvalidPolicy`].
pub async fn linked(policy: &CapabilityPolicy, spec: &SandboxSpec) -> Result<Vec<Support>> {
    policy.validate()?;
    let mut supports = Vec::new();
    for registration in registry::tiers()? {
        supports.push(of(registration, policy, spec).await?);
    }
    Ok(supports)
}

async fn of(
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

fn demands(plan: Plan, report: &EnforcementReport) -> Vec<SupportedDemand> {
    let supported = |demand: Demand| SupportedDemand {
        enforcement: report
            .get(demand.capability)
            .cloned()
            .unwrap_or_else(|| Enforcement::unenforced("the backend says nothing about it")),
        demand,
    };
    plan.demands.into_iter().map(supported).collect()
}

fn measured_profile(tier: &str, key: Option<ProfileKey>) -> Option<String> {
    let key = key?;
    // A profile that cannot be read is told by whoever asks for the matrix itself.
    let matrix = CompatibilityMatrix::linked().ok()?;
    matrix.of_host(tier, &key).map(|(name, _)| name.to_owned())
}
