//! Every policy can be written as a file and read again.

use std::path::PathBuf;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use sandbox_core::policy::{NetworkPolicy, PolicyFile};
use sandbox_core::{ByteSize, Capability, CapabilityPolicy, Cpus, MountSource};

fn path() -> impl Strategy<Value = PathBuf> {
    "/[a-zA-Z0-9 _é'\"\\\\-]{0,12}(/[a-z0-9]{1,8}){0,2}".prop_map(PathBuf::from)
}

fn export_path() -> impl Strategy<Value = String> {
    "/[a-z0-9 ü*?\"]{1,12}(/[a-z0-9]{1,8}){0,2}"
}

fn network() -> impl Strategy<Value = NetworkPolicy> {
    let rule = "(\\*\\.)?[a-z][a-z0-9]{0,9}(\\.[a-z]{2,5}){0,2}(:[1-9][0-9]{0,3})?";
    let rules = vec(rule.prop_map(|rule| rule.parse().unwrap()), 1..4);
    prop_oneof![
        Just(NetworkPolicy::None),
        Just(NetworkPolicy::Full),
        rules.prop_map(NetworkPolicy::Allow),
    ]
}

fn size() -> impl Strategy<Value = ByteSize> {
    prop_oneof![
        (1_u64 << 20..u64::MAX).prop_map(ByteSize::bytes),
        (1_u64..1 << 30).prop_map(ByteSize::mib)
    ]
}

fn capabilities() -> impl Strategy<Value = Vec<Capability>> {
    let loosened = |capability: &Capability| {
        !matches!(
            capability,
            Capability::StdoutMaxBytes | Capability::StderrMaxBytes
        )
    };
    vec(
        proptest::sample::select(Capability::ALL).prop_filter("enforced everywhere", loosened),
        0..4,
    )
}

/// At least a millisecond, the minimum of `file_timeout`.
fn time() -> impl Strategy<Value = Duration> {
    (1_000_000_u64..u64::MAX / 2).prop_map(Duration::from_nanos)
}

prop_compose! {
    fn limits()(
        times in [of(time()), of(time()), of(time())],
        sizes in [of(size()), of(size()), of(size()), of(size())],
        cpus in of((10_u32..4_096_000).prop_map(Cpus::milli)),
        pids in of(1_u32..),
        open_files in of(8_u32..),
    ) -> CapabilityPolicy {
        let mut policy = CapabilityPolicy::new();
        [policy.timeout, policy.lifetime, policy.file_timeout] = times;
        [policy.memory, policy.disk, policy.stdout_max_bytes, policy.stderr_max_bytes] = sizes;
        policy.cpus = cpus;
        policy.pids = pids;
        policy.open_files = open_files;
        policy
    }
}

prop_compose! {
    fn policies()(
        mut policy in limits(),
        roots in [of(vec(path(), 0..3)), of(vec(path(), 0..3))],
        sources in of(vec((path(), any::<bool>()), 0..3)),
        network in of(network()),
        switches in [of(any::<bool>()), of(any::<bool>())],
        lists in [vec("[a-z]{1,8}", 0..3), vec("[A-Z_]{1,8}", 0..3)],
        export in vec(export_path(), 0..3),
        images in of(vec("(example\\.org/|\\*\\*/)?[a-z]{1,8}(:[a-z0-9*]{1,4})?", 0..3)),
        require_all in any::<bool>(),
        loosened in [capabilities(), capabilities()],
    ) -> CapabilityPolicy {
        [policy.filesystem_read_roots, policy.filesystem_write_roots] = roots;
        policy.mount_sources = sources.map(|sources| {
            let source = |(path, read_only)| match read_only {
                true => MountSource::read_only(path),
                false => MountSource::read_write(path),
            };
            sources.into_iter().map(source).collect()
        });
        policy.network = network;
        [policy.subprocess_execution, policy.env_var_access] = switches;
        [policy.packages, policy.secrets] = lists;
        policy.artifact_export_paths = export;
        policy.images = images;
        policy.require_all = require_all;
        [policy.allow_partial, policy.allow_unenforced] = loosened;
        policy
    }
}

proptest! {
    #[test]
    fn policy_round_trips_through_toml_and_json(policy in policies()) {
        let file = PolicyFile::from(&policy);
        let toml = toml::to_string(&file).unwrap();
        let read = PolicyFile::from_toml(&toml).unwrap();
        prop_assert_eq!(&read, &file);
        prop_assert_eq!(read.resolve().unwrap(), policy.clone());
        let json = serde_json::to_string(&file).unwrap();
        prop_assert_eq!(PolicyFile::from_json(&json).unwrap().resolve().unwrap(), policy);
    }

    #[test]
    fn sizes_round_trip_through_text(bytes in any::<u64>()) {
        let size = ByteSize::bytes(bytes);
        prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size);
    }

    #[test]
    fn any_text_is_parsed_without_panic(text in ".{0,64}") {
        // The text need not be a policy.
        let _ = PolicyFile::from_toml(&text);
        let _ = PolicyFile::from_json(&text);
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<Cpus>();
    }
}
