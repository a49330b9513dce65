use alloc::vec;

use proptest::prelude::*;

use super::*;

struct One;

impl Directory for One {
    fn look_up(&mut self, name: &[u8]) -> Lookup {
        match name {
            b"www.example.org" => Lookup::Addresses(Ipv4Addr::new(198, 18, 0, 2), None),
            b"six.example.org" => Lookup::Addresses(
                Ipv4Addr::new(198, 18, 0, 3),
                Some(Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 2)),
            ),
            b"full.example.org" => Lookup::Failed,
            _ => Lookup::Denied,
        }
    }

    fn name_of(&self, address: IpAddr) -> Option<Vec<u8>> {
        let own = ["198.18.0.2", "fd00:5b::2"].map(|own| own.parse::<IpAddr>().unwrap());
        own.contains(&address).then(|| b"www.example.org".to_vec())
    }
}

fn ask(name: &str, kind: u16, options: bool) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(options)];
    message.extend(encoded(name.as_bytes()));
    message.extend(kind.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    if options {
        message.extend(extended(false));
    }
    message
}

/// The code, the data of the answer, and whether the text of a blocked name is there.
fn answered(name: &str, kind: u16) -> (u8, Vec<u8>, bool) {
    let question = ask(name, kind, true);
    let answer = answer(&question, &mut One).unwrap();
    assert_eq!(answer[..2], question[..2]);
    assert_eq!(
        answer[2] & 0x81,
        0x81,
        "an answer, with the wish for recursion"
    );
    let end = question.len() - extended(false).len();
    assert_eq!(answer[12..end], question[12..end], "the question unchanged");
    let data = match answer[7] {
        0 => Vec::new(),
        _ => {
            let length = usize::from(u16::from_be_bytes([answer[end + 10], answer[end + 11]]));
            answer[end + 12..end + 12 + length].to_vec()
        }
    };
    let blocked = answer.ends_with(b"allows the name");
    (answer[3] & 0xf, data, blocked)
}

#[test]
fn allowed_name_has_its_address_in_any_case() {
    for name in ["www.example.org", "WwW.eXample.ORG"] {
        assert_eq!(answered(name, TYPE_A), (0, vec![198, 18, 0, 2], false));
    }
}

#[test]
fn other_types_of_an_allowed_name_have_no_data() {
    // AAAA without IPv6, TXT, SVCB, HTTPS, ANY.
    for kind in [TYPE_AAAA, 16, 64, 65, 255] {
        assert_eq!(answered("www.example.org", kind), (0, vec![], false));
    }
    let (code, data, _) = answered("six.example.org", TYPE_AAAA);
    assert_eq!((code, data.len()), (0, 16));
}

#[test]
fn denied_name_resolves_to_nothing() {
    for name in [
        "example.org",
        "data.attacker.example",
        "a b.example.org",
        "\u{e9}.org",
    ] {
        for kind in [TYPE_A, TYPE_AAAA, 16, 65] {
            assert_eq!(answered(name, kind), (3, vec![], true), "{name}");
        }
    }
    assert_eq!(answered("full.example.org", TYPE_A), (2, vec![], false));
}

#[test]
fn own_addresses_have_names() {
    let name = encoded(b"www.example.org");
    let six = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.5.0.0.0.0.d.f.ip6.arpa";
    for reverse in ["2.0.18.198.in-addr.arpa", six] {
        assert_eq!(answered(reverse, TYPE_PTR), (0, name.clone(), false));
        assert_eq!(answered(reverse, TYPE_A), (0, vec![], false));
    }
    assert_eq!(answered("3.0.18.198.in-addr.arpa", TYPE_PTR).0, 3);
    for other in [
        "x.0.18.198.in-addr.arpa",
        "1.2.0.18.198.in-addr.arpa",
        "0.ip6.arpa",
    ] {
        assert_eq!(answered(other, TYPE_PTR).0, 3, "{other}");
    }
}

#[test]
fn client_without_options_gets_none() {
    let answer = answer(&ask("denied.example", TYPE_A, false), &mut One).unwrap();
    assert_eq!((answer[3] & 0xf, answer[11]), (3, 0));
}

#[test]
fn malformed_questions_are_answered_with_an_error_or_not_at_all() {
    let good = ask("www.example.org", TYPE_A, true);
    let code = |message: &[u8]| answer(message, &mut One).map(|answer| answer[3] & 0xf);
    assert_eq!(code(&good), Some(0));
    for end in 0..12 {
        assert_eq!(code(&good[..end]), None);
    }
    for end in 12..good.len() {
        assert_eq!(code(&good[..end]), Some(1), "{end}");
    }
    let with = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        message
    };
    assert_eq!(code(&with(2, 0x81)), None, "an answer");
    assert_eq!(code(&with(2, 0x28)), Some(4), "an update");
    assert_eq!(code(&with(5, 2)), Some(1), "two questions");
    assert_eq!(code(&with(11, 9)), Some(1), "too many records");
    assert_eq!(code(&with(12, 0xc0)), Some(1), "a pointer");
    assert_eq!(code(&with(good.len() - 12, 3)), Some(5), "another class");
}

proptest! {
    #[test]
    fn any_bytes_are_answered_within_bounds(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        valid in any::<bool>(),
    ) {
        let mut message = if valid { vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1] } else { Vec::new() };
        message.extend(&bytes);
        if let Some(answer) = answer(&message, &mut One) {
            prop_assert!(answer.len() >= 12 && answer.len() <= 512);
            prop_assert_eq!(&answer[..2], &message[..2]);
        }
    }

    #[test]
    fn mutated_questions_never_panic(
        at in 0usize..60, byte in any::<u8>(), kind in any::<u16>(),
    ) {
        let mut message = ask("www.example.org", kind, true);
        if let Some(place) = message.get_mut(at) {
            *place = byte;
        }
        let _ = answer(&message, &mut One);
    }
}
