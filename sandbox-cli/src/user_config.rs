//! The user's configuration file: defaults of options.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandbox::spi::toml_error;
use serde::{Deserialize, Serialize};

use crate::command_error::CommandError;

/// The longest configuration file, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// The commands whose `--backend` creates sandboxes.
const CREATING: [&str; 4] = ["run", "create", "check", "mcp"];

/// The defaults that the file sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// The tier of `run`, `create`, `check` and `mcp`.
    pub backend: Option<String>,
    /// The output format of all commands: `text` or `json`.
    pub output: Option<OutputDefault>,
    /// Whether events of the library are written to standard error.
    pub verbose: Option<bool>,
}

/// An output format that every command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputDefault {
    /// Plain text.
    Text,
    /// JSON.
    Json,
}

impl OutputDefault {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// The path of the file: `$XDG_CONFIG_HOME/sandbox/config.toml`, or below `~/.config`. `None`
/// without a home.
pub fn path() -> Option<PathBuf> {
    let absolute = |name| {
        let folder = PathBuf::from(std::env::var_os(name)?);
        folder.is_absolute().then_some(folder)
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(folder?.join("sandbox/config.toml"))
}

impl UserConfig {
    /// Reads the file. A missing file sets nothing.
    pub fn read() -> Result<Self, CommandError> {
        match path() {
            Some(path) => Self::of(&path),
            None => Ok(Self::default()),
        }
    }

    fn of(path: &Path) -> Result<Self, CommandError> {
        let shown = path.display();
        let failed =
            |error: &std::io::Error| CommandError::io(format!("configuration file {shown}"), error);
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(failed(&error)),
        };
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        let user = rustix::process::geteuid().as_raw();
        // Whoever may write it chooses the tier.
        if ![0, user].contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
            let why = format!("configuration file {shown}: others may write to it");
            return Err(CommandError::argument(why).with_fix("own it, and chmod 600 it"));
        }
        let mut text = String::new();
        let read =
            std::io::Read::read_to_string(&mut std::io::Read::take(file, LONGEST), &mut text);
        read.map_err(|error| failed(&error))?;
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let why = format!("configuration file {shown}: {}", toml_error(&error));
            CommandError::argument(why).with_fix("`sandbox config --help` lists the settings")
        })
    }

    /// Whether [`UserConfig::apply`] has nothing to do.
    pub fn changes_no_option(&self) -> bool {
        self.backend.is_none() && self.output.is_none()
    }

    /// Makes the values the defaults of their options.
    pub fn apply(&self, mut command: clap::Command) -> clap::Command {
        if let Some(backend) = &self.backend {
            // clap keeps defaults for the life of the process.
            let backend: &'static str = Box::leak(backend.clone().into_boxed_str());
            for name in CREATING {
                command = command.mut_subcommand(name, |command| {
                    command.mut_arg("backend", |option| option.default_value(backend))
                });
            }
        }
        match self.output {
            Some(output) => with_output(command, output),
            None => command,
        }
    }
}

/// Sets the default format of a command and its subcommands.
fn with_output(mut command: clap::Command, output: OutputDefault) -> clap::Command {
    let has_format = command
        .get_arguments()
        .any(|option| option.get_id() == "format");
    if has_format {
        command = command.mut_arg("format", |option| option.default_value(output.as_str()));
    }
    let names = command
        .get_subcommands()
        .map(|command| command.get_name().to_owned());
    for name in names.collect::<Vec<_>>() {
        command = command.mut_subcommand(name, |command| with_output(command, output));
    }
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::arguments::{CliArguments, Command};
    use crate::output::Format;

    fn read(text: &str, mode: u32) -> Result<UserConfig, CommandError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        UserConfig::of(&path)
    }

    #[test]
    fn file_sets_defaults_and_options_take_precedence() {
        let config = read("backend = 'docker'\noutput = 'json'", 0o600).unwrap();
        let parse = |line: &[&str]| {
            let command = config.apply(CliArguments::command());
            let matches = command.try_get_matches_from(line).unwrap();
            CliArguments::from_arg_matches(&matches).unwrap().command
        };
        let run = |line: &[&str]| match parse(line) {
            Command::Run(arguments) => (arguments.backend().to_owned(), parse(line).format()),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            run(&["sandbox", "run", "--", "x"]),
            ("docker".into(), Format::Json)
        );
        let line = ["sandbox", "run", "-b", "local", "-o", "text", "--", "x"];
        assert_eq!(run(&line), ("local".into(), Format::Text));
        assert_eq!(parse(&["sandbox", "ls"]).format(), Format::Json);
        assert_eq!(parse(&["sandbox", "image", "ls"]).format(), Format::Json);
    }

    #[test]
    fn bad_files_are_refused_with_their_name() {
        for (text, mode, says) in [
            ("bakcend = 'docker'", 0o600, "bakcend"),
            ("output = 'yaml'", 0o600, "yaml"),
            ("", 0o666, "others may write"),
        ] {
            let error = read(text, mode).unwrap_err().to_string();
            assert!(
                error.contains(says) && error.contains("config.toml"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
        assert_eq!(read("", 0o600).unwrap(), UserConfig::default());
        let missing = UserConfig::of(Path::new("/nonexistent/config.toml"));
        assert_eq!(missing.unwrap(), UserConfig::default());
    }
}
