//! The user's configuration, events, completions and manual pages.
#![cfg(feature = "local")]

mod common;

use common::{sandbox, text};
use serde_json::Value;

/// The command with this configuration file.
fn run(
    config: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sandbox")).unwrap();
    std::fs::write(folder.path().join("sandbox/config.toml"), config).unwrap();
    let mut command = sandbox(arguments);
    command.env("XDG_CONFIG_HOME", folder.path());
    command.env_remove("SANDBOX_LOG");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn configuration_sets_defaults_that_options_override() {
    let config = "backend = 'local_unsafe'\noutput = 'json'\n";
    let (code, stdout, _) = run(config, &["run", "--", "true"], &[]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["tier"], "local_unsafe");
    let line = ["run", "-q", "-b", "local", "-o", "text", "-c", "print(42)"];
    assert_eq!(run(config, &line, &[]).1, "42\n");
    let (_, stdout, _) = run(config, &["config"], &[]);
    let document: Value = serde_json::from_str(&stdout).unwrap();
    let backend = &document["settings"][0];
    assert_eq!(backend["value"], "local_unsafe");
    assert_eq!(backend["source"], "file");
    let (_, stdout, _) = run("", &["config"], &[]);
    assert!(stdout.contains("backend  local  default"), "{stdout}");
}

#[test]
fn wrong_configuration_is_refused() {
    let (code, _, stderr) = run("bakcend = 'docker'", &["run", "--", "true"], &[]);
    assert_eq!(code, Some(125));
    assert!(
        stderr.contains("bakcend") && stderr.contains("config.toml"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn events_are_written_only_on_request() {
    let line = ["run", "-q", "-b", "local_unsafe", "--", "true"];
    let quiet = run("", &line, &[]).2;
    assert!(!quiet.contains("WARN"), "{quiet}");
    let verbose = [&["--verbose"], &line[..]].concat();
    for (line, variables) in [(&verbose[..], &[][..]), (&line, &[("SANDBOX_LOG", "warn")])] {
        let (code, _, stderr) = run("", line, variables);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.contains("no policy is applied on this tier"),
            "{stderr}"
        );
    }
    let (code, _, stderr) = run("", &line, &[("SANDBOX_LOG", "a=b=c")]);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains("SANDBOX_LOG"), "{stderr}");
}

#[test]
fn completions_and_pages_name_the_subcommands() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = run("", &["completions", shell], &[]);
        assert_eq!(code, Some(0));
        assert!(script.contains("doctor"), "{shell}");
    }
    let (_, page, _) = run("", &["man"], &[]);
    assert!(page.contains(".TH") && page.contains("doctor"), "{page}");
    let (_, page, _) = run("", &["man", "run"], &[]);
    assert!(page.contains("env\\-file"), "{page}");
    assert_eq!(run("", &["man", "rum"], &[]).0, Some(125));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    assert_eq!(run("", &["man", "--out", out], &[]).0, Some(0));
    assert!(folder.path().join("sandbox-run.1").exists());
}
