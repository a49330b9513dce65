use std::io::Write as _;

use sandbox::policy::{EgressRules, NetworkPolicy};

use super::super::network::NetworkOption;
use super::*;

fn ceiling(toml: &str) -> Ceiling {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    write!(file, "version = 1\n{toml}").unwrap();
    Ceiling::of(&PolicySource::read(file.path(), false).unwrap()).unwrap()
}

fn memory(ceiling: &mut Ceiling, asked: ByteSize) -> Result<(), CommandError> {
    ceiling.limit("--memory", Some(asked), |policy| &mut policy.memory)
}

#[test]
fn option_narrows_policy_file() {
    let mut ceiling = ceiling("memory = '64MiB'");
    memory(&mut ceiling, ByteSize::mib(32)).unwrap();
    assert_eq!(ceiling.into_policy().memory, Some(ByteSize::mib(32)));
}

#[test]
fn exceeding_policy_file_is_refused_with_both_values() {
    let refused = memory(&mut ceiling("memory = '64MiB'"), ByteSize::mib(65))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("--memory 65MiB") && refused.contains("allows 64MiB"),
        "{refused}"
    );
    let mut strict = ceiling("extends = 'strict'");
    let timeout = Some(Duration::from_secs(31));
    let refused = strict
        .limit("--timeout", timeout, |policy| &mut policy.timeout)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("--timeout 31s") && refused.contains("allows 30s"),
        "{refused}"
    );
}

#[test]
fn option_sets_field_missing_in_policy_file() {
    let mut ceiling = ceiling("");
    memory(&mut ceiling, ByteSize::mib(2048)).unwrap();
    ceiling.read_roots(vec!["/usr".into()]).unwrap();
    ceiling.export_paths(vec!["/output/a".into()]).unwrap();
    let policy = ceiling.into_policy();
    assert_eq!(policy.memory, Some(ByteSize::mib(2048)));
    assert_eq!(policy.filesystem_read_roots, Some(vec!["/usr".into()]));
    assert_eq!(policy.artifact_export_paths, ["/output/a"]);
}

#[test]
fn preset_does_not_limit_options() {
    let mut ceiling = Ceiling::open(sandbox::policy::Preset::Strict.policy());
    memory(&mut ceiling, ByteSize::mib(1024)).unwrap();
    ceiling
        .accept("--allow-partial", &[Capability::Memory], |policy| {
            &mut policy.allow_partial
        })
        .unwrap();
}

#[test]
fn roots_must_be_below_policy_file_roots_after_resolving_links() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("data");
    std::fs::create_dir(&inside).unwrap();
    let link = inside.join("out");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let policy = format!("filesystem_read_roots = [{inside:?}]\nfilesystem_write_roots = []");
    assert!(ceiling(&policy).read_roots(vec![inside.clone()]).is_ok());
    assert!(
        ceiling(&policy)
            .read_roots(vec![folder.path().to_owned()])
            .is_err()
    );
    assert!(ceiling(&policy).read_roots(vec![link]).is_err());
    assert!(ceiling(&policy).write_roots(vec![inside.clone()]).is_err());
    assert!(
        ceiling(&policy)
            .workspace(&Workspace::read_only(&inside))
            .is_ok()
    );
    assert!(
        ceiling(&policy)
            .workspace(&Workspace::read_write(&inside))
            .is_err()
    );
    assert!(
        ceiling(&policy)
            .workspace(&Workspace::read_only("/etc"))
            .is_err()
    );
}

#[test]
fn write_roots_must_be_below_read_roots_if_only_those_are_set() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("data");
    std::fs::create_dir(&inside).unwrap();
    let policy = format!("filesystem_read_roots = [{inside:?}]");
    for (path, allowed) in [(&*inside, true), (folder.path(), false)] {
        let workspace = Workspace::read_write(path);
        assert_eq!(ceiling(&policy).workspace(&workspace).is_ok(), allowed);
        let written = ceiling(&policy).write_roots(vec![path.to_owned()]);
        assert_eq!(written.is_ok(), allowed);
    }
    // A file that says nothing of either leaves both to the options.
    let mut open = ceiling("");
    open.read_roots(vec![inside]).unwrap();
    open.write_roots(vec![folder.path().to_owned()]).unwrap();
}

