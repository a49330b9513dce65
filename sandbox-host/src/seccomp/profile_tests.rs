use proptest::prelude::*;

use super::{Action, Arch, Argument, Condition, EngineProfile, Errno, Filter, Rule, Syscall};

/// Calls that both architectures have.
const CALLS: [Syscall; 3] = [Syscall::SOCKET, Syscall::CLONE, Syscall::IOCTL];

fn argument() -> impl Strategy<Value = Argument> {
    prop::sample::select(vec![Argument::First, Argument::Second, Argument::Third])
}

/// Few bits, so that conditions overlap.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![0..8_u64, Just(0xffff_ffff), Just(1 << 32 | 2), Just(0x5412)]
}

/// Masks of whole arguments. Each excluded value needs a product per bit, and products multiply
/// with each further condition and rule. So there are at most two rules, with one condition of one
/// value each; otherwise a rare test case takes minutes.
const WIDE: [u64; 2] = [0xffff_ffff, u64::MAX];

/// Masks of few bits, which allow many rules.
const NARROW: [u64; 3] = [7, 0x8000_0002, 0x1_0000_0010];

fn condition(masks: &'static [u64], most: usize) -> impl Strategy<Value = Condition> {
    let mask = prop::sample::select(masks);
    let values = prop::collection::vec(word(), 0..=most);
    (argument(), mask, any::<bool>(), values).prop_map(|(argument, mask, member, values)| {
        let bits = Condition::masked(argument, mask);
        if member {
            bits.one_of(values)
        } else {
            bits.none_of(values)
        }
    })
}

/// A rule with at most `most[0]` conditions of at most `most[1]` values each.
fn rule(masks: &'static [u64], most: [usize; 2]) -> impl Strategy<Value = Rule> {
    let action = prop_oneof![
        1 => Just(Action::Allow),
        4 => Just(Action::Errno(Errno::EPERM)),
        1 => Just(Action::KillProcess),
    ];
    let conditions = prop::collection::vec(condition(masks, most[1]), 0..=most[0]);
    (prop::sample::select(CALLS.to_vec()), conditions, action).prop_map(
        |(syscall, conditions, action)| {
            conditions
                .into_iter()
                .fold(Rule::new(syscall, action), Rule::when)
        },
    )
}

/// At most two rules with wide masks, or several with narrow ones.
fn rules() -> impl Strategy<Value = Vec<Rule>> {
    prop_oneof![
        prop::collection::vec(rule(&WIDE, [1, 1]), 0..3),
        prop::collection::vec(rule(&NARROW, [2, 3]), 0..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_profile_allows_what_the_filter_allows(
        rules in rules(),
        calls in prop::collection::vec(
            (prop::sample::select(CALLS.to_vec()), prop::array::uniform6(word())),
            40,
        ),
    ) {
        for arch in Arch::ALL {
            let filter = Filter::new(arch, rules.clone());
            let profile = EngineProfile::new(&filter);
            prop_assert!(profile.names_arguments_once());
            for (syscall, arguments) in &calls {
                let number = syscall.number(arch).expect("both have it");
                let allowed = filter.decide(number, arguments) == Action::Allow;
                prop_assert_eq!(profile.allows(syscall.name(), arguments), allowed);
            }
        }
    }
}

#[test]
fn what_is_not_reviewed_is_not_in_a_profile() {
    let filter = Filter::new(Arch::X86_64, []);
    let none = [0; 6];
    assert!(EngineProfile::new(&filter).allows("futex_wait", &none));
    let filter = filter.reviewed_up_to(400);
    assert!(!EngineProfile::new(&filter).allows("futex_wait", &none));
    assert!(EngineProfile::new(&filter).allows("read", &none));
}

#[test]
fn errors_are_those_of_the_rules() {
    let rules = [
        Rule::refuse(Syscall::MOUNT, Errno::EPERM),
        Rule::refuse(Syscall::CLONE3, Errno::ENOSYS),
        Rule::refuse(Syscall::PERSONALITY, Errno::EPERM)
            .when(Condition::int(Argument::First).equals(8)),
    ];
    let profile = EngineProfile::new(&Filter::new(Arch::Aarch64, rules));
    let json: serde_json::Value = serde_json::from_str(&profile.to_json()).expect("JSON");
    assert_eq!(json["defaultErrnoRet"], 38);
    let groups = json["syscalls"].as_array().expect("groups");
    let refused = groups
        .iter()
        .filter(|group| group["action"] == "SCMP_ACT_ERRNO");
    let refused = refused
        .map(|group| (&group["names"][0], &group["errnoRet"]))
        .collect::<Vec<_>>();
    assert_eq!(
        serde_json::json!(refused),
        serde_json::json!([["mount", 1], ["clone3", 38]])
    );
    for name in ["clone3", "mount", "fork"] {
        assert!(!profile.allows(name, &[0; 6]), "{name}");
    }
    assert!(profile.allows("personality", &[0; 6]));
    assert!(!profile.allows("personality", &[8, 0, 0, 0, 0, 0]));
}
