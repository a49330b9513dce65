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
    /// Tier that the sandbox runs on; without it, all are asked for the name
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

impl TierOption {
    /// Finds the tier of a name.
    ///
    /// Fails for what is no name, and where no tier or several have it. A tier that cannot tell counts as one that does not have it, unless none has: its
    /// sandboxes could not be reached either.
    pub async fn find(&self, name: &str) -> Result<Place, Failure> {
        SandboxSpec::new(name).validate()?;
        let tiers = keeping_tiers(self.backend.as_deref())?;
        if let [tier] = tiers.as_slice() {
            return Place::of(tier);
        }
        let mut found = Vec::new();
        let mut failure = None;
        for tier in tiers {
            let place = Place::of(tier)?;
            match place.has(name).await {
                Ok(true) => found.push(place),
                Ok(false) => {}
                Err(error) => failure = Some(failure.unwrap_or(error)),
            }
        }
        match (found.pop(), found.as_slice()) {
            (Some(place), []) => Ok(place),
            (Some(place), others) => {
                let tiers = others.iter().chain([&place]).map(|place| place.tier.tier);
                let tiers = tiers.collect::<Vec<_>>().join(", ");
                let why = format!("several tiers have a sandbox {name:?}: {tiers}");
                Err(Failure::argument(why).with_fix("choose one of them with -b"))
            }
            (None, _) => Err(failure.map_or_else(|| unknown(name), Failure::from)),
        }
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

fn unknown(name: &str) -> Failure {
    let why = format!("no sandbox {name:?} on any tier");
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

/// How an answer is written, for commands with no other options of that kind.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatOption {
    /// How the answer is written
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: Format,
}

/// What was done to several sandboxes, or images.
#[derive(Debug)]
pub struct Done {
    /// As JSON names them.
    what: &'static str,
    all: Vec<One>,
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

    /// Tells it, and with which code to end.
    pub fn finish(&self, format: Format) -> Outcome {
        if format == Format::Json {
            print_json(&std::collections::BTreeMap::from([(self.what, &self.all)]))?;
        }
        let failed = self.all.iter().any(|one| one.error.is_some());
        Ok(if failed { Exit::FAILED } else { Exit::SUCCESS })
    }
}
