//! The link: bytes arrive once and in order, and anything else is a protocol violation.

use proptest::{collection::vec, prelude::*};
use sandbox_agent::protocol::{
    BeginLink, ClientKey, LINK_ACKNOWLEDGE, LINK_WINDOW, LinkEnd, MAX_PACKET, PACKET_HEADER,
    Packet, PacketKind, ProtocolError, Received, Resume, Resumed,
};

/// One end of a link, with its bytes.
#[derive(Default)]
struct Side {
    end: LinkEnd,
    kept: Vec<u8>,
    arrived: Vec<u8>,
}

impl Side {
    fn write(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// All packets that may be sent now.
    fn send(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(packet) = self.end.next_packet(self.kept.len()) {
            let from = self.end.in_flight();
            bytes.extend_from_slice(&packet.header);
            bytes.extend_from_slice(&self.kept[from..from + packet.length]);
            self.end.sent(packet.length);
        }
        assert!(self.end.in_flight() <= LINK_WINDOW);
        bytes
    }

    fn receive(&mut self, mut bytes: &[u8]) -> Result<(), ProtocolError> {
        while let Some(received) = self.end.receive(&mut bytes)? {
            match received {
                Received::Data(data) => self.arrived.extend_from_slice(data),
                Received::Acknowledged(count) => drop(self.kept.drain(..count)),
                Received::Close => return Ok(()),
            }
        }
        Ok(())
    }

    fn resume(&mut self, received: u64) -> Result<(), ProtocolError> {
        let count = self.end.resume(received)?;
        self.kept.drain(..count);
        Ok(())
    }
}

fn packet(kind: PacketKind, length: usize, acknowledged: u64) -> Vec<u8> {
    let header = Packet {
        kind,
        length,
        acknowledged,
    };
    let mut bytes = header.encode().to_vec();
    bytes.resize(PACKET_HEADER + length, b'x');
    bytes
}

/// The next event on a link between two ends.
#[derive(Debug, Clone)]
enum Event {
    Write(bool, usize),
    /// The first bytes of everything sent arrive, in pieces of this size.
    Carry(bool, usize, usize),
    /// The stream breaks after this many of the sent bytes have arrived in each direction.
    Break(usize, usize),
}

fn event() -> impl Strategy<Value = Event> {
    let size = prop_oneof![0..40usize, 0..200_000usize, Just(3 * MAX_PACKET)];
    prop_oneof![
        3 => (any::<bool>(), size.clone()).prop_map(|(side, count)| Event::Write(side, count)),
        3 => (any::<bool>(), 1..100_000usize).prop_map(|(side, piece)| Event::Carry(side, piece, usize::MAX)),
        1 => (size.clone(), size).prop_map(|(one, other)| Event::Break(one, other)),
    ]
}

fn carry(from: &mut Side, to: &mut Side, piece: usize, limit: usize) {
    let bytes = from.send();
    for piece in bytes[..bytes.len().min(limit)].chunks(piece) {
        to.receive(piece).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_in_order_despite_broken_streams(events in vec(event(), 1..60)) {
        let mut sides = [Side::default(), Side::default()];
        let mut written = [Vec::new(), Vec::new()];
        let mut next = 0u32;
        for event in events {
            let [one, other] = &mut sides;
            match event {
                Event::Write(second, count) => {
                    let bytes: Vec<u8> = (0..count).map(|_| { next = next.wrapping_mul(1_664_525).wrapping_add(1); (next >> 24) as u8 }).collect();
                    written[usize::from(second)].extend_from_slice(&bytes);
                    sides[usize::from(second)].write(&bytes);
                }
                Event::Carry(false, piece, limit) => carry(one, other, piece, limit),
                Event::Carry(true, piece, limit) => carry(other, one, piece, limit),
                Event::Break(there, back) => {
                    carry(one, other, 1000, there);
                    carry(other, one, 1000, back);
                    let (of_one, of_other) = (one.end.received(), other.end.received());
                    one.resume(of_other).unwrap();
                    other.resume(of_one).unwrap();
                }
            }
        }
        // Resuming repairs a packet that was cut.
        let [one, other] = &mut sides;
        let (of_one, of_other) = (one.end.received(), other.end.received());
        one.resume(of_other).unwrap();
        other.resume(of_one).unwrap();
        for _ in 0..200 {
            carry(one, other, 70_000, usize::MAX);
            carry(other, one, 70_000, usize::MAX);
        }
        prop_assert!(sides[1].arrived == written[0]);
        prop_assert!(sides[0].arrived == written[1]);
        // Unacknowledged bytes are bounded.
        prop_assert!(sides.iter().all(|side| side.kept.len() < LINK_ACKNOWLEDGE));
    }

    #[test]
    fn random_bytes_are_an_error_and_never_panic(pieces in vec(vec(any::<u8>(), 0..300), 1..20)) {
        let mut side = Side::default();
        side.write(&[1; 100]);
        side.send();
        let total: usize = pieces.iter().map(Vec::len).sum();
        for piece in pieces {
            if side.receive(&piece).is_err() {
                break;
            }
        }
        prop_assert!(side.arrived.len() <= total);
        prop_assert!(side.kept.len() <= 100);
    }

    #[test]
    fn headers_round_trip(bytes in any::<[u8; PACKET_HEADER]>()) {
        if let Ok(header) = Packet::decode(&bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn link_messages_round_trip(secret in any::<[u8; 32]>(), received in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let secret = ClientKey::new(secret);
        let link = BeginLink { secret: secret.clone() };
        let resume = Resume { secret, received };
        let resumed = Resumed { received };
        prop_assert_eq!(link.encode().len(), BeginLink::LEN);
        prop_assert_eq!(resume.encode().len(), Resume::LEN);
        prop_assert_eq!(resumed.encode().len(), Resumed::LEN);
        prop_assert_eq!(BeginLink::decode(&link.encode()), Ok(link.clone()));
        prop_assert_eq!(Resume::decode(&resume.encode()), Ok(resume.clone()));
        prop_assert_eq!(Resumed::decode(&resumed.encode()), Ok(resumed));
        prop_assert!(BeginLink::decode(&link.encode()[..cut.index(BeginLink::LEN)]).is_err());
        prop_assert!(Resume::decode(&resume.encode()[..cut.index(Resume::LEN)]).is_err());
        prop_assert!(Resumed::decode(&resumed.encode()[..cut.index(Resumed::LEN)]).is_err());
        prop_assert!(BeginLink::decode(&resume.encode()).is_err());
        prop_assert!(Resumed::decode(&[resumed.encode(), vec![0]].concat()).is_err());
    }
}

#[test]
fn invalid_headers_are_refused() {
    let good = packet(PacketKind::Data, 5, 0);
    let decode = |bytes: &[u8]| Packet::decode(bytes.first_chunk().unwrap());
    assert!(decode(&good).is_ok());
    for (at, byte) in [(0, 0), (0, 4), (1, 1), (2, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(decode(&bad).is_err(), "{at}");
    }
    let mut long = good;
    long[2..4].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(decode(&long), Err(ProtocolError::TooLarge("packet")));
    for kind in [PacketKind::Acknowledge, PacketKind::Close] {
        assert!(decode(&packet(kind, 1, 0)).is_err());
    }
}

#[test]
fn acknowledging_unsent_bytes_is_a_violation() {
    for kind in [PacketKind::Acknowledge, PacketKind::Data, PacketKind::Close] {
        let length = usize::from(kind == PacketKind::Data);
        let mut side = Side::default();
        side.write(&[0; 100]);
        // Queued, but not sent.
        assert!(side.receive(&packet(kind, length, 1)).is_err());
        let mut side = Side::default();
        side.write(&[0; 100]);
        side.send();
        side.write(&[0; 100]);
        assert!(side.receive(&packet(kind, length, 101)).is_err());
    }
}

#[test]
fn acknowledgement_cannot_go_backwards() {
    let mut side = Side::default();
    side.write(&[0; 100]);
    side.send();
    side.receive(&packet(PacketKind::Acknowledge, 0, 50))
        .unwrap();
    assert!(
        side.receive(&packet(PacketKind::Acknowledge, 0, 49))
            .is_err()
    );
}

#[test]
fn resume_outside_of_the_kept_bytes_is_refused() {
    let mut side = Side::default();
    side.write(&[0; 100]);
    side.send();
    side.receive(&packet(PacketKind::Acknowledge, 0, 50))
        .unwrap();
    side.write(&[0; 10]);
    for wrong in [0, 49, 101, 110, u64::MAX] {
        let mut side = Side {
            end: side.end.clone(),
            kept: side.kept.clone(),
            arrived: Vec::new(),
        };
        assert!(side.resume(wrong).is_err(), "{wrong}");
    }
    side.resume(70).unwrap();
    assert_eq!(side.kept.len(), 40);
    // Bytes that are sent again cannot have arrived before.
    assert!(
        side.receive(&packet(PacketKind::Acknowledge, 0, 71))
            .is_err()
    );
}

#[test]
fn exceeding_the_window_is_a_violation() {
    let mut side = Side::default();
    let piece = packet(PacketKind::Data, MAX_PACKET, 0);
    let mut count = 0;
    // No acknowledgement arrives meanwhile.
    let error = loop {
        match side.receive(&piece) {
            Ok(()) => count += MAX_PACKET,
            Err(error) => break error,
        }
        assert!(count <= LINK_WINDOW);
    };
    assert_eq!(error, ProtocolError::CreditExceeded);
    assert!(side.arrived.len() <= LINK_WINDOW);
}

#[test]
fn bytes_after_the_close_packet_are_refused() {
    let mut side = Side::default();
    side.receive(&packet(PacketKind::Close, 0, 0)).unwrap();
    assert!(
        side.receive(&packet(PacketKind::Acknowledge, 0, 0))
            .is_err()
    );
}
