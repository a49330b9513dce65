//! Classifies pull and build failures. Engines pass on the messages of registries and the network
//! as text.

use sandbox_core::ErrorKind;

/// Messages of the network. Checked first: "no such host" is not a missing image.
const UNREACHABLE: [&str; 12] = [
    "dial tcp",
    "no such host",
    "connection refused",
    "connection reset",
    "i/o timeout",
    "tls handshake",
    "x509:",
    "timeout exceeded",
    "deadline exceeded",
    "network is unreachable",
    "http response to https client",
    "unexpected eof",
];

/// Messages of registries that require authentication. Some also use them for missing images.
const DENIED: [&str; 6] = [
    "denied",
    "unauthorized",
    "authentication required",
    "no basic auth credentials",
    "401 ",
    "403 ",
];

/// Messages of registries without such an image.
const NOT_FOUND: [&str; 5] = [
    "manifest unknown",
    "name unknown",
    "not found",
    "no matching manifest",
    "no such image",
];

/// Messages of an overloaded registry.
const BUSY: [&str; 3] = [
    "toomanyrequests",
    "too many requests",
    "service unavailable",
];

/// The error kind for an engine's message; `None` if unknown.
pub(super) fn classify(message: &str) -> Option<ErrorKind> {
    let message = message.to_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if contains_any(&["no space left on device"]) {
        Some(ErrorKind::StorageFull)
    } else if contains_any(&UNREACHABLE) || contains_any(&BUSY) {
        Some(ErrorKind::RegistryUnreachable)
    } else if contains_any(&DENIED) {
        Some(ErrorKind::ImageDenied)
    } else if contains_any(&NOT_FOUND) {
        Some(ErrorKind::ImageNotFound)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_messages_are_classified() {
        for (message, kind) in [
            (
                "manifest for 127.0.0.1:1/x:2 not found: manifest unknown: manifest unknown",
                ErrorKind::ImageNotFound,
            ),
            (
                "Head \"http://127.0.0.1:1/v2/x/manifests/1\": no basic auth credentials",
                ErrorKind::ImageDenied,
            ),
            (
                "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
                ErrorKind::ImageDenied,
            ),
            (
                "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
                ErrorKind::RegistryUnreachable,
            ),
            (
                "Get \"https://registry.invalid/v2/\": dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host",
                ErrorKind::RegistryUnreachable,
            ),
            (
                "initializing source docker://127.0.0.1:1/x:1: pinging container registry 127.0.0.1:1: Get \"https://127.0.0.1:1/v2/\": http: server gave HTTP response to HTTPS client",
                ErrorKind::RegistryUnreachable,
            ),
            (
                "initializing source docker://x:1: reading manifest 1 in 127.0.0.1:1/x: manifest unknown",
                ErrorKind::ImageNotFound,
            ),
            (
                "write /var/lib/x: no space left on device",
                ErrorKind::StorageFull,
            ),
        ] {
            assert_eq!(classify(message), Some(kind), "{message}");
        }
        assert_eq!(classify("something else"), None);
    }
}
