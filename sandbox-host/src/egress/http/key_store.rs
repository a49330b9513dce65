//! Key stores of Java.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The first bytes of a key store in the format JKS, and its version.
const HEADER: [u8; 8] = [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];

/// Marks an entry as a trusted certificate.
const TRUSTED: u32 = 2;

/// The password that Java's own key store has. It protects nothing: the content is public, and Java
/// reads certificates without a password.
const PASSWORD: &str = "changeit";

/// A key store with these certificates in DER format. Java has read JKS since 1.2, and it prefers
/// PKCS #12 only for what it writes.
pub(super) fn java(certificates: &[&[u8]]) -> Vec<u8> {
    let mut store = HEADER.to_vec();
    store.extend(length(certificates.len()));
    for (index, certificate) in certificates.iter().enumerate() {
        store.extend(TRUSTED.to_be_bytes());
        text(&mut store, &format!("sandbox-{index}"));
        // The date of the entry.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        store.extend(length(certificate.len()));
        store.extend(*certificate);
    }
    let mut signed: Vec<u8> = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect();
    signed.extend(b"Mighty Aphrodite");
    signed.extend(&store);
    store.extend(digest(&SHA1_FOR_LEGACY_USE_ONLY, &signed).as_ref());
    store
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// Short ASCII text, after its length.
fn text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    store.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::java;

    #[test]
    fn key_store_has_the_format_that_java_reads() {
        let store = java(&[&[1, 2, 3]]);
        let expected = [
            &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1][..],
            &[0, 0, 0, 2, 0, 9],
            b"sandbox-0",
            &[0; 8],
            &[0, 5],
            b"X.509",
            &[0, 0, 0, 3, 1, 2, 3],
        ]
        .concat();
        assert_eq!(store[..expected.len()], expected);
        assert_eq!(store.len(), expected.len() + 20);
    }
}
