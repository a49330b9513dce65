//! Errors of the command and the sandbox, as one line or one JSON object.

use std::fmt;

use sandbox::{Denial, Enforcement, Error, Unmet};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Format};
use crate::print_status;
use sandbox::spi::escape;

/// The result of a subcommand.
pub type Outcome = Result<Exit, CommandError>;

/// Why a subcommand failed.
#[derive(Debug)]
pub struct CommandError {
    kind: &'static str,
    message: String,
    fix: Option<String>,
    refused: Box<RefusalDetails>,
    backend: Option<String>,
    exit: Exit,
}

/// The refused demands and denials.
#[derive(Debug, Default)]
struct RefusalDetails {
    unmet: Vec<Unmet>,
    denials: Vec<Denial>,
}

#[derive(Serialize)]
struct ErrorDocument {
    error: ErrorObject,
}

/// An error in JSON.
#[derive(Debug, Serialize)]
pub struct ErrorObject {
    kind: &'static str,
    message: String,
    fix: Option<String>,
    backend: Option<String>,
    unmet: Vec<Unmet>,
    denials: Vec<Denial>,
}

impl CommandError {
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

    /// A wrong command line.
    pub fn usage(error: &clap::Error, subcommand: Option<&str>) -> Self {
        let text = error.render().to_string();
        let summary_lines = text
            .lines()
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let line = summary_lines
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
                Some(name) => format!("{name} needs a subcommand"),
                None => "no command given".to_owned(),
            };
        }
        let fix = match subcommand {
            Some(name @ ("run" | "exec" | "shell")) => {
                format!("sandbox {name} --help shows the options; a command goes after --")
            }
            None => "sandbox --help lists the commands".to_owned(),
            Some(name) => format!("sandbox {name} --help shows the options"),
        };
        Self::new("usage", message, Some(fix), Exit::FAILED)
    }

    /// A wrong value in the command line.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new("usage", message.into(), None, Exit::FAILED)
    }

    /// An operation of the host's operating system failed.
    pub fn io(message: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(
            "io",
            format!("{}: {error}", message.into()),
            None,
            Exit::FAILED,
        )
    }

    /// The reader of standard output is gone.
    pub fn broken_pipe() -> Self {
        Self::new(
            "io",
            "standard output is closed".into(),
            None,
            Exit::BROKEN_PIPE,
        )
    }

    /// A signal ended the command.
    pub fn interrupted(signal: i32) -> Self {
        Self::new(
            "interrupted",
            format!("ended by signal {signal}"),
            None,
            Exit::signal(signal),
        )
    }

    /// The kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Adds what the user can do.
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Prints it, and returns the exit code.
    pub fn report(&self, format: Format) -> Exit {
        match format {
            // Nothing can be printed any more.
            _ if self.exit == Exit::BROKEN_PIPE => {}
            Format::Json => {
                if output::print_json(&self.document()).is_err() {
                    print_status(self);
                }
            }
            Format::Text if self.refused.unmet.is_empty() => print_status(self),
            Format::Text => self.print_unmet_demands(),
        }
        self.exit
    }

    fn document(&self) -> ErrorDocument {
        ErrorDocument {
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

    /// The error as part of a JSON document.
    pub fn into_object(self) -> ErrorObject {
        self.document().error
    }

    fn print_unmet_demands(&self) {
        let tier = self.backend.as_deref().unwrap_or("this backend");
        for unmet in &self.refused.unmet {
            let capability = unmet.demand.capability;
            let flag = match unmet.enforcement {
                Enforcement::Partial { .. } => "--allow-partial",
                _ => "--allow-unenforced",
            };
            print_status(escape(&format!(
                "refused: {tier} cannot guarantee {capability} = {}: {} ({flag} {capability} accepts that)",
                unmet.demand.value, unmet.enforcement
            )));
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.message))?;
        match &self.fix {
            Some(fix) => write!(f, " (fix: {})", escape(fix)),
            None => Ok(()),
        }
    }
}

impl From<Error> for CommandError {
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
            refused: Box::new(RefusalDetails {
                unmet: error.unmet().to_vec(),
                denials: error.denials().to_vec(),
            }),
            backend: error.backend().map(str::to_owned),
            exit: Exit::of_error(error.kind()),
        }
    }
}
