//! Finding detached sandboxes, and reporting on several of them.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::{CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxSpec};
use serde::Serialize;

use crate::command_error::{CommandError, ErrorObject, Outcome};
use crate::exit::Exit;
use crate::output::{Format, print, print_json};

/// Which tier a detached sandbox is on.
#[derive(Debug, Clone, Args)]
pub struct TierOption {
    /// Tier of the sandbox [default: the tier that has this name; local tiers are asked first]
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,
}

/// The tier of a detached sandbox.
pub struct LocatedSandbox {
    /// A client of the tier, with an empty policy: the policy of the sandbox applies.
    pub client: SandboxClient,
    /// Its tier.
    pub tier: &'static Registration,
}

/// The backend whose tiers are asked first for a name: they need no engine and answer in
/// microseconds.
const LOCAL_BACKEND: &str = "local";

impl TierOption {
    /// Finds the tier of the sandbox with this name. Without `--backend`, asks the local tiers
    /// first.
    ///
    /// Fails if the name is invalid, or if no tier or several tiers have a sandbox of this name.
    pub async fn find(&self, name: &str) -> Result<LocatedSandbox, CommandError> {
        SandboxSpec::new(name).validate()?;
        let tiers = detached_tiers(self.backend.as_deref())?;
        if let [tier] = tiers.as_slice() {
            return LocatedSandbox::of(tier);
        }
        let (local, remote): (Vec<_>, Vec<_>) = tiers
            .into_iter()
            .partition(|tier| tier.backend == LOCAL_BACKEND);
        let mut unreachable = Vec::new();
        let mut without = Vec::new();
        for tiers in [local, remote] {
            let mut matches = Vec::new();
            for tier in tiers {
                let located = LocatedSandbox::of(tier)?;
                match located.has(name).await {
                    Ok(true) => matches.push(located),
                    Ok(false) => without.push(located),
                    Err(error) => unreachable.push(error),
                }
            }
            match (matches.pop(), matches.as_slice()) {
                (Some(located), []) => return Ok(located),
                (Some(located), others) => return Err(ambiguous(name, others, &located)),
                (None, _) => {}
            }
        }
        for located in without {
            // Only now, since this lists every container of an engine.
            if let Err(error) = located.client.get(name).await
                && error.kind() == ErrorKind::SandboxAttached
            {
                return Err(error.into());
            }
        }
        Err(not_found(name, &unreachable))
    }
}

impl LocatedSandbox {
    fn of(tier: &'static Registration) -> Result<Self, CommandError> {
        let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
        Ok(Self { client, tier })
    }

    async fn has(&self, name: &str) -> sandbox::Result<bool> {
        match self.client.list().await {
            Ok(sandboxes) => Ok(sandboxes.iter().any(|sandbox| sandbox.name == name)),
            Err(error) if error.kind() == ErrorKind::SandboxUnavailable => Err(error),
            // The failure may concern another sandbox of the tier.
            Err(_) => match self.client.get(name).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(false),
                Err(error) => Err(error),
            },
        }
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
fn not_found(name: &str, unreachable: &[Error]) -> CommandError {
    let mut why = format!("no sandbox {name:?} on any tier");
    for error in unreachable {
        why.push_str(&format!("; no answer: {error}"));
    }
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", why)
        .with_fix("`sandbox ls` lists all sandboxes")
        .into()
}

/// The tier with this name, or all tiers that support detached sandboxes.
pub fn detached_tiers(name: Option<&str>) -> Result<Vec<&'static Registration>, CommandError> {
    if let Some(name) = name {
        return Ok(vec![registry::tier(name)?]);
    }
    let keeps = |tier: &&Registration| {
        // BatchItem that cannot be opened says so when it is asked.
        (tier.open)().map_or(true, |backend| backend.detached().is_some())
    };
    Ok(registry::tiers()?.into_iter().filter(keeps).collect())
}

/// The results of one operation on several sandboxes or images.
#[derive(Debug)]
pub struct BatchReport {
    /// The name of the list in JSON.
    list_name: &'static str,
    items: Vec<BatchItem>,
    /// Errors of tiers that did not answer.
    errors: Vec<ErrorObject>,
}

impl Default for BatchReport {
    fn default() -> Self {
        Self::new("sandboxes")
    }
}

#[derive(Debug, Serialize)]
struct BatchItem {
    name: String,
    /// Why the operation failed.
    error: Option<ErrorObject>,
}

impl BatchReport {
    /// An empty report.
    pub fn new(list_name: &'static str) -> Self {
        Self {
            list_name,
            items: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Adds a result, and prints it immediately in text format.
    pub fn add(
        &mut self,
        format: Format,
        name: &str,
        result: Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let error = result.err();
        if format == Format::Text {
            match &error {
                None => print(&format!("{name}\n"))?,
                Some(failure) => {
                    failure.report(Format::Text);
                }
            }
        }
        self.items.push(BatchItem {
            name: name.to_owned(),
            error: error.map(CommandError::into_object),
        });
        Ok(())
    }

    /// Adds the error of a tier that did not answer, and prints it immediately in text format.
    pub fn add_tier_error(&mut self, format: Format, failure: CommandError) {
        if format == Format::Text {
            failure.report(Format::Text);
        }
        self.errors.push(failure.into_object());
    }

    /// Prints the JSON document, and returns the exit code.
    pub fn finish(&self, format: Format) -> Outcome {
        if format == Format::Json {
            let mut document = serde_json::Map::new();
            let value = |value: Result<_, serde_json::Error>| {
                value.map_err(|error| CommandError::io("write JSON", &error.into()))
            };
            document.insert(
                self.list_name.to_owned(),
                value(serde_json::to_value(&self.items))?,
            );
            if !self.errors.is_empty() {
                let errors = value(serde_json::to_value(&self.errors))?;
                document.insert("errors".to_owned(), errors);
            }
            print_json(&document)?;
        }
        let failed = self.items.iter().any(|item| item.error.is_some());
        Ok(if failed { Exit::FAILED } else { Exit::SUCCESS })
    }
}