#[test]
fn artifact_paths_must_be_covered_by_policy_file() {
    let policy = "artifact_export_paths = ['/output/**', '/a', '/b/*.txt']";
    let export = |path: &str| ceiling(policy).export_paths(vec![path.into()]);
    for allowed in ["/output/x", "/output/**", "/a", "/a/b", "/b/*.txt"] {
        assert!(export(allowed).is_ok(), "{allowed}");
    }
    for refused in ["/output", "/outputs/x", "/ab", "/b/x.txt", "/**"] {
        assert!(export(refused).is_err(), "{refused}");
    }
    assert!(
        ceiling("artifact_export_paths = []")
            .export_paths(vec!["/a".into()])
            .is_err()
    );
}

#[test]
fn only_policy_file_can_accept_weaker_enforcement() {
    let accept = |ceiling: &mut Ceiling| {
        ceiling.accept("--allow-unenforced", &[Capability::Cpus], |policy| {
            &mut policy.allow_unenforced
        })
    };
    assert!(accept(&mut ceiling("")).is_err());
    assert!(accept(&mut ceiling("allow_unenforced = ['cpus']")).is_ok());
    assert!(accept(&mut Ceiling::open(CapabilityPolicy::new())).is_ok());
}

#[test]
fn follow_option_is_refused_if_policy_file_forbids_it() {
    for (policy, allowed) in [
        ("", true),
        ("follow_links = true", true),
        ("follow_links = false", false),
    ] {
        let mut ceiling = ceiling(policy);
        assert_eq!(ceiling.follow_links(true).is_ok(), allowed, "{policy}");
        assert!(ceiling.follow_links(false).is_ok(), "{policy}");
    }
}

#[test]
fn hosts_are_the_policy_without_a_file_and_a_request_under_one() {
    let rules = |rules: &[&str]| EgressRules::parse(rules).unwrap();
    let allow = |ceiling: &mut Ceiling, hosts: &[&str]| ceiling.allow_hosts(&rules(hosts));
    let allowed = |hosts: &[&str]| Some(NetworkPolicy::Allow(rules(hosts).into_rules()));

    let strict = sandbox::policy::Preset::Strict.policy();
    let unset = ceiling("memory = '64MiB'");
    for mut open in [Ceiling::open(strict), unset] {
        assert_eq!(allow(&mut open, &["a.org"]).unwrap(), None);
        assert_eq!(open.into_policy().network, allowed(&["a.org"]));
    }

    let mut file = ceiling("egress = ['*.a.org', '!x.a.org']");
    let asked = allow(&mut file, &["y.a.org:443"]).unwrap();
    assert_eq!(asked, Some(vec!["y.a.org:443".to_owned()]));
    for (host, named) in [
        ("b.org", "*.a.org"),
        ("x.a.org", "!x.a.org"),
        ("y.a.org:22", "*.a.org"),
    ] {
        let refused = allow(&mut file, &[host]).unwrap_err().to_string();
        assert!(
            refused.contains(host) && refused.contains(named),
            "{refused}"
        );
    }
    assert_eq!(allow(&mut file, &[]).unwrap(), None);
    assert_eq!(
        file.into_policy().network,
        allowed(&["*.a.org", "!x.a.org"])
    );

    for closed in ["network = 'none'", "extends = 'strict'"] {
        let refused = allow(&mut ceiling(closed), &["a.org"])
            .unwrap_err()
            .to_string();
        assert!(refused.contains("allows network = none"), "{refused}");
    }
    assert!(
        allow(&mut ceiling("network = 'full'"), &["a.org"])
            .unwrap()
            .is_some()
    );
}

#[test]
fn network_option_cannot_open_what_policy_file_limits() {
    let full = |ceiling: &mut Ceiling| ceiling.network(NetworkOption::Full);
    let none = |ceiling: &mut Ceiling| ceiling.network(NetworkOption::None).unwrap();
    for limited in [
        "network = 'none'",
        "egress = ['a.org']",
        "extends = 'strict'",
    ] {
        assert!(full(&mut ceiling(limited)).is_err(), "{limited}");
        assert_eq!(none(&mut ceiling(limited)), Some(Vec::new()));
    }
    for open in ["", "network = 'full'"] {
        let mut ceiling = ceiling(open);
        assert_eq!(full(&mut ceiling).unwrap(), None);
        assert_eq!(ceiling.into_policy().network, Some(NetworkPolicy::Full));
    }
    let mut open = Ceiling::open(CapabilityPolicy::new().network(NetworkPolicy::Full));
    assert_eq!(none(&mut open), None);
    assert_eq!(open.into_policy().network, Some(NetworkPolicy::None));
}
