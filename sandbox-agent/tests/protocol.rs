//! The protocol's encoders and decoders: what is written is read, and nothing else is taken for it.

use proptest::{collection::vec, option, prelude::*};
use sandbox_agent::protocol::{
    Attach, Builtin, Channel, Confinement, ExecRequest, ExitKind, ExitReport, FailStep, Failure,
    FrameBuffer, HEADER_LEN, Header, Key, Kind, LandlockPath, LandlockRules, Limit, LogRequest,
    MAX_MESSAGE, MAX_PAYLOAD, MessageAssembler, Mount, Object, Placed, Program, ProtocolError,
    Settings, Setup, UserLimit, Welcome, encode_frame, encode_message,
};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn builtin() -> impl Strategy<Value = Builtin> {
    prop_oneof![
        (bytes(), any::<u32>()).prop_map(|(path, mode)| Builtin::Put { path, mode }),
        bytes().prop_map(|path| Builtin::Get { path }),
        (bytes(), any::<u32>()).prop_map(|(path, depth)| Builtin::List { path, depth }),
        (bytes(), any::<u32>()).prop_map(|(path, mode)| Builtin::MakeDir { path, mode }),
        bytes().prop_map(|path| Builtin::Remove { path }),
    ]
}

fn request() -> impl Strategy<Value = ExecRequest> {
    let program = prop_oneof![
        vec(bytes(), 1..5).prop_map(|argv| Program::Command { argv }),
        builtin().prop_map(Program::Builtin),
    ];
    (
        program,
        vec(bytes(), 0..5),
        bytes(),
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(
            |(program, env, workdir, stdin, timeout_ms, log)| ExecRequest {
                program,
                env,
                workdir,
                stdin,
                timeout_ms,
                log,
            },
        )
}

fn object() -> impl Strategy<Value = Option<Object>> {
    option::of(any::<(u64, u64)>().prop_map(|(device, inode)| Object { device, inode }))
}

fn mount() -> impl Strategy<Value = Mount> {
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
        (bytes(), any::<(u64, u64, u32)>(), any::<[bool; 2]>()).prop_map(
            |(target, (size, inodes, mode), [exec, owned])| Mount::Tmpfs {
                target,
                size,
                inodes,
                mode,
                exec,
                owned
            }
        ),
        bytes().prop_map(|target| Mount::Proc { target }),
        bytes().prop_map(|target| Mount::Mqueue { target }),
        (bytes(), bytes()).prop_map(|(points_to, target)| Mount::Symlink { points_to, target }),
        (bytes(), any::<u32>(), any::<bool>()).prop_map(|(target, mode, owned)| Mount::Dir {
            target,
            mode,
            owned
        }),
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

fn setup() -> impl Strategy<Value = Setup> {
    (
        vec(mount(), 0..6),
        bytes(),
        any::<[bool; 5]>(),
        any::<(u32, u32)>(),
        vec((bytes(), any::<u64>()), 0..3),
    )
        .prop_map(|(mounts, hostname, flags, owner, user_limits)| {
            let [new_root, loopback, user_namespace, pid_one, die_with_parent] = flags;
            Setup {
                new_root,
                mounts,
                hostname,
                loopback,
                user_namespace,
                user_limits: user_limits
                    .into_iter()
                    .map(|(name, most)| UserLimit { name, most })
                    .collect(),
                owner,
                pid_one,
                die_with_parent,
            }
        })
}

fn settings() -> impl Strategy<Value = Settings> {
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
                    .map(|(resource, value)| Limit { resource, value })
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
        [vec(bytes(), 0..3), vec(bytes(), 0..3), vec(bytes(), 0..3)],
    );
    let placed = (bytes(), any::<[u64; 2]>()).prop_map(|(path, [device, inode])| Placed {
        path,
        device,
        inode,
    });
    let placed = vec(placed, 0..3);
    let all = (any::<[u8; 32]>(), rest, placed, confinement);
    all.prop_map(|(key, rest, placed, confinement)| {
        let (
            [lease_ms, lifetime_ms],
            [owned, handed_over],
            log_bytes,
            workdir,
            [give_dirs, make_dirs, kill_counts],
        ) = rest;
        Settings {
            key: Key::new(key),
            lease_ms,
            owned,
            handed_over,
            lifetime_ms,
            log_bytes,
            workdir,
            placed,
            give_dirs,
            make_dirs,
            kill_counts,
            confinement,
        }
    })
}

fn report() -> impl Strategy<Value = ExitReport> {
    let kind = prop_oneof![
        any::<u8>().prop_map(ExitKind::Exited),
        (1u8..=64).prop_map(ExitKind::Signaled),
        Just(ExitKind::TimedOut),
        Just(ExitKind::Killed),
        Just(ExitKind::Lost),
    ];
    let numbers = (any::<[u64; 5]>(), any::<[u32; 4]>(), any::<Option<u64>>());
    (kind, numbers, any::<bool>()).prop_map(
        |(
            kind,
            (
                [stdout_total, stderr_total, cpu_us, max_rss_kib, wall_us],
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
                wall_us,
                refused_programs,
                refused_processes,
                memory_kills,
            }
        },
    )
}

fn failure() -> impl Strategy<Value = Failure> {
    let step = proptest::sample::select(&FailStep::ALL);
    (any::<i32>(), ".{0,50}", step).prop_map(|(errno, detail, step)| Failure {
        step,
        errno,
        detail,
    })
}

/// Runs every decoder; whatever they say, they must say it.
fn decode_all(bytes: &[u8]) {
    let _ = Setup::decode(bytes);
    let _ = Settings::decode(bytes);
    let _ = Welcome::decode(bytes);
    let _ = ExecRequest::decode(bytes);
    let _ = ExitReport::decode(bytes);
    let _ = Failure::decode(bytes);
    let _ = Channel::read_credit(bytes);
    let _ = Attach::decode(bytes);
    let _ = LogRequest::decode(bytes);
}

/// A message that is written is read again, every shorter one is refused, and a longer one too.
macro_rules! check {
    ($value:expr, $type:ty) => {{
        let value = $value;
        let message = value.encode();
        prop_assert_eq!(<$type>::decode(&message), Ok(value));
        for end in 0..message.len() {
            prop_assert!(<$type>::decode(&message[..end]).is_err());
        }
        let longer = [&message[..], &[0]].concat();
        prop_assert_eq!(<$type>::decode(&longer), Err(ProtocolError::TrailingBytes));
    }};
}

/// Every frame that comes out when `bytes` go in as `pieces`.
fn frames(bytes: &[u8], piece: usize) -> Result<Vec<(Header, Vec<u8>)>, ProtocolError> {
    let mut buffer = FrameBuffer::new();
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        buffer.extend(piece);
        while let Some(frame) = buffer.next_frame()? {
            frames.push((frame.header, frame.payload.to_vec()));
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn requests_round_trip(value in request()) {
        check!(value, ExecRequest);
    }

    #[test]
    fn setups_round_trip(value in setup()) {
        check!(value, Setup);
    }

    #[test]
    fn settings_round_trip(value in settings()) {
        check!(value, Settings);
    }

    #[test]
    fn reports_round_trip(value in report()) {
        check!(value, ExitReport);
    }

    #[test]
    fn failures_round_trip(value in failure()) {
        check!(value, Failure);
    }

    #[test]
    fn welcomes_round_trip(split in any::<bool>(), landlock_abi in any::<u32>(), capabilities in any::<u64>()) {
        check!(Welcome { split, landlock_abi, capabilities }, Welcome);
    }

    #[test]
    fn attach_messages_round_trip(key in any::<[u8; 32]>()) {
        prop_assert_eq!(Attach { key: Key::new(key) }.encode().len(), Attach::LEN);
        check!(Attach { key: Key::new(key) }, Attach);
    }

    #[test]
    fn keys_are_equal_if_their_bytes_are(one in any::<[u8; 32]>(), at in 0usize..32, byte in any::<u8>()) {
        let mut other = one;
        other[at] = byte;
        prop_assert_eq!(Key::new(one) == Key::new(other), one == other);
    }

    #[test]
    fn log_requests_round_trip(tail in any::<u32>(), follow in any::<bool>()) {
        check!(LogRequest { tail, follow }, LogRequest);
    }

    #[test]
    fn decoding_any_bytes_never_panics(bytes in vec(any::<u8>(), 0..300)) {
        decode_all(&bytes);
        for piece in [1, 7, 300] {
            let _ = frames(&bytes, piece);
        }
    }

    #[test]
    fn decoding_mutated_messages_never_panics(
        request in request(),
        setup in setup(),
        settings in settings(),
        key in any::<[u8; 32]>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let attach = Attach { key: Key::new(key) };
        let logs = LogRequest { tail: 7, follow: true };
        let messages = [
            request.encode(),
            setup.encode(),
            settings.encode(),
            attach.encode(),
            logs.encode(),
        ];
        for mut message in messages {
            for (at, byte) in &changes {
                let at = at.index(message.len());
                message[at] = *byte;
            }
            decode_all(&message);
        }
    }

    #[test]
    fn frames_are_read_from_any_chunks(payloads in vec((any::<u32>(), vec(any::<u8>(), 0..200)), 1..6)) {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (number, payload) in payloads {
            encode_frame(&mut stream, number, Kind::Stdout, false, &payload);
            let header = Header {
                stream: number,
                kind: Kind::Stdout,
                more: false,
                length: payload.len(),
            };
            expected.push((header, payload));
        }
        for piece in 1..stream.len() {
            let found = frames(&stream, piece);
            prop_assert_eq!(found.as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn long_messages_are_split_and_joined(length in 0..MAX_MESSAGE, piece in 1usize..200_000) {
        let message: Vec<u8> = (0..length).map(|number| (number % 251) as u8).collect();
        let mut stream = Vec::new();
        encode_message(&mut stream, 5, Kind::Exec, &message);
        let mut assembler = MessageAssembler::new();
        let mut whole = None;
        for (header, payload) in frames(&stream, piece).unwrap() {
            prop_assert!(whole.is_none());
            whole = assembler.push(header, &payload).unwrap().map(<[u8]>::to_vec);
        }
        prop_assert!(whole == Some(message));
    }
}

#[test]
fn message_size_is_bounded() {
    let header = Header {
        stream: 1,
        kind: Kind::Exec,
        more: true,
        length: MAX_PAYLOAD,
    };
    let mut assembler = MessageAssembler::new();
    let payload = vec![0; MAX_PAYLOAD];
    let mut pushed = 0;
    let error = loop {
        match assembler.push(header, &payload) {
            Ok(message) => assert!(message.is_none()),
            Err(error) => break error,
        }
        pushed += payload.len();
    };
    assert_eq!(error, ProtocolError::TooLarge("message"));
    assert!(pushed <= MAX_MESSAGE && pushed + MAX_PAYLOAD > MAX_MESSAGE);
}

#[test]
fn interleaved_messages_are_refused() {
    let header = Header {
        stream: 1,
        kind: Kind::Exec,
        more: true,
        length: 1,
    };
    for other in [
        Header {
            stream: 2,
            ..header
        },
        Header {
            kind: Kind::Stdin,
            ..header
        },
    ] {
        let mut assembler = MessageAssembler::new();
        assert_eq!(assembler.push(header, &[1]), Ok(None));
        assert!(matches!(
            assembler.push(other, &[1]),
            Err(ProtocolError::Unexpected(_))
        ));
    }
}

#[test]
fn invalid_headers_are_refused() {
    let good = Header {
        stream: 7,
        kind: Kind::Ping,
        more: true,
        length: MAX_PAYLOAD,
    };
    assert_eq!(Header::decode(&good.encode()), Ok(good));
    let change = |at: usize, byte: u8| {
        let mut bytes: [u8; HEADER_LEN] = good.encode();
        bytes[at] = byte;
        Header::decode(&bytes)
    };
    assert_eq!(change(4, 0), Err(ProtocolError::UnknownKind(0)));
    assert_eq!(change(5, 2), Err(ProtocolError::BadValue("flags")));
    assert_eq!(change(6, 0xff), Err(ProtocolError::TooLarge("frame")));
    for byte in 0..=255u8 {
        if let Ok(kind) = Kind::from_byte(byte) {
            assert_eq!(kind as u8, byte);
        }
    }
}

#[test]
fn list_length_is_bounded() {
    // A list that claims more items than are allowed, and one that claims more than are there.
    let mut message = vec![0];
    message.extend(65_537u32.to_le_bytes());
    assert_eq!(
        ExecRequest::decode(&message),
        Err(ProtocolError::TooLarge("list"))
    );
    let mut message = vec![0];
    message.extend(65_536u32.to_le_bytes());
    assert_eq!(ExecRequest::decode(&message), Err(ProtocolError::Truncated));
    let mut message = vec![0];
    message.extend(0u32.to_le_bytes());
    assert_eq!(
        ExecRequest::decode(&message),
        Err(ProtocolError::BadValue("command"))
    );
}

#[test]
fn wrong_version_is_reported_with_its_number() {
    let mut message = Welcome {
        split: false,
        landlock_abi: 0,
        capabilities: 0,
    }
    .encode();
    message[0] = 9;
    assert_eq!(Welcome::decode(&message), Err(ProtocolError::Version(9)));
    // However long the other version's message is.
    assert_eq!(Attach::decode(&[9, 0]), Err(ProtocolError::Version(9)));
}
