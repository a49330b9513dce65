//! The form of a request whose hash is signed: the canonical request of Signature Version 4.

use ::http::HeaderMap;
use percent_encoding::{AsciiSet, percent_decode_str, percent_encode};
use ring::digest;

use crate::egress::http::placeholders::RESERVED;

/// What a path keeps.
const PATH: &AsciiSet = &RESERVED.remove(b'/');

/// How a path is signed. A request does not say it: it depends on the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathForm {
    /// As it is sent: S3.
    AsSent,
    /// Without `.`, `..` and empty parts, and percent-encoded once more: the other services.
    Normalized,
    /// Percent-encoded once more alone. Some SDKs do not normalize.
    Encoded,
}

/// A request, and what of it is signed.
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    /// With its query.
    pub(super) path: &'a str,
    /// The parameter of the query that is not signed.
    pub(super) without: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// The names of the signed headers, between semicolons.
    pub(super) names: &'a str,
    /// What is signed in place of the body.
    pub(super) payload: &'a str,
}

impl PathForm {
    pub(super) const ALL: [Self; 3] = [Self::AsSent, Self::Normalized, Self::Encoded];

    fn of(self, path: &str) -> String {
        match self {
            Self::AsSent => path.to_owned(),
            Self::Normalized => Self::Encoded.of(&normalized(path)),
            Self::Encoded => percent_encode(path.as_bytes(), PATH).to_string(),
        }
    }
}

impl SignedRequest<'_> {
    /// The canonical request. `None` if a signed header is missing.
    pub(super) fn canonical(&self, form: PathForm) -> Option<Vec<u8>> {
        let path = self.path.split('?').next().unwrap_or_default();
        let begin = format!("{}\n{}\n{}\n", self.method, form.of(path), self.query());
        let mut headers = Vec::new();
        for name in self.names.split(';') {
            let mut values = self.headers.get_all(name).iter().peekable();
            values.peek()?;
            let values = values.map(|value| collapsed(value.as_bytes()));
            let values = values.collect::<Vec<_>>().join(&b","[..]);
            headers.extend([name.as_bytes(), b":", &*values, b"\n"].concat());
        }
        let end = format!("\n{}\n{}", self.names, self.payload);
        Some([begin.as_bytes(), &headers, end.as_bytes()].concat())
    }

    /// The query, encoded anew as servers do it, and sorted.
    fn query(&self) -> String {
        let encoded = |text: Vec<u8>| percent_encode(&text, RESERVED).to_string();
        let mut pairs: Vec<_> = pairs(self.path)
            .filter(|(name, _)| {
                self.without
                    .is_none_or(|without| name != without.as_bytes())
            })
            .map(|(name, value)| (encoded(name), encoded(value)))
            .collect();
        pairs.sort();
        let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// The parameters of a path's query, decoded.
pub(super) fn pairs(path: &str) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// A name or a value of a query, in which servers read `+` as a space.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// A path by section 5.2.4 of RFC 3986, and without empty parts.
fn normalized(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let end = match path.ends_with('/') && !parts.is_empty() {
        true => "/",
        false => "",
    };
    format!("/{}{end}", parts.join("/"))
}

/// A header's value without spaces around it, and with single ones inside.
fn collapsed(value: &[u8]) -> Vec<u8> {
    let words = value.trim_ascii().split(|byte| *byte == b' ');
    let words = words.filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
