//! Reading policy files.

use std::time::Duration;

use sandbox_core::policy::{NetworkPolicy, PolicyFile, Preset};
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, Cpus, ErrorKind, Result};

fn toml(text: &str) -> Result<CapabilityPolicy> {
    PolicyFile::from_toml(&format!("version = 1\n{text}")).and_then(|file| file.resolve())
}

fn json(text: &str) -> Result<CapabilityPolicy> {
    PolicyFile::from_json(text).and_then(|file| file.resolve())
}

/// The error message, of the kind `InvalidPolicy`: one line, and the lines of the file indented.
fn refusal(result: Result<CapabilityPolicy>) -> String {
    let error = result.expect_err("must be refused");
    assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
    let message = error.to_string();
    let mut more = message.lines().skip(1);
    assert!(more.all(|line| line.starts_with("  ")), "{message:?}");
    message
}

#[test]
fn empty_file_is_the_default_policy() {
    assert_eq!(toml("").unwrap(), CapabilityPolicy::new());
    assert_eq!(json(r#"{"version": 1}"#).unwrap(), CapabilityPolicy::new());
}

#[test]
fn unknown_keys_are_refused_with_their_name() {
    for result in [
        toml("memroy = '1GiB'"),
        toml("[memroy]\nx = 1"),
        toml("network = { allow = [], deny = [] }"),
        json(r#"{"version": 1, "memroy": "1GiB"}"#),
    ] {
        let refusal = refusal(result);
        assert!(
            refusal.contains("memroy") || refusal.contains("deny"),
            "{refusal}"
        );
    }
}

#[test]
fn toml_errors_name_the_line() {
    let refusal = refusal(toml("memory = '1GiB'\nmemroy = 2"));
    assert!(refusal.contains("line 3"), "{refusal}");
}

#[test]
fn missing_or_unknown_version_is_refused() {
    assert!(refusal(json("{}")).contains("version"));
    assert!(refusal(json(r#"{"version": 2}"#)).contains("version = 2"));
    refusal(json(r#"{"version": "1"}"#));
    assert!(PolicyFile::from_toml("memory = '1GiB'").is_err());
}

#[test]
fn network_has_three_exclusive_spellings() {
    let network = |text: &str| toml(text).unwrap().network;
    let allow = |rules: &[&str]| {
        Some(NetworkPolicy::Allow(
            rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ))
    };
    for none in [
        "network = 'none'",
        "network_access = false",
        "egress = []",
        "network = {allow = []}",
    ] {
        assert_eq!(network(none), Some(NetworkPolicy::None), "{none}");
    }
    for full in ["network = 'full'", "network_access = true"] {
        assert_eq!(network(full), Some(NetworkPolicy::Full), "{full}");
    }
    let rules = ["example.org", "*.example.net:8443"];
    assert_eq!(
        network("egress = ['example.org', '*.Example.net:8443']"),
        allow(&rules)
    );
    assert_eq!(
        network("network = {allow = ['example.org', '*.example.net:8443']}"),
        allow(&rules)
    );
    for both in [
        "network_access = true\negress = ['a.org']",
        "network = 'none'\nnetwork_access = false",
        "network = 'none'\negress = []",
    ] {
        let refusal = refusal(toml(both));
        assert!(refusal.contains(" and "), "{refusal}");
    }
}

#[test]
fn invalid_network_rules_are_refused() {
    for bad in [
        "",
        "http://a.org",
        "a.org:0",
        "a.org:70000",
        "a b",
        "a..b",
        ".a",
        "a..",
        "*",
        "a.*.org",
        "a.org:",
    ] {
        let refusal = refusal(toml(&format!("egress = ['{bad}']")));
        assert!(refusal.contains(bad), "{refusal}");
    }
}

#[test]
fn values_are_parsed_with_and_without_units() {
    let policy = toml(
        "memory = '1.5GiB'\ndisk = 65536\nstdout_max_bytes = '64 kB'\ncpus = 1.5\ntimeout = '1m 30s'\nlifetime = '8h'\nfile_timeout = 60",
    );
    let policy = policy.unwrap();
    assert_eq!(policy.memory, Some(ByteSize::mib(1536)));
    assert_eq!(policy.disk, Some(ByteSize::kib(64)));
    assert_eq!(policy.stdout_max_bytes, Some(ByteSize::kib(64)));
    assert_eq!(policy.cpus, Some(Cpus::milli(1500)));
    assert_eq!(policy.timeout, Some(Duration::from_secs(90)));
    assert_eq!(policy.lifetime, Some(Duration::from_secs(8 * 3600)));
    assert_eq!(policy.file_timeout, Some(Duration::from_secs(60)));
    let policy = json(r#"{"version": 1, "timeout": 0.25, "cpus": 2, "memory": 1048576}"#).unwrap();
    assert_eq!(policy.timeout, Some(Duration::from_millis(250)));
    assert_eq!(policy.cpus, Some(Cpus::whole(2)));
    assert_eq!(policy.memory, Some(ByteSize::mib(1)));
}

#[test]
fn invalid_values_are_refused() {
    for bad in [
        "memory = '12 parsecs'",
        "memory = -1",
        "memory = 1.5",
        "memory = '512KiB'",
        "cpus = 0",
        "cpus = -1",
        "cpus = 'NaN'",
        "timeout = 0",
        "timeout = -1",
        "timeout = 'soon'",
        "timeout = nan",
        "timeout = inf",
        "lifetime = 0",
        "lifetime = 'forever'",
        "file_timeout = 0",
        "file_timeout = 1e-9",
        "pids = 0",
        "pids = -1",
        "open_files = 7",
        "filesystem_read_roots = ['relative']",
        "filesystem_write_roots = ['/a/../etc']",
        "filesystem_read_roots = [\"/a\\u0000b\"]",
        "mount_sources = [{ path = 'relative' }]",
        "mount_sources = [{ path = '/a', writable = true }]",
        "artifact_export_paths = ['']",
        "artifact_export_paths = ['/output/../etc']",
        "artifact_export_paths = ['output/../../etc']",
        "artifact_export_paths = [\"/a\\u0000b\"]",
        "allow_partial = ['everything']",
        "extends = 'lenient'",
    ] {
        refusal(toml(bad));
    }
}

#[test]
fn contradictions_are_refused() {
    let refused = refusal(toml("packages = ['numpy']\npackage_installation = false"));
    assert!(
        refused.contains("numpy") && refused.contains("package_installation"),
        "{refused}"
    );
    refusal(toml("allow_unenforced = ['stdout_max_bytes']"));
    // The preset forbids packages, and the file names one.
    refusal(toml("extends = 'strict'\npackages = ['numpy']"));
}

#[test]
fn storage_below_one_page_is_refused() {
    for bad in ["1B", "4095B", "0B"] {
        let refused = refusal(toml(&format!("disk = '{bad}'")));
        assert!(refused.contains("disk: must be at least 4KiB"), "{refused}");
    }
    let least = toml("disk = '4KiB'").unwrap();
    assert_eq!(least.disk, Some(ByteSize::kib(4)));
}

#[test]
fn preset_sets_fields_that_the_file_leaves_out() {
    for preset in Preset::ALL {
        assert_eq!(
            toml(&format!("extends = '{}'", preset.as_str())).unwrap(),
            preset.policy()
        );
    }
    let policy = toml("extends = 'strict'\nmemory = '64MiB'\nrequire_all = false").unwrap();
    let strict = Preset::Strict.policy();
    assert_eq!(policy.memory, Some(ByteSize::mib(64)));
    assert_eq!(policy.cpus, strict.cpus);
    assert!(strict.require_all && !policy.require_all);
    // A list replaces the preset's list, even if it is empty.
    assert_eq!(
        toml("extends = 'workspace'\nallow_partial = []")
            .unwrap()
            .allow_partial,
        []
    );
    assert_eq!(Preset::Workspace.policy().allow_partial, [Capability::Disk]);
}

#[test]
fn capability_names_round_trip() {
    for capability in Capability::ALL {
        assert_eq!(
            capability.as_str().parse::<Capability>().unwrap(),
            *capability
        );
        let policy = toml(&format!("allow_partial = ['{capability}']")).unwrap();
        assert_eq!(policy.allow_partial, [*capability]);
    }
}
