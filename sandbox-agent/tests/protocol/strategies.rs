//! Generators of arbitrary messages.

use proptest::{collection::vec, option, prelude::*};
use sandbox_agent::protocol::{
    AgentSettings, Builtin, ClientKey, Confinement, ConnectRequest, ConnectTarget, EgressHost,
    EgressRule, EgressSettings, EgressTable, ExecProgram, ExecRequest, ExitKind, ExitReport,
    ExpectedObject, FailStep, Failure, HostObject, IpRange, LandlockPath, LandlockRules, Mount,
    ResourceLimit, Setup, TerminalSize, UserLimit,
};

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

pub fn builtin() -> impl Strategy<Value = Builtin> {
    prop_oneof![
        (bytes(), any::<u32>()).prop_map(|(path, mode)| Builtin::Put { path, mode }),
        bytes().prop_map(|path| Builtin::Get { path }),
        (bytes(), any::<u32>()).prop_map(|(path, depth)| Builtin::List { path, depth }),
        (bytes(), any::<u32>()).prop_map(|(path, mode)| Builtin::MakeDir { path, mode }),
        bytes().prop_map(|path| Builtin::Remove { path }),
    ]
}

pub fn request() -> impl Strategy<Value = ExecRequest> {
    let program = prop_oneof![
        vec(bytes(), 1..5).prop_map(|argv| ExecProgram::Command { argv }),
        builtin().prop_map(ExecProgram::Builtin),
    ];
    (
        program,
        vec(bytes(), 0..5),
        bytes(),
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
        option::of(any::<(u16, u16)>()),
        any::<bool>(),
    )
        .prop_map(
            |(program, env, workdir, stdin, timeout_ms, log, size, root)| ExecRequest {
                root: root && matches!(program, ExecProgram::Command { .. }),
                terminal: size
                    .filter(|_| matches!(program, ExecProgram::Command { .. }))
                    .map(|(rows, columns)| TerminalSize { rows, columns }),
                program,
                env,
                workdir,
                stdin,
                timeout_ms,
                log,
            },
        )
}

pub fn object() -> impl Strategy<Value = Option<HostObject>> {
    option::of(any::<(u64, u64)>().prop_map(|(device, inode)| HostObject { device, inode }))
}

pub fn mount() -> impl Strategy<Value = Mount> {
    prop_oneof![
        (bytes(), bytes(), any::<[bool; 3]>(), object()).prop_map(
            |(source, target, [read_only, devices, optional], object)| Mount::Bind {
                source,
                target,
                read_only,
                devices,
                optional,
                object,
            }
        ),
        bytes().prop_map(|target| Mount::Proc { target }),
        (bytes(), any::<u32>()).prop_map(|(target, most)| Mount::Terminals { target, most }),
        (bytes(), bytes()).prop_map(|(points_to, target)| Mount::Symlink { points_to, target }),
        bytes().prop_map(|target| Mount::Dir { target }),
        (bytes(), bytes(), any::<u32>()).prop_map(|(target, content, mode)| Mount::File {
            target,
            content,
            mode
        }),
        bytes().prop_map(|target| Mount::ReadOnly { target }),
        (bytes(), object()).prop_map(|(target, object)| Mount::Mask { target, object }),
        bytes().prop_map(|target| Mount::Pin { target }),
        bytes().prop_map(|target| Mount::ReadOnlyPart { target }),
    ]
}

pub fn setup() -> impl Strategy<Value = Setup> {
    (
        vec(mount(), 0..6),
        bytes(),
        any::<[bool; 5]>(),
        vec((bytes(), any::<u64>()), 0..3),
        option::of(vec(range(), 0..3)),
    )
        .prop_map(|(mounts, hostname, flags, user_limits, egress)| {
            let [new_root, loopback, user_namespace, pid_one, die_with_parent] = flags;
            Setup {
                new_root,
                mounts,
                hostname,
                loopback,
                user_namespace,
                egress,
                user_limits: user_limits
                    .into_iter()
                    .map(|(name, most)| UserLimit { name, most })
                    .collect(),
                pid_one,
                die_with_parent,
            }
        })
}

pub fn range() -> impl Strategy<Value = IpRange> {
    let four = (any::<[u8; 4]>(), 0u8..=32).prop_map(|(bytes, prefix)| (bytes.into(), prefix));
    let six = (any::<[u8; 16]>(), 0u8..=128).prop_map(|(bytes, prefix)| (bytes.into(), prefix));
    prop_oneof![four, six].prop_map(|(address, prefix)| IpRange { address, prefix })
}

