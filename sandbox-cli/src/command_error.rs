//! Failures of the command and the sandbox, as one line or one JSON object.

use std::fmt;

use sandbox::{Denial, Enforcement, Error, Unmet};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Format};
use crate::say;
use sandbox::escape;

/// What a subcommand ends with.
pub type Outcome = Result<Exit, Failure>;

/// Why there is no result.
#[derive(Debug)]
pub struct Failure {
    kind: &'static str,
    message: String,
    fix: Option<String>,
    refused: Box<Refused>,
    backend: Option<String>,
    exit: Exit,
}

/// What was refused, where that is why.
#[derive(Debug, Default)]
struct Refused {
    unmet: Vec<Unmet>,
    denials: Vec<Denial>,
}

#[derive(Serialize)]
struct Document {
    error: ErrorObject,
}

/// A failure as JSON has it.
#[derive(Debug, Serialize)]
pub struct ErrorObject {
    kind: &'static str,
    message: String,
    fix: Option<String>,
    backend: Option<String>,
    unmet: Vec<Unmet>,
    denials: Vec<Denial>,
}

impl Failure {
    fn new(kind: &'static str, message: String, fix: Option<String>, exit: Exit) -> Self {
        Self {
            kind,
            message,
            fix,
            refused: Box::default(),
            backend: None,
            exit,
        }
    }

    /// A command line that means nothing.
    pub fn usage(error: &clap::Error, subcommand: Option<&str>) -> Self {
        let text = error.render().to_string();
        let said = text
            .lines()
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let line = said
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        let mut message = line
            .strip_prefix("error: ")
            .unwrap_or(&line)
            .replace(" tip: ", "; ");
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            message = match subcommand {
                Some(name) => format!("{name} needs a command of its own"),
                None => "nothing to do".to_owned(),
            };
        }
        let fix = match subcommand {
            Some(name @ ("run" | "exec")) => {
                format!("sandbox {name} --help shows the options; a command goes after --")
            }
            None => "sandbox --help lists the commands".to_owned(),
            Some(name) => format!("sandbox {name} --help shows the options"),
        };
        Self::new("usage", message, Some(fix), Exit::FAILED)
    }

    /// A value of the command line that cannot be used.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new("usage", message.into(), None, Exit::FAILED)
    }

    /// The host's operating system refused something.
    pub fn io(message: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(
            "io",
            format!("{}: {error}", message.into()),
            None,
            Exit::FAILED,
        )
    }

    /// Nobody reads the output.
    pub fn broken_pipe() -> Self {
        Self::new(
            "io",
            "standard output is closed".into(),
            None,
            Exit::BROKEN_PIPE,
        )
    }

    /// A signal asked for the end.
    pub fn interrupted(signal: i32) -> Self {
        Self::new(
            "interrupted",
            format!("ended by signal {signal}"),
            None,
            Exit::signal(signal),
        )
    }

    /// What it is, as JSON names it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The same with what the user can do.
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Tells it, and with which code to end.
    pub fn report(&self, format: Format) -> Exit {
        match format {
            // There is nobody to read it.
            _ if self.exit == Exit::BROKEN_PIPE => {}
            Format::Json => {
                if output::print_json(&self.document()).is_err() {
                    say(self);
                }
            }
            Format::Text if self.refused.unmet.is_empty() => say(self),
            Format::Text => self.say_what_is_not_enforced(),
        }
        self.exit
    }

    fn document(&self) -> Document {
        Document {
            error: ErrorObject {
                kind: self.kind,
                message: self.message.clone(),
                fix: self.fix.clone(),
                backend: self.backend.clone(),
                unmet: self.refused.unmet.clone(),
                denials: self.refused.denials.clone(),
            },
        }
    }

    /// The failure as JSON has it, within a larger answer.
    pub fn into_object(self) -> ErrorObject {
        self.document().error
    }

    fn say_what_is_not_enforced(&self) {
        let tier = self.backend.as_deref().unwrap_or("this backend");
        for unmet in &self.refused.unmet {
            let capability = unmet.demand.capability;
            let flag = match unmet.enforcement {
                Enforcement::Partial { .. } => "--allow-partial",
                _ => "--allow-unenforced",
            };
            say(escape(&format!(
                "refused: {tier} cannot guarantee {capability} = {}: {} ({flag} {capability} accepts that)",
                unmet.demand.value, unmet.enforcement
            )));
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.message))?;
        match &self.fix {
            Some(fix) => write!(f, " (fix: {})", escape(fix)),
            None => Ok(()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut message = format!("{} failed", error.operation());
        if let Some(backend) = error.backend() {
            message += &format!(" on {backend}");
        }
        message += &format!(": {}", error.context());
        if let Some(cause) = error.cause() {
            message += &format!(": {cause}");
        }
        Self {
            kind: error.kind().as_str(),
            message,
            fix: error.fix().map(str::to_owned),
            refused: Box::new(Refused {
                unmet: error.unmet().to_vec(),
                denials: error.denials().to_vec(),
            }),
            backend: error.backend().map(str::to_owned),
            exit: Exit::of_error(error.kind()),
        }
    }
}
