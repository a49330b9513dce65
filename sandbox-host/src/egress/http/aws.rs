//! Requests to AWS. Code signs them with the text that stands for its secret key, so the host signs
//! them again with the key itself, by Signature Version 4.
//!
//! No setting says which secret is the key: it is the one whose text verifies the code's signature.

mod canonical;

use std::sync::Arc;

use ::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use ::http::request::Parts;
use ring::hmac;
use sandbox_core::spi::PlaceholderSecret;

use super::head::{RequestedServer, short};
use super::placeholders::{self, Placeholders};
use canonical::{PathForm, SignedRequest, decoded, hex, pairs, sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The header whose value is signed in place of the body's hash.
const CONTENT_HASH: &str = "x-amz-content-sha256";

const SIGNATURE_PARAMETER: &str = "X-Amz-Signature";

// A message shows 200 characters.

const UNREADABLE: &str = "a secret would change it, and its AWS signature cannot be read: it must \
                          be complete, with sorted headers and X-Amz-Date";

const SEVERAL: &str = "a secret would change it, and it has several signatures of AWS";

const OTHER_ALGORITHM: &str = "the host makes no AWS signature but AWS4-HMAC-SHA256, and a secret \
                               would change the request: set AWS_AUTH_SCHEME_PREFERENCE=sigv4";

const UNKNOWN_KEY: &str = "a secret would change what its AWS signature covers, and no placeholder \
                           made the signature: pass AWS_SECRET_ACCESS_KEY as a secret for this host, too";

const CHUNKS: &str = "its AWS signature covers each chunk of the body, which the host does not sign \
                      again: set payload_signing_enabled=false (Java: chunkedEncodingEnabled(false))";

pub(super) const TOO_LONG: &str = "its AWS signature covers a body of more than 16 MiB, which the \
                                   host does not read: send its hash as x-amz-content-sha256";

/// A signature as a request has it.
struct Signature {
    is_in_query: bool,
    /// The name of the key, and the scope.
    credential: String,
    /// What the key is for: the day, region and service, and `aws4_request`.
    scope: String,
    /// The time of the signature.
    date: String,
    /// The names of headers, sorted, between semicolons.
    headers: String,
    value: [u8; 32],
}

/// A signed request, as code sent it.
pub(super) struct Signed(Kind);

enum Kind {
    /// By a text that stands for this secret.
    WithPlaceholder {
        secret: Arc<PlaceholderSecret>,
        form: PathForm,
        headers: String,
    },
    /// By another key. This is what it signs, with the name of the key.
    WithOtherKey(String),
    /// In a way that the host does not understand.
    Unreadable(&'static str),
}

/// Whether a request is signed, and the signature covers the body by a hash that is in no header.
pub(super) fn covers_body(headers: &HeaderMap, path: &str) -> bool {
    let signature = Signature::of(headers, path);
    matches!(signature, Ok(Some(signature)) if signature.payload(headers).is_none())
}

impl Signed {
    /// Looks at the signature of a request, if it has one. The body is that which
    /// [`covers_body`] asks for, unless it is too long.
    pub(super) fn of(
        server: RequestedServer<'_>,
        placeholders: &Placeholders,
        parts: &Parts,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Option<Self>, String> {
        let signature = match Signature::of(&parts.headers, path) {
            Ok(Some(signature)) => signature,
            Ok(None) => return Ok(None),
            Err(why) => return Ok(Some(Self(Kind::Unreadable(why)))),
        };
        if body.is_none() && signature.payload(&parts.headers).is_none() {
            return Ok(Some(Self(Kind::Unreadable(TOO_LONG))));
        }
        let mut keys = Vec::new();
        for (text, secret) in placeholders.all() {
            keys.push((signature.key(text.as_bytes()), secret));
        }
        for form in PathForm::ALL {
            let Ok(text) = signature.text(parts, path, body, form) else {
                return Ok(Some(Self(Kind::Unreadable(UNREADABLE))));
            };
            // The comparison takes the same time for every wrong signature.
            let mut keys = keys.iter();
            let key =
                keys.find(|(key, _)| hmac::verify(key, text.as_bytes(), &signature.value).is_ok());
            let Some((_, secret)) = key else { continue };
            placeholders::check(server, secret)?;
            let payload = signature.payload(&parts.headers);
            if payload.is_some_and(|payload| payload.starts_with("STREAMING-AWS4-")) {
                return Err(CHUNKS.to_owned());
            }
            return Ok(Some(Self(Kind::WithPlaceholder {
                secret: Arc::clone(secret),
                form,
                headers: signature.headers,
            })));
        }
        let covered = signature.covered(parts, path, body);
        Ok(Some(Self(match covered {
            Ok(covered) => Kind::WithOtherKey(covered),
            Err(_) => Kind::Unreadable(UNREADABLE),
        })))
    }

    /// Signs the request again, as the server gets it. `used` are the names of the secrets in it;
    /// the key's is added.
    pub(super) fn renew(
        &self,
        parts: &mut Parts,
        body: Option<&[u8]>,
        is_body_changed: bool,
        used: &mut Vec<String>,
    ) -> Result<(), String> {
        let path = parts.uri.to_string();
        let hash = parts.headers.get_mut(CONTENT_HASH);
        let hash = hash.filter(|hash| is_body_changed && unhex(hash.as_bytes()).is_some());
        match &self.0 {
            // They are the code's own credentials.
            Kind::WithOtherKey(_) | Kind::Unreadable(_) if used.is_empty() => Ok(()),
            Kind::Unreadable(why) => Err((*why).to_owned()),
            // The hash no longer fits the body.
            Kind::WithOtherKey(_) if hash.is_some() => Err(UNKNOWN_KEY.to_owned()),
            Kind::WithOtherKey(covered) => {
                let now = match Signature::of(&parts.headers, &path) {
                    Ok(Some(signature)) => signature.covered(parts, &path, body).ok(),
                    _ => None,
                };
                let is_same = now.as_ref() == Some(covered);
                is_same.then_some(()).ok_or_else(|| UNKNOWN_KEY.to_owned())
            }
            Kind::WithPlaceholder {
                secret,
                form,
                headers,
            } => {
                if let (Some(hash), Some(body)) = (hash, body) {
                    *hash = HeaderValue::from_str(&sha256(body)).map_err(|_| UNREADABLE)?;
                }
                let signature = of_passed(parts, &path, headers)?;
                let text = signature.text(parts, &path, body, *form)?;
                let key = signature.key(secret.value.expose());
                let value = hex(hmac::sign(&key, text.as_bytes()).as_ref());
                signature.put(parts, &path, &value)?;
                if !used.contains(&secret.name) {
                    used.push(secret.name.clone());
                }
                Ok(())
            }
        }
    }
}

/// The signature of a request as the server gets it, whose code signed these headers.
fn of_passed(parts: &Parts, path: &str, headers: &str) -> Result<Signature, String> {
    // Code wrote these names. Those of the new request can have a secret in them.
    let mut names = headers.split(';');
    if let Some(name) = names.find(|name| !parts.headers.contains_key(*name)) {
        return Err(format!(
            "its AWS signature covers the header {}, which the host does not pass on: do not sign it",
            short(name)
        ));
    }
    match Signature::of(&parts.headers, path) {
        Ok(Some(signature)) if signature.headers == headers => Ok(signature),
        _ => Err(UNREADABLE.to_owned()),
    }
}

impl Signature {
    /// The signature of a request, or why it cannot be read.
    fn of(headers: &HeaderMap, path: &str) -> Result<Option<Self>, &'static str> {
        let algorithm = pairs(path).find(|(name, _)| name == b"X-Amz-Algorithm");
        let algorithm = algorithm.filter(|(_, value)| value.starts_with(b"AWS4-"));
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let is_in_header = values.any(|value| value.as_bytes().starts_with(b"AWS4-"));
        if !is_in_header && algorithm.is_none() {
            return Ok(None);
        }
        let is_in_query = algorithm.is_some();
        if is_in_header && (is_in_query || headers.get_all(AUTHORIZATION).iter().count() > 1) {
            return Err(SEVERAL);
        }
        let (algorithm, fields) = match algorithm {
            Some((_, algorithm)) => {
                let text = |(name, value)| {
                    Some((
                        String::from_utf8(name).ok()?,
                        String::from_utf8(value).ok()?,
                    ))
                };
                let fields = pairs(path).filter_map(text).collect::<Vec<_>>();
                (String::from_utf8(algorithm).unwrap_or_default(), fields)
            }
            None => of_header(headers).ok_or(UNREADABLE)?,
        };
        if algorithm != ALGORITHM {
            return Err(OTHER_ALGORITHM);
        }
        let one = |name: &str| {
            let mut found = fields.iter().filter(|(own, _)| own == name);
            match (found.next(), found.next()) {
                (Some((_, value)), None) => Ok(value.clone()),
                _ => Err(UNREADABLE),
            }
        };
        let (credential, date, names, value) = match is_in_query {
            true => (
                one("X-Amz-Credential")?,
                one("X-Amz-Date")?,
                one("X-Amz-SignedHeaders")?,
                one(SIGNATURE_PARAMETER)?,
            ),
            false => (
                one("Credential")?,
                single(headers, "x-amz-date").ok_or(UNREADABLE)?,
                one("SignedHeaders")?,
                one("Signature")?,
            ),
        };
        // A line break in the query would divide the text that is signed.
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // Each of them once, so that what is signed is no longer than the request.
        let is_sorted = names.split(';').is_sorted_by(|one, next| one < next);
        let parts = credential.rsplitn(5, '/').collect::<Vec<_>>();
        let is_scope = parts.len() == 5 && parts[0] == "aws4_request";
        let value = unhex(value.as_bytes()).ok_or(UNREADABLE)?;
        if !is_scope || !is_sorted || !is_word(&credential) || !is_word(&date) || !is_word(&names) {
            return Err(UNREADABLE);
        }
        let scope = credential[parts[4].len() + 1..].to_owned();
        Ok(Some(Self {
            is_in_query,
            credential,
            scope,
            date,
            headers: names,
            value,
        }))
    }

    /// What is signed in place of the body; `None` if that is its hash.
    fn payload(&self, headers: &HeaderMap) -> Option<String> {
        if let Some(value) = headers.get(CONTENT_HASH) {
            return Some(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
        // A URL for S3 is made before its body is known.
        let service = self.scope.split('/').nth(2).unwrap_or_default();
        (self.is_in_query && service.starts_with("s3")).then(|| "UNSIGNED-PAYLOAD".to_owned())
    }

    /// The text that is signed.
    fn text(
        &self,
        parts: &Parts,
        path: &str,
        body: Option<&[u8]>,
        form: PathForm,
    ) -> Result<String, String> {
        let payload = match (self.payload(&parts.headers), body) {
            (Some(payload), _) => payload,
            (None, Some(body)) => sha256(body),
            // The header with its hash was there, and is not passed on.
            (None, None) => return Err(UNREADABLE.to_owned()),
        };
        let request = SignedRequest {
            method: parts.method.as_str(),
            path,
            without: self.is_in_query.then_some(SIGNATURE_PARAMETER),
            headers: &parts.headers,
            names: &self.headers,
            payload: &payload,
        };
        let hash = sha256(&request.canonical(form).ok_or(UNREADABLE)?);
        let Self { date, scope, .. } = self;
        Ok(format!("{ALGORITHM}\n{date}\n{scope}\n{hash}"))
    }

    /// What the signature covers, with the name of its key.
    fn covered(&self, parts: &Parts, path: &str, body: Option<&[u8]>) -> Result<String, String> {
        let text = self.text(parts, path, body, PathForm::AsSent)?;
        Ok(format!("{text}\n{}", self.credential))
    }

    /// The key for the scope.
    fn key(&self, secret: &[u8]) -> hmac::Key {
        let first = [b"AWS4", secret].concat();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &first);
        self.scope.split('/').fold(key, |key, part| {
            let derived = hmac::sign(&key, part.as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        })
    }

    /// Puts a new value in its place.
    fn put(&self, parts: &mut Parts, path: &str, value: &str) -> Result<(), String> {
        if !self.is_in_query {
            let header = format!(
                "{ALGORITHM} Credential={}, SignedHeaders={}, Signature={value}",
                self.credential, self.headers
            );
            let mut header = HeaderValue::from_str(&header).map_err(|_| UNREADABLE)?;
            header.set_sensitive(true);
            parts.headers.insert(AUTHORIZATION, header);
            return Ok(());
        }
        let (before, query) = path.split_once('?').unwrap_or((path, ""));
        let query = query.split('&').map(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            match decoded(name) == SIGNATURE_PARAMETER.as_bytes() {
                true => format!("{name}={value}"),
                false => pair.to_owned(),
            }
        });
        let query = query.collect::<Vec<_>>().join("&");
        parts.uri = format!("{before}?{query}")
            .parse()
            .map_err(|_| UNREADABLE)?;
        Ok(())
    }
}

/// The algorithm and the fields of a header.
fn of_header(headers: &HeaderMap) -> Option<(String, Vec<(String, String)>)> {
    let text = single(headers, AUTHORIZATION.as_str())?;
    let (algorithm, fields) = text.split_once(' ')?;
    let fields = fields.split(',').map(|field| {
        let (name, value) = field.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    Some((algorithm.to_owned(), fields.collect::<Option<_>>()?))
}

/// The value of a header that is there once.
fn single(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.to_str().ok()?.to_owned()),
        _ => None,
    }
}

/// The bytes of a hash in hexadecimal digits.
fn unhex(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
#[path = "aws_tests.rs"]
mod tests;