pub fn table() -> impl Strategy<Value = EgressTable> {
    let host = prop_oneof![
        bytes().prop_map(EgressHost::Name),
        bytes().prop_map(EgressHost::Suffix),
        range().prop_map(EgressHost::Range),
    ];
    let rule =
        (any::<bool>(), host, vec(1u16.., 0..3)).prop_map(|(denies, host, ports)| EgressRule {
            denies,
            host,
            ports,
        });
    vec(rule, 0..4).prop_map(|rules| EgressTable { rules })
}

pub fn connect() -> impl Strategy<Value = ConnectRequest> {
    let target = prop_oneof![
        bytes().prop_map(ConnectTarget::Name),
        range().prop_map(|range| ConnectTarget::Address(range.address)),
    ];
    (target, 1u16..).prop_map(|(target, port)| ConnectRequest { target, port })
}

pub fn settings() -> impl Strategy<Value = AgentSettings> {
    let landlock = (
        any::<bool>(),
        any::<[u64; 3]>(),
        vec((bytes(), any::<u64>(), object()), 0..4),
    )
        .prop_map(
            |(adapts, [handled_fs, handled_net, scoped], paths)| LandlockRules {
                adapts,
                handled_fs,
                handled_net,
                scoped,
                paths: paths
                    .into_iter()
                    .map(|(path, access, object)| LandlockPath {
                        path,
                        access,
                        object,
                    })
                    .collect(),
            },
        );
    let confinement = (
        option::of(any::<(u32, u32)>()),
        vec(any::<(u32, u64)>(), 0..4),
        option::of(landlock),
        vec(any::<[u8; 8]>(), 0..4),
        any::<bool>(),
        any::<u32>(),
    )
        .prop_map(
            |(identity, limits, landlock, seccomp, exec_once, umask)| Confinement {
                identity,
                limits: limits
                    .into_iter()
                    .map(|(resource, value)| ResourceLimit { resource, value })
                    .collect(),
                landlock,
                seccomp: seccomp.concat(),
                exec_once,
                umask,
            },
        );
    let rest = (
        any::<[u64; 2]>(),
        any::<[bool; 2]>(),
        any::<u32>(),
        bytes(),
        [
            vec(bytes(), 0..3),
            vec(bytes(), 0..3),
            vec(bytes(), 0..3),
            vec(bytes(), 0..3),
        ],
    );
    let expected_objects =
        (bytes(), any::<[u64; 2]>()).prop_map(|(path, [device, inode])| ExpectedObject {
            path,
            device,
            inode,
        });
    let expected_objects = vec(expected_objects, 0..3);
    let egress = (table(), vec(range(), 0..3));
    let egress = egress.prop_map(|(table, ranges)| EgressSettings { table, ranges });
    let egress = option::of(egress);
    let all = (
        any::<[u8; 32]>(),
        rest,
        expected_objects,
        egress,
        confinement,
    );
    all.prop_map(|(key, rest, expected_objects, egress, confinement)| {
        let (
            [lease_ms, lifetime_ms],
            [owned, detached_after_attach],
            log_bytes,
            workdir,
            [launcher, chown_dirs, make_dirs, kill_count_files],
        ) = rest;
        AgentSettings {
            key: ClientKey::new(key),
            lease_ms,
            owned,
            detached_after_attach,
            lifetime_ms,
            log_bytes,
            workdir,
            expected_objects,
            chown_dirs,
            launcher,
            make_dirs,
            kill_count_files,
            egress,
            confinement,
        }
    })
}

pub fn report() -> impl Strategy<Value = ExitReport> {
    let kind = prop_oneof![
        any::<u8>().prop_map(ExitKind::Exited),
        (1u8..=64).prop_map(ExitKind::Signaled),
        Just(ExitKind::TimedOut),
        Just(ExitKind::Killed),
        Just(ExitKind::Lost),
    ];
    let numbers = (any::<[u64; 7]>(), any::<[u32; 4]>(), any::<Option<u64>>());
    (kind, numbers, any::<bool>()).prop_map(
        |(
            kind,
            (
                [
                    stdout_total,
                    stderr_total,
                    cpu_us,
                    max_rss_kib,
                    wall_us,
                    disk @ ..,
                ],
                [stragglers, survivors, refused_programs, refused_processes],
                memory_kills,
            ),
            drain_cut,
        )| {
            ExitReport {
                kind,
                stdout_total,
                stderr_total,
                stragglers,
                survivors,
                drain_cut,
                cpu_us,
                max_rss_kib,
                disk,
                wall_us,
                refused_programs,
                refused_processes,
                memory_kills,
            }
        },
    )
}

pub fn failure() -> impl Strategy<Value = Failure> {
    let step = proptest::sample::select(&FailStep::ALL);
    (any::<i32>(), ".{0,50}", step).prop_map(|(errno, detail, step)| Failure {
        step,
        errno,
        detail,
    })
}
