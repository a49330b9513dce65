//! The protocol's encoders and decoders: messages round-trip, and malformed ones are refused.

#[path = "protocol/strategies.rs"]
mod strategies;

use proptest::{collection::vec, prelude::*};
use sandbox_agent::protocol::{
    AgentSettings, Attach, Channel, ClientKey, ClosedReport, ConnectRequest, DialRequest,
    EgressTable, ExecProgram, ExecRequest, ExitReport, Failure, FrameBuffer, FrameKind, HEADER_LEN,
    Header, LogRequest, MAX_MESSAGE, MAX_PAYLOAD, MessageAssembler, ProtocolError, Setup,
    TerminalSize, VERSION, Welcome, encode_frame, encode_message,
};
use strategies::{builtin, connect, failure, report, request, settings, setup, table};

/// Runs every decoder, which must not panic.
fn decode_all(bytes: &[u8]) {
    let _ = Setup::decode(bytes);
    let _ = AgentSettings::decode(bytes);
    let _ = Welcome::decode(bytes);
    let _ = ExecRequest::decode(bytes);
    let _ = ExitReport::decode(bytes);
    let _ = Failure::decode(bytes);
    let _ = Channel::read_credit(bytes);
    let _ = Attach::decode(bytes);
    let _ = LogRequest::decode(bytes);
    let _ = DialRequest::decode(bytes);
    let _ = ConnectRequest::decode(bytes);
    let _ = EgressTable::decode(bytes);
    let _ = ClosedReport::decode(bytes);
    let _ = TerminalSize::decode(bytes);
}

/// Checks that a message round-trips, and that shorter and longer ones are refused.
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

/// All frames read from `bytes`, added in chunks of `piece` bytes.
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
    fn sizes_round_trip(rows in any::<u16>(), columns in any::<u16>()) {
        check!(TerminalSize { rows, columns }, TerminalSize);
    }

    #[test]
    fn builtin_with_a_terminal_is_refused(program in builtin(), rows in any::<u16>()) {
        let request = ExecRequest {
            program: ExecProgram::Builtin(program),
            env: Vec::new(),
            workdir: Vec::new(),
            stdin: false,
            timeout_ms: 0,
            log: false,
            root: false,
            terminal: Some(TerminalSize { rows, columns: 80 }),
        };
        prop_assert!(ExecRequest::decode(&request.encode()).is_err());
    }

    #[test]
    fn setups_round_trip(value in setup()) {
        check!(value, Setup);
    }

    #[test]
    fn settings_round_trip(value in settings()) {
        check!(value, AgentSettings);
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
    fn welcomes_round_trip((split, root) in any::<(bool, bool)>(), landlock_abi in any::<u32>(), capabilities in any::<u64>(), code in any::<(u32, u32)>()) {
        check!(Welcome { split, landlock_abi, capabilities, code, root }, Welcome);
    }

    #[test]
    fn attach_messages_round_trip(key in any::<[u8; 32]>()) {
        prop_assert_eq!(Attach { key: ClientKey::new(key) }.encode().len(), Attach::LEN);
        check!(Attach { key: ClientKey::new(key) }, Attach);
    }

    #[test]
    fn keys_are_equal_if_their_bytes_are(one in any::<[u8; 32]>(), at in 0usize..32, byte in any::<u8>()) {
        let mut other = one;
        other[at] = byte;
        prop_assert_eq!(ClientKey::new(one) == ClientKey::new(other), one == other);
    }

    #[test]
    fn log_requests_round_trip(tail in any::<u32>(), follow in any::<bool>()) {
        check!(LogRequest { tail, follow }, LogRequest);
    }

    #[test]
    fn connect_requests_round_trip(value in connect()) {
        check!(value, ConnectRequest);
    }

    #[test]
    fn egress_tables_round_trip(value in table()) {
        check!(value, EgressTable);
    }

    #[test]
    fn dial_requests_round_trip(port in 1u16..) {
        check!(DialRequest { port }, DialRequest);
    }

    #[test]
    fn closed_reports_round_trip(errno in 0..4096) {
        check!(ClosedReport { errno }, ClosedReport);
    }

    #[test]
    fn error_numbers_out_of_range_are_refused(errno in any::<i32>()) {
        let report = ClosedReport::decode(&errno.to_le_bytes());
        prop_assert_eq!(report.is_ok(), (0..4096).contains(&errno));
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
        let attach = Attach { key: ClientKey::new(key) };
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
            encode_frame(&mut stream, number, FrameKind::Stdout, false, &payload);
            let header = Header {
                stream: number,
                kind: FrameKind::Stdout,
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
        encode_message(&mut stream, 5, FrameKind::Exec, &message);
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
        kind: FrameKind::Exec,
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
        kind: FrameKind::Exec,
        more: true,
        length: 1,
    };
    for other in [
        Header {
            stream: 2,
            ..header
        },
        Header {
            kind: FrameKind::Stdin,
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
        kind: FrameKind::Ping,
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
        if let Ok(kind) = FrameKind::from_byte(byte) {
            assert_eq!(kind as u8, byte);
        }
    }
}

#[test]
fn list_length_is_bounded() {
    // A list longer than allowed, and one longer than its bytes.
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
    let mut message = Welcome::default().encode();
    let other = VERSION + 1;
    message[..2].copy_from_slice(&other.to_le_bytes());
    let refused = ProtocolError::Version(other);
    assert_eq!(Welcome::decode(&message), Err(refused));
    // Whatever the length of the other version's message.
    assert_eq!(Attach::decode(&other.to_le_bytes()), Err(refused));
}
