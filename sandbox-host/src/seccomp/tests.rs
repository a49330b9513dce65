use proptest::prelude::*;

use super::interpreter::{Data, decode, run};
use super::{Action, Arch, Argument, Condition, Errno, Filter, Rule, Syscall};

fn verdict(filter: &Filter, number: u32, arguments: [u64; 6]) -> u32 {
    let program = decode(&filter.compile().expect("a short filter"));
    let data = Data {
        number,
        arch: filter.arch().audit(),
        arguments,
    };
    run(&program, &data)
        .expect("a program that the kernel takes")
        .code
}

/// Words with common halves, so that conditions often hold, or hold for the wrong half.
fn word() -> impl Strategy<Value = u64> {
    let half = || {
        prop_oneof![
            Just(0_u64),
            Just(1),
            Just(2),
            Just(0xf0),
            Just(0xffff_ffff),
            0..8_u64
        ]
    };
    (half(), half()).prop_map(|(low, high)| high << 32 | low)
}

fn argument() -> impl Strategy<Value = Argument> {
    use Argument::{Fifth, First, Fourth, Second, Sixth, Third};
    prop::sample::select(vec![First, Second, Third, Fourth, Fifth, Sixth])
}

fn condition() -> impl Strategy<Value = Condition> {
    let mask = prop_oneof![
        Just(u64::MAX),
        Just(0xffff_ffff),
        Just(0xffff_ffff_0000_0000),
        word()
    ];
    (
        argument(),
        mask,
        any::<bool>(),
        prop::collection::vec(word(), 0..6),
    )
        .prop_map(|(argument, mask, member, values)| {
            let bits = Condition::masked(argument, mask);
            if member {
                bits.one_of(values)
            } else {
                bits.none_of(values)
            }
        })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Allow),
        Just(Action::KillProcess),
        (1..200_u16).prop_map(|number| Action::Errno(Errno(number))),
    ]
}

/// Few numbers, so that rules share calls or are neighbors; one is above the reviewed ones.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..40_u32, 460..475_u32]
}

fn rule() -> impl Strategy<Value = Rule> {
    let numbers = (
        prop::option::weighted(0.9, number()),
        prop::option::weighted(0.9, number()),
    );
    (numbers, prop::collection::vec(condition(), 0..4), action()).prop_map(
        |((x86_64, aarch64), conditions, action)| {
            let rule = Rule::new(Syscall::new("any", x86_64, aarch64), action);
            conditions.into_iter().fold(rule, Rule::when)
        },
    )
}

