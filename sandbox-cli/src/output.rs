//! Output formats.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write as _};

use clap::Args;
use serde::Serialize;

use crate::command_error::CommandError;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Plain text
    #[default]
    Text,
    /// One JSON object on standard output
    Json,
}

/// The option for the output format.
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

/// The output format of a command that runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LiveFormat {
    /// The program's own output
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object for each event, one in a line: started, stdout, stderr, end
    Jsonl,
}

impl LiveFormat {
    /// The format of everything but events.
    pub fn document(self) -> Format {
        match self {
            Self::Text => Format::Text,
            Self::Json | Self::Jsonl => Format::Json,
        }
    }
}

/// The option for the output format of a command that runs a program.
#[derive(Debug, Clone, Copy, Args)]
pub struct LiveFormatOption {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub format: LiveFormat,
}

impl Format {
    /// The format in a wrong command line, so that a program that requests JSON gets its error as
    /// JSON.
    pub fn guess(arguments: &[OsString]) -> Self {
        let before_command = arguments
            .iter()
            .take_while(|argument| *argument != "--")
            .collect::<Vec<_>>();
        let json = |argument: &OsString, option: &str| {
            let value = argument.to_str().and_then(|text| text.strip_prefix(option));
            matches!(value, Some("json" | "jsonl" | "sarif"))
        };
        let short = before_command
            .iter()
            .any(|argument| json(argument, "-o") || json(argument, "--output="));
        let long = before_command
            .windows(2)
            .any(|pair| (pair[0] == "-o" || pair[0] == "--output") && json(pair[1], ""));
        if short || long {
            Self::Json
        } else {
            Self::Text
        }
    }
}

/// Writes text to standard output.
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CommandError::broken_pipe()),
        Err(error) => Err(CommandError::io("writing standard output", &error)),
    }
}

/// Whether text on a stream may have colors: on a terminal, unless `NO_COLOR` is set.
pub fn has_colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes one JSON object and a line's end to standard output.
pub fn print_json(document: &impl Serialize) -> Result<(), CommandError> {
    print(&json(document)?)
}

/// One JSON object and a line's end.
pub fn json(document: &impl Serialize) -> Result<String, CommandError> {
    let mut text = serde_json::to_string(document)
        .map_err(|error| CommandError::io("writing JSON", &io::Error::other(error)))?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_format_is_recognized_only_before_the_command() {
        let guess =
            |line: &str| Format::guess(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(guess("sandbox run --bad -o json"), Format::Json);
        assert_eq!(guess("sandbox run -ojson --bad"), Format::Json);
        assert_eq!(guess("sandbox run --output=json"), Format::Json);
        assert_eq!(guess("sandbox run -o jsonl --bad"), Format::Json);
        assert_eq!(guess("sandbox run --bad -- tool -o json"), Format::Text);
    }
}
