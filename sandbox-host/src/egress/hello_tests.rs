use std::sync::Arc;

use proptest::prelude::*;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::super::first_flight;
use super::*;

/// The hello of a client that asks for this server.
pub(crate) fn hello(server: &str, sends_name: bool) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.enable_sni = sends_name;
    let server = server.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(config), server).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Adds an extension at the end of a hello in one record.
fn with_extension(mut bytes: Vec<u8>, kind: u16, content: &[u8]) -> Vec<u8> {
    let session = 5 + 4 + 34;
    let suites = session + 1 + usize::from(bytes[session]);
    let methods = suites + 2 + usize::from(u16::from_be_bytes([bytes[suites], bytes[suites + 1]]));
    let extensions = methods + 1 + usize::from(bytes[methods]);
    let added = u16::try_from(4 + content.len()).unwrap();
    // The lengths of the record, the message (its lower two bytes) and the extensions.
    for position in [3, 7, extensions] {
        let length = u16::from_be_bytes([bytes[position], bytes[position + 1]]) + added;
        bytes[position..position + 2].copy_from_slice(&length.to_be_bytes());
    }
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&(added - 4).to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// The same message in records of at most this many bytes.
fn fragmented(bytes: &[u8], size: usize) -> Vec<u8> {
    let record = |content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[HANDSHAKE, 3, 1], &length[..], content].concat()
    };
    bytes[5..].chunks(size).flat_map(record).collect()
}

#[test]
fn server_name_must_be_the_name() {
    assert_eq!(
        check(&hello("a.example.org", true), "a.example.org"),
        Flight::Matches
    );
    assert_eq!(
        check(&hello("A.Example.org", true), "a.example.org"),
        Flight::Matches
    );
    assert_eq!(
        check(&hello("b.example.org", true), "a.example.org"),
        Flight::Refused(Mismatch::ServerName("b.example.org".into()))
    );
    for absent in [hello("a.example.org", false), hello("127.0.0.1", true)] {
        assert_eq!(
            check(&absent, "a.example.org"),
            Flight::Refused(Mismatch::NoServerName)
        );
    }
}

#[test]
fn encrypted_hello_is_refused_whatever_it_names() {
    for kind in [0xfe0d, 0xfe0a] {
        let bytes = with_extension(hello("a.org", true), kind, &[0; 40]);
        assert_eq!(
            check(&bytes, "a.org"),
            Flight::Refused(Mismatch::EncryptedHello)
        );
    }
    // Other extensions are the client's business.
    let bytes = with_extension(hello("a.org", true), 0xaaaa, &[0; 40]);
    assert_eq!(check(&bytes, "a.org"), Flight::Matches);
}

#[test]
fn second_server_name_is_refused() {
    let name = |name: &[u8]| {
        let length = u16::try_from(name.len()).unwrap();
        let list = [
            &(length + 3).to_be_bytes()[..],
            &[HOST_NAME],
            &length.to_be_bytes(),
            name,
        ];
        list.concat()
    };
    let bytes = with_extension(hello("a.org", false), SERVER_NAME, &name(b"a.org"));
    assert_eq!(check(&bytes, "a.org"), Flight::Matches);
    let twice = with_extension(bytes, SERVER_NAME, &name(b"b.org"));
    assert_eq!(check(&twice, "a.org"), Flight::Refused(Mismatch::Tls));
    let mut two = name(b"a.org");
    two.extend_from_slice(&name(b"b.org")[2..]);
    let length = u16::try_from(two.len() - 2).unwrap();
    two[..2].copy_from_slice(&length.to_be_bytes());
    let two = with_extension(hello("a.org", false), SERVER_NAME, &two);
    assert_eq!(check(&two, "a.org"), Flight::Refused(Mismatch::Tls));
}

#[test]
fn fragments_and_pieces_are_joined() {
    let whole = hello("a.org", true);
    for size in [1, 2, 5, 100] {
        let bytes = fragmented(&whole, size);
        assert_eq!(check(&bytes, "a.org"), Flight::Matches, "{size}");
        assert_eq!(
            check(&bytes[..bytes.len() - 1], "a.org"),
            Flight::Incomplete
        );
    }
    for end in 1..whole.len() {
        assert_eq!(check(&whole[..end], "a.org"), Flight::Incomplete, "{end}");
    }
}

#[test]
fn other_records_and_messages_are_refused() {
    let mut bytes = hello("a.org", true);
    for (position, value) in [(1, 2), (5, 2), (6, 1)] {
        let before = std::mem::replace(&mut bytes[position], value);
        assert_eq!(
            check(&bytes, "a.org"),
            Flight::Refused(Mismatch::Tls),
            "{position}"
        );
        bytes[position] = before;
    }
    let alert_between = [&bytes[..5], &bytes[5..9], &[21, 3, 3, 0, 2, 1, 0]].concat();
    let mut alert_between = alert_between;
    alert_between[3..5].copy_from_slice(&[0, 4]);
    assert_eq!(
        check(&alert_between, "a.org"),
        Flight::Refused(Mismatch::Tls)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300), tls: bool) {
        let mut bytes = bytes;
        if tls {
            let length = u16::try_from(bytes.len()).unwrap().max(1);
            bytes.splice(0..0, [HANDSHAKE, 3, 1].into_iter().chain(length.to_be_bytes()));
        }
        prop_assert_ne!(check(&bytes, "a.org"), Flight::Matches);
        let _ = first_flight::check(&bytes, "a.org", 443);
    }

    #[test]
    fn damaged_hello_never_passes_for_another_name(position in 0usize..200, value: u8) {
        let mut bytes = hello("a.org", true);
        let position = position % bytes.len();
        bytes[position] = value;
        prop_assert_ne!(check(&bytes, "b.org.example"), Flight::Matches);
    }
}
