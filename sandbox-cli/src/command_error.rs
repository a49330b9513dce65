//! Errors of the command and the sandbox, as one line or one JSON object.

use std::ffi::OsString;
use std::fmt;

use sandbox::{Denial, Enforcement, Error, ErrorKind, Unmet};
use serde::Serialize;

use crate::arguments;
use crate::commands::run::hints;
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::{print_error, print_status};
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
    /// Every tier says that the sandbox does not exist.
    is_absent: bool,
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
            is_absent: false,
        }
    }

    /// Sets whether every tier that was asked says that the sandbox does not exist.
    pub fn absent(mut self, is_absent: bool) -> Self {
        self.is_absent = is_absent;
        self
    }

    /// Whether every tier that was asked says that the sandbox does not exist.
    pub fn is_absent(&self) -> bool {
        self.is_absent
    }

    /// A wrong command line.
    pub fn usage(error: &clap::Error, arguments: &[OsString]) -> Self {
        let subcommand = arguments::subcommand(arguments);
        let subcommand = subcommand.as_deref();
        let text = error.render().to_string();
        let summary_lines = text
            .lines()
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
        let line = summary_lines
            .map(str::trim)
            // Nobody means an option as a value.
            .filter(|line| !line.is_empty() && !line.contains(" as a value, use "))
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
        let bare = hints::bare_command(arguments).filter(|_| subcommand == Some("run"));
        if let (true, Some(file)) = (bare.is_some(), arguments.get(2)) {
            message = format!("no such file: {}", file.to_string_lossy());
        }
        let fix = match subcommand {
            Some("run") if bare.is_some() => bare.unwrap_or_default(),
            Some("run") => {
                "sandbox run --help shows the options; options of the program go after --".into()
            }
            Some("create") if is_unknown_word(error) => {
                "sandbox create --help shows the options; --name names the sandbox".to_owned()
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
            Format::Text if self.refused.unmet.is_empty() => print_error(self),
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
            print_error(escape(&format!(
                "refused: {tier} cannot guarantee {capability} = {}: {} ({flag} {capability} accepts that)",
                unmet.demand.value, unmet.enforcement
            )));
        }
    }
}

/// Whether an argument that is no option was not expected, such as the name of a sandbox.
fn is_unknown_word(error: &clap::Error) -> bool {
    let argument = error.get(clap::error::ContextKind::InvalidArg);
    error.kind() == clap::error::ErrorKind::UnknownArgument
        && argument.is_some_and(|argument| !argument.to_string().starts_with('-'))
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lines of a policy file, which this library has indented; anything else is one line.
        let (message, source) = match self.message.split_once("\n  ") {
            Some((message, source)) if self.kind == "invalid_policy" => (message, source),
            _ => (self.message.as_str(), ""),
        };
        f.write_str(&escape(message))?;
        if let Some(fix) = &self.fix {
            write!(f, " (fix: {})", escape(fix))?;
        }
        let source = source.split("\n  ").filter(|line| !line.is_empty());
        source
            .map(escape)
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Whether the context of such an error says what is wrong by itself. Of others it names a path or
/// repeats what an engine said.
fn is_sentence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::AlreadyExists
            | ErrorKind::CodeRefused
            | ErrorKind::ImageNotFound
            | ErrorKind::InvalidPolicy
            | ErrorKind::InvalidSpec
            | ErrorKind::NotExecutable
            | ErrorKind::PolicyExceeded
            | ErrorKind::ProgramNotFound
            | ErrorKind::SandboxAttached
            | ErrorKind::SandboxEnded
            | ErrorKind::SandboxNotFound
            | ErrorKind::SandboxUnavailable
            | ErrorKind::UnknownBackend
            | ErrorKind::Unsupported
    )
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        let mut message = match (is_sentence(error.kind()), error.backend()) {
            (true, Some(tier)) if !error.context().contains(tier) => {
                format!("{tier}: {}", error.context())
            }
            (true, _) => error.context().to_owned(),
            (false, Some(tier)) => {
                format!(
                    "{} failed on {tier}: {}",
                    error.operation(),
                    error.context()
                )
            }
            (false, None) => format!("{} failed: {}", error.operation(), error.context()),
        };
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
            is_absent: false,
        }
    }
}
