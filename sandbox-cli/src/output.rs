//! How answers are written.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Plain text
    #[default]
    Text,
    /// One JSON object on standard output
    Json,
}

/// The option that says how an answer is written.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatOption {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: Format,
}

/// What `--output` says of a command that passes output on while it comes.
pub const LIVE_OUTPUT: &str = "Output format; json prints everything at the end";

impl Format {
    /// The format that an unreadable command line asks for, so that a program that reads JSON gets it in every case.
    pub fn guess(arguments: &[OsString]) -> Self {
        let own = arguments
            .iter()
            .take_while(|argument| *argument != "--")
            .collect::<Vec<_>>();
        let short = own
            .iter()
            .any(|argument| *argument == "-ojson" || *argument == "--output=json");
        let long = own
            .windows(2)
            .any(|pair| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json");
        if short || long {
            Self::Json
        } else {
            Self::Text
        }
    }
}

/// Writes text to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::broken_pipe()),
        Err(error) => Err(Failure::io("writing standard output", &error)),
    }
}

/// Writes one JSON object and a line's end to standard output.
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string(document)
        .map_err(|error| Failure::io("writing JSON", &io::Error::other(error)))?;
    text.push('\n');
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_before_the_command_only() {
        let guess =
            |line: &str| Format::guess(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(guess("sandbox run --bad -o json"), Format::Json);
        assert_eq!(guess("sandbox run -ojson --bad"), Format::Json);
        assert_eq!(guess("sandbox run --output=json"), Format::Json);
        assert_eq!(guess("sandbox run --bad -- tool -o json"), Format::Text);
    }
}
