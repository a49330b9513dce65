//! `sandbox man`: manual pages.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use crate::arguments::CliArguments;
use crate::command_error::{CommandError, Outcome};
use crate::exit::Exit;
use crate::output::print;

/// The options of `man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Print the page of this subcommand, such as run [default: the command's own page]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Write the pages of all commands to this folder instead, as sandbox.1, sandbox-run.1, ...
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(arguments: &ManArguments) -> Outcome {
    let mut command = CliArguments::command();
    if let Some(folder) = &arguments.out {
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder));
        let failed = |error| CommandError::io(format!("write {}", folder.display()), &error);
        written.map_err(failed)?;
        return Ok(Exit::SUCCESS);
    }
    command.build();
    let page = match &arguments.command {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            let page = found.ok_or_else(|| {
                let why = format!("there is no command {name:?}");
                CommandError::argument(why).with_fix("sandbox --help lists the commands")
            })?;
            page.display_name(format!("sandbox-{name}"))
        }
    };
    let mut text = Vec::new();
    let rendered = Man::new(page).render(&mut text);
    rendered.map_err(|error| CommandError::io("write the page", &error))?;
    print(&String::from_utf8_lossy(&text))?;
    Ok(Exit::SUCCESS)
}
