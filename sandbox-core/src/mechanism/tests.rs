use proptest::prelude::*;

use super::*;
use crate::Enforcement;

/// Every mechanism except [`Mechanism::Other`].
fn known() -> Vec<Mechanism> {
    let fixed = Mechanism::FIXED
        .iter()
        .map(|(mechanism, _)| mechanism.clone());
    let named = Mechanism::NAMED
        .iter()
        .map(|(named, ..)| named("/tmp 7MiB, /x 2MiB".into()));
    let limits = CgroupLimit::all().map(Mechanism::Cgroup);
    fixed.chain(named).chain(limits).collect()
}

#[test]
fn every_mechanism_is_read_back() {
    for mechanism in known() {
        let enforcement = Enforcement::partial(mechanism, "a gap");
        let json = serde_json::to_string(&enforcement).expect("JSON");
        let read: Enforcement = serde_json::from_str(&json).expect("an enforcement");
        assert_eq!(read, enforcement, "{json}");
    }
}

#[test]
fn every_pair_of_fixed_mechanisms_is_read_back() {
    for (first, _) in Mechanism::FIXED {
        for (second, _) in Mechanism::FIXED {
            let pair = Mechanisms::from([first.clone(), second.clone()]);
            assert_eq!(Mechanisms::from(pair.to_string()), pair, "{pair}");
        }
    }
}

#[test]
fn remarks_are_not_set_off_by_a_comma() {
    use Mechanism::*;
    let limit = CgroupLimit::new(CgroupVersion::V2, CgroupController::Memory);
    for (text, mechanisms) in [
        (
            "cgroup v2 memory in a scope of the user's systemd, swap included",
            vec![Cgroup(limit), UserSystemdScope, SwapLimit],
        ),
        (
            "the container's cgroup v2 memory, swap included of runsc and the code together",
            vec![
                Cgroup(limit.owned_by(LimitOwner::Container)),
                SwapLimit,
                SharedWithRuntime("runsc".into()),
            ],
        ),
        (
            "read-only mounts, Landlock (named pipes in read roots can be written)",
            vec![ReadOnlyMounts, Landlock, OpenPipes],
        ),
        (
            "interfaces taken down by the agent before anybody is served, and the capability given \
             up; seccomp",
            vec![InterfacesDown, Seccomp],
        ),
        (
            "pid and ipc namespaces; pod a-1 of the warm pool, started ahead",
            vec![PidAndIpcNamespaces, WarmPoolPod("a-1".into())],
        ),
    ] {
        assert_eq!(Mechanisms::from(mechanisms.clone()).to_string(), text);
        assert_eq!(Mechanisms::from(text), mechanisms.into());
    }
}

#[test]
fn unknown_words_keep_known_neighbors() {
    let read = Mechanisms::from("Landlock, seccomp filter, no_new_privs");
    let other = Mechanism::Other("seccomp filter".into());
    assert_eq!(
        read[..],
        [Mechanism::Landlock, other, Mechanism::NoNewPrivileges]
    );
    let read = Mechanisms::from("Landlock;luck");
    assert_eq!(read[..], [Mechanism::Other("Landlock;luck".into())]);
}

proptest! {
    #[test]
    fn every_text_is_shown_again(
        parts in proptest::collection::vec(prop_oneof![
            proptest::sample::select(known()).prop_map(|mechanism| mechanism.to_string()),
            proptest::sample::select(vec![", ", "; ", " ", ",", "of ", "pod "]).prop_map(str::to_owned),
            "[a-z ]{0,4}",
        ], 0..8),
    ) {
        let text = parts.concat();
        prop_assert_eq!(Mechanisms::from(text.as_str()).to_string(), text);
    }
}
