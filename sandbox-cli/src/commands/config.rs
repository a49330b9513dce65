//! `sandbox config`: the configuration that applies.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::command_error::Outcome;
use crate::exit::Exit;
use crate::output::{Format, FormatOption, print, print_json};
use crate::table::table;
use crate::user_config::{self, OutputDefault, UserConfig};

const NOTES: &str = "\
The file is ~/.config/sandbox/config.toml, or sandbox/config.toml in $XDG_CONFIG_HOME. Options take
precedence over it. Its settings:

  backend = \"docker\"   # tier of run, create, check and mcp
  output = \"json\"      # output format: text or json
  verbose = true        # write events of the library to standard error";

/// The options of `config`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub struct ConfigArguments {
    #[command(flatten)]
    pub format: FormatOption,
}

#[derive(Serialize)]
struct ConfigDocument {
    /// The path of the file, which may not exist.
    file: Option<PathBuf>,
    settings: Vec<SettingRow>,
}

#[derive(Serialize)]
struct SettingRow {
    name: &'static str,
    value: String,
    /// `file` or `default`.
    source: &'static str,
}

impl SettingRow {
    fn new(name: &'static str, given: Option<String>, default: &str) -> Self {
        let source = if given.is_some() { "file" } else { "default" };
        Self {
            name,
            value: given.unwrap_or_else(|| default.to_owned()),
            source,
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &ConfigArguments) -> Outcome {
    let config = UserConfig::read()?;
    let output = config.output.map(OutputDefault::as_str).map(str::to_owned);
    let verbose = config.verbose.map(|verbose| verbose.to_string());
    let document = ConfigDocument {
        file: user_config::path(),
        settings: vec![
            SettingRow::new("backend", config.backend, "local"),
            SettingRow::new("output", output, "text"),
            SettingRow::new("verbose", verbose, "false"),
        ],
    };
    match arguments.format.format {
        Format::Json => print_json(&document)?,
        Format::Text => {
            let file = document
                .file
                .as_ref()
                .map(|file| file.display().to_string());
            let file =
                file.unwrap_or_else(|| "none: neither HOME nor XDG_CONFIG_HOME is set".into());
            let row = |row: &SettingRow| {
                vec![
                    row.name.to_owned(),
                    row.value.clone(),
                    row.source.to_owned(),
                ]
            };
            let header = ["SETTING", "VALUE", "SOURCE"].map(str::to_owned).to_vec();
            let rows = std::iter::once(header).chain(document.settings.iter().map(row));
            print(&format!(
                "file: {file}\n{}",
                table(&rows.collect::<Vec<_>>())
            ))?;
        }
    }
    Ok(Exit::SUCCESS)
}