fn called() -> impl Strategy<Value = u32> {
    let x32 = number().prop_map(|number| number | 0x4000_0000);
    prop_oneof![8 => number(), 1 => x32, 1 => any::<u32>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_program_decides_as_the_rules_say(
        rules in prop::collection::vec(rule(), 0..60),
        calls in prop::collection::vec((called(), prop::array::uniform6(word())), 30),
    ) {
        for arch in Arch::ALL {
            let filter = Filter::new(arch, rules.clone());
            let program = decode(&filter.compile().expect("a short filter"));
            for (number, arguments) in &calls {
                let data = Data { number: *number, arch: arch.audit(), arguments: *arguments };
                let end = run(&program, &data).expect("a program that the kernel takes");
                prop_assert_eq!(end.code, filter.decide(*number, arguments).code());
            }
        }
    }

    #[test]
    fn another_interface_kills(number in any::<u32>(), arch in any::<u32>()) {
        for target in Arch::ALL {
            prop_assume!(arch != target.audit());
            let filter = Filter::new(target, [Rule::refuse(Syscall::MOUNT, Errno::EPERM)]);
            let program = decode(&filter.compile().expect("a short filter"));
            let data = Data { number, arch, arguments: [0; 6] };
            let end = run(&program, &data).expect("a program that the kernel takes");
            prop_assert_eq!(end.code, Action::KillProcess.code());
        }
    }
}

/// Sets of this length put more than 255 instructions between a branch and its targets.
#[test]
fn branches_reach_further_than_a_byte() {
    for (calls, values) in [(1, 600), (4, 300), (120, 15), (300, 5), (400, 0)] {
        let rules = (0..calls).flat_map(|call| {
            let syscall = Syscall::new("any", Some(call), Some(call));
            let set = (0..values).map(|value| value * 3 + u64::from(call));
            let errno = Action::Errno(Errno(1 + call as u16));
            let first = Rule::new(syscall, Action::KillProcess)
                .when(Condition::int(Argument::First).one_of(set));
            let second =
                Rule::new(syscall, errno).when(Condition::long(Argument::Sixth).equals(1 << 40));
            [first, second]
        });
        let filter = Filter::new(Arch::Aarch64, rules);
        let program = decode(&filter.compile().expect("within the kernel's bound"));
        let far = program
            .iter()
            .any(|instruction| instruction.code == super::instruction::JUMP);
        assert!(
            far || values == 0,
            "{calls} calls with {values} values need no far jump"
        );
        for call in 0..calls + 2 {
            for first in [
                0,
                1,
                u64::from(call),
                u64::from(call) + 3,
                3 * values,
                1 << 32,
            ] {
                for sixth in [0, 1 << 40, 1 << 8] {
                    let arguments = [first, 0, 0, 0, 0, sixth];
                    let data = Data {
                        number: call,
                        arch: Arch::Aarch64.audit(),
                        arguments,
                    };
                    let end = run(&program, &data).expect("a program that the kernel takes");
                    assert_eq!(end.code, filter.decide(call, &arguments).code(), "{data:?}");
                }
            }
        }
    }
}

#[test]
fn a_filter_beyond_the_kernels_bound_is_an_error() {
    let rule = Rule::refuse(Syscall::SOCKET, Errno::EPERM)
        .when(Condition::int(Argument::First).one_of(0..5000));
    let error = Filter::new(Arch::X86_64, [rule])
        .compile()
        .expect_err("too long");
    assert!(error.0 > 4096, "{error}");
}

#[test]
fn the_high_half_of_an_int_is_ignored() {
    let rule = Rule::refuse(Syscall::IOCTL, Errno::EPERM)
        .when(Condition::int(Argument::Second).equals(0x5412));
    let filter = Filter::new(Arch::X86_64, [rule]);
    let refused = Action::Errno(Errno::EPERM).code();
    assert_eq!(verdict(&filter, 16, [0, 0x5412, 0, 0, 0, 0]), refused);
    assert_eq!(
        verdict(&filter, 16, [0, 1 << 32 | 0x5412, 0, 0, 0, 0]),
        refused
    );
    assert_eq!(
        verdict(&filter, 16, [0, 0x5413, 0, 0, 0, 0]),
        Action::Allow.code()
    );
}

#[test]
fn the_first_rule_that_holds_counts() {
    let filter = Filter::new(
        Arch::Aarch64,
        [
            Rule::allow(Syscall::PERSONALITY).when(Condition::int(Argument::First).equals(0)),
            Rule::refuse(Syscall::PERSONALITY, Errno::EPERM),
            Rule::new(Syscall::PERSONALITY, Action::KillProcess),
        ],
    );
    assert_eq!(verdict(&filter, 92, [0; 6]), Action::Allow.code());
    assert_eq!(
        verdict(&filter, 92, [1, 0, 0, 0, 0, 0]),
        Action::Errno(Errno::EPERM).code()
    );
}

#[test]
fn x32_and_unreviewed_numbers_do_not_exist() {
    let filter = Filter::new(Arch::X86_64, []);
    let missing = Action::Errno(Errno::ENOSYS).code();
    assert_eq!(verdict(&filter, 469, [0; 6]), Action::Allow.code());
    for number in [470, 0x4000_0000, 0x4000_0027, u32::MAX] {
        assert_eq!(verdict(&filter, number, [0; 6]), missing, "{number:#x}");
    }
    let everything = filter.reviewed_up_to(u32::MAX);
    assert_eq!(
        verdict(&everything, 0x3fff_ffff, [0; 6]),
        Action::Allow.code()
    );
    assert_eq!(verdict(&everything, 0x4000_0000, [0; 6]), missing);
}

#[test]
fn the_search_is_short() {
    let rules = Syscall::ALL
        .iter()
        .map(|syscall| Rule::refuse(*syscall, Errno::EPERM));
    let filter = Filter::new(Arch::X86_64, rules);
    let program = decode(&filter.compile().expect("a short filter"));
    for number in 0..500 {
        let data = Data {
            number,
            arch: Arch::X86_64.audit(),
            arguments: [0; 6],
        };
        let end = run(&program, &data).expect("a program that the kernel takes");
        assert!(end.steps <= 12, "number {number} takes {} steps", end.steps);
    }
}

/// Compares the tables with the C library's constants of the test machine's architecture.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[test]
fn the_numbers_are_the_kernels() {
    let here = Arch::native().expect("a known architecture");
    let known = [
        (Syscall::BPF, libc::SYS_bpf),
        (Syscall::CLONE, libc::SYS_clone),
        (Syscall::CLONE3, libc::SYS_clone3),
        (Syscall::FCHMODAT2, libc::SYS_fchmodat2),
        (Syscall::IOCTL, libc::SYS_ioctl),
        (Syscall::KEYCTL, libc::SYS_keyctl),
        (Syscall::MKNODAT, libc::SYS_mknodat),
        (Syscall::MOUNT, libc::SYS_mount),
        (Syscall::PERSONALITY, libc::SYS_personality),
        (Syscall::PRLIMIT64, libc::SYS_prlimit64),
        (Syscall::PTRACE, libc::SYS_ptrace),
        (Syscall::SCHED_SETATTR, libc::SYS_sched_setattr),
        (Syscall::SEMTIMEDOP, libc::SYS_semtimedop),
        (Syscall::SETNS, libc::SYS_setns),
        (Syscall::SETPRIORITY, libc::SYS_setpriority),
        (Syscall::SOCKET, libc::SYS_socket),
        (Syscall::SOCKETPAIR, libc::SYS_socketpair),
        (Syscall::SYSLOG, libc::SYS_syslog),
        (Syscall::TGKILL, libc::SYS_tgkill),
        (Syscall::UMOUNT2, libc::SYS_umount2),
        (Syscall::USERFAULTFD, libc::SYS_userfaultfd),
    ];
    for (syscall, number) in known {
        assert_eq!(
            syscall.number(here).map(i64::from),
            Some(number),
            "{syscall}"
        );
    }
}

#[test]
fn names_and_numbers_are_unique() {
    for arch in Arch::ALL {
        let mut numbers = Syscall::ALL
            .iter()
            .filter_map(|s| s.number(arch))
            .collect::<Vec<_>>();
        let before = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), before, "{arch}");
    }
    assert!(
        Syscall::ALL
            .iter()
            .is_sorted_by_key(|syscall| syscall.name())
    );
}
