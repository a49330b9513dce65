//! What the commands for detached sandboxes share.

use clap::Args;
use sandbox::registry::{self, Registration};
use sandbox::{CapabilityPolicy, SandboxClient};
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{ErrorObject, Failure, Outcome};
use crate::output::{Format, print, print_json};

/// Which tier a detached sandbox is on.
#[derive(Debug, Clone, Args)]
pub struct TierOption {
    /// Tier that the sandbox runs on
    #[arg(short, long, value_name = "TIER", default_value = "local")]
    pub backend: String,
}

impl TierOption {
    /// A client of it. The policy that a sandbox was created under governs, so this one asks for nothing.
    pub fn client(&self) -> Result<(SandboxClient, &'static Registration), Failure> {
        let tier = registry::tier(&self.backend)?;
        let client = SandboxClient::open(tier.tier, CapabilityPolicy::new())?;
        Ok((client, tier))
    }
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
