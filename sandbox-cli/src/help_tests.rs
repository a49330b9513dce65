//! The documented options are the real ones.

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::arguments::CliArguments;

/// The help of the command and its subcommands, as docs/command.md has it.
fn document() -> String {
    let mut text = String::from(
        "# The `sandbox` command\n\nGenerated from `--help` by `UPDATE=1 cargo test -p sandbox-cli help`.\n",
    );
    let mut root = CliArguments::command().term_width(100);
    root.build();
    section(&mut text, &mut root);
    text
}

fn section(text: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("sandbox").to_owned();
    let help = command
        .clone()
        .term_width(100)
        .render_long_help()
        .to_string();
    let help = help
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n");
    *text += &format!("\n## `{name}`\n\n```text\n{}\n```\n", help.trim_end());
    for subcommand in command
        .get_subcommands_mut()
        .filter(|command| command.get_name() != "help")
    {
        section(text, subcommand);
    }
}

#[test]
fn help_matches_documentation() {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let path = package.join("../docs/command.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let documented = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        documented == document(),
        "docs/command.md is out of date: run this test with UPDATE=1"
    );
}
