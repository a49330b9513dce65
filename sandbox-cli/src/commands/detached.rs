//! What the commands for detached sandboxes share.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::{CapabilityPolicy, Error, ErrorKind, SandboxClient, SandboxSpec};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{ErrorObject, Failure, Outcome};
use crate::output::{Format, print, print_json};

/// Which tier a detached sandbox is on.
#[derive(Debug, Clone, Args)]
pub struct TierOption {
    /// Tier of the sandbox [default: the tier that has this name; local tiers are asked first]
    #[arg(short, long, value_name = "TIER")]
    backend: Option<String>,
}

/// Where a detached sandbox is.
pub struct Place {
    /// A client of its tier. The policy that the sandbox was created under governs, so this one asks for nothing.
    pub client: SandboxClient,
    /// Its tier.
    pub tier: &'static Registration,
}

/// What is asked first for a name: it needs no engine, and answers in microseconds.
const NEAR: &str = "local";

impl TierOption {
    /// Finds the tier of a name: without one that is named, a local one that has it, else the engine that has it.
    ///
    /// Fails for what is no name, and where no tier or several engines have it.
    pub async fn find(&self, name: &str) -> Result<Place, Failure> {
        SandboxSpec::new(name).validate()?;
        let tiers = keeping_tiers(self.backend.as_deref())?;
        if let [tier] = tiers.as_slice() {
            return Place::of(tier);
        }
        let (near, far): (Vec<_>, Vec<_>) =
            tiers.into_iter().partition(|tier| tier.backend == NEAR);
        let mut silent = Vec::new();
        for tiers in [near, far] {
            let mut found = Vec::new();
            for tier in tiers {
                let place = Place::of(tier)?;
                match place.has(name).await {
                    Ok(true) => found.push(place),
                    Ok(false) => {}
                    Err(error) => silent.push(error),
                }
            }
            match (found.pop(), found.as_slice()) {
                (Some(place), []) => return Ok(place),
                (Some(place), others) => return Err(several(name, others, &place)),
                (None, _) => {}
            }
        }
        Err(unknown(name, &silent))
    }
}

impl Place {
    fn of(tier: &'static Registration) -> Result<Self, Failure> {
        let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
        Ok(Self { client, tier })
    }

    async fn has(&self, name: &str) -> sandbox::Result<bool> {
        match self.client.list().await {
            Ok(sandboxes) => Ok(sandboxes.iter().any(|sandbox| sandbox.name == name)),
            Err(error) if error.kind() == ErrorKind::SandboxUnavailable => Err(error),
            // Another sandbox of the tier may be what cannot be told.
            Err(_) => match self.client.get(name).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == ErrorKind::SandboxNotFound => Ok(false),
                Err(error) => Err(error),
            },
        }
    }
}

fn several(name: &str, places: &[Place], last: &Place) -> Failure {
    let tiers = places.iter().chain([last]).map(|place| place.tier.tier);
    let tiers = tiers.collect::<Vec<_>>().join(", ");
    let why = format!("several tiers have a sandbox {name:?}: {tiers}");
    Failure::argument(why).with_fix("choose one of them with -b")
}

/// No tier has it that answers; the others are named.
fn unknown(name: &str, silent: &[Error]) -> Failure {
    let mut why = format!("no sandbox {name:?} on any tier");
    for error in silent {
        why.push_str(&format!("; not asked: {error}"));
    }
    Error::new(ErrorKind::SandboxNotFound, "find sandbox", why)
        .with_fix("`sandbox ls` lists those that there are")
        .into()
}

/// The tier of this name, or all that have detached sandboxes.
pub fn keeping_tiers(name: Option<&str>) -> Result<Vec<&'static Registration>, Failure> {
    if let Some(name) = name {
        return Ok(vec![registry::tier(name)?]);
    }
    let keeps = |tier: &&Registration| {
        // One that cannot be opened says so when it is asked.
        (tier.open)().map_or(true, |backend| backend.keeps_detached())
    };
    Ok(registry::tiers()?.into_iter().filter(keeps).collect())
}

/// What was done to several sandboxes, or images.
#[derive(Debug)]
pub struct Done {
    /// As JSON names them.
    what: &'static str,
    all: Vec<One>,
    /// Tiers that could not be asked.
    errors: Vec<ErrorObject>,
}

impl Default for Done {
    fn default() -> Self {
        Self::to("sandboxes")
    }
}

#[derive(Debug, Serialize)]
struct One {
    name: String,
    /// Why it was not done.
    error: Option<ErrorObject>,
}

impl Done {
    /// Nothing yet, to any of these.
    pub fn to(what: &'static str) -> Self {
        Self {
            what,
            all: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Notes what became of one. As text it is told at once.
    pub fn add(
        &mut self,
        format: Format,
        name: &str,
        result: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let error = result.err();
        if format == Format::Text {
            match &error {
                None => print(&format!("{name}\n"))?,
                Some(failure) => {
                    failure.report(Format::Text);
                }
            }
        }
        self.all.push(One {
            name: name.to_owned(),
            error: error.map(Failure::into_object),
        });
        Ok(())
    }

    /// Notes a tier that could not be asked. As text it is told at once.
    pub fn note(&mut self, format: Format, failure: Failure) {
        if format == Format::Text {
            failure.report(Format::Text);
        }
        self.errors.push(failure.into_object());
    }

    /// Tells it, and with which code to end.
    pub fn finish(&self, format: Format) -> Outcome {
        if format == Format::Json {
            let mut document = serde_json::Map::new();
            let value = |value: Result<_, serde_json::Error>| {
                value.map_err(|error| Failure::io("write JSON", &error.into()))
            };
            document.insert(
                self.what.to_owned(),
                value(serde_json::to_value(&self.all))?,
            );
            if !self.errors.is_empty() {
                let errors = value(serde_json::to_value(&self.errors))?;
                document.insert("errors".to_owned(), errors);
            }
            print_json(&document)?;
        }
        let failed = self.all.iter().any(|one| one.error.is_some());
        Ok(if failed { Exit::FAILED } else { Exit::SUCCESS })
    }
}
