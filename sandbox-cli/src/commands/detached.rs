//! Finding detached sandboxes by their names.
//!
//! The records in the state folder name the tier of a sandbox that this user created. Tiers are
//! asked only for names without a record, all at the same time, so a slow engine delays nothing
//! that it is not needed for.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use sandbox::registry::{self, Registration, Settings};
use sandbox::{CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxHandle, SandboxSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audit::{AuditFile, audited};
use crate::command_error::CommandError;

/// How long to wait for other tiers once one has answered with the sandbox.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for all tiers before a name counts as unknown.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The backend whose sandboxes take precedence over those of the same name on an engine.
const LOCAL_BACKEND: &str = "local";

/// Which tier a detached sandbox is on.
#[derive(Debug, Clone, Default, Args)]
pub struct TierOption {
    /// Tier of the sandbox [default: the tier that has this name; local tiers take precedence]
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,

    /// Context of the kubeconfig file, with -b k8s [default: the recorded one]
    #[arg(long, value_name = "NAME", requires = "backend")]
    context: Option<String>,

    /// Namespace of the pods, with -b k8s [default: the recorded one]
    #[arg(long, value_name = "NAME", requires = "backend")]
    namespace: Option<String>,
}

/// The tier of a detached sandbox.
pub struct LocatedSandbox {
    /// A client of the tier, with an empty policy: the policy of the sandbox applies.
    pub client: SandboxClient,
    /// Its tier.
    pub tier: &'static Registration,
}

impl TierOption {
    /// Connects to the sandbox with this name.
    ///
    /// Fails if the name is invalid, or if no tier or several tiers have a sandbox of this name.
    /// What happens in it is recorded in `audit`.
    pub async fn get(
        &self,
        name: &str,
        audit: Option<&AuditFile>,
    ) -> Result<(LocatedSandbox, SandboxHandle), CommandError> {
        self.with(name, async |located| {
            audited(located.client.clone(), audit).get(name).await
        })
        .await
    }

    /// Removes the sandbox with this name.
    pub async fn remove(&self, name: &str) -> Result<(), CommandError> {
        let removed = self.with(name, async |located| located.client.remove(name).await);
        removed.await.map(|_| ())
    }

    /// The arguments by which another command finds a sandbox of this tier.
    pub fn arguments(&self, tier: &str) -> Vec<String> {
        let settings = self.settings();
        let settings = settings
            .into_iter()
            .flat_map(|(name, value)| [format!("--{name}"), value]);
        let tier = ["--backend".to_owned(), tier.to_owned()];
        tier.into_iter().chain(settings).collect()
    }

    fn settings(&self) -> Settings {
        let given = [("context", &self.context), ("namespace", &self.namespace)];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
            .collect()
    }

    /// Acts on the tier of a sandbox: the one that a record names, or else the one that says that
    /// it has the sandbox.
    async fn with<T>(
        &self,
        name: &str,
        act: impl AsyncFn(&LocatedSandbox) -> sandbox::Result<T>,
    ) -> Result<(LocatedSandbox, T), CommandError> {
        SandboxSpec::new(name).validate()?;
        if let Some(tier) = &self.backend {
            let tier = registry::tier(tier)?;
            let located = match self.settings() {
                settings if settings.is_empty() => LocatedSandbox::named(tier, name)?,
                settings => LocatedSandbox::of(tier, &settings)?,
            };
            let done = act(&located).await.map_err(|error| {
                let is_absent = error.kind() == ErrorKind::SandboxNotFound;
                CommandError::from(error).absent(is_absent)
            })?;
            return Ok((located, done));
        }
        if let Some(located) = recorded(&registry::tiers()?, name)? {
            match act(&located).await {
                Ok(done) => return Ok((located, done)),
                // The record is stale.
                Err(error) if error.kind() == ErrorKind::SandboxNotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let located = search(detached_tiers(None)?, name).await?;
        let done = act(&located).await?;
        Ok((located, done))
    }
}

impl LocatedSandbox {
    fn of(tier: &'static Registration, settings: &Settings) -> Result<Self, CommandError> {
        let client = SandboxClient::open_with(tier.tier, CapabilityPolicy::new(), settings)?;
        Ok(Self { client, tier })
    }

    /// The tier, with the settings in its record of this name.
    fn named(tier: &'static Registration, name: &str) -> Result<Self, CommandError> {
        let located = Self::of(tier, &Settings::new())?;
        match located.record(name) {
            Some(settings) if !settings.is_empty() => Self::of(tier, &settings),
            _ => Ok(located),
        }
    }

    /// The settings in the tier's record of this name. An unreadable record counts as none: the
    /// tier says what is wrong when it is asked.
    fn record(&self, name: &str) -> Option<Settings> {
        let recorded = self.client.recorded().unwrap_or_default();
        let found = recorded.into_iter().find(|recorded| recorded.name == name);
        found.map(|recorded| recorded.settings)
    }

    /// What the tier says about a name.
    async fn ask(&self, name: &str) -> sandbox::Result<TierAnswer> {
        match self.client.list().await {
            Ok(sandboxes) if sandboxes.iter().any(|sandbox| sandbox.name == name) => {
                return Ok(TierAnswer::Has);
            }
            Err(error) if error.kind() == ErrorKind::SandboxUnavailable => return Err(error),
            // A failed list may concern another sandbox of the tier.
            Ok(_) | Err(_) => {}
        }
        match self.client.get(name).await {
            Ok(_) => Ok(TierAnswer::Has),
            Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(TierAnswer::HasNot),
            Err(error) if error.kind() == ErrorKind::SandboxAttached => {
                Ok(TierAnswer::Attached(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// What a tier says about a name.
enum TierAnswer {
    Has,
    HasNot,
    /// Another process owns the sandbox.
    Attached(Error),
}

/// The tier that has a record of this name; `None` if none or several have one.
fn recorded(
    tiers: &[&'static Registration],
    name: &str,
) -> Result<Option<LocatedSandbox>, CommandError> {
    let mut found = Vec::new();
    for tier in tiers {
        let located = LocatedSandbox::of(tier, &Settings::new())?;
        match located.record(name) {
            None => {}
            Some(_) if tier.backend == LOCAL_BACKEND => return Ok(Some(located)),
            Some(settings) if settings.is_empty() => found.push(located),
            Some(settings) => found.push(LocatedSandbox::of(tier, &settings)?),
        }
    }
    Ok(found.pop().filter(|_| found.is_empty()))
}

/// Asks all tiers for a name at the same time.
async fn search(
    tiers: Vec<&'static Registration>,
    name: &str,
) -> Result<LocatedSandbox, CommandError> {
    let mut silent = tiers
        .iter()
        .map(|tier| (tier.tier, None))
        .collect::<BTreeMap<_, _>>();
    let mut answers = JoinSet::new();
    for tier in tiers {
        let (located, name) = (LocatedSandbox::named(tier, name)?, name.to_owned());
        answers.spawn(async move { (located.ask(&name).await, located) });
    }
    let mut deadline = Instant::now() + SEARCH_TIMEOUT;
    let mut found = Vec::<LocatedSandbox>::new();
    let mut attached = None;
    while let Ok(Some(answer)) = tokio::time::timeout_at(deadline, answers.join_next()).await {
        let (answer, located) =
            answer.map_err(|error| CommandError::io("ask the tiers", &error.into()))?;
        match answer {
            Ok(TierAnswer::Has) => {
                deadline = deadline.min(Instant::now() + ANSWER_TIMEOUT);
                silent.remove(located.tier.tier);
                found.push(located);
            }
            Ok(TierAnswer::HasNot) => drop(silent.remove(located.tier.tier)),
            Ok(TierAnswer::Attached(error)) => {
                silent.remove(located.tier.tier);
                attached = Some(error);
            }
            Err(error) => match unanswered(&located.client, error) {
                Some(error) => drop(silent.insert(located.tier.tier, Some(error))),
                None => drop(silent.remove(located.tier.tier)),
            },
        }
    }
    if let Some(local) = found.iter().position(|it| it.tier.backend == LOCAL_BACKEND) {
        return Ok(found.swap_remove(local));
    }
    match (found.pop(), attached) {
        (Some(located), _) if found.is_empty() => Ok(located),
        (Some(located), _) => Err(ambiguous(name, &found, &located)),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(not_found(name, &silent)),
    }
}

fn ambiguous(name: &str, candidates: &[LocatedSandbox], last: &LocatedSandbox) -> CommandError {
    let tiers = candidates
        .iter()
        .chain([last])
        .map(|located| located.tier.tier);
    let tiers = tiers.collect::<Vec<_>>().join(", ");
    let why = format!("several tiers have a sandbox {name:?}: {tiers}");
    CommandError::argument(why).with_fix("choose one of them with -b")
}

/// The error for a name that no tier knows. Names the tiers that did not answer.
fn not_found(name: &str, silent: &BTreeMap<&'static str, Option<Error>>) -> CommandError {
    let mut why = format!("no sandbox {name:?}");
    for (tier, error) in silent {
        why += &match error {
            Some(error) => format!("; {tier} failed: {}", error.context()),
            None => format!("; {tier} did not answer"),
        };
    }
    let error = Error::new(ErrorKind::SandboxNotFound, "find sandbox", why)
        .with_fix("`sandbox ls` lists all sandboxes");
    CommandError::from(error).absent(silent.is_empty())
}

/// The error of a tier, unless it is only absent: an engine or a cluster that is not there matters
/// only if this user has created sandboxes on it.
pub fn unanswered(client: &SandboxClient, error: Error) -> Option<Error> {
    let absent = error.kind() == ErrorKind::SandboxUnavailable;
    let has_records = || client.recorded().is_ok_and(|recorded| !recorded.is_empty());
    (!absent || has_records()).then_some(error)
}

/// The tier with this name, or all tiers that support detached sandboxes.
pub fn detached_tiers(name: Option<&str>) -> Result<Vec<&'static Registration>, CommandError> {
    if let Some(name) = name {
        return Ok(vec![registry::tier(name)?]);
    }
    let keeps = |tier: &&Registration| {
        // A tier that cannot be opened says so when it is asked.
        (tier.open)().map_or(true, |backend| backend.detached().is_some())
    };
    Ok(registry::tiers()?.into_iter().filter(keeps).collect())
}
